/* Which lines the table has, and in which order. */
#include "report/top_table.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/usage.h"
#include "report/format.h"

/* --- texts that are looked at --- */

char *lp_top_path(const struct lp_run_phase *phase, size_t *len)
{
    size_t n = phase->name.len;
    for (const struct lp_run_phase *at = phase->parent; at != NULL && at->parent != NULL; at = at->parent)
        n += at->name.len + 1;
    char *path = malloc(n + 1), *end = path + n;
    *len = n;
    if (path == NULL)
        return NULL;
    *end = '\0';
    for (const struct lp_run_phase *at = phase; at != NULL && at->parent != NULL; at = at->parent) {
        if (at != phase)
            *--end = '/';
        end -= at->name.len;
        memcpy(end, at->name.bytes, at->name.len);
    }
    return path;
}

static bool begins_with(const char *bytes, const char *what, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (tolower((unsigned char)bytes[i]) != tolower((unsigned char)what[i]))
            return false;
    return true;
}

static bool contains(const char *bytes, size_t len, const char *what)
{
    size_t n = what != NULL ? strlen(what) : 0;
    for (size_t at = 0; at + n <= len; at++)
        if (begins_with(bytes + at, what, n))
            return true;
    return false;
}

static bool text_contains(const struct lp_text *text, const char *what)
{
    return contains(text->bytes, text->len, what);
}

static bool string_contains(const char *text, const char *what)
{
    return contains(text, strlen(text), what);
}

static bool counter_matches(const struct lp_top_role *role, size_t first, size_t n, const char *filter)
{
    for (size_t i = first; i < first + n; i++)
        if (text_contains(&role->counters[i].counter->name, filter))
            return true;
    return false;
}

/* 1, 0, or -ENOMEM. */
static int phase_matches(const struct lp_top_role *role, const struct lp_top_phase *phase, const char *filter)
{
    size_t len;
    if (filter == NULL || *filter == '\0' || text_contains(&role->role->name, filter) ||
        counter_matches(role, phase->counters, phase->n_counters, filter))
        return 1;
    char *path = lp_top_path(phase->phase, &len);
    int matches = path == NULL ? -ENOMEM : contains(path, len, filter);
    free(path);
    return matches;
}

static bool worker_matches(const struct lp_top_worker *worker, const char *filter)
{
    const struct lp_run_worker *is = worker->worker;
    if (filter == NULL || *filter == '\0' || text_contains(&is->host, filter) || text_contains(&is->role, filter) ||
        string_contains(lp_report_number(is->pid).text, filter) || string_contains(lp_top_state_name(worker), filter))
        return true;
    for (size_t i = 0; i < is->n_open; i++)
        if (text_contains(&is->open[i].path, filter))
            return true;
    return false;
}

static bool is_idle(const struct lp_top_worker *worker)
{
    bool runs = worker->state == LP_TOP_LIVE || worker->state == LP_TOP_NEW || worker->state == LP_TOP_SILENT;
    return !worker->changed && (!runs || (worker->interval_ns > 0 && worker->wall_ns == 0));
}

/* --- order --- */

struct order {
    const struct lp_top *top;
    enum lp_top_key key;
    bool reversed;
};

/* As they are shown: lines that look equal do not change places. */
static double share_shown(double share)
{
    return floor(share * 1000 + 0.5);
}

static double or_nan(int64_t number)
{
    return number < 0 ? NAN : (double)number;
}

static double number_of_phase(const struct lp_top_phase *phase, enum lp_top_key key)
{
    switch (key) {
    case LP_TOP_BY_SELF:
        return share_shown(phase->self_share);
    case LP_TOP_BY_WAIT:
        return share_shown(phase->wait_share);
    case LP_TOP_BY_CALLS:
        return phase->calls_per_s;
    case LP_TOP_BY_EACH:
        return phase->each_ns;
    default:
        return share_shown(phase->share);
    }
}

