/* Strands: the nestings of entries on one thread, its own and those of tasks. */
#include "record/record.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_PLACES 16u

static uint32_t place_of(const struct lp_thread *thread, uint64_t task)
{
    return (uint32_t)(task * 0x9e3779b97f4a7c15u >> 32) & (thread->n_places - 1);
}

void lp_strands_forget(struct lp_thread *thread)
{
    thread->strands = thread->free_strands = NULL;
    thread->places = NULL;
    thread->n_places = thread->n_tasks = 0;
}

void lp_strands_begin(struct lp_thread *thread, lp_ref stack)
{
    thread->host_version = thread->host_since_cpu_ns = 0;
    thread->own = (struct lp_strand){.stack = lp_image_at(&thread->recorder->image, stack), .stack_ref = stack};
    LP_SET(thread->own.stack->cpu, LP_STACK_RUNS);
    lp_strand_load(thread, &thread->own);
}

void lp_strands_release(struct lp_thread *thread)
{
    while (thread->strands) {
        struct lp_strand *strand = thread->strands;
        thread->strands = strand->next_of_thread;
        free(strand);
    }
    free(thread->places);
    thread->places = NULL;
}

struct lp_strand *lp_strand_find(struct lp_thread *thread, uint64_t task)
{
    if (thread->n_tasks == 0)
        return NULL;
    struct lp_strand *strand = thread->places[place_of(thread, task)];
    while (strand && strand->task != task)
        strand = strand->next_same;
    return strand;
}

static void put(struct lp_thread *thread, struct lp_strand *strand)
{
    struct lp_strand **place = &thread->places[place_of(thread, strand->task)];
    strand->next_same = *place;
    *place = strand;
}

static bool make_places(struct lp_thread *thread)
{
    if (thread->n_tasks < thread->n_places)
        return true;
    uint32_t n = thread->n_places ? 2 * thread->n_places : FIRST_PLACES;
    struct lp_strand **wider = calloc(n, sizeof(struct lp_strand *));
    if (!wider)
        return false;
    free(thread->places);
    thread->places = wider;
    thread->n_places = n;
    for (struct lp_strand *strand = thread->strands; strand; strand = strand->next_of_thread)
        if (strand->task)
            put(thread, strand);
    return true;
}

static struct lp_strand *new_strand(struct lp_thread *thread)
{
    struct lp_strand *strand = calloc(1, sizeof *strand);
    lp_ref stack = strand ? lp_thread_alloc(thread, sizeof(struct lp_stack)) : 0;
    if (!stack) {
        free(strand);
        return NULL;
    }
    strand->stack = lp_image_at(&thread->recorder->image, stack);
    strand->stack_ref = stack;
    LP_SET(strand->stack->older, LP_GET(thread->slot->last_stack));
    atomic_store_explicit(&thread->slot->last_stack, stack, memory_order_release);
    strand->next_of_thread = thread->strands;
    thread->strands = strand;
    return strand;
}

struct lp_strand *lp_strand_make(struct lp_thread *thread, uint64_t task)
{
    struct lp_strand *strand = thread->free_strands;
    if (!make_places(thread))
        return NULL;
    if (strand)
        thread->free_strands = strand->next_same;
    else
        strand = new_strand(thread);
    if (!strand)
        return NULL;
    LP_SET(strand->stack->cpu, 0);
    strand->task = task;
    thread->n_tasks++;
    put(thread, strand);
    return strand;
}

static void take_out(struct lp_thread *thread, struct lp_strand *strand)
{
    struct lp_strand **link = &thread->places[place_of(thread, strand->task)];
    while (*link != strand)
        link = &(*link)->next_same;
    *link = strand->next_same;
    thread->n_tasks--;
}

void lp_strand_orphan(struct lp_thread *thread, struct lp_strand *strand)
{
    static _Atomic uint64_t last;
    take_out(thread, strand);
    strand->task = UINT64_MAX - atomic_fetch_add(&last, 1); /* no address, and no other's */
    thread->n_tasks++;
    put(thread, strand);
}

void lp_strand_drop_if_empty(struct lp_thread *thread, struct lp_strand *strand)
{
    if (strand->task == 0 || strand == thread->strand || LP_GET(strand->stack->depth) > 0 ||
        LP_GET(strand->stack->skip_serial) != 0)
        return;
    take_out(thread, strand);
    strand->task = 0;
    strand->next_same = thread->free_strands;
    thread->free_strands = strand;
}

