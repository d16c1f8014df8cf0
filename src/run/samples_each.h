/*
 * samples_each: every row of the samples of a run, one after the other, as it was taken.
 *
 * For those who want the rows themselves. Nothing is left out, dropped or checked but what no reader can read; rows that
 * wait in live images come last of their worker. One row is in memory at a time.
 */
#ifndef LP_RUN_SAMPLES_EACH_H
#define LP_RUN_SAMPLES_EACH_H

#include "run/run.h"
#include "run/sample_rows.h"

struct lp_run_sample {
    const struct lp_run_worker *worker;
    const uint64_t *row; /* As many figures as its kind has fields. */
    uint64_t epoch_ns;
    const struct lp_run_phase *phase; /* Deepest open; NULL: none, */
    bool phase_known;                 /* if this is true. */
};

struct lp_run_samples_visitor {
    void *context;
    /* 0 to go on. */
    int (*sample)(void *context, const struct lp_run_sample *sample);
    /* A worker's file that cannot be used, or not to its end, and why. */
    void (*fault)(void *context, const struct lp_run_worker *worker, const char *reason);
};

/* In the order of run->workers. 0, the first result of sample that was not 0, or -1 without memory. */
int lp_run_samples_each(const struct lp_run *run, enum lp_ring_kind kind, const struct lp_run_samples_visitor *visitor);

#endif
