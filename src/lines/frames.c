#include "lines/frames.h"

#if PY_VERSION_HEX < 0x030C0000

#include <pthread.h>

#include <internal/pycore_frame.h>

#include "lines/events.h"

/* What a flag of tracing is: it is or'ed to the number of each instruction. */
#define TRACED 255
/* Before this release, a __getitem__ could be run within the evaluation of its caller, where nobody would see it begin. */
#define SEES_ALL_CALLS 0x030B04F0

/* The function that those threads trace with whose calls are looked at; it is never that of a thread where none are. */
static int nobody(PyObject *object, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)object;
    (void)frame;
    (void)what;
    (void)arg;
    return 0;
}
static Py_tracefunc traces = nobody;

static PyObject *evaluate(PyThreadState *state, struct _PyInterpreterFrame *frame, int throws);

static _PyFrameEvalFunction evaluator(void)
{
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Main());
}

/* Another that has come after ours, and calls it, may put it back when no block runs: it then goes at its next call. */
static void take_away(void)
{
    traces = nobody;
    if (evaluator() == evaluate)
        _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Main(), _PyEval_EvalFrameDefault);
}

/* A greenlet goes on with the flag of the one that switched to it. */
static bool has_greenlets(void)
{
    PyObject *modules = PySys_GetObject("modules");
    return modules && PyDict_Check(modules) && PyDict_GetItemString(modules, "greenlet");
}

/* From now on it is as without us, also in frames that run already. */
static LP_COLD void trace_everything(void)
{
    for (PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Main()); thread;
         thread = PyThreadState_Next(thread))
        for (_PyCFrame *evaluation = thread->cframe; evaluation && thread->c_tracefunc == traces;
             evaluation = evaluation->previous)
            evaluation->use_tracing = TRACED;
    take_away();
}

/* --- the room on the C stack --- */

/* Who needs most of a stack finds nearly all of it, and a thousand calls are far from the eighth part of a usual one. */
static LP_COLD void find_room(struct lp_lines_thread *thread)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t bytes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    if (pthread_attr_getstack(&attributes, &lowest, &bytes) == 0) {
        thread->frames.room = bytes / 8;
        thread->frames.deepest = (uintptr_t)lowest + bytes - bytes / 8;
    }
    pthread_attr_destroy(&attributes);
}

static bool is_within(const struct lp_lines_thread *thread, uintptr_t address)
{
    return address - thread->frames.deepest <= thread->frames.room;
}

static bool has_room(struct lp_lines_thread *thread)
{
    uintptr_t address = (uintptr_t)__builtin_frame_address(0);
    if (LP_LIKELY(is_within(thread, address)))
        return true;
    if (thread->frames.room == 0) {
        struct lp_reading from = lp_lines_work_begins(thread);
        find_room(thread);
        lp_lines_work_ends(thread, from);
    }
    return is_within(thread, address);
}

/* --- a call --- */

/* False: greenlets have been loaded, for which new code has to run. What finds out about new code is not to be traced, and an
   exception may be on its way into the frame. */
static LP_COLD bool find_out(struct lp_lines_thread *thread, PyThreadState *state, PyCodeObject *code, bool *inside)
{
    if (lp_lines_code_known(thread->engine, code)) {
        *inside = lp_lines_code_see(thread, code) != NULL;
        return true;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyThreadState_EnterTracing(state);
    *inside = lp_lines_code_see(thread, code) != NULL;
    bool goes_on = !has_greenlets();
    PyThreadState_LeaveTracing(state);
    PyErr_Restore(type, value, traceback);
    return goes_on;
}

/* False: all is to be traced from now on. */
static bool find(struct lp_lines_thread *thread, PyThreadState *state, PyCodeObject *code, bool *inside)
{
    const struct lp_lines_seen *seen = lp_lines_seen_of(thread->engine, code);
    *inside = seen->profiled != NULL;
    return LP_LIKELY(seen->code == code) || find_out(thread, state, code, inside);
}

static bool is_looked_at(const PyThreadState *state)
{
    return state->c_tracefunc == traces && !state->c_profilefunc;
}

static LP_COLD PyObject *pass_on(PyThreadState *state, struct _PyInterpreterFrame *frame, int throws)
{
    if (traces == nobody)
        take_away();
    return _PyEval_EvalFrameDefault(state, frame, throws);
}

/* An evaluation that ends hands its flag back to its caller, as if it had begun or ended tracing: where it has not, that is undone. */
static PyObject *evaluate(PyThreadState *state, struct _PyInterpreterFrame *frame, int throws)
{
    struct lp_lines_thread *thread = NULL;
    if (LP_LIKELY(is_looked_at(state) && !state->tracing))
        thread = lp_lines_thread_here();
    if (LP_UNLIKELY(!thread))
        return pass_on(state, frame, throws);
    uint64_t session = lp_lines_session;
    _PyCFrame *caller = state->cframe;
    uint8_t of_caller = caller->use_tracing;
    const void *outer = thread->frames.begins;
    bool inside;
    if (LP_UNLIKELY(!has_room(thread) || !find(thread, state, frame->f_code, &inside))) {
        trace_everything();
        return pass_on(state, frame, throws);
    }
    if (inside)
        thread->frames.begins = frame;
    caller->use_tracing = inside ? TRACED : 0;
    PyObject *result = _PyEval_EvalFrameDefault(state, frame, throws);
    if (LP_LIKELY(lp_lines_session == session)) {
        thread->frames.begins = outer;
        if (LP_LIKELY(is_looked_at(state)))
            caller->use_tracing = of_caller;
    }
    return result;
}

void lp_lines_frames_expect(struct lp_lines_thread *thread, const PyFrameObject *frame)
{
    if (LP_LIKELY(thread->frames.begins == frame->f_frame) || !is_looked_at(PyThreadState_Get()))
        return;
    thread->engine->calls_missed = true;
    trace_everything();
}

/* --- on and off --- */

void lp_lines_frames_start(Py_tracefunc function)
{
    bool is_free = evaluator() == _PyEval_EvalFrameDefault || evaluator() == evaluate;
    if (Py_Version < SEES_ALL_CALLS || !is_free || has_greenlets())
        return;
    traces = function;
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Main(), evaluate);
}

void lp_lines_frames_stop(void)
{
    take_away();
}

#endif
