#include "clock/wall.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define FIRST_BASE_NS 2000000u /* the first slope is taken over this time */
#define LONGEST_PIECE_NS 100000000u
/* A piece may be this much longer than the time its slope was measured over, and so much worse at its end than a pair. */
#define PIECE_GROWTH 4u
#define SUSPENDED_NS 1000000u /* less than any suspend */
#define PAIR_TRIES 8
#define GOOD_PAIR_TICKS 256u    /* 0.1 us or less: the pair's error is half of it */
#define USABLE_PAIR_TICKS 1000u /* a wider one was interrupted: the vDSO serves until the next reading */

struct lp_wall_map lp_wall_map;

/* Guarded by busy: where the last pair was taken (ns is 0 before the first), and the most that the
   machine can have been suspended until then. */
static struct {
    atomic_flag busy;
    uint64_t tick, ns, suspended_ns;
} writer = {.busy = ATOMIC_FLAG_INIT};

static _Atomic int source = -1;
static _Atomic uint64_t jumps;

static uint64_t vdso_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if LP_HAVE_TSC

struct pair {
    uint64_t tick, ns;
};

/* A tick and the CLOCK_MONOTONIC time in the middle of it; false if every try was interrupted. */
static bool read_pair(struct pair *pair)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < PAIR_TRIES && best > GOOD_PAIR_TICKS; i++) {
        uint64_t before = __rdtsc();
        uint64_t ns = vdso_ns(CLOCK_MONOTONIC);
        uint64_t width = __rdtsc() - before;
        if (width < best) {
            best = width;
            pair->tick = before + width / 2;
            pair->ns = ns;
        }
    }
    return best <= USABLE_PAIR_TICKS;
}

static void publish(uint64_t base_tick, uint64_t base_ns, uint64_t slope_q32, uint64_t valid_ticks)
{
    uint64_t seq = atomic_load_explicit(&lp_wall_map.seq, memory_order_relaxed);
    atomic_store_explicit(&lp_wall_map.seq, seq + 1, memory_order_relaxed);
    atomic_store_explicit(&lp_wall_map.base_tick, base_tick, memory_order_release);
    atomic_store_explicit(&lp_wall_map.base_ns, base_ns, memory_order_release);
    atomic_store_explicit(&lp_wall_map.ns_per_tick_q32, slope_q32, memory_order_release);
    atomic_store_explicit(&lp_wall_map.valid_ticks, valid_ticks, memory_order_release);
    atomic_store_explicit(&lp_wall_map.seq, seq + 2, memory_order_release);
}

/* Ends the line: the vDSO serves until a slope has been taken anew, from pair on. */
static uint64_t begin_anew(const struct pair *pair)
{
    publish(pair->tick, pair->ns, 0, 0);
    return pair->ns;
}

static uint64_t line_at(uint64_t ticks)
{
    uint64_t slope = atomic_load_explicit(&lp_wall_map.ns_per_tick_q32, memory_order_relaxed);
    return atomic_load_explicit(&lp_wall_map.base_ns, memory_order_relaxed) +
           (uint64_t)(((unsigned __int128)ticks * slope) >> 32);
}

/* Begins the next piece at pair and returns its first reading. With the writer held. */
static uint64_t next_piece(const struct pair *pair)
{
    uint64_t ticks = pair->tick - writer.tick, gap_ns = pair->ns - writer.ns, base_ns = pair->ns;
    uint64_t piece_ns = gap_ns * PIECE_GROWTH < LONGEST_PIECE_NS ? gap_ns * PIECE_GROWTH : LONGEST_PIECE_NS;
    uint64_t old_valid = atomic_load_explicit(&lp_wall_map.valid_ticks, memory_order_relaxed);
    double slope = (double)gap_ns / (double)ticks;

    if (old_valid != 0) {
        uint64_t old_ticks = pair->tick - atomic_load_explicit(&lp_wall_map.base_tick, memory_order_relaxed);
        int64_t error_ns = (int64_t)(pair->ns - line_at(old_ticks));
        uint64_t bound_ns = gap_ns / 50 + 1000; /* a slew of 20,000 ppm, and a reading error */
        /* Nobody has read the line since its end, so after a long gap the truth may be taken at once. */
        bool idle = old_ticks / 2 > old_valid && pair->ns > line_at(old_valid);
        if ((uint64_t)(error_ns < 0 ? -error_ns : error_ns) > bound_ns) {
            atomic_fetch_add_explicit(&jumps, 1, memory_order_relaxed);
            return begin_anew(pair);
        }
        if (!idle) {
            base_ns = line_at(old_ticks);
            slope *= 1.0 + (double)error_ns / (double)piece_ns;
        }
    }
    if (!(slope > 0.001 && slope < 1000.0)) /* 1 MHz to 1 THz */
        return begin_anew(pair);
    publish(pair->tick, base_ns, (uint64_t)(slope * 4294967296.0), (uint64_t)((double)piece_ns / slope));
    return base_ns;
}

