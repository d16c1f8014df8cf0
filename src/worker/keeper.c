/*
 * The keeper: a native thread with all signals blocked that proves the CPU clock's token, shows that the worker lives,
 * and writes its file every snapshot interval. It never needs the interpreter; what it calls after a flush may.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/own_reads.h"
#include "process/own_threads.h"
#include "worker/adopt.h"
#include "worker/children.h"
#include "worker/internal.h"
#include "worker/samples.h"

#define FIRST_FLUSH_NS 1000000000u /* soon, so that other machines see the worker; then every interval */
#define FIRST_NAP_NS 20000
#define LONGEST_NAP_NS 500000    /* who waits is a program that ends, or forks */
#define STACK_BYTES (256u << 10) /* of one that calls nothing of others */
#define CLOSE_WAIT_SECONDS 5
#define REST_NS                                                                                                        \
    10000000u /* after a fork: the next one may follow at once, and is not to wait for what a beginning takes */
#define DESCRIPTION_NS 100000000u /* what the first sample waits for */
#define DESCRIPTION_LOOK_NS 2000000u

uint64_t lp_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void lp_keeper_init(struct lp_keeper *keeper)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&keeper->lock, NULL);
    sem_init(&keeper->wake, 0, 0);
    pthread_cond_init(&keeper->quiet, &attributes);
    pthread_condattr_destroy(&attributes);
    keeper->running = keeper->stop = keeper->leaving = keeper->calling = keeper->orphan = false;
    keeper->passed_over = keeper->finishes = keeper->finished = keeper->late = keeper->left = keeper->ends_process =
        false;
    keeper->next_flush_ns = keeper->next_sample_ns = 0;
    atomic_store(&keeper->serves, 0);
    atomic_store(&keeper->served, atomic_load(&keeper->requested));
}

static bool write_is_due(struct lp_keeper *keeper)
{
    return atomic_load(&keeper->requested) != atomic_load(&keeper->served);
}

/* Waits for a time or for a request; true if asked to stop. */
static bool stopped_before(struct lp_keeper *keeper, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                   .tv_nsec = (long)(until_ns % 1000000000u)};
    for (bool late = false;;) {
        pthread_mutex_lock(&keeper->lock);
        bool leaving = keeper->leaving = keeper->stop;
        pthread_mutex_unlock(&keeper->lock);
        if (leaving || late || write_is_due(keeper))
            return leaving;
        late = sem_clockwait(&keeper->wake, CLOCK_MONOTONIC, &until) != 0 && errno == ETIMEDOUT;
    }
}

/* Between two images of dead workers: whether something is more urgent. */
static bool is_needed(void *context)
{
    struct lp_keeper *keeper = context;
    pthread_mutex_lock(&keeper->lock);
    bool stop = keeper->stop;
    pthread_mutex_unlock(&keeper->lock);
    return stop || write_is_due(keeper);
}

static void adopt(struct lp_worker *worker, bool abandoned)
{
    lp_adopt(&(struct lp_adoption){.run_dir = worker->run_dir,
                                   .own = lp_image_header(&worker->recorder.image),
                                   .abandoned = abandoned,
                                   .largest = LP_ADOPTS_AT_MOST,
                                   .stop = is_needed,
                                   .context = &worker->keeper});
}

/* Children and dead workers. The latter not before the first flush: of a process that ends at once no file server is
   asked. */
static void see_to_others(struct lp_worker *worker, bool flush_is_due, bool *looked_around)
{
    bool look = lp_children_may_be_new();
    if (!look && !flush_is_due) {
        lp_children_note();
        return;
    }
    struct lp_own_io own = lp_own_io_begin();
    if (look)
        lp_children_look();
    lp_children_note();
    if (flush_is_due) {
        adopt(worker, !*looked_around);
        *looked_around = true;
    }
    lp_own_io_end(worker, &own);
}

/* When something falls due next: at even distances, but with no catching up after a suspend or a slow flush. */
static uint64_t next_due(uint64_t due_ns, uint64_t interval_ns, uint64_t now_ns)
{
    due_ns = due_ns ? due_ns + interval_ns : now_ns + interval_ns;
    return due_ns > now_ns ? due_ns : now_ns + interval_ns;
}

