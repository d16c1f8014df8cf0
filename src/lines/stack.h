/*
 * lines/stack: the profiled frames that run on one thread, and who is billed for the time that goes by.
 *
 * Time is billed at each event, up to that event's moment: to the line that the innermost frame is in. A line that calls
 * a profiled frame is billed, in `below`, from that frame's push to its pop.
 *
 * A frame is known by an address that it alone has while it lives. Events can be missed, and greenlets change stacks in
 * the middle of a thread, so a caller looks whether the innermost frame is the one that the event is of, and
 * puts the stack in order if it is not (lp_lines_stack_find, lp_lines_stack_cut).
 *
 * Must not know: Python, clocks. The moments of one stack never go back.
 */
#ifndef LP_LINES_STACK_H
#define LP_LINES_STACK_H

#include "lines/table.h"

#include <stddef.h>

struct lp_lines_frame {
    const void *frame, *code;          /* What tells it from others. */
    struct lp_lines_table *table;      /* Borrowed; NULL: its code object is gone. */
    struct lp_line *line;              /* In table; NULL: none was begun yet. */
    struct lp_lines_table *next_table; /* Borrowed: what lp_lines_stack_move is to go on with. */
};

struct lp_lines_stack {
    struct lp_lines_frame *frames; /* Owned; from the outside in. */
    uint32_t n, size;
    struct lp_lines_time last; /* Up to when time is billed. */
};

void lp_lines_stack_free(struct lp_lines_stack *stack);

static inline struct lp_lines_frame *lp_lines_stack_top(const struct lp_lines_stack *stack)
{
    return stack->n > 0 ? &stack->frames[stack->n - 1] : NULL;
}

/* A frame begins or goes on. -1 without memory. */
int lp_lines_stack_push(struct lp_lines_stack *stack, struct lp_lines_frame frame, struct lp_lines_time now);
/* The innermost frame ends or is suspended. */
void lp_lines_stack_pop(struct lp_lines_stack *stack, struct lp_lines_time now);
/* Index of the frame; -1: it is not there. */
ptrdiff_t lp_lines_stack_find(const struct lp_lines_stack *stack, const void *frame, const void *code);
/* Until no more than n are left. */
void lp_lines_stack_cut(struct lp_lines_stack *stack, uint32_t n, struct lp_lines_time now);
/* Bills all that is open, which stays open. */
void lp_lines_stack_settle(struct lp_lines_stack *stack, struct lp_lines_time now);
/* From now on the frames are billed in their next tables, which are of the same shapes. */
void lp_lines_stack_move(struct lp_lines_stack *stack, struct lp_lines_time now);
/* A code object has gone, and its tables with it. */
void lp_lines_stack_forget(struct lp_lines_stack *stack, const void *code);

static inline void lp_line_bill(struct lp_line *line, struct lp_lines_time from, struct lp_lines_time to)
{
    lp_lines_time_add(&line->own, from, to);
    if (__builtin_expect(line->pending > 0, 0))
        lp_lines_time_add(&line->repeated, from, to);
}

/* The innermost frame begins a line. What passed since its push is the first line's. */
static inline void lp_lines_stack_begin(struct lp_lines_stack *stack, struct lp_lines_frame *top, struct lp_line *line,
                                        struct lp_lines_time now)
{
    struct lp_line *ended = top->line ? top->line : line;
    lp_line_bill(ended, stack->last, now);
    top->line = line;
    line->hits++;
    stack->last = now;
}

#endif
