/* An extension module that records in C, as an engine's would: with and without the GIL, on threads of its own, and to the
   very end of the interpreter. Built by tests/python/test_native_engine.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <lineprofiler_python.h>

#include <pthread.h>
#include <stdint.h>

static lp_profiler *taken, *own;
static int imported;
static int goes_on; /* for threads that record until the process ends */
static uint64_t rounds;

static void work(long n)
{
    LP_PHASE("expand");
    for (long i = 0; i < n; i++) {
        LP_PHASE_WITH("leaf", 0, 1.0);
        LP_COUNT("visits", 2);
    }
}

static void *work_once(void *n)
{
    work((long)(intptr_t)n);
    return NULL;
}

static void *work_for_ever(void *unused)
{
    while (__atomic_load_n(&goes_on, __ATOMIC_RELAXED)) {
        work(3);
        lp_phase phase = lp_enter(taken, lp_with(lp_intern("taken"), LP_IO));
        lp_count(taken, lp_intern("n"), 1);
        lp_leave(&phase);
        __atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

static PyObject *with_gil(PyObject *module, PyObject *n)
{
    (void)module;
    work(PyLong_AsLong(n));
    Py_RETURN_NONE;
}

static PyObject *without_gil(PyObject *module, PyObject *n)
{
    long value = PyLong_AsLong(n);
    (void)module;
    PyThreadState *thread = PyEval_SaveThread();
    work(value);
    PyEval_RestoreThread(thread);
    Py_RETURN_NONE;
}

static PyObject *on_threads(PyObject *module, PyObject *args)
{
    pthread_t threads[32];
    int count;
    long n;
    (void)module;
    if (!PyArg_ParseTuple(args, "il", &count, &n))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, work_once, (void *)(intptr_t)n);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    PyEval_RestoreThread(thread);
    Py_RETURN_NONE;
}

/* A phase of C's around code of Python's. */
static PyObject *around(PyObject *module, PyObject *function)
{
    (void)module;
    LP_PHASE("around");
    return PyObject_CallNoArgs(function);
}

static PyObject *start_native(PyObject *module, PyObject *unused)
{
    pthread_t thread;
    (void)module;
    (void)unused;
    __atomic_store_n(&goes_on, 1, __ATOMIC_RELAXED);
    if (pthread_create(&thread, NULL, work_for_ever, NULL) == 0)
        pthread_detach(thread);
    Py_RETURN_NONE;
}

/* For a daemon thread of Python: never comes back, and never asks for the GIL again. */
static PyObject *record_for_ever(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    __atomic_store_n(&goes_on, 1, __ATOMIC_RELAXED);
    PyThreadState *thread = PyEval_SaveThread();
    work_for_ever(NULL);
    PyEval_RestoreThread(thread);
    Py_RETURN_NONE;
}

/* The same, but it takes the GIL in each round, with a phase open. */
static PyObject *record_with_gil_for_ever(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    for (;;) {
        LP_PHASE("with the GIL");
        PyThreadState *thread = PyEval_SaveThread();
        work(1);
        PyEval_RestoreThread(thread);
        work(1);
        __atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
    }
    Py_RETURN_NONE;
}

static PyObject *rounds_so_far(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(__atomic_load_n(&rounds, __ATOMIC_RELAXED));
}

static PyObject *take(PyObject *module, PyObject *profiler)
{
    (void)module;
    taken = lp_profiler_of(profiler);
    if (!taken && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(taken != NULL);
}

static PyObject *use_taken(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    lp_phase phase = lp_enter(taken, lp_intern("taken"));
    lp_leave(&phase);
    return PyBool_FromLong(lp_is_enabled(taken));
}

static PyObject *taken_is_installed(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(taken && lp_installed() == taken);
}

static PyObject *something_is_installed(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(lp_installed() != NULL);
}

static PyObject *open_own(PyObject *module, PyObject *run_dir)
{
    const char *path = PyUnicode_AsUTF8(run_dir);
    (void)module;
    if (!path)
        return NULL;
    own = lp_open(&(lp_options){.run_dir = path, .run_id = "one", .role = "engine", .snapshot_interval_s = 0.01});
    if (!own)
        return PyErr_Format(PyExc_RuntimeError, "%s", lp_error_message());
    return PyBool_FromLong(lp_installed() == own);
}

static PyObject *close_own(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(lp_close(own));
}

static PyObject *close_installed(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(lp_close(lp_installed()));
}

static PyObject *current(PyObject *module, PyObject *unused)
{
    char text[512];
    (void)module;
    (void)unused;
    lp_current(lp_installed(), text, sizeof text);
    return PyUnicode_FromString(text);
}

/* When the module goes, late in the interpreter's end. */
static void ends(void *module)
{
    (void)module;
    work(1);
    lp_phase phase = lp_enter(taken, lp_intern("module ends"));
    lp_leave(&phase);
}

static int execute(PyObject *module)
{
    imported = lp_import() == 0;
    if (!imported)
        PyErr_Clear();
    return PyModule_AddIntConstant(module, "imported", imported);
}

static PyMethodDef methods[] = {
    {"with_gil", with_gil, METH_O, NULL},
    {"without_gil", without_gil, METH_O, NULL},
    {"on_threads", on_threads, METH_VARARGS, NULL},
    {"around", around, METH_O, NULL},
    {"start_native", start_native, METH_NOARGS, NULL},
    {"record_for_ever", record_for_ever, METH_NOARGS, NULL},
    {"record_with_gil_for_ever", record_with_gil_for_ever, METH_NOARGS, NULL},
    {"rounds", rounds_so_far, METH_NOARGS, NULL},
    {"take", take, METH_O, NULL},
    {"use_taken", use_taken, METH_NOARGS, NULL},
    {"taken_is_installed", taken_is_installed, METH_NOARGS, NULL},
    {"something_is_installed", something_is_installed, METH_NOARGS, NULL},
    {"open_own", open_own, METH_O, NULL},
    {"close_own", close_own, METH_NOARGS, NULL},
    {"close_installed", close_installed, METH_NOARGS, NULL},
    {"current", current, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "engine",
    .m_methods = methods,
    .m_slots = slots,
    .m_free = ends,
};

PyMODINIT_FUNC PyInit_engine(void);

PyMODINIT_FUNC PyInit_engine(void)
{
    return PyModuleDef_Init(&definition);
}
