#include "process/cuda.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define NOT_READY 600
#define CAPTURE_NONE 0
#define DEVICES_AT_MOST 64

typedef struct lp_cuda_context_opaque *context_t;
typedef struct lp_cuda_event_opaque *event_t;

/* Which context: an address may come again after the program has destroyed one, a number does not. */
struct owner {
    context_t context;
    unsigned long long number; /* 0 where the driver gives none */
    unsigned forks;            /* so many lie behind: in a forked child it is nobody's */
};

struct lp_cuda_event {
    event_t handle;
    struct owner owner;
    struct lp_cuda_event *next; /* in the list of free ones */
};

static struct {
    int (*context)(context_t *context);
    int (*number)(context_t context, unsigned long long *number); /* may be NULL */
    int (*synchronize)(void);
    int (*is_capturing)(lp_cuda_stream stream, int *status);
    int (*create)(event_t *event, unsigned flags);
    int (*record)(event_t event, lp_cuda_stream stream);
    int (*query)(event_t event);
    int (*elapsed)(float *ms, event_t begin, event_t end);
    int (*count)(int *count);
    int (*device)(int *device, int ordinal);
    int (*primary_state)(int device, unsigned *flags, int *active);
    int (*primary_retain)(context_t *context, int device);
    int (*primary_release)(int device);
    int (*push)(context_t context);
    int (*pop)(context_t *context);
} driver; /* written with lock held, before is_found */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool is_found, is_useless;         /* useless: too old for us */
static _Atomic unsigned long long libraries_seen; /* loaded so far, at the last look */
static _Atomic unsigned forks;                    /* a system call at each boundary would tell as much */
static struct lp_cuda_event *free_events;         /* guarded by events_lock */
static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- finding it --------------------------------------------------------------------- */

struct search {
    unsigned long long loaded;
    char path[4096]; /* "": it is not there */
};

static int look_at(struct dl_phdr_info *info, size_t size, void *context)
{
    struct search *search = context;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    (void)size;
    search->loaded = info->dlpi_adds;
    if (search->loaded == atomic_load(&libraries_seen))
        return 1;
    name = name ? name + 1 : info->dlpi_name;
    if (!name || strncmp(name, "libcuda.so", strlen("libcuda.so")) != 0)
        return 0;
    snprintf(search->path, sizeof search->path, "%s", info->dlpi_name);
    return 1;
}

static bool take(void *library, void *function, const char *name)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found); /* C has no conversion from an object's pointer to a function's */
    return found != NULL;
}

/* All of these are older than any driver that anybody trains with, so one that lacks some is none. */
static bool take_all(void *library)
{
    take(library, &driver.number, "cuCtxGetId");
    return take(library, &driver.context, "cuCtxGetCurrent") &&
           take(library, &driver.synchronize, "cuCtxSynchronize") &&
           take(library, &driver.is_capturing, "cuStreamIsCapturing") &&
           take(library, &driver.create, "cuEventCreate") && take(library, &driver.record, "cuEventRecord") &&
           take(library, &driver.query, "cuEventQuery") && take(library, &driver.elapsed, "cuEventElapsedTime") &&
           take(library, &driver.count, "cuDeviceGetCount") && take(library, &driver.device, "cuDeviceGet") &&
           take(library, &driver.primary_state, "cuDevicePrimaryCtxGetState") &&
           take(library, &driver.primary_retain, "cuDevicePrimaryCtxRetain") &&
           take(library, &driver.primary_release, "cuDevicePrimaryCtxRelease_v2") &&
           take(library, &driver.push, "cuCtxPushCurrent_v2") && take(library, &driver.pop, "cuCtxPopCurrent_v2");
}

