/* LineEngine: a line profiler of the interpreter, base class of lineprofiler.LineProfiler. */
#include "python/module.h"

#include "lines/engine.h"

struct line_engine {
    PyObject_HEAD
    struct lp_lines_engine engine;
};

static struct lp_lines_engine *engine_of(PyObject *self)
{
    return &((struct line_engine *)self)->engine;
}

/* --- from its making to its end --- */

/* Adds the items of a sequence of str. */
static int add_all(struct lp_lines_globs *globs, PyObject *items)
{
    PyObject *fast = PySequence_Fast(items, "a list of str is needed");
    if (!fast)
        return -1;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); i++) {
        PyObject *item = NULL;
        if (!PyUnicode_FSConverter(PySequence_Fast_GET_ITEM(fast, i), &item))
            break;
        int failed = lp_lines_globs_add(globs, PyBytes_AS_STRING(item));
        Py_DECREF(item);
        if (failed) {
            PyErr_NoMemory();
            break;
        }
    }
    Py_DECREF(fast);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *line_engine_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)args;
    (void)keywords;
    return type->tp_alloc(type, 0);
}

static int line_engine_init(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"folder", "outside", "include", "exclude", "functions", NULL};
    struct lp_lines_engine *engine = engine_of(self);
    struct lp_lines_globs outside = {0};
    PyObject *folder, *lists[4];
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOOOO", names, &folder, &lists[0], &lists[1], &lists[2],
                                     &lists[3]))
        return -1;
    if (engine->verdicts) {
        PyErr_SetString(PyExc_RuntimeError, "a LineProfiler is initialised once");
        return -1;
    }
    if (lp_lines_engine_open(engine, folder) < 0 || add_all(&outside, lists[0]) < 0 ||
        add_all(&engine->filter.include, lists[1]) < 0 || add_all(&engine->filter.exclude, lists[2]) < 0 ||
        add_all(&engine->filter.functions, lists[3]) < 0)
        return -1;
    for (size_t i = 0; i < outside.n; i++)
        if (lp_lines_filter_leave_out(&engine->filter, outside.items[i]) < 0) {
            PyErr_NoMemory();
            return -1;
        }
    lp_lines_globs_free(&outside);
    return 0;
}

static void line_engine_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    lp_lines_engine_free(engine_of(self));
    type->tp_free(self);
    Py_DECREF(type);
}

static int require_open(PyObject *self)
{
    if (engine_of(self)->verdicts)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "LineProfiler.__init__() was not called");
    return -1;
}

/* --- methods --- */

static PyObject *line_engine_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (require_open(self) < 0 || lp_lines_engine_start(engine_of(self)) < 0)
        return NULL;
    Py_INCREF(self); /* the hooks': it runs */
    return Py_NewRef(self);
}

static int stop(PyObject *self)
{
    struct lp_lines_engine *engine = engine_of(self);
    if (!lp_lines_engine_runs(engine))
        return 0;
    bool complete = !engine->no_memory;
    int failed = lp_lines_engine_stop(engine);
    complete = complete && !engine->no_memory;
    Py_DECREF(self);
    if (failed || complete)
        return failed;
    return PyErr_WarnEx(PyExc_RuntimeWarning,
                        "the LineProfiler ran out of memory and stopped before the end of its block", 2);
}

