/* K8: resident memory, for each role: how much, whether it grows, and where. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/text_usage.h"

#define NAME_COLUMNS 28
#define CURRENT_END 40
#define PEAK_END 51
#define GROWTH_END 62
#define TREND_END 76

static size_t at(const struct lp_report_page *page, size_t column)
{
    return lp_report_text_at(page, column);
}

/* "+1.1 GB" */
static struct lp_report_cell change(double bytes, const char *unit)
{
    struct lp_report_cell size = lp_report_size(bytes), cell;
    snprintf(cell.text, sizeof cell.text, "%s%.40s%s", bytes > 0 ? "+" : "", size.text, isnan(bytes) ? "" : unit);
    return cell;
}

static void figures(struct lp_report_page *page, double current, double peak, double growth, double trend)
{
    lp_report_page_right(page, lp_report_size(current).text, at(page, CURRENT_END));
    lp_report_page_right(page, lp_report_size(peak).text, at(page, PEAK_END));
    lp_report_page_right(page, change(growth, "").text, at(page, GROWTH_END));
    lp_report_page_right(page, change(trend, "/h").text, at(page, TREND_END));
    lp_report_page_end(page);
}

static void role_row(struct lp_report_page *page, const struct lp_run_role *role,
                     const struct lp_analysis_memory *memory)
{
    char processes[sizeof " (1,000,000 processes)" + sizeof(struct lp_report_cell)] = "";
    if (role->n_workers > 1)
        snprintf(processes, sizeof processes, " (%s)",
                 lp_report_text_plural(memory->n_workers, "process", "processes").text);
    size_t taken = strlen(processes), columns = at(page, NAME_COLUMNS);
    lp_report_page_name(page, role->name.bytes, role->name.len, columns > taken + 4 ? columns - taken : 4);
    if (role->name.len == 0)
        lp_report_page_text(page, "(no name)");
    lp_report_page_text(page, processes);
    figures(page, memory->current_bytes, memory->peak_bytes, memory->growth_bytes, memory->trend_per_h);
}

static void worker_row(struct lp_report_page *page, const struct lp_run *run, size_t index)
{
    const struct lp_run_worker *worker = &run->workers[index];
    const struct lp_run_level *rss = &worker->samples->rss_bytes;
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_to(page, 2);
    lp_report_page_text(page, lp_report_process(worker->rank, worker->index, worker->pid).text);
    if (run->n_hosts > 1) {
        lp_report_page_text(page, " on ");
        lp_report_page_name(page, worker->host.bytes, worker->host.len, 10);
    }
    figures(page, (double)rss->last, lp_analysis_peak_rss(worker), (double)rss->last - (double)rss->first,
            lp_run_trend_slope(&worker->samples->rss_trend) * 3600);
}

static void growers(struct lp_report_page *page, const struct lp_run_role *role,
                    const struct lp_analysis_memory *memory)
{
    if (memory->n_grows == 0)
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "grows under ");
    for (size_t i = 0; i < memory->n_grows; i++) {
        const struct lp_run_sampled *sampled = &role->sampled[memory->grows[i]];
        if (i > 0) {
            lp_report_page_text(page, ",");
            lp_report_page_to(page, page->column + 1);
        }
        lp_report_page_room(page, PEAK_END - NAME_COLUMNS, 2);
        lp_report_text_sampled(page, sampled, NAME_COLUMNS);
        lp_report_text_note(page, " ");
        lp_report_text_note_figure(page, change((double)sampled->rss_growth_bytes, "").text);
    }
    lp_report_text_note_end(page);
}

static void pss(struct lp_report_page *page, const struct lp_analysis_memory *memory)
{
    if (memory->n_workers < 2 || isnan(memory->pss_bytes))
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "shared pages counted once: ");
    lp_report_text_note_figure(page, lp_report_size(memory->pss_bytes).text);
    lp_report_text_note(page, " (sum of proportional sets)");
    lp_report_text_note_end(page);
}

static void role_block(struct lp_report_page *page, const struct lp_run *run, const struct lp_run_role *role,
                       const struct lp_analysis_memory *memory)
{
    role_row(page, role, memory);
    for (size_t i = 0; memory->n_workers > 1 && i < memory->n_largest; i++)
        worker_row(page, run, memory->largest[i]);
    if (memory->n_workers > memory->n_largest) {
        lp_report_text_note_begin(page);
        lp_report_text_note(page, "and ");
        lp_report_text_note(
            page,
            lp_report_text_plural(memory->n_workers - memory->n_largest, "smaller process", "smaller processes").text);
        lp_report_text_note_end(page);
    }
    pss(page, memory);
    growers(page, role, memory);
}

static void notes(struct lp_report_page *page, bool several, bool no_trend, bool grows)
{
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "resident memory; current: each process's last sample; growth: since its first");
    if (several)
        lp_report_text_note(page, "; sums over processes count pages that they share in each, and peaks of different "
                                  "moments");
    if (grows)
        lp_report_text_note(page, "; grows under: the deepest phase open when an interval between samples began");
    if (no_trend)
        lp_report_text_note(page, "; trend n/a: under a minute of samples");
    lp_report_text_note_end(page);
}

void lp_report_text_memory(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    bool any = false, several = false, no_trend = false, grows = false;
    for (size_t i = 0; i < analysis->n_roles; i++) {
        const struct lp_analysis_memory *memory = &analysis->usage->roles[i].memory;
        any |= memory->n_workers > 0;
        several |= memory->n_workers > 1;
        grows |= memory->n_workers > 0 && memory->n_grows > 0;
        no_trend |= memory->n_workers > 0 && isnan(memory->trend_per_h);
    }
    if (!any)
        return;
    lp_report_text_title(page, "MEMORY", "");
    lp_report_page_right(page, "current", at(page, CURRENT_END));
    lp_report_page_right(page, "peak", at(page, PEAK_END));
    lp_report_page_right(page, "growth", at(page, GROWTH_END));
    lp_report_page_right(page, "trend", at(page, TREND_END));
    lp_report_page_end(page);
    lp_report_page_rule(page);
    for (size_t i = 0; i < analysis->n_roles; i++)
        if (analysis->usage->roles[i].memory.n_workers > 0)
            role_block(page, analysis->run, analysis->roles[i].role, &analysis->usage->roles[i].memory);
    notes(page, several, no_trend, grows);
}
