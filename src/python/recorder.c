/* Recorder: one worker of the core, as the base class of lineprofiler.accounting.Profiler. */
#include "python/module.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "record/names.h"

#define MESSAGE_SIZE 1024

/* Raises what a status of the worker means; path may be NULL. */
static PyObject *raise_status(int status, int error, const char *message, PyObject *path)
{
    if (status == LP_WORKER_NO_MEMORY)
        return PyErr_NoMemory();
    PyObject *text = PyUnicode_DecodeFSDefault(message);
    if (text == NULL)
        return NULL;
    if (status == LP_WORKER_SYSTEM)
        lpy_raise_os_error(error, text, path);
    else
        PyErr_SetObject(PyExc_ValueError, text);
    Py_DECREF(text);
    return NULL;
}

/* The arguments of Recorder(), and the objects that hold their bytes. */
struct opening {
    struct lp_worker_options options;
    PyObject *run_dir, *role, *run_id, *runtime; /* Owned. */
    bool strict_names;
};

static void opening_release(struct opening *opening)
{
    Py_CLEAR(opening->run_dir);
    Py_CLEAR(opening->role);
    Py_CLEAR(opening->run_id);
    Py_CLEAR(opening->runtime);
}

int lpy_convert_optional_path(PyObject *object, void *bytes)
{
    if (object == Py_None)
        return 1;
    return PyUnicode_FSConverter(object, bytes);
}

/* Leaves the int as it was for None. */
static int convert_unless_none(PyObject *object, void *truth)
{
    if (object == Py_None)
        return 1;
    *(int *)truth = PyObject_IsTrue(object);
    return *(int *)truth >= 0;
}

/* -1 for None. */
static int convert_index(PyObject *object, void *result)
{
    int64_t *index = result;
    *index = -1;
    if (object == Py_None)
        return 1;
    if (PyBool_Check(object) || !PyIndex_Check(object)) {
        PyErr_Format(PyExc_TypeError, "index must be an integer or None, not %s", Py_TYPE(object)->tp_name);
        return 0;
    }
    PyObject *number = PyNumber_Index(object);
    if (number == NULL)
        return 0;
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    Py_DECREF(number);
    if (overflow || value < 0 || value > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "index must be 0 to %u, not %R", (unsigned)UINT32_MAX, object);
        return 0;
    }
    *index = value;
    return 1;
}

static int opening_parse(struct opening *opening, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"run_dir",
                               "role",
                               "run_id",
                               "inherited",
                               "measure_cpu",
                               "thread_names",
                               "deferred",
                               "snapshot_interval_s",
                               "sample_interval_s",
                               "strict_names",
                               "wait_detail",
                               "measure_pss",
                               "index",
                               NULL};
    struct lp_worker_options *options = &opening->options;
    PyObject *role = NULL;
    int wait_detail = LP_WAIT_DETAIL_DEFAULT;
    int64_t index = -1;
    int inherited = 0, measure_cpu = 1, thread_names = 0, deferred = 0, strict_names = 0, measure_pss = 0;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "|O&$UO&ppppddpO&pO&:Recorder", keywords, lpy_convert_optional_path,
            (void *)&opening->run_dir, &role, lpy_convert_optional_path, (void *)&opening->run_id, &inherited,
            &measure_cpu, &thread_names, &deferred, &options->snapshot_interval_s, &options->sample_interval_s,
            &strict_names, convert_unless_none, (void *)&wait_detail, &measure_pss, convert_index, (void *)&index))
        return -1;
    opening->role = role ? PyUnicode_AsEncodedString(role, "utf-8", "surrogatepass") : PyBytes_FromString("main");
    opening->runtime = PyBytes_FromFormat("CPython %d.%d.%d", (int)(Py_Version >> 24), (int)(Py_Version >> 16 & 0xff),
                                          (int)(Py_Version >> 8 & 0xff));
    if (opening->role == NULL || opening->runtime == NULL)
        return -1;
    options->measure_cpu = measure_cpu;
    options->wait_detail = wait_detail;
    options->thread_names = thread_names;
    options->deferred = deferred;
    options->measure_pss = measure_pss;
    options->has_index = index >= 0;
    options->index = index >= 0 ? (uint32_t)index : 0;
    opening->strict_names = strict_names;
    options->run_id_origin = inherited ? LP_RUN_ID_INHERITED : LP_RUN_ID_GIVEN;
    return 0;
}

