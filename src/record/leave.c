/* The exits that are rare: out of order, on another thread, after a fork, at a thread's end. */
#include "record/record.h"

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* The part of [start, end] beyond the end of the parent's entry. */
static uint64_t late_part(const struct lp_frame *frame, bool has_parent, uint64_t end_ns)
{
    if (!has_parent || LP_GET(frame[-1].state) != LP_FRAME_ENDED)
        return 0;
    uint64_t from_ns = later(LP_GET(frame[-1].end_wall_ns), LP_GET(frame->start_wall_ns));
    return end_ns > from_ns ? end_ns - from_ns : 0;
}

/* The moment at which an entry ends; CPU time as its strand counts it. */
struct ending {
    uint64_t wall_ns, cpu_ns;
    bool cpu_known;
};

/* What a part of an entry stands for in one around it, with others between that may be sampled too. */
static uint64_t share_in(struct lp_node *around, const struct lp_node *inner, uint64_t from_ns, uint64_t end_ns)
{
    uint32_t stride = lp_node_stride_within(around, inner);
    if (from_ns >= end_ns)
        return 0;
    if (stride <= 1)
        return end_ns - from_ns;
    LP_SET(around->sampled_below, 1);
    return lp_share_of_sampled(stride, end_ns - from_ns);
}

static struct lp_node *node_at(const struct lp_thread *thread, const struct lp_stack *stack, uint32_t index)
{
    return lp_image_at(&thread->recorder->image, LP_GET(stack->frames[index].node));
}

/* What of an entry that ends is covered by what stays open inside of it: by the first such, once those between have ended. */
static uint64_t open_inside(const struct lp_thread *thread, const struct lp_stack *stack, uint32_t index,
                            uint64_t end_ns)
{
    uint64_t from_ns = 0;
    for (uint32_t i = index + 1; i < LP_GET(stack->depth); i++) {
        const struct lp_frame *inner = &stack->frames[i];
        if (LP_GET(inner->state) == LP_FRAME_OPEN)
            return share_in(node_at(thread, stack, index), node_at(thread, stack, i),
                            later(from_ns, LP_GET(inner->start_wall_ns)), end_ns);
        from_ns = later(from_ns, LP_GET(inner->end_wall_ns));
    }
    return 0;
}

/* What an entry that ends covers of the nearest one around it that is open still. What lies before the ends of those between
   is theirs, and was added to them, and by them, when they ended. */
static void cover_around(const struct lp_thread *thread, struct lp_stack *stack, uint32_t index, uint64_t end_ns)
{
    uint64_t from_ns = LP_GET(stack->frames[index].start_wall_ns);
    for (uint32_t i = index; i-- > 0;) {
        struct lp_frame *around = &stack->frames[i];
        if (LP_GET(around->state) == LP_FRAME_OPEN) {
            LP_ADD(around->child_wall_ns,
                   share_in(node_at(thread, stack, i), node_at(thread, stack, index), from_ns, end_ns));
            return;
        }
        from_ns = later(from_ns, LP_GET(around->end_wall_ns));
    }
}

static void add_cpu(struct lp_core *core, const struct lp_frame *frame, struct ending end, uint64_t wall_ns)
{
    if (end.cpu_known)
        LP_ADD(core->cpu_ns, end.cpu_ns - LP_GET(frame->start_cpu_ns));
    else
        LP_ADD(core->nocpu_wall_ns, wall_ns);
}

static void close_frame(struct lp_thread *thread, struct lp_stack *stack, uint32_t index, struct ending end)
{
    struct lp_frame *frame = &stack->frames[index];
    struct lp_node *node = lp_image_at(&thread->recorder->image, LP_GET(frame->node));
    uint64_t wall_ns = end.wall_ns - LP_GET(frame->start_wall_ns);
    uint64_t late_ns = late_part(frame, index > 0, end.wall_ns);
    uint64_t child_ns = LP_GET(frame->child_wall_ns) + open_inside(thread, stack, index, end.wall_ns);
    if (node->stride > 1 && (index + 1 < LP_GET(stack->depth) || LP_GET(stack->skip_serial) != 0))
        lp_image_trouble(&thread->recorder->image, LP_TROUBLE_SAMPLED_OVERLAPS);
    lp_core_begin(&node->core);
    LP_SET(frame->end_wall_ns, end.wall_ns);
    LP_SET(frame->state, LP_FRAME_ENDED);
    LP_SET(frame->serial, 0);
    LP_ADD(node->core.calls, 1);
    LP_ADD(node->core.wall_ns, wall_ns);
    add_cpu(&node->core, frame, end, wall_ns);
    LP_ADD(node->core.child_wall_ns, child_ns);
    LP_ADD(node->core.late_wall_ns, late_ns);
    lp_core_end(&node->core);
    lp_hist_add(thread, node, wall_ns);
    cover_around(thread, stack, index, end.wall_ns);
}

