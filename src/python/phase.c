/* Phase: a recorder and a name, to be entered any number of times. */
#include "python/module.h"

#include "record/names.h"

static PyObject *new_phase(struct lpy_state *state, struct lpy_recorder *recorder, lp_phase_id id, unsigned flags)
{
    PyObject *object = lpy_free_list_take(&state->free_phases);
    if (LP_UNLIKELY(object == NULL)) {
        if (!lpy_state_stands(state))
            return NULL;
        object = (PyObject *)PyObject_GC_New(struct lpy_phase, state->phase_type);
        if (object == NULL)
            return NULL;
        ((struct lpy_phase *)object)->recorder = NULL;
        PyObject_GC_Track(object);
    }
    struct lpy_phase *phase = (struct lpy_phase *)object;
    phase->recorder = (struct lpy_recorder *)Py_XNewRef((PyObject *)recorder);
    phase->id = id;
    phase->flags = flags;
    phase->pending = NULL;
    phase->loose = NULL;
    phase->n_loose = phase->loose_size = 0;
    return object;
}

LP_ALWAYS_INLINE PyObject *make_recorded(struct lpy_state *state, struct lpy_recorder *recorder, PyObject *text,
                                         lp_phase_id stride_bits, unsigned flags)
{
    lp_name_id name = lpy_name_seen(state, text);
    if (LP_UNLIKELY(name == LP_NAME_NONE) && lpy_name_id(state, text, "phase", &name) < 0)
        return NULL;
    if (LP_UNLIKELY(!lp_shapes_know(&recorder->recorder->shapes, name)) && lpy_name_admit(recorder, name) < 0)
        return NULL;
    /* Where the table of names is full there is no name: each entry is counted as one without a place. */
    return new_phase(state, recorder, name == LP_NAME_NONE ? name : name | stride_bits, flags);
}

LP_NOINLINE static PyObject *make_wrapped(struct lpy_state *state, struct lpy_recorder *recorder, PyObject *text,
                                          lp_phase_id stride_bits, unsigned flags)
{
    PyObject *phase = make_recorded(state, recorder, text, stride_bits, flags);
    return phase ? lpy_phase_wrapped(recorder, phase) : NULL;
}

/* A phase of this name, with these flags and the sampling stride of these bits of a phase id; or the one that does
   nothing. */
LP_ALWAYS_INLINE PyObject *make_phase(struct lpy_state *state, struct lpy_recorder *recorder, PyObject *text,
                                      lp_phase_id stride_bits, unsigned flags)
{
    if (LP_UNLIKELY(recorder == NULL || recorder->plain == NULL)) {
        if (LP_UNLIKELY(recorder && recorder->recorder))
            return make_wrapped(state, recorder, text, stride_bits, flags);
        if (lpy_name_check(text, "phase") < 0 || LP_UNLIKELY(state->no_phase == NULL && !lpy_state_stands(state)))
            return NULL;
        if (recorder)
            recorder->used = true;
        return Py_NewRef(state->no_phase);
    }
    return make_recorded(state, recorder, text, stride_bits, flags);
}

/* sample: a number in (0, 1], for one entry in so many. */
static int convert_sample(PyObject *sample, lp_phase_id *stride_bits)
{
    double value = PyFloat_AsDouble(sample);
    if (value == -1.0 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
    }
    if (value > 0.0 && value <= 1.0) {
        *stride_bits = lp_fraction_bits(value);
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "sample must be over 0 and at most 1, not %R", sample);
    return -1;
}

static int look_up_sample(struct lpy_state *state, PyObject *sample, lp_phase_id *stride_bits)
{
    if (LP_LIKELY(sample == state->sample.value)) {
        *stride_bits = state->sample.stride_bits;
        return 0;
    }
    if (convert_sample(sample, stride_bits) < 0)
        return -1;
    if (PyFloat_CheckExact(sample)) { /* which never changes */
        state->sample.stride_bits = *stride_bits;
        Py_XSETREF(state->sample.value, Py_NewRef(sample));
    }
    return 0;
}

static int check_flag(PyObject *flag, PyObject *keyword)
{
    if (flag == NULL || PyBool_Check(flag))
        return 0;
    PyErr_Format(PyExc_TypeError, "%U must be bool, not %.200s", keyword, Py_TYPE(flag)->tp_name);
    return -1;
}

