/*
 * where: what every worker of a run is doing now.
 *
 * Workers of this machine that live are looked at twice: in their images (worker/stacks.h), and in /proc, where two looks
 * at least 30 ms apart tell a thread that works from one that waits. Workers of other nodes are as their newest files
 * say; how old those are is by two clocks that need not agree, and no file's mtime is asked. What dead workers have left
 * in shared memory is adopted first, as for a report.
 *
 * A run directory whose file server does not answer, which may be just why a run hangs, is given up after a few seconds:
 * then there are the living of this machine alone.
 *
 * Must not know: how it is shown.
 */
#ifndef LP_RUN_WHERE_H
#define LP_RUN_WHERE_H

#include "run/run.h"
#include "worker/stacks.h"

/* NOT_KNOWN: the worker is of another pid namespace, or /proc does not tell. Without a share of CPU time, ON_CPU is
   what the kernel calls runnable. */
enum lp_where_state {
    LP_WHERE_NOT_KNOWN,
    LP_WHERE_ON_CPU,   /* for three quarters of the time between the looks, or more */
    LP_WHERE_PARTLY,   /* for less, and a quarter or more */
    LP_WHERE_RUNNABLE, /* ready both times, but had no core for most of the time */
    LP_WHERE_WAITING,
    LP_WHERE_BLOCKED, /* waits and cannot be killed: for a disk, a network file system, a driver */
    LP_WHERE_STOPPED, /* by a signal, or a debugger */
    LP_WHERE_ENDED
};

struct lp_where_thread {
    struct lp_stacks_thread open; /* Its memory is the worker's. */
    enum lp_where_state state;
    char kernel_state;     /* its letter in /proc; 0: not known */
    char wait_channel[48]; /* the kernel function in which it sleeps; "": none, or not known */
    double cpu_share;      /* of the time between the looks; NaN: not known */
};

/* A worker that lives on this machine. */
struct lp_where_worker {
    struct lp_stacks stacks;         /* Owned, but for its threads, which are below. */
    struct lp_where_thread *threads; /* Owned. */
    size_t n_threads;
    bool of_run; /* its run id is that of the run */
};

/* A worker of which only the run knows. */
struct lp_where_other {
    const struct lp_run_worker *worker; /* Borrowed from the run. */
    uint64_t age_ns;                    /* of its newest file, or last sign of life */
    bool same_clock;                    /* the same boot of the same machine wrote it: age_ns is exact */
    bool ahead;                         /* it was written age_ns in the future, by its node's clock */
};

struct lp_where {
    char *dir;             /* Owned; as given */
    bool run_dir_late;     /* it did not answer: those that live here are all that is known, by their images' path */
    struct lp_text run_id; /* Owned. */
    uint64_t now_realtime_ns;
    struct lp_where_worker *workers; /* Owned; sorted by role, rank, index, pid. */
    size_t n_workers;
    /* Owned; sorted by host, rank, index, start: not known to have ended, but their images are not to be seen. They are
       on other nodes, or in containers of their own. */
    struct lp_where_other *elsewhere;
    size_t n_elsewhere;
    struct lp_where_other *ended; /* Owned; without close, the last one first. */
    size_t n_ended;
    size_t n_closed;
    size_t n_all;       /* workers of the run: n_closed, n_ended, n_elsewhere, and those of workers that are of_run */
    size_t n_closing;   /* of workers: they write their last files */
    size_t n_partial;   /* of workers: they have gone on in private memory */
    struct lp_run *run; /* Owned; NULL: there are live workers, and nothing else is readable. */
};

/* 0 or an enum lp_run_status, as lp_run_load; progress may be NULL. */
int lp_where_load(struct lp_where **where, const char *dir, void (*progress)(void *context, size_t done, size_t total),
                  void *progress_context, char *message, size_t message_size);
void lp_where_free(struct lp_where *where);

#endif
