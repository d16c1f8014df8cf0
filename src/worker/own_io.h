/*
 * worker/own_io: bytes that the profiler itself moves in this process, so that no figure bills them to the program.
 *
 * Each worker's file tells its own; whoever measures the process asks for those of all workers together, since the
 * kernel's counters have them all, and for what was read in passing (base/own_reads.h). What is under way is asked of the
 * thread that is at it, for a flush to a slow file server may take longer than the interval between two samples.
 * Async-signal-safe.
 *
 * Must not know: who measures.
 */
#ifndef LP_WORKER_OWN_IO_H
#define LP_WORKER_OWN_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"
#include "process/io.h"

struct lp_worker;

/* Something that the profiler does on one thread. */
struct lp_own_io {
    struct lp_io before;
    uint64_t read_in_passing;
    size_t cost_chars; /* of telling it; 0: not known */
    int place;         /* where others see it; negative: nowhere */
};

/* What is moved between the two on this thread is added to the worker's own I/O; without a worker (NULL) to that of the
   process alone. */
struct lp_own_io lp_own_io_begin(void);
void lp_own_io_end(struct lp_worker *worker, const struct lp_own_io *own);
/* Around one reading of /proc; read_chars: what it moved. Until that is known it counts for a little more, so that no
   other thread can take it for the program's. header: of a worker that is to tell it, or NULL. */
void lp_own_io_reading(void);
void lp_own_io_was_read(struct lp_header *header, size_t read_chars);
/* Adds to the worker's own alone what was moved without one; NULL: that is not known. */
void lp_own_io_tell(struct lp_worker *worker, const struct lp_io *moved);

/* Of the calling thread alone, all that was ended. */
struct lp_own_io_so_far {
    struct lp_io moved;
    uint64_t unknown; /* how often it could not be told */
};
struct lp_own_io_so_far lp_own_io_of_thread(void);

/* Of all workers of this process. */
struct lp_own_io_sum {
    struct lp_io moved;
    struct lp_io by_program; /* of that, on threads that are not apart (base/own_reads.h) */
    uint32_t unknown;        /* how often it could not be told */
    /* What was under way, and when, to see whether that has changed. */
    struct lp_io under_way;
    uint64_t begun, ended;
};

/* Up to now; false if what is under way cannot be told. Its own readings are added to the header's. */
bool lp_own_io_sum(struct lp_own_io_sum *sum, struct lp_header *header);
/* Whether nothing was moved between the two but by such readings. */
bool lp_own_io_rested(const struct lp_own_io_sum *before, const struct lp_own_io_sum *after);

/* In a forked child, whose counters begin at 0. */
void lp_own_io_after_fork(void);

#endif
