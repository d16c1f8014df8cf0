/*
 * samples_sum: what the samples of all workers come to together.
 *
 * Owns: the sums of phases over the workers of a role, of devices over the workers of a host, and of the run. Everything
 * added up is a whole number or a maximum, so that the order does not show. Not thread-safe.
 */
#ifndef LP_RUN_SAMPLES_SUM_H
#define LP_RUN_SAMPLES_SUM_H

#include "run/samples_fold.h"
#include "run/table.h"

/* A device of a host, being summed. */
struct lp_run_gpu_sum {
    struct lp_run_gpu gpu;
    struct lp_run_gpu_bin bins[LP_RUN_GPU_BINS];
};

/* Zeroed before its first use. */
struct lp_run_samples_sum {
    struct lp_run_table table;
    struct lp_run_sampled **phases; /* Owned, each of them too. */
    size_t n_phases, phases_room;
    struct lp_run_gpu_sum **gpus; /* Owned, each of them too. */
    size_t n_gpus, gpus_room;
    struct lp_run_timeline timeline; /* Owned. */
};

/* Adds what the fold holds of a worker. 0, or -1 without memory. */
int lp_run_samples_sum_worker(struct lp_run_samples_sum *sum, const struct lp_run *run, size_t worker,
                              const struct lp_run_samples_fold *fold);
/* Adds a time axis, or takes it over; then *timeline is empty. */
void lp_run_samples_sum_timeline(struct lp_run_samples_sum *sum, struct lp_run_timeline *timeline);
/* Fills run->sampling and the roles' phases, if any worker has samples. 0, or -1 without memory. */
int lp_run_samples_sum_finish(struct lp_run_samples_sum *sum, struct lp_run *run);
void lp_run_samples_sum_release(struct lp_run_samples_sum *sum);

#endif
