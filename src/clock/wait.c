#include "clock/wait.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own_reads.h"
#include "clock/wall.h"

#define NONE (-1)
#define ENDED (-2)

#define REOPEN_NS 1000000000u
#define DESCRIPTORS_SHARE 16u
#define DESCRIPTORS_MOST 256u
#define FIRST_NUMBER 3 /* below it the host reads and writes whatever it finds */

#define COST_OF_CPU 400 /* of a thread that computes this part of its CPU time, */
#define COST_OF_WALL                                                                                                   \
    1500 /* of one that mostly waits this part of its time: what it computes is too little to pay with */
#define SAVED_MOST_NS 200000
#define SAVED_ENOUGH_NS (SAVED_MOST_NS / 2) /* to end a rest */
#define ASKING_MOST_NS 20000u               /* more was no cost: we were off the core meanwhile */

static _Atomic unsigned n_open;
static enum lp_wait_source most = LP_WAIT_SCHEDSTAT; /* like the next, set once, before there are threads to ask */
static bool at_any_cost;

void lp_wait_open(void)
{
    const char *forced = getenv("LINEPROFILER_CLOCK_WAIT");
    if (forced && strcmp(forced, "off") == 0)
        most = LP_WAIT_OFF;
    if (forced && strcmp(forced, "switches") == 0)
        most = LP_WAIT_SWITCHES;
    at_any_cost = forced && strcmp(forced, "schedstat") == 0;
}

/* ---- the descriptor ------------------------------------------------------------------ */

static bool is_ours(const struct lp_wait *wait, int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_ino == wait->inode && st.st_dev == wait->device;
}

static void close_ours(const struct lp_wait *wait, int fd)
{
    if (is_ours(wait, fd))
        close(fd);
    atomic_fetch_sub(&n_open, 1);
}

static bool take_place(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    unsigned places = DESCRIPTORS_MOST;
    if (limit.rlim_cur / DESCRIPTORS_SHARE < places)
        places = (unsigned)(limit.rlim_cur / DESCRIPTORS_SHARE);
    if (atomic_fetch_add(&n_open, 1) < places)
        return true;
    atomic_fetch_sub(&n_open, 1);
    return false;
}

static int open_high(void)
{
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fd >= FIRST_NUMBER)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_NUMBER);
    close(fd);
    return high;
}

/* The descriptor is the caller's until it is given back. */
static int open_schedstat(struct lp_wait *wait)
{
    struct stat st;
    if (!take_place())
        return NONE;
    int fd = open_high();
    if (fd < 0 || fstat(fd, &st) != 0) {
        if (fd >= 0)
            close(fd);
        atomic_fetch_sub(&n_open, 1);
        return NONE;
    }
    wait->device = st.st_dev;
    wait->inode = st.st_ino;
    wait->number = fd;
    return fd;
}

static void give_back(struct lp_wait *wait, int fd)
{
    int none = NONE;
    if (!atomic_compare_exchange_strong(&wait->fd, &none, fd)) /* it was ended meanwhile */
        close_ours(wait, fd);
}

static int borrow(struct lp_wait *wait)
{
    int fd = atomic_load(&wait->fd);
    if (fd >= 0 && atomic_compare_exchange_strong(&wait->fd, &fd, NONE))
        return fd;
    if (fd != NONE || lp_wall_ns() < wait->reopen_ns)
        return NONE;
    wait->reopen_ns = lp_wall_ns() + REOPEN_NS;
    return open_schedstat(wait);
}

void lp_wait_init(struct lp_wait *wait)
{
    memset(wait, 0, sizeof *wait);
    wait->number = NONE;
    atomic_store(&wait->fd, ENDED);
}

void lp_wait_end(struct lp_wait *wait)
{
    int fd = atomic_exchange(&wait->fd, ENDED);
    if (fd >= 0)
        close_ours(wait, fd);
}

void lp_wait_forget(struct lp_wait *wait)
{
    if (wait->number >= 0 && is_ours(wait, wait->number))
        close(wait->number);
    wait->number = NONE;
    atomic_store(&wait->fd, ENDED);
    atomic_store(&n_open, 0);
}

