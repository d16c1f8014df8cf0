#include "worker/document.h"

#include "clock/cpu.h"
#include "worker/internal.h"

#define HIST_TRIES 4

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
    [LP_TROUBLE_FAILED_CALLBACKS] = "failed_callbacks",
};

/* How many objects of a kind an image can hold: a damaged one must neither run in circles nor show anything often. */
struct budget {
    size_t slots, nodes, counters;
};

static bool spend(size_t *left)
{
    return *left > 0 && (*left)-- > 0;
}

/* A copy of one slot's stack at one moment. */
struct open_stack {
    uint32_t depth;
    bool cpu_known;
    uint64_t now_ns, cpu_ns; /* the moment, and the thread's CPU time at it */
    struct open_entry {
        lp_ref node;
        uint64_t serial, start_wall_ns, start_cpu_ns, end_wall_ns, child_wall_ns;
        bool ended;
        const struct lp_frame *frame;
    } entries[LP_STACK_DEPTH];
};

/* What a node's open entries have used up to the moment. */
struct open_figures {
    uint64_t calls, wall_ns, cpu_ns, child_wall_ns, late_wall_ns;
    bool cpu_known;
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
    return owner == LP_OWNER_SELF ? lp_cpu_of_thread(tid, cpu_ns) : lp_thread_cpu_read(header->pid, tid, cpu_ns);
}

static void take_stack(struct open_stack *open, const struct lp_view *view, const struct lp_slot *slot, uint64_t now_ns,
                       enum lp_document_owner owner)
{
    const struct lp_stack *stack = lp_view_at(view, slot->stack, sizeof *stack);
    open->depth = stack ? GET(stack->depth) : 0;
    open->depth = open->depth < LP_STACK_DEPTH ? open->depth : LP_STACK_DEPTH;
    open->now_ns = now_ns;
    for (uint32_t i = 0; i < open->depth; i++) {
        const struct lp_frame *frame = &stack->frames[i];
        open->entries[i] = (struct open_entry){
            .serial = atomic_load_explicit(&frame->serial, memory_order_acquire),
            .node = GET(frame->node),
            .start_wall_ns = GET(frame->start_wall_ns),
            .start_cpu_ns = GET(frame->start_cpu_ns),
            .end_wall_ns = GET(frame->end_wall_ns),
            .child_wall_ns = GET(frame->child_wall_ns),
            .ended = GET(frame->state) == LP_FRAME_ENDED,
            .frame = frame,
        };
    }
    open->cpu_known = open->depth > 0 && thread_cpu(view, GET(slot->tid), owner, &open->cpu_ns);
}

/* True if the node had open entries, with their figures; *stands is false if one of them ended meanwhile. */
static bool open_figures(struct open_figures *figures, const struct lp_view *view, const struct open_stack *open,
                         lp_ref node, bool *stands)
{
    *figures = (struct open_figures){.cpu_known = open->cpu_known};
    *stands = true;
    for (uint32_t i = 0; i < open->depth; i++) {
        const struct open_entry *entry = &open->entries[i];
        if (entry->node != node || entry->ended || entry->serial == 0)
            continue;
        if (!lp_view_frame_holds(view, entry->frame, entry->serial)) {
            *stands = false;
            continue;
        }
        uint64_t wall_ns = since(entry->start_wall_ns, open->now_ns);
        uint64_t child_ns = entry->child_wall_ns;
        if (i + 1 < open->depth && !entry[1].ended && entry[1].serial)
            child_ns += since(entry[1].start_wall_ns, open->now_ns);
        uint64_t cpu_ns = since(entry->start_cpu_ns, open->cpu_ns);
        figures->calls++;
        figures->wall_ns += wall_ns;
        figures->child_wall_ns += child_ns < wall_ns ? child_ns : wall_ns;
        figures->cpu_ns += cpu_ns < wall_ns ? cpu_ns : wall_ns;
        if (i > 0 && entry[-1].ended)
            figures->late_wall_ns +=
                since(entry[-1].end_wall_ns > entry->start_wall_ns ? entry[-1].end_wall_ns : entry->start_wall_ns,
                      open->now_ns);
    }
    return figures->calls > 0;
}

static void emit_if(struct lp_emit *emit, const char *key, uint64_t value)
{
    if (value == 0)
        return;
    lp_emit_key(emit, key);
    lp_emit_u64(emit, value);
}

