#include <string.h>

#include "process/identity.h"
#include "run/build.h"

#define SECOND_NS UINT64_C(1000000000)
#define DAY_NS (86400 * SECOND_NS)
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

enum clock { REALTIME, MONOTONIC, BOOTTIME };

static uint64_t time_of(const struct lp_run_stamp *stamp, enum clock clock)
{
    return clock == MONOTONIC ? stamp->monotonic_ns : clock == BOOTTIME ? stamp->boottime_ns : stamp->realtime_ns;
}

struct span {
    uint64_t first, last;
};

/* First start and last write by one of the clocks. */
static struct span span_of(const struct lp_run *run, enum clock clock)
{
    struct span span = {UINT64_MAX, 0};
    for (size_t i = 0; i < run->n_workers; i++) {
        uint64_t started = time_of(&run->workers[i].started, clock);
        uint64_t written = time_of(&run->workers[i].written, clock);
        span.first = started < span.first ? started : span.first;
        span.last = written > span.last ? written : span.last;
    }
    return span;
}

static uint64_t length(struct span span)
{
    return beyond(span.last, span.first);
}

/* In time namespaces (containers that were moved) monotonic clocks of one boot stand apart: by them the run took longer
   than by the clock that goes on while a machine is suspended, or days longer than by the wall clock. */
static bool one_clock(const struct lp_run *run)
{
    uint64_t took_ns = length(span_of(run, MONOTONIC));
    return share_boot(run) && took_ns <= length(span_of(run, BOOTTIME)) + SECOND_NS &&
           took_ns <= length(span_of(run, REALTIME)) + DAY_NS;
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
    char boot_id[40];
    lp_boot_id_read(boot_id, sizeof boot_id);
    enum clock clock = one_clock(run) ? MONOTONIC : REALTIME;
    struct span shown = span_of(run, REALTIME), span = span_of(run, clock);
    run->started_realtime_ns = shown.first;
    run->written_realtime_ns = shown.last;
    run->runtime_ns = length(span);
    run->one_clock = clock == MONOTONIC;
    run->began_ns = span.first;
    for (size_t i = 0; i < run->n_workers; i++) {
        struct lp_run_worker *worker = &run->workers[i];
        worker->silent_ns = beyond(span.last, time_of(&worker->written, clock));
        worker->elsewhere = strcmp(worker->boot_id, boot_id) != 0;
        worker->stale = is_stale(worker, worker->silent_ns);
        run->live |= worker->source == LP_SOURCE_LIVE_IMAGE;
    }
}
