/* phase_parts(): what a Phase was made of, so that it can be made again elsewhere. */
#include "python/module.h"

static PyObject *flag(unsigned flags, enum lp_extra_kinds which)
{
    return flags & which ? Py_True : Py_False;
}

PyObject *lpy_phase_parts(PyObject *module, PyObject *object)
{
    const struct lpy_phase *phase = (const struct lpy_phase *)object;
    if (!Py_IS_TYPE(object, lpy_state_of(module)->phase_type)) {
        PyErr_Format(PyExc_TypeError, "phase must be a Phase, not %.200s", Py_TYPE(object)->tp_name);
        return NULL;
    }
    if (phase->recorder == NULL)
        return Py_BuildValue("O{}", Py_None);
    uint32_t stride = lp_phase_stride(phase->id);
    unsigned flags = phase->flags;
    return Py_BuildValue("O{s:d,s:O,s:O,s:O,s:O}", (PyObject *)phase->recorder, "sample", 1.0 / (stride ? stride : 1),
                         "io", flag(flags, LP_WITH_IO), "sync", flag(flags, LP_WITH_SYNC), "gpu",
                         flag(flags, LP_WITH_GPU), "async_work", flag(flags, LP_WITH_ASYNC_WORK));
}
