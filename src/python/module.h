/*
 * python: the CPython extension lineprofiler._core.
 *
 * Owns nothing but conversion: a method parses its arguments, calls the core, and turns the result
 * into an object or an exception. One file for each type:
 *
 *  recorder.c  Recorder, the base class of lineprofiler.accounting.Profiler
 *  phase.c     Phase, what phase() returns: a recorder and a name
 *  entry.c     Entry, one entry of a phase: what `with` calls
 *  boundary.c  Boundary, the descriptors Phase.__enter__ and Phase.__exit__ that hand out entries
 *  wrap.c      phases of a recorder with something around their entries, which is Python's to know
 *  join.c      which run a process belongs to
 *  tasks.c     which task runs on this thread
 *  task_watch.c  the moments at which asyncio's tasks begin and end to run, where CPython tells them
 *  run.c       a run directory as plain objects
 *  tree.c      merged_tree() and deltas()
 *  callbacks.c on_snapshot(): what the keeper calls
 *  extras.c    entries of phases that measure more than time
 *  stream.c    which CUDA stream is current
 *  device_memory.c  what torch's allocator holds
 *  count.c     count()
 *  parts.c     what a Phase was made of, for pickling
 *  names.c     from a str to the name's number
 *  thread_name.c  the calling thread's name
 *  line_engine.c  LineEngine, the base class of lineprofiler.LineProfiler
 *  args.c      arguments of the vectorcall methods
 *  module.c    the module, its state and its functions
 *
 * What a `with profiler.phase("x")` does: phase() takes a Phase from a list of free ones. `with`
 * looks __enter__ and
 * __exit__ up, on every version before it calls either; an ordinary method would be bound twice,
 * which costs two objects. Our descriptors hand out one Entry for both, from another list. The
 * entry is opened by being called without arguments and closed by being called with three. As every
 * `with` has its own entry, one kept Phase may be open several times at once, on several threads,
 * and each exit still closes exactly what its own enter opened.
 *
 * All of it relies on the GIL; the core does not.
 */
#ifndef LP_PYTHON_MODULE_H
#define LP_PYTHON_MODULE_H

#include "python/compat.h"

#include <stdbool.h>

#include "api/profiler.h"
#include "process/cuda.h"
#include "record/record.h"
#include "run/reading.h"
#include "worker/extras.h"
#include "worker/worker.h"

/* References in prototypes: what is returned is new, and arguments are borrowed, unless marked. */
#define LPY_BORROWED
#define LPY_RAISES_NEG

struct lpy_state;
struct lpy_callbacks;

/* Recorder. Python code may subclass it. */
struct lpy_recorder {
    PyObject_HEAD
    PyObject *weak_references;
    struct lpy_state *state;         /* Borrowed: the type holds the module. */
    struct lp_recorder *recorder;    /* Borrowed from worker; NULL: nothing is recorded, or not any more. */
    struct lp_recorder *plain;       /* The same, but NULL where phases are wrapped too: all that phase() looks at. */
    PyObject *wrap;                  /* Owned; may be NULL. What makes of a Phase the one that is handed out. */
    lp_name_id wrapped;              /* Of which phases only; LP_NAME_NONE: of all. */
    struct lp_worker *worker;        /* Owned; NULL if it was never enabled. */
    struct lpy_callbacks *callbacks; /* The worker's; NULL if there is none. */
    struct lp_run_reading cursor;    /* Up to where deltas() has handed out. Guarded by the GIL. */
    struct lpy_recorder *next_open;  /* Borrowed. */
    lp_profiler *c_profiler;         /* Of the worker; NULL until C has asked for it. It outlives this. */
    bool used;                       /* A phase was asked for while nothing was recorded. */
    bool warned;                     /* of too many paths */
    bool strict_names;
};

/* An entry opened by a call of __enter__ that no __exit__ was bound together with. */
struct lpy_loose_entry {
    unsigned long thread;
    uint64_t task;
    struct lp_entry entry;
    struct lpy_extras *extras; /* Owned. */
};

struct lpy_entry;

