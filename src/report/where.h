/*
 * report/where.h: what a live run is doing now, for a person (text) or a program (JSON, docs/where.schema.json).
 *
 * The text is for somebody who looks at a run that hangs: stacks that are alike - same role, thread, phases and state -
 * are one entry, however many workers they are in, and what has been quiet longest stands first. Given the height of a
 * terminal it keeps to that, so that the first lines do not scroll away; what is left out is counted.
 */
#ifndef LP_REPORT_WHERE_H
#define LP_REPORT_WHERE_H

#include <stdbool.h>
#include <stddef.h>

#include "report/sink.h"
#include "run/where.h"

struct lp_report_where_options {
    size_t width; /* as that of a report */
    size_t rows;  /* lines that the text may take; 0: as many as it needs */
    bool colour;
};

/* Both return 0 or the sink's error. */
int lp_report_where_text(const struct lp_where *where, const struct lp_report_where_options *options,
                         struct lp_report_sink *sink);
int lp_report_where_json(const struct lp_where *where, const struct lp_report_where_options *options,
                         struct lp_report_sink *sink);

#endif
