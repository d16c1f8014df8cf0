/*
 * lines/events: what each event does. The plainest, a line of the innermost frame, is inline.
 */
#ifndef LP_LINES_EVENTS_H
#define LP_LINES_EVENTS_H

#include "lines/engine.h"

/* NULL: nothing is recorded. */
static inline struct lp_lines_thread *lp_lines_thread_here(void)
{
    if (LP_LIKELY(lp_lines_here.session == lp_lines_session))
        return lp_lines_here.thread;
    return lp_lines_session ? lp_lines_thread_new() : NULL;
}

/* A reading without what the profiler has taken. */
static inline struct lp_lines_time lp_lines_time_at(const struct lp_lines_thread *thread, uint64_t wall_ns,
                                                    uint64_t cpu_ns)
{
    int64_t taken_ns = thread->overhead_q8 >> 8;
    return (struct lp_lines_time){(int64_t)wall_ns - taken_ns, (int64_t)cpu_ns - taken_ns + thread->absent_ns};
}

struct lp_lines_time lp_lines_now_resynced(struct lp_lines_thread *thread);

static inline struct lp_lines_time lp_lines_now(struct lp_lines_thread *thread)
{
    struct lp_reading now;
    if (LP_UNLIKELY(!lp_cpu_extrapolate(&thread->cpu, &now)))
        return lp_lines_now_resynced(thread);
    return lp_lines_time_at(thread, now.wall_ns, now.cpu_ns);
}

/* A line begins. */
static inline void lp_lines_line(struct lp_lines_thread *thread, const void *frame, PyCodeObject *code, long number)
{
    struct lp_lines_frame *top = lp_lines_stack_top(&thread->stack);
    if (LP_UNLIKELY(!top || top->frame != frame || top->code != code)) {
        lp_lines_line_elsewhere(thread, frame, code, (int)number);
        return;
    }
    struct lp_lines_time now = lp_lines_now(thread);
    uint64_t index = (uint64_t)(number - top->table->base_line);
    if (LP_LIKELY(index < top->table->n_lines))
        lp_lines_stack_begin(&thread->stack, top, &top->table->lines[index], now);
    thread->overhead_q8 += thread->engine->costs.line_q8;
    thread->events++;
}

#endif
