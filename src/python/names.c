/* Names: from a str to the number that the core knows it by. */
#include "python/module.h"

#include "image/image.h"
#include "record/names.h"

/* Longer ones are looked up each time, so that the strings we hold stay small. */
#define KEPT_LENGTH 4096

static PyObject *encode(PyObject *text)
{
    return PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
}

static int check_length(size_t len, const char *what)
{
    if (len > 0 && len <= LP_NAME_LIMIT)
        return 0;
    if (len == 0)
        PyErr_Format(PyExc_ValueError, "%s name must not be empty", what);
    else
        PyErr_Format(PyExc_ValueError, "%s name of %zu bytes is longer than %u bytes", what, len, LP_NAME_LIMIT);
    return -1;
}

static int check_type(PyObject *text, const char *what)
{
    if (PyUnicode_Check(text))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s name must be str, not %.200s", what, Py_TYPE(text)->tp_name);
    return -1;
}

static void keep(struct lpy_state *state, PyObject *text, lp_name_id id)
{
    struct lpy_name_set *set = &state->names[lpy_name_hash(text)];
    PyObject *dropped = set->texts[1];
    set->texts[1] = set->texts[0];
    set->ids[1] = set->ids[0];
    set->texts[0] = Py_NewRef(text);
    set->ids[0] = id;
    Py_XDECREF(dropped);
}

static int intern(const char *bytes, size_t len, const char *what, lp_name_id *id)
{
    if (check_length(len, what) < 0)
        return -1;
    *id = lp_name_intern(bytes, len);
    return 0;
}

static int intern_encoded(PyObject *text, const char *what, lp_name_id *id)
{
    PyErr_Clear();
    PyObject *bytes = encode(text);
    if (bytes == NULL)
        return -1;
    int status = intern(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes), what, id);
    Py_DECREF(bytes);
    return status;
}

int lpy_name_id(struct lpy_state *state, PyObject *text, const char *what, lp_name_id *id)
{
    if (check_type(text, what) < 0)
        return -1;
    Py_ssize_t len;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &len);
    int status = bytes ? intern(bytes, (size_t)len, what, id) : intern_encoded(text, what, id);
    if (status == 0 && *id != LP_NAME_NONE && PyUnicode_GET_LENGTH(text) <= KEPT_LENGTH)
        keep(state, text, *id);
    return status;
}

int lpy_name_check(PyObject *text, const char *what)
{
    if (check_type(text, what) < 0)
        return -1;
    Py_ssize_t len = PyUnicode_GET_LENGTH(text);
    if (LP_LIKELY(len > 0 && len <= KEPT_LENGTH))
        return 0;
    PyObject *bytes = encode(text);
    if (bytes == NULL)
        return -1;
    int status = check_length((size_t)PyBytes_GET_SIZE(bytes), what);
    Py_DECREF(bytes);
    return status;
}

static PyObject *text_of(lp_name_id id)
{
    struct lp_name_text text = lp_name_text(id);
    return lpy_text(text.bytes, text.len);
}

static void refuse_name(PyObject *name, PyObject *shape)
{
    PyErr_Format(PyExc_ValueError,
                 "phase name %R shares the shape %R with another one, which strict_names=True refuses: use a fixed "
                 "name, and count() for the varying part",
                 name, shape);
}

static int warn_of_many(PyObject *name, PyObject *shape, uint32_t count)
{
    return PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                            "%u distinct phase names share the shape %R (most recently %R). Names built from data grow "
                            "the tree of phases until it folds at %u paths: use a fixed name, and count() for the "
                            "varying part.",
                            count, shape, name, LP_PATHS_LIMIT);
}

int lpy_name_admit(struct lpy_recorder *recorder, lp_name_id id)
{
    struct lp_shape_verdict verdict = lp_recorder_admit(recorder->recorder, id, recorder->strict_names);
    if (!verdict.refused && verdict.count != LP_SHAPE_MANY)
        return 0;
    PyObject *name = text_of(id), *shape = text_of(verdict.shape);
    int status = -1;
    if (name && shape && verdict.refused)
        refuse_name(name, shape);
    else if (name && shape)
        status = warn_of_many(name, shape, verdict.count);
    Py_XDECREF(name);
    Py_XDECREF(shape);
    return status;
}

PyObject *lpy_text(const char *bytes, size_t len)
{
    return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)len, "surrogatepass");
}

void lpy_names_clear(struct lpy_state *state)
{
    for (size_t i = 0; i < LPY_NAME_SETS; i++) {
        Py_CLEAR(state->names[i].texts[0]);
        Py_CLEAR(state->names[i].texts[1]);
    }
}
