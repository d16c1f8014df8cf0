#include "report/where.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/emit.h"
#include "report/format.h"
#include "report/label.h"
#include "report/report.h"
#include "report/text.h"
#include "report/where_groups.h"
#include "report/where_parts.h"

#define QUIET_END 9
#define STATE_COLUMN 11
#define WHO_COLUMN 22
#define INDENT 11     /* of an entry's further lines */
#define IDLE_INDENT 4 /* of the further line of a thread with nothing open */
#define PART_COLUMNS 3
#define LEFT_OUT_LINES 1
#define MIN_ROWS 8

/* A page whose lines are kept, to be counted first. */
struct draft {
    struct lp_buffer text;
    struct lp_report_sink sink;
    struct lp_report_page page;
};

static void draft_begin(struct draft *draft, size_t width, bool colour)
{
    draft->text = (struct lp_buffer){0};
    lp_report_sink_init(&draft->sink, lp_buffer_put, &draft->text);
    lp_report_page_init(&draft->page, &draft->sink, width, colour);
}

static size_t draft_lines(const struct draft *draft)
{
    size_t n = 0;
    for (size_t i = 0; i < draft->text.len; i++)
        n += draft->text.bytes[i] == '\n';
    return n;
}

static void draft_end(struct draft *draft, struct lp_report_sink *sink)
{
    lp_report_fail(sink, draft->sink.error);
    if (sink)
        lp_report_write(sink, draft->text.bytes, draft->text.len);
    lp_report_page_release(&draft->page);
    free(draft->text.bytes);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static void text(struct lp_report_page *page, const char *value)
{
    lp_report_page_text(page, value);
}

void lp_where_label(struct lp_report_page *page, const char *bytes, size_t len, size_t columns)
{
    if (len == 0)
        text(page, "(no name)");
    else
        lp_report_page_label(page, bytes, len, columns);
}

void lp_where_name(struct lp_report_page *page, const char *bytes, size_t len)
{
    if (len == 0)
        text(page, "(no name)");
    else
        lp_report_page_name(page, bytes, len, LP_WHERE_NAME_COLUMNS);
}

static void label(struct lp_report_page *page, const struct lp_stacks_text *name, size_t columns)
{
    lp_where_label(page, name->bytes, name->len, columns);
}

static size_t label_columns(const struct lp_stacks_text *name, size_t columns)
{
    size_t all = name->len > 0 ? lp_report_columns(name->bytes, name->len) : sizeof "(no name)" - 1;
    return all < columns ? all : columns;
}

/* A text of a single piece that does not end a line early; more than that is cut. */
struct piece {
    char text[128];
};

/* "40.1-41.3s", "815ms-1.2s", "41.3s". */
static struct piece duration_range(struct lp_where_range range)
{
    static const char digits[] = "0123456789.";
    struct piece piece;
    struct lp_report_cell min = lp_report_duration((double)range.min_ns);
    struct lp_report_cell max = lp_report_duration((double)range.max_ns);
    size_t unit = strspn(min.text, digits);
    if (strcmp(min.text, max.text) == 0)
        snprintf(piece.text, sizeof piece.text, "%s", max.text);
    else if (strcmp(min.text + unit, max.text + strspn(max.text, digits)) == 0)
        snprintf(piece.text, sizeof piece.text, "%.*s-%s", (int)unit, min.text, max.text);
    else
        snprintf(piece.text, sizeof piece.text, "%s-%s", min.text, max.text);
    return piece;
}

void lp_where_part(struct lp_report_page *page)
{
    text(page, " \xc2\xb7 ");
}

/* The same in front of so many columns, or a new line where they do not fit. */
static void part_of(struct lp_report_page *page, size_t columns, size_t indent)
{
    if (page->column + PART_COLUMNS + columns <= page->width)
        lp_where_part(page);
    else
        lp_report_page_room(page, PART_COLUMNS + columns, indent);
}

/* ---- the first lines -------------------------------------------------------------------------- */

static void time_of_day(struct lp_report_page *page, uint64_t realtime_ns)
{
    char time[32];
    unsigned s = (unsigned)(realtime_ns / 1000000000u % 86400);
    snprintf(time, sizeof time, "%02u:%02u:%02u UTC", s / 3600, s / 60 % 60, s % 60);
    text(page, time);
}

static size_t count_of_run(const struct lp_where *where)
{
    size_t n = 0;
    for (size_t i = 0; i < where->n_workers; i++)
        n += where->workers[i].of_run;
    return n;
}

static void does_not_answer(struct lp_report_page *page)
{
    static const char not_shown[] = "not shown are workers of other nodes, and those that ended";
    lp_report_page_style(page, LP_STYLE_BOLD);
    text(page, "RUN DIRECTORY DOES NOT ANSWER: ");
    lp_report_page_words(page, not_shown, sizeof not_shown - 1, 4);
    lp_report_page_end(page);
}

static void header(struct lp_report_page *page, const struct lp_where *where)
{
    size_t live = count_of_run(where), others = where->n_workers - live;
    lp_report_page_style(page, LP_STYLE_BOLD);
    text(page, "RUN ");
    lp_report_page_name(page, where->run_id.bytes, where->run_id.len, page->width / 2);
    lp_report_page_style(page, LP_STYLE_PLAIN);
    lp_where_part(page);
    if (where->run_dir_late) { /* of how many is not known */
        text(page, lp_report_text_plural(live, "worker", "workers").text);
    } else {
        text(page, lp_report_count(live).text);
        text(page, " of ");
        text(page, lp_report_text_plural(where->n_all, "worker", "workers").text);
    }
    text(page, live == 1 && where->run_dir_late ? " lives on this machine" : " live on this machine");
    lp_where_part(page);
    lp_report_page_room(page, sizeof "22:41:07 UTC" - 1, 4);
    time_of_day(page, where->now_realtime_ns);
    lp_report_page_end(page);
    if (where->run_dir_late)
        does_not_answer(page);
    if (others == 0)
        return;
    text(page, "and ");
    text(page, lp_report_count(others).text);
    text(page, " that live under other run ids, below as well");
    lp_report_page_end(page);
}

static void columns(struct lp_report_page *page)
{
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_right(page, "quiet", QUIET_END);
    lp_report_page_to(page, STATE_COLUMN);
    text(page, "state");
    lp_report_page_to(page, WHO_COLUMN);
    text(page, "(quiet: since anything was entered or finished there)");
    lp_report_page_end(page);
}

/* ---- who ---------------------------------------------------------------------------------------- */

static const char *state_word(enum lp_where_state state)
{
    static const char *const words[] = {
        [LP_WHERE_NOT_KNOWN] = "n/a",     [LP_WHERE_ON_CPU] = "on CPU",   [LP_WHERE_PARTLY] = "partly on CPU",
        [LP_WHERE_RUNNABLE] = "runnable", [LP_WHERE_WAITING] = "waiting", [LP_WHERE_BLOCKED] = "blocked",
        [LP_WHERE_STOPPED] = "stopped",   [LP_WHERE_ENDED] = "ended",
    };
    return words[state];
}

static struct piece state_of(const struct lp_where_group *group)
{
    struct piece piece;
    const struct lp_where_member *first = group->members;
    const char *word = first->sort == LP_SORT_SUSPENDED   ? "suspended"
                       : first->sort == LP_SORT_NOT_KNOWN ? "n/a"
                                                          : state_word(first->thread->state);
    for (size_t i = 1; first->sort == LP_SORT_BUSY && i < group->n_members; i++)
        if (group->members[i].thread->state != first->thread->state)
            word = "busy";
    if (first->sort == LP_SORT_BUSY && group->n_threads == 1 && first->thread->state == LP_WHERE_PARTLY)
        snprintf(piece.text, sizeof piece.text, "CPU %s", lp_report_percent(first->thread->cpu_share).text);
    else
        snprintf(piece.text, sizeof piece.text, "%s", word[0] == 'p' ? "busy" : word);
    return piece;
}

/* The role, as report headings have it. */
static void role(struct lp_report_page *page, const struct lp_stacks_text *name)
{
    char upper[LP_WHERE_NAME_COLUMNS + 1];
    lp_report_page_style(page, LP_STYLE_BOLD);
    if (name->len == 0 || name->len > LP_WHERE_NAME_COLUMNS) {
        lp_where_name(page, name->bytes, name->len);
    } else {
        for (size_t i = 0; i < name->len; i++) {
            bool small = name->bytes[i] >= 'a' && name->bytes[i] <= 'z';
            upper[i] = (char)(name->bytes[i] - (small ? 'a' - 'A' : 0));
        }
        lp_report_page_name(page, upper, name->len, LP_WHERE_NAME_COLUMNS);
    }
    lp_report_page_style(page, LP_STYLE_PLAIN);
}

static bool same_name(const struct lp_stacks_text *a, const struct lp_stacks_text *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->bytes, b->bytes, a->len) == 0);
}

