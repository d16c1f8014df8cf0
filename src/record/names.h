/*
 * record/names: one process-wide table of the names of phases and counters.
 *
 * A name is interned once and is then a small integer for the life of the process, across forks and recorders. Text is
 * kept as WTF-8 (UTF-8 in which lone surrogates may stand), so that every Python string comes back unchanged; bytes
 * that are neither are taken as Python takes undecodable bytes: each as the surrogate U+DC80..U+DCFF.
 *
 * A phase is entered by a phase id: the number of its name, and in the upper half that of its sampling stride.
 *
 * At most LP_NAMES_LIMIT names are kept: names built from data must not grow a process for ever.
 */
#ifndef LP_RECORD_NAMES_H
#define LP_RECORD_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LP_NAMES_LIMIT 65536u
#define LP_NAME_NONE 0u /* never a name */

typedef uint32_t lp_name_id;
typedef uint32_t lp_phase_id;

#define LP_NAME_MASK 0xffffu
#define LP_STRIDES_LIMIT 256u

struct lp_name_text {
    const char *bytes; /* Borrowed for ever; NUL-terminated too. */
    size_t len;
};

/* The id of a text; LP_NAME_NONE if it takes more than LP_NAME_LIMIT bytes as it is kept, the table is full or memory is
   short. Thread-safe; takes a lock. */
lp_name_id lp_name_intern(const char *bytes, size_t len);
/* The same, but LP_NAME_NONE for a text that nobody has interned. */
lp_name_id lp_name_find(const char *bytes, size_t len);
struct lp_name_text lp_name_text(lp_name_id id);
/* How many bytes a text takes as it is kept. */
size_t lp_name_kept_bytes(const char *bytes, size_t len);
bool lp_names_are_full(void);

/* What makes a name the id of a phase of which one entry in `stride` is measured, to be or-ed with it; 0 for 1. Where
   there are LP_STRIDES_LIMIT strides already, it is 0 for a new one: every entry is measured then. Takes a lock. */
lp_phase_id lp_stride_bits(uint32_t stride);
/* The same for the fraction of entries to measure, over 0 and at most 1: the stride is round(1 / fraction), halves to even. */
lp_phase_id lp_fraction_bits(double fraction);
/* The stride of a phase id, 1 for every entry; 0: there is no such phase. */
uint32_t lp_phase_stride(lp_phase_id phase);

/* Around fork: hold the table, so that the child does not inherit it locked or half changed. */
void lp_names_before_fork(void);
void lp_names_make_lock_anew(void); /* where no handler held it */
void lp_names_after_fork(void);

#endif