static int open_worker(struct lpy_recorder *self, struct opening *opening)
{
    char message[MESSAGE_SIZE] = "";
    struct lp_worker_options *options = &opening->options;
    struct lp_worker *worker = NULL;
    options->run_dir = PyBytes_AS_STRING(opening->run_dir);
    options->role = PyBytes_AS_STRING(opening->role);
    options->role_len = (size_t)PyBytes_GET_SIZE(opening->role);
    options->run_id = opening->run_id ? PyBytes_AS_STRING(opening->run_id) : NULL;
    if (options->run_id == NULL)
        options->run_id_origin = LP_RUN_ID_GENERATED;
    options->runtime = PyBytes_AS_STRING(opening->runtime);
    options->thread_name = lpy_thread_name;
    options->thread_name_context = self->state->host;
    options->follow = lpy_follow_for_c;
    options->follow_context = self->state->host;
    struct lpy_callbacks *callbacks = lpy_callbacks_new();
    if (callbacks == NULL)
        return -1;
    options->device_memory = lpy_device_memory;
    options->flushed = lpy_callbacks_call;
    options->flushed_release = lpy_callbacks_free;
    options->flushed_context = callbacks;
    PyThreadState *thread = PyEval_SaveThread();
    int status = lp_worker_open(&worker, options, message, sizeof message);
    int error = errno;
    PyEval_RestoreThread(thread);
    if (status != LP_WORKER_OK) {
        lpy_callbacks_clear(callbacks);
        lpy_callbacks_free(callbacks);
        PyObject *path = PyUnicode_DecodeFSDefault(options->run_dir);
        raise_status(status, error, message, path);
        Py_XDECREF(path);
        return -1;
    }
    lpy_callbacks_set_worker(callbacks, worker);
    self->callbacks = callbacks;
    self->worker = worker;
    self->recorder = self->plain = lp_worker_recorder(worker);
    self->strict_names = opening->strict_names;
    lpy_recorder_list(self);
    return 0;
}

static PyObject *recorder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    PyObject *module = PyType_GetModuleByDef(type, &lpy_module);
    if (module == NULL)
        return NULL;
    struct lpy_recorder *self = (struct lpy_recorder *)type->tp_alloc(type, 0);
    if (self)
        self->state = lpy_state_of(module);
    return (PyObject *)self;
}

static int recorder_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    struct opening opening = {0};
    int status = opening_parse(&opening, args, kwargs);
    if (status == 0 && self->worker) {
        PyErr_SetString(PyExc_RuntimeError, "this recorder was opened before");
        status = -1;
    }
    if (status == 0 && opening.run_dir)
        status = open_worker(self, &opening);
    opening_release(&opening);
    return status;
}

static void release_host(void *reference)
{
    Py_DECREF((PyObject *)reference);
}

static void recorder_dealloc(PyObject *object)
{
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->weak_references)
        PyObject_ClearWeakRefs(object);
    if (self->recorder)
        lpy_recorder_unlist(self);
    self->recorder = self->plain = NULL;
    lpy_recorder_wrap(self, NULL, LP_NAME_NONE);
    lpy_callbacks_clear(self->callbacks);
    if (self->worker) {
        if (self->c_profiler)
            lp_profiler_uninstall(self->c_profiler);
        PyThreadState *thread = PyEval_SaveThread();
        lp_worker_close(self->worker, NULL, 0); /* first of all: C may be recording */
        PyEval_RestoreThread(thread);
        lp_recorder_release_hosts(lp_worker_recorder(self->worker), release_host);
        thread = PyEval_SaveThread();
        if (!self->c_profiler) /* which C may go on using */
            lp_worker_free(self->worker);
        PyEval_RestoreThread(thread);
    }
    lp_run_reading_release(&self->cursor);
    type->tp_free(object);
    Py_DECREF(type);
}

