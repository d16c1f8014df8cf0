#include "worker/document.h"

#include <sys/wait.h>

#include "clock/cpu.h"
#include "process/other.h"
#include "worker/internal.h"
#include "worker/samples.h"

#define HIST_TRIES 4
#define STACKS_BUDGET ((size_t)1 << 26) /* readings of a stack in one document */
#define FRAMES_BUDGET ((size_t)1 << 24) /* readings of an open entry */
#define FRAME_READINGS 64               /* of each open entry */

#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

static const char *const trouble_names[LP_TROUBLE_KINDS] = {
    [LP_TROUBLE_FAILED_FLUSHES] = "failed_flushes",
    [LP_TROUBLE_CLOCK_JUMPS] = "clock_jumps",
    [LP_TROUBLE_FOLDED_DEPTH] = "folded_depth",
    [LP_TROUBLE_FOLDED_PATHS] = "folded_paths",
    [LP_TROUBLE_IMAGE_FULL] = "image_full",
    [LP_TROUBLE_LOST_COUNTERS] = "lost_counters",
    [LP_TROUBLE_FOREIGN_EXITS] = "foreign_exits",
    [LP_TROUBLE_LOST_EXITS] = "lost_exits",
    [LP_TROUBLE_UNPLACED_CPU_NS] = "unplaced_cpu_ns",
    [LP_TROUBLE_FAILED_CALLBACKS] = "failed_callbacks",
    [LP_TROUBLE_FAILED_SAMPLES] = "failed_samples",
    [LP_TROUBLE_UNREAD_IO] = "unread_io",
    [LP_TROUBLE_GPU_TIMEOUTS] = "gpu_timeouts",
    [LP_TROUBLE_UNNAMED] = "unnamed",
    [LP_TROUBLE_REFUSED_NAMES] = "refused_names",
    [LP_TROUBLE_COUNTER_OVERFLOWS] = "counter_overflows",
    [LP_TROUBLE_SAMPLED_OVERLAPS] = "sampled_overlaps",
};

/* How many objects of a kind an image can hold: a damaged one must neither run in circles nor show anything often. */
struct budget {
    size_t slots, nodes, counters, stacks, frames;
};

static bool spend(size_t *left)
{
    return *left > 0 && (*left)-- > 0;
}

/* One slot's stacks, and the moment at which what is open on them is settled. */
struct open_stacks {
    const struct lp_view *view;
    const struct lp_slot *slot;
    struct budget *budget;
    uint64_t now_ns, thread_cpu_ns;
    bool cpu_known; /* thread_cpu_ns is the thread's CPU time at that moment */
};

/* Why entries waited. */
struct waits {
    uint64_t blocked_ns, preempted_ns;
};

/* What a node's open entries have used up to the moment; apart from them, what the entries used that another thread has
   ended while their own has not met it yet. */
struct open_figures {
    uint64_t calls, wall_ns, cpu_ns, child_wall_ns, late_wall_ns;
    struct waits waits;
    bool cpu_known;
    struct waits billed; /* waits, and what of them belongs to entries that another thread has ended */
    uint64_t check;      /* changes when an entry ends, or is billed */
    struct lp_core_copy posted;
    uint32_t posted_hist[LP_HIST_USED_OCTAVES * LP_HIST_PER_OCTAVE];
};

