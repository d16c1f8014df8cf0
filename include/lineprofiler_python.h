/*
 * lineprofiler.h for extension modules of Python: what they record stands in the same tree as what Python records.
 *
 *     #include <Python.h>
 *     #include <lineprofiler_python.h>
 *
 *     PyMODINIT_FUNC PyInit_engine(void)
 *     {
 *         if (lp_import() < 0)
 *             PyErr_Clear();         // no lineprofiler here: every function does nothing
 *         ...
 *
 * and anywhere, with or without the GIL, on threads of Python and others:
 *
 *     LP_PHASE("expand");            // of the profiler that Python installed
 *
 * Files of the module that know nothing of Python define LINEPROFILER_BOUND and include <lineprofiler.h>, or <lineprofiler.hpp>.
 *
 * Nothing is linked: the functions are those of the package that Python imports. To build, add the folder
 * lineprofiler.get_include() to the include path.
 *
 * Entries nest under what Python has open on the thread, or in the task that runs on it. Which task runs is asked where the
 * thread holds the GIL; code that has released it nests where the task was at its last boundary of a phase, so a
 * function that releases the GIL is best called with a phase of Python's open in its task.
 */
#ifndef LINEPROFILER_PYTHON_H
#define LINEPROFILER_PYTHON_H

#ifndef Py_PYTHON_H
#error "include Python.h before lineprofiler_python.h"
#endif
#if defined(LINEPROFILER_H) && !defined(LINEPROFILER_BOUND)
#error "include lineprofiler_python.h before, or instead of, lineprofiler.h"
#endif
#ifndef LINEPROFILER_BOUND
#define LINEPROFILER_BOUND
#endif
#include <lineprofiler.h>

#define LP_PYTHON_TABLE "lineprofiler._core.c_api"
#define LP_PYTHON_PROFILER "lineprofiler.profiler"

/* To be called once in the module's init function. 0; or -1 with an ImportError: the package is not there, or is older than
   this header. */
static inline int lp_import(void)
{
    const lp_api *table = (const lp_api *)PyCapsule_Import(LP_PYTHON_TABLE, 0);
    if (!table)
        return -1;
    if (lp_bind(table) == 0)
        return 0;
    PyErr_Format(PyExc_ImportError, "lineprofiler %s is older than the one that this module was built with",
                 table->version());
    return -1;
}

/* The C side of a lineprofiler.accounting.Profiler, which need not be installed: valid for ever, and inert once that one is
   closed. With the GIL held. NULL with an exception if it is something else; NULL without one if it is not enabled. */
static inline lp_profiler *lp_profiler_of(PyObject *profiler)
{
    PyObject *capsule = PyObject_CallMethod(profiler, "_c_profiler", NULL);
    lp_profiler *found = NULL;
    if (capsule && capsule != Py_None)
        found = (lp_profiler *)PyCapsule_GetPointer(capsule, LP_PYTHON_PROFILER);
    Py_XDECREF(capsule);
    return found;
}

#endif