/* ---- what the kernel tells ------------------------------------------------------------ */

static bool take_number(const char **at, uint64_t *number)
{
    const char *first = *at;
    *number = 0;
    for (; **at >= '0' && **at <= '9'; ++*at)
        *number = *number * 10 + (uint64_t)(**at - '0');
    return *at > first;
}

/* Time on a core, delay, how often it got one: in one line; all zero where the kernel does not keep them. The first is zero
   in a young thread too. */
static bool read_delay(int fd, uint64_t *delay_ns)
{
    char line[96];
    uint64_t ran_ns, read_ns, times;
    lp_own_reads_begin(sizeof line);
    ssize_t len = pread(fd, line, sizeof line - 1, 0);
    lp_own_reads_end(sizeof line, len);
    if (len <= 0)
        return false;
    line[len] = '\0';
    const char *at = line;
    if (!take_number(&at, &ran_ns) || *at++ != ' ' || !take_number(&at, &read_ns) || *at++ != ' ' ||
        !take_number(&at, &times) || times == 0)
        return false;
    *delay_ns = read_ns;
    return true;
}

/* Leaves *delay_ns alone if it cannot be told. */
static bool read_schedstat(struct lp_wait *wait, uint64_t *delay_ns)
{
    int fd = borrow(wait);
    if (fd < 0)
        return false;
    if (!is_ours(wait, fd)) { /* the host has closed it; what bears its number now is the host's */
        atomic_fetch_sub(&n_open, 1);
        wait->number = NONE;
        return false;
    }
    bool ok = read_delay(fd, delay_ns);
    give_back(wait, fd);
    return ok;
}

struct switches {
    uint64_t voluntary, involuntary; /* since the last reading */
};

static bool read_switches(struct lp_wait *wait, struct switches *switches)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0)
        return false;
    *switches =
        (struct switches){(uint64_t)usage.ru_nvcsw - wait->voluntary, (uint64_t)usage.ru_nivcsw - wait->involuntary};
    wait->voluntary = (uint64_t)usage.ru_nvcsw;
    wait->involuntary = (uint64_t)usage.ru_nivcsw;
    return true;
}

enum lp_wait_source lp_wait_begin(struct lp_wait *wait, void (*told)(void *context, const struct lp_wait_split *split),
                                  void *context)
{
    struct switches switches;
    lp_wait_init(wait);
    wait->told = told;
    wait->context = context;
    wait->saved_ns = SAVED_MOST_NS;
    atomic_store(&wait->fd, NONE);
    if (most == LP_WAIT_OFF || !read_switches(wait, &switches))
        wait->source = LP_WAIT_OFF;
    else if (most == LP_WAIT_SCHEDSTAT && read_schedstat(wait, &wait->delay_ns))
        wait->source = LP_WAIT_SCHEDSTAT;
    else
        wait->source = LP_WAIT_SWITCHES;
    if (wait->source != LP_WAIT_SCHEDSTAT)
        lp_wait_end(wait);
    return wait->source;
}

/* ---- what it means -------------------------------------------------------------------- */

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Delay beyond the window came after the clocks were read, while we asked, and belongs to the next window. */
static struct lp_wait_split split_by_delay(struct lp_wait *wait, uint64_t wall_ns)
{
    struct lp_wait_split split = {0};
    struct switches switches;
    uint64_t delay_ns;
    bool known = !wait->delay_lost;
    wait->delay_lost = !read_schedstat(wait, &delay_ns);
    if (wait->delay_lost)
        return split;
    if (!known) {
        wait->delay_ns = delay_ns;
        return split;
    }
    uint64_t runnable_ns = delay_ns > wait->delay_ns ? delay_ns - wait->delay_ns : 0;
    runnable_ns += wait->early_delay_ns;
    wait->delay_ns = delay_ns;
    split.preempted_ns = lesser(runnable_ns, wait->window_ns);
    wait->early_delay_ns = lesser(runnable_ns - split.preempted_ns, lp_wall_ns() - wall_ns);
    if (wait->early_delay_ns < LP_WAIT_LEAST_NS)
        wait->early_delay_ns = 0;
    uint64_t rest_ns = wait->window_ns - split.preempted_ns;
    if (rest_ns > 0 && read_switches(wait, &switches) && switches.voluntary > 0)
        split.blocked_ns = rest_ns;
    return split;
}

