/*
 * samples_load: the samples of all workers of a run.
 *
 * Owns: where a worker's samples lie, the threads that read them (as many as there are cores, eight at most), and the sums
 * over workers: of phases for each role, of devices for each host, of the traffic over the run's time. All of these are
 * whole numbers, so that neither the order of workers nor of threads shows.
 *
 * Costs: for each thread one buffer and one time axis, about 2 MiB together.
 */
#ifndef LP_RUN_SAMPLES_LOAD_H
#define LP_RUN_SAMPLES_LOAD_H

#include "run/run.h"
#include "run/sample_rows.h"
#include "run/samples.h"

/* Reads the samples of a run whose workers, roles, hosts and times are there. What cannot be read is noted in the worker's
   samples. 0, or -1 without memory. */
int lp_run_samples_load(struct lp_run *run, int dir_fd);

void lp_run_samples_free(struct lp_run_samples *samples);
void lp_run_sampled_free(struct lp_run_sampled *sampled, size_t n);
void lp_run_sampling_free(struct lp_run_sampling *sampling);

/* The samples file of a worker, relative to the run directory; to be freed. NULL without memory. */
char *lp_run_samples_path(const struct lp_run_worker *worker, enum lp_ring_kind kind);

#endif