/* One more pair at now, or soon after. With the writer held. */
static uint64_t take_pair(uint64_t now)
{
    struct pair pair = {0};
    bool first = writer.ns == 0;
    if ((!first && (int64_t)(now - writer.ns) < (int64_t)FIRST_BASE_NS) || !read_pair(&pair))
        return now;
    /* Read between two of the other clock, so that to be interrupted here does not look like a suspend. */
    uint64_t boot_ns = vdso_ns(CLOCK_BOOTTIME), least_ns = boot_ns - vdso_ns(CLOCK_MONOTONIC);
    bool suspended = (int64_t)(least_ns - writer.suspended_ns) > (int64_t)SUSPENDED_NS;
    if (first) {
        now = pair.ns;
    } else if (suspended || pair.tick <= writer.tick) {
        /* The counter may have gone on without the clock, or begun again: no slope can be taken over that. */
        atomic_fetch_add_explicit(&jumps, 1, memory_order_relaxed);
        now = begin_anew(&pair);
    } else {
        now = next_piece(&pair);
    }
    writer.tick = pair.tick;
    writer.ns = pair.ns;
    writer.suspended_ns = boot_ns - pair.ns;
    return now;
}

void lp_wall_warm_up(void)
{
#if LP_HAVE_TSC
    const struct timespec nap = {.tv_nsec = FIRST_BASE_NS / 4};
    for (int i = 0; i < 16 && lp_wall_source() == LP_WALL_TSC; i++) {
        lp_wall_ns();
        if (atomic_load_explicit(&lp_wall_map.valid_ticks, memory_order_relaxed) != 0)
            return;
        nanosleep(&nap, NULL);
    }
#endif
}

uint64_t lp_wall_slow_ns(void)
{
    uint64_t now = vdso_ns(CLOCK_MONOTONIC);
    if (atomic_load_explicit(&source, memory_order_relaxed) != LP_WALL_TSC)
        return now;
    if (atomic_flag_test_and_set_explicit(&writer.busy, memory_order_acquire))
        return now;
    now = take_pair(now);
    atomic_flag_clear_explicit(&writer.busy, memory_order_release);
    return now;
}

static bool kernel_trusts_tsc(void)
{
    char name[16] = "";
    int allowed = 0;
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, name, sizeof name - 1);
    close(fd);
    return n >= 4 && memcmp(name, "tsc\n", 4) == 0 && prctl(PR_GET_TSC, &allowed) == 0 && allowed == PR_TSC_ENABLE;
}

void lp_wall_open(void)
{
    if (atomic_load(&source) >= 0)
        return;
    const char *forced = getenv("LINEPROFILER_CLOCK_WALL");
    bool tsc = kernel_trusts_tsc() && !(forced && strcmp(forced, "vdso") == 0);
    atomic_store(&source, tsc ? LP_WALL_TSC : LP_WALL_VDSO);
}

#else

uint64_t lp_wall_slow_ns(void)
{
    return vdso_ns(CLOCK_MONOTONIC);
}

void lp_wall_open(void)
{
    atomic_store(&source, LP_WALL_VDSO);
}

#endif

enum lp_wall_source lp_wall_source(void)
{
    return atomic_load_explicit(&source, memory_order_relaxed) == LP_WALL_TSC ? LP_WALL_TSC : LP_WALL_VDSO;
}

const char *lp_wall_source_name(void)
{
    return lp_wall_source() == LP_WALL_TSC ? "tsc" : "vdso";
}

uint64_t lp_wall_jumps(void)
{
    return atomic_load_explicit(&jumps, memory_order_relaxed);
}

void lp_wall_after_fork(void)
{
    uint64_t seq = atomic_load_explicit(&lp_wall_map.seq, memory_order_relaxed);
    if (atomic_flag_test_and_set(&writer.busy) || (seq & 1)) {
        /* A thread was cut off at work: what it left is half old, half new. The vDSO serves until the next piece. */
        atomic_store_explicit(&lp_wall_map.valid_ticks, 0, memory_order_relaxed);
        atomic_store_explicit(&lp_wall_map.seq, (seq | 1) + 1, memory_order_release);
        writer.ns = 0;
    }
    atomic_flag_clear(&writer.busy);
}
