/* call_inside(): a call inside of a phase, without a frame of ours in the tracebacks of the program. */
#include "python/module.h"

/* What `with` does at its end. The exception that goes through, if any, is set aside: phases look at none. */
static int leave(PyObject *exit)
{
    PyObject *nothing[] = {Py_None, Py_None, Py_None};
    PyObject *left = PyObject_Vectorcall(exit, nothing, 3, NULL);
    Py_XDECREF(left);
    return left ? 0 : -1;
}

static PyObject *call(PyObject *exit, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *result = PyObject_Vectorcall(args[1], args + 2, (size_t)(nargs - 2), kwnames);
    PyObject *exception = result ? NULL : lpy_set_aside();
    if (leave(exit) < 0) {
        Py_XDECREF(exception);
        Py_XDECREF(result);
        return NULL;
    }
    if (exception)
        lpy_raise_again(exception);
    return result;
}

PyObject *lpy_call_inside(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    if (nargs < 2) {
        PyErr_SetString(PyExc_TypeError, "call_inside() takes what enters, a function, and its arguments");
        return NULL;
    }
    PyObject *result = NULL, *enter = NULL, *exit = NULL, *entered = NULL; /* Owned. */
    PyObject *phase = PyObject_CallNoArgs(args[0]);
    if (phase)
        exit = PyObject_GetAttrString(phase, "__exit__"); /* first, as `with` does: it hands out the entry */
    if (exit)
        enter = PyObject_GetAttrString(phase, "__enter__");
    if (enter)
        entered = PyObject_CallNoArgs(enter);
    if (entered)
        result = call(exit, args, nargs, kwnames);
    Py_XDECREF(entered);
    Py_XDECREF(enter);
    Py_XDECREF(exit);
    Py_XDECREF(phase);
    return result;
}
