#include "lines/engine.h"

#include <errno.h>
#include <opcode.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "lines/events.h"

/* --- from its making to its end --- */

static struct lp_lines_region *region_new(struct lp_lines_engine *engine, struct lp_lines_region *parent,
                                          PyObject *name)
{
    struct lp_lines_region *region = calloc(1, sizeof *region);
    if (!region)
        return NULL;
    region->parent = parent;
    region->name = Py_XNewRef(name);
    region->next = engine->regions;
    engine->regions = region;
    return region;
}

static void regions_free(struct lp_lines_engine *engine)
{
    while (engine->regions) {
        struct lp_lines_region *region = engine->regions;
        engine->regions = region->next;
        Py_XDECREF(region->name);
        free(region);
    }
}

static void threads_free(struct lp_lines_engine *engine)
{
    engine->looked_at = NULL;
    while (engine->threads) {
        struct lp_lines_thread *thread = engine->threads;
        engine->threads = thread->next;
        lp_lines_stack_free(&thread->stack);
        free(thread);
    }
}

int lp_lines_engine_open(struct lp_lines_engine *engine, PyObject *folder)
{
    PyObject *name;
    if (!PyUnicode_FSConverter(folder, &name))
        return -1;
    int error = lp_lines_filter_open(&engine->filter, PyBytes_AS_STRING(name));
    Py_DECREF(name);
    if (error) {
        errno = -error;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, folder);
        return -1;
    }
    engine->verdicts = PyDict_New();
    if (!engine->verdicts)
        return -1;
    if (!region_new(engine, NULL, NULL)) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void lp_lines_engine_free(struct lp_lines_engine *engine)
{
    (void)lp_lines_engine_stop(engine); /* It does not run: who runs holds itself. */
    lp_lines_codes_free(engine);
    regions_free(engine);
    lp_lines_waits_free(&engine->waits);
    lp_lines_filter_free(&engine->filter);
    Py_CLEAR(engine->verdicts);
}

int lp_lines_engine_clear(struct lp_lines_engine *engine)
{
    if (lp_lines_running == engine) {
        PyErr_SetString(PyExc_RuntimeError, "cannot clear a LineProfiler while it runs: leave its block first");
        return -1;
    }
    lp_lines_codes_free(engine);
    regions_free(engine);
    engine->blocks_ns = engine->overhead_ns = 0;
    engine->events = 0;
    engine->cost_change = 0;
    engine->no_memory = engine->calls_missed = false;
    if (region_new(engine, NULL, NULL))
        return 0;
    PyErr_NoMemory();
    return -1;
}

/* --- open time of all threads --- */

/* A moment for a thread's stack: of another thread by what the kernel tells of it. */
static struct lp_lines_time moment_of(struct lp_lines_thread *thread)
{
    uint64_t cpu_ns;
    if (lp_lines_here.thread == thread && lp_lines_here.session == thread->engine->session.number)
        return lp_lines_now(thread);
    if (!lp_cpu_of_thread(thread->tid, &cpu_ns))
        return thread->stack.last; /* it has ended */
    struct lp_lines_time now = lp_lines_time_at(thread, lp_wall_ns(), cpu_ns);
    if (now.wall_ns < thread->stack.last.wall_ns)
        now.wall_ns = thread->stack.last.wall_ns;
    if (now.cpu_ns < thread->stack.last.cpu_ns)
        now.cpu_ns = thread->stack.last.cpu_ns;
    return now;
}

void lp_lines_engine_settle(struct lp_lines_engine *engine)
{
    if (lp_lines_running != engine)
        return;
    for (struct lp_lines_thread *thread = engine->threads; thread; thread = thread->next)
        if (thread->stack.n > 0)
            lp_lines_stack_settle(&thread->stack, moment_of(thread));
    lp_lines_waits_settle(&engine->waits, (int64_t)lp_wall_ns());
}