static PyObject *line_engine_exit(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)args;
    (void)n;
    if (stop(self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *line_engine_clear(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (require_open(self) < 0 || lp_lines_engine_clear(engine_of(self)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *line_engine_region_enter(PyObject *self, PyObject *name)
{
    struct lp_lines_engine *engine = engine_of(self);
    if (!PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "a region's name is a str");
        return NULL;
    }
    if (lp_lines_running != engine)
        return PyLong_FromLong(0);
    if (lp_lines_engine_region(engine, name) < 0)
        return NULL;
    return PyLong_FromUnsignedLongLong(engine->session.number);
}

static PyObject *line_engine_region_exit(PyObject *self, PyObject *session)
{
    struct lp_lines_engine *engine = engine_of(self);
    unsigned long long number = PyLong_AsUnsignedLongLong(session);
    if (PyErr_Occurred())
        return NULL;
    if (lp_lines_running == engine && number == engine->session.number && lp_lines_engine_region(engine, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* --- figures --- */

/* (number, hits, own wall, own CPU, wall, CPU, awaited, awaiting at most) */
static PyObject *make_line(const struct lp_lines_table *table, uint32_t i)
{
    const struct lp_line *line = &table->lines[i];
    struct lp_lines_time total = lp_line_total(line);
    return Py_BuildValue("(IKLLLLLI)", (unsigned)table->base_line + i, (unsigned long long)line->hits,
                         (long long)line->own.wall_ns, (long long)line->own.cpu_ns, (long long)total.wall_ns,
                         (long long)total.cpu_ns, (long long)line->awaited_ns, line->most_suspended);
}

static bool is_touched(const struct lp_line *line)
{
    return line->hits || line->own.wall_ns || line->below.wall_ns || line->awaited_ns;
}

/* Appends, and takes the item; -1 with an exception. */
static int append(PyObject *list, PyObject *item)
{
    int failed = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return failed;
}

static PyObject *make_lines(const struct lp_lines_table *table)
{
    PyObject *lines = PyList_New(0);
    for (uint32_t i = 0; lines && i < table->n_lines; i++)
        if (is_touched(&table->lines[i]) && append(lines, make_line(table, i)) < 0)
            Py_CLEAR(lines);
    return lines;
}

/* The names of regions, from the outside in. */
static PyObject *make_path(const struct lp_lines_region *region)
{
    PyObject *path = PyList_New(0);
    for (; path && region->parent; region = region->parent)
        if (PyList_Insert(path, 0, region->name) < 0)
            Py_CLEAR(path);
    PyObject *tuple = path ? PyList_AsTuple(path) : NULL;
    Py_XDECREF(path);
    return tuple;
}

/* (file, qualified name, first line, region, calls, wall, CPU, lines) */
static PyObject *make_table(const struct lp_lines_code *code, const struct lp_lines_table *table)
{
    PyObject *path = make_path(table->region), *lines = path ? make_lines(table) : NULL, *made = NULL;
    if (lines)
        made = Py_BuildValue("(OOiOKLLO)", code->file, code->name, code->first_line, path,
                             (unsigned long long)table->calls, (long long)table->inclusive.wall_ns,
                             (long long)table->inclusive.cpu_ns, lines);
    Py_XDECREF(lines);
    Py_XDECREF(path);
    return made;
}

static PyObject *line_engine_results(PyObject *self, PyObject *unused)
{
    struct lp_lines_engine *engine = engine_of(self);
    (void)unused;
    if (require_open(self) < 0)
        return NULL;
    lp_lines_engine_settle(engine);
    int collects = PyGC_Disable(); /* else code objects could go while we look at them */
    PyObject *results = PyList_New(0);
    for (const struct lp_lines_code *code = engine->codes; results && code; code = code->next)
        for (const struct lp_lines_table *table = code->hidden ? NULL : code->tables; results && table;
             table = table->next)
            if (append(results, make_table(code, table)) < 0)
                Py_CLEAR(results);
    if (collects)
        PyGC_Enable();
    return results;
}

static PyObject *line_engine_totals(PyObject *self, PyObject *unused)
{
    const struct lp_lines_engine *engine = engine_of(self);
    (void)unused;
    return Py_BuildValue("{s:s,s:K,s:L,s:L,s:d,s:d,s:d,s:O,s:O}", "backend", lp_lines_hooks_name, "events",
                         (unsigned long long)engine->events, "wall_ns", (long long)engine->blocks_ns, "overhead_ns",
                         (long long)engine->overhead_ns, "line_cost_ns", (double)engine->costs.line_q8 / 256,
                         "call_cost_ns", (double)engine->costs.call_q8 / 256, "cost_change", engine->cost_change,
                         "complete", engine->no_memory ? Py_False : Py_True, "calls_missed",
                         engine->calls_missed ? Py_True : Py_False);
}

static PyObject *line_engine_running(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(lp_lines_engine_runs(engine_of(self)));
}

/* --- the type --- */

PyObject *lpy_lines_after_fork(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    lp_lines_after_fork();
    Py_RETURN_NONE;
}

static PyMethodDef line_engine_methods[] = {
    {"__enter__", line_engine_enter, METH_NOARGS,
     "__enter__($self, /)\n--\n\nBegin to measure. RuntimeError if a LineProfiler runs already."},
    {"__exit__", (PyCFunction)(void (*)(void))line_engine_exit, METH_FASTCALL,
     "__exit__($self, /, *exception)\n--\n\nCease to measure."},
    {"clear", line_engine_clear, METH_NOARGS, "clear($self, /)\n--\n\nForget all that was measured."},
    {"region_enter", line_engine_region_enter, METH_O,
     "region_enter($self, name, /)\n--\n\nBegin a region on this thread; return what region_exit() is to be given."},
    {"region_exit", line_engine_region_exit, METH_O, "region_exit($self, session, /)\n--\n\nEnd the innermost region."},
    {"results", line_engine_results, METH_NOARGS,
     "results($self, /)\n--\n\n"
     "A list of (file, qualified name, first line, regions, calls, wall, CPU, lines) of each code object and\n"
     "region; lines: (number, hits, own wall, own CPU, wall, CPU, awaited, awaiting at most). Times are ns."},
    {"totals", line_engine_totals, METH_NOARGS, "totals($self, /)\n--\n\nFigures of the whole, in a dict."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef line_engine_properties[] = {
    {"running", line_engine_running, NULL, "Whether it measures at this moment.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(line_engine_doc,
             "LineEngine(folder, outside, include, exclude, functions)\n"
             "--\n\n"
             "Measures lines of the code in a folder; lineprofiler.LineProfiler is what programs use.");

static PyType_Slot line_engine_slots[] = {
    {Py_tp_doc, (void *)line_engine_doc},
    {Py_tp_new, (void *)line_engine_new},
    {Py_tp_init, (void *)line_engine_init},
    {Py_tp_dealloc, (void *)line_engine_dealloc},
    {Py_tp_methods, line_engine_methods},
    {Py_tp_getset, line_engine_properties},
    {0, NULL},
};

static PyType_Spec line_engine_spec = {
    .name = "lineprofiler._core.LineEngine",
    .basicsize = sizeof(struct line_engine),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = line_engine_slots,
};

int lpy_line_engine_add_type(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &line_engine_spec, NULL);
    int failed = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return failed;
}
