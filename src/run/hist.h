/*
 * run/hist: filling a struct lp_hist. Reading one - totals, quantiles - is declared in run.h.
 *
 * The bucket formula itself is in image/hist.h, shared with the writer.
 *
 * Costs: 64 pointers for the octaves and 64 bytes for each octave that was ever hit; a phase whose durations stay
 * within a factor of 100 takes about 1 KiB. Counts saturate instead of wrapping.
 */
#ifndef LP_RUN_HIST_H
#define LP_RUN_HIST_H

#include "image/hist.h"
#include "run/run.h"

/* Above this no 64-bit duration falls. */
#define LP_HIST_HIT_MAX 495

/* Adds count entries to a bucket (< LP_HIST_BUCKETS); sets *saturated if the bucket is full. 0, or -1 without memory.
   */
int lp_run_hist_add(struct lp_hist *hist, unsigned bucket, uint64_t count, bool *saturated);
int lp_run_hist_merge(struct lp_hist *hist, const struct lp_hist *from, bool *saturated);
void lp_run_hist_release(struct lp_hist *hist);

/* a + b, or the largest number, with *saturated set. */
static inline uint64_t lp_run_sum(uint64_t a, uint64_t b, bool *saturated)
{
    uint64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    *saturated = true;
    return UINT64_MAX;
}

#endif
