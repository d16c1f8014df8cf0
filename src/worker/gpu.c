#include "worker/gpu.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "process/gpu.h"
#include "process/own_threads.h"
#include "worker/internal.h"
#include "worker/samples.h"

#define STACK_BYTES (1u << 20) /* of what the driver's library needs nobody tells */
#define ROWS_PER_GPU 64u
#define END_SECONDS 1
#define TEXTS_AT_MOST 64u /* of the devices' states in the image, which keeps each */

/* What the file says of a device; the watch's own copy, for the driver may be writing the original. */
struct fact {
    unsigned index;
    char name[LP_GPU_TEXT_BYTES], uuid[LP_GPU_TEXT_BYTES];
    uint64_t memory_bytes;
    const char *state, *own; /* Static. */
};

struct lp_gpu_watch {
    pthread_mutex_t lock;     /* guards all down to tell_from; never held while the driver is asked */
    struct lp_worker *worker; /* Borrowed; NULL: nobody is told any more, and the thread frees the watch. */
    bool stop, left;          /* asked to end; does so, or has */
    bool last;                /* one more reading before that */
    bool hangs;               /* told as such */
    unsigned n_facts;
    struct fact *facts; /* Owned; NULL: not known yet */
    unsigned n_texts;
    uint64_t asked_since_ns; /* the driver, by CLOCK_MONOTONIC; 0: it is not being asked */
    unsigned asked_device;

    sem_t wake;
    uint64_t interval_ns;
    bool running; /* not joined yet. The keeper's and whoever has stopped that. */
    pthread_t thread;
    /* The thread's own while it runs: */
    struct lp_gpus *gpus; /* Owned. */
    uint32_t sequence;
    uint64_t attributed; /* bits of devices */
};

/* No library or no device: true for the process, and what it forks. */
static _Atomic bool nothing_here;

struct lp_gpu_watch *lp_gpu_watch_new(struct lp_worker *worker)
{
    struct lp_gpu_watch *watch;
    if (!worker->sample_ns || atomic_load(&nothing_here) || !(watch = calloc(1, sizeof *watch)))
        return NULL;
    pthread_mutex_init(&watch->lock, NULL);
    sem_init(&watch->wake, 0, 0);
    watch->worker = worker;
    watch->interval_ns = worker->sample_ns;
    return watch;
}

static void dispose(struct lp_gpu_watch *watch)
{
    free(watch->facts);
    free(watch->gpus);
    pthread_mutex_destroy(&watch->lock);
    sem_destroy(&watch->wake);
    free(watch);
}

/* The thread of the parent may have been anywhere: what it was changing is left to itself. */
void lp_gpu_watch_forget(struct lp_gpu_watch *watch)
{
    if (watch && !watch->running)
        dispose(watch);
}

/* ---- what the worker's file says ----------------------------------------------------- */

static void emit_fact(struct lp_emit *emit, const struct fact *fact)
{
    lp_emit_open(emit, '{');
    lp_emit_key(emit, "index");
    lp_emit_u64(emit, fact->index);
    lp_emit_string_or_null(emit, "name", fact->name);
    lp_emit_string_or_null(emit, "uuid", fact->uuid);
    lp_emit_u64_or_null(emit, "memory_bytes", fact->memory_bytes > INT64_MAX ? 0 : fact->memory_bytes);
    lp_emit_key(emit, "state");
    lp_emit_string(emit, fact->state);
    lp_emit_key(emit, "own");
    lp_emit_string(emit, fact->own);
    lp_emit_close(emit, '}');
}

static void put_text(struct lp_image *image, const struct lp_buffer *text)
{
    lp_ref ref = lp_image_alloc(image, sizeof(struct lp_name) + text->len);
    if (!ref)
        return;
    struct lp_name *name = lp_image_at(image, ref);
    name->len = (uint32_t)text->len;
    memcpy(name->bytes, text->bytes, text->len);
    atomic_store_explicit(&lp_image_header(image)->gpus, ref, memory_order_release);
}

static void publish_locked(struct lp_gpu_watch *watch)
{
    struct lp_buffer text = {0};
    struct lp_emit emit;
    if (!watch->worker || !watch->n_facts || watch->n_texts++ >= TEXTS_AT_MOST)
        return;
    lp_emit_init(&emit, lp_buffer_put, &text);
    lp_emit_open(&emit, '[');
    for (unsigned i = 0; i < watch->n_facts; i++)
        emit_fact(&emit, &watch->facts[i]);
    lp_emit_close(&emit, ']');
    if (lp_emit_end(&emit) == 0)
        put_text(&watch->worker->recorder.image, &text);
    free(text.bytes);
}

/* True if anything is different. */
static bool update_fact(struct fact *fact, const char *state, const char *own)
{
    bool same = strcmp(fact->state, state) == 0 && strcmp(fact->own, own) == 0;
    fact->state = state;
    fact->own = own;
    return !same;
}

/* ---- the thread ---------------------------------------------------------------------- */