static void sample_if_due(struct lp_worker *worker, uint64_t now_ns)
{
    struct lp_keeper *keeper = &worker->keeper;
    if (!worker->sample_ns || now_ns < keeper->next_sample_ns)
        return;
    if (!atomic_load(&worker->closed)) { /* else the last sample is of the moment when it closed */
        lp_worker_sample(worker, now_ns);
        lp_gpu_watch_tick(worker->gpus, now_ns);
    }
    keeper->next_sample_ns = next_due(keeper->next_sample_ns, worker->sample_ns, now_ns);
}

static uint64_t next_wake(const struct lp_worker *worker)
{
    const struct lp_keeper *keeper = &worker->keeper;
    if (!worker->snapshot_ns || (worker->sample_ns && keeper->next_sample_ns < keeper->next_flush_ns))
        return keeper->next_sample_ns;
    return keeper->next_flush_ns;
}

static bool begin_call(struct lp_worker *worker)
{
    struct lp_keeper *keeper = &worker->keeper;
    pthread_mutex_lock(&keeper->lock);
    bool begins = !keeper->stop && !atomic_load(&worker->closing);
    keeper->calling = begins;
    keeper->passed_over = false;
    pthread_mutex_unlock(&keeper->lock);
    return begins;
}

static void end_call(struct lp_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->calling = false;
    pthread_cond_broadcast(&keeper->quiet);
    pthread_mutex_unlock(&keeper->lock);
}

/* False in a child that the call forked: this thread is the program's there, and the worker may be gone. */
static bool call_flushed(struct lp_worker *worker)
{
    pid_t pid = getpid();
    if (!worker->flushed || !begin_call(worker))
        return true;
    worker->flushed(worker->flushed_context);
    if (getpid() != pid)
        return false;
    end_call(&worker->keeper);
    return true;
}

/* The program's threads are gone: it ends as it would have without us, with its last thread, which is this one or another
   keeper. What comes then, handlers of exit() among it, is the program's own, and is not to find signals blocked. */
static void *leave_alone(struct lp_worker *worker)
{
    struct timespec until;
    sigset_t none;
    sigemptyset(&none);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CLOSE_WAIT_SECONDS;
    lp_gpu_watch_pause(worker->gpus, &until);
    lp_describe_stop(worker, false);
    lp_worker_flush(worker);
    atomic_store(&worker->keeper.serves, 0);
    pthread_mutex_lock(&worker->keeper.lock);
    worker->keeper.ends_process = true;
    pthread_mutex_unlock(&worker->keeper.lock);
    lp_own_thread_ends();
    lp_own_thread_set_apart(false);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    return NULL;
}

/* The last thing that a keeper does. */
static void *leave(struct lp_worker *worker)
{
    struct lp_keeper *keeper = &worker->keeper;
    pthread_mutex_lock(&keeper->lock);
    bool finishes = keeper->finishes;
    pthread_mutex_unlock(&keeper->lock);
    if (finishes && worker->sample_ns) /* what was used since the last sample is in this one */
        lp_worker_sample(worker, lp_monotonic_ns());
    lp_describe_stop(worker, finishes);
    int why = finishes ? lp_worker_finish(worker) : 0;
    atomic_store(&keeper->serves, 0);
    pthread_mutex_lock(&keeper->lock);
    bool orphan = keeper->orphan;
    keeper->finish_errno = why;
    keeper->finished = finishes;
    keeper->left = true;
    pthread_mutex_unlock(&keeper->lock);
    if (orphan)
        lp_worker_dispose(worker);
    lp_own_thread_ends();
    return NULL;
}

/* The kernel adds what git has moved to this process's own counters when it ends. Before the first sample that is part of
   no interval. */
static void let_git_end(struct lp_worker *worker)
{
    uint64_t until_ns = lp_monotonic_ns() + DESCRIPTION_NS, now;
    while (lp_describe_runs(worker) && (now = lp_monotonic_ns()) < until_ns && !write_is_due(&worker->keeper))
        if (stopped_before(&worker->keeper, now + DESCRIPTION_LOOK_NS))
            return;
}

