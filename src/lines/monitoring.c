/* sys.monitoring, from CPython 3.12 on.

   No LINE events of everything: PY_START and PY_RESUME are on everywhere and find the code that is to be profiled, whose
   own events are then switched on. Where they find other code they answer DISABLE, which switches them off at that place.
   That answer outlives the session, and even the tool's number; so in the end each such code object is given events of
   its own and rid of them while nothing is on everywhere, which makes the interpreter forget it. restart_events() would do
   so too, but for every other tool as well. PY_UNWIND and PY_THROW cannot be had for one code object, and never answer
   DISABLE, which would replace the program's exception. */
#include "lines/events.h"

#if PY_VERSION_HEX >= 0x030C0000

#define PY_START (1 << 0)
#define PY_RESUME (1 << 1)
#define PY_RETURN (1 << 2)
#define PY_YIELD (1 << 3)
#define LINE (1 << 5)
#ifdef PY_MONITORING_EVENT_PY_UNWIND /* 3.14 has moved them. */
#define PY_UNWIND (1 << PY_MONITORING_EVENT_PY_UNWIND)
#define PY_THROW (1 << PY_MONITORING_EVENT_PY_THROW)
#else
#define PY_UNWIND (1 << 12)
#define PY_THROW (1 << 13)
#endif

#define EVERYWHERE (PY_START | PY_RESUME)
#define NOT_OF_A_CODE (PY_THROW | PY_UNWIND)
#define OF_A_CODE (PY_START | PY_RESUME | PY_RETURN | PY_YIELD | LINE)

const char lp_lines_hooks_name[] = "monitoring";

static const void *frame_here(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked()->current_frame;
#else
    return _PyThreadState_UncheckedGet()->cframe->current_frame;
#endif
}

const void *lp_lines_hooks_frame(PyFrameObject *frame)
{
    (void)frame;
    return frame_here();
}

static uint32_t unit_of(PyObject *offset)
{
    return (uint32_t)(PyLong_AsLong(offset) / LP_LINES_UNIT_BYTES);
}

/* --- events --- */

static PyObject *on_line(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct lp_lines_thread *thread = lp_lines_thread_here();
    (void)self;
    (void)n;
    if (LP_LIKELY(thread != NULL))
        lp_lines_line(thread, frame_here(), (PyCodeObject *)args[0], PyLong_AsLong(args[1]));
    Py_RETURN_NONE;
}

/* What is known of code that is to be profiled, its events on; NULL: it is not. */
static struct lp_lines_code *find(struct lp_lines_thread *thread, PyObject *object)
{
    struct lp_lines_engine *engine = thread->engine;
    struct lp_lines_code *code = lp_lines_code_known(engine, (PyCodeObject *)object);
    if (LP_LIKELY(code && code->armed == engine->session.number))
        return code->inside ? code : NULL;
    struct lp_reading from = lp_lines_work_begins(thread);
    code = lp_lines_code_of(engine, (PyCodeObject *)object);
    if (code) {
        code->armed = engine->session.number;
        if (code->inside && lp_lines_hooks_arm(engine, code) < 0) {
            PyErr_Clear();
            lp_lines_stop_recording(engine);
        }
    }
    lp_lines_work_ends(thread, from);
    return code && code->inside && lp_lines_session ? code : NULL;
}

static PyObject *nothing_there(void)
{
    return Py_NewRef(lp_lines_session ? lp_lines_running->session.disable : Py_None);
}

static PyObject *on_start(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct lp_lines_thread *thread = lp_lines_thread_here();
    struct lp_lines_code *code = thread ? find(thread, args[0]) : NULL;
    (void)self;
    (void)n;
    if (!code)
        return nothing_there();
    lp_lines_frame_begins(thread, code, frame_here());
    Py_RETURN_NONE;
}