/* False: the thread is to end. */
static bool begin_asking(struct lp_gpu_watch *watch, unsigned device)
{
    pthread_mutex_lock(&watch->lock);
    bool goes_on = watch->worker && (!watch->stop || watch->last);
    watch->asked_since_ns = goes_on ? lp_monotonic_ns() : 0;
    watch->asked_device = device;
    pthread_mutex_unlock(&watch->lock);
    return goes_on;
}

/* With the lock held afterwards. */
static void end_asking_and_lock(struct lp_gpu_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->asked_since_ns = 0;
    watch->hangs = false;
}

static void note_devices_locked(struct lp_gpu_watch *watch, const struct lp_gpus *gpus)
{
    struct fact *facts = calloc(gpus->n, sizeof *facts);
    if (!facts)
        return;
    for (unsigned i = 0; i < gpus->n; i++) {
        const struct lp_gpu *gpu = &gpus->gpus[i];
        struct fact *fact = &facts[i];
        fact->index = gpu->index;
        memcpy(fact->name, gpu->name, sizeof fact->name);
        memcpy(fact->uuid, gpu->uuid, sizeof fact->uuid);
        fact->memory_bytes = gpu->memory_bytes;
        fact->state = lp_gpu_state_word(gpu->state);
        fact->own = lp_gpu_own_word(gpu->own_busy);
    }
    free(watch->facts);
    watch->facts = facts;
    watch->n_facts = gpus->n;
    publish_locked(watch);
}

static bool open_devices(struct lp_gpu_watch *watch)
{
    if (!watch->gpus)
        watch->gpus = malloc(sizeof *watch->gpus);
    if (!watch->gpus || !begin_asking(watch, 0))
        return false;
    memset(watch->gpus, 0, sizeof *watch->gpus);
    struct lp_own_io own = lp_own_io_begin();
    unsigned n = lp_gpus_open(watch->gpus);
    end_asking_and_lock(watch);
    if (n > 0)
        note_devices_locked(watch, watch->gpus);
    else
        atomic_store(&nothing_here, true);
    lp_own_io_end(watch->worker, &own);
    pthread_mutex_unlock(&watch->lock);
    return n > 0;
}

static void put_row_locked(struct lp_gpu_watch *watch, unsigned i, const struct lp_gpu_reading *reading,
                           uint64_t now_ns, uint32_t phase)
{
    const struct lp_gpu *gpu = &watch->gpus->gpus[i];
    if (gpu->attributed)
        watch->attributed |= (uint64_t)1 << i;
    const struct lp_gpu_row row = {
        .monotonic_ns = now_ns,
        .device_used_bytes = reading->device_used_bytes,
        .own_used_bytes = reading->own_used_bytes,
        .device = gpu->index,
        .sequence = watch->sequence,
        .phase = phase,
        .busy_permille = reading->busy_permille,
        .own_busy_permille = reading->own_busy_permille,
        .flags = watch->attributed >> i & 1 ? LP_GPU_ATTRIBUTED : 0,
    };
    lp_ring_put(&watch->worker->recorder.image, LP_RING_GPU, ROWS_PER_GPU * watch->gpus->n, sizeof row, &row);
}

/* False: the thread is to end. */
static bool read_device(struct lp_gpu_watch *watch, unsigned i, uint64_t now_ns, uint32_t phase)
{
    struct lp_gpu_reading reading;
    const struct lp_gpu *gpu = &watch->gpus->gpus[i];
    if (gpu->state == LP_GPU_LOST)
        return true;
    if (!begin_asking(watch, i))
        return false;
    lp_gpus_read(watch->gpus, i, &reading);
    end_asking_and_lock(watch);
    bool goes_on = watch->worker != NULL;
    if (goes_on) {
        put_row_locked(watch, i, &reading, now_ns, phase);
        if (i < watch->n_facts &&
            update_fact(&watch->facts[i], lp_gpu_state_word(gpu->state), lp_gpu_own_word(gpu->own_busy)))
            publish_locked(watch);
    }
    pthread_mutex_unlock(&watch->lock);
    return goes_on;
}

static void read_devices(struct lp_gpu_watch *watch)
{
    uint32_t phase = 0;
    uint64_t now_ns = lp_monotonic_ns();
    pthread_mutex_lock(&watch->lock);
    if (watch->worker)
        phase = lp_worker_deepest_phase(watch->worker);
    pthread_mutex_unlock(&watch->lock);
    struct lp_own_io own = lp_own_io_begin();
    for (unsigned i = 0; i < watch->gpus->n && read_device(watch, i, now_ns, phase);)
        i++;
    watch->sequence++;
    pthread_mutex_lock(&watch->lock);
    lp_own_io_end(watch->worker, &own);
    pthread_mutex_unlock(&watch->lock);
}

/* Waits for a time; true if asked to end. */
static bool stopped_before(struct lp_gpu_watch *watch, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                   .tv_nsec = (long)(until_ns % 1000000000u)};
    for (bool late = false;;) {
        pthread_mutex_lock(&watch->lock);
        bool stop = watch->stop;
        pthread_mutex_unlock(&watch->lock);
        if (stop || late)
            return stop;
        late = sem_clockwait(&watch->wake, CLOCK_MONOTONIC, &until) != 0 && errno == ETIMEDOUT;
    }
}