static void *keep(void *context)
{
    struct lp_worker *worker = context;
    struct lp_keeper *keeper = &worker->keeper;
    pthread_setname_np(pthread_self(), "lp-keeper");
    lp_own_thread_set_apart(true);
    lp_own_thread_begins();
    atomic_store(&keeper->serves, gettid());
    if (keeper->rests && stopped_before(keeper, lp_monotonic_ns() + REST_NS))
        return leave(worker);
    lp_describe_go_on(worker);
    prctl(PR_SET_TIMERSLACK, 1UL);
    if (worker->recorder.measure_cpu)
        lp_cpu_prove();
    prctl(PR_SET_TIMERSLACK, 0UL);
    bool looked_around = false;
    let_git_end(worker);
    do {
        struct lp_stamp stamp = lp_stamp_now();
        uint64_t now = stamp.monotonic_ns, requested = atomic_load(&keeper->requested);
        bool flush_is_due = worker->snapshot_ns && now >= keeper->next_flush_ns;
        lp_image_beat(&worker->recorder.image, &stamp);
        lp_recorder_restore(&worker->recorder);
        sample_if_due(worker, now);
        if (flush_is_due || write_is_due(keeper))
            lp_worker_flush(worker);
        else if (lp_samples_are_pressing(&worker->recorder.image))
            lp_worker_file_samples(worker);
        atomic_store(&keeper->served, requested);
        see_to_others(worker, flush_is_due, &looked_around);
        lp_describe_go_on(worker);
        if (lp_own_threads_are_alone())
            return leave_alone(worker);
        if (flush_is_due) {
            if (worker->thread_names) /* each is asked at its next boundary */
                lp_recorder_touch(&worker->recorder);
            keeper->next_flush_ns = now + worker->snapshot_ns;
            if (!call_flushed(worker))
                return NULL;
            now = lp_monotonic_ns();
            if (keeper->next_flush_ns < now) /* after a call that took longer than the interval */
                keeper->next_flush_ns = now + worker->snapshot_ns;
        }
    } while (!stopped_before(keeper, next_wake(worker)));
    return leave(worker);
}

/* A keeper that did not stop in time for a fork, in a hanging flush, goes on if it has not seen the request meanwhile. */
static bool goes_on(struct lp_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    bool leaving = keeper->leaving;
    keeper->stop = false;
    pthread_mutex_unlock(&keeper->lock);
    if (leaving)
        pthread_join(keeper->thread, NULL);
    return !leaving;
}

/* libc takes the program's thread-local variables out of a thread's stack: where they leave no room in a small one, the
   default must do. So it must for what others do on it. */
static int start_thread(struct lp_worker *worker)
{
    sigset_t all, before;
    pthread_attr_t small;
    pthread_attr_init(&small);
    if (!worker->flushed)
        pthread_attr_setstacksize(&small, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&worker->keeper.thread, &small, keep, worker);
    if (failed)
        failed = pthread_create(&worker->keeper.thread, NULL, keep, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
    return failed;
}

void lp_keeper_start_locked(struct lp_worker *worker)
{
    struct lp_keeper *keeper = &worker->keeper;
    if (!worker->snapshot_ns && !worker->sample_ns)
        return;
    if (keeper->running && goes_on(keeper))
        return;
    if (keeper->next_flush_ns == 0)
        keeper->next_flush_ns =
            lp_monotonic_ns() + (worker->snapshot_ns < FIRST_FLUSH_NS ? worker->snapshot_ns : FIRST_FLUSH_NS);
    keeper->stop = keeper->leaving = false;
    keeper->rests = keeper->after_fork;
    keeper->running = start_thread(worker) == 0;
}

bool lp_nap_before(const struct timespec *until, long *nap_ns)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec))
        return false;
    *nap_ns = *nap_ns == 0 ? FIRST_NAP_NS : *nap_ns < LONGEST_NAP_NS ? 2 * *nap_ns : *nap_ns;
    nanosleep(&(struct timespec){.tv_nsec = *nap_ns}, NULL);
    return true;
}

static bool joined_before(struct lp_keeper *keeper, const struct timespec *until)
{
    long nap_ns = 0;
    int failed;
    while ((failed = pthread_tryjoin_np(keeper->thread, NULL)) != 0 && lp_nap_before(until, &nap_ns))
        continue;
    return failed == 0;
}

