/* Entries of phases that are asked to measure more than time. */
#include "python/module.h"

#include "worker/extras.h"

struct lpy_extras {
    struct lp_extras measured;
    bool synchronizes;
};

/* The device may have work for minutes. */
static void synchronize(void)
{
    lp_cuda_stream stream = lp_cuda_has_context() ? lpy_current_stream() : LP_CUDA_NO_STREAM;
    Py_BEGIN_ALLOW_THREADS lp_cuda_synchronize(stream);
    Py_END_ALLOW_THREADS
}

static lp_cuda_stream stream_to_time(unsigned flags)
{
    return flags & LP_WITH_GPU && lp_cuda_has_context() ? lpy_current_stream() : LP_CUDA_NO_STREAM;
}

/* An entry that a sampled phase skips, or that is inside one, is to cost nothing. */
static bool will_measure(struct lpy_phase *phase)
{
    struct lp_recorder *recorder = phase->recorder->recorder;
    struct lp_thread *thread = recorder ? lpy_thread_self(phase->recorder->state, recorder) : NULL;
    return thread && lp_record_will_measure(thread, phase->id);
}

/* While the device is waited for, other threads run, and may close the recorder. */
struct lpy_extras *lpy_extras_begin(struct lpy_phase *phase)
{
    struct lpy_extras *extras = will_measure(phase) ? PyMem_Calloc(1, sizeof *extras) : NULL;
    if (extras == NULL)
        return NULL;
    extras->synchronizes = phase->flags & LP_WITH_SYNC;
    if (extras->synchronizes)
        synchronize();
    lp_cuda_stream stream = stream_to_time(phase->flags);
    struct lp_recorder *recorder = phase->recorder->recorder;
    unsigned kinds = phase->flags;
    if (recorder == NULL || lpy_thread_self(phase->recorder->state, recorder) == NULL)
        kinds &= ~(unsigned)LP_WITH_IO;
    lp_extras_begin(&extras->measured, recorder, kinds, stream);
    return extras;
}

void lpy_extras_leave(struct lpy_phase *phase, struct lp_entry *entry, struct lpy_extras *extras)
{
    if (extras && extras->synchronizes)
        synchronize();
    struct lp_thread *thread = entry->thread;
    bool measured = thread && !(entry->frame & LP_ENTRY_SKIPPED);
    struct lp_recorder *recorder = phase->recorder->recorder;
    struct lp_node *node = recorder ? lp_extras_mark(entry, phase->flags) : NULL;
    lpy_leave(phase->recorder->state, entry);
    if (extras == NULL)
        return;
    lp_cuda_stream stream = node ? stream_to_time(phase->flags) : LP_CUDA_NO_STREAM;
    lp_extras_end(&extras->measured, measured ? recorder : NULL, thread, node, phase->flags, stream);
    PyMem_Free(extras);
}

void lpy_extras_abandon(struct lpy_extras *extras)
{
    if (extras)
        extras->synchronizes = false;
}
