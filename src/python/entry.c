/* Entry: one entry of a phase. Called without arguments it opens, called with three it closes. */
#include "python/module.h"

#include <stddef.h>

static PyObject *refuse(const struct lpy_entry *entry, PyObject *kwnames)
{
    if (kwnames && PyTuple_GET_SIZE(kwnames) > 0)
        PyErr_SetString(PyExc_TypeError, "__enter__() and __exit__() take no keyword arguments");
    else if (entry->handed_out & LPY_ENTER)
        PyErr_SetString(PyExc_TypeError, "__enter__() takes no arguments");
    else
        PyErr_SetString(PyExc_TypeError, "__exit__() takes three arguments");
    return NULL;
}

LP_ALWAYS_INLINE void close_entry(struct lpy_entry *self)
{
    unsigned char open = self->open;
    self->open = LPY_CLOSED; /* first: while a device is waited for, other threads run */
    if (LP_LIKELY(open == LPY_OPEN))
        lpy_leave(self->phase->recorder->state, &self->entry);
    else
        lpy_extras_leave(self->phase, &self->entry, self->extras);
}

LP_ALWAYS_INLINE PyObject *open_entry(struct lpy_entry *self, struct lpy_phase *phase)
{
    struct lpy_recorder *recorder = phase->recorder;
    self->open = LPY_OPEN;
    if (LP_UNLIKELY(phase->flags != 0)) {
        self->extras = lpy_extras_begin(phase);
        self->open = LPY_OPEN_WITH_EXTRAS;
    }
    if (LP_LIKELY(recorder->recorder != NULL))
        lpy_enter(recorder->state, recorder->recorder, phase->id, &self->entry);
    if (LP_UNLIKELY(self->entry.thread == NULL) && lpy_recorder_not_recorded(recorder) < 0) {
        close_entry(self);
        return NULL;
    }
    return Py_NewRef((PyObject *)phase);
}

static PyObject *enter(struct lpy_entry *self)
{
    struct lpy_phase *phase = self->phase;
    phase->pending = NULL;
    if (LP_UNLIKELY(self->handed_out != LPY_BOTH || self->open))
        return lpy_phase_enter_loose(phase);
    return open_entry(self, phase);
}

static PyObject *leave(struct lpy_entry *self)
{
    if (LP_LIKELY(self->open)) {
        close_entry(self);
    } else {
        lpy_phase_leave_loose(self->phase);
    }
    Py_RETURN_NONE;
}

static PyObject *entry_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    (void)args;
    struct lpy_entry *self = (struct lpy_entry *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (LP_UNLIKELY(kwnames != NULL))
        return refuse(self, kwnames);
    if (nargs == 3 && self->handed_out & LPY_EXIT)
        return leave(self);
    if (nargs == 0 && self->handed_out & LPY_ENTER)
        return enter(self);
    return refuse(self, NULL);
}

/* An entry that was handed out by the class has the phase that stands for "not recorded", until it is opened for another. */
static PyObject *enter_of_class(struct lpy_entry *self, struct lpy_phase *phase)
{
    if (phase->recorder == NULL || self->handed_out != LPY_BOTH || self->phase->recorder != NULL)
        return lpy_phase_enter_loose(phase);
    if (self->phase->pending == self)
        self->phase->pending = NULL;
    Py_SETREF(self->phase, (struct lpy_phase *)Py_NewRef((PyObject *)phase));
    return open_entry(self, phase);
}

/* Phase.__enter__(phase) and Phase.__exit__(phase, type, value, traceback): the way of contextlib.ExitStack. */
static PyObject *class_entry_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    struct lpy_entry *self = (struct lpy_entry *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    bool enters = nargs == 1 && self->handed_out & LPY_ENTER, leaves = nargs == 4 && self->handed_out & LPY_EXIT;
    if (kwnames || !(enters || leaves) || !Py_IS_TYPE(args[0], Py_TYPE((PyObject *)self->phase))) {
        PyErr_SetString(PyExc_TypeError,
                        "Phase.__enter__ takes a Phase, and Phase.__exit__ a Phase and three arguments more");
        return NULL;
    }
    struct lpy_phase *phase = (struct lpy_phase *)args[0];
    if (enters)
        return enter_of_class(self, phase);
    if (self->open && self->phase == phase)
        return leave(self);
    lpy_phase_leave_loose(phase);
    Py_RETURN_NONE;
}

