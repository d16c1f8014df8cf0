/* The name of the calling thread, as the program knows it. */
#include "python/module.h"

#include <string.h>

#include "api/thread_name.h"

/* What threading keeps of the calling thread; NULL if it does not know it.
   threading.current_thread() would make one up for a thread that it did not start, and importing
   threading takes a millisecond of the program's. */
static PyObject *find_thread(struct lpy_state *state)
{
    PyObject *module = state->threading ? PyImport_GetModule(state->threading) : NULL;
    if (module == NULL)
        return NULL;
    PyObject *active = PyObject_GetAttr(module, state->active);
    PyObject *ident = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    PyObject *thread = NULL;
    if (active && ident && PyDict_Check(active))
        thread = lpy_dict_get(active, ident);
    Py_XDECREF(ident);
    Py_XDECREF(active);
    Py_DECREF(module);
    return thread;
}

/* The attribute behind Thread.name: to read it runs no code of the program's. */
static PyObject *find_name(struct lpy_state *state)
{
    PyObject *thread = find_thread(state);
    if (thread == NULL)
        return NULL;
    PyObject *text = PyObject_GetAttr(thread, state->thread_name);
    Py_DECREF(thread);
    PyObject *bytes = NULL;
    if (text && PyUnicode_Check(text))
        bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    Py_XDECREF(text);
    return bytes;
}

/* Copies whole characters. */
static size_t copy_text(char *out, size_t size, const char *bytes, size_t len)
{
    if (len > size) {
        len = size;
        while (len > 0 && ((unsigned char)bytes[len] & 0xc0) == 0x80)
            len--;
    }
    memcpy(out, bytes, len);
    return len;
}

size_t lpy_thread_name(void *context, char *name, size_t size)
{
    struct lpy_state *state = lpy_attached_state(context);
    if (!state)
        return lp_api_thread_name(NULL, name, size);
    PyObject *raised = lpy_set_aside();
    PyObject *bytes = find_name(state);
    lpy_raise_again(raised);
    if (bytes == NULL || PyBytes_GET_SIZE(bytes) == 0) {
        Py_XDECREF(bytes);
        return lp_api_thread_name(NULL, name, size);
    }
    size_t len = copy_text(name, size, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return len;
}