/* The threads' name; where they differ in digits, '#' for these. */
static void thread_name(struct lp_report_page *page, const struct lp_where_group *group)
{
    const struct lp_stacks_text *name = &group->members[0].thread->open.name;
    char shape[64];
    size_t len = 0;
    bool same = true;
    for (size_t i = 1; same && i < group->n_members; i++)
        same = same_name(name, &group->members[i].thread->open.name);
    if (same || name->len > sizeof shape) {
        label(page, name, LP_WHERE_NAME_COLUMNS);
        return;
    }
    for (size_t i = 0; i < name->len; i++) {
        bool digit = name->bytes[i] >= '0' && name->bytes[i] <= '9';
        if (!digit)
            shape[len++] = name->bytes[i];
        else if (len == 0 || shape[len - 1] != '#')
            shape[len++] = '#';
    }
    lp_report_page_label(page, shape, len, LP_WHERE_NAME_COLUMNS);
}

/* The numbers by which people know them: ranks of a launch if all have one, else which of its role each is if that
   tells them apart, else pids. Members are sorted by these. */
enum known_by { BY_RANK, BY_INDEX, BY_PID };

static enum known_by known_by(const struct lp_where_group *group)
{
    bool ranks = true, indices = true;
    const struct lp_where_worker *last = NULL;
    for (size_t i = 0; i < group->n_members; i++) {
        const struct lp_where_worker *worker = group->members[i].worker;
        ranks &= worker->stacks.rank >= 0;
        indices &= worker->stacks.index >= 0;
        indices &= last == NULL || last == worker || last->stacks.index < worker->stacks.index;
        last = worker;
    }
    return ranks ? BY_RANK : indices ? BY_INDEX : BY_PID;
}

