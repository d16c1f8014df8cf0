/*
 * worker/ancestor: live profilers in the processes that this one descends from (E1).
 *
 * A child whose environment was scrubbed, or whose forkserver began before the run, has nothing but its parents to tell
 * it of the run. They are walked up in /proc, and the images that lie on this machine are looked through for one of
 * theirs: only files whose names hold a parent's pid are opened, and an image counts if boot, pid namespace, pid and
 * start time are those of the parent, so that a reused pid is not taken for it. A parent in another pid namespace cannot
 * be seen and is none.
 *
 * Costs: where this user has no images, one failing open(); else a directory listing, about 10 us for each parent and 30
 * for each image of theirs. Reads with pread, never maps. Must not know: the environment.
 */
#ifndef LP_WORKER_ANCESTOR_H
#define LP_WORKER_ANCESTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LP_ANCESTOR_RUN_ID_BYTES 128

struct lp_ancestor {
    uint64_t pid;
    uint64_t opened_boottime_ns; /* when its profiler was opened */
    char worker[256];            /* w_<run>_<pid>_<uuid8> */
    char run_dir[PATH_MAX];      /* absolute */
    char run_id[LP_ANCESTOR_RUN_ID_BYTES + 1];
};

/* Finds the open profiler of the nearest ancestor that has one; the one opened last, if it has several. run_dir: only
   those that write to this directory; NULL: any. False if there is none; never waits, never fails otherwise. */
bool lp_ancestor_find(struct lp_ancestor *found, const char *run_dir);

/* Whether the image of a worker of this name (len bytes) lies here: its profiler is not closed. */
bool lp_ancestor_has_image(const char *worker, size_t len);

/* When this process began, by CLOCK_BOOTTIME, to 10 ms and never too early; UINT64_MAX if it cannot be told. */
uint64_t lp_process_began_ns(void);

#endif
