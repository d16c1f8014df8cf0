/*
 * tree: the merge tree, in which the phases of many workers become one.
 *
 * Owns: the making of struct lp_run_phase. While a tree is filled, children and counters hang in lists and are found
 * through one hash table; lp_run_tree_seal sorts them into the arrays that run.h shows and drops the rest.
 *
 * Every operation is a sum, a minimum, a maximum or a logical or, each kept wide enough that saturation comes out the
 * same whatever the order: adding is commutative, and merging trees is associative. A counter's positive and negative
 * parts are summed apart for that reason and meet when the tree is sealed.
 *
 * Costs: a node is about 1,100 bytes and 64 for each octave its durations fall in; adding to one is a hash look-up.
 *
 * Functions return 0 or a pointer; -1 or NULL without memory, after which the tree can only be released.
 */
#ifndef LP_RUN_TREE_H
#define LP_RUN_TREE_H

#include "run/table.h"

struct lp_run_node; /* A phase being filled. */

struct lp_run_tree {
    struct lp_run_node *root; /* Owned. */
    struct lp_run_table table;
};

/* What one node of one worker adds, consistent in itself; the meanings are those of struct lp_run_phase. */
struct lp_run_figures {
    uint64_t calls;
    uint64_t wall_ns, cpu_ns, nocpu_wall_ns, child_wall_ns, late_wall_ns;
    uint64_t open_calls, open_wall_ns, ended_wall_ns;
    uint64_t stride; /* At least 1. */
    uint64_t spare_calls;
    uint64_t blocked_ns, preempted_ns;
    bool cpu_seen;                     /* CPU time was asked for. */
    bool blocked_seen, preempted_seen; /* They were measured, of some of the wait. */
    bool is_thread, async_work;
};

struct lp_run_tally {
    struct lp_span name;
    int64_t sum;
    uint64_t calls;
    int64_t min, max;
};

int lp_run_tree_init(struct lp_run_tree *tree);
void lp_run_tree_release(struct lp_run_tree *tree);

/* The child of that name, made if there is none yet. */
struct lp_run_node *lp_run_tree_child(struct lp_run_tree *tree, struct lp_run_node *parent, struct lp_span name);

void lp_run_tree_add(struct lp_run_node *node, const struct lp_run_figures *figures);
int lp_run_tree_add_hist(struct lp_run_node *node, unsigned bucket, uint64_t count);
/* The phase's device time, which is then there, is to be added to; NULL without memory. */
struct lp_run_device_time *lp_run_tree_device_time(struct lp_run_node *node);
int lp_run_tree_count(struct lp_run_tree *tree, struct lp_run_node *node, const struct lp_run_tally *tally);

/* Notes that the worker of that number (from 1, another for each worker) has this path. Before its figures are added:
   what is added to a node between two workers is the first one's. */
void lp_run_tree_note_worker(struct lp_run_node *node, uint64_t number);

/* Adds all of from to tree; no worker may be in both. */
int lp_run_tree_merge(struct lp_run_tree *tree, const struct lp_run_tree *from);

/* Turns the tree into its public form and gives that away; the tree is empty afterwards (and after a failure). */
struct lp_run_phase *lp_run_tree_seal(struct lp_run_tree *tree);
void lp_run_phase_free(struct lp_run_phase *root);

#endif
