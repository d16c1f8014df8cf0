#include "report/where_groups.h"

#include <stdlib.h>
#include <string.h>

#include "report/format.h"

/* Quiet for so long, and for over so many times as long as the next: an entry of its own. */
#define APART_NS 1000000000u
#define APART_FOLD 10

/* ---- members -------------------------------------------------------------------------- */

static enum lp_where_sort sort_of(const struct lp_where_thread *thread, const struct lp_stacks_stack *stack)
{
    if (thread->state == LP_WHERE_STOPPED) /* and with it whatever is suspended on it: no loop resumes that */
        return LP_SORT_STOPPED;
    if (stack && stack->task && stack->runs != LP_STACKS_RUNNING)
        return stack->runs == LP_STACKS_SUSPENDED ? LP_SORT_SUSPENDED : LP_SORT_NOT_KNOWN;
    switch (thread->state) {
    case LP_WHERE_ON_CPU:
    case LP_WHERE_PARTLY:
    case LP_WHERE_RUNNABLE:
        return LP_SORT_BUSY;
    case LP_WHERE_WAITING:
        return LP_SORT_WAITING;
    case LP_WHERE_BLOCKED:
        return LP_SORT_BLOCKED;
    case LP_WHERE_ENDED:
        return LP_SORT_ENDED;
    case LP_WHERE_STOPPED:
    case LP_WHERE_NOT_KNOWN:
        break;
    }
    return LP_SORT_NOT_KNOWN;
}

static size_t count_members(const struct lp_where *where)
{
    size_t n = 0;
    for (size_t i = 0; i < where->n_workers; i++)
        for (size_t j = 0; j < where->workers[i].n_threads; j++)
            n += where->workers[i].threads[j].open.n_stacks + 1;
    return n;
}

static void add_members(struct lp_where_groups *groups, const struct lp_where_worker *worker,
                        const struct lp_where_thread *thread)
{
    size_t n = thread->open.n_stacks;
    for (size_t i = 0; i < n || (i == 0 && n == 0); i++) {
        const struct lp_stacks_stack *stack = n > 0 ? &thread->open.stacks[i] : NULL;
        groups->members[groups->n_members++] = (struct lp_where_member){worker, thread, stack, sort_of(thread, stack)};
    }
}

uint64_t lp_where_member_quiet_ns(const struct lp_where_member *member)
{
    uint64_t quiet_ns = member->stack ? member->stack->quiet_ns : member->thread->open.quiet_ns;
    return quiet_ns == UINT64_MAX ? 0 : quiet_ns;
}

/* ---- likeness ----------------------------------------------------------------------------- */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_texts(const struct lp_stacks_text *a, const struct lp_stacks_text *b)
{
    size_t len = a->len < b->len ? a->len : b->len;
    int order = len > 0 ? memcmp(a->bytes, b->bytes, len) : 0;
    return order ? order : compare_numbers(a->len, b->len);
}

/* The next character, of a run of digits the first as '0'; -1 at the end. */
static int next_of_shape(const struct lp_stacks_text *text, size_t *at)
{
    if (*at == text->len)
        return -1;
    unsigned char c = (unsigned char)text->bytes[(*at)++];
    if (c < '0' || c > '9')
        return c;
    while (*at < text->len && text->bytes[*at] >= '0' && text->bytes[*at] <= '9')
        ++*at;
    return '0';
}

static int compare_shapes(const struct lp_stacks_text *a, const struct lp_stacks_text *b)
{
    for (size_t i = 0, j = 0;;) {
        int one = next_of_shape(a, &i), other = next_of_shape(b, &j);
        if (one != other || one < 0)
            return one - other;
    }
}

static int compare_stacks(const struct lp_stacks_stack *a, const struct lp_stacks_stack *b)
{
    if (!a || !b)
        return !a - !b;
    int order = a->task - b->task;
    if (order == 0)
        order = compare_numbers(a->n_frames, b->n_frames);
    if (order == 0)
        order = a->skips - b->skips;
    for (size_t i = 0; order == 0 && i < a->n_frames; i++)
        order = compare_texts(&a->frames[i].name, &b->frames[i].name);
    return order;
}

static int compare_kinds(const struct lp_where_member *a, const struct lp_where_member *b)
{
    int order = compare_stacks(a->stack, b->stack);
    if (order == 0)
        order = (int)a->sort - (int)b->sort;
    if (order == 0)
        order = compare_texts(&a->worker->stacks.role, &b->worker->stacks.role);
    return order ? order : compare_shapes(&a->thread->open.name, &b->thread->open.name);
}

