/*
 * skew: by how much the wall clocks of a run's hosts differ, as far as there is evidence of it.
 *
 * The evidence is what each worker noted when its file was made (docs/format.md, folder_clock): the file server's stamp,
 * between two readings of its host's own clock. That tells one thing only, that clocks differ: where a host stamps files
 * by its own clock, as on a disk of its own, they seem to agree whether they do or not.
 */
#ifndef LP_RUN_SKEW_H
#define LP_RUN_SKEW_H

#include "run/run.h"

/* by_ns 0: nothing is known. */
struct lp_run_skew {
    const struct lp_run_worker *ahead, *behind; /* Borrowed: on the hosts whose clocks are furthest apart. */
    uint64_t by_ns, give_ns;                    /* An estimate, and how far off it may be. */
};

/* Of workers that are sorted by host. */
struct lp_run_skew lp_run_skew(const struct lp_run *run);

#endif
