/*
 * attempts: the shelf on which the workers of a directory are put, each attempt's apart.
 *
 * Owns: attempts, their roles' trees and their workers, and which of them is reported: the one that was asked for, or the
 * newest, whose first worker began last, whatever the wall clock was set to meanwhile. That is not known before the last file, and a directory may hold thousands of attempts (each worker its
 * own, where the run id was not handed on), so only the newest few keep their figures; an attempt that was dropped and
 * turns out to be the newest after all has to be gathered again, which is the caller's part.
 *
 * Where there is a filter, of the other workers only that they were there is kept.
 *
 * Costs: memory for LP_RUN_ATTEMPTS_KEPT attempts, and about 200 bytes for each further one.
 */
#ifndef LP_RUN_ATTEMPTS_H
#define LP_RUN_ATTEMPTS_H

#include "run/boots.h"
#include "run/extent.h"
#include "run/filter.h"
#include "run/fold.h"
#include "run/ranks.h"

#define LP_RUN_ATTEMPTS_KEPT 4

struct lp_run_role_tree {
    struct lp_text name; /* Owned. */
    struct lp_run_tree tree;
};

struct lp_run_attempt {
    struct lp_text run_id;                      /* Owned. */
    uint64_t first_started_ns, last_written_ns; /* Realtime. */
    struct lp_run_stamp first;                  /* Start of its first worker, */
    size_t first_boot;                          /* in that boot; */
    uint64_t began_ns;                          /* and by the time of run/boots.h, once attempts are put in order. */
    struct lp_run_extent extent;                /* Of all its workers, */
    size_t extent_boot;                         /* the first of which was of that boot. */
    size_t n_workers;                           /* Counted also once dropped; with those that the filter left out. */
    uint64_t own_id_until_ns; /* Realtime: when the last one wrote whom nobody gave the run id; 0: there is none. */
    struct lp_text job;       /* Owned: "slurm job 77" if all are of one; bytes is NULL: not so. */
    bool chosen;              /* It was asked for. */
    bool dropped;             /* What follows is gone, or was never taken. */
    struct lp_run_role_tree **roles; /* Owned. */
    size_t n_roles, roles_room;
    struct lp_run_worker *workers; /* Owned. */
    size_t workers_kept, workers_room;
    struct lp_run_known known; /* Of all its workers, where there is a filter. */
    struct lp_run_ranks ranks; /* Likewise, always. */
};

struct lp_run_attempts {
    struct lp_run_attempt **attempts; /* Owned. */
    size_t n_attempts, room;
    struct lp_run_attempt *kept[LP_RUN_ATTEMPTS_KEPT + 1]; /* Borrowed: those not dropped. */
    size_t n_kept;
    struct lp_run_boots boots;
    struct lp_run_table table; /* Attempts by id, roles by attempt and name. */
    struct lp_run_fold fold;
    uint64_t n_folded;
    const struct lp_run_filter *filter; /* Borrowed; NULL: all workers are read. */
    const char *run_id;                 /* Borrowed; NULL: the newest is reported. As a name of the filter. */
};

/* *attempts must be zeroed before its first use; release leaves it so. */
void lp_run_attempts_release(struct lp_run_attempts *attempts);

/* Adds a worker to its attempt. 0, or -1 without memory: then there is only release. */
int lp_run_attempts_add(struct lp_run_attempts *attempts, const struct lp_run_document *document, const char *path,
                        enum lp_run_source source);

/* The attempt that is reported, perhaps a dropped one; NULL if there is none. */
struct lp_run_attempt *lp_run_attempts_chosen(const struct lp_run_attempts *attempts);

/* Sorts them, newest first. */
void lp_run_attempts_sort(const struct lp_run_attempts *attempts);

#endif
