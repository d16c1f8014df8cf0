/*
 * worker/children: how the profiled children of this process ended.
 *
 * A process that is killed cannot say so, and what waits for it is the program, not we. So a pidfd is held of each child
 * that has an image of its own; by that the kernel (Linux 6.15 on) tells how the child ended, also after the program has
 * waited for it. What is told is noted in the child's image, for whoever adopts it. On older kernels an end is known only
 * to who adopts before the program has waited.
 *
 * At most 64 children are watched, none where descriptors are scarce. One table for the process: a child is nobody's
 * worker's. Never waits for a child, and takes no signal.
 */
#ifndef LP_WORKER_CHILDREN_H
#define LP_WORKER_CHILDREN_H

#include <stdbool.h>

/* Whether this process has children, and an image came or went, so that there may be some to look for. Costs two system
   calls. */
bool lp_children_may_be_new(void);
/* Looks for children whose images are new. */
void lp_children_look(void);
/* Notes the ends of those that have ended. */
void lp_children_note(void);
/* Lets go of all of them. */
void lp_children_forget(void);
/* In a forked child: they are its parent's. Async-signal-safe. */
void lp_children_after_fork(void);

#endif
