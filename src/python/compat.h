/*
 * python/compat.h: what differs between the versions of CPython that the extension is built for
 * (3.11 and later), each difference as one inline function or macro. Nothing else under python/
 * looks at PY_VERSION_HEX.
 *
 * Only the public C API is used, but for one old function before 3.13, so that a version yet to come needs at most a line
 * here.
 */
#ifndef LP_PYTHON_COMPAT_H
#define LP_PYTHON_COMPAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000
#error "CPython 3.11 or later is needed"
#endif

/* Members of a type: in Python.h, and with new names, since 3.12. */
#if PY_VERSION_HEX < 0x030C0000
#include <structmember.h>
#define LPY_MEMBER_OFFSET T_PYSSIZET
#define LPY_MEMBER_READONLY READONLY
#else
#define LPY_MEMBER_OFFSET Py_T_PYSSIZET
#define LPY_MEMBER_READONLY Py_READONLY
#endif

/* Slots of the module. Every Python object of ours belongs to one module's state, and what interpreters share - names,
   threads, workers - is the core's, which has locks of its own. Threads that run without a GIL are not provided for. */
#if PY_VERSION_HEX >= 0x030C0000
#define LPY_MODULE_SLOTS {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#else
#define LPY_MODULE_SLOTS
#endif

/* Gives an object that has lost its last reference a new one. Its type is still held. */
static inline void lpy_revive(PyObject *object)
{
#if defined(Py_GIL_DISABLED) || defined(Py_REF_DEBUG) || defined(Py_TRACE_REFS)
    PyTypeObject *type = Py_TYPE(object);
    PyObject_Init(object, type);
    Py_DECREF(type);
#else
    Py_SET_REFCNT(object, 1);
#endif
}

/* Before 3.14 asyncio keeps in a dict which task runs on which loop. Callbacks on changes of a dict came with 3.12. */
#define LPY_CURRENT_TASKS_IN_DICT (PY_VERSION_HEX < 0x030E0000)
#define LPY_CAN_WATCH_DICTS (PY_VERSION_HEX >= 0x030C0000)

/* Changes whenever the calling thread enters or leaves a context, as every step of a task does; never 0, and never the
   same for two thread states. */
static inline uint64_t lpy_context_version(void)
{
    const PyThreadState *thread = PyThreadState_Get();
    return (thread->id << 40) ^ thread->context_ver;
}

/* The calling thread's state if it holds the GIL, which may be asked without it. NULL: it does not, or Python does not
   know the thread. */
static inline const PyThreadState *lpy_attached_thread(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#elif PY_VERSION_HEX >= 0x030C0000
    return _PyThreadState_UncheckedGet();
#else
    /* There it is the state of whoever holds the GIL; of the main interpreter's threads, it can be told which is ours. */
    const PyThreadState *mine = PyGILState_GetThisThreadState();
    return mine && mine == _PyThreadState_UncheckedGet() ? mine : NULL;
#endif
}

/* Whether a weak reference refers to this object. */
static inline int lpy_refers_to(PyObject *reference, PyObject *object)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *referent = NULL;
    if (PyWeakref_GetRef(reference, &referent) < 0)
        PyErr_Clear();
    Py_XDECREF(referent);
    return referent == object;
#else
    return PyWeakref_GetObject(reference) == object;
#endif
}

/* Sets the exception aside that is being raised, and raises it again. NULL: none. */
#if PY_VERSION_HEX >= 0x030C0000
static inline PyObject *lpy_set_aside(void)
{
    return PyErr_GetRaisedException();
}

static inline void lpy_raise_again(PyObject *exception)
{
    PyErr_SetRaisedException(exception);
}
#else
static inline PyObject *lpy_set_aside(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

static inline void lpy_raise_again(PyObject *exception)
{
    PyErr_Clear();
    if (exception)
        PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception, PyException_GetTraceback(exception));
}
#endif

/* dict[key] as a new reference; NULL without an exception if it is not there or cannot be had. */
static inline PyObject *lpy_dict_get(PyObject *dict, PyObject *key)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *value = NULL;
    if (PyDict_GetItemRef(dict, key, &value) < 0)
        PyErr_Clear();
    return value;
#else
    PyObject *value = PyDict_GetItemWithError(dict, key);
    if (value == NULL)
        PyErr_Clear();
    return Py_XNewRef(value);
#endif
}

#endif
