/*
 * text: names as recorded, and the escapes that carry them through JSON.
 *
 * Owns: struct lp_span (a borrowed text), copying and ordering of texts, and the two directions of the escape that
 * docs/format.md calls *text*: a backslash doubled, NUL as \x00, a lone surrogate as \udcff. In memory a name is UTF-8
 * in which surrogates may stand as three-byte sequences of their own and NUL may occur; that is what Python's
 * 'surrogatepass' reads and writes, so every str comes back unchanged, two surrogates in a row included.
 *
 * Decoding is strict: an escape that no writer makes is refused, since guessing would give two names one meaning.
 *
 * Must not know: JSON, files.
 */
#ifndef LP_RUN_TEXT_H
#define LP_RUN_TEXT_H

#include "run/run.h"

/* A text that somebody else holds. Not NUL-terminated. */
struct lp_span {
    const char *bytes; /* Borrowed. NULL: there is none (null in the file). */
    size_t len;
};

static inline struct lp_span lp_text_span(const struct lp_text *text)
{
    return (struct lp_span){text->bytes, text->len};
}

/* Copies a view, with a NUL after it; a view of NULL gives a text of NULL. 0, or -1 without memory. */
int lp_text_copy(struct lp_text *text, struct lp_span from);
void lp_text_release(struct lp_text *text);

/* Bytewise, a prefix before what it begins. */
int lp_text_compare(struct lp_span a, struct lp_span b);
bool lp_text_equal(struct lp_span a, struct lp_span b);

/* Undoes the escapes of from. to has room for from.len bytes. Returns the length, or -1 for an escape that is none. */
ptrdiff_t lp_text_decode(char *to, struct lp_span from);

#define LP_TEXT_ENCODED_MAX 6 /* Bytes that one byte can become. */

/* Escapes from, for a JSON string whose own escapes are still to be made; the result is valid UTF-8. A byte that is no
   UTF-8 becomes the surrogate that Python's 'surrogateescape' makes of it. to has room for from.len times
   LP_TEXT_ENCODED_MAX. Returns the length. */
size_t lp_text_encode(char *to, struct lp_span from);

/* Length of the sequence that from begins with, in the UTF-8 described above; 0 if it begins with none (or is empty).
   */
size_t lp_text_sequence(struct lp_span from);

#endif
