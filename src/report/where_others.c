/* Below the stacks: the workers of which only files tell, because they ended or are not to be seen from here. */
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "report/label.h"
#include "report/text.h"
#include "report/where_parts.h"

#define NODES_SHOWN 6
#define OPEN_SHOWN 2
#define ENDED_SHOWN 5

static void text(struct lp_report_page *page, const char *value)
{
    lp_report_page_text(page, value);
}

static void run_label(struct lp_report_page *page, const struct lp_text *name, size_t columns)
{
    lp_where_label(page, name->bytes, name->len, columns);
}

static void run_name(struct lp_report_page *page, const struct lp_text *name)
{
    lp_where_name(page, name->bytes, name->len);
}

static void worker(struct lp_report_page *page, const struct lp_run_worker *it)
{
    run_name(page, &it->role);
    text(page, " ");
    if (it->rank >= 0 || it->index >= 0) {
        text(page, lp_report_process(it->rank, it->index, it->pid).text);
        text(page, " ");
    }
    text(page, lp_report_process(-1, -1, it->pid).text);
}

static void inside(struct lp_report_page *page, const struct lp_run_open *open)
{
    run_label(page, &open->path, 2 * LP_WHERE_NAME_COLUMNS);
    text(page, " ");
    text(page, lp_report_duration((double)open->open_ns).text);
}

static bool same_node(const struct lp_where_other *a, const struct lp_where_other *b)
{
    const struct lp_text *one = &a->worker->host, *other = &b->worker->host;
    return a->same_clock == b->same_clock && one->len == other->len && memcmp(one->bytes, other->bytes, one->len) == 0;
}

static bool is_newer(const struct lp_where_other *a, const struct lp_where_other *b)
{
    if (a->ahead != b->ahead)
        return a->ahead;
    return a->ahead ? a->age_ns > b->age_ns : a->age_ns < b->age_ns;
}

static void age(struct lp_report_page *page, const struct lp_where_other *newest)
{
    char line[128];
    const char *by = newest->same_clock ? " old"
                     : newest->ahead    ? " ahead of this machine's clock, by that node's clock"
                                        : " old by that node's clock";
    snprintf(line, sizeof line, "newest file %s%s", lp_report_duration((double)newest->age_ns).text, by);
    if (page->column + strlen(line) + 3 <= page->width) {
        lp_where_part(page);
    } else {
        lp_report_page_end(page);
        lp_report_page_to(page, 4);
    }
    text(page, line);
}

/* The phases that were open longest on a node when its workers last wrote. */
static void open_then(struct lp_report_page *page, const struct lp_where_other *others, size_t n)
{
    const struct lp_run_open *below = NULL;
    for (size_t shown = 0; shown < OPEN_SHOWN; shown++) {
        const struct lp_where_other *longest = NULL;
        const struct lp_run_open *open = NULL;
        for (size_t i = 0; i < n; i++) {
            const struct lp_run_open *one = lp_run_longest_open(others[i].worker);
            bool left = one && (!below || one->open_ns < below->open_ns);
            if (left && (!open || one->open_ns > open->open_ns)) {
                open = one;
                longest = &others[i];
            }
        }
        if (!open)
            return;
        lp_report_page_to(page, 4);
        text(page, "open then: ");
        worker(page, longest->worker);
        text(page, " in ");
        inside(page, open);
        lp_report_page_end(page);
        below = open;
    }
}

static void node(struct lp_report_page *page, const struct lp_where_other *others, size_t n)
{
    const struct lp_where_other *newest = others;
    for (size_t i = 1; i < n; i++)
        if (is_newer(&others[i], newest))
            newest = &others[i];
    lp_report_page_to(page, 2);
    lp_report_page_style(page, LP_STYLE_BOLD);
    run_name(page, &others->worker->host);
    lp_report_page_style(page, LP_STYLE_PLAIN);
    lp_where_part(page);
    text(page, lp_report_text_plural(n, "worker", "workers").text);
    if (newest->same_clock)
        text(page, ", live state not to be seen from here");
    age(page, newest);
    lp_report_page_end(page);
    open_then(page, others, n);
}

static void elsewhere(struct lp_report_page *page, const struct lp_where *where)
{
    size_t nodes = 0;
    for (size_t i = 0, n; i < where->n_elsewhere; i += n) {
        for (n = 1; i + n < where->n_elsewhere && same_node(&where->elsewhere[i], &where->elsewhere[i + n]); n++)
            ;
        if (nodes == 0)
            lp_report_page_line(page, LP_STYLE_PLAIN, "NOT SEEN FROM HERE, as their files say:");
        if (++nodes <= NODES_SHOWN)
            node(page, &where->elsewhere[i], n);
    }
    if (nodes <= NODES_SHOWN)
        return;
    lp_report_page_to(page, 2);
    text(page, "and ");
    text(page, lp_report_text_plural(nodes - NODES_SHOWN, "more node", "more nodes").text);
    lp_report_page_end(page);
}

