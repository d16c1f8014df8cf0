/*
 * lines/engine: a line profiler - what it has measured, and the hooks of the interpreter while it runs.
 *
 * Data flow: the interpreter's events (monitoring.c from 3.12 on, tracing.c on 3.11) name a frame, its code object and a line.
 * codes.c says whether the code is to be profiled and has its tables; events.h reads the clocks and bills the time that has
 * gone by to the stack of the thread (stack.h); tables are summed when somebody asks (sum.c).
 *
 * The clock stands still while we work: of each reading, what the profiler itself has taken on the thread so far is
 * subtracted - measured where it does more than count, and a cost for each event that is measured at the beginning of a
 * session (costs.c) - so that all that is computed from readings is free of it.
 *
 * One engine runs at a time in a process, in its main interpreter. All of it happens with the GIL held; where there is
 * none, it is refused.
 */
#ifndef LP_LINES_ENGINE_H
#define LP_LINES_ENGINE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "clock/cpu.h"
#include "lines/filter.h"
#include "lines/stack.h"
#include "lines/waits.h"

#define LP_LINES_UNIT_BYTES 2 /* Of an instruction without its argument's extensions and caches; of all versions. */

/* A named part of the measured time, within another or in the whole. */
struct lp_lines_region {
    struct lp_lines_region *next; /* Of the engine. */
    struct lp_lines_region *parent;
    PyObject *name; /* Owned; NULL in that of the whole. */
};

/* Of frames.c. */
struct lp_lines_frames {
    uintptr_t deepest, room; /* The lowest address of the C stack that calls may use, and the bytes from there up. */
    const void *begins;      /* The innermost frame of the project that was begun; it may have ended. */
};

struct lp_lines_thread {
    struct lp_lines_stack stack;
    struct lp_cpu cpu;
    int64_t overhead_q8; /* What the profiler has taken so far, in 1/256 ns. */
    int64_t absent_ns;   /* The part of it that the thread was on no CPU: it was preempted while the profiler worked. */
    uint64_t events;
    struct lp_lines_region *region; /* Borrowed. */
    struct lp_lines_engine *engine; /* Borrowed. */
    struct lp_lines_frames frames;
    struct lp_lines_thread *next;
    uint64_t tid;
};

/* What an engine knows of a code object; it hangs there, in co_extra. */
struct lp_lines_code {
    struct lp_lines_code *next;         /* Of the engine. */
    struct lp_lines_code *next_of_code; /* Of the code object. */
    struct lp_lines_engine *engine;     /* Borrowed. */
    PyCodeObject *code;                 /* Borrowed; NULL: it has gone. */
    PyObject *file, *name;              /* Owned: str. */
    bool inside;                        /* Profiled. */
    bool waits;                         /* A coroutine or asynchronous generator: its suspended time is awaited time. */
    bool hidden;                        /* Of the profiler itself. */
    uint64_t armed;                     /* The session in which its events are on, or were told off. */
    int first_line;                     /* co_firstlineno */
    int base_line;                      /* That of lines[0] of a table. */
    uint32_t n_lines, n_units;
    uint32_t *line_of_unit;        /* Owned: index of the line of each code unit; UINT32_MAX: none. */
    PyObject *bytes;               /* Owned: co_code, where it is needed. */
    struct lp_lines_table *tables; /* Owned; that asked for last is the first. */
};

struct lp_lines_costs {
    int64_t line_q8, call_q8; /* Of an event, in 1/256 ns: a line, and a beginning or an end of a frame. */
};

/* What an event costs is measured with a small program. */
struct lp_lines_probe {
    PyObject *names;               /* Owned. */
    struct lp_lines_costs without; /* Whole durations, in nanoseconds. */
};

