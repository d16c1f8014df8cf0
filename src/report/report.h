/*
 * report: figures written down for a reader - a person (text) or a program (JSON).
 *
 * Owns: layout, number and label formatting (format.h, label.h, page.h), the JSON document
 * (docs/report-json.md). Each format implements one function over const figures and a sink
 * (sink.h); a new section of the text report is one file text_<section>.c and one line in text.c.
 *
 * The output is UTF-8 in every locale and the same on every machine for the same run, width and
 * colour. Neither time zone nor locale of the process is looked at, nothing is printed but to the
 * sink.
 *
 * Must not know: where the data came from, terminals, files, exit codes; it computes no figure.
 */
#ifndef LP_REPORT_REPORT_H
#define LP_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "analysis/analysis.h"
#include "report/sink.h"

#define LP_REPORT_WIDTH 80 /* Where no terminal says otherwise. */
#define LP_REPORT_WIDTH_MIN 72
#define LP_REPORT_WIDTH_MAX 100

struct lp_report_options {
    size_t width; /* Columns of the text report, brought into the limits above; 0: LP_REPORT_WIDTH. */
    bool colour;  /* Bold headings, dim notes. Says nothing that the text does not say. */
};

struct lp_report_format {
    const char *name;
    /* Returns 0 or the sink's error. */
    int (*write)(const struct lp_analysis *analysis, const struct lp_report_options *options,
                 struct lp_report_sink *sink);
};

extern const struct lp_report_format lp_report_text;
extern const struct lp_report_format lp_report_json;

/* By name; NULL if there is none. */
const struct lp_report_format *lp_report_format_find(const char *name);

#endif
