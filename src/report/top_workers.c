/* The workers: what each did in the interval, its memory, and where it is. */
#include "report/top_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "report/label.h"

#define GAP 1
#define NAME_COLUMNS 12 /* Of a host or a role, at most. */
#define MUCH_WAIT 0.5

static const struct lp_top_column all[] = {
    {LP_TOP_BY_PID, "PID", 7, false, 0},       {LP_TOP_BY_RANK, "RANK", 4, false, 5},
    {LP_TOP_BY_INDEX, "INDEX", 5, false, 5},   {LP_TOP_BY_HOST, "HOST", 4, true, 4},
    {LP_TOP_BY_ROLE, "ROLE", 4, true, 6},      {LP_TOP_BY_STATE, "STATE", 6, true, 2},
    {LP_TOP_BY_SHARE, "phases", 7, false, 0},  {LP_TOP_BY_WAIT, "wait", 5, false, 3},
    {LP_TOP_BY_CALLS, "calls/s", 9, false, 1}, {LP_TOP_BY_RSS, "RSS", 8, false, 1},
    {LP_TOP_BY_OPEN, "for", 7, false, 7},      {LP_TOP_BY_NAME, "DOING", 8, true, 0},
};

/* What runs no more is nothing else. */
static bool is_stopped(const struct lp_top_worker *worker)
{
    return worker->stopped && worker->state < LP_TOP_CLOSED;
}

const char *lp_top_state_name(const struct lp_top_worker *worker)
{
    static const char *const names[] = {"live", "new", "file", "stale", "closed", "died", "gone"};
    bool by_file = worker->state == LP_TOP_LIVE && worker->worker->source == LP_SOURCE_FILE;
    if (is_stopped(worker))
        return "stopped";
    return by_file ? "file" : names[worker->state];
}

static size_t wider(size_t columns, const struct lp_text *text)
{
    size_t needed = lp_report_columns(text->bytes, text->len);
    needed = needed < NAME_COLUMNS ? needed : NAME_COLUMNS;
    return needed > columns ? needed : columns;
}

/* A column in which all rows would say the same is none. */
static bool is_needed(struct lp_top_column *column, const struct lp_top *top)
{
    bool needed = false;
    for (size_t i = 0; i < top->n_workers; i++) {
        const struct lp_run_worker *worker = top->workers[i].worker, *first = top->workers[0].worker;
        const struct lp_text *text = column->key == LP_TOP_BY_HOST ? &worker->host : &worker->role;
        const struct lp_text *other = column->key == LP_TOP_BY_HOST ? &first->host : &first->role;
        if (column->key == LP_TOP_BY_RANK) {
            needed |= worker->rank >= 0;
        } else if (column->key == LP_TOP_BY_INDEX) {
            needed |= worker->index >= 0;
        } else {
            needed |= text->len != other->len || memcmp(text->bytes, other->bytes, text->len) != 0;
            column->columns = wider(column->columns, text);
        }
    }
    return needed;
}

static size_t state_columns(const struct lp_top *top)
{
    size_t columns = strlen("closed");
    for (size_t i = 0; i < top->n_workers; i++)
        if (is_stopped(&top->workers[i]))
            columns = strlen("stopped");
    return columns;
}

void lp_top_workers_table(struct lp_top_table *table, struct lp_top_column columns[LP_TOP_COLUMNS],
                          const struct lp_top *top, size_t width)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        columns[n] = all[i];
        if (all[i].key == LP_TOP_BY_STATE)
            columns[n].columns = state_columns(top);
        bool optional = all[i].key == LP_TOP_BY_RANK || all[i].key == LP_TOP_BY_INDEX || all[i].key == LP_TOP_BY_HOST ||
                        all[i].key == LP_TOP_BY_ROLE;
        if (!optional || is_needed(&columns[n], top))
            n++;
    }
    lp_top_table_place(table, columns, n, LP_TOP_BY_NAME, GAP, width);
}

static enum lp_frame_style state_style(const struct lp_top_worker *worker)
{
    if (is_stopped(worker))
        return LP_FRAME_WARNING;
    switch (worker->state) {
    case LP_TOP_NEW:
        return LP_FRAME_GOOD;
    case LP_TOP_STALE:
        return LP_FRAME_WARNING;
    case LP_TOP_DIED:
    case LP_TOP_GONE:
        return LP_FRAME_BAD;
    default:
        return worker->changed ? LP_FRAME_BOLD : LP_FRAME_PLAIN;
    }
}

