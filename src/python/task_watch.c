/* The moments at which asyncio's tasks begin and end to run.

   asyncio keeps in a dict which task runs on which loop. Around every step of a task it looks there, sets and deletes.
   Since 3.12 a dict can be watched. In 3.11 the loop's hash, which each of these asks for, shows the moments, and the dict
   at the end of a step whose it was. So the CPU time of a task is counted from step to step, exactly; without this a change
   of tasks would be noticed at the next boundary of a phase only. */
#include "python/module.h"

#define INTERPRETERS 16

/* Those that watch, of all interpreters: a callback is not told whose it is. Another interpreter's state may go at any
   moment, so nothing of it is looked at: an interpreter knows its own by the dict. */
static struct place {
    _Atomic(struct lpy_state *) state;
    _Atomic(PyObject *) dict; /* Borrowed. */
} places[INTERPRETERS];

static bool take_place(struct lpy_state *state)
{
    for (int i = 0; i < INTERPRETERS; i++) {
        struct lpy_state *none = NULL;
        if (atomic_compare_exchange_strong(&places[i].state, &none, state)) {
            atomic_store(&places[i].dict, state->tasks.current_tasks);
            return true;
        }
    }
    return false;
}

static void leave_place(const struct lpy_state *state)
{
    for (int i = 0; i < INTERPRETERS; i++) {
        if (atomic_load(&places[i].state) != state)
            continue;
        atomic_store(&places[i].dict, NULL);
        atomic_store(&places[i].state, NULL);
    }
}

/* The calling thread's side of a recorder, if tasks are known there. */
static struct lp_thread *thread_with_tasks(const struct lpy_recorder *open)
{
    struct lp_thread *thread = lp_thread_known(open->recorder);
    return thread && thread->n_tasks > 0 ? thread : NULL;
}

static struct lp_strand *known_strand(struct lp_thread *thread, PyObject *task)
{
    struct lp_strand *strand = lp_strand_find(thread, (uint64_t)(uintptr_t)task);
    return strand && strand->host && lpy_refers_to(strand->host, task) ? strand : NULL;
}

#if LPY_CAN_WATCH_DICTS

static struct lpy_state *state_with(const PyObject *dict)
{
    for (int i = 0; i < INTERPRETERS; i++)
        if (atomic_load_explicit(&places[i].dict, memory_order_relaxed) == dict)
            return atomic_load_explicit(&places[i].state, memory_order_relaxed);
    return NULL;
}

/* A task that has nothing open gets a strand when it enters its first phase. */
static void run(struct lp_thread *thread, PyObject *task)
{
    struct lp_strand *strand = task ? known_strand(thread, task) : NULL;
    lp_thread_run(thread, strand ? strand : &thread->own);
    thread->host_version = strand ? lpy_context_version() : 0;
}

/* Before the dict changes: task is what will run, or NULL. */
static int on_change(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *task)
{
    (void)key;
    const struct lpy_state *state = state_with(dict);
    bool runs = (event == PyDict_EVENT_ADDED || event == PyDict_EVENT_MODIFIED) && task && task != Py_None;
    for (const struct lpy_recorder *open = state ? state->open : NULL; open; open = open->next_open) {
        struct lp_thread *thread = thread_with_tasks(open);
        if (thread)
            run(thread, runs ? task : NULL);
    }
    return 0;
}

bool lpy_task_watch(struct lpy_state *state, PyObject *loop)
{
    (void)loop;
    struct lpy_tasks *tasks = &state->tasks;
    if (tasks->watcher || tasks->cannot_watch || !LPY_CURRENT_TASKS_IN_DICT || !take_place(state))
        return tasks->watcher;
    int watcher = PyDict_AddWatcher(on_change);
    if (watcher >= 0 && PyDict_Watch(watcher, tasks->current_tasks) == 0) {
        tasks->watcher = watcher + 1;
        return false; /* not this time: the step has begun */
    }
    PyErr_Clear(); /* others have taken all that there are */
    if (watcher >= 0 && PyDict_ClearWatcher(watcher) < 0)
        PyErr_Clear();
    leave_place(state);
    tasks->cannot_watch = true;
    return false;
}

void lpy_task_unwatch(struct lpy_state *state)
{
    struct lpy_tasks *tasks = &state->tasks;
    if (!tasks->watcher)
        return;
    if (PyDict_Unwatch(tasks->watcher - 1, tasks->current_tasks) < 0 || PyDict_ClearWatcher(tasks->watcher - 1) < 0)
        PyErr_Clear();
    tasks->watcher = 0;
    leave_place(state);
}

