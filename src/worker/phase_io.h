/*
 * worker/phase_io: bytes that a thread moves between entering and leaving a phase.
 *
 * They are the thread's own, as the kernel counts them for it: what other threads move meanwhile is theirs, and what a
 * child has moved is not added when it is waited for. What the profiler moves on it is left out. Figures are counters of the
 * phase:
 * io_read_bytes, io_write_bytes (block layer), io_read_chars, io_write_chars (system calls).
 */
#ifndef LP_WORKER_PHASE_IO_H
#define LP_WORKER_PHASE_IO_H

#include "record/record.h"
#include "worker/own_io.h"

struct lp_phase_io {
    struct lp_io before;
    struct lp_own_io_so_far own; /* just before that was read */
    uint64_t thread;             /* lp_thread_id */
    bool is_known;               /* whether it could be read */
};

/* Just before the phase is entered. */
void lp_phase_io_begin(struct lp_recorder *recorder, struct lp_phase_io *io);
/* Just after it is left. node: of the entry, on the calling thread's side, as lp_record_node told before; NULL if it was
   not measured here. */
void lp_phase_io_end(struct lp_recorder *recorder, const struct lp_phase_io *io, struct lp_thread *thread,
                     struct lp_node *node);

#endif
