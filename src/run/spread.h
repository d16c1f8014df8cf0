/*
 * spread: how a phase differs from worker to worker, without keeping the workers.
 *
 * A worker's share of a phase - calls, time, logarithms - is summed over its threads, then added to the phase's sums of
 * products (struct lp_run_spread), which are all that a variance between workers needs. Whole numbers of 128 bits, so
 * that any order gives the same; they saturate, and say so.
 *
 * Costs: 136 bytes a node, and six multiplications for each node of each worker.
 */
#ifndef LP_RUN_SPREAD_H
#define LP_RUN_SPREAD_H

#include "run/run.h"

struct lp_run_share {
    uint64_t calls, wall_ns; /* Of ended entries. */
    uint64_t log;            /* Sum of lp_hist_bucket_log. */
    bool saturated;
};

void lp_run_share_add(struct lp_run_share *share, uint64_t calls, uint64_t ended_ns);
void lp_run_share_add_bucket(struct lp_run_share *share, unsigned bucket, uint64_t count);

/* Adds a worker's whole share; one without calls adds nothing. */
void lp_run_spread_add(struct lp_run_spread *spread, const struct lp_run_share *share);
void lp_run_spread_merge(struct lp_run_spread *spread, const struct lp_run_spread *from);

#endif
