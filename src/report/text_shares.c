/* K2: a role, and where its time went at the first level that branches. */
#include <stdlib.h>
#include <string.h>

#include "report/format.h"
#include "report/text.h"

#define NAME_COLUMNS 30
#define SHARE_END 36
#define DURATION_END 49
#define BAR_BEGIN 52
#define BAR_COLUMNS 26
#define UNEVEN 1.05 /* From this imbalance on, the process with most time is named. */

/* Upper case tells headings from names; where that would change a name beyond recognition, it stays. */
static bool is_ascii(const struct lp_text *text)
{
    for (size_t i = 0; i < text->len; i++)
        if ((unsigned char)text->bytes[i] >= 0x80)
            return false;
    return true;
}

static bool same_in_capitals(const struct lp_text *a, const struct lp_text *b)
{
    return a != b && a->len == b->len && strncasecmp(a->bytes, b->bytes, a->len) == 0;
}

static void role_name(struct lp_report_page *page, const struct lp_run *run, const struct lp_text *name)
{
    bool capitals = is_ascii(name);
    for (size_t i = 0; i < run->n_roles && capitals; i++)
        capitals = !same_in_capitals(name, &run->roles[i].name);
    if (name->len == 0)
        lp_report_page_text(page, "(no name)");
    size_t columns = page->width - 40;
    if (!capitals) {
        lp_report_page_name(page, name->bytes, name->len, columns);
        return;
    }
    char *upper = malloc(name->len + 1);
    for (size_t i = 0; upper != NULL && i < name->len; i++) {
        bool small = name->bytes[i] >= 'a' && name->bytes[i] <= 'z';
        upper[i] = (char)(name->bytes[i] - (small ? 'a' - 'A' : 0));
    }
    lp_report_page_name(page, upper != NULL ? upper : name->bytes, name->len, columns);
    free(upper);
}

static void heading(struct lp_report_page *page, const struct lp_run *run, const struct lp_run_role *role)
{
    lp_report_page_style(page, LP_STYLE_BOLD);
    role_name(page, run, &role->name);
    lp_report_page_style(page, LP_STYLE_PLAIN);
    lp_report_page_text(page, "  (");
    lp_report_page_text(page, lp_report_text_plural(role->n_workers, "process", "processes").text);
    lp_report_page_text(page, ", imbalance ");
    lp_report_page_text(page, lp_report_ratio(role->imbalance).text);
    lp_report_page_text(page, ")");
    lp_report_page_end(page);
    lp_report_page_rule(page);
}

/* Eighths of a cell, so that a small share can still be seen. */
static void bar(struct lp_report_page *page, double share)
{
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    if (!(share > 0))
        return;
    double eighths = (share < 1 ? share : 1) * BAR_COLUMNS * 8;
    size_t n = eighths < 1 ? 1 : (size_t)(eighths + 0.5);
    lp_report_page_to(page, lp_report_text_at(page, BAR_BEGIN));
    lp_report_page_style(page, LP_STYLE_DIM);
    for (size_t i = 0; i < n / 8; i++)
        lp_report_page_text(page, "█");
    lp_report_page_text(page, parts[n % 8]);
}

static void figures(struct lp_report_page *page, double share, uint64_t wall_ns)
{
    lp_report_page_right(page, lp_report_share(share).text, lp_report_text_at(page, SHARE_END));
    lp_report_page_right(page, lp_report_duration((double)wall_ns).text, lp_report_text_at(page, DURATION_END));
    bar(page, share);
    lp_report_page_end(page);
}

static void share_row(struct lp_report_page *page, const struct lp_analysis_phase *row)
{
    const struct lp_text *name = &row->phase->name;
    size_t columns = lp_report_text_at(page, NAME_COLUMNS);
    if (row->phase->estimated) {
        lp_report_page_text(page, "~");
        columns--;
    }
    lp_report_page_label(page, name->bytes, name->len, columns);
    figures(page, row->share, row->phase->wall_ns);
}

static void other_rows(struct lp_report_page *page, const struct lp_analysis_role *role)
{
    if (role->n_small > 0) {
        lp_report_page_text(page, role->small_estimated ? "~" : "");
        lp_report_page_text(page, lp_report_text_plural(role->n_small, "more phase", "more phases").text);
        figures(page, role->small_share, role->small_ns);
    }
    if (role->other_ns > 0) {
        lp_report_page_text(page, role->other_estimated ? "~Other" : "Other");
        figures(page, role->other_share, role->other_ns);
    }
}

/* The denominator, and which level this is. */
static void note(struct lp_report_page *page, const struct lp_analysis *analysis, const struct lp_analysis_role *role)
{
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "% of ");
    lp_report_text_note(page, lp_report_duration((double)role->wall_ns).text);
    lp_report_text_note(page, " in phases");
    lp_report_text_note_sum(page, analysis, role);
    if (role->level != LP_ANALYSIS_NONE) {
        lp_report_text_note(page, "; phases in ");
        lp_report_text_path(page, role, role->level, page->width / 2);
    }
    lp_report_text_note_end(page);
}

static void busiest(struct lp_report_page *page, const struct lp_analysis *analysis,
                    const struct lp_analysis_role *role)
{
    if (role->role->n_workers < 2 || role->busiest == LP_ANALYSIS_NONE || !(role->role->imbalance >= UNEVEN))
        return;
    const struct lp_run_worker *worker = &analysis->run->workers[role->busiest];
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "imbalance: ");
    lp_report_text_note(page, lp_report_process(worker->rank, worker->index, worker->pid).text);
    lp_report_text_note(page, " on ");
    lp_report_page_name(page, worker->host.bytes, worker->host.len, 24);
    lp_report_text_note(page, " spent ");
    lp_report_text_note(page, lp_report_duration((double)worker->root_wall_ns).text);
    lp_report_text_note(page, " in phases, the mean process ");
    lp_report_text_note(page, lp_report_duration(role->mean_wall_ns).text);
    lp_report_text_note_end(page);
}

void lp_report_text_shares(struct lp_report_page *page, const struct lp_analysis *analysis,
                           const struct lp_analysis_role *role)
{
    lp_report_page_end(page);
    heading(page, analysis->run, role->role);
    if (role->n_phases == 0) {
        lp_report_page_line(page, LP_STYLE_PLAIN, "no phases recorded");
        return;
    }
    for (size_t i = 0; i < role->n_shares; i++)
        share_row(page, &role->phases[role->shares[i]]);
    other_rows(page, role);
    note(page, analysis, role);
    busiest(page, analysis, role);
}
