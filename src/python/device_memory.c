/*
 * What torch's CUDA allocator holds, for the samples of a process that uses it.
 *
 * Only the interpreter can tell, and the keeper must not wait for the GIL: a program may hold it for minutes. So the keeper
 * asks for a pending call, which the main thread makes between two bytecodes, and waits a moment. An answer that comes
 * later is taken at the next sample; where none comes, the figures are not measured. Nothing is asked as long as the
 * CUDA driver is not loaded; nothing is imported or initialised.
 */
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "python/module.h"

#define PATIENCE_NS 5000000
#define NAP_NS 200000
#define ASK_AGAIN_NS 10000000000u /* of a call that nobody made: it was lost in a fork */
#define FRESH_NS 1500000000u      /* of an answer: since about the sample before */

/* The main thread writes the answer, its time last. */
static _Atomic uint64_t asked_ns; /* 0: no call is under way */
static _Atomic uint64_t answered_ns, allocated, reserved;
static _Atomic pid_t answered_in;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* stats["allocated_bytes"]["all"]["current"] of torch._C._cuda_memoryStats(device); false, without an exception, if that
   is not there. */
static bool bytes_in(PyObject *stats, const char *kind, uint64_t *sum)
{
    PyObject *at = PyDict_Check(stats) ? PyDict_GetItemString(stats, kind) : NULL;
    at = at && PyDict_Check(at) ? PyDict_GetItemString(at, "all") : NULL;
    at = at && PyDict_Check(at) ? PyDict_GetItemString(at, "current") : NULL;
    if (at == NULL || !PyLong_Check(at))
        return false;
    *sum += PyLong_AsUnsignedLongLongMask(at);
    return true;
}

/* By one call into C++, which is a tenth of what the two functions below cost. */
static bool add_fast(PyObject *torch, long device, uint64_t sums[2])
{
    PyObject *c = PyObject_GetAttrString(torch, "_C");
    PyObject *stats = c ? PyObject_CallMethod(c, "_cuda_memoryStats", "l", device) : NULL;
    bool known = stats && bytes_in(stats, "allocated_bytes", &sums[0]) && bytes_in(stats, "reserved_bytes", &sums[1]);
    Py_XDECREF(stats);
    Py_XDECREF(c);
    PyErr_Clear();
    return known;
}

static bool add_by(PyObject *cuda, const char *function, long device, uint64_t *sum)
{
    PyObject *bytes = PyObject_CallMethod(cuda, function, "l", device);
    bool known = bytes && PyLong_Check(bytes);
    if (known)
        *sum += PyLong_AsUnsignedLongLongMask(bytes);
    Py_XDECREF(bytes);
    PyErr_Clear();
    return known;
}

static long count_devices(PyObject *cuda)
{
    PyObject *initialized = PyObject_CallMethod(cuda, "is_initialized", NULL), *count = NULL;
    if (initialized == Py_True)
        count = PyObject_CallMethod(cuda, "device_count", NULL);
    long n = count && PyLong_Check(count) ? PyLong_AsLong(count) : 0;
    Py_XDECREF(count);
    Py_XDECREF(initialized);
    PyErr_Clear();
    return n;
}

static bool add_up(PyObject *torch, uint64_t sums[2])
{
    PyObject *cuda = PyObject_GetAttrString(torch, "cuda");
    long n = cuda ? count_devices(cuda) : 0;
    bool known = n > 0;
    for (long device = 0; known && device < n; device++) {
        uint64_t before[] = {sums[0], sums[1]};
        if (add_fast(torch, device, sums))
            continue;
        sums[0] = before[0];
        sums[1] = before[1];
        known = add_by(cuda, "memory_allocated", device, &sums[0]) && add_by(cuda, "memory_reserved", device, &sums[1]);
    }
    Py_XDECREF(cuda);
    PyErr_Clear();
    return known;
}

/* On the main thread. */
static int answer(void *unused)
{
    (void)unused;
    uint64_t sums[2] = {0, 0};
    PyObject *torch = lpy_imported("torch");
    if (torch && add_up(torch, sums)) {
        atomic_store(&answered_ns, 0);
        atomic_store(&allocated, sums[0]);
        atomic_store(&reserved, sums[1]);
        atomic_store(&answered_in, getpid());
        atomic_store(&answered_ns, now_ns());
    }
    atomic_store(&asked_ns, 0);
    return 0;
}

static void ask_and_wait(uint64_t now)
{
    uint64_t asked = atomic_load(&asked_ns);
    if (asked && now - asked < ASK_AGAIN_NS)
        return;
    atomic_store(&asked_ns, now);
    if (!Py_IsInitialized() || Py_AddPendingCall(answer, NULL) != 0) {
        atomic_store(&asked_ns, 0);
        return;
    }
    for (int i = 0; i < PATIENCE_NS / NAP_NS && atomic_load(&asked_ns); i++)
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

bool lpy_device_memory(bool ask, uint64_t *allocated_bytes, uint64_t *reserved_bytes)
{
    if (!lp_cuda_is_loaded())
        return false;
    if (ask)
        ask_and_wait(now_ns());
    uint64_t answered = atomic_load(&answered_ns);
    *allocated_bytes = atomic_load(&allocated);
    *reserved_bytes = atomic_load(&reserved);
    bool whole = answered != 0 && atomic_load(&answered_ns) == answered;
    return whole && atomic_load(&answered_in) == getpid() && now_ns() - answered < FRESH_NS;
}
