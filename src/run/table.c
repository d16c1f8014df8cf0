#include "run/table.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64

struct lp_run_table_entry {
    uint64_t hash;
    const void *owner;   /* Borrowed. */
    struct lp_span name; /* Borrowed. */
    void *thing;         /* Borrowed; NULL: the entry is free. */
};

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 32);
}

static uint64_t hash_of(const void *owner, struct lp_span name)
{
    uint64_t hash = mix(name.len, (uint64_t)(uintptr_t)owner);
    uint64_t word;
    for (; name.len >= sizeof word; name.bytes += sizeof word, name.len -= sizeof word) {
        memcpy(&word, name.bytes, sizeof word);
        hash = mix(hash, word);
    }
    word = 0;
    if (name.len)
        memcpy(&word, name.bytes, name.len);
    return mix(hash, word);
}

/* The entry of that key, or the free one where it belongs. The table is never full. */
static struct lp_run_table_entry *place_of(const struct lp_run_table *table, uint64_t hash, const void *owner,
                                           struct lp_span name)
{
    size_t at = hash & (table->capacity - 1);
    for (;; at = (at + 1) & (table->capacity - 1)) {
        struct lp_run_table_entry *entry = &table->entries[at];
        if (!entry->thing)
            return entry;
        if (entry->hash == hash && entry->owner == owner && lp_text_equal(entry->name, name))
            return entry;
    }
}

static int grow(struct lp_run_table *table)
{
    struct lp_run_table larger = {.capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY};
    larger.entries = calloc(larger.capacity, sizeof *larger.entries);
    if (!larger.entries)
        return -1;
    for (size_t i = 0; i < table->capacity; i++) {
        const struct lp_run_table_entry *entry = &table->entries[i];
        if (entry->thing)
            *place_of(&larger, entry->hash, entry->owner, entry->name) = *entry;
    }
    larger.n_entries = table->n_entries;
    free(table->entries);
    *table = larger;
    return 0;
}

void lp_run_table_release(struct lp_run_table *table)
{
    free(table->entries);
    *table = (struct lp_run_table){0};
}

void *lp_run_table_find(const struct lp_run_table *table, const void *owner, struct lp_span name)
{
    if (!table->capacity)
        return NULL;
    return place_of(table, hash_of(owner, name), owner, name)->thing;
}

int lp_run_table_add(struct lp_run_table *table, const void *owner, struct lp_span name, void *thing)
{
    if ((table->n_entries + 1) * 4 > table->capacity * 3 && grow(table) < 0)
        return -1;
    uint64_t hash = hash_of(owner, name);
    *place_of(table, hash, owner, name) = (struct lp_run_table_entry){hash, owner, name, thing};
    table->n_entries++;
    return 0;
}
