/* The roles and their phases: what they did in the interval. */
#include "report/top_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/format.h"

#define GAP 2
#define INDENT 2
#define COUNTER_INDENT 6
#define MUCH_WAIT 0.5 /* More is drawn so that it is seen, as in the report. */

static const struct lp_top_column columns[] = {
    {LP_TOP_BY_NAME, "PHASE", 12, true, 0},    {LP_TOP_BY_SHARE, "share", 7, false, 0},
    {LP_TOP_BY_SELF, "self", 7, false, 3},     {LP_TOP_BY_WAIT, "wait", 5, false, 2},
    {LP_TOP_BY_CALLS, "calls/s", 9, false, 1}, {LP_TOP_BY_EACH, "each", 8, false, 4},
};

void lp_top_phases_table(struct lp_top_table *table, size_t width)
{
    lp_top_table_place(table, columns, sizeof columns / sizeof *columns, LP_TOP_BY_NAME, GAP, width);
}

static enum lp_frame_style wait_style(double share, enum lp_frame_style style)
{
    return share >= MUCH_WAIT ? LP_FRAME_WARNING : style;
}

/* Where the name of a line ends at most. */
static size_t name_columns(const struct lp_top_table *table)
{
    return table->places[0].columns;
}

static void role_line(const struct lp_top_table *table, struct lp_frame *frame, size_t row,
                      const struct lp_top_role *role)
{
    char count[2 * sizeof(struct lp_report_cell) + sizeof "   of  processes"];
    const struct lp_text *name = &role->role->name;
    size_t n = role->role->n_workers;
    const char *what = n == 1 ? "process" : "processes";
    if (role->n_running < n)
        snprintf(count, sizeof count, "  %s of %s %s", lp_report_count(role->n_running).text, lp_report_count(n).text,
                 what);
    else
        snprintf(count, sizeof count, "  %s %s", lp_report_count(n).text, what);
    size_t room = name_columns(table), column;
    if (name->len > 0)
        column = lp_frame_name(frame, row, 0, room, LP_FRAME_BOLD, name->bytes, name->len);
    else
        column = lp_frame_text(frame, row, 0, LP_FRAME_BOLD, "(no name)");
    if (column + strlen(count) <= room)
        lp_frame_text(frame, row, column, LP_FRAME_DIM, count);
    lp_top_table_figure(table, LP_TOP_BY_SHARE, frame, row, LP_FRAME_BOLD, role->share_estimated,
                        lp_report_share(role->share));
    lp_top_table_figure(table, LP_TOP_BY_WAIT, frame, row, wait_style(role->wait_share, LP_FRAME_BOLD), false,
                        lp_report_percent(role->wait_share));
    lp_top_table_figure(table, LP_TOP_BY_CALLS, frame, row, LP_FRAME_BOLD, role->calls_estimated,
                        lp_report_rate_brief(role->calls_per_s));
}

static void phase_name(const struct lp_top_table *table, struct lp_frame *frame, size_t row,
                       const struct lp_top_phase *phase, enum lp_frame_style style)
{
    size_t len, column = INDENT;
    char *path = lp_top_path(phase->phase, &len);
    if (path == NULL) {
        frame->error = -ENOMEM;
        return;
    }
    if (phase->phase->estimated)
        column = lp_frame_text(frame, row, column, style, "~");
    lp_frame_label(frame, row, column, name_columns(table) - column, style, path, len);
    free(path);
}

static void phase_line(const struct lp_top_table *table, struct lp_frame *frame, size_t row,
                       const struct lp_top_role *role, const struct lp_top_phase *phase)
{
    enum lp_frame_style style = phase->idle ? LP_FRAME_DIM : LP_FRAME_PLAIN;
    bool sampled = phase->phase->estimated;
    phase_name(table, frame, row, phase, style);
    lp_top_table_figure(table, LP_TOP_BY_SHARE, frame, row, style, sampled, lp_report_share(phase->share));
    lp_top_table_figure(table, LP_TOP_BY_SELF, frame, row, style, phase->self_estimated,
                        lp_report_share(phase->self_share));
    lp_top_table_figure(table, LP_TOP_BY_WAIT, frame, row, wait_style(phase->wait_share, style), sampled,
                        lp_report_percent(phase->wait_share));
    lp_top_table_figure(table, LP_TOP_BY_CALLS, frame, row, style, sampled || role->rates_estimated,
                        lp_report_rate_brief(phase->calls_per_s));
    lp_top_table_figure(table, LP_TOP_BY_EACH, frame, row, style, sampled, lp_report_duration(phase->each_ns));
}

/* Whose counter it is shows by the line above it, as in the report. */
static void counter_line(const struct lp_top_table *table, struct lp_frame *frame, size_t row,
                         const struct lp_top_role *role, size_t index, bool sampled)
{
    const struct lp_top_counter *counter = &role->counters[index];
    const struct lp_text *name = &counter->counter->name;
    size_t column = lp_frame_text(frame, row, COUNTER_INDENT - 2, LP_FRAME_DIM, "+ ");
    size_t room = name_columns(table) > column ? name_columns(table) - column : 0;
    lp_frame_label(frame, row, column, room, LP_FRAME_PLAIN, name->bytes, name->len);
    lp_top_table_figure(table, LP_TOP_BY_CALLS, frame, row, LP_FRAME_PLAIN, sampled || role->rates_estimated,
                        lp_report_rate_brief(counter->per_s));
}

static bool counter_is_sampled(const struct lp_top_role *role, size_t index)
{
    for (size_t i = 0; i < role->n_phases; i++) {
        const struct lp_top_phase *phase = &role->phases[i];
        if (index >= phase->counters && index < phase->counters + phase->n_counters)
            return phase->phase->estimated;
    }
    return false;
}

void lp_top_phases_line(const struct lp_top_table *table, struct lp_frame *frame, size_t row, const struct lp_top *top,
                        const struct lp_top_line *line)
{
    struct lp_top_note note;
    switch (line->kind) {
    case LP_TOP_LINE_ROLE:
        role_line(table, frame, row, line->role);
        break;
    case LP_TOP_LINE_PHASE:
        phase_line(table, frame, row, line->role, &line->role->phases[line->index]);
        break;
    case LP_TOP_LINE_COUNTER:
        counter_line(table, frame, row, line->role, line->index, counter_is_sampled(line->role, line->index));
        break;
    case LP_TOP_LINE_NOTE:
        if (lp_top_note(&note, top, line->role, line->index))
            lp_frame_text(frame, row, INDENT, LP_FRAME_WARNING, note.text);
        break;
    case LP_TOP_LINE_WORKER:
        break;
    }
}
