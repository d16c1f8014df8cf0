/*
 * report/json_value: a key and a value of the JSON report, in one call, over base/emit.
 *
 * Adds what a worker file never needs: reals, and null for what does not exist (NaN, a NULL string). Text is escaped as
 * everywhere (docs/format.md, "Text"); bytes that are no UTF-8, as a path may hold, become U+FFFD. A key is NULL for an
 * element of an array.
 *
 * Must not know: what the document says.
 */
#ifndef LP_REPORT_JSON_VALUE_H
#define LP_REPORT_JSON_VALUE_H

#include "base/emit.h"
#include "run/run.h"

void lp_report_json_object(struct lp_emit *emit, const char *key);
void lp_report_json_array(struct lp_emit *emit, const char *key);
void lp_report_json_null(struct lp_emit *emit, const char *key);
void lp_report_json_bool(struct lp_emit *emit, const char *key, bool value);
void lp_report_json_count(struct lp_emit *emit, const char *key, uint64_t value);
void lp_report_json_signed(struct lp_emit *emit, const char *key, int64_t value);
/* As many digits as bring the same double back. */
void lp_report_json_real(struct lp_emit *emit, const char *key, double value);
void lp_report_json_text(struct lp_emit *emit, const char *key, const struct lp_text *text);
void lp_report_json_string(struct lp_emit *emit, const char *key, const char *text);

#endif
