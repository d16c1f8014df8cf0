/*
 * line: one line of plain UTF-8 put together piece by piece, out of names that may be anything.
 *
 * Whatever would not print as itself - control characters, line separators, lone surrogates, bytes that are no UTF-8 -
 * becomes U+FFFD, so that a line stays one line. A failure to get memory is kept and shows when the line is taken.
 */
#ifndef LP_RUN_LINE_H
#define LP_RUN_LINE_H

#include "run/text.h"

/* Zeroed before its first use. */
struct lp_run_line {
    char *bytes; /* Owned; not terminated. */
    size_t len, room;
    bool failed;
};

void lp_run_line_add(struct lp_run_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lp_run_line_text(struct lp_run_line *line, struct lp_span text);
/* Likewise, head and tail of what takes more than about LP_RUN_LINE_NAME columns: names may be as long as a page. */
void lp_run_line_name(struct lp_run_line *line, struct lp_span name);
#define LP_RUN_LINE_NAME 48
/* "5-7", or "5" where that is all. */
void lp_run_line_range(struct lp_run_line *line, int64_t first, int64_t last);
/* As people say it: 156.8us, 9.4ms, 3.2s, 2m 05s, 2h 31m. */
void lp_run_line_duration(struct lp_run_line *line, uint64_t ns);

/* The finished line, to be freed by the caller, or NULL without memory; *line is empty again. */
char *lp_run_line_take(struct lp_run_line *line);

#endif
