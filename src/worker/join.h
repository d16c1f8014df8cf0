/*
 * worker/join: which run a process belongs to - what the program says, then the environment, then its ancestors.
 *
 * An open profiler shows its run to child processes by LINEPROFILER_PROFILE, LINEPROFILER_RUN_DIR and
 * LINEPROFILER_RUN_ID, and where it can, signs them: LINEPROFILER_EXPORTED says by which worker they were set, and to
 * what. A variable that is not there is filled in from the nearest ancestor with an open profiler.
 *
 * Variables may be stale. A forkserver keeps the environment of the moment when it began, and its children get that one:
 * one run later it names a run that is over. So signed variables give way to an ancestor's open profiler if all of this
 * holds: they still say what was signed; the profiler that signed is not open any more; the ancestor is the process that
 * it was in; and this process began after that profiler was opened (a slow child of the first run stays in the first
 * run). Variables that somebody set by hand carry no signature, or that of another value, and always stand.
 *
 * Must not know: how an image is found.
 */
#ifndef LP_WORKER_JOIN_H
#define LP_WORKER_JOIN_H

#include "worker/ancestor.h"

struct lp_join {
    const char
        *run_dir; /* as given, or of the environment, or of an ancestor; NULL: nobody says. Borrowed from there. */
    const char *run_id; /* likewise */
    bool run_id_given;
    bool in_run; /* an ancestor's open profiler was found, and what it says is used */
    struct lp_ancestor ancestor;
};

/* given ones may be NULL or empty. The environment must not change while the result is in use. */
void lp_join_choose(struct lp_join *join, const char *run_dir, const char *run_id);

#endif