static double number_of_worker(const struct lp_top_worker *worker, enum lp_top_key key)
{
    const struct lp_run_open *open = lp_run_longest_open(worker->worker);
    switch (key) {
    case LP_TOP_BY_WAIT:
        return share_shown(worker->wait_share);
    case LP_TOP_BY_CALLS:
        return worker->calls_per_s;
    case LP_TOP_BY_RSS:
        return worker->rss_bytes;
    case LP_TOP_BY_OPEN:
        return open != NULL ? (double)open->open_ns : NAN;
    case LP_TOP_BY_PID:
        return (double)worker->worker->pid;
    case LP_TOP_BY_RANK:
        return or_nan(worker->worker->rank);
    case LP_TOP_BY_INDEX:
        return or_nan(worker->worker->index);
    case LP_TOP_BY_STATE:
        return (double)worker->state;
    default:
        return share_shown(worker->share);
    }
}

static int compare_numbers(double a, double b, bool rises)
{
    if (a == b)
        return 0;
    return (a < b) == rises ? -1 : 1;
}

static int compare_texts(const struct lp_text *a, const struct lp_text *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int order = n > 0 ? memcmp(a->bytes, b->bytes, n) : 0;
    if (order != 0 || a->len == b->len)
        return order;
    return a->len < b->len ? -1 : 1;
}

/* The text that a key sorts workers by; NULL if it is a number. */
static const struct lp_text *text_of_worker(const struct lp_top_worker *worker, enum lp_top_key key)
{
    static const struct lp_text none = {0};
    const struct lp_run_open *open = lp_run_longest_open(worker->worker);
    if (key == LP_TOP_BY_HOST)
        return &worker->worker->host;
    if (key == LP_TOP_BY_ROLE)
        return &worker->worker->role;
    if (key == LP_TOP_BY_NAME)
        return open != NULL ? &open->path : &none;
    return NULL;
}

/* Unknown numbers last, whichever way round. */
static int compare_known(double a, double b, const struct order *order, bool rises)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return compare_numbers(a, b, rises != order->reversed);
}

static int compare_workers(const struct lp_top_line *a, const struct lp_top_line *b, const struct order *order)
{
    const struct lp_top_worker *left = &order->top->workers[a->index], *right = &order->top->workers[b->index];
    const struct lp_text *text = text_of_worker(left, order->key);
    bool rises = order->key == LP_TOP_BY_PID || order->key == LP_TOP_BY_RANK || order->key == LP_TOP_BY_STATE;
    if (text == NULL)
        return compare_known(number_of_worker(left, order->key), number_of_worker(right, order->key), order, rises);
    int texts = compare_texts(text, text_of_worker(right, order->key));
    return order->reversed ? -texts : texts;
}

/* By name is the order of the tree, in which they were made. */
static int compare_phases(const struct lp_top_line *a, const struct lp_top_line *b, const struct order *order)
{
    const struct lp_top_phase *left = &a->role->phases[a->index], *right = &b->role->phases[b->index];
    if (order->key == LP_TOP_BY_NAME)
        return order->reversed ? compare_numbers((double)b->order, (double)a->order, true) : 0;
    return compare_known(number_of_phase(left, order->key), number_of_phase(right, order->key), order, false);
}

