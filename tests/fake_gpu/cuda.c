/*
 * A stand-in for libcuda.so.1: contexts, streams and events of one device without a device.
 *
 * Device time stands still but for what is enqueued and waited for: fake_enqueue puts work of so many nanoseconds on a
 * stream, and only a synchronisation lets the device's clock run, and takes as long. So work is pending until somebody
 * waits for it, and what events measure is exact. Calls are noted as script.h says.
 */
#include "script.h"

#include <stdint.h>

#define PUBLIC __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };
enum { NOT_READY = 600, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_IMPLICIT = 906 };

#define STREAMS 16

struct context {
    unsigned long long number;
};

struct stream {
    uint64_t end_ns; /* when all that is enqueued will be done */
    int capture;     /* 0: none, 1: in progress, 2: invalidated */
};

struct event {
    unsigned long long context; /* its number */
    uint64_t time_ns;
    bool recorded;
};

static struct context primary;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream streams[STREAMS]; /* guarded by lock; the first is the default stream */
static uint64_t now_ns;                /* guarded by lock */
static pid_t initialized_by;           /* guarded by lock */
static int live_events;                /* guarded by lock */
static int users;                      /* guarded by lock: of the primary context */
static __thread struct context *current;
static __thread pid_t current_in;

static int ready(void)
{
    pthread_mutex_lock(&lock);
    int result = initialized_by == getpid() ? SUCCESS : NOT_INITIALIZED;
    pthread_mutex_unlock(&lock);
    return result;
}

static struct stream *stream_of(uintptr_t handle)
{
    return handle < STREAMS ? &streams[handle] : NULL;
}

/* ---- what a program does ------------------------------------------------------------ */

PUBLIC int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    (void)flags;
    fake_log("cuInit");
    pthread_mutex_lock(&lock);
    bool forked = initialized_by != 0 && initialized_by != getpid();
    if (!forked)
        initialized_by = getpid();
    pthread_mutex_unlock(&lock);
    return forked ? NOT_INITIALIZED : SUCCESS; /* as the driver has it in a child of a process that used it */
}

/* Of the first of two devices; the other one is never used. */
PUBLIC int cuDevicePrimaryCtxRetain(struct context **context, int device);
int cuDevicePrimaryCtxRetain(struct context **context, int device)
{
    if (device != 0)
        abort();
    *context = &primary;
    pthread_mutex_lock(&lock);
    int before = users++;
    pthread_mutex_unlock(&lock);
    fake_log(before ? "cuDevicePrimaryCtxRetain" : "context made");
    return ready();
}

PUBLIC int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    pthread_mutex_lock(&lock);
    users--;
    pthread_mutex_unlock(&lock);
    return ready();
}

PUBLIC int fake_users(void);
int fake_users(void)
{
    pthread_mutex_lock(&lock);
    int n = users;
    pthread_mutex_unlock(&lock);
    return n;
}

PUBLIC int cuCtxSetCurrent(struct context *context);
int cuCtxSetCurrent(struct context *context)
{
    fake_log("cuCtxSetCurrent");
    current = context;
    current_in = getpid();
    return ready();
}

/* Work for so many nanoseconds. */
PUBLIC int fake_enqueue(uintptr_t stream, uint64_t ns);
int fake_enqueue(uintptr_t stream, uint64_t ns)
{
    pthread_mutex_lock(&lock);
    struct stream *on = stream_of(stream);
    on->end_ns = (on->end_ns > now_ns ? on->end_ns : now_ns) + ns;
    pthread_mutex_unlock(&lock);
    return ready();
}

PUBLIC void fake_capture(uintptr_t stream, int begins);
void fake_capture(uintptr_t stream, int begins)
{
    pthread_mutex_lock(&lock);
    stream_of(stream)->capture = begins;
    pthread_mutex_unlock(&lock);
}

/* 1: the capture is in progress and whole. */
PUBLIC int fake_capture_state(uintptr_t stream);
int fake_capture_state(uintptr_t stream)
{
    pthread_mutex_lock(&lock);
    int state = stream_of(stream)->capture;
    pthread_mutex_unlock(&lock);
    return state;
}

PUBLIC int fake_live_events(void);
int fake_live_events(void)
{
    pthread_mutex_lock(&lock);
    int n = live_events;
    pthread_mutex_unlock(&lock);
    return n;
}

/* Another context takes the place of the first one, and its address. */
PUBLIC void fake_replace_context(void);
void fake_replace_context(void)
{
    pthread_mutex_lock(&lock);
    primary.number++;
    pthread_mutex_unlock(&lock);
}

/* ---- what a profiler does ----------------------------------------------------------- */

PUBLIC int cuCtxGetCurrent(struct context **context);
int cuCtxGetCurrent(struct context **context)
{
    *context = ready() == SUCCESS && current_in == getpid() ? current : NULL;
    return ready();
}

