/* The module lineprofiler._core. */
#include "python/module.h"

#include <lineprofiler.h>

#include "cli/cli.h"

struct lpy_state *lpy_state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

bool lpy_state_stands(const struct lpy_state *state)
{
    if (state->recorder_type)
        return true;
    PyErr_SetString(PyExc_RuntimeError, "lineprofiler is used after the interpreter has taken it apart");
    return false;
}

static PyObject *core_phase(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct lpy_state *state = lpy_state_of(module);
    return lpy_phase_with_arguments(state, state->installed, args, nargs, kwnames);
}

static PyObject *core_count(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct lpy_state *state = lpy_state_of(module);
    return lpy_count_with_arguments(state, state->installed, args, nargs, kwnames);
}

static PyObject *core_current(PyObject *module, PyObject *unused)
{
    (void)unused;
    return lpy_current(lpy_state_of(module)->installed);
}

static PyObject *core_installed(PyObject *module, PyObject *unused)
{
    (void)unused;
    PyObject *installed = (PyObject *)lpy_state_of(module)->installed;
    return Py_NewRef(installed ? installed : Py_None);
}

static PyObject *core_install(PyObject *module, PyObject *recorder)
{
    struct lpy_state *state = lpy_state_of(module);
    if (recorder != Py_None && !PyObject_TypeCheck(recorder, state->recorder_type)) {
        PyErr_Format(PyExc_TypeError, "a Recorder or None can be installed, not %.200s", Py_TYPE(recorder)->tp_name);
        return NULL;
    }
    struct lpy_recorder *before = state->installed;
    if (before && before->c_profiler)
        lp_profiler_uninstall(before->c_profiler);
    if (recorder != Py_None && ((struct lpy_recorder *)recorder)->worker) {
        lp_profiler *profiler = lpy_c_profiler((struct lpy_recorder *)recorder);
        if (profiler == NULL)
            return PyErr_NoMemory();
        lp_profiler_install(profiler);
    }
    state->installed = recorder == Py_None ? NULL : (struct lpy_recorder *)Py_NewRef(recorder);
    Py_XDECREF((PyObject *)before);
    Py_RETURN_NONE;
}

/* The bytes of the command line, as main() would get them. */
static PyObject *encode_arguments(PyObject *list)
{
    PyObject *texts = PySequence_List(list);
    for (Py_ssize_t i = 0; texts && i < PyList_GET_SIZE(texts); i++) {
        PyObject *bytes = NULL;
        if (!PyUnicode_FSConverter(PyList_GET_ITEM(texts, i), (void *)&bytes))
            Py_CLEAR(texts);
        else
            PyList_SetItem(texts, i, bytes);
    }
    return texts;
}

static PyObject *core_cli(PyObject *module, PyObject *list)
{
    (void)module;
    PyObject *texts = encode_arguments(list);
    if (texts == NULL)
        return NULL;
    Py_ssize_t argc = PyList_GET_SIZE(texts);
    char **argv = PyMem_Calloc((size_t)argc + 1, sizeof *argv);
    if (argv == NULL) {
        Py_DECREF(texts);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < argc; i++)
        argv[i] = PyBytes_AS_STRING(PyList_GET_ITEM(texts, i));
    PyThreadState *thread = PyEval_SaveThread();
    int status = lp_cli_main((int)argc, argv);
    PyEval_RestoreThread(thread);
    PyMem_Free((void *)argv);
    Py_DECREF(texts);
    return PyLong_FromLong(status);
}

static int add_keywords(struct lpy_state *state)
{
    static const char *const texts[LPY_KEYWORDS] = {
        [LPY_NAME] = "name",     [LPY_IO] = "io",   [LPY_SYNC] = "sync",
        [LPY_SAMPLE] = "sample", [LPY_GPU] = "gpu", [LPY_ASYNC_WORK] = "async_work",
        [LPY_N] = "n",
    };
    for (int i = 0; i < LPY_KEYWORDS; i++) {
        state->keywords[i] = PyUnicode_InternFromString(texts[i]);
        if (state->keywords[i] == NULL)
            return -1;
    }
    state->threading = PyUnicode_InternFromString("threading");
    state->active = PyUnicode_InternFromString("_active");
    state->thread_name = PyUnicode_InternFromString("_name");
    return state->threading && state->active && state->thread_name ? 0 : -1;
}

PyDoc_STRVAR(run_error_doc, "A run directory that holds nothing to report.\n"
                            "\n"
                            "The text says whether no worker has written yet or none of the files could be read.");