/* Phase. */
struct lpy_phase {
    PyObject_HEAD
    struct lpy_recorder *recorder; /* Owned; NULL in the one that stands for "not recorded". */
    struct lpy_entry *pending;     /* Borrowed: handed out as __enter__ or as __exit__, not yet as both. */
    struct lpy_loose_entry *loose; /* Owned. */
    uint32_t n_loose, loose_size;
    lp_phase_id id;
    unsigned flags; /* enum lp_extra_kinds */
};

enum lpy_side { LPY_ENTER = 1, LPY_EXIT = 2, LPY_BOTH = 3 };

/* Entry. */
struct lpy_entry {
    PyObject_HEAD
    vectorcallfunc call;
    struct lpy_phase *phase; /* Owned. */
    struct lp_entry entry;
    unsigned char handed_out;  /* enum lpy_side: as what */
    unsigned char open;        /* enum lpy_open */
    struct lpy_extras *extras; /* Owned; valid while open with extras */
};

enum lpy_open { LPY_CLOSED, LPY_OPEN, LPY_OPEN_WITH_EXTRAS };

/* str -> number, for the strings seen last. Two places for each hash of an address, the newer one
 * first. */
#define LPY_NAME_BITS 9
#define LPY_NAME_SETS (1u << LPY_NAME_BITS)

struct lpy_name_set {
    PyObject *texts[2]; /* Owned. */
    lp_name_id ids[2];
};

#define LPY_FREE_LIMIT 64

/* Objects that wait for their next use. Each holds its type and refers to nothing else. They stay known to the garbage
   collector: to tell it of each one anew would be a tenth of what a phase costs. */
struct lpy_free_list {
    PyObject *objects[LPY_FREE_LIMIT]; /* Owned. */
    int n, limit;
};

#define LPY_LOOP_TYPES 4

/* Of the frameworks whose tasks are told apart, what says which one runs. Owned; NULL until the program imports them. */
struct lpy_tasks {
    PyObject *running_loop, *current_tasks; /* asyncio; the second is a dict or a function */
    PyObject *trio_context, *greenlet;
    int watcher; /* of current_tasks, plus 1; 0: none */
    bool cannot_watch;
    bool late;                                /* there were tasks whose steps are noticed at boundaries only */
    PyTypeObject *loop_types[LPY_LOOP_TYPES]; /* Owned: whose hash is ours */
    hashfunc loop_hashes[LPY_LOOP_TYPES];     /* what it was */
};

/* What a value of sample= came to, for the float seen last: it is a constant of the program as a rule. */
struct lpy_sample {
    PyObject *value;         /* Owned; NULL: none yet */
    lp_phase_id stride_bits; /* of any phase id with that stride */
};

enum lpy_keyword { LPY_NAME, LPY_IO, LPY_SYNC, LPY_SAMPLE, LPY_GPU, LPY_ASYNC_WORK, LPY_N, LPY_KEYWORDS };

/* The way to the state for code that may be on any thread, without the GIL, at any time: also once the interpreter is gone,
   so it is never freed. */
struct lpy_host {
    const PyInterpreterState *interpreter; /* to compare with, for another may come to lie there */
    _Atomic(struct lpy_state *) state;     /* NULL once it is gone. To be used with the GIL held. */
};

struct lpy_state {
    PyTypeObject *recorder_type, *phase_type, *entry_type, *boundary_type; /* Owned. */
    PyObject *run_error;                                                   /* Owned. */
    PyObject *no_phase, *no_entry;                                         /* Owned. */
    struct lpy_recorder *installed;                                        /* Owned; may be NULL. */
    struct lpy_recorder *open;                                             /* Borrowed: list of those that record */
    struct lpy_host *host;
    struct lpy_tasks tasks;
    struct lpy_sample sample;
    PyObject *keywords[LPY_KEYWORDS];           /* Owned. */
    PyObject *threading, *active, *thread_name; /* Owned: names to look up. */
    struct lpy_free_list free_phases, free_entries;
    struct lpy_name_set names[LPY_NAME_SETS];
};

extern struct PyModuleDef lpy_module;

struct lpy_state *lpy_state_of(PyObject *module);
/* Whether the state is still whole; false, with an exception, once the interpreter has begun to take it apart. */
bool lpy_state_stands(const struct lpy_state *state);

