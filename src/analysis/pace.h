/*
 * analysis/pace: which hosts and processes are slower than the others of their role, and in which phase.
 *
 * What is compared is the self time of an entry, phase by phase: in programs whose processes wait for one another all of
 * them spend the same time in phases, and a slow one shows only in the phase that it is slow in. Each host and process is
 * held against the median of its role, and is given the phase that costs it most beyond that: entries times the difference.
 *
 * Whether one stands out is another question. It does (`notable`) if all three hold:
 *  - an entry takes LP_PACE_RATIO times the median or more;
 *  - that comes to LP_PACE_SHARE of its time in phases or more;
 *  - it is no accident: among equals whose means differ as much as those of the others do, the slowest of any phase of the
 *    role would be so slow in LP_PACE_ERROR of all runs. By Rosner's test on the logarithms of the means, which finds
 *    several that are slow at once; two or three never are enough to tell who is the slow one.
 *
 * A few others say little about how much equals differ, and by themselves would hide a rank of four that takes three times
 * as long. So it is also held against what is usual: that equals differ by LP_PACE_USUAL_SPREAD, or by what the others do
 * if that is more, counts as LP_PACE_USUAL_DF further ones that were seen (degrees of freedom of Student's test). Where
 * equals differ by more than a tenth and are few, that errs more often: four that differ by 0.2, in 2 % of all runs, by
 * 0.4 in 9 %.
 *
 * Costs: a sort of the role's processes for each of its phases; about 60 bytes for each phase of each process meanwhile.
 *
 * Must not know: formats.
 */
#ifndef LP_ANALYSIS_PACE_H
#define LP_ANALYSIS_PACE_H

#include <stdbool.h>
#include <stddef.h>

#define LP_PACE_RATIO 1.1
#define LP_PACE_SHARE 0.02
#define LP_PACE_ERROR 0.01
#define LP_PACE_LEAST_SPREAD 0.01 /* Means are not taken for more equal than this, relatively. */
#define LP_PACE_USUAL_SPREAD 0.05
#define LP_PACE_USUAL_DF 2
#define LP_PACES_MAX 10

/* A host, or a process, in the phase that costs it most beyond the median of its role. */
struct lp_analysis_pace {
    size_t host;                          /* Index in lp_run.hosts. */
    size_t worker;                        /* Index in lp_run.workers; SIZE_MAX: it is of a host. */
    size_t n_workers;                     /* Processes of the role on that host; 1 for a process. */
    size_t phase;                         /* Index in the role's phases. */
    double mean_ns, median_ns;            /* Self time of an entry: its own, and the median's of the role. */
    double ratio;                         /* Of the two. */
    double extra_ns;                      /* The difference for all its entries. */
    double extra_share;                   /* Of its time in phases. */
    double wait_share, median_wait_share; /* Of the time in phases; NaN: not known. */
    bool notable;
};

struct lp_analysis_paces {
    struct lp_analysis_pace *paces; /* Owned; the notable ones first, then by extra_ns. */
    size_t n;                       /* At most LP_PACES_MAX. */
    size_t n_notable;               /* All of them, also where there are more. */
};

struct lp_analysis_role;
struct lp_run;
/* Fills slow_hosts and slow_workers, once the phases are there. 0 or -ENOMEM. */
int lp_analysis_pace(struct lp_analysis_role *figures, const struct lp_run *run);

#endif
