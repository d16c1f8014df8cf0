/*
 * What on_snapshot() registers, and the keeper's call of it.
 *
 * The keeper comes here after each periodic flush, without the GIL. With nothing registered it goes at once; else it
 * reads the worker's state, still without the GIL, and only then enters the interpreter: with a thread state of its own,
 * made for the profiler's interpreter, so that this works in subinterpreters too. No lock of ours is held meanwhile, so
 * what is called may use the profiler, close it, let it be collected, or fork.
 *
 * Closing waits for a call that runs, and none begins afterwards (worker/worker.h): as every open profiler is closed by
 * atexit, the interpreter is whole whenever the keeper enters it.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "python/module.h"

struct lpy_callbacks {
    _Atomic int n; /* how many there are: what the keeper looks at without the GIL */
    PyInterpreterState *interpreter;
    struct lp_worker *worker; /* Borrowed. */
    /* Guarded by the GIL. NULL once the recorder is gone. */
    PyObject *functions; /* Owned: a list. */
    PyObject *make_tree; /* Owned: lineprofiler.tree._make_tree */
    PyObject *error;     /* Owned: a line of text on the last failure; may be NULL */
    sigset_t signals; /* blocked where functions were registered: what they start must not inherit the keeper's mask */
};

struct lpy_callbacks *lpy_callbacks_new(void)
{
    struct lpy_callbacks *callbacks = calloc(1, sizeof *callbacks);
    if (callbacks == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    callbacks->interpreter = PyInterpreterState_Get();
    callbacks->functions = PyList_New(0);
    if (callbacks->functions == NULL) {
        free(callbacks);
        return NULL;
    }
    return callbacks;
}

void lpy_callbacks_set_worker(struct lpy_callbacks *callbacks, struct lp_worker *worker)
{
    callbacks->worker = worker;
}

int lpy_callbacks_traverse(struct lpy_callbacks *callbacks, visitproc visit, void *arg)
{
    if (callbacks == NULL)
        return 0;
    Py_VISIT(callbacks->functions);
    Py_VISIT(callbacks->make_tree);
    return 0;
}

void lpy_callbacks_clear(struct lpy_callbacks *callbacks)
{
    if (callbacks == NULL)
        return;
    atomic_store(&callbacks->n, 0);
    Py_CLEAR(callbacks->functions);
    Py_CLEAR(callbacks->make_tree);
    Py_CLEAR(callbacks->error);
}

/* By whoever frees the worker, perhaps without the GIL: by then it holds no object. */
void lpy_callbacks_free(void *callbacks)
{
    free(callbacks);
}

PyObject *lpy_callbacks_error(const struct lpy_callbacks *callbacks)
{
    return Py_NewRef(callbacks && callbacks->error ? callbacks->error : Py_None);
}

int lpy_callbacks_add(struct lpy_callbacks *callbacks, PyObject *function)
{
    if (callbacks->make_tree == NULL) {
        PyObject *module = PyImport_ImportModule("lineprofiler.tree");
        callbacks->make_tree = module ? PyObject_GetAttrString(module, "_make_tree") : NULL;
        Py_XDECREF(module);
    }
    if (callbacks->make_tree && callbacks->functions == NULL) /* the collector has taken it apart */
        PyErr_SetString(PyExc_RuntimeError, "on_snapshot was called on a profiler that is gone");
    if (callbacks->make_tree == NULL || callbacks->functions == NULL ||
        PyList_Append(callbacks->functions, function) < 0)
        return -1;
    pthread_sigmask(SIG_BLOCK, NULL, &callbacks->signals);
    atomic_fetch_add(&callbacks->n, 1);
    return 0;
}

/* "ValueError: no such host". Whatever goes wrong with the text, the exception is gone afterwards. */
static PyObject *describe(void)
{
    PyObject *exception = lpy_set_aside();
    if (exception == NULL)
        return NULL;
    const char *type = Py_TYPE(exception)->tp_name;
    PyObject *text = PyUnicode_FromFormat("%s: %S", type, exception);
    if (text == NULL) {
        PyErr_Clear();
        text = PyUnicode_FromString(type);
    }
    PyErr_Clear();
    Py_DECREF(exception);
    return text;
}

static void note_failure(struct lpy_callbacks *callbacks)
{
    lp_worker_callback_failed(callbacks->worker);
    PyObject *text = describe();
    if (callbacks->functions)
        Py_XSETREF(callbacks->error, text);
    else
        Py_XDECREF(text);
}

/* Calls each of them with the tree. False in a child that one of them forked, where nothing of ours may be there. */
static bool call_each(struct lpy_callbacks *callbacks, PyObject *functions, PyObject *tree)
{
    pid_t pid = getpid();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(functions) && !lp_worker_closing(callbacks->worker); i++) {
        PyObject *result = PyObject_CallOneArg(PyTuple_GET_ITEM(functions, i), tree);
        if (getpid() != pid) {
            PyErr_Clear();
            Py_XDECREF(result);
            return false;
        }
        if (result == NULL)
            note_failure(callbacks);
        Py_XDECREF(result);
    }
    return true;
}

/* With the GIL held. False as above. */
static bool call_with_reading(struct lpy_callbacks *callbacks, const struct lp_run_reading *reading)
{
    bool here = true;
    if (callbacks->functions == NULL || lp_worker_closing(callbacks->worker))
        return true;
    PyObject *functions = PyList_AsTuple(callbacks->functions);
    PyObject *make_tree = Py_NewRef(callbacks->make_tree);
    PyObject *pairs = lpy_tree_pairs(reading->tree);
    PyObject *tree = functions && pairs ? PyObject_CallOneArg(make_tree, pairs) : NULL;
    Py_XDECREF(pairs);
    if (tree)
        here = call_each(callbacks, functions, tree);
    else
        note_failure(callbacks);
    Py_XDECREF(tree);
    Py_DECREF(make_tree);
    Py_XDECREF(functions); /* the last reference to the profiler may go with it */
    return here;
}

static void call_in_interpreter(struct lpy_callbacks *callbacks, const struct lp_run_reading *reading)
{
    sigset_t ours;
    PyThreadState *thread = PyThreadState_New(callbacks->interpreter);
    if (thread == NULL) {
        lp_worker_callback_failed(callbacks->worker);
        return;
    }
    PyEval_AcquireThread(thread);
    pthread_sigmask(SIG_SETMASK, &callbacks->signals, &ours);
    bool here = call_with_reading(callbacks, reading);
    if (here)
        pthread_sigmask(SIG_SETMASK, &ours, NULL);
    PyThreadState_Clear(thread);
    PyThreadState_DeleteCurrent();
}

void lpy_callbacks_call(void *context)
{
    struct lpy_callbacks *callbacks = context;
    struct lp_run_reading reading;
    char message[LPY_READING_MESSAGE];
    if (atomic_load(&callbacks->n) == 0 || !Py_IsInitialized()) /* one that was opened by the last of atexit's calls */
        return;
    if (lpy_read_worker(&reading, callbacks->worker, message) < 0) {
        lp_worker_callback_failed(callbacks->worker);
        return;
    }
    call_in_interpreter(callbacks, &reading);
    lp_run_reading_release(&reading);
}