/* The one entry of the phase that is not recorded. */
static PyObject *no_entry_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    (void)args;
    struct lpy_entry *self = (struct lpy_entry *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (LP_UNLIKELY(kwnames != NULL))
        return refuse(self, kwnames);
    if (nargs == 0)
        return Py_NewRef((PyObject *)self->phase);
    if (nargs == 3)
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_TypeError, "a phase takes no arguments to enter, and three to exit");
    return NULL;
}

struct lpy_entry *lpy_entry_new(struct lpy_state *state, struct lpy_phase *phase, enum lpy_side side)
{
    PyObject *object = lpy_free_list_take(&state->free_entries);
    if (LP_UNLIKELY(object == NULL)) {
        if (!lpy_state_stands(state))
            return NULL;
        object = (PyObject *)PyObject_GC_New(struct lpy_entry, state->entry_type);
        if (object == NULL)
            return NULL;
        ((struct lpy_entry *)object)->phase = NULL;
        PyObject_GC_Track(object);
    }
    struct lpy_entry *self = (struct lpy_entry *)object;
    self->phase = (struct lpy_phase *)Py_NewRef((PyObject *)phase);
    self->call = (PyObject *)phase == state->no_phase ? class_entry_call : entry_call;
    self->entry.thread = NULL;
    self->handed_out = (unsigned char)side;
    self->open = LPY_CLOSED;
    return self;
}

static void entry_dealloc(PyObject *object)
{
    struct lpy_entry *self = (struct lpy_entry *)object;
    struct lpy_phase *phase = self->phase;
    PyTypeObject *type = Py_TYPE(object);
    struct lpy_recorder *recorder = phase->recorder;
    if (LP_UNLIKELY(phase->pending == self))
        phase->pending = NULL;
    if (LP_UNLIKELY(self->open)) { /* nobody can leave it any more */
        if (self->open == LPY_OPEN_WITH_EXTRAS)
            lpy_extras_abandon(self->extras);
        close_entry(self);
    }
    self->phase = NULL;
    if (LP_UNLIKELY(recorder == NULL || !lpy_free_list_put(&recorder->state->free_entries, object))) {
        PyObject_GC_UnTrack(object);
        PyObject_GC_Del(object);
        Py_DECREF(type);
    }
    Py_DECREF((PyObject *)phase);
}

static int entry_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((struct lpy_entry *)object)->phase);
    return 0;
}

static PyMemberDef entry_members[] = {
    {"__vectorcalloffset__", LPY_MEMBER_OFFSET, offsetof(struct lpy_entry, call), LPY_MEMBER_READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot entry_slots[] = {
    {Py_tp_doc, "One entry of a phase: what `with` calls to open and to close it."},
    {Py_tp_dealloc, (void *)entry_dealloc},
    {Py_tp_traverse, (void *)entry_traverse},
    {Py_tp_call, (void *)PyVectorcall_Call},
    {Py_tp_members, entry_members},
    {0, NULL},
};

static PyType_Spec entry_spec = {
    .name = "lineprofiler._core.Entry",
    .basicsize = sizeof(struct lpy_entry),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = entry_slots,
};

int lpy_entry_add_type(PyObject *module)
{
    struct lpy_state *state = lpy_state_of(module);
    state->entry_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &entry_spec, NULL);
    if (state->entry_type == NULL)
        return -1;
    struct lpy_entry *none = lpy_entry_new(state, (struct lpy_phase *)state->no_phase, LPY_BOTH);
    if (none == NULL)
        return -1;
    none->call = no_entry_call;
    state->no_entry = (PyObject *)none;
    return 0;
}
