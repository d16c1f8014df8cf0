#include "lines/events.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct lp_lines_here lp_lines_here __attribute__((tls_model("initial-exec")));
struct lp_lines_engine *lp_lines_running;
uint64_t lp_lines_session;

/* What else was asked of the kernel is measured, and ours. */
struct lp_lines_time lp_lines_now_resynced(struct lp_lines_thread *thread)
{
    struct lp_reading now = lp_cpu_resync(&thread->cpu, LP_EDGE_LEAVE);
    struct lp_lines_time time = lp_lines_time_at(thread, now.wall_ns, now.cpu_ns);
    thread->overhead_q8 += ((int64_t)lp_wall_ns() - (int64_t)now.wall_ns) * 256;
    return time;
}

struct lp_reading lp_lines_work_begins(struct lp_lines_thread *thread)
{
    return lp_cpu_read(&thread->cpu, LP_EDGE_LEAVE);
}

void lp_lines_work_ends(struct lp_lines_thread *thread, struct lp_reading from)
{
    struct lp_reading now = lp_cpu_read(&thread->cpu, LP_EDGE_ENTER);
    int64_t took_ns = (int64_t)(now.wall_ns - from.wall_ns), ran_ns = (int64_t)(now.cpu_ns - from.cpu_ns);
    thread->overhead_q8 += took_ns * 256;
    if (took_ns > ran_ns)
        thread->absent_ns += took_ns - ran_ns;
}

static struct lp_lines_region *whole_of(const struct lp_lines_engine *engine)
{
    struct lp_lines_region *region = engine->regions;
    while (region->parent)
        region = region->next;
    return region;
}

void lp_lines_stop_recording(struct lp_lines_engine *engine)
{
    engine->no_memory = true;
    lp_lines_session = 0;
}

/* One that has ended, whose tables the next thread may as well go on with; NULL: none of some is. */
static struct lp_lines_thread *ended_thread(struct lp_lines_engine *engine)
{
    for (int i = 0; i < 4 && engine->threads; i++) {
        struct lp_lines_thread *thread = engine->looked_at ? engine->looked_at : engine->threads;
        engine->looked_at = thread->next;
        if (thread->stack.n == 0 && syscall(SYS_tgkill, getpid(), thread->tid, 0) != 0 && errno == ESRCH)
            return thread;
    }
    return NULL;
}

static struct lp_lines_thread *added_thread(struct lp_lines_engine *engine)
{
    struct lp_lines_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return NULL;
    thread->engine = engine;
    thread->next = engine->threads;
    engine->threads = thread;
    return thread;
}

struct lp_lines_thread *lp_lines_thread_new(void)
{
    struct lp_lines_engine *engine = lp_lines_running;
    struct lp_lines_thread *thread = ended_thread(engine);
    if (!thread && (thread = added_thread(engine)) == NULL) {
        lp_lines_stop_recording(engine);
        return NULL;
    }
    lp_cpu_init(&thread->cpu, LP_CPU_OF_LINES);
    thread->tid = (uint64_t)syscall(SYS_gettid);
    thread->region = whole_of(engine);
    thread->frames = (struct lp_lines_frames){0};
    lp_lines_here = (struct lp_lines_here){lp_lines_session, thread};
    thread->stack.last = lp_lines_now_resynced(thread);
    return thread;
}

static void charge(struct lp_lines_thread *thread, int64_t cost_q8)
{
    thread->overhead_q8 += cost_q8;
    thread->events++;
}

static bool push(struct lp_lines_thread *thread, struct lp_lines_code *code, const void *frame, struct lp_line *line,
                 struct lp_lines_time now)
{
    struct lp_lines_table *table = lp_lines_table_of(code, thread);
    struct lp_lines_frame made = {.frame = frame, .code = code->code, .table = table, .line = line};
    if (table && lp_lines_stack_push(&thread->stack, made, now) == 0)
        return true;
    lp_lines_stop_recording(thread->engine);
    return false;
}

/* NULL: no line has that. */
static struct lp_line *line_at(const struct lp_lines_code *code, struct lp_lines_table *table, uint32_t unit)
{
    uint32_t index = unit < code->n_units ? code->line_of_unit[unit] : UINT32_MAX;
    return index < table->n_lines ? &table->lines[index] : NULL;
}