static uint64_t number_of(const struct lp_stacks *stacks, enum known_by by)
{
    return by == BY_RANK ? (uint64_t)stacks->rank : by == BY_INDEX ? (uint64_t)stacks->index : stacks->pid;
}

/* A list of numbers "0-13, 15" in so many columns, what does not fit being "...". */
struct numbers {
    char text[96];
    size_t len, room;
    uint64_t first, last;
    bool any, full;
};

/* Of the last item nothing follows that would need room for "...". */
static void numbers_flush(struct numbers *numbers, bool last)
{
    char item[64];
    const char *comma = numbers->len > 0 ? ", " : "";
    if (!numbers->any || numbers->full)
        return;
    if (numbers->first == numbers->last)
        snprintf(item, sizeof item, "%s%" PRIu64, comma, numbers->first);
    else
        snprintf(item, sizeof item, "%s%" PRIu64 "%s%" PRIu64, comma, numbers->first,
                 numbers->last - numbers->first > 1 ? "-" : ", ", numbers->last);
    size_t len = strlen(item);
    if (numbers->len > 0 && numbers->len + len + (last ? 0 : 5) > numbers->room) {
        snprintf(item, sizeof item, ", ...");
        len = 5;
        numbers->full = true;
    }
    memcpy(numbers->text + numbers->len, item, len + 1);
    numbers->len += len;
}

