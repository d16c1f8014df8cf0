/* report/text_usage.h: what the blocks about I/O, memory and devices share. */
#ifndef LP_REPORT_TEXT_USAGE_H
#define LP_REPORT_TEXT_USAGE_H

#include "analysis/usage.h"
#include "report/format.h"
#include "report/text.h"

/* The path of a phase as samples name it, "(no phase open)" or "(phase not known)", in at most `columns`. */
void lp_report_text_sampled(struct lp_report_page *page, const struct lp_run_sampled *sampled, size_t columns);

/* A blank line, the title in bold and the words behind it. */
void lp_report_text_title(struct lp_report_page *page, const char *title, const char *words);

#endif
