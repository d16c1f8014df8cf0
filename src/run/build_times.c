#include <string.h>

#include "run/build.h"

#define SECOND_NS UINT64_C(1000000000)
#define STALE_NS (60 * SECOND_NS)
#define STALE_INTERVALS 3
#define MAX_INTERVAL_S 1e9 /* Beyond that a product would not fit; nothing gets stale in 30 years. */

static uint64_t beyond(uint64_t later, uint64_t earlier)
{
    return later > earlier ? later - earlier : 0;
}

/* Monotonic times can be compared within one boot of one machine only. */
static bool share_boot(const struct lp_run *run)
{
    const char *boot_id = run->workers[0].boot_id;
    if (run->n_workers > 1 && !*boot_id)
        return false;
    for (size_t i = 1; i < run->n_workers; i++)
        if (strcmp(run->workers[i].boot_id, boot_id) != 0)
            return false;
    return true;
}

static uint64_t time_of(const struct lp_run_stamp *stamp, bool monotonic)
{
    return monotonic ? stamp->monotonic_ns : stamp->realtime_ns;
}

/* First start and last write by one of the clocks. */
static void bounds(const struct lp_run *run, bool monotonic, uint64_t *first, uint64_t *last)
{
    *first = UINT64_MAX;
    *last = 0;
    for (size_t i = 0; i < run->n_workers; i++) {
        uint64_t started = time_of(&run->workers[i].started, monotonic);
        uint64_t written = time_of(&run->workers[i].written, monotonic);
        *first = started < *first ? started : *first;
        *last = written > *last ? written : *last;
    }
}

static bool is_stale(const struct lp_run_worker *worker, uint64_t age_ns)
{
    double interval_s = worker->snapshot_interval_s;
    if (worker->closed || worker->ended || worker->source == LP_SOURCE_LIVE_IMAGE || interval_s < 0 ||
        interval_s > MAX_INTERVAL_S)
        return false;
    return age_ns > STALE_NS && (double)age_ns > STALE_INTERVALS * interval_s * (double)SECOND_NS;
}

void lp_run_build_times(struct lp_run *run)
{
    uint64_t first, last;
    bool monotonic = share_boot(run);
    bounds(run, false, &run->started_realtime_ns, &run->written_realtime_ns);
    bounds(run, monotonic, &first, &last);
    run->runtime_ns = beyond(last, first);
    for (size_t i = 0; i < run->n_workers; i++) {
        struct lp_run_worker *worker = &run->workers[i];
        worker->silent_ns = beyond(last, time_of(&worker->written, monotonic));
        worker->stale = is_stale(worker, worker->silent_ns);
        run->live |= worker->source == LP_SOURCE_LIVE_IMAGE;
    }
}