/* Drops ended frames from the top. */
static void settle_top(struct lp_stack *stack)
{
    uint32_t depth = LP_GET(stack->depth);
    while (depth > 0 && LP_GET(stack->frames[depth - 1].state) == LP_FRAME_ENDED)
        depth--;
    LP_SET(stack->depth, depth);
}

/* After a change behind the fast path's back. */
static void settle(struct lp_thread *thread, struct lp_strand *strand)
{
    settle_top(strand->stack);
    if (strand == thread->strand)
        lp_strand_load(thread, strand);
    else
        lp_strand_drop_if_empty(thread, strand);
}

/* Now, as the strand counts; one that does not run stands still. */
static struct ending end_now(struct lp_thread *thread, const struct lp_strand *strand)
{
    struct lp_reading now = lp_thread_read(thread, LP_EDGE_LEAVE);
    bool away = strand != thread->strand && strand != &thread->own;
    uint64_t cpu = LP_GET(strand->stack->cpu);
    return (struct ending){now.wall_ns, away ? cpu : now.cpu_ns - (cpu & ~LP_STACK_RUNS), true};
}

static struct lp_strand *strand_of(struct lp_thread *thread, lp_ref stack_ref)
{
    struct lp_strand *strand = &thread->own;
    if (stack_ref == strand->stack_ref)
        return strand;
    for (strand = thread->strands; strand && strand->stack_ref != stack_ref;)
        strand = strand->next_of_thread;
    return strand;
}

static struct lp_strand *strand_with_frame(struct lp_thread *thread, lp_ref frame, uint32_t *index)
{
    struct lp_strand *strand = &thread->own;
    for (struct lp_strand *next = thread->strands; strand; strand = next, next = next ? next->next_of_thread : NULL) {
        *index = frame - strand->stack_ref - 1;
        if (frame > strand->stack_ref && *index < LP_STACK_DEPTH)
            break;
    }
    return strand;
}

static void end_skipping(struct lp_strand *strand)
{
    LP_SET(strand->stack->skip_serial, 0);
    strand->skipped = NULL;
}

/* A thread that ends can leave no entry any more: they end with it. */
static void end_strand(struct lp_thread *thread, struct lp_strand *strand)
{
    end_skipping(strand);
    while (LP_GET(strand->stack->depth) > 0) {
        close_frame(thread, strand->stack, LP_GET(strand->stack->depth) - 1, end_now(thread, strand));
        settle_top(strand->stack);
    }
    settle(thread, strand);
}

void lp_thread_end(struct lp_thread *thread)
{
    lp_thread_reap(thread);
    lp_thread_run(thread, &thread->own);
    for (struct lp_strand *strand = thread->strands; strand; strand = strand->next_of_thread)
        if (strand->task)
            end_strand(thread, strand);
    end_strand(thread, &thread->own);
    LP_SET(thread->slot->alive, 0);
}

/* ---- exits on other threads --------------------------------------------------------- */

static bool is_posted(const struct lp_frame *frame)
{
    uint64_t serial = LP_GET(frame->serial);
    return serial != 0 && atomic_load_explicit(&frame->posted_serial, memory_order_acquire) == serial;
}

/* The posted entry that ended first; the stack's depth if there is none. */
static uint32_t first_posted(const struct lp_stack *stack)
{
    uint32_t depth = LP_GET(stack->depth), first = depth;
    for (uint32_t i = 0; i < depth; i++)
        if (is_posted(&stack->frames[i]) &&
            (first == depth || LP_GET(stack->frames[i].posted_wall_ns) < LP_GET(stack->frames[first].posted_wall_ns)))
            first = i;
    return first;
}

/* When a posted entry ended. A boundary of its own thread that met the post half way may have ended a child after that:
   then both ended with the child. */
static uint64_t posted_end_ns(const struct lp_thread *thread, const struct lp_frame *frame)
{
    const struct lp_node *node = lp_image_at(&thread->recorder->image, LP_GET(frame->node));
    uint64_t start_ns = LP_GET(frame->start_wall_ns), end_ns = LP_GET(frame->posted_wall_ns);
    uint64_t least_ns = start_ns + (LP_GET(node->sampled_below) ? 0 : LP_GET(frame->child_wall_ns));
    return end_ns > least_ns ? end_ns : least_ns;
}

