/* report/json_facts.h: the part of the JSON report without figures: workers, hosts, what is missing. */
#ifndef LP_REPORT_JSON_FACTS_H
#define LP_REPORT_JSON_FACTS_H

#include "report/json_value.h"

/* Keys of the document: workers, hosts, superseded, backends, unreadable, caveats. */
void lp_report_json_facts(struct lp_emit *emit, const struct lp_run *run);
/* The key backends: what heavy profilers left. */
void lp_report_json_backends(struct lp_emit *emit, const struct lp_run *run);

#endif