static int convert_options(struct lpy_state *state, PyObject *const *bound, lp_phase_id *stride_bits, unsigned *flags)
{
    static const struct {
        enum lpy_keyword keyword;
        enum lp_extra_kinds flag;
    } known[] = {
        {LPY_IO, LP_WITH_IO}, {LPY_SYNC, LP_WITH_SYNC}, {LPY_GPU, LP_WITH_GPU}, {LPY_ASYNC_WORK, LP_WITH_ASYNC_WORK}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        PyObject *given = bound[known[i].keyword];
        if (check_flag(given, state->keywords[known[i].keyword]) < 0)
            return -1;
        if (given == Py_True)
            *flags |= known[i].flag;
    }
    return bound[LPY_SAMPLE] ? look_up_sample(state, bound[LPY_SAMPLE], stride_bits) : 0;
}

static PyObject *phase_of_many(struct lpy_state *state, struct lpy_recorder *recorder, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *bound[LPY_ASYNC_WORK + 1] = {NULL};
    lp_phase_id stride_bits = 0;
    unsigned flags = 0;
    if (!lpy_state_stands(state) ||
        lpy_bind("phase", state->keywords, LPY_ASYNC_WORK + 1, bound, args, nargs, kwnames) < 0)
        return NULL;
    if (lpy_name_check(bound[LPY_NAME], "phase") < 0 || convert_options(state, bound, &stride_bits, &flags) < 0)
        return NULL;
    return make_phase(state, recorder, bound[LPY_NAME], stride_bits, flags);
}

PyObject *lpy_phase_with_arguments(struct lpy_state *state, struct lpy_recorder *recorder, PyObject *const *args,
                                   Py_ssize_t nargs, PyObject *kwnames)
{
    if (LP_LIKELY(nargs == 1 && kwnames == NULL))
        return make_phase(state, recorder, args[0], 0, 0);
    if (nargs == 1 && PyTuple_GET_SIZE(kwnames) == 1 && PyTuple_GET_ITEM(kwnames, 0) == state->keywords[LPY_SAMPLE] &&
        args[1] == state->sample.value)
        return make_phase(state, recorder, args[0], state->sample.stride_bits, 0);
    return phase_of_many(state, recorder, args, nargs, kwnames);
}

static void open_entry(struct lpy_phase *phase, struct lp_entry *entry)
{
    struct lp_recorder *recorder = phase->recorder->recorder;
    entry->thread = NULL;
    if (recorder)
        lpy_enter(phase->recorder->state, recorder, phase->id, entry);
}

/* Of the task that runs here; 0 outside tasks, and on a thread that has entered nothing. */
static uint64_t task_here(const struct lpy_recorder *recorder)
{
    if (!recorder->recorder || !lp_thread_known(recorder->recorder))
        return 0;
    const struct lp_thread *thread = lpy_thread_self(recorder->state, recorder->recorder);
    return thread ? thread->strand->task : 0;
}

static bool has_room(struct lpy_phase *phase)
{
    if (phase->n_loose < phase->loose_size)
        return true;
    uint32_t size = phase->loose_size ? 2 * phase->loose_size : 4;
    struct lpy_loose_entry *wider = PyMem_Realloc(phase->loose, size * sizeof *wider);
    if (wider == NULL)
        return false;
    phase->loose = wider;
    phase->loose_size = size;
    return true;
}

static void leave_loose(struct lpy_phase *phase, struct lpy_loose_entry *loose)
{
    if (phase->flags)
        lpy_extras_leave(phase, &loose->entry, loose->extras);
    else
        lpy_leave(phase->recorder->state, &loose->entry);
}

/* Whatever may run Python comes before the list is touched: other threads may enter the same phase meanwhile. */
PyObject *lpy_phase_enter_loose(struct lpy_phase *phase)
{
    if (phase->recorder == NULL)
        return Py_NewRef((PyObject *)phase);
    struct lpy_loose_entry loose = {.thread = PyThread_get_thread_ident()};
    loose.extras = phase->flags ? lpy_extras_begin(phase) : NULL;
    open_entry(phase, &loose.entry);
    if (loose.entry.thread == NULL && lpy_recorder_not_recorded(phase->recorder) < 0) {
        leave_loose(phase, &loose);
        return NULL;
    }
    loose.task = task_here(phase->recorder);
    if (!has_room(phase)) {
        leave_loose(phase, &loose);
        return PyErr_NoMemory();
    }
    phase->loose[phase->n_loose++] = loose;
    return Py_NewRef((PyObject *)phase);
}

