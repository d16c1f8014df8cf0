/* report/json_resources: the resources of the JSON report. Private to report/json.c. */
#ifndef LP_REPORT_JSON_RESOURCES_H
#define LP_REPORT_JSON_RESOURCES_H

#include "analysis/analysis.h"
#include "base/emit.h"

void lp_report_json_resources(struct lp_emit *emit, const struct lp_analysis *analysis);

#endif
