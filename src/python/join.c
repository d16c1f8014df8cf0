/* find_run(), ancestor_run_id() and others: which run a profiler of this process would belong to. */
#include "python/module.h"

#include "worker/join.h"

static const char *text_of(PyObject *bytes)
{
    return bytes ? PyBytes_AS_STRING(bytes) : NULL;
}

static PyObject *decode_or_none(const char *text)
{
    if (text == NULL)
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(text);
}

PyObject *lpy_find_run(PyObject *module, PyObject *args)
{
    PyObject *run_dir = NULL, *run_id = NULL; /* Owned. */
    struct lp_join join;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&O&:find_run", lpy_convert_optional_path, (void *)&run_dir, lpy_convert_optional_path,
                          (void *)&run_id))
        return NULL;
    /* With the GIL held: what it borrows from the environment must not change meanwhile. */
    lp_join_choose(&join, text_of(run_dir), text_of(run_id));
    PyObject *result = Py_BuildValue("NNO", decode_or_none(join.run_dir), decode_or_none(join.run_id),
                                     join.in_run ? Py_True : Py_False);
    Py_XDECREF(run_dir);
    Py_XDECREF(run_id);
    return result;
}

PyObject *lpy_ancestor_run_id(PyObject *module, PyObject *run_dir)
{
    PyObject *bytes; /* Owned. */
    struct lp_ancestor ancestor;
    (void)module;
    if (!PyUnicode_FSConverter(run_dir, (void *)&bytes))
        return NULL;
    bool found = lp_ancestor_find(&ancestor, PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    return decode_or_none(found ? ancestor.run_id : NULL);
}

PyObject *lpy_ancestor_run(PyObject *module, PyObject *unused)
{
    struct lp_ancestor ancestor;
    (void)module;
    (void)unused;
    if (!lp_ancestor_find(&ancestor, NULL))
        Py_RETURN_NONE;
    return Py_BuildValue("NN", decode_or_none(ancestor.run_dir), decode_or_none(ancestor.run_id));
}

PyObject *lpy_is_open_here(PyObject *module, PyObject *worker)
{
    PyObject *bytes; /* Owned. */
    (void)module;
    if (!PyUnicode_FSConverter(worker, (void *)&bytes))
        return NULL;
    bool open = lp_ancestor_has_image(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return PyBool_FromLong(open);
}
