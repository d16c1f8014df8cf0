/* A trace function in C, for CPython 3.11.

   It is called for all frames of a thread, so code that is not profiled costs a look at what is known of it. A thread gets
   it when it begins: threading calls a hook in each thread that it starts. A trace function that was there before, as
   coverage and debuggers have, is called for each event as it would have been, and stands alone again in the end; who
   sets one meanwhile takes our place. What sys.gettrace() tells meanwhile can be given to sys.settrace() again. */
#include "lines/events.h"
#include "lines/frames.h"

#if PY_VERSION_HEX < 0x030C0000

#include <opcode.h>

const char lp_lines_hooks_name[] = "settrace";

const void *lp_lines_hooks_frame(PyFrameObject *frame)
{
    return frame;
}

static uint32_t unit_of(PyFrameObject *frame)
{
    int offset = PyFrame_GetLasti(frame);
    return offset < 0 ? 0 : (uint32_t)offset / LP_LINES_UNIT_BYTES;
}

/* Where a frame has been before, it is not its beginning. */
static bool goes_on(PyFrameObject *frame, const PyCodeObject *code)
{
    const int resumable = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    return (code->co_flags & resumable) && PyFrame_GetLasti(frame) >= 0 &&
           (int)unit_of(frame) > code->_co_firsttraceable;
}

/* alone: there is no other trace function. */
static void on_call(struct lp_lines_thread *thread, PyFrameObject *frame, PyCodeObject *code, bool alone)
{
    struct lp_lines_code *known = lp_lines_code_profiled(thread, code);
    if (!known)
        return;
    if (alone)
        lp_lines_frames_expect(thread, frame);
    if (goes_on(frame, code))
        lp_lines_frame_goes_on(thread, known, frame, unit_of(frame));
    else
        lp_lines_frame_begins(thread, known, frame);
}

/* Whether a frame whose end is told only yields. */
static bool yields(struct lp_lines_code *known, uint32_t unit)
{
    if (!known->bytes)
        known->bytes = PyCode_GetCode(known->code);
    if (!known->bytes || (size_t)PyBytes_GET_SIZE(known->bytes) <= unit * LP_LINES_UNIT_BYTES) {
        PyErr_Clear();
        return false;
    }
    return (unsigned char)PyBytes_AS_STRING(known->bytes)[unit * LP_LINES_UNIT_BYTES] == YIELD_VALUE;
}

static void on_return(struct lp_lines_thread *thread, PyFrameObject *frame, PyCodeObject *code, const PyObject *result)
{
    struct lp_lines_code *known = lp_lines_code_profiled(thread, code);
    if (!known)
        return;
    uint32_t unit = unit_of(frame);
    bool waits = result && known->waits && yields(known, unit);
    if (waits && (code->co_flags & CO_ASYNC_GENERATOR))
        waits = strcmp(Py_TYPE(result)->tp_name, "async_generator_wrapped_value") != 0;
    lp_lines_frame_ends(thread, frame, code, unit, result ? LP_LINES_RETURNS : LP_LINES_UNWINDS, waits);
}

static void on_line(struct lp_lines_thread *thread, PyFrameObject *frame, PyCodeObject *code)
{
    const struct lp_lines_frame *top = lp_lines_stack_top(&thread->stack);
    if ((top && top->frame == frame && top->code == code) || lp_lines_code_profiled(thread, code))
        lp_lines_line(thread, frame, code, PyFrame_GetLineNumber(frame));
}

/* --- beside other trace functions --- */

/* What was there before ours. */
struct before {
    Py_tracefunc function; /* NULL: nothing. */
    PyObject *object;      /* Owned; may be NULL. */
};

static void free_before(PyObject *capsule)
{
    struct before *before = PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(before->object);
    PyMem_Free(before);
}

static struct before *before_of(PyObject *hook)
{
    return PyCapsule_GetPointer(PyCFunction_GET_SELF(hook), NULL);
}

static LP_COLD int call_before(PyObject *hook, PyFrameObject *frame, int what, PyObject *arg)
{
    const struct before *before = before_of(hook);
    struct lp_lines_thread *thread = lp_lines_thread_here();
    struct lp_reading from = thread ? lp_lines_work_begins(thread) : (struct lp_reading){0};
    Py_INCREF(hook); /* it may set another */
    int result = before->function(before->object, frame, what, arg);
    Py_DECREF(hook);
    if (thread)
        lp_lines_work_ends(thread, from);
    return result;
}

static inline void tell(struct lp_lines_thread *thread, PyFrameObject *frame, int what, PyObject *arg, bool alone)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    if (LP_LIKELY(what == PyTrace_LINE))
        on_line(thread, frame, code);
    else if (what == PyTrace_CALL)
        on_call(thread, frame, code, alone);
    else if (what == PyTrace_RETURN)
        on_return(thread, frame, code, arg);
    Py_DECREF(code);
}

static int trace(PyObject *hook, PyFrameObject *frame, int what, PyObject *arg)
{
    struct lp_lines_thread *thread = lp_lines_thread_here();
    if (LP_LIKELY(thread != NULL))
        tell(thread, frame, what, arg, true);
    (void)hook;
    return 0;
}

/* The same where there was another before. */
static int trace_both(PyObject *hook, PyFrameObject *frame, int what, PyObject *arg)
{
    struct lp_lines_thread *thread = lp_lines_thread_here();
    if (LP_LIKELY(thread != NULL))
        tell(thread, frame, what, arg, false);
    return call_before(hook, frame, what, arg);
}

/* --- on and off --- */

