/*
 * report/compare: the comparison of two runs written down, as text (compare_text.c) or JSON (compare_json.c,
 * docs/compare.md).
 *
 * Owns and must not know what report.h says of the report of one run.
 */
#ifndef LP_REPORT_COMPARE_H
#define LP_REPORT_COMPARE_H

#include "analysis/compare.h"
#include "report/report.h"

/* Both return 0 or the sink's error. options may be NULL. */
int lp_report_compare_text(const struct lp_compare *compare, const struct lp_report_options *options,
                           struct lp_report_sink *sink);
int lp_report_compare_json(const struct lp_compare *compare, const struct lp_report_options *options,
                           struct lp_report_sink *sink);
/* Each phase over the gate as a line of its own. */
int lp_report_compare_over(const struct lp_compare *compare, struct lp_report_sink *sink);

#endif
