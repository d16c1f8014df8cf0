/*
 * worker/run_id: the run id of a worker that nobody gave one.
 *
 * Processes that a launcher started together take the name of their launch, and so are in one run without being told.
 * A process that opens further workers in the same directory, one after the other or at once, is in a further run each
 * time: slurm-77.0, slurm-77.0-2. The ranks of a program do the same and meet again. Else an id is made of the time and
 * of random bits.
 */
#ifndef LP_WORKER_RUN_ID_H
#define LP_WORKER_RUN_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "20260813T2241-471c94" (UTC); size at least 24. */
void lp_run_id_generate(char *run_id, size_t size);
/* The launch's; false if there is none. */
bool lp_run_id_of_launch(char *run_id, size_t size, const char *run_dir);

uint32_t lp_random_bits(void);

#endif
