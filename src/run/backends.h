/*
 * backends: what heavy profilers left in a run directory, backend/ (docs/format.md, "Windows").
 *
 * Each worker with such a window has a note there, w_*.json, that says what became of it; an artifact is looked for,
 * never opened. What is not as the note says is named: an artifact that is gone, a note that cannot be read, an
 * artifact of one of the run's workers that no note names. Other attempts' are passed over.
 *
 * Where a filter chose the workers, those of the others are passed over as well.
 *
 * Must not know: what is in an artifact.
 */
#ifndef LP_RUN_BACKENDS_H
#define LP_RUN_BACKENDS_H

#include "run/run.h"
#include "run/scan.h"

/* Fills run->backends, after its workers. 0, or -1 without memory. */
int lp_run_backends(struct lp_run *run, int dir_fd, struct lp_run_buffer *buffer);
void lp_run_backends_release(struct lp_run *run);

#endif