static int compare_lines(const void *left, const void *right, void *context)
{
    const struct lp_top_line *a = left, *b = right;
    const struct order *order = context;
    int by_key = a->kind == LP_TOP_LINE_WORKER ? compare_workers(a, b, order) : compare_phases(a, b, order);
    if (by_key != 0)
        return by_key;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* --- lines --- */

static int add(struct lp_top_lines *lines, enum lp_top_kind kind, const struct lp_top_role *role, size_t index)
{
    if (lines->n == lines->size) {
        size_t size = lines->size > 0 ? 2 * lines->size : 64;
        struct lp_top_line *grown = realloc(lines->lines, size * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        lines->lines = grown;
        lines->size = size;
    }
    lines->lines[lines->n] = (struct lp_top_line){kind, role, index, lines->n};
    lines->n++;
    return 0;
}

void lp_top_lines_release(struct lp_top_lines *lines)
{
    free(lines->lines);
    *lines = (struct lp_top_lines){0};
}

static void sort(struct lp_top_lines *lines, const struct lp_top *top, const struct lp_top_view *view)
{
    struct order order = {top, view->sort[view->mode], view->reversed};
    if (lines->n > 0)
        qsort_r(lines->lines, lines->n, sizeof *lines->lines, compare_lines, &order);
}

/* Of the four of a phase with io=True mostly one moves. */
static bool stands_still(const struct lp_top_counter *counter)
{
    enum lp_run_flow flow;
    return lp_analysis_is_io_counter(counter->counter, &flow) && !(counter->per_s > 0);
}

static int add_counters(struct lp_top_lines *lines, const struct lp_top_role *role, size_t first, size_t n)
{
    int error = 0;
    for (size_t i = first; i < first + n && !error; i++)
        error = stands_still(&role->counters[i]) ? 0 : add(lines, LP_TOP_LINE_COUNTER, role, i);
    return error;
}

static int choose_phases(struct lp_top_lines *chosen, const struct lp_top_role *role, const struct lp_top_view *view)
{
    int error = 0;
    for (size_t i = 0; i < role->n_phases && !error; i++) {
        if (view->hide_idle && role->phases[i].idle)
            continue;
        int matches = phase_matches(role, &role->phases[i], view->filter);
        if (matches != 0)
            error = matches < 0 ? matches : add(chosen, LP_TOP_LINE_PHASE, role, i);
    }
    return error;
}

static int add_phases(struct lp_top_lines *lines, const struct lp_top_role *role, const struct lp_top_lines *chosen)
{
    int error = 0;
    for (size_t i = 0; i < chosen->n && !error; i++) {
        const struct lp_top_phase *phase = &role->phases[chosen->lines[i].index];
        error = add(lines, LP_TOP_LINE_PHASE, role, chosen->lines[i].index);
        if (!error)
            error = add_counters(lines, role, phase->counters, phase->n_counters);
    }
    return error;
}

/* A role of which nothing passes the filter is left out. */
static int add_role(struct lp_top_lines *lines, const struct lp_top *top, const struct lp_top_role *role,
                    const struct lp_top_view *view)
{
    struct lp_top_lines chosen = {0};
    struct lp_top_note note;
    bool filtered = view->filter != NULL && *view->filter != '\0';
    bool named = !filtered || text_contains(&role->role->name, view->filter);
    bool counted = named || counter_matches(role, 0, role->n_root_counters, view->filter);
    int error = choose_phases(&chosen, role, view);
    sort(&chosen, top, view);
    if (!error && (named || counted || chosen.n > 0)) {
        error = add(lines, LP_TOP_LINE_ROLE, role, 0);
        for (size_t i = 0; i < LP_TOP_NOTES && !error; i++)
            if (lp_top_note(&note, top, role, i))
                error = add(lines, LP_TOP_LINE_NOTE, role, i);
        if (!error && counted)
            error = add_counters(lines, role, 0, role->n_root_counters);
        if (!error)
            error = add_phases(lines, role, &chosen);
    }
    lp_top_lines_release(&chosen);
    return error;
}

static int add_workers(struct lp_top_lines *lines, const struct lp_top *top, const struct lp_top_view *view)
{
    int error = 0;
    for (size_t i = 0; i < top->n_workers && !error; i++)
        if (worker_matches(&top->workers[i], view->filter) && !(view->hide_idle && is_idle(&top->workers[i])))
            error = add(lines, LP_TOP_LINE_WORKER, NULL, i);
    sort(lines, top, view);
    return error;
}

int lp_top_lines_make(struct lp_top_lines *lines, const struct lp_top *top, const struct lp_top_view *view)
{
    int error = 0;
    *lines = (struct lp_top_lines){0};
    if (view->mode == LP_TOP_WORKERS)
        return add_workers(lines, top, view);
    for (size_t i = 0; i < top->n_roles && view->mode == LP_TOP_PHASES && !error; i++)
        error = add_role(lines, top, &top->roles[i], view);
    return error;
}

bool lp_top_note(struct lp_top_note *note, const struct lp_top *top, const struct lp_top_role *role, size_t index)
{
    bool first = top->interval_ns == 0;
    if (index == 0 && role->stepped_back)
        snprintf(note->text, sizeof note->text, "a process died or vanished: no figures of phases this time");
    else if (index == 1 && !first && role->n_seen == 0 && role->n_running > 0)
        snprintf(note->text, sizeof note->text, "no process has written since: figures come with their next flush");
    else if (index == 1 && !first && role->n_seen < role->n_running)
        snprintf(note->text, sizeof note->text, "of %s of %s running processes: the others have not written since",
                 lp_report_count(role->n_seen).text, lp_report_count(role->n_running).text);
    else
        return false;
    return true;
}