static int recorder_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct lpy_recorder *)object)->wrap);
    return lpy_callbacks_traverse(((struct lpy_recorder *)object)->callbacks, visit, arg);
}

/* A callback may hold the profiler. */
static int recorder_clear(PyObject *object)
{
    lpy_recorder_wrap((struct lpy_recorder *)object, NULL, LP_NAME_NONE);
    lpy_callbacks_clear(((struct lpy_recorder *)object)->callbacks);
    return 0;
}

static PyObject *recorder_phase(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    return lpy_phase_with_arguments(self->state, self, args, nargs, kwnames);
}

static PyObject *recorder_count(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    return lpy_count_with_arguments(self->state, self, args, nargs, kwnames);
}

static PyObject *recorder_current(PyObject *object, PyObject *unused)
{
    (void)unused;
    return lpy_current((struct lpy_recorder *)object);
}

static PyObject *none_or_raise(const struct lpy_recorder *self, int status, int error, const char *message)
{
    if (status == LP_WORKER_OK)
        Py_RETURN_NONE;
    PyObject *path = PyUnicode_DecodeFSDefault(lp_worker_path(self->worker));
    raise_status(status, error, message, path);
    Py_XDECREF(path);
    return NULL;
}

static PyObject *recorder_snapshot(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    char message[MESSAGE_SIZE] = "";
    if (self->recorder == NULL)
        Py_RETURN_NONE;
    lp_recorder_see_thread_name(self->recorder);
    PyThreadState *thread = PyEval_SaveThread();
    int status = lp_worker_snapshot(self->worker, message, sizeof message);
    int error = errno;
    PyEval_RestoreThread(thread);
    return none_or_raise(self, status, error, message);
}

static PyObject *recorder_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    char message[MESSAGE_SIZE] = "";
    if (self->recorder == NULL)
        Py_RETURN_NONE;
    lp_recorder_see_thread_name(self->recorder);
    self->recorder = self->plain = NULL;
    lpy_recorder_wrap(self, NULL, LP_NAME_NONE);
    lpy_recorder_unlist(self);
    if (self->c_profiler)
        lp_profiler_uninstall(self->c_profiler);
    PyThreadState *thread = PyEval_SaveThread();
    int status = lp_worker_close(self->worker, message, sizeof message);
    int error = errno;
    PyEval_RestoreThread(thread);
    return none_or_raise(self, status, error, message);
}

static PyObject *recorder_begin_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    if (self->worker)
        lp_worker_begin_close(self->worker);
    Py_RETURN_NONE;
}

static PyObject *recorder_document(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    if (self->worker == NULL)
        Py_RETURN_NONE;
    size_t len = 0;
    PyThreadState *thread = PyEval_SaveThread();
    char *document = lp_worker_document(self->worker, &len);
    PyEval_RestoreThread(thread);
    if (document == NULL) /* a forked child that has recorded nothing, or memory is short */
        Py_RETURN_NONE;
    PyObject *bytes = PyBytes_FromStringAndSize(document, (Py_ssize_t)len);
    free(document);
    return bytes;
}

static PyObject *recorder_merged_tree(PyObject *object, PyObject *unused)
{
    (void)unused;
    return lpy_merged_tree((struct lpy_recorder *)object);
}

static PyObject *recorder_deltas(PyObject *object, PyObject *unused)
{
    (void)unused;
    return lpy_deltas((struct lpy_recorder *)object);
}

static PyObject *recorder_on_snapshot(PyObject *object, PyObject *function)
{
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    if (!PyCallable_Check(function))
        return PyErr_Format(PyExc_TypeError, "on_snapshot takes a function to call, not %.200s",
                            Py_TYPE(function)->tp_name);
    if (self->recorder && lpy_callbacks_add(self->callbacks, function) < 0)
        return NULL;
    return Py_NewRef(function);
}