static void numbers_add(struct numbers *numbers, uint64_t number)
{
    if (numbers->any && (number == numbers->last || number == numbers->last + 1)) {
        numbers->last = number;
        return;
    }
    numbers_flush(numbers, false);
    numbers->first = numbers->last = number;
    numbers->any = true;
}

static void who_are(struct lp_report_page *page, const struct lp_where_group *group)
{
    static const char *const titles[] = {"ranks ", "index ", "pids "};
    enum known_by by = known_by(group);
    const char *what = titles[by];
    size_t used = page->column + strlen(what) + 3;
    struct numbers numbers = {.room = used + 12 < page->width ? page->width - used : 12};
    if (numbers.room > sizeof numbers.text - 32)
        numbers.room = sizeof numbers.text - 32;
    for (size_t i = 0; i < group->n_members; i++) {
        const struct lp_stacks *stacks = &group->members[i].worker->stacks;
        if (i == 0 || group->members[i].worker != group->members[i - 1].worker)
            numbers_add(&numbers, number_of(stacks, by));
    }
    numbers_flush(&numbers, true);
    lp_where_part(page);
    text(page, what);
    text(page, numbers.text);
}

static void who_is(struct lp_report_page *page, const struct lp_stacks *stacks)
{
    lp_where_part(page);
    if (stacks->rank >= 0 || stacks->index >= 0) {
        text(page, lp_report_process(stacks->rank, stacks->index, (int64_t)stacks->pid).text);
        text(page, ", ");
    }
    text(page, lp_report_process(-1, -1, (int64_t)stacks->pid).text);
}

/* How many of what: "200 tasks", "28 threads", "14 workers". */
static void how_many(struct lp_report_page *page, const struct lp_where_group *group)
{
    const struct lp_stacks_stack *stack = group->members[0].stack;
    if (stack && stack->task) {
        lp_where_part(page);
        text(page, lp_report_text_plural(group->n_members, "task", "tasks").text);
    }
    if (group->n_threads > group->n_workers) {
        lp_where_part(page);
        text(page, lp_report_text_plural(group->n_threads, "thread", "threads").text);
    }
    if (group->n_workers == 1) {
        who_is(page, &group->members[0].worker->stacks);
        return;
    }
    lp_where_part(page);
    text(page, lp_report_text_plural(group->n_workers, "worker", "workers").text);
    who_are(page, group);
}

/* ---- what is open --------------------------------------------------------------------------------- */

static struct piece open_range(const struct lp_where_group *group, size_t frame)
{
    struct lp_where_range range = {UINT64_MAX, 0};
    for (size_t i = 0; i < group->n_members; i++) {
        uint64_t open_ns = group->members[i].stack->frames[frame].open_ns;
        range.min_ns = open_ns < range.min_ns ? open_ns : range.min_ns;
        range.max_ns = open_ns > range.max_ns ? open_ns : range.max_ns;
    }
    return duration_range(range);
}

#define BETWEEN " > "
#define CUT "\xe2\x80\xa6 > "
#define CUT_COLUMNS 4
#define SKIPS " > (sampled, not measured)"

/* The innermost phases that fit on a line; outer ones are behind an ellipsis. */
static void frames(struct lp_report_page *page, const struct lp_where_group *group)
{
    const struct lp_stacks_stack *stack = group->members[0].stack;
    size_t room = page->width - INDENT, first = stack->n_frames, taken = stack->skips ? strlen(SKIPS) : 0;
    for (; first > 0; first--) {
        size_t more = label_columns(&stack->frames[first - 1].name, LP_WHERE_NAME_COLUMNS) + 1 +
                      strlen(open_range(group, first - 1).text);
        more += first < stack->n_frames ? strlen(BETWEEN) : 0;
        if (first < stack->n_frames && taken + more + (first > 1 ? CUT_COLUMNS : 0) > room)
            break;
        taken += more;
    }
    lp_report_page_to(page, INDENT);
    text(page, first > 0 ? CUT : "");
    for (size_t i = first; i < stack->n_frames; i++) {
        text(page, i > first ? BETWEEN : "");
        label(page, &stack->frames[i].name, LP_WHERE_NAME_COLUMNS);
        text(page, " ");
        text(page, open_range(group, i).text);
    }
    if (stack->skips)
        text(page, stack->n_frames > 0 ? SKIPS : "(sampled, not measured)");
    lp_report_page_end(page);
}

