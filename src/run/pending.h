/*
 * pending: samples in a worker's image that no file has yet.
 *
 * A copy of them, taken when the image is read: at most a few hundred rows. Some may be in the file by the time that is
 * read; their sequence tells.
 */
#ifndef LP_RUN_PENDING_H
#define LP_RUN_PENDING_H

#include "worker/samples.h"

struct lp_run_pending {
    size_t n_process, n_gpu;
    struct lp_gpu_row *gpu; /* Borrowed: behind the other rows. */
    struct lp_process_row process[];
};

/* *pending is to be freed; NULL if there are none. 0, or -1 without memory. */
int lp_run_pending_take(struct lp_run_pending **pending, const struct lp_view *view);

/* To be freed; NULL without memory. */
struct lp_run_pending *lp_run_pending_copy(const struct lp_run_pending *pending);

/* A row as lp_sample_file_next gives them. */
void lp_run_pending_process(const struct lp_process_row *from, uint64_t *row);
void lp_run_pending_gpu(const struct lp_gpu_row *from, uint64_t *row);

#endif