static PyObject *recorder_wrap_phases(PyObject *object, PyObject *args)
{
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    PyObject *function, *text = NULL;
    lp_name_id name = LP_NAME_NONE;
    if (!PyArg_ParseTuple(args, "O|O:wrap_phases", &function, &text))
        return NULL;
    if (text && text != Py_None && lpy_name_id(self->state, text, "phase", &name) < 0)
        return NULL;
    if (self->recorder)
        lpy_recorder_wrap(self, function, name);
    Py_RETURN_NONE;
}

static PyObject *recorder_note_in_metadata(PyObject *object, PyObject *args)
{
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    const char *key, *note;
    if (!PyArg_ParseTuple(args, "ss:note_in_metadata", &key, &note))
        return NULL;
    if (self->worker == NULL)
        Py_RETURN_NONE;
    PyThreadState *thread = PyEval_SaveThread();
    int status = lp_metadata_note(self->worker, key, note);
    int error = errno;
    PyEval_RestoreThread(thread);
    if (status == 0)
        Py_RETURN_NONE;
    errno = error;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, "metadata.json");
}

static PyObject *recorder_pause_callbacks(PyObject *type, PyObject *unused)
{
    (void)type;
    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    lp_worker_pause_calls();
    PyEval_RestoreThread(thread);
    Py_RETURN_NONE;
}

static PyObject *recorder_describes_run(PyObject *object, void *closure)
{
    (void)closure;
    const struct lpy_recorder *self = (struct lpy_recorder *)object;
    return PyBool_FromLong(self->recorder != NULL && lp_worker_describes(self->worker));
}

/* Names and versions in turn, each ended by NUL; where a text holds one it ends there. NULL with an exception set. */
static PyObject *pack_packages(PyObject *packages)
{
    PyObject *packed = PyBytes_FromStringAndSize(NULL, 0), *name, *version;
    Py_ssize_t at = 0;
    while (packed && PyDict_Next(packages, &at, &name, &version)) {
        const char *name_text = PyUnicode_AsUTF8(name);
        const char *version_text = version == Py_None ? "" : PyUnicode_AsUTF8(version);
        if (name_text == NULL || version_text == NULL) {
            Py_CLEAR(packed);
            break;
        }
        PyBytes_ConcatAndDel(&packed, PyBytes_FromFormat("%s%c%s%c", name_text, 0, version_text, 0));
    }
    return packed;
}

static PyObject *recorder_set_child_index(PyObject *object, PyObject *given)
{
    struct lpy_recorder *self = (struct lpy_recorder *)object;
    int64_t index;
    if (!convert_index(given, &index))
        return NULL;
    if (self->worker != NULL)
        lp_worker_set_child_index(self->worker, index);
    Py_RETURN_NONE;
}

static PyObject *recorder_describe_run(PyObject *object, PyObject *args)
{
    const struct lpy_recorder *self = (struct lpy_recorder *)object;
    PyObject *source_folder = NULL, *packages, *packed;
    if (!PyArg_ParseTuple(args, "O&O!:describe_run", lpy_convert_optional_path, (void *)&source_folder, &PyDict_Type,
                          &packages))
        return NULL;
    packed = pack_packages(packages);
    if (packed && self->recorder)
        lp_worker_describe(self->worker, source_folder ? PyBytes_AS_STRING(source_folder) : NULL,
                           PyBytes_AS_STRING(packed), (size_t)PyBytes_GET_SIZE(packed));
    Py_XDECREF(source_folder);
    if (packed == NULL)
        return NULL;
    Py_DECREF(packed);
    Py_RETURN_NONE;
}

static PyObject *recorder_callback_error(PyObject *object, void *closure)
{
    (void)closure;
    return lpy_callbacks_error(((struct lpy_recorder *)object)->callbacks);
}

