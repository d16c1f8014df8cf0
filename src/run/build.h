/*
 * build: the public model out of what was gathered.
 *
 * Owns: the order of workers, roles and hosts, imbalance, the times of the run, staleness, and to which attempt a file
 * that could not be read belongs.
 */
#ifndef LP_RUN_BUILD_H
#define LP_RUN_BUILD_H

#include "run/gather.h"

/* Fills the superseded attempts from all but the chosen one, before figures are taken away. 0, or -1 without memory. */
int lp_run_build_superseded(struct lp_run *run, const struct lp_run_attempts *attempts);

/* Moves an attempt's trees and workers into the run. 0, or -1 without memory. */
int lp_run_build_attempt(struct lp_run *run, struct lp_run_attempt *attempt);

/* Moves the unreadable files into the run, but for those of superseded attempts, which are counted there. -1 without
   memory. */
int lp_run_build_unreadable(struct lp_run *run, struct lp_run_gather *gather);

/* What the filter left out. 0, or -1 without memory. */
int lp_run_build_filtered(struct lp_run *run, const struct lp_run_attempt *attempt, const struct lp_run_filter *filter);

/* The times of the run and what follows from them, once its workers are there. all is of those that a filter left out,
   too. */
void lp_run_build_times(struct lp_run *run, const struct lp_run_extent *all);

#endif
