/*
 * clock/wall: the wall clock of every measurement, in CLOCK_MONOTONIC nanoseconds.
 *
 * Owns one process-wide map from TSC ticks to CLOCK_MONOTONIC. A reading is a TSC read, three loads and a multiplication
 * (about 10 ns); where the kernel does not itself keep time by the TSC, or forbids it (PR_SET_TSC), a reading is
 * clock_gettime through the vDSO.
 *
 * The map is one continuous line of short pieces. Each piece is good for a bounded number of ticks; the first reading
 * beyond it takes a fresh (tick, ns) pair and begins the next piece where the old one ended, with a slope that makes up
 * the error until the next end. So readings, never durations, are converted, NTP slew is followed within a piece
 * (100 ms), and nobody has to maintain the map: an idle process costs nothing. Where there is no base to take a slope
 * from - for two milliseconds after the first reading, a suspend or a jump - readings come from the vDSO.
 *
 * Readings of different threads agree to well under a microsecond but are not ordered between threads; a caller that
 * needs order within its thread clamps (record does).
 *
 * Must not know: anything else in this project.
 */
#ifndef LP_CLOCK_WALL_H
#define LP_CLOCK_WALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#define LP_HAVE_TSC 1
#else
#define LP_HAVE_TSC 0
#endif

/* Seqlock: seq is odd while a writer is at work. All loads of the reader but the last are acquiring, which orders them
   on every machine and costs nothing on x86. */
struct lp_wall_map {
    _Alignas(LP_APART) _Atomic uint64_t seq; /* all threads read this, and nothing beside it is written often */
    _Atomic uint64_t base_tick;
    _Atomic uint64_t base_ns;
    _Atomic uint64_t ns_per_tick_q32; /* nanoseconds per tick, times 2^32 */
    _Atomic uint64_t valid_ticks;     /* piece length; 0: no piece, read the vDSO */
};

extern struct lp_wall_map lp_wall_map;

uint64_t lp_wall_slow_ns(void);

LP_ALWAYS_INLINE uint64_t lp_wall_ns(void)
{
#if LP_HAVE_TSC
    struct lp_wall_map *map = &lp_wall_map;
    uint64_t seq = atomic_load_explicit(&map->seq, memory_order_acquire);
    uint64_t base_tick = atomic_load_explicit(&map->base_tick, memory_order_acquire);
    uint64_t base_ns = atomic_load_explicit(&map->base_ns, memory_order_acquire);
    uint64_t slope = atomic_load_explicit(&map->ns_per_tick_q32, memory_order_acquire);
    uint64_t valid = atomic_load_explicit(&map->valid_ticks, memory_order_acquire);
    uint64_t ticks = __rdtsc() - base_tick;
    if (LP_LIKELY(ticks < valid && seq == atomic_load_explicit(&map->seq, memory_order_relaxed) && !(seq & 1)))
        return base_ns + (uint64_t)(((unsigned __int128)ticks * slope) >> 32);
#endif
    return lp_wall_slow_ns();
}

enum lp_wall_source { LP_WALL_VDSO, LP_WALL_TSC };

/* Chooses the source once per process; further calls do nothing. LINEPROFILER_CLOCK_WALL=tsc|vdso overrides the choice
   where the machine allows it (for tests). Not thread-safe against itself; readings may run meanwhile. */
void lp_wall_open(void);
enum lp_wall_source lp_wall_source(void);
/* Waits until readings are cheap: some milliseconds in a process that has just begun to read the clock, else not at all. */
void lp_wall_warm_up(void);
/* "tsc" or "vdso". */
const char *lp_wall_source_name(void);
/* How often the map and CLOCK_MONOTONIC disagreed beyond any slew, since the process began. */
uint64_t lp_wall_jumps(void);
/* For the child's side of a fork: frees the map if a thread that is gone held it. */
void lp_wall_after_fork(void);

#endif
