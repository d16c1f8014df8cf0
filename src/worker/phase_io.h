/*
 * worker/phase_io: bytes that a thread moves between entering and leaving a phase.
 *
 * They are the thread's own, as the kernel counts them for it: what other threads move meanwhile is theirs, and what a
 * child has moved is not added when it is waited for. Our own readings are left out. Figures are counters of the phase:
 * io_read_bytes, io_write_bytes (block layer), io_read_chars, io_write_chars (system calls).
 */
#ifndef LP_WORKER_PHASE_IO_H
#define LP_WORKER_PHASE_IO_H

#include "process/io.h"
#include "record/record.h"

struct lp_phase_io {
    struct lp_io before;
    uint64_t own_chars; /* of this thread, by our readings so far */
    uint64_t thread;    /* lp_thread_id */
    size_t cost_chars;  /* 0: it could not be read */
};

/* Just before the phase is entered. */
void lp_phase_io_begin(struct lp_recorder *recorder, struct lp_phase_io *io);
/* Just after it is left. node: of the entry, on the calling thread's side, as lp_record_node told before; NULL if it was
   not measured here. */
void lp_phase_io_end(struct lp_recorder *recorder, const struct lp_phase_io *io, struct lp_thread *thread,
                     struct lp_node *node);

#endif
