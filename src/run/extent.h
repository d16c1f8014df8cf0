/*
 * extent: from when to when some workers ran, by each of the three clocks, and by which of them that can be said.
 *
 * Kept for all workers of an attempt, of which a filter may read few: whether a worker fell silent is told by the end of
 * the whole run.
 */
#ifndef LP_RUN_EXTENT_H
#define LP_RUN_EXTENT_H

#include "run/run.h"

enum lp_run_clock { LP_CLOCK_REALTIME, LP_CLOCK_MONOTONIC, LP_CLOCK_BOOTTIME, LP_CLOCKS };

/* Zeroed before its first use. */
struct lp_run_extent {
    size_t n;
    bool several_boots;                               /* Or it is not known of some which one. */
    bool no_boot;                                     /* The first one's is not known. */
    uint64_t first_ns[LP_CLOCKS], last_ns[LP_CLOCKS]; /* First start and last write. */
};

/* same_boot: its boot is known, and that of the first worker that was added. Of the first: it is known. */
void lp_run_extent_add(struct lp_run_extent *extent, const struct lp_run_stamp *started,
                       const struct lp_run_stamp *written, bool same_boot);
/* Monotonic, where those times can be compared among all of them; else by the wall clocks. */
enum lp_run_clock lp_run_extent_clock(const struct lp_run_extent *extent);
uint64_t lp_run_extent_ns(const struct lp_run_extent *extent, enum lp_run_clock clock);
uint64_t lp_run_stamp_ns(const struct lp_run_stamp *stamp, enum lp_run_clock clock);

#endif
