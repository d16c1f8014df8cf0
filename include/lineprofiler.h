/*
 * The public C interface of liblineprofiler: name regions of your program, read where the time went.
 *
 *     lp_profiler *profiler = lp_open(&(lp_options){.run_dir = "profile", .role = "actor"});
 *     lp_name mcts = lp_intern("mcts");
 *     lp_phase phase = lp_enter(profiler, mcts);
 *     ...
 *     lp_leave(&phase);
 *     lp_close(profiler);
 *
 * then `lineprofiler report profile`. Processes with the same run directory and run id make one run. A child process
 * joins the run of a parent whose profiler is open: it finds it in the environment, which a profiler in Python sets, or
 * by its image in /dev/shm. This library reads the environment and never changes it: to hand a run on to other machines
 * or containers, set LINEPROFILER_RUN_DIR and LINEPROFILER_RUN_ID before lp_open(). A forked child that goes on with the
 * profiler is a worker of its own in the same run.
 *
 * Recording (lp_enter, lp_leave, lp_count) takes no lock and, as long as the thread is not descheduled, makes no system
 * call but one clock reading a millisecond; a pair costs about as much as two clock readings. Every function is
 * thread-safe unless it says otherwise, none prints, exits or raises a signal, and all of them do nothing on a NULL or
 * closed profiler.
 *
 * While a profiler is open, SIGTERM, SIGUSR1 and SIGHUP - unless they are ignored - have a handler that writes the
 * workers' files, for a second at most, and then does what was done before. A handler installed later is left alone;
 * the last lp_close() gives back what was there.
 */
#ifndef LINEPROFILER_H
#define LINEPROFILER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LP_API __attribute__((visibility("default")))

/* The library's version, such as "1.2.3". A static text. */
LP_API const char *lp_version(void);

typedef struct lp_profiler lp_profiler;

/* All zeroes asks for the defaults: also a field that is added later. Strings are copied. */
typedef struct lp_options {
    const char *run_dir; /* NULL: $LINEPROFILER_RUN_DIR, else a parent's, else "profile"; made absolute at once */
    const char *role;    /* NULL: $LINEPROFILER_ROLE, else "main" */
    const char *run_id;  /* NULL: $LINEPROFILER_RUN_ID, else that of a parent in the same directory, else a new one */
    int no_cpu;          /* true: measure no CPU time, hence no wait */
    double snapshot_interval_s; /* 0: 30 s; negative: no periodic flush */
    double sample_interval_s;   /* 0: 1 s; negative: none. Both negative: no thread */
    int wait_detail;            /* Why a thread waited, blocked or pushed off its core: 0: as is the default, on;
                                   positive: on; negative: off. Takes a descriptor per thread */
    int measure_pss; /* true: measure how much memory the process has if shared pages are shared out, when files are
                        written; stops its calls of mmap for up to 30 ms */
} lp_options;

/* Opens a recorder of this process; options may be NULL. NULL on failure: lp_error_message() says why. */
LP_API lp_profiler *lp_open(const lp_options *options);
/* Writes the last state and makes the profiler inert; it stays a valid argument for ever. Returns 0, or -1 if the state
   could not be written; again 0 or -1 when called again. */
LP_API int lp_close(lp_profiler *profiler);
/* Writes the state so far to the worker's file. 0, or -1. */
LP_API int lp_snapshot(lp_profiler *profiler);
/* Why the calling thread's last failed call failed: one line, "" if none did. Valid until its next failure. */
LP_API const char *lp_error_message(void);

/* A name of phases or counters, the same for all profilers of the process, for ever; 0 if it is NULL, empty, longer than
   a MiB, or beyond the 65,535th. Costs a hash and a lock: keep the result. */
typedef uint32_t lp_name;
LP_API lp_name lp_intern(const char *name);

/* An open entry. Plain data, to be kept by the thread that entered until it leaves. */
typedef struct lp_phase {
    void *thread;
    uint64_t serial;
    uint32_t frame;
} lp_phase;

/* Opens an entry of the phase `name` below what is open on the calling thread. Name 0 records nothing; a number that
   lp_intern never returned is no phase of its own either, and is counted among the worker's troubles. */
LP_API lp_phase lp_enter(lp_profiler *profiler, lp_name name);
/* Closes exactly that entry, on the thread that opened it; once. NULL closes nothing. */
LP_API void lp_leave(lp_phase *phase);
/* Adds n to a counter of the innermost open phase of the calling thread, or of the root. 0, or -1 if the sum would
   leave 64 bits; the counter is then as before. */
LP_API int lp_count(lp_profiler *profiler, lp_name name, int64_t n);

#ifdef __cplusplus
}
#endif

#endif
