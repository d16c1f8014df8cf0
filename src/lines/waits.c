#include "lines/waits.h"

#include <stdlib.h>

void lp_lines_waits_free(struct lp_lines_waits *waits)
{
    free(waits->slots);
    *waits = (struct lp_lines_waits){0};
}

static size_t place_of(const struct lp_lines_waits *waits, const void *frame)
{
    uint64_t hash = (uint64_t)(uintptr_t)frame * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 32) & (waits->size - 1);
}

/* Where the frame is, or the empty slot that it would get. */
static struct lp_lines_wait *slot_of(const struct lp_lines_waits *waits, const void *frame)
{
    size_t i = place_of(waits, frame);
    while (waits->slots[i].code && waits->slots[i].frame != frame)
        i = (i + 1) & (waits->size - 1);
    return &waits->slots[i];
}

static int grow(struct lp_lines_waits *waits)
{
    struct lp_lines_waits larger = {.n = waits->n, .size = waits->size ? 2 * waits->size : 16};
    larger.slots = calloc(larger.size, sizeof *larger.slots);
    if (!larger.slots)
        return -1;
    for (size_t i = 0; i < waits->size; i++)
        if (waits->slots[i].code)
            *slot_of(&larger, waits->slots[i].frame) = waits->slots[i];
    free(waits->slots);
    *waits = larger;
    return 0;
}

/* Empties a slot, and moves what is behind it up: a search ends at an empty one. */
static void take_out(struct lp_lines_waits *waits, struct lp_lines_wait *slot)
{
    size_t hole = (size_t)(slot - waits->slots);
    waits->n--;
    for (size_t i = (hole + 1) & (waits->size - 1); waits->slots[i].code; i = (i + 1) & (waits->size - 1)) {
        size_t home = place_of(waits, waits->slots[i].frame);
        if (((i - home) & (waits->size - 1)) < ((i - hole) & (waits->size - 1)))
            continue;
        waits->slots[hole] = waits->slots[i];
        hole = i;
    }
    waits->slots[hole] = (struct lp_lines_wait){0};
}

static void bill(const struct lp_lines_wait *wait, int64_t now_ns)
{
    wait->line->awaited_ns += now_ns - wait->since_ns;
}

int lp_lines_waits_begin(struct lp_lines_waits *waits, const void *frame, const void *code, struct lp_line *line,
                         int64_t now_ns)
{
    lp_lines_waits_end(waits, frame, NULL, now_ns);
    if (2 * (waits->n + 1) > waits->size && grow(waits) < 0)
        return -1;
    *slot_of(waits, frame) = (struct lp_lines_wait){frame, code, line, now_ns};
    waits->n++;
    if (++line->suspended > line->most_suspended)
        line->most_suspended = line->suspended;
    return 0;
}

void lp_lines_waits_end(struct lp_lines_waits *waits, const void *frame, const void *code, int64_t now_ns)
{
    if (waits->n == 0)
        return;
    struct lp_lines_wait *slot = slot_of(waits, frame);
    if (!slot->code)
        return;
    slot->line->suspended--;
    if (slot->code == code) /* else it ended without a word, nobody knows when */
        bill(slot, now_ns);
    take_out(waits, slot);
}

void lp_lines_waits_settle(struct lp_lines_waits *waits, int64_t now_ns)
{
    for (size_t i = 0; i < waits->size; i++) {
        if (!waits->slots[i].code)
            continue;
        bill(&waits->slots[i], now_ns);
        waits->slots[i].since_ns = now_ns;
    }
}

void lp_lines_waits_forget(struct lp_lines_waits *waits, const void *code)
{
    for (size_t i = 0; i < waits->size;) {
        if (waits->slots[i].code == code && code)
            take_out(waits, &waits->slots[i]); /* another may be here now */
        else
            i++;
    }
}
