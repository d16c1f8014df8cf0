/* A stand-in for libnvidia-ml.so.1, see script.h. With FAKE_GPU_OLD: one of an old driver, without versioned symbols. */
#include "script.h"

#define PUBLIC __attribute__((visibility("default")))

enum { SUCCESS = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, NO_DRIVER = 9 };
enum { UNKNOWN_ERROR = 999 };

#define DEVICES 8
#define TEXT 96

/* A handle is the address of one of these. */
struct handle {
    int device, instance; /* instance: -1 for the whole device */
};
typedef struct handle *handle;

static struct handle handles[DEVICES][1 + DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialized;      /* guarded by lock */
static pid_t initialized_by; /* guarded by lock */
#ifndef FAKE_GPU_OLD
static unsigned long long us; /* guarded by lock: time of the last sample that was handed out */
#endif

/* In a process that did not initialise it, nothing works, as with the driver. */
static int ready(void)
{
    pthread_mutex_lock(&lock);
    int result = initialized == 0 ? UNINITIALIZED : initialized_by != getpid() ? UNKNOWN_ERROR : SUCCESS;
    pthread_mutex_unlock(&lock);
    return result;
}

static int begin(const char *call, int device)
{
    int error = fake_call(call, device);
    return error ? error : ready();
}

static bool nothing(const char *line, void *context)
{
    (void)line;
    (void)context;
    return false;
}

static int init(void)
{
    int error = fake_call("init", -1);
    if (error)
        return error;
    if (!fake_lines("device", nothing, NULL))
        return NO_DRIVER;
    pthread_mutex_lock(&lock);
    if (initialized_by != getpid())
        initialized = 0;
    initialized++;
    initialized_by = getpid();
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

PUBLIC int nvmlShutdown(void);
int nvmlShutdown(void)
{
    int error = begin("shutdown", -1);
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    initialized--;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

/* The nth line of a kind that belongs to a device. */
struct wanted {
    int device, n;
    char line[512];
};

static bool find_line(const char *line, void *context)
{
    struct wanted *wanted = context;
    int device = -1;
    if (sscanf(line, "%*s %d", &device) != 1 || device != wanted->device || wanted->n-- > 0)
        return true;
    snprintf(wanted->line, sizeof wanted->line, "%s", line);
    return false;
}

/* The line of a handle; "" if it has none. */
static struct wanted line_of(handle of)
{
    struct wanted wanted = {.device = of->device, .n = of->instance < 0 ? 0 : of->instance};
    fake_lines(of->instance < 0 ? "device" : "instance", find_line, &wanted);
    return wanted;
}

static bool exists(handle of)
{
    return line_of(of).line[0] != '\0';
}

static int count(unsigned *n)
{
    int error = begin("count", -1);
    if (error)
        return error;
    for (*n = 0; *n < DEVICES && exists(&(struct handle){(int)*n, -1});)
        ++*n;
    return SUCCESS;
}

static int by_index(unsigned index, handle *out)
{
    int error = begin("handle", (int)index);
    if (error)
        return error;
    *out = &handles[index][0];
    **out = (struct handle){(int)index, -1};
    return exists(*out) ? SUCCESS : NOT_FOUND;
}

PUBLIC int nvmlDeviceGetName(handle of, char *name, unsigned size);
int nvmlDeviceGetName(handle of, char *name, unsigned size)
{
    int error = begin("name", of->device);
    if (!error)
        fake_value(line_of(of).line, "name", name, size);
    return error;
}

PUBLIC int nvmlDeviceGetUUID(handle of, char *uuid, unsigned size);
int nvmlDeviceGetUUID(handle of, char *uuid, unsigned size)
{
    int error = begin("uuid", of->device);
    if (!error)
        fake_value(line_of(of).line, "uuid", uuid, size);
    return error;
}

static int memory_error(handle of)
{
    int error = of->instance < 0 ? fake_call("memory", of->device) : 0;
    return error ? error : ready();
}

PUBLIC int nvmlDeviceGetMemoryInfo(handle of, unsigned long long memory[3]);
int nvmlDeviceGetMemoryInfo(handle of, unsigned long long memory[3])
{
    struct wanted wanted = line_of(of);
    int error = memory_error(of);
    if (error)
        return error;
    memory[0] = fake_number(wanted.line, "total", 0);
    memory[2] = fake_number(wanted.line, "used", 0) + fake_number(wanted.line, "reserved", 0);
    memory[1] = memory[0] - memory[2];
    return SUCCESS;
}

PUBLIC int nvmlDeviceGetUtilizationRates(handle of, unsigned percent[2]);
int nvmlDeviceGetUtilizationRates(handle of, unsigned percent[2])
{
    struct wanted wanted = line_of(of);
    int error = begin("utilization", of->device);
    if (!error && fake_number(wanted.line, "mig", 0))
        error = NOT_SUPPORTED;
    percent[0] = (unsigned)fake_number(wanted.line, "busy", 0);
    percent[1] = 0;
    return error;
}

/* ---- processes ---------------------------------------------------------------------- */

struct process {
    unsigned pid;
    bool has_sm;
    unsigned sm;
    unsigned long long bytes;
};

struct processes {
    int device;
    unsigned n;
    struct process all[64];
};

static bool add_process(const char *line, void *context)
{
    struct processes *list = context;
    struct process *next = &list->all[list->n];
    char pid[32], bytes[32];
    int device = -1;
    if (sscanf(line, "%*s %d %31s", &device, pid) != 2 || device != list->device || list->n == 64)
        return true;
    next->pid = strcmp(pid, "self") == 0 ? (unsigned)getpid() : (unsigned)strtoul(pid, NULL, 10);
    next->sm = (unsigned)fake_number(line, "sm", 1000);
    next->has_sm = next->sm != 1000;
    fake_value(line, "bytes", bytes, sizeof bytes);
    next->bytes = strcmp(bytes, "unknown") == 0 ? ~0ULL : fake_number(line, "bytes", 0);
    list->n++;
    return true;
}

static struct processes processes_of(handle of)
{
    struct processes list = {.device = of->device};
    fake_lines("process", add_process, &list);
    return list;
}

/* The long form has one more word. */
static int holders(handle of, unsigned *n, void *out, size_t bytes)
{
    struct processes list = processes_of(of);
    int error = of->instance < 0 ? begin("holders", of->device) : ready();
    unsigned room = *n;
    *n = 0;
    if (error)
        return error;
    for (unsigned i = 0; i < list.n; i++) {
        unsigned char entry[32] = {0};
        if (*n == room)
            return INSUFFICIENT_SIZE;
        memcpy(entry, &list.all[i].pid, sizeof list.all[i].pid);
        memcpy(entry + 8, &list.all[i].bytes, sizeof list.all[i].bytes);
        memcpy((char *)out + (size_t)(*n)++ * bytes, entry, bytes);
    }
    return SUCCESS;
}

#ifdef FAKE_GPU_OLD

PUBLIC int nvmlInit(void);
int nvmlInit(void)
{
    return init();
}

PUBLIC int nvmlDeviceGetCount(unsigned *n);
int nvmlDeviceGetCount(unsigned *n)
{
    return count(n);
}

PUBLIC int nvmlDeviceGetHandleByIndex(unsigned index, handle *out);
int nvmlDeviceGetHandleByIndex(unsigned index, handle *out)
{
    return by_index(index, out);
}

PUBLIC int nvmlDeviceGetComputeRunningProcesses(handle of, unsigned *n, void *out);
int nvmlDeviceGetComputeRunningProcesses(handle of, unsigned *n, void *out)
{
    return holders(of, n, out, 16);
}

#else

PUBLIC int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    return init();
}

PUBLIC int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetCount_v2(unsigned *n)
{
    return count(n);
}

PUBLIC int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *out);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *out)
{
    return by_index(index, out);
}