#else

static _Thread_local bool looking;

/* A step begins, with no task in the dict, or ends, with the one that ran; or somebody else asks for the loop's hash in
   between, which does no harm: until now it was that task, and what runs from now on is looked up at the next event or
   boundary. */
static void on_event(struct lp_thread *thread, PyObject *task)
{
    struct lp_strand *strand = task ? known_strand(thread, task) : NULL;
    if (strand && strand != thread->strand && thread->host_since_cpu_ns)
        lp_thread_run_since(thread, strand, thread->host_since_cpu_ns);
    uint64_t cpu_ns = lp_thread_cpu_ns(thread);
    lp_thread_run_since(thread, &thread->own, cpu_ns);
    thread->host_since_cpu_ns = cpu_ns;
    thread->host_version = 0;
}

static void on_events(struct lpy_state *state, PyObject *loop)
{
    PyObject *task = lpy_dict_get(state->tasks.current_tasks, loop);
    for (const struct lpy_recorder *open = state->open; open; open = open->next_open) {
        struct lp_thread *thread = thread_with_tasks(open);
        if (thread)
            on_event(thread, task);
    }
    Py_XDECREF(task);
}

/* Whose hook is in the loop's type, and the hash that was there before. */
static struct lpy_state *state_of_loop(PyObject *loop, hashfunc *hash)
{
    for (int i = 0; i < INTERPRETERS; i++) {
        struct lpy_state *state = atomic_load_explicit(&places[i].state, memory_order_relaxed);
        for (int j = 0; state && j < LPY_LOOP_TYPES; j++) {
            PyTypeObject *type = state->tasks.loop_types[j];
            if (type == NULL || !PyType_IsSubtype(Py_TYPE(loop), type))
                continue;
            *hash = state->tasks.loop_hashes[j];
            return state;
        }
    }
    *hash = PyBaseObject_Type.tp_hash; /* of a type that was made from one with the hook, and stays after it */
    return NULL;
}

static Py_hash_t hash_of_loop(PyObject *loop)
{
    hashfunc hash;
    struct lpy_state *state = state_of_loop(loop, &hash);
    if (state && !looking) { /* the dict asks for the hash too */
        looking = true;
        PyObject *raised = lpy_set_aside();
        on_events(state, loop);
        lpy_raise_again(raised);
        looking = false;
    }
    return hash(loop);
}

bool lpy_task_watch(struct lpy_state *state, PyObject *loop)
{
    struct lpy_tasks *tasks = &state->tasks;
    PyTypeObject *type = Py_TYPE(loop);
    hashfunc hash = type->tp_hash;
    /* A type that was made from one with our hook has it too; and keeps it when the other gets its own back. */
    if (hash == hash_of_loop && state_of_loop(loop, &hash) == state)
        return true;
    int free_place = 0;
    while (free_place < LPY_LOOP_TYPES && tasks->loop_types[free_place])
        free_place++;
    /* One with a hash of its own making is left alone. */
    if (free_place == LPY_LOOP_TYPES || hash != PyBaseObject_Type.tp_hash)
        return false;
    if (tasks->watcher == 0 && !take_place(state))
        return false;
    tasks->watcher++;
    tasks->loop_hashes[free_place] = hash;
    tasks->loop_types[free_place] = (PyTypeObject *)Py_NewRef((PyObject *)type);
    type->tp_hash = hash_of_loop;
    return false; /* not this time: the step has begun */
}

void lpy_task_unwatch(struct lpy_state *state)
{
    struct lpy_tasks *tasks = &state->tasks;
    if (!tasks->watcher)
        return;
    leave_place(state);
    for (int i = 0; i < LPY_LOOP_TYPES; i++) {
        PyTypeObject *type = tasks->loop_types[i];
        if (type && type->tp_hash == hash_of_loop)
            type->tp_hash = tasks->loop_hashes[i];
        tasks->loop_types[i] = NULL;
        Py_XDECREF((PyObject *)type);
    }
    tasks->watcher = 0;
}

#endif

void lpy_recorder_list(struct lpy_recorder *recorder)
{
    recorder->next_open = recorder->state->open;
    recorder->state->open = recorder;
}

/* The last one gives the hooks back. */
void lpy_recorder_unlist(struct lpy_recorder *recorder)
{
    struct lpy_recorder **link = &recorder->state->open;
    while (*link && *link != recorder)
        link = &(*link)->next_open;
    if (*link)
        *link = recorder->next_open;
    if (recorder->state->open)
        return;
    lpy_task_unwatch(recorder->state);
    recorder->state->tasks.late = false;
}
