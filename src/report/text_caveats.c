/* K10: what the reader must know before trusting the rest. */
#include <string.h>

#include "report/text.h"

#define INDENT 4

static void caveat(struct lp_report_page *page, const char *text)
{
    lp_report_page_to(page, INDENT - 2);
    lp_report_page_text(page, "-");
    lp_report_page_to(page, INDENT);
    lp_report_page_words(page, text, strlen(text), INDENT);
    lp_report_page_end(page);
}

void lp_report_text_caveats(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    const struct lp_run *run = analysis->run;
    if (run->n_caveats == 0)
        return;
    lp_report_page_end(page);
    lp_report_page_line(page, LP_STYLE_BOLD, "CAVEATS");
    lp_report_page_rule(page);
    for (size_t i = 0; i < run->n_caveats; i++)
        caveat(page, run->caveats[i].text);
}