static void end_threads(struct lp_lines_engine *engine)
{
    for (struct lp_lines_thread *thread = engine->threads; thread; thread = thread->next) {
        if (thread->stack.n > 0)
            lp_lines_stack_cut(&thread->stack, 0, moment_of(thread));
        engine->events += thread->events;
    }
    lp_lines_waits_settle(&engine->waits, (int64_t)lp_wall_ns());
    lp_lines_waits_free(&engine->waits);
}

/* --- a session --- */

/* On the way out the line of the `with` is reached once more, which is not the program's doing; what is entered or done on
   the same line was begun before anybody looked. */
static void set_block_line_right(struct lp_lines_engine *engine)
{
    const struct lp_lines_session *session = &engine->session;
    struct lp_lines_thread *thread = lp_lines_thread_here();
    struct lp_lines_frame *top = thread ? lp_lines_stack_top(&thread->stack) : NULL;
    if (!top || thread != session->thread || top->frame != session->block_frame || top->line != session->block_line ||
        !top->line)
        return;
    if (top->line->hits == session->block_line_then.hits || session->block_shares_line) {
        top->line->hits++;
        return;
    }
    top->line->hits--;
    top->line->own = session->block_line_then.own;
    top->line->repeated = session->block_line_then.repeated;
    top->line = NULL; /* What passes from now on is nobody's. */
}

#ifndef BEFORE_WITH
#define BEFORE_WITH LOAD_SPECIAL /* from CPython 3.14 on */
#endif

/* Whether behind the unit, on its line, another context manager is entered. */
static bool enters_more(const struct lp_lines_code *known, uint32_t unit)
{
    PyObject *bytes = PyCode_GetCode(known->code);
    const char *units = bytes ? PyBytes_AS_STRING(bytes) : NULL;
    bool found = false;
    for (uint32_t i = unit + 1; units && i < known->n_units && known->line_of_unit[i] == known->line_of_unit[unit]; i++)
        found = found || (unsigned char)units[i * LP_LINES_UNIT_BYTES] == BEFORE_WITH;
    Py_XDECREF(bytes);
    PyErr_Clear();
    return found;
}

static int begin_block(struct lp_lines_engine *engine)
{
    struct lp_lines_session *session = &engine->session;
    struct lp_lines_thread *thread = lp_lines_thread_here();
    PyFrameObject *frame = PyEval_GetFrame();
    PyCodeObject *code = frame ? PyFrame_GetCode(frame) : NULL;
    struct lp_lines_code *known = code && thread ? lp_lines_code_of(engine, code) : NULL;
    Py_XDECREF(code);
    if (thread)
        thread->events = 0;
    session->thread = thread;
    session->overhead_q8 = thread ? thread->overhead_q8 : 0;
    if (!known || !known->inside)
        return 0;
    struct lp_lines_table *table = lp_lines_table_of(known, thread);
    int number = PyFrame_GetLineNumber(frame) - known->base_line;
    if (!table || number < 0 || (uint32_t)number >= table->n_lines)
        return 0;
    session->block_frame = lp_lines_hooks_frame(frame);
    session->block_line = &table->lines[number];
    session->block_line_then = *session->block_line;
    session->block_shares_line = enters_more(known, (uint32_t)PyFrame_GetLasti(frame) / LP_LINES_UNIT_BYTES);
    struct lp_lines_frame made = {
        .frame = session->block_frame, .code = known->code, .table = table, .line = session->block_line};
    if (lp_lines_stack_push(&thread->stack, made, lp_lines_now(thread)) == 0)
        return 0;
    PyErr_NoMemory();
    return -1;
}

/* The next session's threads begin anew. */
static void end_session(struct lp_lines_engine *engine)
{
    lp_lines_session = 0;
    lp_lines_running = NULL;
    lp_lines_codes_rest(engine);
    threads_free(engine);
    lp_lines_costs_free(&engine->session.probe);
    Py_CLEAR(engine->session.monitoring);
    Py_CLEAR(engine->session.disable);
    Py_CLEAR(engine->session.threading);
    Py_CLEAR(engine->session.thread_hook);
}

