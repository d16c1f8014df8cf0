/*
 * analysis: from the model of a run to the figures that a report shows.
 *
 * Owns: every share, rate, mean, quantile and choice ("which phases dominate?") that is shown
 * anywhere. The text and the JSON report are two spellings of the structs below, so they cannot
 * disagree; neither computes a figure.
 *
 * Pure: reads the const model and nothing else, neither clock nor file. Costs one small struct per
 * phase and three walks over its histogram. The model must outlive the figures, which borrow names,
 * counters and histograms from it.
 *
 * Must not know: formats, units other than ns, widths, colours.
 *
 * Rules:
 *  - A figure that does not exist (a mean of no entries, a share of no time, a wait without CPU
 * times) is NaN here, null in JSON and "n/a" on the page; never zero.
 *  - Shares are fractions of 1, and the field that is their denominator stands beside them.
 *  - Sums over processes and threads: a role's wall time is that of all its processes together.
 */
#ifndef LP_ANALYSIS_ANALYSIS_H
#define LP_ANALYSIS_ANALYSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/pace.h"
#include "analysis/resources.h"
#include "run/run.h"

#define LP_ANALYSIS_NONE SIZE_MAX

/* One phase of one role. */
struct lp_analysis_phase {
    const struct lp_run_phase *phase; /* Borrowed. */
    size_t parent;                    /* Index in the role's phases; LP_ANALYSIS_NONE at the top level. */
    unsigned depth;                   /* Names in its path: 1 at the top level. */
    uint64_t self_ns;                 /* Wall time outside child phases. */
    uint64_t wait_ns;                 /* Wall time in which its thread was not on a CPU, children included. */
    uint64_t wait_base_ns;            /* The wall time for which that is known. */
    double wait_share;                /* Of wait_base_ns; NaN if CPU time was not measured. */
    double blocked_share;             /* Like the next of wait_base_ns: why it waited; NaN if that was not measured. */
    double preempted_share;           /* What both leave of wait_share was not measured. */
    double share;                     /* Of the role's wall time; children included. */
    double parent_share;              /* Of the parent's wall time; of the role's at the top level. */
    double self_share;                /* Of the role's wall time. */
    double mean_ns;                   /* Per ended entry; like the quantiles NaN as long as none ended. */
    double p50_ns, p95_ns, p99_ns;
    double gpu_mean_ns, gpu_p50_ns, gpu_p99_ns; /* Per entry whose device time is known; NaN without any. */
    bool self_estimated; /* Sampled itself, or a child of it is, or what went on beyond the end of one in it. */
};

/* One counter of one phase. */
struct lp_analysis_counter {
    double rate_per_s; /* Sum / wall time of the phase, summed over processes; NaN if the phase took
                          no time. */
    double each_ns;    /* Wall time of the phase / sum; NaN unless the sum is positive. */
};

struct lp_analysis_role {
    const struct lp_run_role *role;   /* Borrowed. */
    struct lp_analysis_phase *phases; /* Owned; a parent stands before its children. */
    size_t n_phases;
    uint64_t wall_ns;    /* Time in phases: that of the top level, and what late exits added below it. */
    uint64_t open_calls; /* Entries that had not ended, all phases together. */
    bool cpu_partial;    /* Some wall time of a phase with CPU figures has none. */
    bool cpu_missing;    /* Some phase has no CPU figures at all. */
    bool wait_explained; /* Of some phase it is known why it waited. */
    size_t busiest;      /* Index in lp_run.workers: the most time in phases; LP_ANALYSIS_NONE without
                       any. */
    double mean_wall_ns; /* Time in phases per worker; NaN without workers. */

    /* Where the time went, at the first level that branches: the children of `level`, largest
       first; the smaller ones added up if they are many. What they all leave of wall_ns is `other`.
     */
    size_t level;   /* LP_ANALYSIS_NONE: the top level. */
    size_t *shares; /* Owned indices. */
    size_t n_shares;
    size_t n_small;
    uint64_t small_ns;
    double small_share;
    bool small_estimated;
    uint64_t other_ns;
    double other_share;
    bool other_estimated;

    /* The phases with the most self time, largest first; and what the others come to. */
    size_t *dominant; /* Owned indices. */
    size_t n_dominant;
    size_t n_minor;
    uint64_t minor_self_ns;
    double minor_self_share;
    bool minor_estimated;

    struct lp_analysis_use cpu_cores, rss_bytes; /* Of its processes, without sums. */

    struct lp_analysis_paces slow_hosts, slow_workers; /* Against the others of the role. analysis/pace.h */

    size_t repeating; /* The phase whose entries are iterations; LP_ANALYSIS_NONE if none repeats. */
};

struct lp_analysis {
    const struct lp_run *run;       /* Borrowed. */
    struct lp_analysis_role *roles; /* Owned; in the order of the run's roles. */
    size_t n_roles;
    struct lp_analysis_host *hosts;  /* Owned; in the order of the run's hosts. */
    struct lp_analysis_usage *usage; /* Owned: I/O, memory, devices. analysis/usage.h */
    size_t n_lost;                   /* Workers whose files could not be read. */
    bool most_lost;                  /* More than half of all workers. */
    size_t n_not_joined;             /* Workers that ran at the same time under other run ids; in no figure. */
};

/* Rules of choice, here so that the documentation and the tests can name them. */
#define LP_ANALYSIS_SHARES_MAX 10
/* Phases with less self time are minor, unless they have counters or device time. */
#define LP_ANALYSIS_DOMINANT_SHARE 0.01
#define LP_ANALYSIS_DOMINANT_MAX 12
#define LP_ANALYSIS_REPEATING_CALLS 3

/* Returns 0 or -ENOMEM; *analysis is NULL then. Free with lp_analysis_free. */
int lp_analysis_make(struct lp_analysis **analysis, const struct lp_run *run);
void lp_analysis_free(struct lp_analysis *analysis);

struct lp_analysis_counter lp_analysis_counter(const struct lp_run_phase *phase, const struct lp_run_counter *counter);

#endif
