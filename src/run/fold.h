/*
 * fold: what one checked document adds to a run - its figures to a tree, its description to a struct lp_run_worker.
 *
 * Figures of open entries are added to those that ended (run.h says how the two are told apart), and what a running
 * worker's own figures disagree about by the entries in flight is evened out: parts never exceed the whole. That is
 * done for each node before it is added, so that the sums do not depend on the order.
 *
 * With thread_names a slot's phases hang under a phase of the thread's name.
 */
#ifndef LP_RUN_FOLD_H
#define LP_RUN_FOLD_H

#include "run/document.h"
#include "run/samples.h"

/* Room that is used again from document to document; zeroed before its first use. */
struct lp_run_fold {
    struct lp_run_node **nodes; /* Owned: the tree's node of each record. */
    size_t room;
    struct lp_run_phase_id *ids; /* Owned: of the document folded last, how samples name its phases. */
    size_t n_ids, ids_room;
    struct lp_run_pace *paces; /* Owned: likewise, what it did in each phase. */
    size_t n_paces, paces_room;
};

void lp_run_fold_release(struct lp_run_fold *fold);

/* Adds the document's figures to the tree. number tells this worker from all others in the tree, from 1. 0, or -1
   without memory: the tree then holds a part of the worker and can only be released. */
int lp_run_fold_figures(struct lp_run_fold *fold, struct lp_run_tree *tree, const struct lp_run_document *document,
                        uint64_t number);

/* Gives the worker of the document folded last what its samples need. 0, or -1 without memory. */
int lp_run_fold_ids(struct lp_run_fold *fold, struct lp_run_worker *worker);

/* Gives it what it did in each phase, the largest of them. 0, or -1 without memory. */
int lp_run_fold_paces(struct lp_run_fold *fold, struct lp_run_worker *worker);

/* A record's figures, open entries included, evened out. */
struct lp_run_figures lp_run_fold_record(const struct lp_run_record *record);

/* Describes the document's process. path is copied. 0, or -1 without memory; *worker is to be released in both cases.
   */
int lp_run_fold_worker(struct lp_run_worker *worker, const struct lp_run_document *document, const char *path,
                       enum lp_run_source source);
void lp_run_worker_release(struct lp_run_worker *worker);

#endif