static void read_until_stopped(struct lp_gpu_watch *watch)
{
    uint64_t due_ns = lp_monotonic_ns(), now_ns;
    do {
        read_devices(watch);
        now_ns = lp_monotonic_ns();
        due_ns += watch->interval_ns;
        due_ns = due_ns > now_ns ? due_ns : now_ns + watch->interval_ns; /* after a hang: no catching up */
    } while (!stopped_before(watch, due_ns));
    pthread_mutex_lock(&watch->lock);
    bool last = watch->last;
    pthread_mutex_unlock(&watch->lock);
    if (last) /* what the devices did since the last reading is in this one */
        read_devices(watch);
}

static void *watch_devices(void *context)
{
    struct lp_gpu_watch *watch = context;
    pthread_setname_np(pthread_self(), "lp-gpu");
    lp_own_thread_begins();
    if (open_devices(watch)) {
        read_until_stopped(watch);
        lp_gpus_close(watch->gpus);
    }
    pthread_mutex_lock(&watch->lock);
    watch->left = true;
    bool is_orphan = watch->worker == NULL;
    pthread_mutex_unlock(&watch->lock);
    if (is_orphan)
        dispose(watch);
    lp_own_thread_ends();
    return NULL;
}

/* ---- on the keeper, and around it ---------------------------------------------------- */

static int start_thread(struct lp_gpu_watch *watch)
{
    sigset_t all, before;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&watch->thread, &small, watch_devices, watch);
    if (failed)
        failed = pthread_create(&watch->thread, NULL, watch_devices, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
    return failed;
}

static void look_whether_it_hangs(struct lp_gpu_watch *watch, uint64_t now_ns)
{
    pthread_mutex_lock(&watch->lock);
    bool hangs = watch->asked_since_ns && now_ns > watch->asked_since_ns &&
                 (now_ns - watch->asked_since_ns) / watch->interval_ns >= LP_GPU_TIMED_OUT;
    if (hangs && !watch->hangs) {
        lp_image_trouble(&watch->worker->recorder.image, LP_TROUBLE_GPU_TIMEOUTS);
        if (watch->asked_device < watch->n_facts &&
            update_fact(&watch->facts[watch->asked_device], "timed_out", watch->facts[watch->asked_device].own))
            publish_locked(watch);
    }
    watch->hangs |= hangs;
    pthread_mutex_unlock(&watch->lock);
}

/* Whether the thread uses the watch no more; it is joined then. */
static bool has_ended(struct lp_gpu_watch *watch)
{
    if (watch->running && pthread_tryjoin_np(watch->thread, NULL) == 0)
        watch->running = false;
    return !watch->running;
}

/* The library alone: what may hang comes after it, on the thread. */
static bool library_is_there(struct lp_worker *worker)
{
    struct lp_nvml nvml;
    struct lp_own_io own = lp_own_io_begin();
    bool is_there = lp_nvml_open(&nvml);
    lp_own_io_end(worker, &own);
    if (!is_there)
        atomic_store(&nothing_here, true);
    return is_there;
}

void lp_gpu_watch_tick(struct lp_gpu_watch *watch, uint64_t now_ns)
{
    if (!watch)
        return;
    if (!has_ended(watch)) {
        pthread_mutex_lock(&watch->lock);
        watch->stop = watch->left; /* it was to end for a fork, and has not seen it */
        pthread_mutex_unlock(&watch->lock);
        look_whether_it_hangs(watch, now_ns);
        return;
    }
    if (atomic_load(&nothing_here) || watch->worker->sampler.sequence < 2 || !library_is_there(watch->worker))
        return;
    watch->stop = watch->left = watch->last = false;
    watch->running = start_thread(watch) == 0;
}

/* On the last way out, or for a fork. True if the thread uses the watch no more. */
static bool stop(struct lp_gpu_watch *watch, bool last, const struct timespec *until)
{
    long nap_ns = 0;
    if (has_ended(watch))
        return true;
    pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    watch->last = last;
    bool hangs = watch->hangs;
    pthread_mutex_unlock(&watch->lock);
    sem_post(&watch->wake);
    while (!has_ended(watch) && !hangs && lp_nap_before(until, &nap_ns))
        continue;
    return !watch->running;
}

void lp_gpu_watch_pause(struct lp_gpu_watch *watch, const struct timespec *until)
{
    if (watch)
        stop(watch, false, until);
}

void lp_gpu_watch_end(struct lp_gpu_watch *watch)
{
    struct timespec until;
    if (!watch)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += END_SECONDS;
    if (stop(watch, true, &until)) {
        dispose(watch);
        return;
    }
    pthread_t thread = watch->thread;
    pthread_mutex_lock(&watch->lock);
    bool left = watch->left;
    watch->worker = NULL; /* from here on the watch is the thread's, unless it has just left */
    pthread_mutex_unlock(&watch->lock);
    if (left) {
        pthread_join(thread, NULL);
        dispose(watch);
    } else {
        pthread_detach(thread);
    }
}