/* Each adds its type to the module. 0, or -1 with an exception. */
LPY_RAISES_NEG int lpy_recorder_add_type(PyObject *module);
LPY_RAISES_NEG int lpy_phase_add_type(PyObject *module);
LPY_RAISES_NEG int lpy_entry_add_type(PyObject *module);
LPY_RAISES_NEG int lpy_boundary_add_type(PyObject *module);
LPY_RAISES_NEG int lpy_line_engine_add_type(PyObject *module);

/* line_engine.c: what os.register_at_fork() is given. */
PyObject *lpy_lines_after_fork(PyObject *module, PyObject *unused);

/* The methods and functions phase() and count(); recorder NULL: nothing is installed. */
PyObject *lpy_phase_with_arguments(struct lpy_state *state, struct lpy_recorder *recorder, PyObject *const *args,
                                   Py_ssize_t nargs, PyObject *kwnames);
PyObject *lpy_count_with_arguments(struct lpy_state *state, struct lpy_recorder *recorder, PyObject *const *args,
                                   Py_ssize_t nargs, PyObject *kwnames);
PyObject *lpy_current(struct lpy_recorder *recorder);

/* Warns once that paths are folded, if that is why nothing was recorded. -1: the warning is an
 * exception. */
LPY_RAISES_NEG int lpy_recorder_not_recorded(struct lpy_recorder *recorder);

/* Has every phase of that name, LP_NAME_NONE: every phase, made over by function; NULL: none. */
void lpy_recorder_wrap(struct lpy_recorder *recorder, PyObject *function, lp_name_id name);
/* The Phase as it is handed out by a recorder that wraps them. Steals it; NULL: an exception that no Exception is. */
PyObject *lpy_phase_wrapped(struct lpy_recorder *recorder, PyObject *phase);

/* An entry that counts as handed out once, as `side`. */
struct lpy_entry *lpy_entry_new(struct lpy_state *state, struct lpy_phase *phase, enum lpy_side side);
/* __enter__ and __exit__ called by themselves; the last entry of this task, else of this thread, is
 * the first to be closed. */
PyObject *lpy_phase_enter_loose(struct lpy_phase *phase);
void lpy_phase_leave_loose(struct lpy_phase *phase);

/* Makes the bound arguments of a call. bound[i] is left as it is where nothing was passed for
 * names[i]. */
