#include "worker/extras.h"

void lp_extras_begin(struct lp_extras *extras, struct lp_recorder *recorder, unsigned kinds, lp_cuda_stream stream)
{
    extras->device_time = NULL;
    if (kinds & LP_WITH_GPU) {
        lp_device_time_collect(false);
        extras->device_time = lp_device_time_begin(stream);
    }
    if (kinds & LP_WITH_IO)
        lp_phase_io_begin(recorder, &extras->io);
}

struct lp_node *lp_extras_mark(const struct lp_entry *entry, unsigned kinds)
{
    struct lp_node *node = lp_record_node(entry);
    uint32_t marks = (kinds & LP_WITH_GPU ? (uint32_t)LP_EXTRA_GPU : 0) |
                     (kinds & LP_WITH_ASYNC_WORK ? (uint32_t)LP_EXTRA_ASYNC_WORK : 0);
    if (node && marks)
        lp_node_mark(entry->thread, node, marks);
    return node;
}

void lp_extras_end(struct lp_extras *extras, struct lp_recorder *recorder, struct lp_thread *thread,
                   struct lp_node *node, unsigned kinds, lp_cuda_stream stream)
{
    if (!recorder)
        node = NULL;
    if (recorder && kinds & LP_WITH_IO)
        lp_phase_io_end(recorder, &extras->io, thread, node);
    if (extras->device_time)
        lp_device_time_end(extras->device_time, recorder, node, node ? stream : LP_CUDA_NO_STREAM);
}