static int refuse_to_start(void)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_RuntimeError, "a LineProfiler runs in the main interpreter only");
        return -1;
    }
#ifdef Py_GIL_DISABLED
    PyErr_SetString(PyExc_RuntimeError, "a LineProfiler needs an interpreter with a GIL");
    return -1;
#endif
    if (!lp_lines_running)
        return 0;
    PyErr_SetString(PyExc_RuntimeError,
                    "a LineProfiler is running already: leave its block first, or start the program "
                    "without 'lineprofiler run'");
    return -1;
}

/* The block may be where no file is, as in an interactive session: that is profiled all the same. */
static int take_in_block_file(struct lp_lines_engine *engine)
{
    PyFrameObject *frame = PyEval_GetFrame();
    PyCodeObject *code = frame ? PyFrame_GetCode(frame) : NULL;
    const char *name = code ? PyUnicode_AsUTF8(code->co_filename) : NULL;
    int failed = 0;
    PyErr_Clear();
    if (name && name[0] == '<' && !lp_lines_filter_file(&engine->filter, name)) {
        failed = lp_lines_globs_add(&engine->filter.names, name);
        lp_lines_codes_judge_anew(engine, code->co_filename);
    }
    Py_XDECREF(code);
    if (failed)
        PyErr_NoMemory();
    return failed;
}

static bool is_session(const struct lp_lines_engine *engine, uint64_t number)
{
    return lp_lines_running == engine && engine->session.number == number;
}

/* What runs meanwhile, such as a callback of the garbage collector, may have forked, and this be the child. */
static int check_session(const struct lp_lines_engine *engine, uint64_t number)
{
    if (is_session(engine, number))
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "the process was forked while a LineProfiler began");
    return -1;
}

static int begin_session(struct lp_lines_engine *engine, uint64_t number)
{
    struct lp_lines_probe *probe = &engine->session.probe;
    engine->costs = (struct lp_lines_costs){0};
    if (take_in_block_file(engine) < 0 || lp_lines_costs_begin(probe) < 0 || check_session(engine, number) < 0)
        return -1;
    if (lp_lines_hooks_start(engine) < 0 || lp_lines_costs_end(probe, &engine->costs) < 0)
        return -1;
    if (check_session(engine, number) < 0 || lp_lines_hooks_arm_running(engine) < 0)
        return -1;
    int64_t began_ns = (int64_t)lp_wall_ns();
    if (begin_block(engine) < 0)
        return -1;
    engine->session.began_ns = began_ns;
    return 0;
}

/* So that what an event costs is now what it will be, and the thread's CPU clock is read without the kernel. */
static void get_clocks_ready(void)
{
    static bool proven;
    sigset_t all, before;
    lp_cpu_open();
    Py_BEGIN_ALLOW_THREADS sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    lp_wall_warm_up();
    if (!proven)
        lp_cpu_prove();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    Py_END_ALLOW_THREADS proven = true;
}

int lp_lines_engine_start(struct lp_lines_engine *engine)
{
    static uint64_t sessions;
    if (refuse_to_start() < 0)
        return -1;
    get_clocks_ready();
    if (refuse_to_start() < 0) /* another thread came first */
        return -1;
    uint64_t number = ++sessions;
    engine->session = (struct lp_lines_session){.tool = -1, .number = number};
    lp_lines_running = engine;
    lp_lines_session = number;
    if (begin_session(engine, number) == 0)
        return 0;
    if (is_session(engine, number)) {
        lp_lines_hooks_stop(engine);
        end_session(engine);
    }
    return -1;
}

/* On a machine that others use, an event may cost more or less in the end than was measured at the beginning, and was taken
   out of all times. -1 with an exception, of a signal's handler as it may be. */
