/* K1: what run this is, and whether all of it is here. */
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "report/label.h"
#include "report/text.h"
#include "run/text.h"

#define GAP 3
#define NAMES_SHOWN 12 /* Of roles and of hosts; the rest is counted. */
#define NAME_COLUMNS 24
#define COMMIT_DIGITS 8
#define BRANCH_COLUMNS 40

/* "Title " and room for what follows, on this line or the next. */
static void item(struct lp_report_page *page, const char *title, size_t columns)
{
    if (page->column > 0)
        lp_report_page_to(page, page->column + GAP);
    lp_report_page_room(page, strlen(title) + 1 + columns, 0);
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_text(page, title);
    lp_report_page_style(page, LP_STYLE_PLAIN);
    lp_report_page_to(page, page->column + 1);
}

static void runtime(struct lp_report_page *page, const struct lp_run *run)
{
    struct lp_report_cell cell = lp_report_duration((double)run->runtime_ns);
    item(page, "Runtime", strlen(cell.text));
    lp_report_page_text(page, cell.text);
    if (run->live)
        lp_report_page_text(page, " so far, still running");
}

/* Why more than half of the processes are not in the figures; NULL if they are. */
static const char *most_missing(const struct lp_analysis *analysis)
{
    if (analysis->most_lost)
        return "MOST ARE LOST";
    size_t read = analysis->run->n_workers + analysis->run->filtered.n_left_out;
    return analysis->n_lost + analysis->n_not_joined > read ? "MOST DID NOT JOIN" : NULL;
}

/* "12 unreadable", after what separates it; nothing for none. */
static void missing(struct lp_report_page *page, const char **separator, size_t n, const char *what)
{
    if (n == 0)
        return;
    lp_report_page_text(page, *separator);
    lp_report_page_text(page, lp_report_count(n).text);
    lp_report_page_text(page, what);
    *separator = ", ";
}

/* K11: the processes whose figures these are, of how many that ran. */
static void processes(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    size_t found = analysis->run->n_workers, left_out = analysis->run->filtered.n_left_out;
    size_t all = found + left_out + analysis->n_lost + analysis->n_not_joined;
    const char *most = most_missing(analysis), *separator = ": ";
    item(page, "Processes", 2 * sizeof "1,000 of");
    lp_report_page_text(page, lp_report_count(found).text);
    if (all == found)
        return;
    lp_report_page_style(page, most ? LP_STYLE_BOLD : LP_STYLE_PLAIN);
    lp_report_page_text(page, " of ");
    lp_report_page_text(page, lp_report_count(all).text);
    if (most) {
        lp_report_page_text(page, ": ");
        lp_report_page_text(page, most);
        separator = ", ";
    }
    missing(page, &separator, left_out, " left out by the filter");
    missing(page, &separator, analysis->n_lost, " unreadable");
    missing(page, &separator, analysis->n_not_joined, " under other run ids");
    lp_report_page_style(page, LP_STYLE_PLAIN);
}

/* One name of a list: never parted from its comma, nor broken over lines. */
static void name(struct lp_report_page *page, const struct lp_text *text, const char *count, bool first, size_t indent)
{
    size_t columns = lp_report_columns(text->bytes, text->len);
    if (columns > NAME_COLUMNS)
        columns = NAME_COLUMNS;
    if (!first) {
        lp_report_page_text(page, ",");
        lp_report_page_to(page, page->column + 1);
        lp_report_page_room(page, columns + strlen(count) + 1, indent);
    }
    lp_report_page_name(page, text->bytes, text->len, columns);
    if (text->len == 0)
        lp_report_page_text(page, "(no name)");
    lp_report_page_text(page, count);
}

static void and_more(struct lp_report_page *page, size_t n, size_t indent)
{
    if (n == 0)
        return;
    lp_report_page_text(page, ",");
    lp_report_page_to(page, page->column + 1);
    lp_report_page_room(page, sizeof "and 10,000 more", indent);
    lp_report_page_text(page, "and ");
    lp_report_page_text(page, lp_report_text_plural(n, "more", "more").text);
}

/* A list of roles that does not fit behind the processes begins a line of its own. */
static size_t columns_of_roles(const struct lp_run *run, size_t n)
{
    size_t columns = 0;
    for (size_t i = 0; i < n; i++)
        columns += lp_report_columns(run->roles[i].name.bytes, run->roles[i].name.len) + sizeof " x1, ";
    return columns;
}

static void roles(struct lp_report_page *page, const struct lp_run *run)
{
    size_t n = run->n_roles < NAMES_SHOWN ? run->n_roles : NAMES_SHOWN;
    item(page, "Roles", columns_of_roles(run, n));
    size_t indent = sizeof "Roles " - 1;
    for (size_t i = 0; i < n; i++) {
        char times[sizeof " x" + sizeof(struct lp_report_cell)];
        snprintf(times, sizeof times, " x%s", lp_report_count(run->roles[i].n_workers).text);
        name(page, &run->roles[i].name, times, i == 0, indent);
    }
    and_more(page, run->n_roles - n, indent);
    lp_report_page_end(page);
}

static void hosts(struct lp_report_page *page, const struct lp_run *run)
{
    size_t n = run->n_hosts < NAMES_SHOWN ? run->n_hosts : NAMES_SHOWN;
    item(page, "Hosts", 0);
    size_t indent = sizeof "Hosts " - 1;
    for (size_t i = 0; i < n; i++)
        name(page, &run->hosts[i], "", i == 0, indent);
    and_more(page, run->n_hosts - n, indent);
    lp_report_page_text(page, " (");
    lp_report_page_text(page, lp_report_text_plural(lp_run_count_machines(run), "node", "nodes").text);
    lp_report_page_text(page, ")");
}

