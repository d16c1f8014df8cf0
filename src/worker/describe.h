/*
 * worker/describe: the run's provenance (docs/format.md), added to its entry in metadata.json by the worker that made the
 * entry.
 *
 * It is gathered on a thread of its own, since file systems and git may take long, which the keeper starts and joins: it
 * has all signals blocked, and ends within milliseconds when the keeper is asked to stop, as for a fork, to be begun anew by
 * the next keeper. At a close it gets a little time to end; then what is known without git is written. One that hangs on a
 * file server is left to itself: nobody waits for it longer than a moment, and it touches nothing of the worker's.
 *
 * Must not know: how a repository is read.
 */
#ifndef LP_WORKER_DESCRIBE_H
#define LP_WORKER_DESCRIBE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/io.h"

struct lp_worker;

enum lp_describing { LP_DESCRIBE_NOT, LP_DESCRIBE_WANTED, LP_DESCRIBE_RUNS, LP_DESCRIBE_DONE };

/* Shared by the worker and the thread, which may outlive it where a file server does not answer. */
struct lp_description {
    _Atomic int holders;
    /* Owned; NULL: none. Fixed at opening, the first two until the first phase. */
    char *source_folder;
    char *packages; /* pairs of a name and a version, each ended by NUL; a version that is empty is not known */
    size_t packages_len;
    char *working_folder, *path, *home, *config_home, *library_path;
    char *run_dir, *run_id, *worker;
    bool never_ask; /* git: it is a process, and nothing is started in what may be a rank of MPI */

    _Atomic int state; /* enum lp_describing */
    _Atomic uint64_t until_ns;
    _Atomic bool last;  /* what is known by then is written */
    unsigned tries;     /* the keeper's, until the thread begins */
    struct lp_io moved; /* by the thread; valid once it has ended */
    bool moved_is_known;
};

/* The worker's side. */
struct lp_describer {
    struct lp_description *description; /* Held; NULL: there is no memory for one. */
    pthread_t thread;                   /* the keeper's own, as running */
    bool running;                       /* not joined yet */
};

/* At opening: takes down what may change later. */
void lp_describe_init(struct lp_worker *worker);
void lp_describe_release(struct lp_describer *describer);
/* This worker has made the run's entry. */
void lp_describe_want(struct lp_worker *worker);
/* In a forked child: the parent sees to it, unless it has laid the worker aside. */
void lp_describe_after_fork(struct lp_worker *worker);

/* On the keeper: at its start and at each tick; before it ends, for good or to be followed by another. */
void lp_describe_go_on(struct lp_worker *worker);
bool lp_describe_runs(const struct lp_worker *worker);
void lp_describe_stop(struct lp_worker *worker, bool closing);
/* With the last file, if it was never done: what is known without git. */
void lp_describe_at_last(struct lp_worker *worker);

#endif
