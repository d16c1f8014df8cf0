/*
 * Which CUDA stream is current on this thread, as the framework has it that the program uses.
 *
 * The driver does not know: a current stream is a notion of each framework. torch is asked if the program has imported it
 * and CUDA is initialised there, else CuPy. Of any other, JAX for one, whose streams are its own affair, nothing is known,
 * and the default stream would give a time that looks like one: so there is no stream. Nothing is imported here, and
 * nothing initialised.
 */
#include "python/module.h"

/* Whatever goes wrong in a framework is no fault of the program, and ends here. */
static lp_cuda_stream stream_from(PyObject *number)
{
    lp_cuda_stream stream = LP_CUDA_NO_STREAM;
    if (number && PyLong_Check(number)) {
        stream = PyLong_AsSize_t(number);
        Py_DECREF(number);
    } else {
        Py_XDECREF(number);
    }
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return LP_CUDA_NO_STREAM;
    }
    return stream;
}

PyObject *lpy_imported(const char *name)
{
    PyObject *modules = PyImport_GetModuleDict();
    return modules && PyDict_CheckExact(modules) ? PyDict_GetItemString(modules, name) : NULL;
}

/* object.first.second(); takes the object. NULL, with or without an exception, if that cannot be had. */
static PyObject *call_in(PyObject *object, const char *first, const char *second)
{
    PyObject *inner = object ? PyObject_GetAttrString(object, first) : NULL;
    PyObject *result = inner ? PyObject_CallMethod(inner, second, NULL) : NULL;
    Py_XDECREF(inner);
    return result;
}

static bool is_true(PyObject *object)
{
    bool truth = object == Py_True;
    Py_XDECREF(object);
    PyErr_Clear();
    return truth;
}

/* Two calls into C++, without the objects that torch.cuda.current_stream() makes. */
static PyObject *torch_stream_fast(PyObject *torch)
{
    PyObject *c = PyObject_GetAttrString(torch, "_C"), *stream = NULL;
    PyObject *device = c ? PyObject_CallMethod(c, "_cuda_getDevice", NULL) : NULL;
    if (device)
        stream = PyObject_CallMethod(c, "_cuda_getCurrentRawStream", "O", device);
    Py_XDECREF(device);
    Py_XDECREF(c);
    PyErr_Clear();
    return stream;
}

static PyObject *attribute_of(PyObject *object, const char *name)
{
    PyObject *attribute = object ? PyObject_GetAttrString(object, name) : NULL;
    Py_XDECREF(object);
    return attribute;
}

lp_cuda_stream lpy_current_stream(void)
{
    PyObject *torch = lpy_imported("torch"), *cupy;
    if (torch && is_true(call_in(torch, "cuda", "is_initialized"))) {
        PyObject *stream = torch_stream_fast(torch);
        return stream_from(stream ? stream : attribute_of(call_in(torch, "cuda", "current_stream"), "cuda_stream"));
    }
    if ((cupy = lpy_imported("cupy")))
        return stream_from(attribute_of(call_in(cupy, "cuda", "get_current_stream"), "ptr"));
    return LP_CUDA_NO_STREAM;
}
