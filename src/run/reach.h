/*
 * reach: whether the server of a run directory answers.
 *
 * Asked by a process of its own, that nobody waits for: a thread in a request to a FUSE server cannot be killed, and its
 * process could not end before that server comes back.
 */
#ifndef LP_RUN_REACH_H
#define LP_RUN_REACH_H

#include "worker/place.h"

enum lp_reach {
    LP_REACH_FOUND,
    LP_REACH_MISSING, /* No such directory, or it is out of reach for this user. */
    LP_REACH_FAILED,  /* Its file system does. place: the path alone. */
    LP_REACH_LATE     /* No answer for LP_PATIENCE_S. place: the path alone. */
};

/* Where a process cannot be had, this one asks, and may wait for ever. */
enum lp_reach lp_run_reach(struct lp_run_place *place, const char *run_dir);

#endif
