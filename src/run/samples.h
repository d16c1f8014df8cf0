/*
 * samples: what the samples files of a run come to - aggregates of constant size for each worker, sums over roles and
 * phases, and the run's traffic over time.
 *
 * Owns: the rules by which samples become figures. A worker's file (docs/format.md, "Samples files") is read as a stream,
 * record by record, and forgotten; nothing here grows with the length of a run, but for the time axis, whose bins are
 * bounded.
 *
 * Truth rules that every consumer relies on:
 *  - Cumulative figures are differenced within one process only, between two samples that follow each other and both have
 *    the figure, and never where the writer says that the interval is not known. Every other interval adds nothing and is
 *    counted as dropped, with its reason. So a sum says for how much wall time it holds (known_ns), and one that holds for
 *    no interval at all is not measured, which is not zero.
 *  - What happened in an interval is attributed to the deepest phase that was open in any thread when it began; to
 *    "(no phase open)" if none was.
 *  - Layers are never added up: characters (what system calls moved, cached or not, pipes and sockets included) and bytes
 *    (what reached the block devices) are two views of the same traffic.
 *  - Sums saturate instead of wrapping, and do not depend on the order in which workers are read.
 *
 * Costs: reading is bound by read(2); about 700 bytes are kept for each worker, about 100 for each of its devices.
 *
 * Must not know: how a figure is shown.
 */
#ifndef LP_RUN_SAMPLES_H
#define LP_RUN_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lp_run_phase;

/* --- I/O --- */

enum lp_run_flow { LP_READ_CHARS, LP_WRITE_CHARS, LP_READ_BYTES, LP_WRITE_BYTES };
#define LP_RUN_FLOWS 4

enum lp_run_layer { LP_LAYER_CHARS, LP_LAYER_BYTES };
#define LP_RUN_LAYERS 2

static inline enum lp_run_layer lp_run_layer_of(enum lp_run_flow flow)
{
    return flow < LP_READ_BYTES ? LP_LAYER_CHARS : LP_LAYER_BYTES;
}

/* Bytes moved. The pair counts reads over those intervals alone in which both layers are known, so that what the page
   cache served can be told. */
struct lp_run_moved {
    uint64_t flow[LP_RUN_FLOWS];
    uint64_t paired_chars, paired_bytes, paired; /* of so many intervals in which both layers are known */
};

/* Read, but not from a device: never below 0. */
static inline uint64_t lp_run_cached(const struct lp_run_moved *moved)
{
    return moved->paired_chars > moved->paired_bytes ? moved->paired_chars - moved->paired_bytes : 0;
}

/* Why an interval adds nothing. */
enum lp_run_drop {
    LP_DROP_UNREAD,    /* The counters could not be read at one of its ends. */
    LP_DROP_GAP,       /* The writer says that what happened in it is not known. */
    LP_DROP_LOST,      /* A sample between two that are there was lost. */
    LP_DROP_BACKWARDS, /* A counter went backwards. */
    LP_DROP_ENORMOUS   /* More than any machine can do in that time. */
};
#define LP_RUN_DROPS 5

struct lp_run_intervals {
    uint64_t used, used_ns; /* How many, and their wall time together. */
    uint64_t dropped[LP_RUN_DROPS];
};

uint64_t lp_run_intervals_dropped(const struct lp_run_intervals *intervals);

struct lp_run_io {
    struct lp_run_moved moved;
    struct lp_run_intervals intervals[LP_RUN_LAYERS]; /* used == 0: that layer was not measured. */
    double peak_per_s[LP_RUN_FLOWS];                  /* Bytes per second of the fastest interval of one process. */
};

/* --- the process --- */

/* Growth of a cumulative figure; intervals.used == 0: not measured. */
struct lp_run_sum {
    uint64_t sum;
    struct lp_run_intervals intervals;
};

/* A figure that goes up and down; n == 0: never measured. */
struct lp_run_level {
    uint64_t n;
    uint64_t first, last, least, peak;
};

/* A straight line through samples by least squares, kept as running means and co-moments, so that neither large times nor
   large figures cost digits. x in seconds, y in the figure's unit. */
struct lp_run_trend {
    uint64_t n;
    double first_x, last_x;
    double mean_x, mean_y, sxx, sxy;
};

#define LP_RUN_TREND_LEAST_S 60.0 /* Over less time a trend per hour would be invented. */
#define LP_RUN_TREND_LEAST_N 8

/* Units per second; NaN over too little time or too few samples. */
double lp_run_trend_slope(const struct lp_run_trend *trend);

#define LP_RUN_CPU_LEAST_NS 40000000u /* Four kernel ticks: a CPU figure over less is not measured. */

