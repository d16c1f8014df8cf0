/*
 * record/names: one process-wide table of the names of phases and counters.
 *
 * A name is interned once and is then a small integer for the life of the process, across forks and recorders. Text is
 * kept as WTF-8 (UTF-8 in which lone surrogates may stand), so that every Python string comes back unchanged; bytes
 * that are neither are taken as Python takes undecodable bytes: each as the surrogate U+DC80..U+DCFF.
 *
 * At most LP_NAMES_LIMIT names are kept: names built from data must not grow a process for ever.
 */
#ifndef LP_RECORD_NAMES_H
#define LP_RECORD_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define LP_NAMES_LIMIT 65536u
#define LP_NAME_NONE 0u /* never a name */

typedef uint32_t lp_name_id;

struct lp_name_text {
    const char *bytes; /* Borrowed for ever; NUL-terminated too. */
    size_t len;
};

/* The id of a text; LP_NAME_NONE if it takes more than LP_NAME_LIMIT bytes as it is kept, the table is full or memory is
   short. Thread-safe; takes a lock. */
lp_name_id lp_name_intern(const char *bytes, size_t len);
struct lp_name_text lp_name_text(lp_name_id id);

/* Around fork: hold the table, so that the child does not inherit it locked or half changed. */
void lp_names_before_fork(void);
void lp_names_make_lock_anew(void); /* where no handler held it */
void lp_names_after_fork(void);

#endif
