/*
 * Why entries waited. The clock tells it while it reads (clock/wait.h), of the time since it told last, and each entry that
 * was open all that time has it added to its node: figures are inclusive, like wall and CPU time. So a boundary pays nothing
 * for it, and entries that are still open have theirs already.
 *
 * Not measured, and so in nobody's figures: what is told in one sum with times before the entry began; the time of a task
 * while others run; all of an entry that another thread ended.
 */
#include "record/record.h"

static void add(struct lp_extra *extra, uint64_t blocked_ns, uint64_t preempted_ns)
{
    LP_SET(extra->begun, LP_GET(extra->begun) + 1);
    LP_FENCE(memory_order_release);
    LP_ADD(extra->blocked_ns, blocked_ns);
    LP_ADD(extra->preempted_ns, preempted_ns);
    atomic_store_explicit(&extra->done, LP_GET(extra->begun), memory_order_release);
    LP_SET(extra->flags, LP_GET(extra->flags) | LP_EXTRA_WAIT);
}

static void bill(struct lp_thread *thread, const struct lp_frame *frame, struct lp_billed *billed,
                 const struct lp_wait_split *split)
{
    struct lp_node *node = lp_image_at(&thread->recorder->image, LP_GET(frame->node));
    struct lp_extra *extra = lp_record_get_or_make(&thread->recorder->image, &node->extra, sizeof *extra);
    if (!extra)
        return;
    if (LP_GET(billed->serial) != LP_GET(frame->serial)) {
        LP_SET(billed->blocked_ns, 0);
        LP_SET(billed->preempted_ns, 0);
        atomic_store_explicit(&billed->serial, LP_GET(frame->serial), memory_order_release);
    }
    add(extra, split->blocked_ns, split->preempted_ns);
    LP_ADD(billed->blocked_ns, split->blocked_ns);
    LP_ADD(billed->preempted_ns, split->preempted_ns);
}

/* An entry that is being opened has no serial yet. */
static void bill_stack(struct lp_thread *thread, struct lp_stack *stack, const struct lp_wait_split *split)
{
    uint64_t last = split->put_off ? thread->put_off_serial : UINT64_MAX;
    uint32_t depth = LP_GET(stack->depth);
    struct lp_billed *billed = depth ? lp_record_get_or_make(&thread->recorder->image, &stack->billed,
                                                             LP_STACK_DEPTH * sizeof(struct lp_billed))
                                     : NULL;
    for (uint32_t i = 0; billed && i < depth; i++) {
        const struct lp_frame *frame = &stack->frames[i];
        uint64_t serial = LP_GET(frame->serial);
        if (serial != 0 && serial <= last && LP_GET(frame->posted_serial) != serial)
            bill(thread, frame, &billed[i], split);
    }
}

/* The greatest serial that an open entry may have. One that is being opened bears none yet: it will be the last. */
static uint64_t last_open(const struct lp_thread *thread)
{
    const struct lp_stack *stack = thread->strand->stack;
    uint32_t depth = LP_GET(stack->depth);
    bool opening = depth > 0 && LP_GET(stack->frames[depth - 1].serial) == 0;
    return thread->serial - opening;
}

/* The thread's own strand spans the tasks that run inside; these may have taken turns while it was put off. */
static void told(void *context, const struct lp_wait_split *split)
{
    struct lp_thread *thread = context;
    if (split->begins_put_off) {
        thread->put_off_serial = last_open(thread);
        return;
    }
    bill_stack(thread, thread->own.stack, split);
    if (thread->strand != &thread->own && !split->put_off && !thread->runs_unknown)
        bill_stack(thread, thread->strand->stack, split);
}

void lp_thread_ask_waits(struct lp_thread *thread)
{
    struct lp_slot *slot = thread->slot;
    if (!thread->recorder->wait_detail || !thread->recorder->measure_cpu)
        return;
    uint32_t source = (uint32_t)lp_wait_begin(&thread->wait, told, thread);
    if (source > LP_GET(slot->wait_source))
        LP_SET(slot->wait_source, source);
    if (source != LP_WAIT_OFF)
        thread->cpu.wait = &thread->wait;
}

void lp_thread_unbill(struct lp_thread *thread, struct lp_stack *stack, uint32_t index)
{
    const struct lp_image *image = &thread->recorder->image;
    const struct lp_frame *frame = &stack->frames[index];
    lp_ref ref = LP_GET(stack->billed);
    const struct lp_billed *billed = ref ? (struct lp_billed *)lp_image_at(image, ref) + index : NULL;
    if (!billed || LP_GET(billed->serial) != LP_GET(frame->serial))
        return;
    const struct lp_node *node = lp_image_at(image, LP_GET(frame->node));
    add(lp_image_at(image, LP_GET(node->extra)), 0 - LP_GET(billed->blocked_ns), 0 - LP_GET(billed->preempted_ns));
}
