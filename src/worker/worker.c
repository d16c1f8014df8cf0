#include "worker/worker.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/device_time.h"
#include "worker/internal.h"
#include "worker/run_id.h"
#include "worker/signals.h"

int lp_worker_say(char *message, size_t size, int status, const char *format, ...)
{
    int why = errno;
    va_list arguments;
    va_start(arguments, format);
    if (message && size)
        vsnprintf(message, size, format, arguments);
    va_end(arguments);
    errno = why;
    return status;
}

static size_t kernel_thread_name(void *context, char *name, size_t size)
{
    (void)context;
    if (pthread_getname_np(pthread_self(), name, size) != 0)
        return 0;
    return strnlen(name, size);
}

/* In a forked child: an image of its own. Who asks for the document meanwhile waits. */
static int replace_image_locked(struct lp_worker *worker)
{
    pthread_mutex_lock(&worker->flush);
    pthread_mutex_lock(&worker->shown);
    lp_image_destroy(&worker->recorder.image);
    worker->run_id_origin = LP_RUN_ID_INHERITED;
    int failed = lp_worker_make_image_locked(worker);
    pthread_mutex_unlock(&worker->shown);
    pthread_mutex_unlock(&worker->flush);
    return failed;
}

/* The recorder's hook: at the first boundary here, in a forked child, or after a fork in the parent. */
static int begin(void *context)
{
    struct lp_worker *worker = context;
    pthread_mutex_lock(&worker->life);
    bool ok = !atomic_load(&worker->closed);
    if (ok && worker->foreign) {
        ok = replace_image_locked(worker) == 0;
        worker->foreign = !ok;
        if (!ok) /* for good: not even a page of memory is left, and each boundary would try again */
            lp_recorder_stop(&worker->recorder);
    }
    if (ok) {
        if (atomic_load(&worker->recorder.state) == LP_RECORDER_IDLE)
            lp_recorder_start(&worker->recorder);
        lp_keeper_start_locked(worker);
    }
    pthread_mutex_unlock(&worker->life);
    return ok ? 0 : -1;
}

void lp_worker_set_child_index(struct lp_worker *worker, int64_t index)
{
    pthread_mutex_lock(&worker->life);
    if (worker->foreign) {
        worker->has_index = index >= 0;
        worker->index = index >= 0 ? (uint32_t)index : 0;
    }
    pthread_mutex_unlock(&worker->life);
}

int lp_worker_make_image_locked(struct lp_worker *worker)
{
    lp_identity_read(&worker->identity);
    worker->started = lp_stamp_now();
    worker->sampler = (struct lp_sampler){0};
    lp_gpu_watch_forget(worker->gpus);
    worker->gpus = lp_gpu_watch_new(worker);
    if (lp_worker_make_names(worker) != 0 || lp_image_create(&worker->recorder.image, worker->name) != 0)
        return -1;
    if (lp_worker_put_facts(worker) != 0) {
        lp_image_destroy(&worker->recorder.image);
        return -1;
    }
    lp_image_publish(&worker->recorder.image);
    return 0;
}

/* 0 is none; the shortest would keep a core busy otherwise, the longest is 31 years. */
static bool interval_fits(double seconds)
{
    return seconds == 0 || (seconds >= 0.001 && seconds <= 1e9);
}

static int check_interval(const char *name, double seconds, char *message, size_t size)
{
    if (interval_fits(seconds))
        return LP_WORKER_OK;
    return lp_worker_say(message, size, LP_WORKER_BAD_OPTION, "%s must be 0.001 to 1e9 seconds, or none, not %g", name,
                         seconds);
}

static int check_options(const struct lp_worker_options *options, char *message, size_t size)
{
    if (!options->run_dir || options->run_dir[0] != '/')
        return lp_worker_say(message, size, LP_WORKER_BAD_OPTION, "run_dir must be an absolute path, not '%s'",
                             options->run_dir ? options->run_dir : "");
    if (options->role_len > LP_ROLE_BYTES)
        return lp_worker_say(message, size, LP_WORKER_BAD_OPTION, "role is longer than %u bytes; shorten it",
                             LP_ROLE_BYTES);
    if (options->run_id && (!options->run_id[0] || strlen(options->run_id) > LP_RUN_ID_BYTES))
        return lp_worker_say(message, size, LP_WORKER_BAD_OPTION,
                             "run_id must have 1 to %d bytes; give another or none", LP_RUN_ID_BYTES);
    int status = check_interval("snapshot_interval_s", options->snapshot_interval_s, message, size);
    if (status == LP_WORKER_OK)
        status = check_interval("sample_interval_s", options->sample_interval_s, message, size);
    return status;
}

