/* Boundary: the descriptors Phase.__enter__ and Phase.__exit__. Looked up on a phase, they hand out
 * an entry. */
#include "python/module.h"

#include <stddef.h>

struct boundary {
    PyObject_HEAD
    vectorcallfunc call;
    struct lpy_state *state; /* Borrowed: the type holds the module. */
    enum lpy_side side;
};

/* `with` looks up both sides before it calls one, and nothing runs in between: the second one gets
   the entry that was handed out as the first. */
static PyObject *hand_out(struct lpy_state *state, struct lpy_phase *phase, enum lpy_side side)
{
    struct lpy_entry *entry = phase->pending;
    if (LP_UNLIKELY(phase->recorder == NULL)) {
        if (LP_UNLIKELY(state->no_entry == NULL))
            lpy_state_stands(state);
        return Py_XNewRef(state->no_entry);
    }
    if (entry && !(entry->handed_out & side)) {
        entry->handed_out |= (unsigned char)side;
        phase->pending = NULL;
        return Py_NewRef((PyObject *)entry);
    }
    entry = lpy_entry_new(state, phase, side);
    phase->pending = entry;
    return (PyObject *)entry;
}

static PyObject *boundary_get(PyObject *object, PyObject *instance, PyObject *owner)
{
    (void)owner;
    struct boundary *self = (struct boundary *)object;
    if (LP_LIKELY(instance && Py_IS_TYPE(instance, self->state->phase_type)))
        return hand_out(self->state, (struct lpy_phase *)instance, self->side);
    if (instance == NULL || instance == Py_None)
        return Py_NewRef(object);
    PyErr_Format(PyExc_TypeError, "descriptor of Phase does not apply to a %.200s", Py_TYPE(instance)->tp_name);
    return NULL;
}

/* Phase.__enter__(phase) and Phase.__exit__(phase, type, value, traceback): the way of
 * contextlib.ExitStack. */
static PyObject *boundary_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    struct boundary *self = (struct boundary *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    Py_ssize_t wanted = self->side == LPY_ENTER ? 1 : 4;
    if (kwnames || nargs != wanted || !Py_IS_TYPE(args[0], self->state->phase_type)) {
        PyErr_Format(PyExc_TypeError, "%s takes a Phase%s",
                     self->side == LPY_ENTER ? "Phase.__enter__" : "Phase.__exit__",
                     self->side == LPY_ENTER ? "" : " and three arguments more");
        return NULL;
    }
    if (self->side == LPY_ENTER)
        return lpy_phase_enter_loose((struct lpy_phase *)args[0]);
    lpy_phase_leave_loose((struct lpy_phase *)args[0]);
    Py_RETURN_NONE;
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

static PyMemberDef boundary_members[] = {
    {"__vectorcalloffset__", LPY_MEMBER_OFFSET, offsetof(struct boundary, call), LPY_MEMBER_READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot boundary_slots[] = {
    {Py_tp_doc, "Looked up on a phase, it hands out the entry that `with` is to open and close."},
    {Py_tp_dealloc, (void *)boundary_dealloc},
    {Py_tp_traverse, (void *)boundary_traverse},
    {Py_tp_descr_get, (void *)boundary_get},
    {Py_tp_call, (void *)PyVectorcall_Call},
    {Py_tp_members, boundary_members},
    {0, NULL},
};

static PyType_Spec boundary_spec = {
    .name = "lineprofiler._core.Boundary",
    .basicsize = sizeof(struct boundary),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = boundary_slots,
};

static int add_boundary(struct lpy_state *state, const char *name, enum lpy_side side)
{
    struct boundary *self = PyObject_GC_New(struct boundary, state->boundary_type);
    if (self == NULL)
        return -1;
    self->call = boundary_call;
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
