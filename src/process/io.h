/*
 * process/io: bytes that a thread has moved, as the kernel counts them (proc(5), /proc/pid/io).
 *
 * chars are those of system calls, also where the page cache served them; bytes are those of the block layer.
 * Must not know: phases.
 */
#ifndef LP_PROCESS_IO_H
#define LP_PROCESS_IO_H

#include <stdbool.h>
#include <stdint.h>

struct lp_io {
    uint64_t read_chars, write_chars, read_bytes, write_bytes;
};

/* What the calling thread has moved so far; false if /proc does not tell. Async-signal-safe. */
bool lp_io_of_thread(struct lp_io *io);

#endif
