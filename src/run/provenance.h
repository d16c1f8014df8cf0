/*
 * provenance: what a run came from, as its entry in metadata.json says (docs/format.md).
 *
 * Owns: what of that entry can be used. One that is not as it should be says nothing; the run is read all the same.
 */
#ifndef LP_RUN_PROVENANCE_H
#define LP_RUN_PROVENANCE_H

#include <jansson.h>

#include "run/run.h"

/* Fills the run's provenance from the parsed file. 0, or -1 without memory. */
int lp_run_provenance_take(struct lp_run *run, const json_t *metadata);
void lp_run_provenance_release(struct lp_run_provenance *provenance);

#endif
