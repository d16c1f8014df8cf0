/*
 * worker/owner: whether the process lives that an image belongs to, and when it was last seen.
 *
 * Asked twice, since either answer alone can be wrong. The lock of the image is let go of when its process ends, but a
 * daemonising host may close our descriptor, and a child that was cloned without fork handlers may keep it. The process
 * itself - boot, pid namespace, pid and start time - is known to be gone or not, but one that goes on may have become
 * another program (exec), and one in another pid namespace cannot be seen.
 *
 *   of another boot                                      dead
 *   seen, and gone                                       dead, whoever holds the lock
 *   seen, living, lock held                              alive
 *   seen, living, lock free                              alive while it has the image mapped, unless it is closed
 *   not to be seen, lock held                            alive
 *   not to be seen, lock free                            dead once silent for three flush intervals
 */
#ifndef LP_WORKER_OWNER_H
#define LP_WORKER_OWNER_H

#include <stdbool.h>

#include "image/view.h"

/* fd: the image, open. */
bool lp_owner_lives(const struct lp_header *header, int fd);

/* Now, by the owner's clocks. In one time namespace they are ours; in others, which containers may have, they are set off, and
   the clock of day, which all share, has to serve. */
struct lp_stamp lp_owner_now(const struct lp_view *view);
/* For how long the owner has shown no life outside its phases; by another boot's clocks nothing can be said, and all is long
   ago. */
uint64_t lp_owner_silent_ns(const struct lp_header *header);

/* The moment at which the figures of an image stand: now for a living owner; else when it closed, or the latest moment of
   which the image has any trace, by the clocks as the owner last saw them. */
struct lp_stamp lp_owner_seen(const struct lp_view *view, bool lives);

#endif