static int core_exec(PyObject *module)
{
    struct lpy_state *state = lpy_state_of(module);
    state->host = lpy_host_new(state);
    if (state->host == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    state->free_phases.limit = state->free_entries.limit = LPY_FREE_LIMIT;
    if (add_keywords(state) < 0 || lpy_recorder_add_type(module) < 0 || lpy_phase_add_type(module) < 0 ||
        lpy_entry_add_type(module) < 0 || lpy_boundary_add_type(module) < 0 || lpy_line_engine_add_type(module) < 0 ||
        lpy_native_add_table(module) < 0)
        return -1;
    state->run_error =
        PyErr_NewExceptionWithDoc("lineprofiler.accounting.RunError", run_error_doc, PyExc_ValueError, NULL);
    if (state->run_error == NULL || PyModule_AddObjectRef(module, "RunError", state->run_error) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "__version__", lp_version());
}

static int visit_free_list(const struct lpy_free_list *list, visitproc visit, void *arg)
{
    for (int i = 0; i < list->n; i++)
        Py_VISIT(Py_TYPE(list->objects[i]));
    return 0;
}

static void clear_free_list(struct lpy_free_list *list)
{
    list->limit = 0;
    while (list->n > 0) {
        PyObject *object = list->objects[--list->n];
        PyTypeObject *type = Py_TYPE(object);
        PyObject_GC_UnTrack(object);
        PyObject_GC_Del(object);
        Py_DECREF(type);
    }
}

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct lpy_state *state = lpy_state_of(module);
    Py_VISIT(state->recorder_type);
    Py_VISIT(state->phase_type);
    Py_VISIT(state->entry_type);
    Py_VISIT(state->boundary_type);
    Py_VISIT(state->run_error);
    Py_VISIT(state->no_phase);
    Py_VISIT(state->no_entry);
    Py_VISIT((PyObject *)state->installed);
    if (lpy_tasks_traverse(&state->tasks, visit, arg) != 0)
        return -1;
    for (size_t i = 0; i < LPY_NAME_SETS; i++) {
        Py_VISIT(state->names[i].texts[0]);
        Py_VISIT(state->names[i].texts[1]);
    }
    if (visit_free_list(&state->free_entries, visit, arg) != 0)
        return -1;
    return visit_free_list(&state->free_phases, visit, arg);
}

static int core_clear(PyObject *module)
{
    struct lpy_state *state = lpy_state_of(module);
    lpy_tasks_clear(state);
    Py_CLEAR(state->sample.value);
    Py_CLEAR(state->installed);
    Py_CLEAR(state->no_entry);
    Py_CLEAR(state->no_phase);
    Py_CLEAR(state->run_error);
    clear_free_list(&state->free_entries);
    clear_free_list(&state->free_phases);
    lpy_names_clear(state);
    for (int i = 0; i < LPY_KEYWORDS; i++)
        Py_CLEAR(state->keywords[i]);
    Py_CLEAR(state->threading);
    Py_CLEAR(state->active);
    Py_CLEAR(state->thread_name);
    Py_CLEAR(state->boundary_type);
    Py_CLEAR(state->entry_type);
    Py_CLEAR(state->phase_type);
    Py_CLEAR(state->recorder_type);
    return 0;
}

static void core_free(void *module)
{
    struct lpy_state *state = lpy_state_of(module);
    if (state->host)
        atomic_store(&state->host->state, NULL);
    core_clear(module);
}

PyDoc_STRVAR(phase_doc, "phase($module, /, name, io=False, sync=False, sample=1.0, gpu=False, async_work=False)\n"
                        "--\n\n"
                        "Profiler.phase() of the installed profiler; does nothing if there is none.");

PyDoc_STRVAR(count_doc, "count($module, /, name, n=1)\n"
                        "--\n\n"
                        "Profiler.count() of the installed profiler; does nothing if there is none.");

PyDoc_STRVAR(current_doc, "current($module, /)\n"
                          "--\n\n"
                          "The path of the deepest phase open on this thread (task) in the installed profiler.\n"
                          "\n"
                          "Names are joined by \"/\". \"\" outside any phase, or if no profiler is installed.");

PyDoc_STRVAR(installed_doc, "installed_profiler($module, /)\n"
                            "--\n\n"
                            "The profiler that phase(), count() and current() use, or None.");

PyDoc_STRVAR(install_doc, "install($module, recorder, /)\n"
                          "--\n\n"
                          "Make phase(), count() and current() use this recorder; None: no recorder.");

PyDoc_STRVAR(call_inside_doc, "call_inside($module, enter, function, /, *args, **named)\n--\n\n"
                              "Call the function inside the phase that enter returns.");
PyDoc_STRVAR(find_run_doc, "find_run($module, run_dir, run_id, /)\n"
                           "--\n\n"
                           "Which run a profiler with these arguments, each may be None, would belong to.\n"
                           "\n"
                           "Returns its run directory and run id, None where nobody says, and whether an\n"
                           "ancestor process has an open profiler (looked for only if need be).");

PyDoc_STRVAR(ancestor_run_doc,
             "ancestor_run($module, /)\n"
             "--\n\n"
             "The run directory and the run id of the nearest ancestor process with an open profiler;\n"
             "None if there is none.");

PyDoc_STRVAR(is_open_here_doc, "is_open_here($module, worker, /)\n"
                               "--\n\n"
                               "Whether the profiler of a worker of this name, on this machine, is not closed.");

PyDoc_STRVAR(ancestor_run_id_doc,
             "ancestor_run_id($module, run_dir, /)\n"
             "--\n\n"
             "The run id of the nearest ancestor process with an open profiler in that directory.\n"
             "\n"
             "None if there is none.");

