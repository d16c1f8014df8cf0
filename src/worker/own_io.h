/*
 * worker/own_io: bytes that the profiler itself moves in this process, so that no figure bills them to the program.
 *
 * Each worker's file tells its own; whoever measures the process asks for those of all workers together, since the
 * kernel's counters have them all. Async-signal-safe.
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

struct lp_own_io {
    struct lp_io before;
    size_t cost_chars; /* of telling it; 0: not known */
};

/* What is moved between the two on this thread is added to the worker's own I/O. */
struct lp_own_io lp_own_io_begin(void);
void lp_own_io_end(struct lp_worker *worker, const struct lp_own_io *own);
/* The same for one reading of /proc, whose chars are known. */
void lp_own_io_add(struct lp_header *header, size_t read_chars);

/* Of all workers of this process, as far as it was told. */
struct lp_own_io_sum {
    struct lp_io moved;
    uint32_t unknown; /* how often it could not be told */
};
struct lp_own_io_sum lp_own_io_sum(void);

/* Asked before and after something: whether no thread was between begin and end at any moment in between. */
uint64_t lp_own_io_ended(void);
bool lp_own_io_rested(uint64_t ended);

/* In a forked child, whose counters begin at 0. */
void lp_own_io_after_fork(void);

#endif