static void how_it_ended(struct lp_report_page *page, const struct lp_run_worker *it)
{
    const char *name = lp_run_signal_name(it->signal);
    if (name) {
        text(page, ", killed by ");
        text(page, name);
    } else if (it->signal > 0) {
        text(page, ", killed by signal ");
        text(page, lp_report_number(it->signal).text);
    } else if (it->exit_status >= 0) {
        text(page, ", exit status ");
        text(page, lp_report_number(it->exit_status).text);
    }
}

static void last_seen(struct lp_report_page *page, const struct lp_where_other *it)
{
    char said[sizeof "last seen  ago by that node's clock" + sizeof(struct lp_report_cell)];
    if (it->ahead) /* by its node's clock: nobody can tell when that was */
        return;
    snprintf(said, sizeof said, "last seen %s ago%s", lp_report_duration((double)it->age_ns).text,
             it->same_clock ? "" : " by that node's clock");
    text(page, ",");
    lp_report_page_to(page, page->column + 1);
    lp_report_page_room(page, strlen(said) + 1, 4);
    text(page, said);
}

static void and_more(struct lp_report_page *page, size_t n)
{
    if (n == 0)
        return;
    lp_report_page_to(page, 2);
    text(page, "and ");
    text(page, lp_report_count(n).text);
    text(page, " more");
    lp_report_page_end(page);
}

static void ended(struct lp_report_page *page, const struct lp_where *where, bool bounded)
{
    size_t shown = !bounded || where->n_ended <= ENDED_SHOWN ? where->n_ended : ENDED_SHOWN - 1;
    if (where->n_ended == 0)
        return;
    lp_report_page_style(page, LP_STYLE_BOLD);
    text(page, "ENDED WITHOUT CLOSE: ");
    text(page, lp_report_text_plural(where->n_ended, "worker", "workers").text);
    lp_report_page_end(page);
    for (size_t i = 0; i < shown; i++) {
        const struct lp_run_open *open = lp_run_longest_open(where->ended[i].worker);
        lp_report_page_to(page, 2);
        worker(page, where->ended[i].worker);
        how_it_ended(page, where->ended[i].worker);
        last_seen(page, &where->ended[i]);
        if (open) {
            text(page, ",");
            lp_report_page_room(page, lp_report_columns(open->path.bytes, open->path.len) + 12, 4);
            text(page, page->column > 4 ? " in " : "in ");
            if (open->open_ns > 0)
                inside(page, open);
            else /* It was entered after the worker's last sign of life: for how long it was open is not known. */
                run_label(page, &open->path, 2 * LP_WHERE_NAME_COLUMNS);
        }
        lp_report_page_end(page);
    }
    and_more(page, where->n_ended - shown);
}

static void closing(struct lp_report_page *page, const struct lp_where *where, bool bounded)
{
    size_t shown = 0, most = !bounded || where->n_closing <= ENDED_SHOWN ? where->n_closing : ENDED_SHOWN - 1;
    if (where->n_closing == 0)
        return;
    lp_report_page_style(page, LP_STYLE_BOLD);
    text(page, "CLOSING: ");
    text(page, lp_report_text_plural(where->n_closing, "worker", "workers").text);
    text(page, where->n_closing == 1 ? " writes its last file" : " write their last files");
    lp_report_page_end(page);
    for (size_t i = 0; i < where->n_workers && shown < most; i++) {
        const struct lp_stacks *stacks = &where->workers[i].stacks;
        if (!stacks->closing)
            continue;
        shown++;
        lp_report_page_to(page, 2);
        lp_where_name(page, stacks->role.bytes, stacks->role.len);
        text(page, " ");
        if (stacks->rank >= 0 || stacks->index >= 0) {
            text(page, lp_report_process(stacks->rank, stacks->index, (int64_t)stacks->pid).text);
            text(page, " ");
        }
        text(page, lp_report_process(-1, -1, (int64_t)stacks->pid).text);
        text(page, ", for ");
        text(page, lp_report_duration((double)stacks->closing_ns).text);
        lp_report_page_end(page);
    }
    and_more(page, where->n_closing - shown);
}

static void counted(struct lp_report_page *page, size_t n, const char *one, const char *many)
{
    if (n == 0)
        return;
    lp_report_page_style(page, LP_STYLE_DIM);
    text(page, lp_report_count(n).text);
    text(page, " ");
    text(page, n == 1 ? one : many);
    lp_report_page_end(page);
}

void lp_where_others(struct lp_report_page *page, const struct lp_where *where, bool bounded)
{
    closing(page, where, bounded);
    ended(page, where, bounded);
    elsewhere(page, where);
    counted(page, where->n_closed, "worker has closed", "workers have closed");
    counted(page, where->n_partial, "worker ran out of shared memory: not all that it does is to be seen",
            "workers ran out of shared memory: not all that they do is to be seen");
    counted(page, where->run ? where->run->n_unreadable : 0,
            "worker file could not be read: lineprofiler report says why",
            "worker files could not be read: lineprofiler report says why");
}
