/*
 * worker/document: an image turned into the JSON of a worker file (docs/format.md).
 *
 * The one emitter of the format, for one's own image and for another process's alike: by the keeper and snapshot() into
 * the file, by close() for the last time, and by a reader of live images into memory. No malloc, no lock, no stdio.
 */
#ifndef LP_WORKER_DOCUMENT_H
#define LP_WORKER_DOCUMENT_H

#include "base/emit.h"
#include "image/view.h"

/* Open entries are settled at written.monotonic_ns. own: the image is of this process, so that the CPU time of threads
   with open entries can be read. */
void lp_document_emit(struct lp_emit *emit, const struct lp_view *view, const struct lp_stamp *written, bool own);

#endif
