/*
 * analysis/compare: two runs, phase by phase: what changed, and whether it is more than chance (L1).
 *
 * Phases are matched by role and path. Of each that is in both runs the mean time of an entry is compared; it comes from
 * sums, exactly, never from buckets. A change is real if it is farther from zero than chance takes it. That margin is
 * the largest of three, each of which stands for one thing that differs between equal programs:
 *
 *  - entries: what the means of so many entries differ by if both runs drew them from one and the same law, namely both
 *    histograms together. Any shape of law will do (chance.h). Within its bucket each entry is put where it makes the
 *    law widest, so a bucket's width can hide a small change but never make one up.
 *  - processes: what they differ by if processes differ from each other as these do: Student's t on the processes' own
 *    means, weighted by their entries, with as many degrees of freedom as there are processes, less one for each run. Entries of one process need not be independent then. Where a phase has but one
 *    process a run there is nothing to learn that from, and entries count as independent.
 *  - runs: processes of equal programs also differ run by run (where memory lies, how warm the machine is). Each run's
 *    mean is taken to be off by LP_COMPARE_RUN_NOISE more, at random; combined with the larger of the other two.
 *
 * A few entries that take a hundred times as long make a mean so uncertain that nothing about it can be shown, although
 * most entries clearly moved. So the geometric mean ("typical entry": the mean of the durations' logarithms, which such
 * entries hardly touch) is tested beside it, in the same way, where the histogram is smooth enough to give it. It makes a
 * change real too; then the size of it is the typical one.
 *
 * Error rate: if the runs are of equal programs, LP_COMPARE_ERROR_RATE is the chance that anything in the whole table is
 * called real - not of one phase. Each test gets an equal part of it (Bonferroni): two directions, two means, and as many
 * phases as have enough entries. Phases may depend on each other as they like.
 *
 * Not decided, whatever the figures: fewer than LP_COMPARE_FEW entries measured in either run, sums at the limit of their
 * type, no histogram.
 *
 * Pure, as analysis.h says; both models must outlive the figures. Must not know: formats.
 */
#ifndef LP_ANALYSIS_COMPARE_H
#define LP_ANALYSIS_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/run.h"

#define LP_COMPARE_ERROR_RATE 0.01
#define LP_COMPARE_RUN_NOISE 0.003
#define LP_COMPARE_FEW 30
/* At most this part of the entries may stand in peaks narrower than three buckets where the typical entry is tested:
   such peaks may cross from bucket to bucket as a whole without having moved, which is added to the margin. */
#define LP_COMPARE_PEAKS_MAX 0.2

enum lp_compare_verdict {
    LP_COMPARE_SAME, /* No change beyond chance. Not a proof that there is none. */
    LP_COMPARE_SLOWER,
    LP_COMPARE_FASTER,
    LP_COMPARE_UNDECIDED, /* Not tested. */
    LP_COMPARE_ONLY_A,
    LP_COMPARE_ONLY_B
};

/* Of one phase in one run. */
struct lp_compare_side {
    const struct lp_run_phase *phase; /* Borrowed; NULL: not in this run. */
    double entries;                   /* Measured: calls, or of a sampled phase about calls / stride. */
    double mean_ns, p50_ns;           /* NaN as long as none ended. */
};

/* A change as a fraction of A (0.05: B takes 5% longer; NaN: cannot be told), and how much of one, in the direction of
   this one, chance makes of nothing; NaN where that was not tested, INFINITY where samples are too small for any. */
struct lp_compare_change {
    double size, margin;
    bool real;
};

struct lp_compare_phase {
    size_t role;  /* Index in roles. */
    size_t depth; /* Names in its path. */
    struct lp_compare_side a, b;
    struct lp_compare_change mean, typical; /* Of the mean entry, of the typical one. */
    double median_ratio;                    /* Median in B / in A. */
    enum lp_compare_verdict verdict;
    bool few;       /* Fewer than LP_COMPARE_FEW entries in a run. */
    bool disagrees; /* The mean's ratio is none that the medians can have, for all that buckets and samples blur. */
    bool estimated; /* Sampled in a run. */
    bool saturated; /* A sum in it is too low. */
    bool over;      /* Really slower, and by more than the gate allows. */
};

struct lp_compare_role {
    const struct lp_text *name;      /* Borrowed. */
    const struct lp_run_role *a, *b; /* Borrowed; NULL: not in that run. */
    size_t first, n;                 /* Its phases. */
};

struct lp_compare {
    const struct lp_run *a, *b;      /* Borrowed. */
    struct lp_compare_role *roles;   /* Owned; sorted by name. */
    struct lp_compare_phase *phases; /* Owned; by role, parents before their children, siblings by name. */
    size_t n_roles, n_phases;
    size_t n_both, n_tested, n_slower, n_faster, n_over;
    double fail_over; /* As given. */
    bool same_run;    /* Both are the very same run. */
};

/* fail_over: a fraction (0.05: the gate closes over 5%); NaN: no gate. Returns 0 or -ENOMEM; *compare is NULL then. Free
   with lp_compare_free. */
int lp_compare_make(struct lp_compare **compare, const struct lp_run *a, const struct lp_run *b, double fail_over);
void lp_compare_free(struct lp_compare *compare);

/* The phase in whichever run has it: for its name and path. */
static inline const struct lp_run_phase *lp_compare_either(const struct lp_compare_phase *row)
{
    return row->a.phase != NULL ? row->a.phase : row->b.phase;
}

#endif