static PyObject *on_resume(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct lp_lines_thread *thread = lp_lines_thread_here();
    struct lp_lines_code *code = thread ? find(thread, args[0]) : NULL;
    (void)self;
    (void)n;
    if (!code)
        return nothing_there();
    lp_lines_frame_goes_on(thread, code, frame_here(), unit_of(args[1]));
    Py_RETURN_NONE;
}

static PyObject *on_throw(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct lp_lines_thread *thread = lp_lines_thread_here();
    struct lp_lines_code *code = thread ? find(thread, args[0]) : NULL;
    (void)self;
    (void)n;
    if (code)
        lp_lines_frame_goes_on(thread, code, frame_here(), unit_of(args[1]));
    Py_RETURN_NONE;
}

/* What an asynchronous generator hands to its consumer comes wrapped; else it passes on what it awaits. */
static bool is_awaited(const PyObject *code, const PyObject *yielded)
{
    int flags = ((const PyCodeObject *)code)->co_flags;
    if (flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE))
        return true;
    return (flags & CO_ASYNC_GENERATOR) && strcmp(Py_TYPE(yielded)->tp_name, "async_generator_wrapped_value") != 0;
}

static PyObject *on_end(PyObject *const *args, enum lp_lines_end how, bool waits)
{
    struct lp_lines_thread *thread = lp_lines_thread_here();
    if (thread)
        lp_lines_frame_ends(thread, frame_here(), (PyCodeObject *)args[0], unit_of(args[1]), how, waits);
    Py_RETURN_NONE;
}

static PyObject *on_return(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    (void)n;
    return on_end(args, LP_LINES_RETURNS, false);
}

static PyObject *on_yield(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    (void)n;
    return on_end(args, LP_LINES_YIELDS, is_awaited(args[0], args[2]));
}

/* Of any code. */
static PyObject *on_unwind(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    (void)n;
    return on_end(args, LP_LINES_UNWINDS, false);
}

/* --- on and off --- */

static PyMethodDef callbacks[] = {
    {"on_start", (PyCFunction)(void (*)(void))on_start, METH_FASTCALL, NULL},
    {"on_resume", (PyCFunction)(void (*)(void))on_resume, METH_FASTCALL, NULL},
    {"on_return", (PyCFunction)(void (*)(void))on_return, METH_FASTCALL, NULL},
    {"on_yield", (PyCFunction)(void (*)(void))on_yield, METH_FASTCALL, NULL},
    {"on_line", (PyCFunction)(void (*)(void))on_line, METH_FASTCALL, NULL},
    {"on_throw", (PyCFunction)(void (*)(void))on_throw, METH_FASTCALL, NULL},
    {"on_unwind", (PyCFunction)(void (*)(void))on_unwind, METH_FASTCALL, NULL},
};
static const int callback_events[] = {PY_START, PY_RESUME, PY_RETURN, PY_YIELD, LINE, PY_THROW, PY_UNWIND};
#define N_CALLBACKS (sizeof callbacks / sizeof *callbacks)

/* 0, or -1 with an exception. Takes the result. */
static int done(PyObject *result)
{
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int set_events(const struct lp_lines_session *session, int events)
{
    return done(PyObject_CallMethod(session->monitoring, "set_events", "ii", session->tool, events));
}

static int set_local_events(const struct lp_lines_session *session, PyCodeObject *code, int events)
{
    return done(PyObject_CallMethod(session->monitoring, "set_local_events", "iOi", session->tool, code, events));
}

/* Numbers that no kind of tool has been given, before that of profilers, which cProfile takes without asking. */
static int take_tool(struct lp_lines_session *session)
{
    static const int tools[] = {4, 3, 2};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        if (done(PyObject_CallMethod(session->monitoring, "use_tool_id", "is", tools[i], "lineprofiler")) == 0) {
            session->tool = tools[i];
            return 0;
        }
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return -1;
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_RuntimeError, "all tool numbers of sys.monitoring are taken: stop another profiler first");
    return -1;
}