static struct lp_wait_split split_by_switches(struct lp_wait *wait)
{
    struct lp_wait_split split = {0};
    struct switches switches;
    if (read_switches(wait, &switches) && switches.voluntary == 0 && switches.involuntary > 0)
        split.preempted_ns = wait->window_ns;
    return split;
}

/* What was until now is nobody's. */
static void read_again(struct lp_wait *wait)
{
    struct switches switches;
    read_switches(wait, &switches);
    if (wait->source == LP_WAIT_SCHEDSTAT)
        wait->delay_lost = !read_schedstat(wait, &wait->delay_ns);
}

static bool can_pay(struct lp_wait *wait, uint64_t wall_ns, uint64_t cpu_ns)
{
    if (at_any_cost)
        return true;
    uint64_t by_cpu_ns = (cpu_ns - wait->saved_at_cpu_ns) / COST_OF_CPU;
    uint64_t by_wall_ns = (wall_ns - wait->saved_at_ns) / COST_OF_WALL;
    wait->saved_ns += (int64_t)(by_cpu_ns > by_wall_ns ? by_cpu_ns : by_wall_ns);
    wait->saved_at_ns = wall_ns;
    wait->saved_at_cpu_ns = cpu_ns;
    if (wait->saved_ns > SAVED_MOST_NS)
        wait->saved_ns = SAVED_MOST_NS;
    wait->resting &= wait->saved_ns < SAVED_ENOUGH_NS;
    return !wait->resting;
}

static void pay(struct lp_wait *wait, uint64_t wall_ns)
{
    wait->saved_ns -= (int64_t)lesser(lp_wall_ns() - wall_ns, ASKING_MOST_NS);
    wait->resting = wait->saved_ns <= 0;
}

static void put_off(struct lp_wait *wait)
{
    static const struct lp_wait_split begins = {.begins_put_off = true};
    if (!wait->put_off)
        wait->told(wait->context, &begins);
    wait->put_off = true;
}

bool lp_wait_note(struct lp_wait *wait, uint64_t wall_ns, uint64_t off_ns)
{
    int64_t grown_ns = (int64_t)(off_ns - wait->off_seen_ns);
    if (!wait->begun) {
        wait->begun = true;
        wait->off_seen_ns = off_ns;
        wait->saved_at_ns = wall_ns;
        wait->saved_at_cpu_ns = wall_ns - off_ns;
        read_again(wait);
        return true;
    }
    if (grown_ns > 0)
        wait->off_seen_ns = off_ns;
    if (grown_ns < (int64_t)LP_WAIT_LEAST_NS)
        return false;
    wait->window_ns += (uint64_t)grown_ns;
    if (!can_pay(wait, wall_ns, wall_ns - off_ns)) {
        put_off(wait);
        return false;
    }
    struct lp_wait_split split =
        wait->source == LP_WAIT_SCHEDSTAT ? split_by_delay(wait, wall_ns) : split_by_switches(wait);
    split.put_off = wait->put_off;
    wait->put_off = false;
    wait->window_ns = 0;
    if (split.blocked_ns > 0 || split.preempted_ns > 0)
        wait->told(wait->context, &split);
    pay(wait, wall_ns);
    return true;
}

void lp_wait_pass(struct lp_wait *wait, uint64_t off_ns)
{
    int64_t grown_ns = (int64_t)(off_ns - wait->off_seen_ns);
    wait->early_delay_ns = 0;
    if (grown_ns <= 0)
        return;
    wait->off_seen_ns = off_ns;
    if (grown_ns >= (int64_t)LP_WAIT_LEAST_NS)
        read_again(wait);
}
