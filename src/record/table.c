#include "record/table.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 32u

static uint32_t place_of(const struct lp_table *table, uint64_t key)
{
    uint64_t mixed = (key ^ (key >> 32)) * 0x9e3779b97f4a7c15u;
    uint32_t place = (uint32_t)(mixed >> 32) & (table->size - 1);
    while (table->keys[place] != 0 && table->keys[place] != key)
        place = (place + 1) & (table->size - 1);
    return place;
}

uint32_t lp_table_get(const struct lp_table *table, uint64_t key)
{
    if (table->size == 0)
        return 0;
    uint32_t place = place_of(table, key);
    return table->keys[place] == key ? table->values[place] : 0;
}

static void store(struct lp_table *table, uint64_t key, uint32_t value)
{
    uint32_t place = place_of(table, key);
    table->keys[place] = key;
    table->values[place] = value;
    table->used++;
}

static bool widen(struct lp_table *table)
{
    struct lp_table wider = {.size = table->size ? table->size * 2 : FIRST_SIZE};
    wider.keys = calloc(wider.size, sizeof *wider.keys);
    wider.values = calloc(wider.size, sizeof *wider.values);
    if (!wider.keys || !wider.values) {
        lp_table_release(&wider);
        return false;
    }
    for (uint32_t i = 0; i < table->size; i++)
        if (table->keys[i])
            store(&wider, table->keys[i], table->values[i]);
    struct lp_table narrower = *table;
    *table = wider;
    lp_table_release(&narrower);
    return true;
}

bool lp_table_reserve(struct lp_table *table)
{
    return table->used * 2 < table->size || widen(table);
}

bool lp_table_put(struct lp_table *table, uint64_t key, uint32_t value)
{
    if (!lp_table_reserve(table))
        return false;
    store(table, key, value);
    return true;
}

bool lp_table_set(struct lp_table *table, uint64_t key, uint32_t value)
{
    if (lp_table_get(table, key) == 0)
        return lp_table_put(table, key, value);
    table->values[place_of(table, key)] = value;
    return true;
}

void lp_table_reset(struct lp_table *table)
{
    if (table->keys)
        memset(table->keys, 0, table->size * sizeof *table->keys);
    table->used = 0;
}

void lp_table_release(struct lp_table *table)
{
    free(table->keys);
    free(table->values);
    *table = (struct lp_table){0};
}