static void emit_histogram(struct lp_emit *emit, const struct lp_hist_copy *hist)
{
    bool any = false;
    for (unsigned i = 0; i < sizeof hist->counts / sizeof hist->counts[0]; i++) {
        if (hist->counts[i] == 0)
            continue;
        if (!any) {
            lp_emit_key(emit, "hist");
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

static void emit_counter(struct lp_emit *emit, const struct lp_name *name, const struct lp_counter_copy *copy)
{
    lp_emit_text_key(emit, name->bytes, name->len);
    lp_emit_open(emit, '[');
    lp_emit_i64(emit, copy->sum);
    lp_emit_u64(emit, copy->calls);
    lp_emit_i64(emit, copy->min);
    lp_emit_i64(emit, copy->max);
    lp_emit_close(emit, ']');
}

static void emit_counters(struct lp_emit *emit, const struct lp_view *view, const struct lp_node *node,
                          struct budget *budget)
{
    const struct lp_counter *counter;
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
        emit_counter(emit, name, &copy);
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
    struct lp_hist_copy hist;
    struct open_figures open;
    bool any_open;
};

static void take_core_and_open(struct node_figures *figures, const struct lp_view *view, const struct lp_node *node,
                               const struct open_stack *open, lp_ref ref)
{
    bool before, stands;
    do { /* until no entry ended around the reading of the core: it would be in both figures, or in neither */
        open_figures(&figures->open, view, open, ref, &before);
        lp_view_core(view, node, &figures->core);
        figures->any_open = open_figures(&figures->open, view, open, ref, &stands);
    } while (before != stands);
}

/* The histogram of a copy is older than the figures beside it, which are read again. Where entries end faster than both
   can be read, the two stay apart by those that ended in between. */
static void take_figures(struct node_figures *figures, const struct lp_view *view, const struct lp_node *node,
                         const struct open_stack *open, lp_ref ref)
{
    take_core_and_open(figures, view, node, open, ref);
    lp_view_hist(view, node, false, &figures->hist);
    for (int i = 0; figures->hist.total != figures->core.calls && i < HIST_TRIES; i++) {
        take_core_and_open(figures, view, node, open, ref);
        lp_view_hist(view, node, true, &figures->hist);
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
    if (figures->any_open) {
        emit_if(emit, "open_calls", open->calls);
        emit_if(emit, "open_wall_ns", open->wall_ns);
        emit_if(emit, "open_child_wall_ns", open->child_wall_ns);
        emit_if(emit, "open_late_wall_ns", open->late_wall_ns);
        emit_cpu(emit, "open_cpu_ns", open->cpu_known, open->cpu_ns);
    }
    if (core->stride > 1)
        emit_if(emit, "stride", core->stride);
}

static void emit_node(struct lp_emit *emit, const struct lp_view *view, const struct lp_node *node, lp_ref ref,
                      const struct open_stack *open, struct budget *budget)
{
    struct node_figures figures;
    lp_emit_newline(emit);
    lp_emit_open(emit, '{');
    if (node->index > 0) {
        const struct lp_node *parent = lp_view_at(view, node->parent, sizeof *parent);
        const struct lp_name *name = lp_view_name(view, node->name);
        lp_emit_key(emit, "parent");
        lp_emit_u64(emit, parent ? parent->index : 0);
        lp_emit_key(emit, "name");
        lp_emit_text(emit, name ? name->bytes : "", name ? name->len : 0);
        take_figures(&figures, view, node, open, ref);
        emit_figures(emit, view, &figures);
        emit_histogram(emit, &figures.hist);
    }
    emit_counters(emit, view, node, budget);
    lp_emit_close(emit, '}');
}

static void emit_slot(struct lp_emit *emit, const struct lp_view *view, const struct lp_slot *slot, uint64_t now_ns,
                      enum lp_document_owner owner, struct budget *budget)
{
    struct open_stack open;
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
    take_stack(&open, view, slot, now_ns, owner);
    lp_ref ref = slot->root;
    for (; (node = lp_view_at(view, ref, sizeof *node)) && spend(&budget->nodes);
         ref = atomic_load_explicit(&node->next_in_slot, memory_order_acquire))
        emit_node(emit, view, node, ref, &open, budget);
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

void lp_document_emit(struct lp_emit *emit, const struct lp_view *view, const struct lp_stamp *written,
                      enum lp_document_owner owner)
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
    lp_emit_key(emit, "state");
    lp_emit_string(emit, GET(header->closed) ? "closed" : "running");
    lp_emit_key(emit, "flush");
    lp_emit_u64(emit, flushes ? flushes : 1);
    emit_clock(emit, header);
    lp_emit_key(emit, "image");
    lp_emit_string(emit, GET(header->shared) >= GET(header->used) ? "shared" : "private");
    emit_troubles(emit, header);
    lp_emit_newline(emit);
    lp_emit_key(emit, "threads");
    lp_emit_open(emit, '[');
    const struct lp_slot *slot;
    struct budget budget = {view->size / sizeof(struct lp_slot), view->size / sizeof(struct lp_node),
                            view->size / sizeof(struct lp_counter)};
    lp_ref ref = atomic_load_explicit(&header->last_slot, memory_order_acquire);
    for (; (slot = lp_view_at(view, ref, sizeof *slot)) && spend(&budget.slots); ref = GET(slot->older))
        emit_slot(emit, view, slot, written->monotonic_ns, owner, &budget);
    lp_emit_close(emit, ']');
    lp_emit_close(emit, '}');
    lp_emit_raw(emit, "\n", 1);
}
