#include "report/top_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/format.h"

#define GAP 3
#define ID_COLUMNS 8 /* Of a run id, at least. */

/* --- keys that tables are sorted by --- */

static const enum lp_top_key phase_keys[] = {LP_TOP_BY_NAME, LP_TOP_BY_SHARE, LP_TOP_BY_SELF,
                                             LP_TOP_BY_WAIT, LP_TOP_BY_CALLS, LP_TOP_BY_EACH};
static const enum lp_top_key worker_keys[] = {LP_TOP_BY_PID,   LP_TOP_BY_RANK,  LP_TOP_BY_INDEX, LP_TOP_BY_HOST,
                                              LP_TOP_BY_ROLE,  LP_TOP_BY_STATE, LP_TOP_BY_SHARE, LP_TOP_BY_WAIT,
                                              LP_TOP_BY_CALLS, LP_TOP_BY_RSS,   LP_TOP_BY_OPEN,  LP_TOP_BY_NAME};

const enum lp_top_key *lp_top_keys(enum lp_top_mode mode, size_t *n)
{
    bool workers = mode == LP_TOP_WORKERS;
    *n = workers ? sizeof worker_keys / sizeof *worker_keys : sizeof phase_keys / sizeof *phase_keys;
    return workers ? worker_keys : phase_keys;
}

const char *lp_top_key_name(enum lp_top_key key)
{
    static const char *const names[LP_TOP_KEYS] = {"share", "self", "wait",  "calls", "each", "rss",   "for",
                                                   "pid",   "rank", "index", "host",  "role", "state", "name"};
    return names[key];
}

/* --- what run this is --- */

static size_t item(struct lp_frame *frame, size_t row, size_t column, const char *title, const char *text)
{
    if (column > 0)
        column += GAP;
    column = lp_frame_text(frame, row, column, LP_FRAME_DIM, title);
    return lp_frame_text(frame, row, column + 1, LP_FRAME_PLAIN, text);
}

static void title_line(struct lp_frame *frame, size_t row, const struct lp_top *top, const struct lp_top_view *view)
{
    char right[sizeof(struct lp_report_cell) + sizeof "every "] = "";
    size_t column = lp_frame_text(frame, row, 0, LP_FRAME_BOLD, "lineprofiler top");
    if (view->paused)
        snprintf(right, sizeof right, "PAUSED");
    else if (view->every_s > 0)
        snprintf(right, sizeof right, "every %s", lp_report_duration(view->every_s * 1e9).text);
    size_t taken = column + 2 + (*right ? strlen(right) + 2 : 0);
    if (frame->columns > taken)
        lp_frame_label(frame, row, column + 2, frame->columns - taken, LP_FRAME_PLAIN, top->run->dir,
                       strlen(top->run->dir));
    if (frame->columns > column + strlen(right))
        lp_frame_right(frame, row, frame->columns, view->paused ? LP_FRAME_WARNING : LP_FRAME_DIM, right);
}

static size_t count(struct lp_frame *frame, size_t row, size_t column, size_t n, const char *what, bool first,
                    enum lp_frame_style style)
{
    char text[sizeof(struct lp_report_cell) + 16];
    if (n == 0)
        return column;
    snprintf(text, sizeof text, "%s%s %s", first ? ": " : ", ", lp_report_count(n).text, what);
    return lp_frame_text(frame, row, column, style, text);
}

static void run_line(struct lp_frame *frame, size_t row, const struct lp_top *top)
{
    const struct lp_run *run = top->run;
    size_t column = item(frame, row, 0, "Runtime", lp_report_duration((double)run->runtime_ns).text);
    if (top->n_live + top->n_file == 0)
        column = lp_frame_text(frame, row, column, LP_FRAME_PLAIN, ", ended");
    column = item(frame, row, column, "Processes", lp_report_count(top->n_workers).text);
    size_t counts = column;
    column = count(frame, row, column, top->n_live, "live", column == counts, LP_FRAME_PLAIN);
    column = count(frame, row, column, top->n_file, "by file", column == counts, LP_FRAME_PLAIN);
    column = count(frame, row, column, top->n_closed, "closed", column == counts, LP_FRAME_PLAIN);
    column = count(frame, row, column, top->n_died, "died", column == counts, LP_FRAME_BAD);
    column = count(frame, row, column, top->n_gone, "gone", column == counts, LP_FRAME_BAD);
    column = count(frame, row, column, run->n_unreadable, "unreadable", column == counts, LP_FRAME_BAD);
    if (frame->columns < column + GAP + sizeof "Run" + ID_COLUMNS)
        return;
    column = item(frame, row, column, "Run", "");
    lp_frame_label(frame, row, column, frame->columns - column, LP_FRAME_PLAIN, run->run_id.bytes, run->run_id.len);
}

static void interval_line(struct lp_frame *frame, size_t row, const struct lp_top *top, const struct lp_top_view *view)
{
    size_t column;
    if (view->message != NULL) {
        lp_frame_label(frame, row, 0, frame->columns, LP_FRAME_BAD, view->message, strlen(view->message));
        return;
    }
    if (top->restarted)
        column = lp_frame_text(frame, row, 0, LP_FRAME_WARNING, "another attempt of the run has begun");
    else if (top->interval_ns == 0)
        column = lp_frame_text(frame, row, 0, LP_FRAME_DIM, "first reading: rates come with the next");
    else
        column = item(frame, row, 0, "Last", lp_report_duration((double)top->interval_ns).text);
    if (view->mode != LP_TOP_HELP)
        column = item(frame, row, column, view->reversed ? "rising by" : "by", lp_top_key_name(view->sort[view->mode]));
    if (view->hide_idle)
        column = lp_frame_text(frame, row, column + GAP, LP_FRAME_DIM, "idle ones hidden");
    if (view->filter == NULL || *view->filter == '\0')
        return;
    item(frame, row, column, "with", "");
    column += GAP + sizeof "with";
    if (frame->columns > column)
        lp_frame_label(frame, row, column, frame->columns - column, LP_FRAME_BOLD, view->filter, strlen(view->filter));
}

