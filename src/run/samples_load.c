#include "run/samples_load.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/pending.h"
#include "run/room.h"
#include "run/samples_fold.h"
#include "run/samples_sum.h"

#define THREADS_MAX 8
#define ROWS_ALONE 20000 /* That take about as long as starting threads does. */

/* One thread's part of the work. */
struct reader {
    struct work *work; /* Borrowed. */
    pthread_t thread;
    struct lp_sample_file file;
    struct lp_run_samples_fold fold;
    uint64_t rows; /* Read so far. */
};

struct work {
    struct lp_run *run; /* Borrowed. Each worker is one reader's. */
    int dir_fd;
    atomic_size_t next; /* Worker that nobody has taken yet. */
    atomic_bool failed; /* No memory. */
    pthread_mutex_t lock;
    struct lp_run_samples_sum sum; /* Guarded by lock. */
    struct lp_run_ruler ruler;
    struct reader readers[THREADS_MAX];
    size_t n_readers; /* In use. */
};

/* --- one worker --- */

/* As writers name folders; to be freed. */
static char *folder_of(const struct lp_text *host)
{
    char *folder = malloc(host->len + 1);
    for (size_t i = 0; folder && i <= host->len; i++) {
        char byte = host->bytes[i];
        bool kept = (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') ||
                    byte == '_' || byte == '-' || (byte == '.' && i > 0);
        folder[i] = byte;
        if (!kept && i < host->len)
            folder[i] = '_';
    }
    return folder;
}

char *lp_run_samples_path(const struct lp_run_worker *worker, enum lp_ring_kind kind)
{
    char name[512], *path = NULL;
    lp_samples_file_name(name, sizeof name, worker->worker.bytes, kind);
    if (worker->source == LP_SOURCE_FILE) {
        const char *slash = strrchr(worker->path, '/');
        return asprintf(&path, "%.*s%s", (int)(slash - worker->path + 1), worker->path, name) < 0 ? NULL : path;
    }
    char *folder = folder_of(&worker->host);
    if (!folder || asprintf(&path, "workers/%s/%s", folder, name) < 0)
        path = NULL;
    free(folder);
    return path;
}

static int fold_rows(struct reader *reader, struct lp_run_samples *samples, char **fault)
{
    uint64_t row[LP_P_FIELDS];
    struct lp_sample_file *file = &reader->file;
    for (; lp_sample_file_next(file, row); reader->rows++) {
        if (file->kind == LP_RING_PROCESS)
            lp_run_samples_fold_process(&reader->fold, row);
        else if (lp_run_samples_fold_gpu(&reader->fold, row) < 0)
            return -1;
    }
    samples->rows_cut += file->cut;
    if (!file->error)
        return 0;
    return asprintf(fault, "cannot be read to its end: %s", strerrordesc_np(file->error)) < 0 ? -1 : 0;
}

/* 1 if the file was there, whatever came of it; 0 if not; -1 without memory. */
static int read_file(struct reader *reader, const struct lp_run_worker *worker, enum lp_ring_kind kind,
                     struct lp_run_samples *samples, char **reason)
{
    struct lp_run_fault fault;
    char *path = lp_run_samples_path(worker, kind);
    if (!path)
        return -1;
    int found = lp_sample_file_open(&reader->file, reader->work->dir_fd, path, kind, worker->worker.bytes, &fault);
    free(path);
    if (found == 0)
        return 0;
    if (found < 0) {
        if (fault.no_memory)
            return -1;
        *reason = strdup(fault.text);
        return *reason ? 1 : -1;
    }
    int result = fold_rows(reader, samples, reason);
    lp_sample_file_close(&reader->file);
    return result < 0 ? -1 : 1;
}

/* What no file has yet, but for rows that were filed meanwhile. */
static int fold_pending(struct reader *reader, const struct lp_run_worker *worker)
{
    uint64_t row[LP_P_FIELDS];
    struct lp_run_samples_fold *fold = &reader->fold;
    const struct lp_run_pending *pending = worker->pending;
    for (size_t i = 0; pending && i < pending->n_process; i++) {
        lp_run_pending_process(&pending->process[i], row);
        if (!lp_run_samples_fold_has_process(fold, row))
            lp_run_samples_fold_process(fold, row);
    }
    for (size_t i = 0; pending && i < pending->n_gpu; i++) {
        lp_run_pending_gpu(&pending->gpu[i], row);
        if (!lp_run_samples_fold_has_gpu(fold, row) && lp_run_samples_fold_gpu(fold, row) < 0)
            return -1;
    }
    return 0;
}

static struct lp_run_axis axis_of(const struct lp_run *run, const struct lp_run_worker *worker)
{
    struct lp_run_axis axis = {0};
    if (!run->one_clock)
        axis = lp_run_axis_epoch(worker);
    axis.offset_ns -= (int64_t)run->began_ns;
    return axis;
}

static int add_to_sum(struct reader *reader, size_t index)
{
    struct work *work = reader->work;
    pthread_mutex_lock(&work->lock);
    int result = lp_run_samples_sum_worker(&work->sum, work->run, index, &reader->fold);
    pthread_mutex_unlock(&work->lock);
    return result;
}

static int read_worker(struct reader *reader, size_t index)
{
    struct lp_run_worker *worker = &reader->work->run->workers[index];
    struct lp_run_axis axis = axis_of(reader->work->run, worker);
    struct lp_run_samples *samples = malloc(sizeof *samples);
    if (!samples)
        return -1;
    worker->samples = samples;
    if (lp_run_samples_fold_begin(&reader->fold, worker, &axis, samples) < 0)
        return -1;
    int process = read_file(reader, worker, LP_RING_PROCESS, samples, &samples->fault);
    int gpus = process < 0 ? -1 : read_file(reader, worker, LP_RING_GPU, samples, &samples->gpu_fault);
    if (gpus >= 0 && fold_pending(reader, worker) < 0)
        return -1;
    if (gpus < 0 || lp_run_samples_fold_end(&reader->fold) < 0)
        return -1;
    if (process || gpus || worker->pending)
        return add_to_sum(reader, index);
    lp_run_samples_free(samples);
    worker->samples = NULL;
    return 0;
}

/* --- all of them --- */

/* The next worker; false if there is none. */
static bool read_next(struct reader *reader)
{
    struct work *work = reader->work;
    size_t index = atomic_fetch_add(&work->next, 1);
    if (index >= work->run->n_workers || work->failed)
        return false;
    if (read_worker(reader, index) < 0)
        work->failed = true;
    return !work->failed;
}

static void *read_workers(void *reader)
{
    while (read_next(reader)) {
    }
    return NULL;
}

static size_t count_threads(const struct lp_run *run)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    size_t n = cores < THREADS_MAX ? (size_t)cores : THREADS_MAX;
    return n < run->n_workers ? n : run->n_workers;
}

