/*
 * record/table: a growing hash table from a non-zero 64-bit key to a 32-bit value; private to record/.
 * One user at a time.
 */
#ifndef LP_RECORD_TABLE_H
#define LP_RECORD_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/* All zeroes is an empty table. */
struct lp_table {
    uint64_t *keys; /* Owned; 0 is a free place. */
    uint32_t *values;
    uint32_t size, used; /* size: 0 or a power of two */
};

/* The value of a key, 0 if it is not there. */
uint32_t lp_table_get(const struct lp_table *table, uint64_t key);
/* Makes sure that the next lp_table_put succeeds; false if memory is short. */
bool lp_table_reserve(struct lp_table *table);
/* Adds a key that is not there; false if memory is short. */
bool lp_table_put(struct lp_table *table, uint64_t key, uint32_t value);
/* Adds a key or replaces its value; false if memory is short. */
bool lp_table_set(struct lp_table *table, uint64_t key, uint32_t value);
/* Empties the table but keeps its memory. */
void lp_table_reset(struct lp_table *table);
void lp_table_release(struct lp_table *table);

#endif
