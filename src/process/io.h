/*
 * process/io: bytes that were moved, as the kernel counts them (proc(5), /proc/pid/io).
 *
 * chars are those of system calls, also where the page cache served them; bytes are those of the block layer. A process's
 * counters are those of its threads, also of ended ones, and grow by all that a child has moved at the moment when the
 * child is waited for. A thread's are its own. Reading them moves some chars itself, which the next reading has in it.
 *
 * Must not know: phases.
 */
#ifndef LP_PROCESS_IO_H
#define LP_PROCESS_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lp_io {
    uint64_t read_chars, write_chars, read_bytes, write_bytes;
};

/* What ended children that were waited for have used, by getrusage(2). bytes are rounded down to 512 for each thread of
   theirs. */
struct lp_reaped {
    uint64_t work; /* changes with every child */
    uint64_t read_bytes, write_bytes;
};

/* What has been moved so far; returns the chars that this reading itself moved, 0 if /proc does not tell.
   Async-signal-safe, all of them. */
size_t lp_io_of_thread(struct lp_io *io); /* the calling one */
size_t lp_io_of_task(struct lp_io *io, uint64_t tid);
size_t lp_io_of_process(struct lp_io *io);
/* By which number /proc lists the calling thread: one mounted for another pid namespace has numbers of its own. */
uint64_t lp_task_of_self(void);

bool lp_reaped_read(struct lp_reaped *reaped);

#endif