static bool find_driver(void)
{
    struct search search = {.path = ""};
    dl_iterate_phdr(look_at, &search);
    if (!search.path[0]) {
        atomic_store(&libraries_seen, search.loaded);
        return false;
    }
    pthread_mutex_lock(&lock);
    bool found = atomic_load(&is_found);
    if (!found) {
        void *library = dlopen(search.path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
        found = library && take_all(library);
        atomic_store(found ? &is_found : &is_useless, true);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool lp_cuda_is_loaded(void)
{
    if (atomic_load_explicit(&is_found, memory_order_acquire))
        return true;
    return !atomic_load(&is_useless) && find_driver();
}

static context_t current_context(void)
{
    context_t context = NULL;
    return lp_cuda_is_loaded() && driver.context(&context) == SUCCESS ? context : NULL;
}

bool lp_cuda_has_context(void)
{
    return current_context() != NULL;
}

/* ---- waiting for the device --------------------------------------------------------- */

/* What cannot be told counts as a capture. The default stream also knows of captures on streams that wait for it. */
static bool is_captured(lp_cuda_stream stream)
{
    int status = CAPTURE_NONE;
    return driver.is_capturing(stream, &status) != SUCCESS || status != CAPTURE_NONE;
}

static bool synchronize_here(lp_cuda_stream stream)
{
    if (is_captured(0) || (stream != LP_CUDA_NO_STREAM && stream != 0 && is_captured(stream)))
        return false;
    return driver.synchronize() == SUCCESS;
}

/* A context that is there already gets one user more for a moment. */
static bool synchronize_primary(int ordinal)
{
    int device, active = 0;
    unsigned flags;
    context_t context;
    bool done = false;
    if (driver.device(&device, ordinal) != SUCCESS || driver.primary_state(device, &flags, &active) != SUCCESS ||
        !active)
        return false;
    if (driver.primary_retain(&context, device) != SUCCESS)
        return false;
    if (driver.push(context) == SUCCESS) {
        done = synchronize_here(LP_CUDA_NO_STREAM);
        driver.pop(&context);
    }
    driver.primary_release(device);
    return done;
}

bool lp_cuda_synchronize(lp_cuda_stream stream)
{
    int devices = 0;
    bool any = false;
    if (current_context())
        return synchronize_here(stream);
    if (!lp_cuda_is_loaded() || driver.count(&devices) != SUCCESS)
        return false;
    for (int i = 0; i < devices && i < DEVICES_AT_MOST; i++)
        any |= synchronize_primary(i);
    return any;
}

/* ---- events ------------------------------------------------------------------------- */

/* False: no context is current here. */
static bool find_owner(struct owner *owner)
{
    *owner = (struct owner){.context = current_context(), .forks = atomic_load(&forks)};
    if (owner->context && driver.number && driver.number(owner->context, &owner->number) != SUCCESS)
        owner->number = 0;
    return owner->context != NULL;
}

static bool is_same(const struct owner *one, const struct owner *other)
{
    return one->context == other->context && one->number == other->number && one->forks == other->forks;
}

static struct lp_cuda_event *take_free(const struct owner *owner)
{
    struct lp_cuda_event *event;
    pthread_mutex_lock(&events_lock);
    for (struct lp_cuda_event **link = &free_events; (event = *link) != NULL; link = &event->next) {
        if (!is_same(&event->owner, owner))
            continue;
        *link = event->next;
        break;
    }
    pthread_mutex_unlock(&events_lock);
    return event;
}

static struct lp_cuda_event *make_event(const struct owner *owner)
{
    struct lp_cuda_event *event = take_free(owner);
    if (event)
        return event;
    event = calloc(1, sizeof *event);
    if (event && driver.create(&event->handle, 0) != SUCCESS) {
        free(event);
        return NULL;
    }
    if (event)
        event->owner = *owner;
    return event;
}

struct lp_cuda_event *lp_cuda_record(lp_cuda_stream stream)
{
    struct owner owner;
    if (stream == LP_CUDA_NO_STREAM || !find_owner(&owner) || is_captured(stream))
        return NULL;
    struct lp_cuda_event *event = make_event(&owner);
    if (event && driver.record(event->handle, stream) != SUCCESS) {
        lp_cuda_event_release(event);
        return NULL;
    }
    return event;
}

/* Never given back to the driver, for the context may be gone by then. */
void lp_cuda_event_release(struct lp_cuda_event *event)
{
    if (!event)
        return;
    pthread_mutex_lock(&events_lock);
    event->next = free_events;
    free_events = event;
    pthread_mutex_unlock(&events_lock);
}

enum lp_cuda_elapsed lp_cuda_elapsed(const struct lp_cuda_event *begin, const struct lp_cuda_event *end, uint64_t *ns)
{
    float ms = 0;
    struct owner owner;
    bool has_context = find_owner(&owner);
    if (!is_same(&begin->owner, &end->owner) || owner.forks != end->owner.forks)
        return LP_CUDA_FAILED;
    if (!has_context || !is_same(&owner, &end->owner))
        return LP_CUDA_PENDING;
    int result = driver.query(end->handle);
    if (result == NOT_READY)
        return LP_CUDA_PENDING;
    if (result != SUCCESS || driver.elapsed(&ms, begin->handle, end->handle) != SUCCESS || !(ms >= 0))
        return LP_CUDA_FAILED;
    *ns = (uint64_t)((double)ms * 1e6 + 0.5);
    return LP_CUDA_DONE;
}

void lp_cuda_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&events_lock, NULL);
    free_events = NULL;
    atomic_fetch_add(&forks, 1);
}
