/* Entries of phases that are asked to measure more than time. */
#include "python/module.h"

#include "worker/phase_io.h"

struct lpy_extras {
    struct lp_phase_io io;
};

struct lpy_extras *lpy_extras_begin(struct lpy_phase *phase)
{
    struct lp_recorder *recorder = phase->recorder->recorder;
    struct lpy_extras *extras = recorder ? PyMem_Calloc(1, sizeof *extras) : NULL;
    if (extras && phase->flags & LPY_WITH_IO && lpy_thread_self(phase->recorder->state, recorder))
        lp_phase_io_begin(recorder, &extras->io);
    return extras;
}

void lpy_extras_leave(struct lpy_phase *phase, struct lp_entry *entry, struct lpy_extras *extras)
{
    struct lp_thread *thread = entry->thread;
    bool measured = thread && !(entry->frame & LP_ENTRY_SKIPPED);
    struct lp_recorder *recorder = phase->recorder->recorder;
    struct lp_node *node = lp_record_node(entry);
    lpy_leave(phase->recorder->state, entry);
    if (measured && recorder && extras && phase->flags & LPY_WITH_IO)
        lp_phase_io_end(recorder, &extras->io, thread, node);
    PyMem_Free(extras);
}
