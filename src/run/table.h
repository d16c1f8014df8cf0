/*
 * table: a hash table from (owner, name) to a thing.
 *
 * Finds the child of a phase, the counter of a phase, an attempt, a worker by name: always in constant time, so that
 * ten thousand siblings cost no more each than ten. One table serves a whole tree, the owner telling its parts apart.
 * Nothing may depend on the order inside it, and nothing does: it cannot be iterated.
 *
 * Names and things are borrowed and must outlive the table.
 */
#ifndef LP_RUN_TABLE_H
#define LP_RUN_TABLE_H

#include "run/text.h"

struct lp_run_table {
    struct lp_run_table_entry *entries; /* Owned. */
    size_t capacity;                    /* A power of two, or 0. */
    size_t n_entries;
};

void lp_run_table_release(struct lp_run_table *table);

/* The thing of that owner and name, or NULL. */
void *lp_run_table_find(const struct lp_run_table *table, const void *owner, struct lp_span name);

/* Adds a thing that lp_run_table_find does not find. 0, or -1 without memory. */
int lp_run_table_add(struct lp_run_table *table, const void *owner, struct lp_span name, void *thing);

#endif
