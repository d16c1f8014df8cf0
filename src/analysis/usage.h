/*
 * analysis/usage: what a run used besides time - I/O, memory, devices.
 *
 * Owns: the figures of the blocks I/O BY PHASE, I/O, GPU, GPU BY PHASE and MEMORY, and which rows they show.
 *
 * Rules, beyond those of analysis.h:
 *  - Shares are of one layer: of what reached the block devices if anything did, else of what system calls moved. The
 *    layer stands beside them.
 *  - What was not measured is NaN; only what was measured and found nothing is zero.
 */
#ifndef LP_ANALYSIS_USAGE_H
#define LP_ANALYSIS_USAGE_H

#include "analysis/analysis.h"
#include "run/samples.h"

/* --- I/O by phase, exactly --- */

/* A phase with io=True. */
struct lp_analysis_io_row {
    size_t phase;              /* Index in the role's phases. */
    double flow[LP_RUN_FLOWS]; /* Bytes. */
    double cached_bytes;       /* Read, but not from a device. */
    double rate_per_s;         /* Bytes read and written at the block layer / wall time of the phase. */
    double chars_rate_per_s;   /* Likewise of system calls. */
};

/* Whether a counter is one of those that phase(io=True) keeps; which then. */
bool lp_analysis_is_io_counter(const struct lp_run_counter *counter, enum lp_run_flow *flow);

/* --- I/O, sampled --- */

/* Where an interval's bytes went to: a phase of a role. */
struct lp_analysis_io_share {
    size_t role;                          /* Index in the run's roles. */
    const struct lp_run_sampled *sampled; /* Borrowed. */
    double bytes;                         /* In the layer of the shares, read and written. */
    double share;                         /* Of what the run moved in it. */
};

#define LP_ANALYSIS_COLUMNS 48 /* Of a sparkline, at most. */
#define LP_ANALYSIS_IO_SHARES_MAX 5

struct lp_analysis_io {
    bool known[LP_RUN_LAYERS];       /* Measured in any interval of any process. */
    double total[LP_RUN_FLOWS];      /* Bytes; NaN: that layer was not measured. */
    double cached_bytes;             /* NaN: not both layers were. */
    double mean_per_s[LP_RUN_FLOWS]; /* Over the run's runtime. */
    double peak_per_s[LP_RUN_FLOWS];
    uint64_t intervals, dropped;         /* Of the layer that has more dropped; both together are all. */
    enum lp_run_layer layer;             /* Of the shares. */
    double layer_bytes;                  /* Their denominator: read and written in it. */
    double unphased_share;               /* Of it, moved while no phase was open; NaN of nothing. */
    struct lp_analysis_io_share *shares; /* Owned; largest first. */
    size_t n_shares;
    uint64_t column_ns;
    size_t n_columns;
    double columns[LP_RUN_FLOWS][LP_ANALYSIS_COLUMNS]; /* Bytes; NaN: not known for any part of it. */
};

/* --- memory --- */

#define LP_ANALYSIS_GROWS_MAX 3
#define LP_ANALYSIS_LARGEST_MAX 3

struct lp_analysis_memory {
    size_t n_workers;     /* With samples; 0: not measured, and nothing below is. */
    double current_bytes; /* Sums over them: of the last sample of each, */
    double peak_bytes;    /* of the peak of each, */
    double growth_bytes;  /* of last less first. */
    double trend_per_h;   /* Sum of the trends of those that have one; NaN: none has. */
    size_t n_trends;
    double pss_bytes;                        /* Sum of proportional sets; NaN unless all of them have it. */
    size_t largest[LP_ANALYSIS_LARGEST_MAX]; /* Indices in lp_run.workers, by peak. */
    size_t n_largest;
    size_t grows[LP_ANALYSIS_GROWS_MAX]; /* Indices in the role's sampled, most first. */
    size_t n_grows;
};

/* The peak of one process: the kernel's, which no moment escapes, or that of its samples; NaN: not measured. */
double lp_analysis_peak_rss(const struct lp_run_worker *worker);

/* --- devices --- */

struct lp_analysis_vram {
    size_t n_workers;                                 /* Whose allocator told. */
    double allocated_peak_bytes, reserved_peak_bytes; /* Sums of their peaks; NaN: none told. */
};

/* --- a role, and the run --- */

struct lp_analysis_role_usage {
    struct lp_analysis_io_row *io_rows; /* Owned; most bytes first. */
    size_t n_io_rows;
    struct lp_analysis_memory memory;
    size_t *gpu_phases; /* Owned: indices in the role's sampled, most samples first. */
    size_t n_gpu_phases;
};

struct lp_analysis_usage {
    struct lp_analysis_role_usage *roles; /* Owned; as many as the run has. */
    struct lp_analysis_io io;             /* Empty without samples. */
    struct lp_analysis_vram vram;
};

/* 0 or -ENOMEM; free in both cases. */
int lp_analysis_usage_make(struct lp_analysis_usage *usage, const struct lp_analysis *analysis);
void lp_analysis_usage_free(struct lp_analysis_usage *usage, size_t n_roles);

/* Parts, each of its own file. */
int lp_analysis_io_rows(struct lp_analysis_role_usage *usage, const struct lp_analysis_role *role);
int lp_analysis_io(struct lp_analysis_io *io, const struct lp_run *run);
void lp_analysis_memory(struct lp_analysis_memory *memory, const struct lp_run *run, const struct lp_run_role *role);

#endif