struct lp_node *lp_strand_node(const struct lp_thread *thread, const struct lp_stack *stack)
{
    uint32_t depth = LP_GET(stack->depth);
    if (depth == 0)
        return thread->root;
    return lp_image_at(&thread->recorder->image, LP_GET(stack->frames[depth - 1].node));
}

void lp_strand_load(struct lp_thread *thread, struct lp_strand *strand)
{
    struct lp_stack *stack = strand->stack;
    bool skips = LP_GET(stack->skip_serial) != 0;
    thread->strand = strand;
    thread->stack = stack;
    thread->stack_ref = strand->stack_ref;
    thread->away_cpu_ns = LP_GET(stack->cpu) & ~LP_STACK_RUNS;
    thread->depth = LP_GET(stack->depth) | (skips ? LP_SKIPPING : 0);
    thread->node = skips ? &thread->nowhere : lp_strand_node(thread, stack);
}

/* The thread's own strand counts all that the thread uses: what it has open spans the tasks that run inside. */
static void hand_over_cpu(struct lp_thread *thread, struct lp_strand *from, struct lp_strand *to, uint64_t cpu_ns)
{
    if (from != &thread->own)
        LP_SET(from->stack->cpu, (cpu_ns - thread->away_cpu_ns) & ~LP_STACK_RUNS);
    if (to != &thread->own)
        LP_SET(to->stack->cpu, LP_STACK_RUNS | (cpu_ns - LP_GET(to->stack->cpu)));
}

void lp_thread_run_since(struct lp_thread *thread, struct lp_strand *strand, uint64_t cpu_ns)
{
    struct lp_strand *before = thread->strand;
    if (strand == before)
        return;
    if (thread->recorder->measure_cpu)
        hand_over_cpu(thread, before, strand, cpu_ns);
    lp_strand_load(thread, strand);
    lp_strand_drop_if_empty(thread, before);
}

uint64_t lp_thread_cpu_ns(struct lp_thread *thread)
{
    return lp_thread_read(thread, LP_EDGE_ENTER).cpu_ns;
}

void lp_thread_run(struct lp_thread *thread, struct lp_strand *strand)
{
    if (strand != thread->strand)
        lp_thread_run_since(thread, strand, lp_thread_cpu_ns(thread));
}

void lp_thread_run_late(struct lp_thread *thread, struct lp_strand *strand)
{
    struct lp_header *header = lp_image_header(&thread->recorder->image);
    thread->runs_unknown = true;
    uint64_t last_ns = thread->cpu.last_ns, cpu_ns = lp_thread_cpu_ns(thread);
    thread->runs_unknown = false;
    if (thread->recorder->measure_cpu)
        atomic_fetch_add_explicit(&header->troubles[LP_TROUBLE_UNPLACED_CPU_NS], cpu_ns - last_ns,
                                  memory_order_relaxed);
    lp_thread_run_since(thread, strand, cpu_ns);
}

void lp_recorder_release_hosts(struct lp_recorder *recorder, void (*release)(void *host))
{
    pthread_mutex_lock(&recorder->lock);
    for (struct lp_thread *thread = recorder->threads; thread; thread = thread->next) {
        for (struct lp_strand *strand = thread->strands; strand; strand = strand->next_of_thread) {
            if (strand->host)
                release(strand->host);
            strand->host = NULL;
        }
    }
    pthread_mutex_unlock(&recorder->lock);
}

size_t lp_thread_path(const struct lp_thread *thread, lp_name_id *path, size_t size)
{
    if (thread->depth == 0)
        return 0;
    const struct lp_strand *strand = thread->strand;
    const struct lp_node *node = strand->skipped ? strand->skipped : thread->node;
    bool below = strand->skipped && strand->skipped_below != LP_NAME_NONE;
    size_t depth = node->depth + below;
    if (below && depth <= size)
        path[depth - 1] = strand->skipped_below & LP_NAME_MASK;
    for (size_t i = node->depth; i-- > 0; node = lp_image_at(&thread->recorder->image, node->parent))
        if (i < size)
            path[i] = node->phase_id & LP_NAME_MASK;
    return depth < size ? depth : size;
}
