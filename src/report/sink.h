/*
 * report/sink: where the bytes of a report go.
 *
 * A sink is a function and an error that sticks: after the first failed write everything that
 * follows is dropped, so that a renderer writes line after line without a look and its caller asks
 * once, at the end. Two sinks are here: a growing buffer (the Python package hands reports on as
 * text) and a FILE (the command line).
 *
 * Costs: one indirect call per write; renderers write whole lines.
 *
 * Must not know: what is written.
 */
#ifndef LP_REPORT_SINK_H
#define LP_REPORT_SINK_H

#include <stddef.h>
#include <stdio.h>

struct lp_report_sink {
    int (*write)(struct lp_report_sink *sink, const char *bytes, size_t len); /* 0 or -errno. */
    int error; /* The first failure; 0 so far. */
};

void lp_report_write(struct lp_report_sink *sink, const char *bytes, size_t len);
void lp_report_puts(struct lp_report_sink *sink, const char *text);

/* Grows; NUL-terminated once anything was written. Embedded sink first. */
struct lp_report_buffer {
    struct lp_report_sink sink;
    char *bytes; /* Owned; NULL while nothing was written. */
    size_t len, size;
};

void lp_report_buffer_init(struct lp_report_buffer *buffer);
void lp_report_buffer_release(struct lp_report_buffer *buffer);
/* Forgets what was written and keeps the memory. */
void lp_report_buffer_reset(struct lp_report_buffer *buffer);

struct lp_report_file {
    struct lp_report_sink sink;
    FILE *file; /* Borrowed; neither flushed nor closed here. */
};

void lp_report_file_init(struct lp_report_file *file, FILE *stream);

#endif