static bool is_word(const char *line, void *context)
{
    (void)line;
    *(bool *)context = true;
    return false;
}

PUBLIC int nvmlDeviceGetComputeRunningProcesses_v3(handle of, unsigned *n, void *out);
int nvmlDeviceGetComputeRunningProcesses_v3(handle of, unsigned *n, void *out)
{
    bool is_long = false;
    fake_lines("long_holders", is_word, &is_long);
    return holders(of, n, out, is_long ? 32 : 24);
}

/* version, total, reserved, free, used; the version's word is padded. */
PUBLIC int nvmlDeviceGetMemoryInfo_v2(handle of, unsigned long long memory[5]);
int nvmlDeviceGetMemoryInfo_v2(handle of, unsigned long long memory[5])
{
    struct wanted wanted = line_of(of);
    int error = memory_error(of);
    if ((unsigned)memory[0] != (40u | 2u << 24))
        return 25; /* an argument of another version */
    if (error)
        return error;
    memory[1] = fake_number(wanted.line, "total", 0);
    memory[2] = fake_number(wanted.line, "reserved", 0);
    memory[4] = fake_number(wanted.line, "used", 0);
    memory[3] = memory[1] - memory[2] - memory[4];
    return SUCCESS;
}

struct sample {
    unsigned long long us, percent;
};