/* Which one to close, counted from 1: the task's own last one, else the thread's, else that of any; 0: none. */
static uint32_t last_loose(const struct lpy_phase *phase)
{
    unsigned long thread = PyThread_get_thread_ident();
    uint64_t task = task_here(phase->recorder);
    uint32_t of_thread = 0;
    for (uint32_t i = phase->n_loose; i > 0; i--) {
        const struct lpy_loose_entry *loose = &phase->loose[i - 1];
        if (loose->thread != thread)
            continue;
        if (loose->task == task)
            return i;
        if (of_thread == 0)
            of_thread = i;
    }
    return of_thread ? of_thread : phase->n_loose;
}

void lpy_phase_leave_loose(struct lpy_phase *phase)
{
    uint32_t i = phase->n_loose ? last_loose(phase) : 0;
    if (i == 0)
        return;
    struct lpy_loose_entry loose = phase->loose[i - 1];
    for (phase->n_loose--; i <= phase->n_loose; i++)
        phase->loose[i - 1] = phase->loose[i];
    leave_loose(phase, &loose);
}

/* Nobody can leave these any more. */
static void leave_abandoned(struct lpy_phase *phase)
{
    while (phase->n_loose > 0) {
        struct lpy_loose_entry loose = phase->loose[--phase->n_loose];
        lpy_extras_abandon(loose.extras);
        leave_loose(phase, &loose);
    }
    PyMem_Free(phase->loose);
    phase->loose = NULL;
}

static void phase_dealloc(PyObject *object)
{
    struct lpy_phase *phase = (struct lpy_phase *)object;
    PyTypeObject *type = Py_TYPE(object);
    struct lpy_recorder *recorder = phase->recorder;
    if (LP_UNLIKELY(phase->loose != NULL))
        leave_abandoned(phase);
    phase->recorder = NULL;
    if (LP_UNLIKELY(recorder == NULL || !lpy_free_list_put(&recorder->state->free_phases, object))) {
        PyObject_GC_UnTrack(object);
        PyObject_GC_Del(object);
        Py_DECREF(type);
    }
    Py_XDECREF((PyObject *)recorder);
}

static int phase_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((struct lpy_phase *)object)->recorder);
    return 0;
}

static PyObject *phase_name(PyObject *object, void *closure)
{
    (void)closure;
    struct lp_name_text text = lp_name_text(((struct lpy_phase *)object)->id & LP_NAME_MASK);
    return lpy_text(text.bytes, text.len);
}

static PyObject *phase_repr(PyObject *object)
{
    if (((struct lpy_phase *)object)->recorder == NULL)
        return PyUnicode_FromString("<lineprofiler phase, not recorded>");
    PyObject *name = phase_name(object, NULL);
    if (name == NULL)
        return NULL;
    PyObject *repr = PyUnicode_FromFormat("<lineprofiler phase %R>", name);
    Py_DECREF(name);
    return repr;
}

static PyGetSetDef phase_properties[] = {
    {"name", phase_name, NULL, "The name; \"\" where nothing is recorded.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* In pickles and copies. The work is Python's: where a phase arrives, its profiler is looked for. */
static PyObject *phase_reduce(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyObject *pickling = PyImport_ImportModule("lineprofiler._pickling");
    PyObject *reduced = pickling ? PyObject_CallMethod(pickling, "reduce_phase", "O", object) : NULL;
    Py_XDECREF(pickling);
    return reduced;
}

static PyMethodDef phase_methods[] = {
    {"__reduce__", phase_reduce, METH_NOARGS,
     "__reduce__($self, /)\n--\n\nHow to find the phase of that name elsewhere."},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(phase_doc, "A named region: a context manager that measures its body.\n\n"
                        "Made by Profiler.phase(). May be kept and entered again and again, also\n"
                        "recursively and by several threads at once.");

static PyType_Slot phase_slots[] = {
    {Py_tp_doc, (void *)phase_doc},
    {Py_tp_dealloc, (void *)phase_dealloc},
    {Py_tp_traverse, (void *)phase_traverse},
    {Py_tp_repr, (void *)phase_repr},
    {Py_tp_methods, phase_methods},
    {Py_tp_getset, phase_properties},
    {0, NULL},
};

static PyType_Spec phase_spec = {
    .name = "lineprofiler._core.Phase",
    .basicsize = sizeof(struct lpy_phase),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = phase_slots,
};

int lpy_phase_add_type(PyObject *module)
{
    struct lpy_state *state = lpy_state_of(module);
    state->phase_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &phase_spec, NULL);
    if (state->phase_type == NULL || PyModule_AddType(module, state->phase_type) < 0)
        return -1;
    state->no_phase = new_phase(state, NULL, LP_NAME_NONE, 0);
    return state->no_phase ? 0 : -1;
}