static char *copy_bytes(const char *bytes, size_t len)
{
    char *copy = malloc(len + 1);
    if (copy) {
        memcpy(copy, bytes ? bytes : "", len);
        copy[len] = '\0';
    }
    return copy;
}

static int take_options(struct lp_worker *worker, const struct lp_worker_options *options)
{
    char own[LP_RUN_ID_BYTES];
    const char *run_id = options->run_id;
    worker->run_id_origin = options->run_id_origin;
    if (!run_id) {
        bool of_launch = lp_run_id_of_launch(own, sizeof own, options->run_dir);
        if (!of_launch)
            lp_run_id_generate(own, sizeof own);
        run_id = own;
        worker->run_id_origin = of_launch ? LP_RUN_ID_OF_LAUNCH : LP_RUN_ID_GENERATED;
    }
    worker->run_dir = copy_bytes(options->run_dir, strlen(options->run_dir));
    worker->run_id = copy_bytes(run_id, strlen(run_id));
    worker->role = copy_bytes(options->role, options->role_len);
    worker->role_len = options->role_len;
    worker->runtime = options->runtime ? copy_bytes(options->runtime, strlen(options->runtime)) : NULL;
    worker->thread_names = options->thread_names;
    worker->device_memory = options->device_memory;
    worker->measure_pss = options->measure_pss;
    worker->has_index = options->has_index;
    worker->index = options->index;
    worker->snapshot_ns = (uint64_t)(options->snapshot_interval_s * 1e9);
    worker->sample_ns = (uint64_t)(options->sample_interval_s * 1e9);
    worker->thread_name = options->thread_name ? options->thread_name : kernel_thread_name;
    worker->thread_name_context = options->thread_name_context;
    worker->flushed = options->flushed;
    worker->flushed_release = options->flushed_release;
    worker->flushed_context = options->flushed_context;
    return worker->run_dir && worker->run_id && worker->role && (worker->runtime || !options->runtime) ? 0 : -1;
}

static size_t ask_thread_name(void *context, char *name, size_t size)
{
    struct lp_worker *worker = context;
    return worker->thread_name(worker->thread_name_context, name, size);
}

static void free_parts(struct lp_worker *worker)
{
    lp_gpu_watch_end(worker->gpus);
    free(worker->run_dir);
    free(worker->run_id);
    free(worker->role);
    free(worker->runtime);
    lp_describe_release(&worker->describer);
    free(worker->folder);
    free(worker->path);
    free(worker);
}

/* As if it had just been forked: the first phase makes an image. */
static void lay_aside(struct lp_worker *worker)
{
    lp_image_unlink(&worker->recorder.image);
    lp_image_forget(&worker->recorder.image);
    worker->foreign = true;
}

static int open_worker(struct lp_worker **opened, const struct lp_worker_options *options, char *message,
                       size_t message_size)
{
    *opened = NULL;
    int why, status = check_options(options, message, message_size);
    if (status != LP_WORKER_OK)
        return status;
    lp_fork_prepare();
    struct lp_worker *worker = aligned_alloc(LP_APART, sizeof *worker);
    if (!worker)
        goto no_memory;
    memset(worker, 0, sizeof *worker);
    if (take_options(worker, options) != 0)
        goto no_memory;
    const struct lp_recorder_hooks hooks = {.context = worker,
                                            .begin = begin,
                                            .thread_name = ask_thread_name,
                                            .follow = options->follow,
                                            .follow_context = options->follow_context};
    if (lp_recorder_init(&worker->recorder, &hooks, options->measure_cpu, options->thread_names) != 0)
        goto no_memory;
    worker->recorder.wait_detail = options->wait_detail;
    if (lp_worker_make_image_locked(worker) != 0)
        goto no_image;
    if (lp_worker_make_folder(worker) != 0) {
        status = lp_worker_say(message, message_size, LP_WORKER_SYSTEM,
                               "cannot write the run directory '%s': %s; choose a run_dir that can be written",
                               worker->run_dir, strerror(errno));
        goto no_folder;
    }
    pthread_mutex_init(&worker->life, NULL);
    pthread_mutex_init(&worker->flush, NULL);
    pthread_mutex_init(&worker->shown, NULL);
    lp_keeper_init(&worker->keeper);
    lp_describe_init(worker);
    lp_metadata_add(worker);
    if (options->deferred)
        lay_aside(worker);
    lp_fork_watch(worker);
    lp_signals_watch(worker);
    *opened = worker;
    return LP_WORKER_OK;

no_folder:
    why = errno;
    lp_recorder_release(&worker->recorder);
    lp_image_destroy(&worker->recorder.image);
    free_parts(worker);
    errno = why;
    return status;
no_image:
    lp_recorder_release(&worker->recorder);
no_memory:
    if (worker)
        free_parts(worker);
    errno = ENOMEM;
    return lp_worker_say(message, message_size, LP_WORKER_NO_MEMORY, "no memory for a profiler; nothing is recorded");
}

