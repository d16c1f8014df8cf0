/*
 * lines/table: figures of the lines of one code object.
 *
 * A table belongs to one thread and one region, so that nobody but its thread ever writes it. Times are signed: the
 * profiler's own time, which is taken out of them, is known to some nanoseconds only, and what is a little too much in
 * one place is a little too little in another. Sums are right; who shows one negative shows zero.
 *
 * Must not know: Python.
 */
#ifndef LP_LINES_TABLE_H
#define LP_LINES_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/* Wall and CPU time, of a moment or between two; nanoseconds. */
struct lp_lines_time {
    int64_t wall_ns, cpu_ns;
};

struct lp_line {
    uint64_t hits;            /* How often it was begun. */
    struct lp_lines_time own; /* While its frame was the innermost one that is profiled. */
    struct lp_lines_time
        repeated;               /* The part of own that passed while a frame further out had called from this line. */
    struct lp_lines_time below; /* In frames that were called from it, each moment once. */
    struct lp_lines_time since; /* When pending became 1. */
    uint32_t pending;           /* Frames on the stack that have called from it. */
    uint32_t suspended;         /* Coroutines that wait in it at this moment, */
    uint32_t most_suspended;    /* and at most. */
    int64_t awaited_ns;         /* Wall time that coroutines waited in it, summed. */
};

struct lp_lines_table {
    struct lp_lines_table *next; /* Of the same code object. */
    const void *thread, *region; /* Whose it is. */
    uint64_t calls;
    struct lp_lines_time inclusive; /* While any frame of it was on the stack: each moment once. */
    struct lp_lines_time since;     /* When depth became 1. */
    uint32_t depth;                 /* Its frames on the stack. */
    int base_line;                  /* The number of lines[0]. */
    uint32_t n_lines;
    struct lp_line lines[];
};

/* NULL without memory. To be given to free(). */
struct lp_lines_table *lp_lines_table_new(int base_line, uint32_t n_lines);
/* Adds the figures of one that is at rest. */
void lp_lines_table_add(struct lp_lines_table *sum, const struct lp_lines_table *of);

static inline void lp_lines_time_add(struct lp_lines_time *sum, struct lp_lines_time from, struct lp_lines_time to)
{
    sum->wall_ns += to.wall_ns - from.wall_ns;
    sum->cpu_ns += to.cpu_ns - from.cpu_ns;
}

/* With the calls it makes, recursion counted once. */
static inline struct lp_lines_time lp_line_total(const struct lp_line *line)
{
    return (struct lp_lines_time){line->own.wall_ns - line->repeated.wall_ns + line->below.wall_ns,
                                  line->own.cpu_ns - line->repeated.cpu_ns + line->below.cpu_ns};
}

#endif