static PyObject *hook_new(Py_tracefunc function, PyObject *object);

static int set_trace(Py_tracefunc function, PyObject *object)
{
    PyObject *hook = hook_new(function, object);
    if (!hook)
        return -1;
    int failed =
        _PyEval_SetTrace(PyThreadState_Get(), function ? trace_both : trace, hook); /* an audit hook may refuse */
    Py_DECREF(hook);
    return failed;
}

/* threading has set this as the trace function of a thread that begins; what it would have set else goes first. */
static PyObject *begin_in_thread(PyObject *others, PyObject *args)
{
    const PyThreadState *thread = PyThreadState_Get();
    Py_tracefunc function = thread->c_tracefunc;
    PyObject *object = thread->c_traceobj, *result = NULL;
    if (others && others != Py_None && (result = PyObject_Call(others, args, NULL)) == NULL)
        return NULL;
    if (thread->c_tracefunc == function && thread->c_traceobj == object) {
        function = result ? function : NULL;
        object = others;
    } else {
        function = thread->c_tracefunc;
        object = thread->c_traceobj;
    }
    if (lp_lines_session && set_trace(function, object) < 0) {
        Py_XDECREF(result);
        return NULL;
    }
    return result ? result : Py_NewRef(Py_None);
}

/* Somebody has told sys.settrace() to set what sys.gettrace() had told. */
static PyObject *begin_again(PyObject *capsule, PyObject *args)
{
    const struct before *before = PyCapsule_GetPointer(capsule, NULL);
    (void)args;
    if (lp_lines_session)
        set_trace(before->function, before->object);
    else
        PyEval_SetTrace(before->function, before->object);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef in_thread = {"lineprofiler", begin_in_thread, METH_VARARGS, NULL};
static PyMethodDef again = {"lineprofiler", begin_again, METH_VARARGS, NULL};

static PyObject *hook_new(Py_tracefunc function, PyObject *object)
{
    struct before *before = PyMem_Calloc(1, sizeof *before);
    PyObject *capsule = before ? PyCapsule_New(before, NULL, free_before) : NULL;
    if (!capsule) {
        PyMem_Free(before);
        return before ? NULL : PyErr_NoMemory();
    }
    *before = (struct before){function, function ? Py_XNewRef(object) : NULL};
    PyObject *hook = PyCFunction_New(&again, capsule);
    Py_DECREF(capsule);
    return hook;
}

/* Where threading.settrace() puts the hook. To call it would be to run code of Python's, and of signal handlers with it. */
static const char hook_name[] = "_trace_hook";

static int hook_threads(struct lp_lines_session *session)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *before = threading ? PyObject_GetAttrString(threading, hook_name) : NULL;
    PyObject *hook = before ? PyCFunction_New(&in_thread, before) : NULL;
    int failed = hook ? PyObject_SetAttrString(threading, hook_name, hook) : -1;
    if (!failed) {
        session->threading = Py_NewRef(PyModule_GetDict(threading));
        session->thread_hook = Py_NewRef(before);
    }
    Py_XDECREF(hook);
    Py_XDECREF(before);
    Py_XDECREF(threading);
    return failed;
}

static void unhook_threads(struct lp_lines_session *session)
{
    PyObject *before = session->thread_hook;
    PyObject *hook =
        before ? PyDict_GetItemString(session->threading, hook_name) : NULL; /* or another, set meanwhile */
    session->thread_hook = NULL;
    if (hook && PyCFunction_Check(hook) && PyCFunction_GET_FUNCTION(hook) == begin_in_thread &&
        PyDict_SetItemString(session->threading, hook_name, before) < 0)
        PyErr_Clear();
    Py_XDECREF(before);
}

int lp_lines_hooks_start(struct lp_lines_engine *engine)
{
    const PyThreadState *thread = PyThreadState_Get();
    bool alone = !thread->c_tracefunc && !thread->c_profilefunc;
    if (hook_threads(&engine->session) < 0)
        return -1;
    if (set_trace(thread->c_tracefunc, thread->c_traceobj) < 0)
        return -1;
    if (alone)
        lp_lines_frames_start(trace);
    return 0;
}

int lp_lines_hooks_arm(struct lp_lines_engine *engine, struct lp_lines_code *code)
{
    (void)engine;
    (void)code;
    return 0;
}

int lp_lines_hooks_arm_running(struct lp_lines_engine *engine)
{
    (void)engine;
    return 0;
}

/* An audit hook may refuse that one is set, but not that ours goes. */
static void put_back(PyThreadState *thread)
{
    PyObject *hook = Py_NewRef(thread->c_traceobj);
    const struct before *before = before_of(hook);
    if (_PyEval_SetTrace(thread, before->function, before->object) < 0) {
        PyErr_Clear();
        thread->c_tracefunc = before->function;
        thread->cframe->use_tracing = before->function || thread->c_profilefunc ? 255 : 0;
        Py_XSETREF(thread->c_traceobj, Py_XNewRef(before->object));
    }
    Py_DECREF(hook);
}

/* Of other threads too, which would go on to be called for nothing. */
void lp_lines_hooks_stop(struct lp_lines_engine *engine)
{
    struct lp_lines_session *session = &engine->session;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    lp_lines_frames_stop();
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    for (PyThreadState *thread = PyInterpreterState_ThreadHead(interpreter); thread;
         thread = PyThreadState_Next(thread))
        if (thread->c_tracefunc == trace || thread->c_tracefunc == trace_both)
            put_back(thread);
    unhook_threads(session);
    PyErr_Restore(type, value, traceback);
}

#endif
