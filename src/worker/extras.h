/*
 * worker/extras: what an entry measures besides time.
 *
 * Begun just before the entry is opened, ended just after it is left. Waiting for a device is the caller's: it knows what
 * it holds meanwhile.
 */
#ifndef LP_WORKER_EXTRAS_H
#define LP_WORKER_EXTRAS_H

#include "worker/device_time.h"
#include "worker/phase_io.h"

enum lp_extra_kinds { LP_WITH_IO = 1, LP_WITH_SYNC = 2, LP_WITH_GPU = 4, LP_WITH_ASYNC_WORK = 8 };

struct lp_extras {
    struct lp_phase_io io;
    struct lp_device_time *device_time; /* Owned; may be NULL. */
};

/* stream: the one that is current, or LP_CUDA_NO_STREAM. The calling thread has a side of the recorder. */
void lp_extras_begin(struct lp_extras *extras, struct lp_recorder *recorder, unsigned kinds, lp_cuda_stream stream);
/* Just before it is left: its node, with what is to be said of it; NULL if nothing was measured here. */
struct lp_node *lp_extras_mark(const struct lp_entry *entry, unsigned kinds);
/* recorder: NULL if the entry was not measured. thread: the entry's; node: as lp_extras_mark told. */
void lp_extras_end(struct lp_extras *extras, struct lp_recorder *recorder, struct lp_thread *thread,
                   struct lp_node *node, unsigned kinds, lp_cuda_stream stream);

#endif
