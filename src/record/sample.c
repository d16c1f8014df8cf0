/* Sampled phases: one entry in so many is measured, and inside the others nothing is. */
#include "record/record.h"

uint64_t lp_share_of_sampled(uint32_t stride, uint64_t wall_ns)
{
    uint64_t share_ns;
    if (__builtin_mul_overflow(wall_ns, stride, &share_ns) || share_ns > LP_SHARE_LIMIT_NS)
        return LP_SHARE_LIMIT_NS;
    return share_ns;
}

static void skip(struct lp_thread *thread, struct lp_node *node, lp_phase_id below, struct lp_entry *entry)
{
    entry->thread = thread;
    entry->serial = ++thread->serial;
    entry->frame = thread->stack_ref | LP_ENTRY_SKIPPED;
    LP_SET(thread->stack->skip_serial, entry->serial);
    thread->strand->skipped = node;
    thread->strand->skipped_below = below;
    thread->depth |= LP_SKIPPING;
    thread->node = &thread->nowhere;
}

/* Whether a sampled entry has ended inside of which something is open still. It stands for others of its phase, but what
   is entered after its end does not: after theirs nothing was skipped any more, and it was entered elsewhere. */
static bool is_in_a_sampled_that_ended(const struct lp_thread *thread)
{
    if (LP_GET(thread->node->core.stride) <= 1)
        return false;
    for (uint32_t i = 0; i < thread->depth; i++) {
        const struct lp_frame *frame = &thread->stack->frames[i];
        const struct lp_node *node = lp_image_at(&thread->recorder->image, LP_GET(frame->node));
        if (LP_GET(frame->state) == LP_FRAME_ENDED && node->stride > 1)
            return true;
    }
    return false;
}

bool lp_record_may_be_due(struct lp_thread *thread, lp_phase_id phase, struct lp_entry *entry)
{
    if (!is_in_a_sampled_that_ended(thread))
        return true;
    skip(thread, thread->node, phase, entry);
    return false;
}

bool lp_record_is_due(struct lp_thread *thread, struct lp_node *node, struct lp_entry *entry)
{
    if (node->until_due == 0) {
        node->until_due = node->stride - 1;
        return true;
    }
    node->until_due--;
    skip(thread, node, LP_NAME_NONE, entry);
    return false;
}

bool lp_record_will_measure(struct lp_thread *thread, lp_phase_id phase)
{
    if (thread->depth & LP_SKIPPING)
        return false;
    if (phase <= LP_NAME_MASK)
        return true;
    if (is_in_a_sampled_that_ended(thread))
        return false;
    const struct lp_node *node = lp_thread_child(thread, thread->node, phase);
    return node && node->until_due == 0;
}

/* Skipped entries are cheap at both ends: the usual one is the last that the running strand met. */
void lp_record_leave_skipped(struct lp_entry *entry)
{
    struct lp_thread *thread = entry->thread;
    if (LP_UNLIKELY(thread != lp_thread_cache.thread || lp_thread_cache.key != LP_GET(thread->recorder->key) ||
                    entry->frame != (thread->stack_ref | LP_ENTRY_SKIPPED) ||
                    LP_GET(thread->stack->skip_serial) != entry->serial || !LP_GET(*lp_fork_word))) {
        lp_record_leave_slow(entry);
        return;
    }
    entry->thread = NULL;
    LP_SET(thread->stack->skip_serial, 0);
    thread->strand->skipped = NULL;
    thread->depth &= ~LP_SKIPPING;
    thread->node = lp_strand_node(thread, thread->stack);
}
