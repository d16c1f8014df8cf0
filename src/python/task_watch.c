/* The moments at which asyncio's tasks begin and end to run.

   asyncio keeps in a dict which task runs on which loop. Around every step of a task it looks there, sets and deletes.
   Since 3.12 a dict can be watched. In 3.11 the loop's hash, which each of these asks for, shows the moments, and the dict
   at the end of a step whose it was. So the CPU time of a task is counted from step to step, exactly; without this a change
   of tasks would be noticed at the next boundary of a phase only. */
#include "python/module.h"

#define INTERPRETERS 16

/* Those that watch, of all interpreters: a callback is not told whose it is. */
static _Atomic(struct lpy_state *) watching[INTERPRETERS];

static bool take_place(struct lpy_state *state)
{
    for (int i = 0; i < INTERPRETERS; i++) {
        struct lpy_state *none = NULL;
        if (atomic_compare_exchange_strong(&watching[i], &none, state))
            return true;
    }
    return false;
}

static void leave_place(const struct lpy_state *state)
{
    for (int i = 0; i < INTERPRETERS; i++)
        if (atomic_load(&watching[i]) == state)
            atomic_store(&watching[i], NULL);
}

/* What the calling thread recorded to last, if it is one of this interpreter's recorders and has open tasks. */
static struct lp_thread *thread_in_use(const struct lpy_state *state)
{
    for (const struct lpy_recorder *open = state->open; open; open = open->next_open) {
        uint64_t key = atomic_load_explicit(&open->recorder->key, memory_order_relaxed);
        struct lp_thread *thread = lp_thread_cache.thread;
        if (key != 0 && lp_thread_cache.key == key && lp_record_is_here())
            return thread->n_tasks > 0 ? thread : NULL;
    }
    return NULL;
}

static struct lp_strand *known_strand(struct lp_thread *thread, PyObject *task)
{
    struct lp_strand *strand = lp_strand_find(thread, (uint64_t)(uintptr_t)task);
    return strand && strand->host && lpy_refers_to(strand->host, task) ? strand : NULL;
}

#if LPY_CAN_WATCH_DICTS

static struct lpy_state *state_with(const PyObject *dict)
{
    for (int i = 0; i < INTERPRETERS; i++) {
        struct lpy_state *state = atomic_load_explicit(&watching[i], memory_order_acquire);
        if (state && state->tasks.current_tasks == dict)
            return state;
    }
    return NULL;
}

/* Before the dict changes: task is what will run, or NULL. A task that has nothing open gets a strand when it enters its
   first phase. */
static int on_change(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *task)
{
    (void)key;
    const struct lpy_state *state = state_with(dict);
    struct lp_thread *thread = state ? thread_in_use(state) : NULL;
    if (thread == NULL)
        return 0;
    bool runs = (event == PyDict_EVENT_ADDED || event == PyDict_EVENT_MODIFIED) && task && task != Py_None;
    struct lp_strand *strand = runs ? known_strand(thread, task) : NULL;
    lp_thread_run(thread, strand ? strand : &thread->own);
    thread->host_version = strand ? lpy_context_version() : 0;
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
static void on_event(struct lpy_state *state, PyObject *loop)
{
    struct lp_thread *thread = thread_in_use(state);
    if (thread == NULL)
        return;
    PyObject *task = lpy_dict_get(state->tasks.current_tasks, loop);
    struct lp_strand *strand = task ? known_strand(thread, task) : NULL;
    if (strand && strand != thread->strand && thread->host_since_cpu_ns)
        lp_thread_run_since(thread, strand, thread->host_since_cpu_ns);
    Py_XDECREF(task);
    uint64_t cpu_ns = lp_thread_cpu_ns(thread);
    lp_thread_run_since(thread, &thread->own, cpu_ns);
    thread->host_since_cpu_ns = cpu_ns;
    thread->host_version = 0;
}

/* Whose hook is in the loop's type, and the hash that was there before. */
static struct lpy_state *state_of_loop(PyObject *loop, hashfunc *hash)
{
    for (int i = 0; i < INTERPRETERS; i++) {
        struct lpy_state *state = atomic_load_explicit(&watching[i], memory_order_acquire);
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
        on_event(state, loop);
        lpy_raise_again(raised);
        looking = false;
    }
    return hash(loop);
}

bool lpy_task_watch(struct lpy_state *state, PyObject *loop)
{
    struct lpy_tasks *tasks = &state->tasks;
    PyTypeObject *type = Py_TYPE(loop);
    if (type->tp_hash == hash_of_loop)
        return true;
    int free_place = 0;
    while (free_place < LPY_LOOP_TYPES && tasks->loop_types[free_place])
        free_place++;
    /* One with a hash of its own making is left alone. */
    if (free_place == LPY_LOOP_TYPES || type->tp_hash != PyBaseObject_Type.tp_hash)
        return false;
    if (tasks->watcher == 0 && !take_place(state))
        return false;
    tasks->watcher++;
    tasks->loop_hashes[free_place] = type->tp_hash;
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
    if (recorder->state->open == NULL)
        lpy_task_unwatch(recorder->state);
}