/* "28s old" over the columns of the figures that there are none for. */
static void age(const struct lp_top_table *table, struct lp_frame *frame, size_t row,
                const struct lp_top_worker *worker)
{
    char text[sizeof(struct lp_report_cell) + sizeof " ago"];
    bool by_file = worker->state == LP_TOP_SILENT || worker->state == LP_TOP_STALE;
    const struct lp_top_place *last = lp_top_table_find(table, LP_TOP_BY_CALLS);
    if (last == NULL)
        last = lp_top_table_find(table, LP_TOP_BY_SHARE);
    snprintf(text, sizeof text, "%s %s", lp_report_duration((double)worker->age_ns).text, by_file ? "old" : "ago");
    lp_frame_right(frame, row, last->begin + last->columns, LP_FRAME_DIM, text);
}

static void figures(const struct lp_top_table *table, struct lp_frame *frame, size_t row,
                    const struct lp_top_worker *worker, enum lp_frame_style style)
{
    const struct lp_run_worker *is = worker->worker;
    bool much = worker->wait_share >= MUCH_WAIT;
    lp_top_table_figure(table, LP_TOP_BY_SHARE, frame, row, style, is->root_estimated, lp_report_share(worker->share));
    lp_top_table_figure(table, LP_TOP_BY_WAIT, frame, row, much ? LP_FRAME_WARNING : style, is->root_estimated,
                        lp_report_percent(worker->wait_share));
    lp_top_table_figure(table, LP_TOP_BY_CALLS, frame, row, style, is->calls_estimated,
                        lp_report_rate_brief(worker->calls_per_s));
}

static void who(const struct lp_top_table *table, struct lp_frame *frame, size_t row,
                const struct lp_top_worker *worker, enum lp_frame_style style)
{
    static const enum lp_top_key keys[] = {LP_TOP_BY_HOST, LP_TOP_BY_ROLE};
    const struct lp_text *texts[] = {&worker->worker->host, &worker->worker->role};
    lp_top_table_put(table, LP_TOP_BY_PID, frame, row, style, lp_report_number(worker->worker->pid).text);
    if (worker->worker->rank >= 0)
        lp_top_table_put(table, LP_TOP_BY_RANK, frame, row, style, lp_report_number(worker->worker->rank).text);
    if (worker->worker->index >= 0)
        lp_top_table_put(table, LP_TOP_BY_INDEX, frame, row, style, lp_report_number(worker->worker->index).text);
    for (size_t i = 0; i < 2; i++) {
        const struct lp_top_place *place = lp_top_table_find(table, keys[i]);
        if (place != NULL)
            lp_frame_name(frame, row, place->begin, place->columns, style, texts[i]->bytes, texts[i]->len);
    }
    lp_top_table_put(table, LP_TOP_BY_STATE, frame, row, state_style(worker), lp_top_state_name(worker));
}

/* What a worker that died entered after its last sign of life was open for an unknown time, not for none. */
static double open_for(const struct lp_top_worker *worker, const struct lp_run_open *open)
{
    return worker->state == LP_TOP_DIED && open->open_ns == 0 ? NAN : (double)open->open_ns;
}

/* The path, and how many other threads are in phases too. */
static void doing(const struct lp_top_table *table, struct lp_frame *frame, size_t row,
                  const struct lp_top_worker *worker, enum lp_frame_style style)
{
    char more[32] = "";
    const struct lp_run_open *open = lp_run_longest_open(worker->worker);
    const struct lp_top_place *place = lp_top_table_find(table, LP_TOP_BY_NAME);
    if (open == NULL)
        return;
    if (worker->worker->n_open > 1)
        snprintf(more, sizeof more, " +%zu", worker->worker->n_open - 1);
    lp_top_table_figure(table, LP_TOP_BY_OPEN, frame, row, style, false, lp_report_duration(open_for(worker, open)));
    size_t room = place->columns > strlen(more) ? place->columns - strlen(more) : 0;
    size_t column = lp_frame_label(frame, row, place->begin, room, style, open->path.bytes, open->path.len);
    lp_frame_text(frame, row, column, LP_FRAME_DIM, more);
}

void lp_top_workers_line(const struct lp_top_table *table, struct lp_frame *frame, size_t row,
                         const struct lp_top_worker *worker)
{
    bool runs = worker->state == LP_TOP_LIVE || worker->state == LP_TOP_NEW || worker->state == LP_TOP_SILENT;
    enum lp_frame_style style = runs || worker->changed ? LP_FRAME_PLAIN : LP_FRAME_DIM;
    who(table, frame, row, worker, style);
    if (worker->interval_ns > 0 || worker->state == LP_TOP_LIVE || worker->state == LP_TOP_NEW)
        figures(table, frame, row, worker, style);
    else
        age(table, frame, row, worker);
    lp_top_table_figure(table, LP_TOP_BY_RSS, frame, row, style, false, lp_report_size(worker->rss_bytes));
    doing(table, frame, row, worker, style);
}
