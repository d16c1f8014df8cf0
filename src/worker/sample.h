/*
 * worker/sample: a row of resource samples, taken by the keeper at each tick.
 *
 * I/O is that of the process's own threads. The profiler's is left out as it is measured (own_io); what children have
 * moved is in the kernel's counters of this process from the moment they are waited for, and is left out so: at the block
 * layer by getrusage(2), which counts it apart; of the system calls' chars, by the threads' own counters, where they are
 * few and none ended meanwhile, not even one that no row has seen: the CPU time of ended threads tells. Else the
 * interval's chars are not known, and the row says so.
 *
 * Must not know: files.
 */
#ifndef LP_WORKER_SAMPLE_H
#define LP_WORKER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "process/io.h"

#define LP_SAMPLED_THREADS 8 /* whose I/O is looked at, for there may be children */
#define LP_DELAYED_THREADS 8 /* recorded ones whose run delay is looked at */

struct lp_worker;

/* The program's threads, asked one after the other. */
struct lp_threads_io {
    size_t n;         /* 0: not known */
    struct lp_io own; /* the profiler's on them, up to then */
    uint64_t asker;   /* which thread that was */
    /* CPU time of all threads that had ended by then; from 0 to UINT64_MAX where it is not known. */
    uint64_t ended_least_ns, ended_most_ns;
    struct {
        uint64_t tid;
        struct lp_io io;
    } threads[LP_SAMPLED_THREADS];
};

/* What was moved up to a moment. */
struct lp_moved {
    struct lp_io all;     /* without the profiler's, and at the block layer without ended children's */
    struct lp_io own;     /* the profiler's, as far as it is known */
    uint32_t own_unknown; /* how often it could not be told */
    struct lp_reaped reaped;
    struct lp_threads_io threads;
};

/* The keeper's own; all zero in a new process. */
struct lp_sampler {
    bool begun;
    uint32_t sequence;
    uint64_t last_ns;     /* of the last row */
    struct lp_moved last; /* as of the last row that had I/O; its threads, if that was the last row */
    struct lp_io foreign; /* of last.all, what is not the program's own, or may not be */
    struct lp_io told;    /* as given in the last row */
    size_t n_delays;
    struct {
        uint64_t tid, ns;
    } delays[LP_DELAYED_THREADS];
    uint64_t delay_ns;
};

/* Puts one row, unless there is one of that time or later. On the keeper. */
void lp_worker_sample(struct lp_worker *worker, uint64_t now_ns);

/* The id of the deepest phase that is open in any thread, the older thread's where there are several; 0: none. Marks its
   node as one that samples name. Thread-safe. */
uint32_t lp_worker_deepest_phase(struct lp_worker *worker);

#endif
