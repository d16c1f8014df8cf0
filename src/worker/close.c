/*
 * The end of a worker: its last file, and what becomes of its image.
 *
 * The keeper writes it, where there is one: a file server may not answer, and the program waits for a bounded time only.
 * The keeper then goes on by itself. If the process ends before that, the image is what is left, and is adopted.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "worker/adopt.h"
#include "worker/children.h"
#include "worker/device_time.h"
#include "worker/internal.h"
#include "worker/signals.h"

#define FILE_WAIT_SECONDS 10
#define ADOPTION_NS 1000000000u

int lp_worker_explain_write(struct lp_worker *worker, char *message, size_t size)
{
    if (errno == ETIMEDOUT)
        return lp_worker_say(message, size, LP_WORKER_SYSTEM,
                             "cannot write '%s': no answer for %d seconds; what was recorded stays in shared memory, "
                             "where a report on this machine finds it",
                             worker->path, FILE_WAIT_SECONDS);
    return lp_worker_say(message, size, LP_WORKER_SYSTEM, "cannot write '%s': %s; free space or mend the run directory",
                         worker->path, strerror(errno));
}

static bool is_late(void *until_ns)
{
    return lp_monotonic_ns() > *(uint64_t *)until_ns;
}

/* Of the same run: of those that died since the last flush, or of all if nothing was ever flushed but this. */
static void adopt_dead(const struct lp_worker *worker)
{
    uint64_t until_ns = lp_monotonic_ns() + ADOPTION_NS;
    lp_adopt(&(struct lp_adoption){.run_dir = worker->run_dir,
                                   .own = lp_image_header(&worker->recorder.image),
                                   .largest = LP_ADOPTS_AT_MOST,
                                   .stop = is_late,
                                   .context = &until_ns});
}

/* An image whose file could not be written is the only copy: it stays for a reader. */
static int finish(struct lp_worker *worker)
{
    lp_gpu_watch_end(worker->gpus);
    worker->gpus = NULL;
    pthread_mutex_lock(&worker->flush);
    int why = lp_worker_write_locked(worker) == 0 ? 0 : errno;
    atomic_store(&lp_image_header(&worker->recorder.image)->file_is_last, why == 0);
    pthread_mutex_unlock(&worker->flush);
    lp_describe_at_last(worker); /* while there is an image: what a kill leaves half written is removed with it */
    if (why == 0)
        lp_image_unlink(&worker->recorder.image);
    else
        lp_image_abandon(&worker->recorder.image);
    adopt_dead(worker);
    return why;
}

/* What this moves no file of ours can tell any more; but there may be other workers in this process. */
int lp_worker_finish(struct lp_worker *worker)
{
    struct lp_own_io own = lp_own_io_begin();
    int why = finish(worker);
    lp_own_io_end(NULL, &own);
    return why;
}

/* From now on nothing changes, and no flush begins. */
static void stop(struct lp_worker *worker)
{
    lp_recorder_stop(&worker->recorder);
    lp_device_time_collect(true);
    lp_device_time_forget(&worker->recorder);
    if (!worker->foreign) {
        struct lp_header *header = lp_image_header(&worker->recorder.image);
        header->closed_at = lp_stamp_now();
        atomic_store(&header->closed, 1);
    }
    atomic_store(&worker->closed, true);
}

static int finish_in_time(struct lp_worker *worker)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FILE_WAIT_SECONDS;
    int why = lp_keeper_finish_locked(worker, &until);
    return why >= 0 ? why : lp_worker_finish(worker);
}

void lp_worker_begin_close(struct lp_worker *worker)
{
    atomic_store(&worker->closing, true);
}

int lp_worker_close(struct lp_worker *worker, char *message, size_t message_size)
{
    if (!lp_record_is_here()) { /* image, file and keeper are the parent's, and its threads may hold the locks */
        lp_recorder_stop(&worker->recorder);
        atomic_store(&worker->closed, true);
        return LP_WORKER_OK;
    }
    lp_keeper_end_calls(worker);
    lp_signals_unwatch(worker);
    pthread_mutex_lock(&worker->life);
    if (!atomic_load(&worker->closed)) {
        stop(worker);
        worker->close_errno = worker->foreign ? 0 : finish_in_time(worker);
    }
    errno = worker->close_errno;
    int status = errno == 0 ? LP_WORKER_OK : lp_worker_explain_write(worker, message, message_size);
    pthread_mutex_unlock(&worker->life);
    if (!lp_fork_any_open())
        lp_children_forget();
    return status;
}
