/*
 * Runs the rows of bench_core for callgrind, which bench_core starts: for each row COUNTED_TIMES calls of counted() with few
 * turns, and as many with twice as many, in turns. What lies between the least of both is the cost of the few: without
 * what happens once a millisecond, or at an entry's first.
 *
 * Valgrind hides two things without which other instructions would run than natively, so here they are, and cost what they
 * cost outside what is counted: the area in which the kernel says whether a thread was descheduled - in ours a token stands
 * until we clear it - and the vDSO, without which a reading of CLOCK_MONOTONIC takes too long to be a point of the map of
 * the TSC.
 *
 * usage: core_counted RUN_DIR cpu|no_cpu [ROW]...
 *   an empty RUN_DIR: no profiler is opened; ROW: a number of core_rows
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "core_counted.h"
#include "core_rows.h"

/* As libc names its own. */
extern ptrdiff_t __rseq_offset;
extern unsigned __rseq_size;
ptrdiff_t __rseq_offset __attribute__((visibility("default")));
unsigned __rseq_size __attribute__((visibility("default"))) = 32;

#define COUNTED_WARM_UP 20000

static __thread char area[32] __attribute__((aligned(32)));

/* CLOCK_MONOTONIC and CLOCK_BOOTTIME by the TSC; without one, and the others, by the kernel. */
#if defined(__x86_64__)
static uint64_t first_tick, first_ns[2], ns_per_tick_q32; /* 0: not known yet */

static uint64_t kernel_ns(clockid_t clock)
{
    struct timespec now = {0};
    syscall(SYS_clock_gettime, clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void learn_the_rate(void)
{
    const struct timespec nap = {.tv_nsec = 20000000};
    uint64_t begin_ns = kernel_ns(CLOCK_MONOTONIC), begin_tick = __rdtsc();
    nanosleep(&nap, NULL);
    first_ns[1] = kernel_ns(CLOCK_BOOTTIME);
    first_ns[0] = kernel_ns(CLOCK_MONOTONIC);
    first_tick = __rdtsc();
    ns_per_tick_q32 = ((first_ns[0] - begin_ns) << 32) / (first_tick - begin_tick);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    bool boot = clock == CLOCK_BOOTTIME;
    if ((!boot && clock != CLOCK_MONOTONIC) || ns_per_tick_q32 == 0)
        return (int)syscall(SYS_clock_gettime, clock, now);
    uint64_t ns = first_ns[boot] + (uint64_t)(((unsigned __int128)(__rdtsc() - first_tick) * ns_per_tick_q32) >> 32);
    now->tv_sec = (time_t)(ns / 1000000000u);
    now->tv_nsec = (long)(ns % 1000000000u);
    return 0;
}
#else
static void learn_the_rate(void)
{
}
#endif

void counted(const struct core_row *row, int turns);

__attribute__((noinline)) void counted(const struct core_row *row, int turns)
{
    row->run(turns);
    __asm__ volatile("" : : : "memory"); /* not a tail call: counting ends when this function does */
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    __rseq_offset = area - (char *)__builtin_thread_pointer();
    learn_the_rate();
    setenv("LINEPROFILER_CLOCK_CPU", "token", 1);
    const struct core_set_up wanted = {
        .run_dir = *argv[1] ? argv[1] : NULL,
        .no_cpu = strcmp(argv[2], "no_cpu") == 0,
        .quiet = 1,
    };
    if (core_open(&wanted) != 0) {
        fprintf(stderr, "%s\n", lp_error_message());
        return 1;
    }
    for (int i = 3; i < argc; i++) {
        const struct core_row *row = &core_rows[atoi(argv[i])];
        row->run(COUNTED_WARM_UP);
        for (int j = 0; j < 2 * COUNTED_TIMES; j++) {
            memset(area, 0, sizeof area);
            core_touch(); /* reads the real clock, which is due again in a millisecond */
            counted(row, COUNTED_TURNS(row) << (j & 1));
        }
    }
    core_close();
    return 0;
}