static bool is_of_job(const struct lp_run_worker *worker, const struct lp_run_worker *other)
{
    return other->job_system && strcmp(worker->job_system, other->job_system) == 0 &&
           lp_text_equal(lp_text_span(&worker->job_id), lp_text_span(&other->job_id));
}

/* "slurm 77, 78, pbs 9.head": a system is named where it is another than before. */
static void show_jobs(struct lp_report_page *page, const struct lp_run_worker *const *named, size_t n)
{
    size_t columns = 0;
    for (size_t i = 0; i < n; i++)
        columns += strlen(named[i]->job_system) + lp_report_columns(named[i]->job_id.bytes, named[i]->job_id.len) + 3;
    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && strcmp(named[i]->job_system, named[i - 1]->job_system) == 0;
        if (i == 0)
            item(page, n > 1 ? "Jobs" : "Job", columns);
        if (i > 0 && !same) {
            lp_report_page_text(page, ",");
            lp_report_page_to(page, page->column + 1);
        }
        if (!same) {
            lp_report_page_text(page, named[i]->job_system);
            lp_report_page_to(page, page->column + 1);
        }
        name(page, &named[i]->job_id, "", !same, sizeof "Jobs " - 1);
    }
}

/* F2: "Job slurm 77": nothing if there is none. Of several the first few are named. */
static void jobs(struct lp_report_page *page, const struct lp_run *run)
{
    const struct lp_run_worker *named[NAMES_SHOWN];
    size_t n = 0;
    for (size_t i = 0; i < run->n_workers && n < NAMES_SHOWN; i++) {
        const struct lp_run_worker *worker = &run->workers[i];
        bool is_new = worker->job_system != NULL;
        for (size_t j = 0; j < n && is_new; j++)
            is_new = !is_of_job(worker, named[j]);
        if (is_new)
            named[n++] = worker;
    }
    show_jobs(page, named, n);
}

/* "Commit 1a2b3c4d (main, changed)": nothing if it is not known. */
static void commit(struct lp_report_page *page, const struct lp_run_provenance *provenance)
{
    if (!provenance->commit.bytes)
        return;
    lp_report_page_end(page);
    item(page, "Commit", COMMIT_DIGITS + NAME_COLUMNS);
    size_t digits = provenance->commit.len < COMMIT_DIGITS ? provenance->commit.len : COMMIT_DIGITS;
    lp_report_page_label(page, provenance->commit.bytes, digits, digits);
    lp_report_page_text(page, " (");
    if (provenance->branch.bytes) {
        lp_report_page_name(page, provenance->branch.bytes, provenance->branch.len, BRANCH_COLUMNS);
        lp_report_page_text(page, ", ");
    }
    lp_report_page_text(page, !provenance->dirty_known ? "changed or not: n/a"
                              : provenance->dirty      ? "changed"
                                                       : "unchanged");
    lp_report_page_text(page, ")");
}

/* "role actor, learner" */
static void chosen(struct lp_report_page *page, const char **separator, const char *what, const char *const *values,
                   size_t n)
{
    const size_t indent = sizeof "Filter " - 1;
    for (size_t i = 0; i < n; i++) {
        size_t columns = lp_report_columns(values[i], strlen(values[i]));
        columns = columns > NAME_COLUMNS ? NAME_COLUMNS : columns;
        lp_report_page_text(page, i == 0 ? *separator : ", ");
        lp_report_page_room(page, columns + strlen(what) + 2, indent);
        if (i == 0) {
            lp_report_page_text(page, what);
            lp_report_page_to(page, page->column + 1);
        }
        lp_report_page_name(page, values[i], strlen(values[i]), columns);
        *separator = "; ";
    }
}

/* "Filter role actor; rank 0-7 (8 of 64 processes)": nothing without one. */
static void filter(struct lp_report_page *page, const struct lp_run *run)
{
    const struct lp_run_filter *by = &run->filtered.by;
    const char *separator = "";
    if (!lp_run_is_filtered(run))
        return;
    lp_report_page_end(page);
    item(page, "Filter", NAME_COLUMNS);
    chosen(page, &separator, "role", by->roles, by->n_roles);
    chosen(page, &separator, "host", by->hosts, by->n_hosts);
    chosen(page, &separator, "rank", by->ranks, by->n_ranks);
    lp_report_page_text(page, " (");
    lp_report_page_text(page, lp_report_count(run->n_workers).text);
    lp_report_page_text(page, " of ");
    size_t all = run->n_workers + run->filtered.n_left_out;
    lp_report_page_text(page, lp_report_text_plural(all, "process", "processes").text);
    lp_report_page_text(page, ")");
}

void lp_report_text_header(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    const struct lp_run *run = analysis->run;
    runtime(page, run);
    processes(page, analysis);
    roles(page, run);
    hosts(page, run);
    item(page, "Run", lp_report_columns(run->run_id.bytes, run->run_id.len));
    lp_report_page_name(page, run->run_id.bytes, run->run_id.len, page->width - 4);
    filter(page, run);
    jobs(page, run);
    commit(page, &run->provenance);
    lp_report_page_end(page);
}