/* Whether there is one to wait for. One that ends the process is none: it may wait for who asks. */
static bool runs_locked(struct lp_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->running &= !keeper->ends_process;
    pthread_mutex_unlock(&keeper->lock);
    return keeper->running;
}

void lp_keeper_stop_locked(struct lp_worker *worker, const struct timespec *until)
{
    struct lp_keeper *keeper = &worker->keeper;
    if (!runs_locked(keeper) || pthread_equal(keeper->thread, pthread_self()))
        return;
    pthread_mutex_lock(&keeper->lock);
    keeper->stop = true;
    sem_post(&keeper->wake);
    bool calling = keeper->calling;
    pthread_mutex_unlock(&keeper->lock);
    keeper->running = calling || !joined_before(keeper, until);
}

int lp_keeper_finish_locked(struct lp_worker *worker, const struct timespec *until)
{
    struct lp_keeper *keeper = &worker->keeper;
    if (!runs_locked(keeper))
        return -1;
    pthread_mutex_lock(&keeper->lock);
    keeper->stop = true;
    keeper->finishes = !keeper->calling && !pthread_equal(keeper->thread, pthread_self());
    bool waits = keeper->finishes;
    sem_post(&keeper->wake);
    pthread_mutex_unlock(&keeper->lock);
    if (!waits)
        return -1;
    if (!joined_before(keeper, until)) {
        keeper->late = true;
        return ETIMEDOUT;
    }
    keeper->running = false;
    pthread_mutex_lock(&keeper->lock);
    int why = keeper->finished ? keeper->finish_errno : -1;
    pthread_mutex_unlock(&keeper->lock);
    return why;
}

uint64_t lp_keeper_request(struct lp_worker *worker)
{
    struct lp_keeper *keeper = &worker->keeper;
    pid_t serves = atomic_load(&keeper->serves);
    if (serves == 0 || serves == gettid())
        return 0;
    uint64_t request = atomic_fetch_add(&keeper->requested, 1) + 1;
    sem_post(&keeper->wake);
    return request;
}

bool lp_keeper_has_served(struct lp_worker *worker, uint64_t request)
{
    return atomic_load(&worker->keeper.served) >= request || atomic_load(&worker->keeper.serves) == 0;
}

void lp_keeper_end_calls(struct lp_worker *worker)
{
    struct lp_keeper *keeper = &worker->keeper;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CLOSE_WAIT_SECONDS;
    pthread_mutex_lock(&keeper->lock);
    atomic_store(&worker->closing, true);
    bool is_self = keeper->calling && pthread_equal(keeper->thread, pthread_self());
    while (keeper->calling && !is_self && !worker->left_alone)
        worker->left_alone = pthread_cond_timedwait(&keeper->quiet, &keeper->lock, &until) == ETIMEDOUT;
    pthread_mutex_unlock(&keeper->lock);
}

bool lp_keeper_pause(struct lp_worker *worker, bool late)
{
    struct lp_keeper *keeper = &worker->keeper;
    pthread_mutex_lock(&keeper->lock);
    bool is_self = keeper->calling && pthread_equal(keeper->thread, pthread_self());
    if (!is_self) {
        keeper->stop = true;
        sem_post(&keeper->wake);
    }
    keeper->passed_over |= late;
    bool waits = keeper->calling && !is_self && !keeper->passed_over;
    pthread_mutex_unlock(&keeper->lock);
    return waits;
}

/* A call that has ended leaves a keeper that ends at once, since it was asked to. */
bool lp_keeper_let_go(struct lp_worker *worker)
{
    struct lp_keeper *keeper = &worker->keeper;
    if (!runs_locked(keeper))
        return true;
    pthread_mutex_lock(&keeper->lock);
    keeper->stop = true;
    keeper->orphan = keeper->calling || (keeper->late && !keeper->left);
    bool orphan = keeper->orphan;
    pthread_t thread = keeper->thread; /* an orphan may be gone at once */
    pthread_mutex_unlock(&keeper->lock);
    if (orphan) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    keeper->running = false;
    return true;
}
