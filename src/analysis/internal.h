/*
 * analysis/internal.h: what the files of this room share. phases.c makes the figures of each phase,
 * choice.c picks what a reader should see first, analysis.c joins both. compare_rows.c matches two runs, compare.c judges
 * what changed.
 */
#ifndef LP_ANALYSIS_INTERNAL_H
#define LP_ANALYSIS_INTERNAL_H

#include "analysis/analysis.h"

/* Lays the tree out flat into figures->phases and sets the role's wall time. 0 or -ENOMEM. */
int lp_analysis_flatten(struct lp_analysis_role *figures);
/* Fills in the figures of every phase; wall_ns of the role must be known. */
void lp_analysis_measure(struct lp_analysis_role *figures);

/* Whether its self time is an estimate: it is sampled itself, or a child of it is. */
bool lp_analysis_self_estimated(const struct lp_run_phase *phase);

/* Each chooses its part of the role's figures. 0 or -ENOMEM. */
int lp_analysis_choose_shares(struct lp_analysis_role *figures);
int lp_analysis_choose_dominant(struct lp_analysis_role *figures);
void lp_analysis_choose_repeating(struct lp_analysis_role *figures);

static inline uint64_t lp_analysis_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t lp_analysis_less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* part / whole; NaN of no whole. */
double lp_analysis_ratio(double part, double whole);

/* Matches the roles and phases of both runs: fills roles and phases but for what is derived. 0 or -ENOMEM. */
struct lp_compare;
int lp_compare_match(struct lp_compare *compare);

#endif
