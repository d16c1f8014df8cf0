/* K9: what heavy profilers wrote, or why there is nothing. */
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "report/label.h"
#include "report/text.h"

#define SHOWN 20
#define WHO_COLUMNS 32
#define WINDOW_COLUMN 34
#define INDENT 4

static void words(struct lp_report_page *page, const char *text)
{
    lp_report_page_words(page, text, strlen(text), INDENT);
}

static void text_words(struct lp_report_page *page, const struct lp_text *text)
{
    lp_report_page_words(page, text->bytes, text->len, INDENT);
}

static bool same_text(const struct lp_text *a, const struct lp_text *b)
{
    if (!a->bytes || !b->bytes)
        return !a->bytes && !b->bytes;
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* Whether two are one line: they differ in the worker only, and there is nothing to be found of either. */
static bool alike(const struct lp_run_backend *a, const struct lp_run_backend *b)
{
    return a->state == LP_BACKEND_NONE && b->state == LP_BACKEND_NONE && a->start == b->start && a->end == b->end &&
           same_text(&a->role, &b->role) && same_text(&a->backend, &b->backend) &&
           same_text(&a->window_phase, &b->window_phase) && same_text(&a->reason, &b->reason);
}

static void who(struct lp_report_page *page, const struct lp_run *run, const struct lp_run_backend *item, size_t n)
{
    const struct lp_run_worker *worker = item->worker_index == SIZE_MAX ? NULL : &run->workers[item->worker_index];
    const struct lp_text *role = worker ? &worker->role : &item->role;
    char behind[64 + sizeof(struct lp_report_cell)] = "";
    if (n > 1)
        snprintf(behind, sizeof behind, " x%s", lp_report_count(n).text);
    else if (worker)
        snprintf(behind, sizeof behind, " pid %s", lp_report_number(worker->pid).text);
    if (role->bytes)
        lp_report_page_name(page, role->bytes, role->len, WHO_COLUMNS - strlen(behind));
    lp_report_page_text(page, role->len || !*behind ? behind : behind + 1);
    if (n == 1 && !worker)
        lp_report_page_label(page, item->worker.bytes, item->worker.len, WHO_COLUMNS);
    if (n == 1 && worker && run->n_hosts > 1 && page->column + 6 < WHO_COLUMNS) {
        lp_report_page_text(page, " on ");
        lp_report_page_name(page, worker->host.bytes, worker->host.len, WHO_COLUMNS - page->column);
    }
}

/* The entries that the window spans; of one that was closed early, those that it has seen. */
static void window(struct lp_report_page *page, const struct lp_run_backend *item)
{
    if (!item->backend.bytes)
        return;
    uint64_t last = item->end - 1;
    if ((item->state == LP_BACKEND_WRITTEN || item->state == LP_BACKEND_MISSING) && item->entries < last)
        last = item->entries;
    lp_report_page_to(page, lp_report_text_at(page, WINDOW_COLUMN));
    lp_report_page_label(page, item->backend.bytes, item->backend.len, 12);
    if (last > item->start) {
        lp_report_page_text(page, ", entries ");
        lp_report_page_text(page, lp_report_count(item->start).text);
        lp_report_page_text(page, "-");
    } else {
        lp_report_page_text(page, ", entry ");
    }
    lp_report_page_text(page, lp_report_count(last).text);
    lp_report_page_text(page, " of ");
    lp_report_page_label(page, item->window_phase.bytes, item->window_phase.len, 24);
}

static const char *outcome(const struct lp_run_backend *item)
{
    switch (item->state) {
    case LP_BACKEND_OPEN:
        return item->cut_off ? "lost" : "open";
    case LP_BACKEND_NONE:
        return "none";
    case LP_BACKEND_MISSING:
        return "gone";
    case LP_BACKEND_UNREADABLE:
        return "unreadable";
    case LP_BACKEND_WRITTEN:
    case LP_BACKEND_UNNOTED:
        break;
    }
    return NULL;
}

static void explain(struct lp_report_page *page, const struct lp_run_backend *item)
{
    if (item->path)
        words(page, item->path);
    if (item->state == LP_BACKEND_OPEN)
        words(page, item->cut_off ? "its process ended inside the window: nothing was written" : "not written yet");
    if (item->state == LP_BACKEND_MISSING)
        words(page, " was written, but is not there any more");
    if (item->state == LP_BACKEND_UNNOTED)
        words(page, " (its worker left no note of it)");
    if (item->reason.bytes) {
        words(page, item->path ? ": " : "");
        text_words(page, &item->reason);
    }
    if (item->errors && item->state != LP_BACKEND_NONE) {
        words(page, "; ");
        words(page, lp_report_text_plural(item->errors, "error", "errors").text);
        words(page, ", the last: ");
        text_words(page, &item->error);
    }
}

static void line(struct lp_report_page *page, const struct lp_run *run, const struct lp_run_backend *item, size_t n)
{
    const char *word = outcome(item);
    who(page, run, item, n);
    window(page, item);
    lp_report_page_right(page, word ? word : lp_report_size((double)item->bytes).text, page->width);
    lp_report_page_end(page);
    lp_report_page_to(page, INDENT);
    explain(page, item);
    lp_report_page_end(page);
}

/* What bears on the figures above, with a phase of this run as the example. */
static void note(struct lp_report_page *page, const struct lp_run *run)
{
    const struct lp_run_backend *open = NULL;
    for (size_t i = 0; i < run->n_backends && !open; i++)
        if (run->backends[i].state <= LP_BACKEND_WRITTEN || run->backends[i].state == LP_BACKEND_MISSING)
            open = &run->backends[i];
    if (!open)
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "entries inside a window are slowed down by its tool, and kept apart as ");
    lp_report_page_label(page, open->window_phase.bytes, open->window_phase.len, 24);
    lp_report_page_to(page, page->column + 1);
    lp_report_page_room(page, 14, 2);
    lp_report_page_text(page, "[");
    lp_report_page_label(page, open->backend.bytes, open->backend.len, 12);
    lp_report_text_note(page, "]; starting and writing is lineprofiler/backend");
    lp_report_text_note_end(page);
}

void lp_report_text_backends(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    const struct lp_run *run = analysis->run;
    if (run->n_backends == 0)
        return;
    lp_report_page_end(page);
    lp_report_page_line(page, LP_STYLE_BOLD, "BACKEND ARTIFACTS");
    lp_report_page_rule(page);
    size_t i = 0;
    for (size_t shown = 0; i < run->n_backends && shown < SHOWN; shown++) {
        size_t n = 1;
        while (i + n < run->n_backends && alike(&run->backends[i], &run->backends[i + n]))
            n++;
        line(page, run, &run->backends[i], n);
        i += n;
    }
    if (i < run->n_backends) {
        lp_report_page_to(page, INDENT);
        lp_report_page_text(page, lp_report_text_plural(run->n_backends - i, "more", "more").text);
        lp_report_page_text(page, ": see backend/ in the run directory, or --json");
        lp_report_page_end(page);
    }
    note(page, run);
}
