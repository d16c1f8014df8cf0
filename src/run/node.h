/*
 * node: a phase while its tree is being filled. Private to tree.c (which fills), seal.c (which turns it into its
 * public form and frees it) and reading.c (which fills what tree.h has no word for).
 */
#ifndef LP_RUN_NODE_H
#define LP_RUN_NODE_H

#include "run/spread.h"
#include "run/tree.h"

/* A counter being summed. */
struct lp_run_tally_node {
    struct lp_text name;            /* Owned until sealed. */
    struct lp_run_tally_node *next; /* Owned. */
    uint64_t positive, negative;    /* Sums of the positive and of the negative amounts, both without sign. */
    uint64_t calls;
    int64_t min, max;
    bool saturated;
};

/* The public phase comes first, so that a phase is its node. */
struct lp_run_node {
    struct lp_run_phase phase;         /* stride_min is 0 as long as nothing was added. */
    struct lp_run_node *first_child;   /* Owned, also once sealed: phase.children borrows. */
    struct lp_run_node *next_sibling;  /* Owned by the parent. */
    struct lp_run_tally_node *tallies; /* Owned; NULL once sealed. */
    uint64_t last_worker;              /* The worker counted last in phase.workers. */
    bool cpu_seen;
    struct lp_run_share share; /* Of last_worker; not yet in phase.spread. */
    size_t pace;               /* Where fold.c has what the worker did here, if that is of this node. */
};

static inline struct lp_run_node *lp_run_node_of(struct lp_run_phase *phase)
{
    return (struct lp_run_node *)phase;
}

/* seal.c */
void lp_run_device_time_free(struct lp_run_device_time *time);

#endif