/* What is going on since start. */
struct lp_lines_session {
    uint64_t number;
    int64_t began_ns;               /* 0: it is beginning or ending. */
    int64_t overhead_q8;            /* That of the thread, when it began. */
    const void *block_frame;        /* The frame that the block is in; NULL: none is profiled. */
    struct lp_line *block_line;     /* The line of its `with`, */
    struct lp_line block_line_then; /* and what it had. */
    bool block_shares_line;         /* More is entered there: with LineProfiler(), pool: */
    struct lp_lines_thread *thread;
    struct lp_lines_probe probe;
    int tool;              /* monitoring: its number; -1: none */
    PyObject *monitoring;  /* Owned: sys.monitoring */
    PyObject *disable;     /* Owned: sys.monitoring.DISABLE */
    PyObject *threading;   /* tracing: owned, its names, */
    PyObject *thread_hook; /* and its trace hook of before */
};

/* Code that was asked of last; tracing.c */
#define LP_LINES_SEEN 1024
struct lp_lines_seen {
    const PyCodeObject *code;       /* Borrowed. */
    struct lp_lines_code *profiled; /* Borrowed; NULL: it is not. */
};

struct lp_lines_engine {
    struct lp_lines_filter filter;
    PyObject *verdicts; /* Owned: dict from a file's name to bool. */
    struct lp_lines_code *codes;
    struct lp_lines_thread *threads, *looked_at; /* The latter: at which one it was looked last whether it has ended. */
    struct lp_lines_region *regions;             /* The last one is that of the whole. */
    struct lp_lines_waits waits;
    struct lp_lines_costs costs;
    struct lp_lines_session session;
    struct lp_lines_seen seen[LP_LINES_SEEN]; /* By the code's address. */
    bool no_memory;                           /* It stopped recording. */
    bool calls_missed;                        /* Frames were begun in a way that frames.c does not see. */
    double
        cost_change; /* What a line event cost at the end of a session / at its beginning; of the worst. 0: none ended. */
    int64_t blocks_ns;   /* Wall time of the sessions that ended, */
    int64_t overhead_ns; /* of it, taken by the profiler on the threads that began them, */
    uint64_t events;     /* and events of all threads. */
};

/* The limit of recursion is the program's: what we ask of the interpreter may take calls beyond it. To be taken back. */
#define LP_LINES_ROOM 64
static inline void lp_lines_room(int calls)
{
#if PY_VERSION_HEX < 0x030C0000
    PyThreadState_Get()->recursion_remaining += calls;
#elif PY_VERSION_HEX < 0x030E0000
    PyThreadState_Get()->c_recursion_remaining += calls;
#else
    (void)calls;
#endif
}

/* The one that runs; NULL: none does. */
extern struct lp_lines_engine *lp_lines_running;
/* Its session; 0: none. No two are alike. */
extern uint64_t lp_lines_session;

/* The calling thread's side of a session. */
struct lp_lines_here {
    uint64_t session;
    struct lp_lines_thread *thread;
};
extern __thread struct lp_lines_here lp_lines_here __attribute__((tls_model("initial-exec")));

/* 0; or -1 with an exception. */
int lp_lines_engine_open(struct lp_lines_engine *engine, PyObject *folder);
void lp_lines_engine_free(struct lp_lines_engine *engine);
/* Begins a session: all threads, all frames. The block is that of the Python frame which calls. */
int lp_lines_engine_start(struct lp_lines_engine *engine);
/* Whether it has begun, and is not ending. */
bool lp_lines_engine_runs(const struct lp_lines_engine *engine);
/* Ends it; nothing if it does not run. Whatever fails on the way, no hook is left behind; -1 with the exception of a
   signal's handler that raised one meanwhile. */
int lp_lines_engine_stop(struct lp_lines_engine *engine);
/* Forgets all figures. */
int lp_lines_engine_clear(struct lp_lines_engine *engine);
/* In a forked child: no session goes on there. */
void lp_lines_after_fork(void);
/* The calling thread's time is from now on also that of the region; NULL: of the one around it. */
int lp_lines_engine_region(struct lp_lines_engine *engine, PyObject *name);
/* Bills all that is open up to now, on all threads. */
void lp_lines_engine_settle(struct lp_lines_engine *engine);

/* --- codes.c --- */

