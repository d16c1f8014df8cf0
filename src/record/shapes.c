#include "record/shapes.h"

#include <stdlib.h>

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

size_t lp_shape_write(char *shape, const char *text, size_t text_len)
{
    size_t len = 0;
    bool any = false;
    for (size_t i = 0; i < text_len; i++) {
        bool digit = is_digit(text[i]);
        if (digit && i > 0 && is_digit(text[i - 1]))
            continue;
        shape[len++] = text[i];
        if (digit)
            shape[len - 1] = '#';
        any |= digit;
    }
    return any ? len : 0;
}

static lp_name_id shape_of(lp_name_id name)
{
    struct lp_name_text text = lp_name_text(name);
    char *shape = malloc(text.len + 1);
    size_t len = shape ? lp_shape_write(shape, text.bytes, text.len) : 0;
    lp_name_id id = len ? lp_name_intern(shape, len) : LP_NAME_NONE;
    free(shape);
    return id;
}

struct lp_shape_verdict lp_shapes_admit(struct lp_shapes *shapes, lp_name_id name, bool strict)
{
    struct lp_shape_verdict verdict = {.shape = shape_of(name)};
    if (verdict.shape != LP_NAME_NONE) {
        verdict.count = lp_table_get(&shapes->counts, verdict.shape) + 1;
        verdict.refused = strict && verdict.count > 1;
        if (!verdict.refused && !lp_table_set(&shapes->counts, verdict.shape, verdict.count))
            verdict.count = 0;
    }
    if (!verdict.refused)
        atomic_fetch_or_explicit(&shapes->known[name / 64], UINT64_C(1) << (name % 64), memory_order_relaxed);
    return verdict;
}

void lp_shapes_reset(struct lp_shapes *shapes)
{
    for (size_t i = 0; i < LP_NAMES_LIMIT / 64; i++)
        atomic_store_explicit(&shapes->known[i], 0, memory_order_relaxed);
    lp_table_reset(&shapes->counts);
}

void lp_shapes_release(struct lp_shapes *shapes)
{
    lp_table_release(&shapes->counts);
}
