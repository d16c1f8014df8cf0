/*
 * report/sink: where the bytes of a report go.
 *
 * A put function, as base/emit.h has them (lp_buffer_put grows a block of memory, lp_report_put_file writes to a FILE),
 * and an error that sticks: after the first failed write everything that follows is dropped, so that a renderer writes
 * line after line without a look and its caller asks once, at the end.
 *
 * Must not know: what is written.
 */
#ifndef LP_REPORT_SINK_H
#define LP_REPORT_SINK_H

#include <stddef.h>

struct lp_report_sink {
    /* Takes all len bytes, or returns -1 with errno set. */
    int (*put)(void *context, const char *bytes, size_t len);
    void *context; /* Borrowed. */
    int error;     /* -errno of the first failure; 0 so far. */
};

void lp_report_sink_init(struct lp_report_sink *sink, int (*put)(void *, const char *, size_t), void *context);
void lp_report_write(struct lp_report_sink *sink, const char *bytes, size_t len);
void lp_report_puts(struct lp_report_sink *sink, const char *text);
/* Keeps the first error. error is 0 or -errno. */
void lp_report_fail(struct lp_report_sink *sink, int error);

/* context is a FILE *, which is neither flushed nor closed. */
int lp_report_put_file(void *context, const char *bytes, size_t len);

#endif
