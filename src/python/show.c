/* Numbers and texts as the report shows them, for tables that are made in Python. */
#include "python/module.h"

#include "base/emit.h"
#include "report/format.h"
#include "report/label.h"

static PyObject *cell(PyObject *number, struct lp_report_cell (*show)(double))
{
    double value = PyFloat_AsDouble(number);
    if (value == -1.0 && PyErr_Occurred())
        return NULL;
    return PyUnicode_FromString(show(value).text);
}

PyObject *lpy_show_duration(PyObject *module, PyObject *ns)
{
    (void)module;
    return cell(ns, lp_report_duration);
}

PyObject *lpy_show_share(PyObject *module, PyObject *fraction)
{
    (void)module;
    return cell(fraction, lp_report_share);
}

PyObject *lpy_show_percent(PyObject *module, PyObject *fraction)
{
    (void)module;
    return cell(fraction, lp_report_percent);
}

PyObject *lpy_show_text(PyObject *module, PyObject *text)
{
    (void)module;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a text to be shown must be str");
        return NULL;
    }
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"), *shown = NULL;
    if (bytes == NULL)
        return NULL;
    struct lp_buffer buffer = {0};
    struct lp_report_sink sink;
    lp_report_sink_init(&sink, lp_buffer_put, &buffer);
    size_t columns = lp_report_label(&sink, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes), SIZE_MAX);
    if (sink.error != 0)
        PyErr_NoMemory();
    else
        shown = Py_BuildValue("(s#n)", buffer.len ? buffer.bytes : "", (Py_ssize_t)buffer.len, (Py_ssize_t)columns);
    free(buffer.bytes);
    Py_DECREF(bytes);
    return shown;
}
