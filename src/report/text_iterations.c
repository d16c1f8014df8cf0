/* K4: how long one round of the role's loop takes. */
#include <stdio.h>

#include "report/format.h"
#include "report/text.h"

static void figure(struct lp_report_page *page, const char *name, double ns)
{
    lp_report_page_text(page, name);
    lp_report_page_right(page, lp_report_duration(ns).text, page->column + 11);
    lp_report_page_to(page, page->column + 3);
}

void lp_report_text_iterations(struct lp_report_page *page, const struct lp_analysis *analysis,
                               const struct lp_analysis_role *role)
{
    (void)analysis;
    if (role->repeating == LP_ANALYSIS_NONE)
        return;
    const struct lp_analysis_phase *phase = &role->phases[role->repeating];
    lp_report_page_end(page);
    lp_report_page_style(page, LP_STYLE_BOLD);
    lp_report_page_text(page, "ITERATIONS");
    lp_report_page_style(page, LP_STYLE_PLAIN);
    lp_report_page_text(page, phase->phase->estimated ? "  (~" : "  (");
    lp_report_page_text(page, lp_report_text_plural(phase->phase->calls, "entry", "entries").text);
    lp_report_page_text(page, ")  ");
    lp_report_text_path(page, role, role->repeating, page->width - page->column);
    lp_report_page_end(page);
    lp_report_page_to(page, 2);
    figure(page, "mean", phase->mean_ns);
    figure(page, "p50", phase->p50_ns);
    figure(page, "p95", phase->p95_ns);
    figure(page, "p99", phase->p99_ns);
    lp_report_page_end(page);
}