static bool same_path(const struct lp_stacks_thread *a, const struct lp_stacks_thread *b)
{
    bool same = a->finished_depth == b->finished_depth;
    for (size_t i = 0; same && i < a->finished_depth; i++)
        same = same_name(&a->finished_path[i], &b->finished_path[i]);
    return same;
}

/* What the members finished last, where all did and it can be said in one phrase. */
static bool finished(struct lp_report_page *page, const struct lp_where_group *group)
{
    const struct lp_stacks_thread *first = &group->members[0].thread->open;
    struct lp_where_range range = {UINT64_MAX, 0};
    bool all = true, same = first->finished_depth > 0;
    for (size_t i = 0; all && i < group->n_members; i++) {
        const struct lp_stacks_thread *thread = &group->members[i].thread->open;
        all = thread->finished;
        same = same && same_path(first, thread);
        range.min_ns = thread->finished_ago_ns < range.min_ns ? thread->finished_ago_ns : range.min_ns;
        range.max_ns = thread->finished_ago_ns > range.max_ns ? thread->finished_ago_ns : range.max_ns;
    }
    if (!all)
        return false;
    text(page, "last finished ");
    if (same)
        label(page, &first->finished_path[first->finished_depth - 1], LP_WHERE_NAME_COLUMNS);
    else
        text(page, "a phase");
    text(page, " ");
    text(page, duration_range(range).text);
    text(page, " ago");
    return true;
}

static const char *wait_channel(const struct lp_where_group *group)
{
    const struct lp_where_member *first = group->members;
    if (first->sort != LP_SORT_WAITING && first->sort != LP_SORT_BLOCKED)
        return "";
    for (size_t i = 1; i < group->n_members; i++)
        if (strcmp(group->members[i].thread->wait_channel, first->thread->wait_channel) != 0)
            return "";
    return first->thread->wait_channel;
}

#define IN_KERNEL "in the kernel: "

static void details(struct lp_report_page *page, const struct lp_where_group *group)
{
    const char *channel = wait_channel(group);
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_to(page, INDENT);
    size_t begin = page->column;
    bool any = finished(page, group);
    if (*channel) {
        if (any)
            part_of(page, strlen(IN_KERNEL) + strlen(channel), INDENT);
        text(page, IN_KERNEL);
        text(page, channel);
    }
    if (page->column > begin)
        lp_report_page_end(page);
    else
        page->column = page->owed = 0;
}

static void entry(struct lp_report_page *page, const struct lp_where_group *group)
{
    const struct lp_where_member *first = group->members;
    bool asleep = first->sort == LP_SORT_STOPPED || first->sort == LP_SORT_BLOCKED;
    lp_report_page_right(page, lp_report_duration((double)group->quiet.max_ns).text, QUIET_END);
    lp_report_page_to(page, STATE_COLUMN);
    lp_report_page_style(page, asleep ? LP_STYLE_BOLD : LP_STYLE_PLAIN);
    text(page, state_of(group).text);
    lp_report_page_style(page, LP_STYLE_PLAIN);
    lp_report_page_to(page, WHO_COLUMN);
    role(page, &first->worker->stacks.role);
    text(page, " ");
    thread_name(page, group);
    how_many(page, group);
    lp_report_page_end(page);
    if (first->stack)
        frames(page, group);
    details(page, group);
}