static int compare_by_quiet(const void *a, const void *b)
{
    int order = compare_kinds(a, b);
    return order ? order : compare_numbers(lp_where_member_quiet_ns(b), lp_where_member_quiet_ns(a));
}

/* One that hangs where the others only pass is not like them, though in the same phases. */
static bool is_apart(const struct lp_where_member *longer, const struct lp_where_member *shorter)
{
    uint64_t quiet_ns = lp_where_member_quiet_ns(longer);
    return longer->stack && quiet_ns >= APART_NS && quiet_ns / APART_FOLD > lp_where_member_quiet_ns(shorter);
}

static int compare_places(const void *a, const void *b)
{
    const struct lp_where_member *one = a, *other = b;
    int order = (one->worker > other->worker) - (one->worker < other->worker);
    if (order == 0)
        order = (one->thread > other->thread) - (one->thread < other->thread);
    return order ? order : (one->stack > other->stack) - (one->stack < other->stack);
}

/* ---- groups --------------------------------------------------------------------------------- */

static void widen(struct lp_where_range *range, uint64_t ns)
{
    if (range->max_ns == 0 || ns < range->min_ns)
        range->min_ns = ns;
    if (ns > range->max_ns)
        range->max_ns = ns;
}

static void describe(struct lp_where_group *group)
{
    for (size_t i = 0; i < group->n_members; i++) {
        const struct lp_where_member *member = &group->members[i];
        group->n_workers += i == 0 || member->worker != member[-1].worker;
        group->n_threads += i == 0 || member->thread != member[-1].thread;
        widen(&group->quiet, lp_where_member_quiet_ns(member));
    }
}

static bool is_main(const struct lp_where_group *group)
{
    return group->members->thread->open.tid == group->members->worker->stacks.pid;
}

/* Of those that read equally quiet the odd one is the more telling. */
static int compare_open(const struct lp_where_group *one, const struct lp_where_group *other)
{
    struct lp_report_cell a = lp_report_duration((double)one->quiet.max_ns);
    struct lp_report_cell b = lp_report_duration((double)other->quiet.max_ns);
    int order = strcmp(a.text, b.text) == 0 ? compare_numbers(one->n_members, other->n_members) : 0;
    return order ? order : compare_numbers(other->quiet.max_ns, one->quiet.max_ns);
}

static int compare_groups(const void *a, const void *b)
{
    const struct lp_where_group *one = a, *other = b;
    int order = !one->members->stack - !other->members->stack;
    if (order == 0 && one->members->stack)
        order = compare_open(one, other);
    else if (order == 0)
        order = is_main(other) - is_main(one);
    if (order == 0)
        order = compare_numbers(other->quiet.max_ns, one->quiet.max_ns);
    return order ? order : (one->members > other->members) - (one->members < other->members);
}

int lp_where_groups_make(struct lp_where_groups *groups, const struct lp_where *where)
{
    size_t room = count_members(where) + 1;
    *groups = (struct lp_where_groups){.members = calloc(room, sizeof *groups->members),
                                       .groups = calloc(room, sizeof *groups->groups)};
    if (!groups->members || !groups->groups) {
        lp_where_groups_release(groups);
        return -1;
    }
    for (size_t i = 0; i < where->n_workers; i++)
        for (size_t j = 0; j < where->workers[i].n_threads; j++)
            add_members(groups, &where->workers[i], &where->workers[i].threads[j]);
    qsort(groups->members, groups->n_members, sizeof *groups->members, compare_by_quiet);
    for (size_t i = 0; i < groups->n_members; i++) {
        const struct lp_where_member *member = &groups->members[i];
        if (i == 0 || compare_kinds(member, &member[-1]) != 0 || is_apart(&member[-1], member))
            groups->groups[groups->n_groups++].members = member;
        groups->groups[groups->n_groups - 1].n_members++;
    }
    for (size_t i = 0; i < groups->n_groups; i++) {
        struct lp_where_group *group = &groups->groups[i];
        qsort(&groups->members[group->members - groups->members], group->n_members, sizeof *groups->members,
              compare_places);
        describe(group);
    }
    qsort(groups->groups, groups->n_groups, sizeof *groups->groups, compare_groups);
    return 0;
}

void lp_where_groups_release(struct lp_where_groups *groups)
{
    free(groups->members);
    free(groups->groups);
    *groups = (struct lp_where_groups){0};
}