/* Of samples of that device; 0: each has the next moment. */
static unsigned long long stamp_of(handle of)
{
    return fake_number(line_of(of).line, "stamp", 0);
}

/* So many new ones in each window, all after what the caller has seen. */
PUBLIC int nvmlDeviceGetSamples(handle of, int type, unsigned long long since, int *value_type, unsigned *n,
                                struct sample *samples);
int nvmlDeviceGetSamples(handle of, int type, unsigned long long since, int *value_type, unsigned *n,
                         struct sample *samples)
{
    struct wanted wanted = line_of(of);
    char history[256];
    int error = begin("samples", of->device);
    unsigned long long stamp = stamp_of(of);
    if (error)
        return error;
    if ((stamp && stamp <= since) || type != 1 || !*fake_value(wanted.line, "history", history, sizeof history))
        return NOT_FOUND;
    unsigned room = *n;
    *value_type = 1;
    *n = 0;
    pthread_mutex_lock(&lock);
    for (char *at = history; *at; at += *at == ',') {
        unsigned long long percent = strtoull(at, &at, 10);
        if (samples && *n < room)
            samples[*n] = (struct sample){stamp ? stamp : ++us, percent};
        ++*n;
    }
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

struct process_sample {
    unsigned pid;
    unsigned long long us;
    unsigned sm, mem, enc, dec;
};

PUBLIC int nvmlDeviceGetProcessUtilization(handle of, struct process_sample *samples, unsigned *n,
                                           unsigned long long since);
int nvmlDeviceGetProcessUtilization(handle of, struct process_sample *samples, unsigned *n, unsigned long long since)
{
    struct processes list = processes_of(of);
    int error = begin("process_samples", of->device);
    unsigned room = *n, found = 0;
    unsigned long long stamp = stamp_of(of);
    if (!error && fake_number(line_of(of).line, "mig", 0))
        error = NOT_SUPPORTED;
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < list.n; i++) {
        if (!list.all[i].has_sm || (stamp && stamp <= since))
            continue;
        if (samples && found < room)
            samples[found] =
                (struct process_sample){.pid = list.all[i].pid, .us = stamp ? stamp : ++us, .sm = list.all[i].sm};
        found++;
    }
    pthread_mutex_unlock(&lock);
    *n = found;
    return found == 0 ? NOT_FOUND : samples ? SUCCESS : INSUFFICIENT_SIZE;
}

/* ---- divided devices ---------------------------------------------------------------- */

PUBLIC int nvmlDeviceGetMigMode(handle of, unsigned *current, unsigned *pending);
int nvmlDeviceGetMigMode(handle of, unsigned *current, unsigned *pending)
{
    int error = begin("mig_mode", of->device);
    *current = *pending = (unsigned)fake_number(line_of(of).line, "mig", 0);
    return error;
}

PUBLIC int nvmlDeviceGetMaxMigDeviceCount(handle of, unsigned *n);
int nvmlDeviceGetMaxMigDeviceCount(handle of, unsigned *n)
{
    (void)of;
    *n = 7;
    return ready();
}

PUBLIC int nvmlDeviceGetMigDeviceHandleByIndex(handle of, unsigned index, handle *out);
int nvmlDeviceGetMigDeviceHandleByIndex(handle of, unsigned index, handle *out)
{
    if (ready() || index >= DEVICES)
        return NOT_FOUND;
    *out = &handles[of->device][1 + index];
    **out = (struct handle){of->device, (int)index};
    return exists(*out) ? SUCCESS : NOT_FOUND;
}

PUBLIC int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle of, handle *out);
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle of, handle *out)
{
    *out = &handles[of->device][0];
    return ready();
}

PUBLIC int nvmlDeviceGetHandleByUUID(const char *uuid, handle *out);
int nvmlDeviceGetHandleByUUID(const char *uuid, handle *out)
{
    char own[TEXT];
    for (unsigned device = 0; !ready() && device < DEVICES; device++)
        for (unsigned i = 0; nvmlDeviceGetMigDeviceHandleByIndex(&(struct handle){(int)device, -1}, i, out) == SUCCESS;
             i++)
            if (strcmp(fake_value(line_of(*out).line, "uuid", own, sizeof own), uuid) == 0)
                return SUCCESS;
    return NOT_FOUND;
}

#endif
