#include <string.h>

#include "process/identity.h"
#include "run/build.h"
#include "run/skew.h"

#define SECOND_NS UINT64_C(1000000000)
#define STALE_NS (60 * SECOND_NS)
#define STALE_INTERVALS 3
#define MAX_INTERVAL_S 1e9 /* Beyond that a product would not fit; nothing gets stale in 30 years. */

static struct lp_run_extent extent_of(const struct lp_run *run)
{
    struct lp_run_extent extent = {0};
    const struct lp_run_worker *first = &run->workers[0];
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_worker *worker = &run->workers[i];
        lp_run_extent_add(&extent, &worker->started, &worker->written,
                          *first->boot_id && strcmp(worker->boot_id, first->boot_id) == 0 &&
                              worker->time_namespace == first->time_namespace);
    }
    return extent;
}

/* doubt_ns: by how much the clocks are known to differ. */
static bool is_stale(const struct lp_run_worker *worker, uint64_t silent_ns, uint64_t doubt_ns)
{
    uint64_t age_ns = silent_ns > doubt_ns ? silent_ns - doubt_ns : 0;
    double interval_s = worker->snapshot_interval_s;
    if (worker->closed || worker->ended || worker->source == LP_SOURCE_LIVE_IMAGE || interval_s < 0 ||
        interval_s > MAX_INTERVAL_S)
        return false;
    return age_ns > STALE_NS && (double)age_ns > STALE_INTERVALS * interval_s * (double)SECOND_NS;
}

void lp_run_build_times(struct lp_run *run, const struct lp_run_extent *all)
{
    char boot_id[40];
    lp_boot_id_read(boot_id, sizeof boot_id);
    struct lp_run_extent extent = extent_of(run);
    enum lp_run_clock clock = lp_run_extent_clock(&extent), clock_of_all = lp_run_extent_clock(all);
    struct lp_run_skew skew = lp_run_skew(run);
    uint64_t doubt_ns = clock_of_all == LP_CLOCK_REALTIME ? skew.by_ns + skew.give_ns : 0;
    run->started_realtime_ns = extent.first_ns[LP_CLOCK_REALTIME];
    run->written_realtime_ns = extent.last_ns[LP_CLOCK_REALTIME];
    run->runtime_ns = lp_run_extent_ns(&extent, clock);
    run->one_clock = clock == LP_CLOCK_MONOTONIC;
    run->began_ns = extent.first_ns[clock];
    for (size_t i = 0; i < run->n_workers; i++) {
        struct lp_run_worker *worker = &run->workers[i];
        uint64_t written_ns = lp_run_stamp_ns(&worker->written, clock_of_all), last_ns = all->last_ns[clock_of_all];
        worker->silent_ns = last_ns > written_ns ? last_ns - written_ns : 0;
        worker->elsewhere = strcmp(worker->boot_id, boot_id) != 0;
        worker->stale = is_stale(worker, worker->silent_ns, doubt_ns);
        run->live |= worker->source == LP_SOURCE_LIVE_IMAGE;
    }
}
