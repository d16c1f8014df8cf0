/*
 * samples_fold: the rows of one worker become its aggregates.
 *
 * Owns: which rows count, and which intervals between them (samples.h says by what rules). A row that cannot be right -
 * at a time or with a sequence that its worker cannot have had, or that was read before - is counted and left out; the
 * rows around it are used. Figures are checked against what any machine can do, so that one broken record bends no sum.
 *
 * One fold is used for many workers, one after the other; several threads have one each. What goes beyond a worker - the
 * figures of phases, the traffic over time, the devices - is gathered in the fold and fetched by samples_load.c.
 *
 * Must not know: files, other workers.
 */
#ifndef LP_RUN_SAMPLES_FOLD_H
#define LP_RUN_SAMPLES_FOLD_H

#include "run/run.h"
#include "run/sample_rows.h"
#include "run/samples.h"

/* From a worker's monotonic clock to nanoseconds after the run's beginning: exact where both clocks are one; else by the
   worker's two stamps, a straight line between them. */
struct lp_run_axis {
    uint64_t from_ns, to_ns;     /* Monotonic. */
    int64_t offset_ns, slope_ns; /* To be added at from_ns; and how much more of it at to_ns. */
};

/* The moment on the axis; 0 before its beginning. */
uint64_t lp_run_axis_at(const struct lp_run_axis *axis, uint64_t monotonic_ns);
/* The axis to the epoch, by the worker's stamps. */
struct lp_run_axis lp_run_axis_epoch(const struct lp_run_worker *worker);

/* What all workers have in common. */
struct lp_run_ruler {
    uint64_t bin_ns;
    size_t n_bins;
    uint64_t gpu_bin_ns;
};

#define LP_RUN_GPU_BINS 64

/* A stretch of time of one device. */
struct lp_run_gpu_bin {
    uint64_t busy_permille_ns, busy_known_ns; /* Sums over workers of share * time, and of the time. */
    uint64_t own_permille_ns;                 /* Sum over workers. */
    uint64_t covered_ns;                      /* By the worker that covered most of it. */
};

/* One device while the rows of a worker are read. */
struct lp_run_gpu_fold {
    struct lp_run_gpu_samples samples;
    uint64_t last_ns, last_sequence;
    struct lp_run_gpu_bin *bins; /* Owned: LP_RUN_GPU_BINS of them. */
};

struct lp_run_samples_fold {
    struct lp_run_ruler ruler;
    struct lp_run_timeline timeline; /* Owned: of all workers so far. */

    /* Of the worker being read. */
    const struct lp_run_phase_id *ids; /* Borrowed; ascending. */
    size_t n_ids;
    struct lp_run_axis axis;
    uint64_t earliest_ns, latest_ns; /* Monotonic: what is outside is no time of it. */
    struct lp_run_samples *samples;  /* Borrowed. */
    struct lp_run_sampled *phases;   /* Owned: of ids, then of none open, then of unknown ones. */
    size_t phases_room;
    size_t last_place; /* Of the id that was looked up last. */
    uint64_t last_id;
    uint64_t previous[LP_P_FIELDS]; /* The row used last; its sequence is LP_NOT_MEASURED if there is none. */
    struct lp_run_gpu_fold gpus[LP_RUN_GPUS_MAX]; /* By index. */
};

/* 0, or -1 without memory; to be released in both cases. *fold must be zeroed before. */
int lp_run_samples_fold_init(struct lp_run_samples_fold *fold, const struct lp_run_ruler *ruler);
void lp_run_samples_fold_release(struct lp_run_samples_fold *fold);

/* Begins with a worker. samples is filled from here on. 0, or -1 without memory. */
int lp_run_samples_fold_begin(struct lp_run_samples_fold *fold, const struct lp_run_worker *worker,
                              const struct lp_run_axis *axis, struct lp_run_samples *samples);
/* Rows as lp_sample_file_next gives them. */
void lp_run_samples_fold_process(struct lp_run_samples_fold *fold, const uint64_t *row);
/* 0, or -1 without memory. */
int lp_run_samples_fold_gpu(struct lp_run_samples_fold *fold, const uint64_t *row);
/* Whether a row of that sequence, or a later one, was used already. */
bool lp_run_samples_fold_has_process(const struct lp_run_samples_fold *fold, const uint64_t *row);
bool lp_run_samples_fold_has_gpu(const struct lp_run_samples_fold *fold, const uint64_t *row);

/* Hands the devices over to the worker's samples. 0, or -1 without memory. */
int lp_run_samples_fold_end(struct lp_run_samples_fold *fold);

/* How many figures of phases there are in fold->phases. */
static inline size_t lp_run_samples_fold_phases(const struct lp_run_samples_fold *fold)
{
    return fold->n_ids + 2;
}

/* a + b, at most UINT64_MAX. */
static inline uint64_t lp_run_plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void lp_run_moved_add(struct lp_run_moved *sum, const struct lp_run_moved *moved);
void lp_run_intervals_add(struct lp_run_intervals *sum, const struct lp_run_intervals *intervals);
void lp_run_io_add(struct lp_run_io *sum, const struct lp_run_io *io);

#endif
