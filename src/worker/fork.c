/*
 * Forks: no thread of ours runs across one, no lock of ours is inherited taken, and the child reaches nothing of its
 * parent's. The child goes on lazily, at its next boundary: if it is about to exec, it is to leave no trace. The parent goes
 * on at once, for it may only wait for its children from now on, for hours: its keeper is started in the fork handler, where
 * libc holds no lock any more. Not so beside an interpreter: CPython counts threads just after a fork, and warns. There the
 * host may see to it that the parent goes on soon after; else it goes on at its next boundary too.
 */
#include <string.h>
#include <time.h>

#include "process/cuda.h"
#include "worker/children.h"
#include "worker/device_time.h"
#include "worker/internal.h"
#include "worker/signals.h"

#define FLUSH_WAIT_SECONDS 2
#define CALL_WAIT_SECONDS 2

typedef void resume_soon_fn(void);

/* CPython's, where there is one in this process. */
extern int Py_IsInitialized(void) __attribute__((weak));

static pthread_once_t watch_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct lp_worker *registry; /* guarded by registry_lock */

static void forget_gpus(struct lp_worker *worker)
{
    lp_gpu_watch_forget(worker->gpus);
    worker->gpus = NULL;
}

/* In a child that was cloned without fork handlers: threads of its parent may have held any lock, and the keeper is not
   here. */
static void make_locks_anew(void)
{
    pthread_mutex_init(&registry_lock, NULL);
    for (struct lp_worker *worker = registry; worker; worker = worker->next) {
        pthread_mutex_init(&worker->life, NULL);
        pthread_mutex_init(&worker->flush, NULL);
        pthread_mutex_init(&worker->shown, NULL);
        lp_keeper_init(&worker->keeper);
        worker->gpus = NULL; /* not freed: the heap may be as its threads left it */
    }
    lp_cuda_after_fork();
    lp_device_time_after_fork();
    lp_record_make_locks_anew();
    lp_signals_after_fork();
    lp_own_io_after_fork();
}

/* A flush that hangs on a dead file server must not hang the fork: the child makes its lock anew. */
static void wait_for_flush(struct lp_worker *worker, const struct timespec *until)
{
    long nap_ns = 0;
    int failed;
    while ((failed = pthread_mutex_trylock(&worker->flush)) != 0 && lp_nap_before(until, &nap_ns))
        continue;
    if (!failed)
        pthread_mutex_unlock(&worker->flush);
}

static _Atomic(resume_soon_fn *) resume_soon;

static bool pause_all(bool late)
{
    bool waits = false;
    pthread_mutex_lock(&registry_lock);
    for (struct lp_worker *worker = registry; worker; worker = worker->next)
        waits |= worker->flushed && lp_keeper_pause(worker, late);
    pthread_mutex_unlock(&registry_lock);
    return waits;
}

void lp_worker_pause_calls(void)
{
    struct timespec until;
    long nap_ns = 0;
    bool late = false;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CALL_WAIT_SECONDS;
    if (!lp_record_is_here())
        return;
    while (pause_all(late)) /* the lock is free meanwhile: the call may open a worker */
        late = !lp_nap_before(&until, &nap_ns);
}

static void before_fork(void)
{
    struct timespec until; /* for all workers together */
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FLUSH_WAIT_SECONDS;
    if (!lp_record_is_here())
        make_locks_anew();
    pthread_mutex_lock(&registry_lock);
    for (struct lp_worker *worker = registry; worker; worker = worker->next) {
        pthread_mutex_lock(&worker->life);
        lp_keeper_stop_locked(worker, &until);
        lp_gpu_watch_pause(worker->gpus, &until);
        wait_for_flush(worker, &until);
    }
    lp_record_before_fork();
}

void lp_worker_resume_by(void (*soon)(void))
{
    atomic_store(&resume_soon, soon);
}

/* A worker that had a keeper before the fork. With life held. */
static bool waits_for_keeper(const struct lp_worker *worker)
{
    return !worker->foreign && !atomic_load(&worker->closed) && worker->keeper.next_flush_ns != 0;
}

void lp_worker_resume(void)
{
    if (!lp_record_is_here())
        return;
    pthread_mutex_lock(&registry_lock);
    for (struct lp_worker *worker = registry; worker; worker = worker->next) {
        pthread_mutex_lock(&worker->life);
        if (waits_for_keeper(worker))
            lp_keeper_start_locked(worker);
        pthread_mutex_unlock(&worker->life);
    }
    pthread_mutex_unlock(&registry_lock);
}

/* Posix lets a parent do anything in its handlers; but threads are the host's affair where it has said so. */
static bool may_start_threads(void)
{
    return !atomic_load(&resume_soon) && !(Py_IsInitialized && Py_IsInitialized());
}

/* Also that of a worker that has recorded nothing yet: its program may have nothing to do but to fork. With life held. */
static bool started_keeper(struct lp_worker *worker)
{
    if (worker->foreign || atomic_load(&worker->closed))
        return false;
    worker->keeper.after_fork = true;
    lp_keeper_start_locked(worker);
    worker->keeper.after_fork = false;
    return worker->keeper.running;
}

static void after_fork_in_parent(void)
{
    bool waits = false, at_once = may_start_threads();
    lp_record_after_fork_in_parent();
    for (struct lp_worker *worker = registry; worker; worker = worker->next) {
        if (!at_once || !started_keeper(worker)) {
            lp_recorder_wake(&worker->recorder); /* under life: a close in between must not be undone */
            waits |= waits_for_keeper(worker);
        }
        pthread_mutex_unlock(&worker->life);
    }
    pthread_mutex_unlock(&registry_lock);
    resume_soon_fn *soon = atomic_load(&resume_soon);
    if (waits && soon)
        soon();
}

static void after_fork_in_child(void)
{
    lp_record_after_fork_in_child();
    lp_cuda_after_fork();
    lp_device_time_after_fork();
    lp_signals_after_fork();
    lp_own_io_after_fork();
    lp_children_after_fork();
    for (struct lp_worker *worker = registry; worker; worker = worker->next) {
        lp_keeper_init(&worker->keeper);
        lp_describe_after_fork(worker);
        forget_gpus(worker);
        pthread_mutex_init(&worker->flush, NULL);
        pthread_mutex_init(&worker->shown, NULL);
        worker->foreign = true;
        worker->has_index = false;
        pthread_mutex_unlock(&worker->life);
    }
    pthread_mutex_unlock(&registry_lock);
}

static void watch(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void lp_fork_prepare(void)
{
    pthread_once(&watch_once, watch);
    if (lp_record_is_here())
        return;
    before_fork();
    after_fork_in_child();
}

void lp_fork_watch(struct lp_worker *worker)
{
    pthread_mutex_lock(&registry_lock);
    worker->next = registry;
    registry = worker;
    pthread_mutex_unlock(&registry_lock);
}

bool lp_fork_any_open(void)
{
    bool any = false;
    pthread_mutex_lock(&registry_lock);
    for (const struct lp_worker *worker = registry; worker; worker = worker->next)
        any |= !atomic_load(&worker->closed);
    pthread_mutex_unlock(&registry_lock);
    return any;
}

void lp_fork_unwatch(struct lp_worker *worker)
{
    pthread_mutex_lock(&registry_lock);
    for (struct lp_worker **link = &registry; *link; link = &(*link)->next) {
        if (*link == worker) {
            *link = worker->next;
            break;
        }
    }
    pthread_mutex_unlock(&registry_lock);
}
