/*
 * copies: of several files of one worker, the one that counts.
 *
 * A folder below workers/ may be a copy of another (a backup, a second rsync), made while the run went on: then a worker has
 * a file under the same name in each. The last one written counts: a final one before any other, then by the number of the
 * flush. The others are no loss, and are left out.
 *
 * Must not know: what a file says beyond that.
 */
#ifndef LP_RUN_COPIES_H
#define LP_RUN_COPIES_H

#include "run/scan.h"

struct lp_run_copies {
    size_t n;
    char *first; /* Owned: path of one that was left out; NULL: none was. */
};

/* Takes the copies out of the list. Those of which no file can be read stay in it. 0, or -1 without memory; *copies is to be
   released in both cases. */
int lp_run_copies_leave_out(struct lp_run_copies *copies, struct lp_run_files *files, int dir_fd);
void lp_run_copies_release(struct lp_run_copies *copies);

#endif
