/*
 * record/shapes: notices names of phases that are built from data.
 *
 * The shape of a name is the name with each run of digits (0 to 9) as one '#': episode_127 has the shape episode_#. One
 * name says nothing, conv2d is a good one; what gives generated names away is that many share a shape. A recorder admits
 * each name once; after that a name costs one look at a bitmap.
 *
 * Costs: 8 KiB for each recorder, and an interned name for each shape.
 */
#ifndef LP_RECORD_SHAPES_H
#define LP_RECORD_SHAPES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "record/names.h"
#include "record/table.h"

#define LP_SHAPE_MANY 128u

struct lp_shapes {
    _Atomic uint64_t known[LP_NAMES_LIMIT / 64]; /* by name id: admitted */
    struct lp_table counts;                      /* shape -> distinct names that have it */
};

/* What became of a name. */
struct lp_shape_verdict {
    lp_name_id shape; /* LP_NAME_NONE: the name has no digits, or memory is short */
    uint32_t count;   /* distinct names of that shape, this one included */
    bool refused;
};

static inline bool lp_shapes_know(const struct lp_shapes *shapes, lp_name_id name)
{
    return atomic_load_explicit(&shapes->known[name / 64], memory_order_relaxed) >> (name % 64) & 1;
}

/* Writes the shape of a text, which is no longer than the text; returns its length, 0 if the text has no digits. */
size_t lp_shape_write(char *shape, const char *text, size_t text_len);
/* Admits a name that is not known yet. strict: refuses the second one of a shape, each time. One user at a time. */
struct lp_shape_verdict lp_shapes_admit(struct lp_shapes *shapes, lp_name_id name, bool strict);
/* Forgets all names. */
void lp_shapes_reset(struct lp_shapes *shapes);
void lp_shapes_release(struct lp_shapes *shapes);

#endif
