/*
 * lines/waits: the coroutines that wait in a line at this moment.
 *
 * Must not know: Python.
 */
#ifndef LP_LINES_WAITS_H
#define LP_LINES_WAITS_H

#include "lines/table.h"

#include <stddef.h>

struct lp_lines_wait {
    const void *frame, *code; /* code NULL: none. */
    struct lp_line *line;     /* Borrowed. */
    int64_t since_ns;
};

struct lp_lines_waits {
    struct lp_lines_wait *slots; /* Owned; open addressing. */
    size_t n, size;              /* size: 0, or a power of two. */
};

void lp_lines_waits_free(struct lp_lines_waits *waits);
/* A coroutine begins to wait. -1 without memory: then nothing is told of it. */
int lp_lines_waits_begin(struct lp_lines_waits *waits, const void *frame, const void *code, struct lp_line *line,
                         int64_t now_ns);
/* It goes on, or something else runs where it was. */
void lp_lines_waits_end(struct lp_lines_waits *waits, const void *frame, const void *code, int64_t now_ns);
/* All that wait are billed up to now, and go on to wait. */
void lp_lines_waits_settle(struct lp_lines_waits *waits, int64_t now_ns);
void lp_lines_waits_forget(struct lp_lines_waits *waits, const void *code);

#endif
