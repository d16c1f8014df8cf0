/* Which task runs on the calling thread, and the strand of its entries. */
#include "python/module.h"

/* An attribute by a dotted path below a module that the program has imported; NULL without an exception if there is
   none. We import nothing: who has no task of a framework needs no knowledge of it. */
static PyObject *find(const char *module, const char *first, const char *second)
{
    PyObject *name = PyUnicode_FromString(module);
    PyObject *found = name ? PyImport_GetModule(name) : NULL;
    Py_XDECREF(name);
    if (found && first) {
        PyObject *inner = PyObject_GetAttrString(found, first);
        Py_SETREF(found, inner);
    }
    if (found) {
        PyObject *inner = PyObject_GetAttrString(found, second);
        Py_SETREF(found, inner);
    }
    if (found == NULL)
        PyErr_Clear();
    return found;
}

static void find_asyncio(struct lpy_tasks *tasks)
{
    PyObject *current_tasks = find("asyncio", "tasks", LPY_CURRENT_TASKS_IN_DICT ? "_current_tasks" : "current_task");
    PyObject *running_loop = current_tasks ? find("asyncio", "events", "_get_running_loop") : NULL;
    if (running_loop && PyDict_Check(current_tasks) == LPY_CURRENT_TASKS_IN_DICT) {
        Py_XSETREF(tasks->current_tasks, Py_NewRef(current_tasks));
        Py_XSETREF(tasks->running_loop, Py_NewRef(running_loop));
    }
    Py_XDECREF(current_tasks);
    Py_XDECREF(running_loop);
}

static PyObject *not_none(PyObject *object)
{
    if (object == NULL)
        PyErr_Clear();
    else if (object == Py_None)
        Py_CLEAR(object);
    return object;
}

/* watched: its steps are noticed when they begin and end. */
static PyObject *asyncio_task(struct lpy_state *state, bool *watched)
{
    struct lpy_tasks *tasks = &state->tasks;
    if (tasks->running_loop == NULL)
        find_asyncio(tasks);
    if (tasks->running_loop == NULL)
        return NULL;
    PyObject *loop = not_none(PyObject_CallNoArgs(tasks->running_loop));
    PyObject *task = NULL;
    if (loop && LPY_CURRENT_TASKS_IN_DICT)
        task = lpy_dict_get(tasks->current_tasks, loop);
    else if (loop)
        task = PyObject_CallOneArg(tasks->current_tasks, loop);
    task = not_none(task);
    *watched = task && lpy_task_watch(state, loop);
    if (task && !*watched && !lpy_task_watch(state, loop)) /* nor from now on */
        tasks->late = true;
    Py_XDECREF(loop);
    return task;
}

/* Not by trio.lowlevel.current_task(): that is Python code, in which the program's tracing would be called, and a
   KeyboardInterrupt be raised that is not ours to swallow. */
static PyObject *trio_task(struct lpy_tasks *tasks)
{
    if (tasks->trio_context == NULL)
        tasks->trio_context = find("trio._core._run", NULL, "GLOBAL_RUN_CONTEXT");
    return tasks->trio_context ? not_none(PyObject_GetAttrString(tasks->trio_context, "task")) : NULL;
}

/* The thread's first greenlet is the thread itself. */
static PyObject *greenlet_task(struct lpy_tasks *tasks)
{
    if (tasks->greenlet == NULL)
        tasks->greenlet = find("greenlet", NULL, "getcurrent");
    PyObject *task = tasks->greenlet ? not_none(PyObject_CallNoArgs(tasks->greenlet)) : NULL;
    PyObject *parent = task ? not_none(PyObject_GetAttrString(task, "parent")) : NULL;
    if (parent == NULL)
        Py_CLEAR(task);
    Py_XDECREF(parent);
    return task;
}

/* The strand is known by the task's address. Another task may have come to lie there while entries of the first, kept
   somewhere by the program, are still open: the weak reference tells. */
static struct lp_strand *known_strand(struct lp_thread *thread, PyObject *task)
{
    struct lp_strand *strand = lp_strand_find(thread, (uint64_t)(uintptr_t)task);
    if (strand && strand->host && !lpy_refers_to(strand->host, task)) {
        lp_strand_orphan(thread, strand);
        return NULL;
    }
    return strand;
}

static struct lp_strand *strand_of(struct lp_thread *thread, PyObject *task)
{
    struct lp_strand *strand = known_strand(thread, task);
    if (strand)
        return strand;
    /* Before we look: a garbage collection may come of this, and run code of the program that enters phases. */
    PyObject *reference = PyWeakref_NewRef(task, NULL);
    if (reference == NULL)
        PyErr_Clear();
    strand = known_strand(thread, task);
    if (strand == NULL)
        strand = lp_strand_make(thread, (uint64_t)(uintptr_t)task);
    if (strand == NULL) {
        lp_image_trouble(&thread->recorder->image, LP_TROUBLE_IMAGE_FULL);
        Py_XDECREF(reference);
        return NULL;
    }
    PyObject *last = strand->host;
    strand->host = reference;
    Py_XDECREF(last);
    return strand;
}

/* watched: had it begun to run since the thread's last boundary, that would have been noticed. */
static PyObject *task_that_runs(struct lpy_state *state, bool *watched)
{
    struct lpy_tasks *tasks = &state->tasks;
    PyObject *task = asyncio_task(state, watched);
    if (task)
        return task;
    task = trio_task(tasks);
    if (task == NULL)
        task = greenlet_task(tasks);
    if (task)
        tasks->late = true;
    else
        *watched = tasks->watcher && !tasks->late;
    return task;
}

struct lp_thread *lpy_follow_task(struct lpy_state *state, struct lp_thread *thread)
{
    uint64_t version = lpy_context_version();
    PyObject *raised = lpy_set_aside();
    bool watched = false;
    PyObject *task = task_that_runs(state, &watched);
    bool tasks_before = thread->n_tasks > 0;
    struct lp_strand *strand = task ? strand_of(thread, task) : &thread->own;
    if (strand && !watched && tasks_before)
        lp_thread_run_late(thread, strand);
    else if (strand && watched && thread->host_since_cpu_ns)
        lp_thread_run_since(thread, strand, thread->host_since_cpu_ns);
    else if (strand)
        lp_thread_run(thread, strand);
    if (strand)
        thread->host_version = version;
    thread->host_since_cpu_ns = 0;
    Py_XDECREF(task);
    lpy_raise_again(raised);
    return strand ? thread : NULL;
}

void lpy_follow_to_leave(struct lpy_state *state, struct lp_thread *thread)
{
    if (lp_thread_known(thread->recorder) == thread)
        lpy_follow_task(state, thread);
}

int lpy_tasks_traverse(const struct lpy_tasks *tasks, visitproc visit, void *arg)
{
    Py_VISIT(tasks->running_loop);
    Py_VISIT(tasks->current_tasks);
    Py_VISIT(tasks->trio_context);
    Py_VISIT(tasks->greenlet);
    return 0;
}

void lpy_tasks_clear(struct lpy_state *state)
{
    lpy_task_unwatch(state);
    Py_CLEAR(state->tasks.running_loop);
    Py_CLEAR(state->tasks.current_tasks);
    Py_CLEAR(state->tasks.trio_context);
    Py_CLEAR(state->tasks.greenlet);
}
