/* Entries of phases that are asked to measure more than time. */
#include "python/module.h"

#include "worker/device_time.h"
#include "worker/phase_io.h"

struct lpy_extras {
    struct lp_phase_io io;
    struct lp_device_time *device_time; /* Owned; may be NULL. */
    bool synchronizes;
};

/* The device may have work for minutes. */
static void synchronize(void)
{
    lp_cuda_stream stream = lp_cuda_has_context() ? lpy_current_stream() : LP_CUDA_NO_STREAM;
    Py_BEGIN_ALLOW_THREADS lp_cuda_synchronize(stream);
    Py_END_ALLOW_THREADS
}

static lp_cuda_stream stream_to_time(void)
{
    return lp_cuda_has_context() ? lpy_current_stream() : LP_CUDA_NO_STREAM;
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
    extras->synchronizes = phase->flags & LPY_WITH_SYNC;
    if (extras->synchronizes)
        synchronize();
    if (phase->flags & LPY_WITH_GPU) {
        lp_device_time_collect(false);
        extras->device_time = lp_device_time_begin(stream_to_time());
    }
    struct lp_recorder *recorder = phase->recorder->recorder;
    if (recorder && phase->flags & LPY_WITH_IO && lpy_thread_self(phase->recorder->state, recorder))
        lp_phase_io_begin(recorder, &extras->io);
    return extras;
}

static void mark(struct lp_thread *thread, struct lp_node *node, unsigned flags)
{
    uint32_t marks = (flags & LPY_WITH_GPU ? (uint32_t)LP_EXTRA_GPU : 0) |
                     (flags & LPY_WITH_ASYNC_WORK ? (uint32_t)LP_EXTRA_ASYNC_WORK : 0);
    if (marks)
        lp_node_mark(thread, node, marks);
}

void lpy_extras_leave(struct lpy_phase *phase, struct lp_entry *entry, struct lpy_extras *extras)
{
    if (extras && extras->synchronizes)
        synchronize();
    struct lp_thread *thread = entry->thread;
    bool measured = thread && !(entry->frame & LP_ENTRY_SKIPPED);
    struct lp_recorder *recorder = phase->recorder->recorder;
    struct lp_node *node = recorder ? lp_record_node(entry) : NULL;
    if (node)
        mark(thread, node, phase->flags);
    lpy_leave(phase->recorder->state, entry);
    if (extras == NULL)
        return;
    if (measured && recorder && phase->flags & LPY_WITH_IO)
        lp_phase_io_end(recorder, &extras->io, thread, node);
    if (extras->device_time)
        lp_device_time_end(extras->device_time, recorder, node, node ? stream_to_time() : LP_CUDA_NO_STREAM);
    PyMem_Free(extras);
}

void lpy_extras_abandon(struct lpy_extras *extras)
{
    if (extras)
        extras->synchronizes = false;
}
