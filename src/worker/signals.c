#include "worker/signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker/internal.h"

#define WORKERS 16 /* that signals write at most */
#define LEVELS 4
#define WAIT_NS 1000000000u
#define NAP_NS 1000000

static const int numbers[] = {SIGTERM, SIGUSR1, SIGHUP};
#define N_SIGNALS (sizeof numbers / sizeof numbers[0])

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for installing and giving back */
static _Atomic(struct lp_worker *) watched[WORKERS];
static _Atomic int handlers; /* that run now */

/* What was there before us, each time that we were installed and somebody else has installed his own since. One that was
   installed over ours may call ours, which is then nested, and goes on to what lay below. */
static struct sigaction found_there[N_SIGNALS][LEVELS];
static _Atomic int levels[N_SIGNALS]; /* changed under lock */

/* How deep a process is in our handler, on this thread. Between vfork and exec a child runs on its parent's memory, and may
   end in the middle of the handler. */
struct nesting {
    pid_t pid;
    int depth;
};
static __thread struct nesting nested[N_SIGNALS] __attribute__((tls_model("initial-exec")));
static _Atomic pid_t here; /* whose workers these are */

/* Not on an alternate stack, which may be as small as a few kilobytes. */
static bool has_room(void)
{
    stack_t stack;
    return sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_ONSTACK);
}

static bool records(struct lp_worker *worker)
{
    return worker && lp_record_is_here() && atomic_load(&worker->recorder.key) != 0 && !atomic_load(&worker->closed);
}

static void write_all(void)
{
    uint64_t until_ns = lp_monotonic_ns() + WAIT_NS, requests[WORKERS] = {0};
    for (int i = 0; i < WORKERS; i++) {
        struct lp_worker *worker = atomic_load(&watched[i]);
        if (!records(worker))
            continue;
        requests[i] = lp_keeper_request(worker);
        if (requests[i] == 0 && has_room())
            lp_worker_try_flush(worker);
    }
    for (int i = 0; i < WORKERS; i++) {
        struct lp_worker *worker = atomic_load(&watched[i]);
        while (requests[i] && records(worker) && !lp_keeper_has_served(worker, requests[i]) &&
               lp_monotonic_ns() < until_ns)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

/* For whoever adopts the images of a process that is about to end by a signal; 0: it goes on. */
static void note_end(uint32_t ended)
{
    for (int i = 0; i < WORKERS; i++) {
        struct lp_worker *worker = atomic_load(&watched[i]);
        if (records(worker))
            atomic_store(&lp_image_header(&worker->recorder.image)->ended, ended);
    }
}

/* Where exit() ends a process inside its phases, they have lasted until now. */
__attribute__((destructor)) static void note_life(void)
{
    struct lp_stamp now = lp_stamp_now();
    if (getpid() != atomic_load(&here))
        return;
    atomic_fetch_add(&handlers, 1); /* nobody may free a worker meanwhile */
    for (int i = 0; i < WORKERS; i++) {
        struct lp_worker *worker = atomic_load(&watched[i]);
        if (records(worker))
            lp_image_beat(&worker->recorder.image, &now);
    }
    atomic_fetch_sub(&handlers, 1);
}

/* The default ends the process, but for the first of a pid namespace, which goes on. A child on its parent's memory leaves
   nothing behind there. */
static void do_default(int number)
{
    bool is_here = getpid() == atomic_load(&here);
    struct sigaction ours, none = {.sa_handler = SIG_DFL};
    sigset_t only, mask;
    sigemptyset(&only);
    sigaddset(&only, number);
    sigaction(number, &none, &ours);
    pthread_sigmask(SIG_UNBLOCK, &only, &mask);
    if (is_here) {
        atomic_fetch_add(&handlers, 1); /* nobody may free a worker meanwhile */
        note_end(LP_END_KNOWN | (uint32_t)number);
    }
    raise(number);
    if (is_here) {
        note_end(0);
        atomic_fetch_sub(&handlers, 1);
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    sigaction(number, &ours, NULL);
}

static void go_on(const struct sigaction *former, int number, siginfo_t *info, void *context)
{
    if (former->sa_flags & SA_SIGINFO)
        former->sa_sigaction(number, info, context);
    else if (former->sa_handler == SIG_DFL)
        do_default(number);
    else if (former->sa_handler != SIG_IGN)
        former->sa_handler(number);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    size_t i = 0;
    while (i < N_SIGNALS && numbers[i] != number)
        i++;
    if (i == N_SIGNALS)
        return;
    int why = errno;
    pid_t pid = getpid();
    struct nesting before = nested[i];
    int depth = before.pid == pid ? before.depth : 0, level = atomic_load(&levels[i]) - 1 - depth;
    if (depth == 0 && pid == atomic_load(&here)) {
        atomic_fetch_add(&handlers, 1);
        write_all();
        atomic_fetch_sub(&handlers, 1);
    }
    errno = why;
    nested[i] = (struct nesting){pid, depth + 1};
    if (level >= 0)
        go_on(&found_there[i][level], number, info, context);
    nested[i] = before;
}

static bool is_ours(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_signal;
}

static bool is(const struct sigaction *action, void (*handler)(int))
{
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == handler;
}

static void install(size_t i)
{
    struct sigaction found, ours;
    int level = atomic_load(&levels[i]);
    if (level == LEVELS || sigaction(numbers[i], NULL, &found) != 0 || is_ours(&found) || is(&found, SIG_IGN))
        return;
    found_there[i][level] = ours = found;
    ours.sa_flags |= is(&found, SIG_DFL) ? SA_SIGINFO | SA_RESTART : SA_SIGINFO;
    ours.sa_sigaction = on_signal;
    atomic_store(&levels[i], level + 1);
    if (sigaction(numbers[i], &ours, NULL) != 0)
        atomic_store(&levels[i], level);
}

static void give_back(size_t i)
{
    struct sigaction found;
    int level = atomic_load(&levels[i]) - 1;
    if (level >= 0 && sigaction(numbers[i], NULL, &found) == 0 && is_ours(&found) &&
        sigaction(numbers[i], &found_there[i][level], NULL) == 0)
        atomic_store(&levels[i], level);
}

void lp_signals_watch(struct lp_worker *worker)
{
    atomic_store(&here, getpid());
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WORKERS; i++) {
        struct lp_worker *none = NULL;
        if (atomic_compare_exchange_strong(&watched[i], &none, worker))
            break;
    }
    for (size_t i = 0; i < N_SIGNALS; i++)
        install(i);
    pthread_mutex_unlock(&lock);
}

void lp_signals_unwatch(struct lp_worker *worker)
{
    bool any = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WORKERS; i++) {
        struct lp_worker *this = worker;
        if (!atomic_compare_exchange_strong(&watched[i], &this, NULL))
            any |= this != NULL;
    }
    for (size_t i = 0; i < N_SIGNALS && !any; i++)
        give_back(i);
    pthread_mutex_unlock(&lock);
    while (atomic_load(&handlers) > 0) /* on other threads: one on this thread would have ended before we went on */
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

void lp_signals_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    atomic_store(&handlers, 0);
    atomic_store(&here, getpid());
}