/* One that ended without a word was in the same place. */
static void drop_stale(struct lp_lines_thread *thread, const void *frame, struct lp_lines_time now)
{
    const struct lp_lines_frame *top = lp_lines_stack_top(&thread->stack);
    if (top && top->frame == frame)
        lp_lines_stack_pop(&thread->stack, now);
}

void lp_lines_frame_begins(struct lp_lines_thread *thread, struct lp_lines_code *code, const void *frame)
{
    struct lp_lines_time now = lp_lines_now(thread);
    drop_stale(thread, frame, now);
    if (push(thread, code, frame, NULL, now))
        lp_lines_stack_top(&thread->stack)->table->calls++;
    charge(thread, thread->engine->costs.call_q8);
}

void lp_lines_frame_goes_on(struct lp_lines_thread *thread, struct lp_lines_code *code, const void *frame,
                            uint32_t unit)
{
    struct lp_lines_time now = lp_lines_now(thread);
    struct lp_lines_table *table = lp_lines_table_of(code, thread);
    drop_stale(thread, frame, now);
    if (code->waits)
        lp_lines_waits_end(&thread->engine->waits, frame, code->code, (int64_t)lp_wall_ns());
    push(thread, code, frame, table ? line_at(code, table, unit) : NULL, now);
    charge(thread, thread->engine->costs.call_q8);
}

/* Whether it is the innermost one now. */
static bool bring_to_top(struct lp_lines_thread *thread, const void *frame, const PyCodeObject *code,
                         struct lp_lines_time now)
{
    ptrdiff_t i = lp_lines_stack_find(&thread->stack, frame, code);
    if (i >= 0)
        lp_lines_stack_cut(&thread->stack, (uint32_t)i + 1, now);
    return i >= 0;
}

/* A frame in which no line was begun: its code is all on the line that its call is said to be on. */
static void begin_only_line(struct lp_lines_thread *thread, struct lp_lines_frame *top, PyCodeObject *code,
                            uint32_t unit, struct lp_lines_time now)
{
    struct lp_lines_code *known = lp_lines_code_of(thread->engine, code);
    struct lp_line *line = known && known->inside ? line_at(known, top->table, unit) : NULL;
    if (line)
        lp_lines_stack_begin(&thread->stack, top, line, now);
}

void lp_lines_frame_ends(struct lp_lines_thread *thread, const void *frame, PyCodeObject *code, uint32_t unit,
                         enum lp_lines_end how, bool waits)
{
    struct lp_lines_time now = lp_lines_now(thread);
    struct lp_lines_frame *top = lp_lines_stack_top(&thread->stack);
    if (!top || top->frame != frame || top->code != code) {
        if (!bring_to_top(thread, frame, code, now))
            return;
        top = lp_lines_stack_top(&thread->stack);
    }
    if (!top->line && how != LP_LINES_UNWINDS)
        begin_only_line(thread, top, code, unit, now);
    if (waits && top->line)
        lp_lines_waits_begin(&thread->engine->waits, frame, code, top->line, (int64_t)lp_wall_ns());
    lp_lines_stack_pop(&thread->stack, now);
    charge(thread, thread->engine->costs.call_q8);
}

void lp_lines_line_elsewhere(struct lp_lines_thread *thread, const void *frame, PyCodeObject *code, int number)
{
    struct lp_lines_time now = lp_lines_now(thread);
    struct lp_reading from = lp_lines_work_begins(thread);
    struct lp_lines_code *known = lp_lines_code_of(thread->engine, code);
    if (!known || !known->inside)
        return;
    if (!bring_to_top(thread, frame, code, now) && !push(thread, known, frame, NULL, now))
        return;
    struct lp_lines_frame *top = lp_lines_stack_top(&thread->stack);
    uint64_t index = (uint64_t)((int64_t)number - top->table->base_line);
    if (index < top->table->n_lines)
        lp_lines_stack_begin(&thread->stack, top, &top->table->lines[index], now);
    lp_lines_work_ends(thread, from);
    thread->events++;
}
