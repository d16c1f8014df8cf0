/*
 * report/where_groups: stacks that are alike, put together.
 *
 * Alike are those of one role, on threads whose names differ in digits only, with the same open phases, in the same sort
 * of state, and with no gap in how long they have been quiet that sets those that hang apart from those that pass. What
 * differs among them is kept as a range. Threads with nothing open are grouped too, and come last, main
 * threads before others.
 */
#ifndef LP_REPORT_WHERE_GROUPS_H
#define LP_REPORT_WHERE_GROUPS_H

#include "run/where.h"

/* Sorts of state: one that works looks different from one moment to the next. */
enum lp_where_sort {
    LP_SORT_BUSY,
    LP_SORT_WAITING,
    LP_SORT_BLOCKED,
    LP_SORT_STOPPED,
    LP_SORT_ENDED,
    LP_SORT_SUSPENDED,
    LP_SORT_NOT_KNOWN
};

/* A stack, or a thread that has none. Borrowed. */
struct lp_where_member {
    const struct lp_where_worker *worker;
    const struct lp_where_thread *thread;
    const struct lp_stacks_stack *stack; /* NULL: nothing is open */
    enum lp_where_sort sort;
};

struct lp_where_range {
    uint64_t min_ns, max_ns;
};

struct lp_where_group {
    const struct lp_where_member *members; /* Borrowed: by worker, then thread, in the order of the run's. */
    size_t n_members, n_threads, n_workers;
    struct lp_where_range quiet; /* of those that did anything; max_ns is 0 if none did */
};

struct lp_where_groups {
    struct lp_where_group *groups; /* Owned; those with something open first, the longest quiet first, and of
                                      such that read the same the smallest; then idle main threads, then others */
    size_t n_groups;
    struct lp_where_member *members; /* Owned. */
    size_t n_members;
};

/* 0, or -1 without memory. */
int lp_where_groups_make(struct lp_where_groups *groups, const struct lp_where *where);
void lp_where_groups_release(struct lp_where_groups *groups);

uint64_t lp_where_member_quiet_ns(const struct lp_where_member *member);

#endif