static int init_reader(struct work *work, size_t i)
{
    work->readers[i].work = work;
    work->readers[i].file.fd = -1;
    return lp_run_samples_fold_init(&work->readers[i].fold, &work->ruler);
}

/* Further threads, as far as they can be had. No signal of the host's is taken by them. */
static void start_threads(struct work *work)
{
    size_t n = count_threads(work->run);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; work->n_readers < n; work->n_readers++) {
        struct reader *reader = &work->readers[work->n_readers];
        if (init_reader(work, work->n_readers) < 0 ||
            pthread_create(&reader->thread, NULL, read_workers, reader) != 0) {
            lp_run_samples_fold_release(&reader->fold);
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static struct lp_run_ruler ruler_of(const struct lp_run *run)
{
    struct lp_run_ruler ruler = {
        .bin_ns = run->runtime_ns / (LP_RUN_TIMELINE_BINS - 1) + 1,
        .gpu_bin_ns = run->runtime_ns / LP_RUN_GPU_BINS + 1,
    };
    if (ruler.bin_ns < LP_RUN_TIMELINE_LEAST_NS)
        ruler.bin_ns = LP_RUN_TIMELINE_LEAST_NS;
    ruler.n_bins = (size_t)(run->runtime_ns / ruler.bin_ns) + 1;
    return ruler;
}

/* The caller's thread begins, and gets help once it has read as much as makes that worth while. */
static int read_all(struct work *work)
{
    struct reader *first = &work->readers[0];
    bool helped = false;
    if (init_reader(work, 0) < 0)
        return -1;
    while (read_next(first))
        if (!helped && first->rows >= ROWS_ALONE) {
            start_threads(work);
            helped = true;
        }
    for (size_t i = 1; i < work->n_readers; i++)
        pthread_join(work->readers[i].thread, NULL);
    if (work->failed)
        return -1;
    for (size_t i = 0; i < work->n_readers; i++)
        lp_run_samples_sum_timeline(&work->sum, &work->readers[i].fold.timeline);
    return lp_run_samples_sum_finish(&work->sum, work->run);
}

int lp_run_samples_load(struct lp_run *run, int dir_fd)
{
    struct work *work = calloc(1, sizeof *work);
    if (!work)
        return -1;
    work->run = run;
    work->dir_fd = dir_fd;
    work->ruler = ruler_of(run);
    work->n_readers = 1;
    pthread_mutex_init(&work->lock, NULL);
    int result = read_all(work);
    for (size_t i = 0; i < work->n_readers; i++) {
        lp_sample_file_release(&work->readers[i].file);
        lp_run_samples_fold_release(&work->readers[i].fold);
    }
    lp_run_samples_sum_release(&work->sum);
    pthread_mutex_destroy(&work->lock);
    free(work);
    return result;
}

void lp_run_samples_free(struct lp_run_samples *samples)
{
    if (!samples)
        return;
    free(samples->fault);
    free(samples->gpu_fault);
    free(samples->gpus);
    free(samples);
}

void lp_run_sampled_free(struct lp_run_sampled *sampled, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(sampled[i].busy);
    free(sampled);
}

void lp_run_sampling_free(struct lp_run_sampling *sampling)
{
    if (!sampling)
        return;
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++)
        free(sampling->timeline.bytes[flow]);
    free(sampling->timeline.known_ns);
    free(sampling->gpus);
    free(sampling);
}
