#include "run/extent.h"

#define SECOND_NS UINT64_C(1000000000)
#define DAY_NS (86400 * SECOND_NS)

uint64_t lp_run_stamp_ns(const struct lp_run_stamp *stamp, enum lp_run_clock clock)
{
    return clock == LP_CLOCK_MONOTONIC  ? stamp->monotonic_ns
           : clock == LP_CLOCK_BOOTTIME ? stamp->boottime_ns
                                        : stamp->realtime_ns;
}

void lp_run_extent_add(struct lp_run_extent *extent, const struct lp_run_stamp *started,
                       const struct lp_run_stamp *written, bool same_boot)
{
    bool first = extent->n++ == 0;
    if (first)
        extent->no_boot = !same_boot;
    else
        extent->several_boots |= extent->no_boot || !same_boot;
    for (enum lp_run_clock clock = 0; clock < LP_CLOCKS; clock++) {
        uint64_t started_ns = lp_run_stamp_ns(started, clock), written_ns = lp_run_stamp_ns(written, clock);
        if (first || started_ns < extent->first_ns[clock])
            extent->first_ns[clock] = started_ns;
        if (first || written_ns > extent->last_ns[clock])
            extent->last_ns[clock] = written_ns;
    }
}

uint64_t lp_run_extent_ns(const struct lp_run_extent *extent, enum lp_run_clock clock)
{
    uint64_t first_ns = extent->first_ns[clock], last_ns = extent->last_ns[clock];
    return last_ns > first_ns ? last_ns - first_ns : 0;
}

/* Monotonic times can be compared within one boot of one machine only. In time namespaces (containers that were moved)
   monotonic clocks of one boot stand apart, too: by them the run took longer than by the clock that goes on while a
   machine is suspended, or days longer than by the wall clock. */
enum lp_run_clock lp_run_extent_clock(const struct lp_run_extent *extent)
{
    uint64_t took_ns = lp_run_extent_ns(extent, LP_CLOCK_MONOTONIC);
    bool one = !extent->several_boots && took_ns <= lp_run_extent_ns(extent, LP_CLOCK_BOOTTIME) + SECOND_NS &&
               took_ns <= lp_run_extent_ns(extent, LP_CLOCK_REALTIME) + DAY_NS;
    return one ? LP_CLOCK_MONOTONIC : LP_CLOCK_REALTIME;
}