/* --- the keys --- */

static void keys_line(struct lp_frame *frame, size_t row)
{
    static const struct {
        const char *key, *what;
    } keys[] = {{"q", "quit"},   {"w", "workers"}, {"p", "phases"},    {"s", "sort"},
                {"/", "filter"}, {"i", "idle"},    {"space", "pause"}, {"h", "help"}};
    size_t column = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        column = lp_frame_text(frame, row, column, LP_FRAME_KEY, keys[i].key);
        column = lp_frame_text(frame, row, column + 1, LP_FRAME_PLAIN, keys[i].what) + 2;
    }
}

static void filter_line(struct lp_frame *frame, size_t row, const struct lp_top_view *view)
{
    const char *filter = view->filter != NULL ? view->filter : "";
    size_t column = lp_frame_text(frame, row, 0, LP_FRAME_KEY, "Filter:") + 1;
    size_t room = frame->columns > column + 1 ? frame->columns - column - 1 : 0;
    column = lp_frame_label(frame, row, column, room, LP_FRAME_BOLD, filter, strlen(filter));
    column = lp_frame_text(frame, row, column, LP_FRAME_BOLD, "_");
    lp_frame_text(frame, row, column + GAP, LP_FRAME_DIM, "Enter keeps it, Esc drops it");
}

static void position(struct lp_frame *frame, size_t row, size_t first, size_t shown, size_t all)
{
    char text[96];
    if (shown >= all || frame->columns < 40)
        return;
    snprintf(text, sizeof text, " %zu-%zu of %zu", first + 1, first + shown, all);
    lp_frame_right(frame, row, frame->columns, LP_FRAME_DIM, text);
}

/* --- all --- */

/* How the rows are shared out: what stands at the top and at the bottom gives way to the table. */
struct parts {
    size_t head, headings, body, foot;
};

static struct parts share_out(size_t rows, const struct lp_top_view *view)
{
    struct parts parts = {.head = rows >= 8   ? 3
                                  : rows >= 5 ? 1
                                              : 0,
                          .headings = rows >= 3 && view->mode != LP_TOP_HELP,
                          .foot = rows >= 4 || (view->typing && rows > 0)};
    if (view->every_s <= 0)
        parts = (struct parts){.head = view->mode == LP_TOP_WORKERS ? 0 : 3, .headings = 1};
    parts.body = rows - parts.head - parts.headings - parts.foot;
    return parts;
}

static void draw_head(struct lp_frame *frame, const struct lp_top *top, const struct lp_top_view *view,
                      const struct parts *parts)
{
    if (parts->head == 1) {
        interval_line(frame, 0, top, view);
        return;
    }
    if (parts->head == 0)
        return;
    title_line(frame, 0, top, view);
    run_line(frame, 1, top);
    interval_line(frame, 2, top, view);
}

static void draw_lines(struct lp_frame *frame, const struct lp_top *top, const struct lp_top_view *view,
                       const struct parts *parts, const struct lp_top_lines *lines)
{
    struct lp_top_column columns[LP_TOP_COLUMNS];
    struct lp_top_table table;
    size_t row = parts->head + parts->headings;
    if (view->mode == LP_TOP_WORKERS)
        lp_top_workers_table(&table, columns, top, frame->columns);
    else
        lp_top_phases_table(&table, frame->columns);
    if (parts->headings)
        lp_top_table_headings(&table, frame, parts->head, view->sort[view->mode]);
    for (size_t i = view->scroll; i < lines->n && i - view->scroll < parts->body; i++, row++) {
        if (view->mode == LP_TOP_WORKERS)
            lp_top_workers_line(&table, frame, row, &top->workers[lines->lines[i].index]);
        else
            lp_top_phases_line(&table, frame, row, top, &lines->lines[i]);
    }
    if (lines->n == 0)
        lp_frame_text(frame, row, 0, LP_FRAME_DIM,
                      view->filter != NULL && *view->filter ? "nothing passes the filter" : "nothing recorded yet");
}

int lp_top_draw(struct lp_frame *frame, const struct lp_top *top, struct lp_top_view *view)
{
    struct lp_top_lines lines = {0};
    struct parts parts = share_out(frame->rows, view);
    int error = lp_top_lines_make(&lines, top, view);
    if (!error) {
        size_t most = lines.n > parts.body ? lines.n - parts.body : 0;
        view->scroll = view->scroll < most ? view->scroll : most;
        draw_head(frame, top, view, &parts);
        if (view->mode == LP_TOP_HELP)
            lp_top_help(frame, parts.head, parts.head + parts.body);
        else
            draw_lines(frame, top, view, &parts, &lines);
        if (parts.foot && view->typing)
            filter_line(frame, frame->rows - 1, view);
        else if (parts.foot)
            keys_line(frame, frame->rows - 1);
        if (parts.foot && !view->typing)
            position(frame, frame->rows - 1, view->scroll, parts.body < lines.n ? parts.body : lines.n, lines.n);
    }
    lp_top_lines_release(&lines);
    return error ? error : frame->error;
}

int lp_top_height(size_t *rows, const struct lp_top *top, const struct lp_top_view *view)
{
    struct lp_top_lines lines;
    int error = lp_top_lines_make(&lines, top, view);
    *rows = (view->mode == LP_TOP_WORKERS ? 1 : 4) + (lines.n > 0 ? lines.n : 1);
    lp_top_lines_release(&lines);
    return error;
}