struct lp_run_samples {
    char *fault, *gpu_fault;    /* Owned: why a file could not be used, or not to its end; NULL: it could. */
    uint64_t rows;              /* That were used. */
    uint64_t first_ns, last_ns; /* Monotonic times of the first and the last of them; equal if there is but one. */
    uint64_t rows_cut;          /* The file ends inside a record. */
    uint64_t rows_repeated;     /* Sequence at or below one that was read before. */
    uint64_t rows_unsorted;     /* Time at or before that of the row before it. */
    uint64_t rows_beyond;       /* Time or sequence outside the worker's life; a device beyond the last. */
    uint64_t figures_enormous;  /* Single figures that no machine can have; taken as not measured. */
    struct lp_run_io io;
    struct lp_run_sum cpu_ns;  /* Cores in use on average: sum / intervals.used_ns, from LP_RUN_CPU_LEAST_NS on. */
    double cpu_heaviest_cores; /* Of the heaviest interval of at least LP_RUN_CPU_LEAST_NS; NaN if there is none. */
    struct lp_run_sum minor_faults, major_faults, voluntary_switches, involuntary_switches, run_delay_ns;
    struct lp_run_level threads, open_files;
    struct lp_run_level rss_bytes;
    struct lp_run_trend rss_trend;
    struct lp_run_level cuda_allocated_bytes, cuda_reserved_bytes; /* Of torch's allocator. */
    struct lp_run_gpu_samples *gpus;                               /* Owned; in the order of their index. */
    size_t n_gpus;
};

/* Mean cores in use; NaN: not measured. */
double lp_run_samples_cores(const struct lp_run_samples *samples);

/* --- devices --- */

#define LP_RUN_GPUS_MAX 64 /* Of one worker. */

/* One device as one worker saw it. */
struct lp_run_gpu_samples {
    uint32_t index;                                 /* NVML's. */
    uint64_t rows;                                  /* That were used. */
    uint64_t busy_permille_ns, busy_known_ns;       /* Share * time, summed; and the time for which it is known. */
    uint64_t own_permille_ns, own_known_ns;         /* Likewise of this process's share. */
    bool attributed;                                /* NVML has attributed work on it to this process. */
    struct lp_run_level used_bytes, own_used_bytes; /* Memory in use by anybody, and by this process. */
};

/* One device of one host, as all workers there saw it together: a moment that many workers saw counts no more than any
   other. */
struct lp_run_gpu {
    size_t host;              /* Index in lp_run.hosts. */
    uint32_t index;           /* NVML's. */
    bool attributed;          /* To any worker of the run. */
    size_t n_workers;         /* That saw it. */
    double busy_share;        /* Of the time in which the run saw it; NaN: not measured. */
    double own_share;         /* The run's, summed over its workers; NaN: never attributed. */
    uint64_t used_peak_bytes; /* By anybody; UINT64_MAX: not measured. */
    uint64_t own_peak_bytes;  /* Sum over workers of each one's peak; UINT64_MAX: not measured. */
};

/* Busy shares of samples, in whole percent. */
struct lp_run_busy {
    uint64_t percent[101];
};

/* The q-quantile as a share of 1; NaN of no samples. */
double lp_run_busy_quantile(const struct lp_run_busy *busy, double q);
uint64_t lp_run_busy_total(const struct lp_run_busy *busy);

/* --- phases --- */

/* A phase as the samples of its worker name it. */
struct lp_run_phase_id {
    uint32_t id;
    const struct lp_run_phase *phase; /* Borrowed, of the role's tree. */
};

enum lp_run_sampled_kind {
    LP_SAMPLED_PHASE,
    LP_SAMPLED_NONE_OPEN, /* (no phase open) */
    LP_SAMPLED_UNKNOWN    /* The samples name a phase that the worker's file does not. */
};

/* What samples say of one phase of one role, over all its workers: of the intervals that began while it was the deepest
   one open, and of the device samples taken then. */
struct lp_run_sampled {
    enum lp_run_sampled_kind kind;
    const struct lp_run_phase *phase; /* Borrowed, of the role's tree; NULL unless kind is LP_SAMPLED_PHASE. */
    struct lp_run_moved moved;
    uint64_t intervals, intervals_ns; /* Of either layer. */
    int64_t rss_growth_bytes;         /* Sum of the changes of resident memory, downwards too. */
    uint64_t rss_intervals;
    struct lp_run_busy *busy;       /* Owned; NULL: no device sample. Of devices that the process was seen on. */
    uint64_t gpu_peak_bytes;        /* Memory of the process on one device; UINT64_MAX: not measured. */
    uint64_t gpu_device_peak_bytes; /* Memory in use by anybody; likewise. */
};

/* --- over time --- */

#define LP_RUN_TIMELINE_BINS 65536 /* At most; a bin is a second or more. */
#define LP_RUN_TIMELINE_LEAST_NS 1000000000u

/* The run's traffic: each interval's bytes spread evenly over the bins that it lies in. */
struct lp_run_timeline {
    uint64_t bin_ns;
    size_t n_bins;
    uint64_t *bytes[LP_RUN_FLOWS]; /* Owned: bytes moved in each bin; */
    uint64_t *known_ns; /* Owned: for how much of it, summed over processes, that of either layer is known. */
};

/* --- everything --- */

struct lp_run_sampling {
    size_t n_workers; /* That have samples. */
    struct lp_run_io io;
    struct lp_run_timeline timeline;
    struct lp_run_gpu *gpus; /* Owned; by host, then index. */
    size_t n_gpus;
};

#endif