int lp_worker_open(struct lp_worker **opened, const struct lp_worker_options *options, char *message,
                   size_t message_size)
{
    struct lp_own_io own = lp_own_io_begin();
    int status = open_worker(opened, options, message, message_size), why = errno;
    lp_own_io_end(NULL, &own);
    errno = why;
    return status;
}

struct lp_recorder *lp_worker_recorder(struct lp_worker *worker)
{
    return &worker->recorder;
}

/* In one that was cloned without fork handlers for ever. */
bool lp_worker_is_parents(struct lp_worker *worker)
{
    if (!lp_record_is_here())
        return true;
    pthread_mutex_lock(&worker->life);
    bool foreign = worker->foreign;
    pthread_mutex_unlock(&worker->life);
    return foreign;
}

int lp_worker_snapshot(struct lp_worker *worker, char *message, size_t message_size)
{
    if (lp_worker_is_parents(worker))
        return LP_WORKER_OK;
    lp_device_time_collect(true);
    if (lp_worker_flush(worker) == 0)
        return LP_WORKER_OK;
    return lp_worker_explain_write(worker, message, message_size);
}

void lp_worker_free(struct lp_worker *worker)
{
    if (!worker)
        return;
    lp_worker_close(worker, NULL, 0);
    if (!lp_record_is_here())
        return;
    lp_fork_unwatch(worker);
    if (lp_keeper_let_go(worker))
        lp_worker_dispose(worker);
}

void lp_worker_dispose(struct lp_worker *worker)
{
    if (worker->flushed_release)
        worker->flushed_release(worker->flushed_context);
    lp_device_time_forget(&worker->recorder);
    lp_recorder_release(&worker->recorder);
    lp_image_destroy(&worker->recorder.image);
    pthread_mutex_destroy(&worker->life);
    pthread_mutex_destroy(&worker->flush);
    pthread_mutex_destroy(&worker->shown);
    free_parts(worker);
}

const char *lp_worker_name(const struct lp_worker *worker)
{
    return worker->name;
}

const char *lp_worker_run_id(const struct lp_worker *worker)
{
    return worker->run_id;
}

const char *lp_worker_run_dir(const struct lp_worker *worker)
{
    return worker->run_dir;
}

const char *lp_worker_path(const struct lp_worker *worker)
{
    return worker->path;
}

size_t lp_worker_copy_path(const struct lp_worker *worker, char *text, size_t size)
{
    pthread_mutex_t *shown = (pthread_mutex_t *)&worker->shown;
    bool locked =
        lp_record_is_here(); /* in a clone without fork handlers nothing changes, and it may be taken for ever */
    if (locked)
        pthread_mutex_lock(shown);
    int len = snprintf(text, size, "%s", worker->path ? worker->path : "");
    if (locked)
        pthread_mutex_unlock(shown);
    return len > 0 ? (size_t)len : 0;
}

bool lp_worker_closing(const struct lp_worker *worker)
{
    return atomic_load(&worker->closing);
}

void lp_worker_callback_failed(struct lp_worker *worker)
{
    lp_image_trouble(&worker->recorder.image, LP_TROUBLE_FAILED_CALLBACKS);
}

bool lp_worker_closed(const struct lp_worker *worker)
{
    return atomic_load(&worker->closed);
}