static void reap_strand(struct lp_thread *thread, struct lp_strand *strand)
{
    struct lp_stack *stack = strand->stack;
    uint64_t skipped = LP_GET(stack->skip_serial);
    if (skipped != 0 && LP_GET(stack->posted_serial) == skipped)
        end_skipping(strand);
    for (uint32_t i = first_posted(stack); i < LP_GET(stack->depth); i = first_posted(stack)) {
        lp_thread_unbill(thread, stack, i);
        close_frame(thread, stack, i, (struct ending){.wall_ns = posted_end_ns(thread, &stack->frames[i])});
        settle_top(stack);
    }
    settle(thread, strand);
}

void lp_thread_reap(struct lp_thread *thread)
{
    for (struct lp_strand *strand = thread->strands; strand; strand = strand->next_of_thread)
        if (strand->task)
            reap_strand(thread, strand);
    reap_strand(thread, &thread->own);
}

/* With the recorder's lock held, against others who post. False: the entry is no longer there. */
static bool post_locked(struct lp_thread *thread, const struct lp_entry *entry, uint64_t wall_ns)
{
    struct lp_image *image = &thread->recorder->image;
    if (thread->owner == 0 || thread->generation != thread->recorder->generation)
        return false;
    if (entry->frame & LP_ENTRY_SKIPPED) {
        struct lp_stack *stack = lp_image_at(image, entry->frame & ~LP_ENTRY_SKIPPED);
        if (LP_GET(stack->skip_serial) != entry->serial || LP_GET(stack->posted_serial) == entry->serial)
            return false;
        LP_SET(stack->posted_serial, entry->serial);
    } else {
        struct lp_frame *frame = lp_image_at(image, entry->frame);
        if (LP_GET(frame->serial) != entry->serial || LP_GET(frame->posted_serial) == entry->serial)
            return false;
        LP_SET(frame->posted_wall_ns, wall_ns);
        atomic_store_explicit(&frame->posted_serial, entry->serial, memory_order_release);
    }
    thread->posted++;
    return true;
}

static void post(struct lp_thread *thread, const struct lp_entry *entry)
{
    struct lp_recorder *recorder = thread->recorder;
    uint64_t wall_ns = lp_wall_ns();
    pthread_mutex_lock(&recorder->lock);
    bool posted = post_locked(thread, entry, wall_ns);
    pthread_mutex_unlock(&recorder->lock);
    lp_image_trouble(&recorder->image, posted ? LP_TROUBLE_FOREIGN_EXITS : LP_TROUBLE_LOST_EXITS);
    if (posted)
        lp_recorder_touch(recorder);
}

/* ---- on the entry's own thread ------------------------------------------------------ */

/* False: the entry is no longer there. */
static bool leave_skipped(struct lp_thread *thread, const struct lp_entry *entry)
{
    struct lp_strand *strand = thread->strand;
    lp_ref stack_ref = entry->frame & ~LP_ENTRY_SKIPPED;
    if (strand->stack_ref != stack_ref)
        strand = strand_of(thread, stack_ref);
    if (!strand || LP_GET(strand->stack->skip_serial) != entry->serial)
        return false;
    end_skipping(strand);
    settle(thread, strand);
    return true;
}

static bool leave_out_of_order(struct lp_thread *thread, const struct lp_entry *entry)
{
    uint32_t index;
    struct lp_strand *strand = strand_with_frame(thread, entry->frame, &index);
    if (!strand || index >= LP_GET(strand->stack->depth) ||
        LP_GET(strand->stack->frames[index].serial) != entry->serial)
        return false;
    close_frame(thread, strand->stack, index, end_now(thread, strand));
    settle(thread, strand);
    return true;
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
        post(thread, entry);
        return;
    }
    bool left = entry->frame & LP_ENTRY_SKIPPED ? leave_skipped(thread, entry) : leave_out_of_order(thread, entry);
    if (!left)
        lp_image_trouble(&recorder->image, LP_TROUBLE_LOST_EXITS);
}

struct lp_node *lp_record_node(const struct lp_entry *entry)
{
    struct lp_thread *thread = entry->thread;
    if (!thread || entry->frame & LP_ENTRY_SKIPPED || !LP_GET(*lp_fork_word) || !lp_thread_is_mine(thread) ||
        thread->generation != thread->recorder->generation)
        return NULL;
    const struct lp_frame *frame = lp_image_at(&thread->recorder->image, entry->frame);
    return LP_GET(frame->serial) == entry->serial ? lp_image_at(&thread->recorder->image, LP_GET(frame->node)) : NULL;
}
