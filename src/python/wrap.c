/* What a Recorder hands out in place of a Phase where something is to happen around its entries: lineprofiler._wrapped. */
#include "python/module.h"

#include "record/names.h"

void lpy_recorder_wrap(struct lpy_recorder *recorder, PyObject *function, lp_name_id name)
{
    recorder->wrapped = name;
    recorder->plain = function ? NULL : recorder->recorder;
    Py_XSETREF(recorder->wrap, Py_XNewRef(function));
}

PyObject *lpy_phase_wrapped(struct lpy_recorder *recorder, PyObject *phase)
{
    lp_name_id name = ((struct lpy_phase *)phase)->id & LP_NAME_MASK;
    if (recorder->wrap == NULL || (recorder->wrapped != LP_NAME_NONE && recorder->wrapped != name))
        return phase;
    PyObject *function = Py_NewRef(recorder->wrap); /* which it may take away */
    PyObject *wrapped = PyObject_CallOneArg(function, phase);
    Py_DECREF(function);
    if (wrapped == NULL && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        return phase;
    }
    Py_DECREF(phase);
    return wrapped;
}
