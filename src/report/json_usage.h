/* report/json_usage.h: the part of the JSON report about what a run used besides time. */
#ifndef LP_REPORT_JSON_USAGE_H
#define LP_REPORT_JSON_USAGE_H

#include "analysis/analysis.h"
#include "report/json_value.h"

/* Keys of the document: io, gpus, vram. */
void lp_report_json_usage(struct lp_emit *emit, const struct lp_analysis *analysis);
/* Keys of a role: io_phases, memory, sampled. */
void lp_report_json_role_usage(struct lp_emit *emit, const struct lp_analysis *analysis, size_t role);
/* Key of a worker: samples. */
void lp_report_json_worker_usage(struct lp_emit *emit, const struct lp_run_worker *worker);

#endif
