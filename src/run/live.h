/*
 * live: what workers of this machine hold in shared memory now, as the documents that their files will be.
 *
 * Owns: the way from an image to the JSON of docs/format.md, made by the recorder's own emitter. A document's
 * written stamp is the moment at which its image was copied, and its source says whether the owner still lives.
 *
 * Must not know: files of the run, merging.
 */
#ifndef LP_RUN_LIVE_H
#define LP_RUN_LIVE_H

#include "run/run.h"

struct lp_view;

/* One document; bytes is NULL of an image of another version. label names its image for a message; view is that image, of
   which samples that no file has yet can be had (NULL: none). All is borrowed and ends with the call. 0 to go on. */
typedef int lp_run_live_fn(void *context, const char *label, const char *bytes, size_t len, enum lp_run_source source,
                           const struct lp_view *view);

/* Calls take for every image on this machine whose worker records into the run directory dir (as given by the caller,
   perhaps relative), in any order. Images that are going away are left out: their files are read instead. Returns 0, or
   the first result of take that was not 0. Disturbs no worker and waits for none. */
int lp_run_live_each(const char *dir, lp_run_live_fn *take, void *context);

#endif
