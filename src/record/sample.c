/* Sampled phases: one entry in so many is measured, and inside the others nothing is. */
#include "record/record.h"

bool lp_record_is_due(struct lp_thread *thread, struct lp_node *node, struct lp_entry *entry)
{
    if (node->until_due == 0) {
        node->until_due = node->stride - 1;
        return true;
    }
    node->until_due--;
    entry->thread = thread;
    entry->serial = ++thread->serial;
    entry->frame = thread->stack_ref | LP_ENTRY_SKIPPED;
    LP_SET(thread->stack->skip_serial, entry->serial);
    thread->strand->skipped = node;
    thread->depth |= LP_SKIPPING;
    thread->node = &thread->nowhere;
    return false;
}