static PyObject *text_or_none(PyObject *object, const char *(*get)(const struct lp_worker *))
{
    const struct lp_worker *worker = ((struct lpy_recorder *)object)->worker;
    if (worker == NULL)
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(get(worker));
}

static PyObject *recorder_run_id(PyObject *object, void *closure)
{
    (void)closure;
    return text_or_none(object, lp_worker_run_id);
}

static PyObject *recorder_worker(PyObject *object, void *closure)
{
    (void)closure;
    return text_or_none(object, lp_worker_name);
}

static PyObject *recorder_path(PyObject *object, void *closure)
{
    (void)closure;
    return text_or_none(object, lp_worker_path);
}

static PyObject *recorder_enabled(PyObject *object, void *closure)
{
    (void)closure;
    const struct lpy_recorder *self = (struct lpy_recorder *)object;
    return PyBool_FromLong(self->recorder && !lp_worker_closed(self->worker)); /* C may have closed it */
}

static PyObject *recorder_asked_in_vain(PyObject *object, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct lpy_recorder *)object)->used);
}

/* The path that found no place, with "/" between its names. */
static PyObject *join_path(const lp_name_id *path, size_t len)
{
    PyObject *names = PyList_New(0);
    PyObject *separator = PyUnicode_FromString("/");
    PyObject *joined = NULL;
    bool ok = names && separator;
    for (size_t i = 0; ok && i < len; i++) {
        struct lp_name_text text = lp_name_text(path[i]);
        PyObject *name = lpy_text(text.bytes, text.len);
        ok = name && PyList_Append(names, name) == 0;
        Py_XDECREF(name);
    }
    if (ok)
        joined = PyUnicode_Join(separator, names);
    Py_XDECREF(separator);
    Py_XDECREF(names);
    return joined;
}

int lpy_recorder_not_recorded(struct lpy_recorder *self)
{
    lp_name_id path[LP_STACK_DEPTH + 1];
    if (self->warned || self->recorder == NULL)
        return 0;
    size_t len = lp_recorder_overflow(self->recorder, path, LP_STACK_DEPTH + 1);
    if (len == 0)
        return 0;
    self->warned = true;
    PyObject *joined = join_path(path, len);
    if (joined == NULL)
        return -1;
    int status = PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                                  "more than %u distinct phase paths: '%U' and every further one "
                                  "is counted in the phase around it, at the top level in "
                                  "none. Names built from data do this; use a fixed name and "
                                  "count() for the varying part.",
                                  LP_PATHS_LIMIT, joined);
    Py_DECREF(joined);
    return status;
}

PyObject *lpy_current(struct lpy_recorder *self)
{
    lp_name_id path[LP_STACK_DEPTH + 1];
    struct lp_recorder *recorder = self ? self->recorder : NULL;
    struct lp_thread *thread = NULL;
    if (recorder && atomic_load_explicit(&recorder->key, memory_order_relaxed) != 0)
        thread = lpy_thread_self(self->state, recorder);
    if (thread == NULL || thread->depth == 0)
        return PyUnicode_FromString("");
    size_t len = lp_thread_path(thread, path, LP_STACK_DEPTH + 1);
    return join_path(path, len);
}

PyDoc_STRVAR(phase_doc, "phase($self, /, name, io=False, sync=False, sample=1.0, gpu=False, async_work=False)\n"
                        "--\n\n"
                        "Return a context manager that measures its body as the phase `name`.\n"
                        "\n"
                        "Phases nest; a path of names is one node, with its calls, wall time, CPU time and\n"
                        "durations in nanoseconds. The object may be kept and entered any number of times.\n"
                        "\n"
                        "sample measures one entry in round(1/sample), the first one and then every so many,\n"
                        "for each path and thread; nothing inside the others is recorded. What is measured is\n"
                        "scaled by that number, and marked as an estimate.\n"
                        "\n"
                        "io, sync, gpu and async_work are checked but do nothing yet.\n"
                        "\n"
                        "TypeError: name is not a str, a flag is not a bool, or sample is not a number.\n"
                        "ValueError: name is empty or longer than 1 MiB of UTF-8, or sample is not in (0, 1].\n"
                        "They are raised where nothing is recorded, too.");

