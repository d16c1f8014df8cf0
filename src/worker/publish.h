/*
 * worker/publish: a document written as a worker's file, whole or not at all.
 *
 * Written under a temporary name, fsynced, renamed over the old one, the folder fsynced. The owner and whoever adopts its
 * image have names of their own for that, so that neither renames what the other has half written. Below the run
 * directory no symbolic link is followed: others may be able to write there. Safe in a signal handler.
 */
#ifndef LP_WORKER_PUBLISH_H
#define LP_WORKER_PUBLISH_H

#include <sys/stat.h>

#include "worker/document.h"

enum lp_publisher { LP_PUBLISH_OWNER, LP_PUBLISH_ADOPTER };

/* Opens the folder `below` ("workers/<host>") of a run directory, which is made if need be and asked for; -1 with errno
   set. Of the run directory *st is filled in, if it is given and there. */
int lp_publish_open(const char *run_dir, const char *below, bool make, struct stat *st);
/* Writes <worker>.json in the folder; 0, or -1 with errno set. */
int lp_publish(int folder, const char *worker, enum lp_publisher publisher, const struct lp_view *view,
               const struct lp_stamp *written, enum lp_document_owner owner);
/* Removes what a publisher that was killed has left half written. */
void lp_publish_clean(int folder, const char *worker, enum lp_publisher publisher);
/* Whether the worker has a file in the folder. */
bool lp_publish_is_there(int folder, const char *worker);

/* Writes all of bytes, restarting when interrupted; 0, or -1 with errno set. The context of an emitter's put is a pointer
   to the descriptor. */
int lp_write_all(void *fd, const char *bytes, size_t len);

#endif