/* Takes the callback. */
static int register_callback(const struct lp_lines_session *session, int event, PyObject *callback)
{
    int failed = !callback || done(PyObject_CallMethod(session->monitoring, "register_callback", "iiO", session->tool,
                                                       event, callback)) < 0;
    Py_XDECREF(callback);
    return failed ? -1 : 0;
}

static int register_callbacks(const struct lp_lines_session *session)
{
    for (size_t i = 0; i < N_CALLBACKS; i++)
        if (register_callback(session, callback_events[i], PyCFunction_New(&callbacks[i], NULL)) < 0)
            return -1;
    return 0;
}

/* Where an audit hook refuses to have one taken away, the others go all the same. */
static void forget_callbacks(const struct lp_lines_session *session)
{
    for (size_t i = 0; i < N_CALLBACKS; i++)
        if (register_callback(session, callback_events[i], Py_NewRef(Py_None)) < 0)
            PyErr_Clear();
}

int lp_lines_hooks_start(struct lp_lines_engine *engine)
{
    struct lp_lines_session *session = &engine->session;
    PyObject *monitoring = PySys_GetObject("monitoring");
    if (!monitoring) {
        PyErr_SetString(PyExc_RuntimeError, "sys.monitoring is gone");
        return -1;
    }
    session->monitoring = Py_NewRef(monitoring);
    session->disable = PyObject_GetAttrString(monitoring, "DISABLE");
    if (!session->disable || take_tool(session) < 0 || register_callbacks(session) < 0)
        return -1;
    return set_events(session, EVERYWHERE | NOT_OF_A_CODE);
}

int lp_lines_hooks_arm(struct lp_lines_engine *engine, struct lp_lines_code *code)
{
    lp_lines_room(LP_LINES_ROOM);
    int failed = set_local_events(&engine->session, code->code, OF_A_CODE);
    lp_lines_room(-LP_LINES_ROOM);
    return failed;
}

/* Frames of other threads as well: they cannot run while we look. */
int lp_lines_hooks_arm_running(struct lp_lines_engine *engine)
{
    (void)engine;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    struct lp_lines_thread *here = lp_lines_thread_here();
    for (PyThreadState *thread = PyInterpreterState_ThreadHead(interpreter); here && thread;
         thread = PyThreadState_Next(thread)) {
        PyFrameObject *frame = PyThreadState_GetFrame(thread), *back;
        for (; frame; frame = back) {
            PyCodeObject *code = PyFrame_GetCode(frame);
            find(here, (PyObject *)code);
            Py_DECREF(code);
            back = PyFrame_GetBack(frame);
            Py_DECREF(frame);
        }
    }
    return 0;
}

/* Both of code that was profiled and of other code. What fails is left: there is nobody to tell. */
static void disarm(const struct lp_lines_engine *engine)
{
    const struct lp_lines_session *session = &engine->session;
    for (struct lp_lines_code *code = engine->codes; code; code = code->next) {
        if (!code->code || code->armed != session->number)
            continue;
        if (!code->inside && set_local_events(session, code->code, EVERYWHERE) < 0)
            PyErr_Clear();
        if (set_local_events(session, code->code, 0) < 0)
            PyErr_Clear();
    }
}

void lp_lines_hooks_stop(struct lp_lines_engine *engine)
{
    struct lp_lines_session *session = &engine->session;
    PyObject *raised = PyErr_GetRaisedException();
    lp_lines_room(LP_LINES_ROOM);
    if (session->tool >= 0) {
        if (set_events(session, 0) < 0)
            PyErr_Clear();
        disarm(engine);
        forget_callbacks(session);
        if (done(PyObject_CallMethod(session->monitoring, "free_tool_id", "i", session->tool)) < 0)
            PyErr_Clear();
    }
    session->tool = -1;
    lp_lines_room(-LP_LINES_ROOM);
    PyErr_SetRaisedException(raised);
}

#endif
