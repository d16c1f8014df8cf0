/* Arguments of the vectorcall methods, for all calls but the plainest. */
#include "python/module.h"

/* The index of a keyword, or -1. */
static int find_keyword(PyObject *const *names, int n_names, PyObject *keyword)
{
    for (int i = 0; i < n_names; i++)
        if (names[i] == keyword)
            return i;
    for (int i = 0; i < n_names; i++)
        if (PyUnicode_Compare(names[i], keyword) == 0)
            return i;
    return -1;
}

int lpy_bind(const char *function, PyObject *const *names, int n_names, PyObject **bound, PyObject *const *args,
             Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs > n_names) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments, %zd were given", function, n_names, nargs);
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs; i++)
        bound[i] = args[i];
    Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; i < n_keywords; i++) {
        PyObject *keyword = PyTuple_GET_ITEM(kwnames, i);
        int index = find_keyword(names, n_names, keyword);
        if (index < 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, keyword);
            return -1;
        }
        if (index < nargs) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", function, keyword);
            return -1;
        }
        bound[index] = args[nargs + i];
    }
    if (n_names > 0 && bound[0] == NULL) {
        PyErr_Format(PyExc_TypeError, "%s() is missing its argument '%U'", function, names[0]);
        return -1;
    }
    return 0;
}
