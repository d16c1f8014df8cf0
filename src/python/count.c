/* count(): adds to a counter of the innermost open phase. */
#include "python/module.h"

static int refuse_range(PyObject *text)
{
    PyErr_Format(PyExc_OverflowError, "counter '%U': the value is outside signed 64 bits", text);
    return -1;
}

/* Anything with __index__ is an integer. */
LPY_RAISES_NEG static int convert_index(PyObject *object, PyObject *text, int64_t *n)
{
    if (!PyIndex_Check(object)) {
        PyErr_Format(PyExc_TypeError, "counter '%U': n must be an integer, not %.200s", text, Py_TYPE(object)->tp_name);
        return -1;
    }
    PyObject *index = PyNumber_Index(object);
    if (index == NULL)
        return -1;
    int overflow;
    *n = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    return overflow ? refuse_range(text) : 0;
}

LP_ALWAYS_INLINE int convert(PyObject *object, PyObject *text, int64_t *n)
{
    if (LP_UNLIKELY(!PyLong_CheckExact(object)))
        return convert_index(object, text, n);
    int overflow;
    *n = PyLong_AsLongLongAndOverflow(object, &overflow);
    return LP_UNLIKELY(overflow) ? refuse_range(text) : 0;
}

LP_ALWAYS_INLINE PyObject *count(struct lpy_state *state, struct lpy_recorder *self, PyObject *text, PyObject *object)
{
    int64_t n = 1;
    lp_name_id name = LP_NAME_NONE;
    struct lp_recorder *recorder = self ? self->recorder : NULL;
    if (LP_LIKELY(recorder != NULL))
        name = lpy_name_seen(state, text);
    if (LP_UNLIKELY(name == LP_NAME_NONE)) {
        int status = recorder ? lpy_name_id(state, text, "counter", &name) : lpy_name_check(text, "counter");
        if (status < 0)
            return NULL;
    }
    if (object && convert(object, text, &n) < 0)
        return NULL;
    struct lp_thread *thread = LP_LIKELY(recorder != NULL) ? lpy_thread_self(state, recorder) : NULL;
    if (LP_LIKELY(thread != NULL) && LP_UNLIKELY(lp_thread_count(thread, name, n) != LP_COUNT_OK)) {
        PyErr_Format(PyExc_OverflowError, "counter '%U': the sum is outside signed 64 bits", text);
        return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *lpy_count_with_arguments(struct lpy_state *state, struct lpy_recorder *recorder, PyObject *const *args,
                                   Py_ssize_t nargs, PyObject *kwnames)
{
    if (LP_LIKELY(kwnames == NULL && (nargs == 1 || nargs == 2)))
        return count(state, recorder, args[0], nargs == 2 ? args[1] : NULL);
    PyObject *names[] = {state->keywords[LPY_NAME], state->keywords[LPY_N]};
    PyObject *bound[] = {NULL, NULL};
    if (!lpy_state_stands(state) || lpy_bind("count", names, 2, bound, args, nargs, kwnames) < 0)
        return NULL;
    return count(state, recorder, bound[0], bound[1]);
}
