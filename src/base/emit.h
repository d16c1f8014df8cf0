/*
 * base/emit: writes JSON through a fixed buffer, with nothing but a write function behind it.
 *
 * No malloc, no lock, no stdio, no locale: safe in a signal handler and in a forked child of a threaded process. The
 * caller keeps the grammar: lp_emit_key and the value functions put commas where they belong, by remembering only
 * whether something stands before them on this level.
 */
#ifndef LP_BASE_EMIT_H
#define LP_BASE_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LP_EMIT_BUFFER 8192

struct lp_emit {
    /* Takes all len bytes or returns -1 (errno); called again after that never. */
    int (*put)(void *context, const char *bytes, size_t len);
    void *context; /* Borrowed. */
    int error;     /* errno of the first failure, else 0; later output is dropped */
    bool comma;    /* something stands before the next element on this level */
    size_t used;
    char buffer[LP_EMIT_BUFFER];
};

void lp_emit_init(struct lp_emit *emit, int (*put)(void *, const char *, size_t), void *context);
/* Empties the buffer; returns 0, or -1 with errno set if anything failed since lp_emit_init. */
int lp_emit_end(struct lp_emit *emit);

void lp_emit_raw(struct lp_emit *emit, const char *bytes, size_t len);
void lp_emit_open(struct lp_emit *emit, char bracket);  /* '{' or '[' */
void lp_emit_close(struct lp_emit *emit, char bracket); /* '}' or ']' */
void lp_emit_newline(struct lp_emit *emit);             /* before the next element, for human eyes */

/* key is plain ASCII without anything to escape. */
void lp_emit_key(struct lp_emit *emit, const char *key);
/* A key and its value; null for a text that is NULL or empty, and for a number that is 0. */
void lp_emit_string_or_null(struct lp_emit *emit, const char *key, const char *text);
void lp_emit_u64_or_null(struct lp_emit *emit, const char *key, uint64_t value);
/* A key that is text. */
void lp_emit_text_key(struct lp_emit *emit, const char *text, size_t len);

void lp_emit_u64(struct lp_emit *emit, uint64_t value);
void lp_emit_i64(struct lp_emit *emit, int64_t value);
void lp_emit_bool(struct lp_emit *emit, bool value);
void lp_emit_null(struct lp_emit *emit);
/* Seconds with up to nine decimals, from whole nanoseconds. */
void lp_emit_seconds(struct lp_emit *emit, uint64_t ns);
/* WTF-8 of any content, escaped as docs/format.md says ("Text"). Malformed bytes become U+FFFD. */
void lp_emit_text(struct lp_emit *emit, const char *text, size_t len);
void lp_emit_string(struct lp_emit *emit, const char *text); /* the same, NUL-terminated */
/* A string built piece by piece from characters that need no escaping. */
void lp_emit_string_begin(struct lp_emit *emit);
void lp_emit_string_end(struct lp_emit *emit);
void lp_emit_digits(struct lp_emit *emit, uint64_t value);

/* A growing block of memory to emit into (this one does allocate). All zeroes is empty; the caller frees bytes, which
   are followed by a NUL. */
struct lp_buffer {
    char *bytes;
    size_t len, room;
};
int lp_buffer_put(void *buffer, const char *bytes, size_t len);

#endif