static int measure_change(struct lp_lines_engine *engine, uint64_t number)
{
    struct lp_lines_costs now;
    if (!lp_lines_session)
        return 0;
    if (lp_lines_costs_end(&engine->session.probe, &now) < 0) {
        if (!PyErr_ExceptionMatches(PyExc_RecursionError) && !PyErr_ExceptionMatches(PyExc_MemoryError))
            return -1; /* of a signal's handler: the program's */
        PyErr_Clear();
        return 0;
    }
    if (!is_session(engine, number))
        return 0;
    double change = (double)(now.line_q8 + 1) / (double)(engine->costs.line_q8 + 1);
    double worst = engine->cost_change > 0 ? engine->cost_change : 1;
    if ((change > 1 ? change : 1 / change) >= (worst > 1 ? worst : 1 / worst))
        engine->cost_change = change;
    return 0;
}

bool lp_lines_engine_runs(const struct lp_lines_engine *engine)
{
    return lp_lines_running == engine && engine->session.began_ns != 0;
}

int lp_lines_engine_stop(struct lp_lines_engine *engine)
{
    uint64_t number = engine->session.number;
    if (!lp_lines_engine_runs(engine))
        return 0;
    set_block_line_right(engine);
    end_threads(engine);
    engine->blocks_ns += (int64_t)lp_wall_ns() - engine->session.began_ns;
    engine->session.began_ns = 0;
    if (engine->session.thread)
        engine->overhead_ns += (engine->session.thread->overhead_q8 - engine->session.overhead_q8) >> 8;
    int failed = measure_change(engine, number);
    if (!is_session(engine, number)) /* this is a child that was forked meanwhile */
        return failed;
    lp_lines_session = 0; /* what runs until the hooks are off is not recorded */
    lp_lines_waits_free(&engine->waits);
    lp_lines_hooks_stop(engine);
    end_session(engine);
    return failed;
}

void lp_lines_after_fork(void)
{
    struct lp_lines_engine *engine = lp_lines_running;
    if (!engine)
        return;
    lp_lines_hooks_stop(engine);
    lp_lines_waits_free(&engine->waits);
    end_session(engine);
    if (lp_lines_engine_clear(engine) < 0)
        PyErr_Clear();
}

/* --- regions --- */

static struct lp_lines_region *region_within(struct lp_lines_engine *engine, struct lp_lines_region *parent,
                                             PyObject *name)
{
    for (struct lp_lines_region *region = engine->regions; region; region = region->next)
        if (region->parent == parent && PyUnicode_Compare(region->name, name) == 0)
            return region;
    return region_new(engine, parent, name);
}

static int move_to(struct lp_lines_thread *thread, struct lp_lines_region *region)
{
    struct lp_lines_stack *stack = &thread->stack;
    struct lp_lines_region *before = thread->region;
    thread->region = region;
    for (uint32_t i = 0; i < stack->n; i++) {
        struct lp_lines_frame *frame = &stack->frames[i];
        PyCodeObject *code = (PyCodeObject *)(uintptr_t)frame->code;
        struct lp_lines_code *known = code ? lp_lines_code_of(thread->engine, code) : NULL;
        frame->next_table = known ? lp_lines_table_of(known, thread) : NULL;
        if (code && !frame->next_table) {
            thread->region = before;
            return -1;
        }
    }
    lp_lines_stack_move(stack, lp_lines_now(thread));
    return 0;
}

int lp_lines_engine_region(struct lp_lines_engine *engine, PyObject *name)
{
    struct lp_lines_thread *thread = lp_lines_running == engine ? lp_lines_thread_here() : NULL;
    if (!thread || (!name && !thread->region->parent))
        return 0;
    struct lp_reading from = lp_lines_work_begins(thread);
    struct lp_lines_region *region = name ? region_within(engine, thread->region, name) : thread->region->parent;
    if (!region || move_to(thread, region) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    lp_lines_work_ends(thread, from);
    return 0;
}
