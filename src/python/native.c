/* What C code in this process records: into the same tree, by way of the public C interface. */
#include "python/module.h"

#include <stdlib.h>

#define LPY_TABLE "lineprofiler._core.c_api"
#define LPY_PROFILER "lineprofiler.profiler"

struct lpy_host *lpy_host_new(struct lpy_state *state)
{
    struct lpy_host *host = malloc(sizeof *host);
    if (host) {
        host->interpreter = PyInterpreterState_Get();
        atomic_init(&host->state, state);
    }
    return host;
}

struct lpy_state *lpy_attached_state(const struct lpy_host *host)
{
    const PyThreadState *thread = lpy_attached_thread();
    return thread && thread->interp == host->interpreter ? atomic_load(&host->state) : NULL;
}

/* Which task runs can only be asked by a thread that holds the GIL. One that has released it nests where it was at its last
   boundary; so does one of another interpreter, and one that Python does not know. */
struct lp_thread *lpy_follow_for_c(void *context, struct lp_thread *thread)
{
    struct lpy_state *state = lpy_attached_state(context);
    if (!state || thread->host_version == lpy_context_version())
        return thread;
    return lpy_follow_task(state, thread);
}

lp_profiler *lpy_c_profiler(struct lpy_recorder *recorder)
{
    if (recorder->c_profiler == NULL && recorder->worker)
        recorder->c_profiler = lp_profiler_of_worker(recorder->worker, recorder->strict_names);
    return recorder->c_profiler;
}

PyObject *lpy_recorder_c_profiler(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct lpy_recorder *recorder = (struct lpy_recorder *)object;
    if (recorder->worker == NULL)
        Py_RETURN_NONE;
    lp_profiler *profiler = lpy_c_profiler(recorder);
    return profiler ? PyCapsule_New(profiler, LPY_PROFILER, NULL) : PyErr_NoMemory();
}

int lpy_native_add_table(PyObject *module)
{
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)lp_table(), LPY_TABLE, NULL);
    int status = PyModule_AddObjectRef(module, "c_api", capsule);
    Py_XDECREF(capsule);
    return status;
}