PUBLIC int cuCtxGetId(const struct context *context, unsigned long long *number);
int cuCtxGetId(const struct context *context, unsigned long long *number)
{
    pthread_mutex_lock(&lock);
    *number = context->number;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

PUBLIC int cuCtxPushCurrent_v2(struct context *context);
int cuCtxPushCurrent_v2(struct context *context)
{
    if (current)
        abort(); /* one is enough here */
    current = context;
    current_in = getpid();
    return ready();
}

PUBLIC int cuCtxPopCurrent_v2(struct context **context);
int cuCtxPopCurrent_v2(struct context **context)
{
    *context = current;
    current = NULL;
    return ready();
}

PUBLIC int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
    *count = 2;
    return ready();
}

PUBLIC int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ready();
}

PUBLIC int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    pthread_mutex_lock(&lock);
    *flags = 0;
    *active = device == 0 && users > 0;
    pthread_mutex_unlock(&lock);
    return ready();
}

static int wait_until(uint64_t end_ns)
{
    pthread_mutex_lock(&lock);
    uint64_t left_ns = end_ns > now_ns ? end_ns - now_ns : 0;
    pthread_mutex_unlock(&lock);
    struct timespec left = {.tv_sec = (time_t)(left_ns / 1000000000u), .tv_nsec = (long)(left_ns % 1000000000u)};
    while (nanosleep(&left, &left) != 0)
        continue;
    pthread_mutex_lock(&lock);
    now_ns = end_ns > now_ns ? end_ns : now_ns;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

PUBLIC int cuStreamSynchronize(uintptr_t stream);
int cuStreamSynchronize(uintptr_t stream)
{
    pthread_mutex_lock(&lock);
    uint64_t end_ns = stream_of(stream)->end_ns;
    pthread_mutex_unlock(&lock);
    return wait_until(end_ns);
}

PUBLIC int cuCtxSynchronize(void);
int cuCtxSynchronize(void)
{
    uint64_t end_ns = 0;
    int captures = 0;
    fake_log("cuCtxSynchronize");
    if (!current || ready())
        return INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < STREAMS; i++) {
        end_ns = streams[i].end_ns > end_ns ? streams[i].end_ns : end_ns;
        if (streams[i].capture) {
            streams[i].capture = 2;
            captures++;
        }
    }
    pthread_mutex_unlock(&lock);
    return captures ? CAPTURE_UNSUPPORTED : wait_until(end_ns);
}

PUBLIC int cuStreamIsCapturing(uintptr_t stream, int *status);
int cuStreamIsCapturing(uintptr_t stream, int *status)
{
    int elsewhere = 0;
    if (!current || ready())
        return INVALID_CONTEXT;
    if (!stream_of(stream))
        return INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    *status = stream_of(stream)->capture;
    for (int i = 1; stream == 0 && i < STREAMS; i++)
        elsewhere |= streams[i].capture;
    pthread_mutex_unlock(&lock);
    return elsewhere ? CAPTURE_IMPLICIT : SUCCESS;
}

PUBLIC int cuEventCreate(struct event **event, unsigned flags);
int cuEventCreate(struct event **event, unsigned flags)
{
    fake_log("cuEventCreate");
    if (!current || ready() || flags & 2)
        return INVALID_CONTEXT;
    *event = calloc(1, sizeof **event);
    pthread_mutex_lock(&lock);
    (*event)->context = primary.number;
    live_events++;
    pthread_mutex_unlock(&lock);
    return *event ? SUCCESS : INVALID_VALUE;
}

PUBLIC int cuEventRecord(struct event *event, uintptr_t stream);
int cuEventRecord(struct event *event, uintptr_t stream)
{
    fake_log("cuEventRecord");
    if (!current || ready())
        return INVALID_CONTEXT;
    struct stream *on = stream_of(stream);
    if (!on)
        return INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    if (event->context != primary.number)
        abort(); /* nobody knows what the driver does then */
    int captures = on->capture;
    event->time_ns = on->end_ns > now_ns ? on->end_ns : now_ns;
    event->recorded = !captures;
    pthread_mutex_unlock(&lock);
    return captures ? CAPTURE_UNSUPPORTED : SUCCESS;
}

PUBLIC int cuEventQuery(struct event *event);
int cuEventQuery(struct event *event)
{
    if (ready())
        return NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    if (event->context != primary.number)
        abort();
    bool done = event->time_ns <= now_ns;
    pthread_mutex_unlock(&lock);
    return done ? SUCCESS : NOT_READY;
}

PUBLIC int cuEventElapsedTime(float *ms, const struct event *start, const struct event *end);
int cuEventElapsedTime(float *ms, const struct event *start, const struct event *end)
{
    if (!start->recorded || !end->recorded)
        return INVALID_HANDLE;
    *ms = (float)((double)(end->time_ns - start->time_ns) / 1e6);
    return SUCCESS;
}
