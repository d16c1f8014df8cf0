/*
 * report/rows: rows of samples as text for other programs: CSV (quoted as RFC 4180 has it, lines ending in a newline) or a JSON object a line.
 *
 * Each row has who took it (worker, role, host, rank, pid), the deepest phase that was open, the time in seconds since the
 * epoch, and the fields of the file by their names. What was not measured is an empty field, and null. Names are escaped
 * as docs/format.md says of text.
 *
 * Must not know: files.
 */
#ifndef LP_REPORT_ROWS_H
#define LP_REPORT_ROWS_H

#include "base/emit.h"
#include "report/sink.h"
#include "run/samples_each.h"

struct lp_report_rows {
    struct lp_report_sink *sink; /* Borrowed. */
    enum lp_ring_kind kind;
    bool json;
    struct lp_buffer line;             /* Owned. */
    struct lp_buffer who;              /* Owned: the beginning of each row of one worker. */
    const struct lp_run_worker *whose; /* Borrowed; NULL: nobody's yet. */
    uint64_t n;                        /* Rows written. */
};

void lp_report_rows_init(struct lp_report_rows *rows, struct lp_report_sink *sink, enum lp_ring_kind kind, bool json);
void lp_report_rows_release(struct lp_report_rows *rows);
/* The line of CSV with the names of the columns; nothing for JSON. */
void lp_report_rows_head(struct lp_report_rows *rows);
/* 0, or the sink's error. */
int lp_report_rows_put(struct lp_report_rows *rows, const struct lp_run_sample *sample);

#endif