PyDoc_STRVAR(count_doc, "count($self, /, name, n=1)\n"
                        "--\n\n"
                        "Add the integer n to the counter `name` of the phase open on this thread, or in\n"
                        "the task that runs on it.\n"
                        "\n"
                        "Outside any phase the counter belongs to the root. Each counter keeps its sum, its\n"
                        "number of calls and the least and greatest n.\n"
                        "\n"
                        "TypeError: name is not a str, or n is not an integer (anything with __index__ is).\n"
                        "ValueError: name is empty or longer than 1 MiB of UTF-8.\n"
                        "OverflowError: n or the sum is outside signed 64 bits; the counter stays as it was.");

PyDoc_STRVAR(current_doc, "current($self, /)\n"
                          "--\n\n"
                          "The names of the phases open on this thread (task), joined by \"/\"; \"\" outside any.");

PyDoc_STRVAR(snapshot_doc, "snapshot($self, /)\n"
                           "--\n\n"
                           "Write the complete state to the worker's file now.\n"
                           "\n"
                           "OSError: it could not be written; the file is as it was before.");

PyDoc_STRVAR(close_doc, "close($self, /)\n"
                        "--\n\n"
                        "Write the last state and record nothing more. Further calls do nothing.\n"
                        "\n"
                        "OSError: the last state could not be written.");

PyDoc_STRVAR(begin_close_doc, "begin_close($self, /)\n"
                              "--\n\n"
                              "Have no function that is called after flushes begin any more; close() comes next.");

PyDoc_STRVAR(document_doc,
             "document($self, /)\n"
             "--\n\n"
             "What the worker's file would hold now, as bytes; None if this process has recorded nothing.");

PyDoc_STRVAR(merged_tree_doc,
             "merged_tree($self, /)\n"
             "--\n\n"
             "What this process has recorded, as pairs of a path and its figures.\n"
             "\n"
             "MemoryError. RuntimeError: the state contradicts itself, which no program can bring about.");

PyDoc_STRVAR(deltas_doc, "deltas($self, /)\n"
                         "--\n\n"
                         "What this process has recorded since the last call, as merged_tree() has it.");

PyDoc_STRVAR(set_child_index_doc, "set_child_index($self, index, /)\n--\n\n"
                                  "Say which of its role a forked child is, before its first phase; else do nothing.");
PyDoc_STRVAR(describe_run_doc, "describe_run($self, source_folder, packages, /)\n--\n\n"
                               "Before the first phase: say where the source is, and versions of packages or None.");
PyDoc_STRVAR(on_snapshot_doc, "on_snapshot($self, function, /)\n"
                              "--\n\n"
                              "Have function called with the tree after each periodic flush; return function.\n"
                              "\n"
                              "TypeError: it cannot be called.");

PyDoc_STRVAR(wrap_phases_doc,
             "wrap_phases($self, function, name=None, /)\n"
             "--\n\n"
             "Have phase() return what function makes of the Phase, if it has that name; without a name\n"
             "of every one. Where function raises an Exception, the Phase itself is returned.");

PyDoc_STRVAR(note_in_metadata_doc, "note_in_metadata($self, key, text, /)\n"
                                   "--\n\n"
                                   "Add a text to what metadata.json says of the run, if it says none under that key.\n"
                                   "\n"
                                   "OSError: it could not be added.");

PyDoc_STRVAR(c_profiler_doc, "_c_profiler($self, /)\n"
                             "--\n\n"
                             "A capsule for lp_profiler_of() of lineprofiler_python.h; None if never enabled.");

PyDoc_STRVAR(pause_callbacks_doc,
             "pause_callbacks()\n"
             "--\n\n"
             "Before a fork: stop the threads of all profilers, and wait at most two seconds for callbacks.");

