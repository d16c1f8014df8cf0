/* Boundary: the descriptors Phase.__enter__ and Phase.__exit__. Looked up on a phase, they hand out
 * an entry. */
#include "python/module.h"

struct boundary {
    PyObject_HEAD
    struct lpy_state *state; /* Borrowed: the type holds the module. */
    enum lpy_side side;
};

/* `with` looks up both sides before it calls one, and nothing runs in between: the second one gets
   the entry that was handed out as the first. */
LP_ALWAYS_INLINE PyObject *hand_out(struct lpy_state *state, struct lpy_phase *phase, enum lpy_side side)
{
    struct lpy_entry *entry = phase->pending;
    if (entry && !(entry->handed_out & side)) {
        entry->handed_out |= (unsigned char)side;
        phase->pending = NULL;
        return Py_NewRef((PyObject *)entry);
    }
    entry = lpy_entry_new(state, phase, side);
    phase->pending = entry;
    return (PyObject *)entry;
}

/* The same for both sides looked up on the class, as contextlib.ExitStack does. The phase that is not recorded keeps the
   pending entry, having no use for it otherwise. */
static PyObject *hand_out_by_class(struct lpy_state *state, enum lpy_side side)
{
    if (state->no_phase == NULL) {
        lpy_state_stands(state);
        return NULL;
    }
    return hand_out(state, (struct lpy_phase *)state->no_phase, side);
}

static PyObject *hand_out_no_entry(struct lpy_state *state)
{
    if (LP_UNLIKELY(state->no_entry == NULL))
        lpy_state_stands(state);
    return Py_XNewRef(state->no_entry);
}

static PyObject *boundary_get(PyObject *object, PyObject *instance, PyObject *owner)
{
    (void)owner;
    struct boundary *self = (struct boundary *)object;
    if (LP_LIKELY(instance && Py_IS_TYPE(instance, self->state->phase_type))) {
        struct lpy_phase *phase = (struct lpy_phase *)instance;
        return LP_LIKELY(phase->recorder) ? hand_out(self->state, phase, self->side) : hand_out_no_entry(self->state);
    }
    if (instance == NULL || instance == Py_None)
        return hand_out_by_class(self->state, self->side);
    PyErr_Format(PyExc_TypeError, "descriptor of Phase does not apply to a %.200s", Py_TYPE(instance)->tp_name);
    return NULL;
}

static void boundary_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

static int boundary_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    return 0;
}

static PyType_Slot boundary_slots[] = {
    {Py_tp_doc, "Looked up on a phase, it hands out the entry that `with` is to open and close."},
    {Py_tp_dealloc, (void *)boundary_dealloc},
    {Py_tp_traverse, (void *)boundary_traverse},
    {Py_tp_descr_get, (void *)boundary_get},
    {0, NULL},
};

static PyType_Spec boundary_spec = {
    .name = "lineprofiler._core.Boundary",
    .basicsize = sizeof(struct boundary),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = boundary_slots,
};

static int add_boundary(struct lpy_state *state, const char *name, enum lpy_side side)
{
    struct boundary *self = PyObject_GC_New(struct boundary, state->boundary_type);
    if (self == NULL)
        return -1;
    self->state = state;
    self->side = side;
    PyObject_GC_Track((PyObject *)self);
    int status = PyObject_SetAttrString((PyObject *)state->phase_type, name, (PyObject *)self);
    Py_DECREF((PyObject *)self);
    return status;
}

int lpy_boundary_add_type(PyObject *module)
{
    struct lpy_state *state = lpy_state_of(module);
    state->boundary_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &boundary_spec, NULL);
    if (state->boundary_type == NULL || add_boundary(state, "__enter__", LPY_ENTER) < 0)
        return -1;
    return add_boundary(state, "__exit__", LPY_EXIT);
}