/* What an engine knows of a code object; NULL: it has not seen it. */
struct lp_lines_code *lp_lines_code_known(const struct lp_lines_engine *engine, PyCodeObject *code);
/* Likewise, found out if it is the first time. NULL without memory: then it
   stops recording, and no exception is set. */
struct lp_lines_code *lp_lines_code_of(struct lp_lines_engine *engine, PyCodeObject *code);
/* Its table for a thread, in the region that the thread is in. NULL without memory. */
struct lp_lines_table *lp_lines_table_of(struct lp_lines_code *code, const struct lp_lines_thread *thread);
/* What was said of code of this file, none of which is profiled, is forgotten. */
void lp_lines_codes_judge_anew(struct lp_lines_engine *engine, PyObject *file);
/* All tables become those of no thread, one for each region. */
void lp_lines_codes_rest(struct lp_lines_engine *engine);
void lp_lines_codes_free(struct lp_lines_engine *engine);

static inline struct lp_lines_seen *lp_lines_seen_of(struct lp_lines_engine *engine, const PyCodeObject *code)
{
    return &engine->seen[(uintptr_t)code / 64 % LP_LINES_SEEN];
}

/* NULL: not to be profiled. What it takes to find that out is the profiler's own time. */
struct lp_lines_code *lp_lines_code_see(struct lp_lines_thread *thread, PyCodeObject *code);
static inline struct lp_lines_code *lp_lines_code_profiled(struct lp_lines_thread *thread, PyCodeObject *code)
{
    const struct lp_lines_seen *seen = lp_lines_seen_of(thread->engine, code);
    return LP_LIKELY(seen->code == code) ? seen->profiled : lp_lines_code_see(thread, code);
}

/* --- events.c --- */

struct lp_lines_thread *lp_lines_thread_new(void);
/* What the profiler does between the two is measured, and taken out of all figures. */
struct lp_reading lp_lines_work_begins(struct lp_lines_thread *thread);
void lp_lines_work_ends(struct lp_lines_thread *thread, struct lp_reading from);
/* What happens seldom enough to be measured: an event of a frame that is not the innermost one known. */
void lp_lines_line_elsewhere(struct lp_lines_thread *thread, const void *frame, PyCodeObject *code, int line);

enum lp_lines_end { LP_LINES_RETURNS, LP_LINES_UNWINDS, LP_LINES_YIELDS };
void lp_lines_frame_begins(struct lp_lines_thread *thread, struct lp_lines_code *code, const void *frame);
/* unit: where in the code it goes on. */
void lp_lines_frame_goes_on(struct lp_lines_thread *thread, struct lp_lines_code *code, const void *frame,
                            uint32_t unit);
/* waits: what it yielded is not for a consumer. */
void lp_lines_frame_ends(struct lp_lines_thread *thread, const void *frame, PyCodeObject *code, uint32_t unit,
                         enum lp_lines_end how, bool waits);
void lp_lines_stop_recording(struct lp_lines_engine *engine);

/* --- costs.c: what an event costs --- */

#define LP_LINES_OWN_FILE "<lineprofiler, measuring itself>"

/* Without hooks, then with them. 0, or -1 with an exception; to be freed in any case. */
int lp_lines_costs_begin(struct lp_lines_probe *probe);
int lp_lines_costs_end(struct lp_lines_probe *probe, struct lp_lines_costs *costs);
void lp_lines_costs_free(struct lp_lines_probe *probe);

/* --- monitoring.c or tracing.c --- */

extern const char lp_lines_hooks_name[]; /* "monitoring" or "settrace" */
int lp_lines_hooks_start(struct lp_lines_engine *engine);
/* Events of a code object that is profiled. */
int lp_lines_hooks_arm(struct lp_lines_engine *engine, struct lp_lines_code *code);
/* Code that runs already, on any thread. */
int lp_lines_hooks_arm_running(struct lp_lines_engine *engine);
/* What events will know a frame of the calling thread by: the one that runs. */
const void *lp_lines_hooks_frame(PyFrameObject *frame);
/* All off, and as if they had never been on. */
void lp_lines_hooks_stop(struct lp_lines_engine *engine);

#endif