LPY_RAISES_NEG int lpy_bind(const char *function, PyObject *const *names, int n_names, PyObject **bound,
                            PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* Checks a text as a name and finds its number. what: "phase" or "counter". */
LPY_RAISES_NEG int lpy_name_id(struct lpy_state *state, PyObject *text, const char *what, lp_name_id *id);
/* Checks it only. */
LPY_RAISES_NEG int lpy_name_check(PyObject *text, const char *what);
/* Admits a name of phases that the recorder does not know yet: warns, or raises, if it looks built from data. */
LPY_RAISES_NEG int lpy_name_admit(struct lpy_recorder *recorder, lp_name_id name);
/* The text of a name; names are kept as UTF-8 in which lone surrogates may stand. */
PyObject *lpy_text(const char *bytes, size_t len);
void lpy_names_clear(struct lpy_state *state);

/* As PyUnicode_FSConverter, but None leaves it NULL. */
int lpy_convert_optional_path(PyObject *object, void *bytes);
/* Raises OSError, or its subclass for that number. message: what is told without it, path: its filename, NULL or None: none. */
void lpy_raise_os_error(int error, PyObject *message, PyObject *path);
/* Raises what a run that could not be read is to Python: OSError or RunError. status and message are those of
 * lp_run_load, error is its errno. */
void lpy_raise_load(PyObject *module, int status, int error, const char *message, const char *dir);

/* Follows the task that runs now, if any. NULL: there is no memory for its entries. */
LP_NOINLINE struct lp_thread *lpy_follow_task(struct lpy_state *state, struct lp_thread *thread);
/* The same before an exit, if this is the calling thread's side of its recorder, and still stands. */
LP_NOINLINE void lpy_follow_to_leave(struct lpy_state *state, struct lp_thread *thread);
int lpy_tasks_traverse(const struct lpy_tasks *tasks, visitproc visit, void *arg);
void lpy_tasks_clear(struct lpy_state *state);
/* Has steps of asyncio's tasks on such loops noticed when they begin and end. False: that cannot be had. */
bool lpy_task_watch(struct lpy_state *state, PyObject *loop);
/* No more. */
void lpy_task_unwatch(struct lpy_state *state);
/* Takes the recorder into the list of those that record, or out of it. */
void lpy_recorder_list(struct lpy_recorder *recorder);
void lpy_recorder_unlist(struct lpy_recorder *recorder);

/* native.c: what C code in this process records. */

/* As struct lp_recorder_hooks says; context is a struct lpy_host. On any thread, with or without the GIL. */
struct lp_thread *lpy_follow_for_c(void *host, struct lp_thread *thread);
/* The state, if the calling thread holds the GIL of its interpreter; else NULL. */
struct lpy_state *lpy_attached_state(const struct lpy_host *host);
/* NULL: no memory. */
struct lpy_host *lpy_host_new(struct lpy_state *state);
/* The recorder's C side; NULL with an exception if there is no memory for it. */
lp_profiler *lpy_c_profiler(struct lpy_recorder *recorder);
/* A capsule with it, None if nothing is recorded. */
PyObject *lpy_recorder_c_profiler(PyObject *recorder, PyObject *unused);
/* Puts the table of the C interface into the module. */
LPY_RAISES_NEG int lpy_native_add_table(PyObject *module);

/* tree.c */
#define LPY_READING_MESSAGE 512
/* Reads the worker's state; worker NULL, or a forked child that has recorded nothing, gives an empty tree. Without the GIL,
   if need be. 0, or -1 with a message, which is empty if memory is short. */
int lpy_read_worker(struct lp_run_reading *reading, struct lp_worker *worker, char message[LPY_READING_MESSAGE]);
PyObject *lpy_merged_tree(struct lpy_recorder *recorder);
PyObject *lpy_deltas(struct lpy_recorder *recorder);
/* [(path, {figure: value}), ...], parents first; of an interval without its idle phases. */
PyObject *lpy_tree_pairs(const struct lp_run_phase *root);
PyObject *lpy_interval_pairs(const struct lp_run_phase *root);

/* callbacks.c. Made before the worker, to which they then belong. With the GIL held, but for _call and _free, which are
   the worker's flushed and flushed_release. */
struct lpy_callbacks *lpy_callbacks_new(void);
void lpy_callbacks_set_worker(struct lpy_callbacks *callbacks, struct lp_worker *worker);
LPY_RAISES_NEG int lpy_callbacks_add(struct lpy_callbacks *callbacks, PyObject *function);
int lpy_callbacks_traverse(struct lpy_callbacks *callbacks, visitproc visit, void *arg);
void lpy_callbacks_clear(struct lpy_callbacks *callbacks);
PyObject *lpy_callbacks_error(const struct lpy_callbacks *callbacks);
void lpy_callbacks_call(void *callbacks);
void lpy_callbacks_free(void *callbacks);

/* extras.c: entries of phases with flags. Between the two, the entry is opened; _leave closes it and frees the extras,
   which may be NULL. */
struct lpy_extras *lpy_extras_begin(struct lpy_phase *phase);
LP_COLD void lpy_extras_leave(struct lpy_phase *phase, struct lp_entry *entry, struct lpy_extras *extras);
/* Nobody leaves the entry, but that its object goes: then no device is waited for. */
void lpy_extras_abandon(struct lpy_extras *extras);

/* stream.c */
lp_cuda_stream lpy_current_stream(void);
/* A module that the program has imported; NULL: it has not. */
LPY_BORROWED PyObject *lpy_imported(const char *name);

/* device_memory.c. As struct lp_worker_options says; without the GIL. */
bool lpy_device_memory(bool ask, uint64_t *allocated_bytes, uint64_t *reserved_bytes);

/* Functions of the module, see their documentation there. */
PyObject *lpy_find_run(PyObject *module, PyObject *args);
PyObject *lpy_call_inside(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *lpy_ancestor_run_id(PyObject *module, PyObject *run_dir);
PyObject *lpy_ancestor_run(PyObject *module, PyObject *unused);
PyObject *lpy_is_open_here(PyObject *module, PyObject *worker);
PyObject *lpy_phase_parts(PyObject *module, PyObject *phase);
PyObject *lpy_load_run(PyObject *module, PyObject *args);
/* What the run used besides time. */
PyObject *lpy_run_usage(const struct lp_run *run);
/* Borrows a run id of bytes, NULL for None. 0, or -1 with an exception. */
int lpy_take_run_id(PyObject *wanted, const char **run_id);
PyObject *lpy_compare_runs(PyObject *module, PyObject *args);
PyObject *lpy_hist_quantile(PyObject *module, PyObject *args);
PyObject *lpy_show_duration(PyObject *module, PyObject *ns);
PyObject *lpy_show_share(PyObject *module, PyObject *fraction);
PyObject *lpy_show_percent(PyObject *module, PyObject *fraction);
PyObject *lpy_show_text(PyObject *module, PyObject *text);
PyObject *lpy_hist_bounds(PyObject *module, PyObject *number);

/* The calling thread's name, as struct lp_recorder_hooks says; context is a struct lpy_host. Without the GIL it is what C
   calls it. */
size_t lpy_thread_name(void *context, char *name, size_t size);

/* Objects lie 16 bytes apart; the product's upper bits depend on all of the address. */
LP_ALWAYS_INLINE size_t lpy_name_hash(const PyObject *text)
{
    return (size_t)(((uintptr_t)text >> 4) * 0x9e3779b97f4a7c15u >> (64 - LPY_NAME_BITS));
}

/* The number of a text seen lately; LP_NAME_NONE if it has to be looked up. */
LP_ALWAYS_INLINE lp_name_id lpy_name_seen(const struct lpy_state *state, PyObject *text)
{
    const struct lpy_name_set *set = &state->names[lpy_name_hash(text)];
    if (LP_LIKELY(set->texts[0] == text))
        return set->ids[0];
    return set->texts[1] == text ? set->ids[1] : LP_NAME_NONE;
}

/* The calling thread's side of the recorder, on the strand of the task that runs. NULL: nothing is to be recorded. */
LP_ALWAYS_INLINE struct lp_thread *lpy_thread_self(struct lpy_state *state, struct lp_recorder *recorder)
{
    struct lp_thread *thread = lp_thread_self(recorder);
    if (LP_LIKELY(thread && thread->host_version == lpy_context_version()))
        return thread;
    return thread ? lpy_follow_task(state, thread) : NULL;
}

LP_ALWAYS_INLINE void lpy_enter(struct lpy_state *state, struct lp_recorder *recorder, lp_phase_id phase,
                                struct lp_entry *entry)
{
    struct lp_thread *thread = lpy_thread_self(state, recorder);
    entry->thread = NULL;
    if (LP_LIKELY(thread != NULL))
        lp_thread_enter(thread, phase, entry);
}

LP_ALWAYS_INLINE void lpy_leave(struct lpy_state *state, struct lp_entry *entry)
{
    struct lp_thread *thread = entry->thread;
    if (LP_UNLIKELY(thread && entry->frame & LP_ENTRY_SKIPPED)) { /* there is no time to be told whose it is */
        lp_record_leave_skipped(entry);
        return;
    }
    if (LP_LIKELY(thread != NULL) && LP_UNLIKELY(thread->host_version != lpy_context_version()))
        lpy_follow_to_leave(state, thread);
    lp_record_leave(entry);
}

LP_ALWAYS_INLINE PyObject *lpy_free_list_take(struct lpy_free_list *list)
{
    if (LP_UNLIKELY(list->n == 0))
        return NULL;
    return list->objects[--list->n];
}

/* To be called where the object has lost its last reference. False: the list is full, and the caller has to free it. */
LP_ALWAYS_INLINE bool lpy_free_list_put(struct lpy_free_list *list, PyObject *object)
{
    if (LP_UNLIKELY(list->n >= list->limit))
        return false;
    lpy_revive(object);
    list->objects[list->n++] = object;
    return true;
}

#endif