PyDoc_STRVAR(phase_parts_doc,
             "phase_parts($module, phase, /)\n"
             "--\n\n"
             "The recorder that a Phase belongs to, or None, and the options of phase() beside the name.");

PyDoc_STRVAR(cli_doc, "cli($module, argv, /)\n"
                      "--\n\n"
                      "Run one command line, argv[0] being the command's name; return its exit status.");

PyDoc_STRVAR(load_run_doc, "load_run($module, run_dir, with_samples, roles, hosts, ranks, run_id, /)\n"
                           "--\n\n"
                           "Read a run directory; lineprofiler.run makes its classes out of the result.\n"
                           "\n"
                           "OSError: no such directory, or it cannot be read. RunError: it holds nothing to report.");

PyDoc_STRVAR(compare_runs_doc,
             "compare_runs($module, run_dir_a, run_dir_b, fail_over, run_id_a, run_id_b, /)\n"
             "--\n\n"
             "Compare two run directories; return JSON (docs/compare.md). fail_over: nan for no gate.\n"
             "\n"
             "Raises as load_run does.");

PyDoc_STRVAR(hist_quantile_doc, "hist_quantile($module, counts, q, /)\n"
                                "--\n\n"
                                "The q-quantile in ns of a histogram {bucket: count}.");

PyDoc_STRVAR(hist_bounds_doc, "hist_bounds($module, bucket, /)\n"
                              "--\n\n"
                              "The first ns of a bucket and its width.");

PyDoc_STRVAR(show_duration_doc, "show_duration($module, ns, /)\n"
                                "--\n\n"
                                "Return a time as the report shows it: 9.4ms.");

PyDoc_STRVAR(show_share_doc, "show_share($module, fraction, /)\n"
                             "--\n\n"
                             "Return a fraction as the report shows it: 82.9%.");

PyDoc_STRVAR(show_percent_doc, "show_percent($module, fraction, /)\n"
                               "--\n\n"
                               "Return a fraction as the report shows it in whole percent: 18%.");

PyDoc_STRVAR(show_text_doc, "show_text($module, text, /)\n"
                            "--\n\n"
                            "Return a text as a table can show it, and the columns that it takes there.");

PyDoc_STRVAR(lines_after_fork_doc, "lines_after_fork($module, /)\n"
                                   "--\n\n"
                                   "End a LineProfiler's session in a forked child.");

static PyMethodDef core_methods[] = {
    {"phase", (PyCFunction)(void (*)(void))core_phase, METH_FASTCALL | METH_KEYWORDS, phase_doc},
    {"count", (PyCFunction)(void (*)(void))core_count, METH_FASTCALL | METH_KEYWORDS, count_doc},
    {"current", core_current, METH_NOARGS, current_doc},
    {"installed_profiler", core_installed, METH_NOARGS, installed_doc},
    {"install", core_install, METH_O, install_doc},
    {"call_inside", (PyCFunction)(void (*)(void))lpy_call_inside, METH_FASTCALL | METH_KEYWORDS, call_inside_doc},
    {"find_run", lpy_find_run, METH_VARARGS, find_run_doc},
    {"ancestor_run", lpy_ancestor_run, METH_NOARGS, ancestor_run_doc},
    {"is_open_here", lpy_is_open_here, METH_O, is_open_here_doc},
    {"ancestor_run_id", lpy_ancestor_run_id, METH_O, ancestor_run_id_doc},
    {"phase_parts", lpy_phase_parts, METH_O, phase_parts_doc},
    {"load_run", lpy_load_run, METH_VARARGS, load_run_doc},
    {"compare_runs", lpy_compare_runs, METH_VARARGS, compare_runs_doc},
    {"hist_quantile", lpy_hist_quantile, METH_VARARGS, hist_quantile_doc},
    {"hist_bounds", lpy_hist_bounds, METH_O, hist_bounds_doc},
    {"show_duration", lpy_show_duration, METH_O, show_duration_doc},
    {"show_share", lpy_show_share, METH_O, show_share_doc},
    {"show_percent", lpy_show_percent, METH_O, show_percent_doc},
    {"show_text", lpy_show_text, METH_O, show_text_doc},
    {"cli", core_cli, METH_O, cli_doc},
    {"lines_after_fork", lpy_lines_after_fork, METH_NOARGS, lines_after_fork_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, (void *)core_exec},
    LPY_MODULE_SLOTS{0, NULL},
};

struct PyModuleDef lpy_module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "lineprofiler._core",
    .m_size = sizeof(struct lpy_state),
    .m_methods = core_methods,
    .m_slots = core_slots,
    .m_traverse = core_traverse,
    .m_clear = core_clear,
    .m_free = core_free,
};

PyMODINIT_FUNC PyInit__core(void);

static int resume(void *unused)
{
    (void)unused;
    lp_worker_resume();
    return 0;
}

/* In a fork handler, where CPython from 3.12 on counts threads a moment later, and the GIL may be anybody's. */
static void resume_soon(void)
{
    Py_AddPendingCall(resume, NULL);
}

PyMODINIT_FUNC PyInit__core(void)
{
    lp_worker_resume_by(resume_soon);
    return PyModuleDef_Init(&lpy_module);
}
