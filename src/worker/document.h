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

/* Whose image it is decides where the CPU time of open entries is read: from the threads' own clocks, from the
   scheduler's figures in /proc (behind by up to a tick for a thread that runs), or nowhere. */
enum lp_document_owner { LP_OWNER_SELF, LP_OWNER_ALIVE, LP_OWNER_GONE };

/* When the document's file was made: by this host's wall clock before and after, and in between by whoever stamps files
   in that folder, which for a shared one is the file server. stamped_ns 0: there is no file, or no stamp. */
struct lp_folder_clock {
    uint64_t before_ns, stamped_ns, after_ns;
};

/* Open entries are settled at written.monotonic_ns. clock may be NULL. */
void lp_document_emit(struct lp_emit *emit, const struct lp_view *view, const struct lp_stamp *written,
                      const struct lp_folder_clock *clock, enum lp_document_owner owner);

#endif