static size_t finished_columns(const struct lp_report_page *page, const struct lp_where_group *group)
{
    struct draft draft;
    draft_begin(&draft, page->width, false);
    size_t columns = finished(&draft.page, group) ? draft.page.column : strlen("nothing finished");
    draft_end(&draft, page->sink);
    return columns;
}

/* A thread with nothing open, in one line if it fits. */
static void idle(struct lp_report_page *page, const struct lp_where_group *group)
{
    const struct lp_where_member *first = group->members;
    lp_report_page_to(page, 2);
    text(page, "nothing open: ");
    lp_where_name(page, first->worker->stacks.role.bytes, first->worker->stacks.role.len);
    text(page, " ");
    thread_name(page, group);
    if (group->n_threads > 1) {
        text(page, " x");
        text(page, lp_report_count(group->n_threads).text);
    } else {
        who_is(page, &first->worker->stacks);
    }
    part_of(page, strlen(state_of(group).text), IDLE_INDENT);
    text(page, state_of(group).text);
    part_of(page, finished_columns(page, group), IDLE_INDENT);
    if (!finished(page, group))
        text(page, "nothing finished");
    lp_report_page_end(page);
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static void left_out(struct lp_report_page *page, const struct lp_where_groups *groups, size_t from)
{
    size_t n = 0;
    for (size_t i = from; i < groups->n_groups; i++)
        n += groups->groups[i].n_members;
    lp_report_page_style(page, LP_STYLE_DIM);
    lp_report_page_to(page, 2);
    text(page, "and ");
    text(page, lp_report_count(n).text);
    text(page, " more, quiet for less or with nothing open: --all shows them");
    lp_report_page_end(page);
}

/* Entries as long as there are lines for them; 0: all. The first always. */
static void entries(struct lp_report_page *page, const struct lp_where_groups *groups, size_t lines, bool bounded)
{
    for (size_t i = 0; i < groups->n_groups; i++) {
        struct draft draft;
        const struct lp_where_group *group = &groups->groups[i];
        draft_begin(&draft, page->width, page->colour);
        if (group->members[0].stack)
            entry(&draft.page, group);
        else
            idle(&draft.page, group);
        size_t needed = draft_lines(&draft), reserve = i + 1 < groups->n_groups ? LEFT_OUT_LINES : 0;
        if (bounded && i > 0 && needed + reserve > lines) {
            draft.text.len = 0;
            draft_end(&draft, page->sink);
            left_out(page, groups, i);
            return;
        }
        lines -= needed < lines ? needed : lines;
        draft_end(&draft, page->sink);
    }
}

static void write_page(struct lp_report_page *page, const struct lp_where *where, const struct lp_where_groups *groups,
                       size_t rows)
{
    struct draft begin, end;
    draft_begin(&begin, page->width, page->colour);
    header(&begin.page, where);
    if (groups->n_groups > 0)
        columns(&begin.page);
    draft_begin(&end, page->width, page->colour);
    lp_where_others(&end.page, where, rows > 0);
    size_t others = draft_lines(&end), head = draft_lines(&begin);
    draft_end(&begin, page->sink);
    rows = rows > 0 && rows < MIN_ROWS ? MIN_ROWS : rows;
    entries(page, groups, rows > head + others ? rows - head - others : 1, rows > 0);
    draft_end(&end, page->sink);
}

int lp_report_where_text(const struct lp_where *where, const struct lp_report_where_options *options,
                         struct lp_report_sink *sink)
{
    struct lp_report_page page;
    struct lp_where_groups groups;
    struct lp_report_options report = {.width = options->width};
    if (lp_where_groups_make(&groups, where) != 0) {
        lp_report_fail(sink, -ENOMEM);
        return sink->error;
    }
    lp_report_page_init(&page, sink, lp_report_text_width(&report), options->colour);
    write_page(&page, where, &groups, options->rows);
    lp_report_page_release(&page);
    lp_where_groups_release(&groups);
    return sink->error;
}