static uint64_t since(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

static bool thread_cpu(const struct lp_view *view, uint64_t tid, enum lp_document_owner owner, uint64_t *cpu_ns)
{
    const struct lp_header *header = lp_view_header(view);
    if (!header->measure_cpu || owner == LP_OWNER_GONE)
        return false;
    if (owner == LP_OWNER_SELF)
        return lp_cpu_of_thread(tid, cpu_ns);
    /* In another container its numbers are those of somebody else here. */
    return header->pid_namespace == lp_pid_namespace() && lp_thread_cpu_read(header->pid, tid, cpu_ns);
}

/* A frame as it is now; serial 0 if nothing is open there, or only since the moment. */
struct open_entry {
    uint64_t serial, start_wall_ns, start_cpu_ns, end_wall_ns, child_wall_ns;
    lp_ref node;
    bool ended, posted;
};

static struct open_entry read_frame(const struct lp_frame *frame, uint64_t now_ns)
{
    struct open_entry entry = {
        .serial = atomic_load_explicit(&frame->serial, memory_order_acquire),
        .node = GET(frame->node),
        .start_wall_ns = GET(frame->start_wall_ns),
        .start_cpu_ns = GET(frame->start_cpu_ns),
        .end_wall_ns = GET(frame->end_wall_ns),
        .child_wall_ns = GET(frame->child_wall_ns),
        .ended = GET(frame->state) == LP_FRAME_ENDED,
    };
    uint64_t posted = atomic_load_explicit(&frame->posted_serial, memory_order_acquire);
    entry.posted = posted != 0 && posted == entry.serial;
    if (entry.posted)
        entry.end_wall_ns = GET(frame->posted_wall_ns);
    if (entry.start_wall_ns > now_ns)
        entry.serial = 0;
    return entry;
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* CPU time of an entry of this stack up to the moment. */
static uint64_t stack_cpu(const struct open_stacks *open, const struct lp_stack *stack, uint64_t start_cpu_ns)
{
    uint64_t cpu = GET(stack->cpu), now_ns = cpu & LP_STACK_RUNS ? open->thread_cpu_ns - (cpu & ~LP_STACK_RUNS) : cpu;
    uint64_t used_ns = now_ns - start_cpu_ns;
    return used_ns <= INT64_MAX ? used_ns : 0;
}

/* What the open entry of a frame was billed. */
static struct waits billed_to(const struct open_stacks *open, const struct lp_stack *stack, uint32_t i, uint64_t serial)
{
    const struct lp_billed *billed = lp_view_at(open->view, GET(stack->billed), LP_STACK_DEPTH * sizeof *billed);
    if (!billed || atomic_load_explicit(&billed[i].serial, memory_order_acquire) != serial)
        return (struct waits){0};
    return (struct waits){GET(billed[i].blocked_ns), GET(billed[i].preempted_ns)};
}

static void add_waits(struct waits *sum, struct waits waits)
{
    sum->blocked_ns += waits.blocked_ns;
    sum->preempted_ns += waits.preempted_ns;
}

static void add_posted(struct open_figures *figures, uint64_t wall_ns, uint64_t child_ns, uint64_t late_ns)
{
    struct lp_core_copy *posted = &figures->posted;
    posted->calls++;
    posted->wall_ns += wall_ns;
    posted->nocpu_wall_ns += wall_ns;
    posted->child_wall_ns += child_ns;
    posted->late_wall_ns += late_ns;
    figures->posted_hist[lp_hist_bucket_of(wall_ns)]++;
}

/* What one entry in so many stands for. */
static uint64_t scaled(uint64_t figure, uint32_t stride)
{
    uint64_t all;
    return __builtin_mul_overflow(figure, stride, &all) || all > INT64_MAX ? INT64_MAX : all;
}

/* When an entry ended that another thread has ended; as record/leave.c. */
static uint64_t posted_end_ns(const struct lp_node *node, const struct open_entry *entry)
{
    uint64_t least_ns = entry->start_wall_ns + (GET(node->sampled_below) ? 0 : entry->child_wall_ns);
    return later(entry->end_wall_ns, least_ns);
}

/* What of an entry up to end_ns is covered by what is open inside of it: by the first such; by the next once that has ended,
   which another thread may have done. Once either has ended, a sampled one stands for others too. As record/leave.c. */
static uint64_t covered(const struct open_stacks *open, const struct open_entry *entry, const struct lp_node *around,
                        const struct lp_stack *stack, uint32_t i, uint32_t depth, uint64_t end_ns)
{
    uint64_t covered_ns = 0, from_ns = 0;
    while (++i < depth) {
        struct open_entry inner = read_frame(&stack->frames[i], open->now_ns);
        const struct lp_node *node = lp_view_at(open->view, inner.node, sizeof *node);
        if (inner.ended) {
            from_ns = later(from_ns, inner.end_wall_ns);
            continue;
        }
        if (inner.serial == 0 || !node)
            break;
        uint64_t until_ns = inner.posted ? posted_end_ns(node, &inner) : end_ns;
        uint64_t part_ns = since(later(from_ns, inner.start_wall_ns), until_ns < end_ns ? until_ns : end_ns);
        covered_ns += entry->posted || inner.posted ? scaled(part_ns, lp_node_stride_within(around, node)) : part_ns;
        if (!inner.posted)
            break;
        from_ns = later(from_ns, until_ns);
    }
    return covered_ns;
}

static void add_open_entry(struct open_figures *figures, const struct open_stacks *open, const struct lp_node *node,
                           const struct lp_stack *stack, uint32_t i, uint32_t depth)
{
    const struct lp_frame *frame = &stack->frames[i];
    struct open_entry entry = read_frame(frame, open->now_ns), above = {0};
    if (i > 0)
        above = read_frame(&frame[-1], open->now_ns);
    if (entry.ended || entry.serial == 0 || !lp_view_frame_holds(open->view, frame, entry.serial))
        return;
    uint64_t end_ns = entry.posted ? posted_end_ns(node, &entry) : open->now_ns;
    uint64_t wall_ns = since(entry.start_wall_ns, end_ns), late_ns = 0;
    uint64_t child_ns = entry.child_wall_ns + covered(open, &entry, node, stack, i, depth, end_ns);
    if (child_ns > wall_ns && !GET(node->sampled_below))
        child_ns = wall_ns; /* it was read a little later */
    if (above.ended || (above.serial && above.posted))
        late_ns = since(later(above.end_wall_ns, entry.start_wall_ns), end_ns);
    struct waits billed = billed_to(open, stack, i, entry.serial);
    add_waits(&figures->billed, billed);
    figures->check += entry.serial + entry.posted + billed.blocked_ns + billed.preempted_ns;
    if (entry.posted) {
        add_posted(figures, wall_ns, child_ns, late_ns);
        return;
    }
    uint64_t cpu_ns = stack_cpu(open, stack, entry.start_cpu_ns);
    figures->calls++;
    figures->wall_ns += wall_ns;
    figures->child_wall_ns += child_ns;
    figures->late_wall_ns += late_ns;
    figures->cpu_ns += cpu_ns < wall_ns ? cpu_ns : wall_ns;
    add_waits(&figures->waits, billed);
}

/* What the node's open entries have used. They are read as they are now, but those that began after the moment do not
   count: a later reading has the same entries, or some of them ended. */
static void open_figures(struct open_figures *figures, const struct open_stacks *open, const struct lp_node *node,
                         lp_ref node_ref)
{
    const struct lp_stack *stack;
    size_t longest = open->view->size / sizeof *stack; /* a list goes in a circle after that */
    *figures = (struct open_figures){.cpu_known = open->cpu_known};
    lp_ref ref = atomic_load_explicit(&open->slot->last_stack, memory_order_acquire);
    for (; (stack = lp_view_at(open->view, ref, sizeof *stack)) && spend(&longest) && spend(&open->budget->stacks);
         ref = GET(stack->older)) {
        uint32_t depth = GET(stack->depth);
        depth = depth < LP_STACK_DEPTH ? depth : LP_STACK_DEPTH;
        for (uint32_t i = 0; i < depth; i++)
            if (GET(stack->frames[i].node) == node_ref && spend(&open->budget->frames))
                add_open_entry(figures, open, node, stack, i, depth);
    }
}

static void emit_if(struct lp_emit *emit, const char *key, uint64_t value)
{
    if (value == 0)
        return;
    lp_emit_key(emit, key);
    lp_emit_u64(emit, value);
}

static void emit_histogram(struct lp_emit *emit, const char *key, const struct lp_hist_copy *hist)
{
    bool any = false;
    for (unsigned i = 0; i < sizeof hist->counts / sizeof hist->counts[0]; i++) {
        if (hist->counts[i] == 0)
            continue;
        if (!any) {
            lp_emit_key(emit, key);
            lp_emit_string_begin(emit);
        } else {
            lp_emit_raw(emit, " ", 1);
        }
        any = true;
        lp_emit_digits(emit, i);
        lp_emit_raw(emit, ":", 1);
        lp_emit_digits(emit, hist->counts[i]);
    }
    if (any)
        lp_emit_string_end(emit);
}

static int64_t scaled_sum(int64_t sum, uint32_t stride)
{
    int64_t all;
    return __builtin_mul_overflow(sum, (int64_t)stride, &all) ? (sum < 0 ? INT64_MIN : INT64_MAX) : all;
}

static void emit_counter(struct lp_emit *emit, const struct lp_name *name, const struct lp_counter_copy *copy,
                         uint32_t stride)
{
    lp_emit_text_key(emit, name->bytes, name->len);
    lp_emit_open(emit, '[');
    lp_emit_i64(emit, scaled_sum(copy->sum, stride));
    lp_emit_u64(emit, scaled(copy->calls, stride));
    lp_emit_i64(emit, copy->min);
    lp_emit_i64(emit, copy->max);
    lp_emit_close(emit, ']');
}

static void emit_counters(struct lp_emit *emit, const struct lp_view *view, const struct lp_node *node,
                          struct budget *budget)
{
    const struct lp_counter *counter;
    uint32_t stride = GET(node->core.stride);
    bool any = false;
    lp_ref ref = atomic_load_explicit(&node->last_counter, memory_order_acquire);
    for (; (counter = lp_view_at(view, ref, sizeof *counter)) && spend(&budget->counters); ref = counter->older) {
        struct lp_counter_copy copy;
        const struct lp_name *name = lp_view_name(view, counter->name);
        lp_view_counter(view, counter, &copy);
        if (copy.calls == 0 || !name)
            continue;
        if (!any) {
            lp_emit_key(emit, "counters");
            lp_emit_open(emit, '{');
        }
        any = true;
        emit_counter(emit, name, &copy, stride > 0 ? stride : 1);
    }
    if (any)
        lp_emit_close(emit, '}');
}

static void emit_cpu(struct lp_emit *emit, const char *key, bool known, uint64_t cpu_ns)
{
    if (known) {
        emit_if(emit, key, cpu_ns);
    } else {
        lp_emit_key(emit, key);
        lp_emit_null(emit);
    }
}

/* All of a node's figures, as of one moment as far as they can be had so. */
struct node_figures {
    struct lp_core_copy core;
    struct waits waits; /* of the entries that ended */
    struct lp_hist_copy hist;
    struct open_figures open;
};

/* Of the entries that ended; read before what is open, which may be billed meanwhile. */
static struct waits read_waits(const struct lp_view *view, const struct lp_node *node)
{
    lp_ref ref = atomic_load_explicit(&node->extra, memory_order_acquire);
    const struct lp_extra *extra = lp_view_at(view, ref, sizeof *extra);
    return extra ? (struct waits){GET(extra->blocked_ns), GET(extra->preempted_ns)} : (struct waits){0};
}

static void take_core_and_open(struct node_figures *figures, const struct open_stacks *open, const struct lp_node *node,
                               lp_ref ref)
{
    uint64_t before;
    do { /* until no entry ended around the reading of the core: it would be in both figures, or in neither */
        open_figures(&figures->open, open, node, ref);
        before = figures->open.check;
        lp_view_core(open->view, node, &figures->core);
        figures->waits = read_waits(open->view, node);
        open_figures(&figures->open, open, node, ref);
    } while (before != figures->open.check && open->budget->stacks > 0);
    figures->waits.blocked_ns = since(figures->open.billed.blocked_ns, figures->waits.blocked_ns);
    figures->waits.preempted_ns = since(figures->open.billed.preempted_ns, figures->waits.preempted_ns);
}

/* Parts of the wait, which the clock may know a little less of, or which were read a little later. */
static void keep_within(struct waits *waits, uint64_t wall_ns, uint64_t cpu_ns)
{
    uint64_t wait_ns = since(cpu_ns, wall_ns);
    if (waits->preempted_ns > wait_ns)
        waits->preempted_ns = wait_ns;
    if (waits->blocked_ns > wait_ns - waits->preempted_ns)
        waits->blocked_ns = wait_ns - waits->preempted_ns;
}

static void add_posted_to_core(struct node_figures *figures)
{
    const struct lp_core_copy *posted = &figures->open.posted;
    struct lp_core_copy *core = &figures->core;
    if (posted->calls == 0)
        return;
    core->calls += posted->calls;
    core->wall_ns += posted->wall_ns;
    core->nocpu_wall_ns += posted->nocpu_wall_ns;
    core->child_wall_ns += posted->child_wall_ns;
    core->late_wall_ns += posted->late_wall_ns;
    for (size_t i = 0; i < sizeof figures->hist.counts / sizeof figures->hist.counts[0]; i++)
        figures->hist.counts[i] += figures->open.posted_hist[i];
}

static void scale(struct node_figures *figures)
{
    struct lp_core_copy *core = &figures->core;
    uint32_t stride = core->stride;
    if (stride <= 1)
        return;
    core->calls = scaled(core->calls, stride);
    core->wall_ns = scaled(core->wall_ns, stride);
    core->cpu_ns = scaled(core->cpu_ns, stride);
    core->nocpu_wall_ns = scaled(core->nocpu_wall_ns, stride);
    core->child_wall_ns = scaled(core->child_wall_ns, stride);
    core->late_wall_ns = scaled(core->late_wall_ns, stride);
    figures->waits.blocked_ns = scaled(figures->waits.blocked_ns, stride);
    figures->waits.preempted_ns = scaled(figures->waits.preempted_ns, stride);
    for (size_t i = 0; i < sizeof figures->hist.counts / sizeof figures->hist.counts[0]; i++)
        figures->hist.counts[i] = scaled(figures->hist.counts[i], stride);
}

/* The histogram of a copy is older than the figures beside it, which are read again. Where entries end faster than both
   can be read, the two stay apart by those that ended in between. */
static void take_figures(struct node_figures *figures, const struct open_stacks *open, const struct lp_node *node,
                         lp_ref ref)
{
    take_core_and_open(figures, open, node, ref);
    lp_view_hist(open->view, node, false, &figures->hist);
    for (int i = 0; figures->hist.total != figures->core.calls && i < HIST_TRIES; i++) {
        take_core_and_open(figures, open, node, ref);
        lp_view_hist(open->view, node, true, &figures->hist);
    }
    keep_within(&figures->waits, since(figures->core.nocpu_wall_ns, figures->core.wall_ns), figures->core.cpu_ns);
    if (figures->open.cpu_known)
        keep_within(&figures->open.waits, figures->open.wall_ns, figures->open.cpu_ns);
    else
        figures->open.waits = (struct waits){0}; /* how much they waited is not known either */
    add_posted_to_core(figures);
    scale(figures);
}

/* A figure that is not there was not measured, so zero is written. */
static void emit_waits(struct lp_emit *emit, uint32_t source, const struct node_figures *figures)
{
    const struct open_figures *open = &figures->open;
    if (source >= LP_WAIT_SCHEDSTAT) {
        lp_emit_key(emit, "blocked_ns");
        lp_emit_u64(emit, figures->waits.blocked_ns);
    }
    if (source >= LP_WAIT_SWITCHES) {
        lp_emit_key(emit, "preempted_ns");
        lp_emit_u64(emit, figures->waits.preempted_ns);
        emit_if(emit, "open_blocked_ns", open->waits.blocked_ns);
        emit_if(emit, "open_preempted_ns", open->waits.preempted_ns);
    }
}

static void emit_figures(struct lp_emit *emit, const struct lp_view *view, const struct node_figures *figures)
{
    const struct lp_core_copy *core = &figures->core;
    const struct open_figures *open = &figures->open;
    bool measured = lp_view_header(view)->measure_cpu;

    emit_if(emit, "calls", core->calls);
    emit_if(emit, "wall_ns", core->wall_ns);
    emit_cpu(emit, "cpu_ns", measured, core->cpu_ns);
    emit_if(emit, "nocpu_wall_ns", core->nocpu_wall_ns);
    emit_if(emit, "child_wall_ns", core->child_wall_ns);
    emit_if(emit, "late_wall_ns", core->late_wall_ns);
    if (open->calls > 0) {
        emit_if(emit, "open_calls", open->calls);
        emit_if(emit, "open_wall_ns", open->wall_ns);
        emit_if(emit, "open_child_wall_ns", open->child_wall_ns);
        emit_if(emit, "open_late_wall_ns", open->late_wall_ns);
        emit_cpu(emit, "open_cpu_ns", open->cpu_known, open->cpu_ns);
    }
    if (core->stride > 1)
        emit_if(emit, "stride", core->stride);
}

/* Absent where it was not asked for; of no entry known: zero calls. */
static void emit_device_time(struct lp_emit *emit, const struct lp_view *view, const struct lp_node *node)
{
    struct lp_hist_copy hist;
    uint32_t stride = GET(node->core.stride);
    const struct lp_extra *extra =
        lp_view_at(view, atomic_load_explicit(&node->extra, memory_order_acquire), sizeof *extra);
    uint32_t flags = extra ? GET(extra->flags) : 0;
    stride = stride ? stride : 1;
    if (flags & LP_EXTRA_GPU) {
        lp_emit_key(emit, "gpu_calls");
        lp_emit_u64(emit, scaled(GET(extra->gpu_calls), stride));
        lp_emit_key(emit, "gpu_ns");
        lp_emit_u64(emit, scaled(GET(extra->gpu_ns), stride));
    }
    const struct lp_gpu_hist *octaves =
        flags & LP_EXTRA_GPU
            ? lp_view_at(view, atomic_load_explicit(&extra->gpu_hist, memory_order_acquire), sizeof *octaves)
            : NULL;
    if (octaves) {
        lp_view_octaves(view, octaves->octaves, false, &hist);
        for (size_t i = 0; i < sizeof hist.counts / sizeof hist.counts[0]; i++)
            hist.counts[i] = scaled(hist.counts[i], stride);
        emit_histogram(emit, "gpu_hist", &hist);
    }
    if (flags & LP_EXTRA_ASYNC_WORK) {
        lp_emit_key(emit, "async_work");
        lp_emit_bool(emit, true);
    }
}

static void emit_node(struct lp_emit *emit, const struct open_stacks *open, const struct lp_node *node, lp_ref ref)
{
    struct node_figures figures;
    const struct lp_view *view = open->view;
    lp_emit_newline(emit);
    lp_emit_open(emit, '{');
    if (node->index > 0) {
        const struct lp_node *parent = lp_view_at(view, node->parent, sizeof *parent);
        const struct lp_name *name = lp_view_name(view, node->name);
        lp_emit_key(emit, "parent");
        lp_emit_u64(emit, parent ? parent->index : 0);
        lp_emit_key(emit, "name");
        lp_emit_text(emit, name ? name->bytes : "", name ? name->len : 0);
        emit_if(emit, "id", GET(node->sampled) ? ref : 0);
        take_figures(&figures, open, node, ref);
        emit_figures(emit, view, &figures);
        emit_waits(emit, GET(open->slot->wait_source), &figures);
        emit_histogram(emit, "hist", &figures.hist);
        emit_device_time(emit, view, node);
    }
    emit_counters(emit, view, node, open->budget);
    lp_emit_close(emit, '}');
}

static void emit_slot(struct lp_emit *emit, const struct lp_view *view, const struct lp_slot *slot, uint64_t now_ns,
                      enum lp_document_owner owner, struct budget *budget)
{
    struct open_stacks open = {.view = view, .slot = slot, .budget = budget, .now_ns = now_ns};
    const struct lp_name *name = lp_view_name(view, GET(slot->name));
    const struct lp_node *node;
    lp_emit_newline(emit);
    lp_emit_open(emit, '{');
    lp_emit_key(emit, "name");
    lp_emit_text(emit, name ? name->bytes : "", name ? name->len : 0);
    lp_emit_key(emit, "tid");
    lp_emit_u64(emit, GET(slot->tid));
    lp_emit_key(emit, "alive");
    lp_emit_bool(emit, GET(slot->alive) != 0);
    lp_emit_key(emit, "nodes");
    lp_emit_open(emit, '[');
    open.cpu_known = thread_cpu(view, GET(slot->tid), owner, &open.thread_cpu_ns);
    lp_ref ref = slot->root;
    for (; (node = lp_view_at(view, ref, sizeof *node)) && spend(&budget->nodes);
         ref = atomic_load_explicit(&node->next_in_slot, memory_order_acquire))
        emit_node(emit, &open, node, ref);
    lp_emit_close(emit, ']');
    lp_emit_close(emit, '}');
}

static void emit_troubles(struct lp_emit *emit, const struct lp_header *header)
{
    lp_emit_key(emit, "troubles");
    lp_emit_open(emit, '{');
    for (unsigned i = 0; i < LP_TROUBLE_KINDS; i++)
        emit_if(emit, trouble_names[i], GET(header->troubles[i]));
    lp_emit_close(emit, '}');
}

/* As of the last flush: this one is still being written. */
static void emit_own_io(struct lp_emit *emit, const struct lp_header *header)
{
    lp_emit_key(emit, "own_io");
    if (GET(header->own_io_unknown)) {
        lp_emit_null(emit);
        return;
    }
    lp_emit_open(emit, '{');
    emit_if(emit, "read_chars", GET(header->own_read_chars));
    emit_if(emit, "write_chars", GET(header->own_write_chars));
    emit_if(emit, "read_bytes", GET(header->own_read_bytes));
    emit_if(emit, "write_bytes", GET(header->own_write_bytes));
    lp_emit_close(emit, '}');
}

static void emit_memory(struct lp_emit *emit, const struct lp_header *header)
{
    lp_emit_key(emit, "memory");
    lp_emit_open(emit, '{');
    lp_emit_u64_or_null(emit, "peak_rss_bytes", GET(header->peak_rss_bytes));
    lp_emit_u64_or_null(emit, "pss_bytes", GET(header->pss_bytes));
    lp_emit_close(emit, '}');
}

static void emit_samples(struct lp_emit *emit, const struct lp_view *view)
{
    struct lp_samples_told told = lp_samples_told(view, LP_RING_PROCESS);
    lp_emit_key(emit, "samples");
    lp_emit_open(emit, '{');
    emit_if(emit, "taken", told.taken);
    emit_if(emit, "lost", told.lost);
    lp_emit_close(emit, '}');
}

/* Absent where there are none, or nobody has looked. */
static void emit_gpus(struct lp_emit *emit, const struct lp_view *view)
{
    const struct lp_name *gpus =
        lp_view_name(view, atomic_load_explicit(&lp_view_header(view)->gpus, memory_order_acquire));
    if (!gpus)
        return;
    lp_emit_key(emit, "gpus");
    lp_emit_raw(emit, gpus->bytes, gpus->len);
    emit->comma = true;
}

static void emit_clock(struct lp_emit *emit, const struct lp_header *header)
{
    static const char *const modes[] = {"plain", "bounded", "token"};
    uint32_t mode = GET(header->cpu_mode);
    lp_emit_key(emit, "clock");
    lp_emit_open(emit, '{');
    lp_emit_key(emit, "wall");
    lp_emit_string(emit, GET(header->wall_source) == LP_WALL_TSC ? "tsc" : "vdso");
    lp_emit_key(emit, "cpu");
    lp_emit_string(emit, !header->measure_cpu ? "off" : mode <= LP_CPU_TOKEN ? modes[mode] : "plain");
    lp_emit_close(emit, '}');
}

/* How the process ended, of one that did not close. */
static void emit_end(struct lp_emit *emit, const struct lp_header *header)
{
    uint32_t ended = GET(header->ended);
    int status = (int)(ended & ~LP_END_KNOWN);
    bool known = ended & LP_END_KNOWN;
    lp_emit_open(emit, '{');
    lp_emit_key(emit, "signal");
    if (known && WIFSIGNALED(status))
        lp_emit_i64(emit, WTERMSIG(status));
    else
        lp_emit_null(emit);
    lp_emit_key(emit, "exit_status");
    if (known && WIFEXITED(status))
        lp_emit_i64(emit, WEXITSTATUS(status));
    else
        lp_emit_null(emit);
    lp_emit_close(emit, '}');
}

static void emit_folder_clock(struct lp_emit *emit, const struct lp_folder_clock *clock)
{
    lp_emit_key(emit, "folder_clock");
    if (!clock || !clock->stamped_ns) {
        lp_emit_null(emit);
        return;
    }
    lp_emit_open(emit, '{');
    lp_emit_key(emit, "before_ns");
    lp_emit_u64(emit, clock->before_ns);
    lp_emit_key(emit, "stamped_ns");
    lp_emit_u64(emit, clock->stamped_ns);
    lp_emit_key(emit, "after_ns");
    lp_emit_u64(emit, clock->after_ns);
    lp_emit_close(emit, '}');
}

void lp_document_emit(struct lp_emit *emit, const struct lp_view *view, const struct lp_stamp *written,
                      const struct lp_folder_clock *clock, enum lp_document_owner owner)
{
    static const char opening[] = "{\"format\":\"lineprofiler-worker\",\"version\":1,\n";
    const struct lp_header *header = lp_view_header(view);
    const struct lp_name *facts = lp_view_name(view, header->facts);
    uint64_t flushes = GET(header->flushes);

    lp_emit_raw(emit, opening, sizeof opening - 1);
    if (facts)
        lp_emit_raw(emit, facts->bytes, facts->len);
    emit->comma = facts != NULL;
    lp_emit_newline(emit);
    lp_emit_stamp(emit, "written", written);
    emit_folder_clock(emit, clock);
    lp_emit_key(emit, "state");
    lp_emit_string(emit, GET(header->closed) ? "closed" : "running");
    lp_emit_key(emit, "ended");
    if (owner == LP_OWNER_GONE && !GET(header->closed))
        emit_end(emit, header);
    else
        lp_emit_null(emit);
    lp_emit_key(emit, "flush");
    lp_emit_u64(emit, flushes ? flushes : 1);
    emit_clock(emit, header);
    lp_emit_key(emit, "image");
    lp_emit_string(emit, GET(header->shared) >= GET(header->used) ? "shared" : "private");
    emit_troubles(emit, header);
    emit_own_io(emit, header);
    emit_memory(emit, header);
    emit_samples(emit, view);
    emit_gpus(emit, view);
    lp_emit_newline(emit);
    lp_emit_key(emit, "threads");
    lp_emit_open(emit, '[');
    const struct lp_slot *slot;
    struct budget budget = {view->size / sizeof(struct lp_slot), view->size / sizeof(struct lp_node),
                            view->size / sizeof(struct lp_counter), STACKS_BUDGET, FRAMES_BUDGET};
    size_t frames = view->size / sizeof(struct lp_stack) * LP_STACK_DEPTH;
    if (frames < FRAMES_BUDGET / FRAME_READINGS)
        budget.frames = frames * FRAME_READINGS;
    lp_ref ref = atomic_load_explicit(&header->last_slot, memory_order_acquire);
    for (; (slot = lp_view_at(view, ref, sizeof *slot)) && spend(&budget.slots); ref = GET(slot->older))
        emit_slot(emit, view, slot, written->monotonic_ns, owner, &budget);
    lp_emit_close(emit, ']');
    lp_emit_close(emit, '}');
    lp_emit_raw(emit, "\n", 1);
}