static PyMethodDef recorder_methods[] = {
    {"phase", (PyCFunction)(void (*)(void))recorder_phase, METH_FASTCALL | METH_KEYWORDS, phase_doc},
    {"count", (PyCFunction)(void (*)(void))recorder_count, METH_FASTCALL | METH_KEYWORDS, count_doc},
    {"current", recorder_current, METH_NOARGS, current_doc},
    {"snapshot", recorder_snapshot, METH_NOARGS, snapshot_doc},
    {"begin_close", recorder_begin_close, METH_NOARGS, begin_close_doc},
    {"close", recorder_close, METH_NOARGS, close_doc},
    {"document", recorder_document, METH_NOARGS, document_doc},
    {"merged_tree", recorder_merged_tree, METH_NOARGS, merged_tree_doc},
    {"deltas", recorder_deltas, METH_NOARGS, deltas_doc},
    {"set_child_index", recorder_set_child_index, METH_O, set_child_index_doc},
    {"describe_run", recorder_describe_run, METH_VARARGS, describe_run_doc},
    {"on_snapshot", recorder_on_snapshot, METH_O, on_snapshot_doc},
    {"wrap_phases", recorder_wrap_phases, METH_VARARGS, wrap_phases_doc},
    {"note_in_metadata", recorder_note_in_metadata, METH_VARARGS, note_in_metadata_doc},
    {"_c_profiler", lpy_recorder_c_profiler, METH_NOARGS, c_profiler_doc},
    {"pause_callbacks", recorder_pause_callbacks, METH_NOARGS | METH_STATIC, pause_callbacks_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef recorder_properties[] = {
    {"enabled", recorder_enabled, NULL, "Whether phases are recorded: enabled and not closed.", NULL},
    {"asked_in_vain", recorder_asked_in_vain, NULL, "Whether a phase was asked for while nothing was recorded.", NULL},
    {"run_id", recorder_run_id, NULL, "The run id; None if never enabled.", NULL},
    {"worker", recorder_worker, NULL, "The worker's name; None if never enabled.", NULL},
    {"path", recorder_path, NULL, "The path of the worker's file; None if never enabled.", NULL},
    {"describes_run", recorder_describes_run, NULL, "Whether it is this worker that says what its run came from.",
     NULL},
    {"callback_error", recorder_callback_error, NULL,
     "What the on_snapshot function that failed last raised, as text; None if none did.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef recorder_members[] = {
    {"__weaklistoffset__", LPY_MEMBER_OFFSET, offsetof(struct lpy_recorder, weak_references), LPY_MEMBER_READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(recorder_doc,
             "One worker of a run: records phases and counters of this process.\n"
             "\n"
             "Recorder(run_dir=None, *, role=\"main\", run_id=None, inherited=False, measure_cpu=True,\n"
             "thread_names=False, snapshot_interval_s=0, sample_interval_s=0, wait_detail=None). Without\n"
             "a run_dir it records nothing. lineprofiler.accounting.Profiler is what programs use.");

static PyType_Slot recorder_slots[] = {
    {Py_tp_doc, (void *)recorder_doc},           {Py_tp_new, (void *)recorder_new},
    {Py_tp_init, (void *)recorder_init},         {Py_tp_dealloc, (void *)recorder_dealloc},
    {Py_tp_traverse, (void *)recorder_traverse}, {Py_tp_clear, (void *)recorder_clear},
    {Py_tp_methods, recorder_methods},           {Py_tp_getset, recorder_properties},
    {Py_tp_members, recorder_members},           {0, NULL},
};

static PyType_Spec recorder_spec = {
    .name = "lineprofiler._core.Recorder",
    .basicsize = sizeof(struct lpy_recorder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = recorder_slots,
};

int lpy_recorder_add_type(PyObject *module)
{
    struct lpy_state *state = lpy_state_of(module);
    state->recorder_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &recorder_spec, NULL);
    return state->recorder_type ? PyModule_AddType(module, state->recorder_type) : -1;
}
