/* The exits that are rare: out of order, on another thread, after a fork, at a thread's end. */
#include "record/record.h"

/* The part of [start, end] beyond the end of the parent's entry. */
static uint64_t late_part(const struct lp_frame *frame, bool has_parent, uint64_t end_ns)
{
    if (!has_parent || LP_GET(frame[-1].state) != LP_FRAME_ENDED)
        return 0;
    uint64_t from = LP_GET(frame[-1].end_wall_ns), start = LP_GET(frame->start_wall_ns);
    from = from > start ? from : start;
    return end_ns > from ? end_ns - from : 0;
}

static void close_frame(struct lp_thread *thread, uint32_t index, struct lp_reading now)
{
    struct lp_frame *frame = &thread->stack->frames[index];
    struct lp_node *node = lp_image_at(&thread->recorder->image, LP_GET(frame->node));
    uint64_t wall_ns = now.wall_ns - LP_GET(frame->start_wall_ns);
    uint64_t late_ns = late_part(frame, index > 0, now.wall_ns);
    uint64_t child_ns = LP_GET(frame->child_wall_ns);
    if (index + 1 < thread->depth && LP_GET(frame[1].state) == LP_FRAME_OPEN)
        child_ns += now.wall_ns - LP_GET(frame[1].start_wall_ns);
    lp_core_begin(&node->core);
    LP_SET(frame->end_wall_ns, now.wall_ns);
    LP_SET(frame->state, LP_FRAME_ENDED);
    LP_SET(frame->serial, 0);
    LP_ADD(node->core.calls, 1);
    LP_ADD(node->core.wall_ns, wall_ns);
    LP_ADD(node->core.cpu_ns, now.cpu_ns - LP_GET(frame->start_cpu_ns));
    LP_ADD(node->core.child_wall_ns, child_ns);
    LP_ADD(node->core.late_wall_ns, late_ns);
    lp_core_end(&node->core);
    lp_hist_add(thread, node, wall_ns);
    if (index > 0 && LP_GET(frame[-1].state) == LP_FRAME_OPEN)
        LP_ADD(frame[-1].child_wall_ns, wall_ns);
}

/* Drops ended frames from the top and finds the node that is now innermost. */
static void settle_top(struct lp_thread *thread)
{
    struct lp_frame *frames = thread->stack->frames;
    while (thread->depth > 0 && LP_GET(frames[thread->depth - 1].state) == LP_FRAME_ENDED)
        thread->depth--;
    LP_SET(thread->stack->depth, thread->depth);
    thread->node = thread->root;
    if (thread->depth > 0)
        thread->node = lp_image_at(&thread->recorder->image, LP_GET(frames[thread->depth - 1].node));
}

/* A thread that ends can leave no entry any more: they end with it. */
void lp_thread_end(struct lp_thread *thread)
{
    while (thread->depth > 0) {
        close_frame(thread, thread->depth - 1, lp_thread_read(thread, LP_EDGE_LEAVE));
        settle_top(thread);
    }
    LP_SET(thread->slot->alive, 0);
}

void lp_record_leave_slow(struct lp_entry *entry)
{
    struct lp_thread *thread = entry->thread;
    struct lp_recorder *recorder = thread->recorder;
    entry->thread = NULL;
    if (atomic_load(&recorder->key) == 0 || thread->generation != recorder->generation || !thread->slot ||
        !atomic_load_explicit(lp_fork_word, memory_order_relaxed))
        return; /* closed meanwhile, or opened before a fork */
    if (entry->serial <= thread->first_serial)
        return; /* opened before a fork, by a thread whose side of the recorder another has taken over */
    bool mine = lp_thread_cache.thread == thread || lp_thread_is_mine(thread);
    if (!mine || lp_thread_self(recorder) != thread) {
        lp_image_trouble(&recorder->image, LP_TROUBLE_FOREIGN_EXITS);
        return;
    }
    if (entry->frame >= thread->depth || LP_GET(thread->stack->frames[entry->frame].serial) != entry->serial) {
        lp_image_trouble(&recorder->image, LP_TROUBLE_LOST_EXITS);
        return;
    }
    close_frame(thread, entry->frame, lp_thread_read(thread, LP_EDGE_LEAVE));
    settle_top(thread);
}
