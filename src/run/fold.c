#include "run/fold.h"

#include <stdlib.h>
#include <string.h>

#include "run/hist.h"
#include "run/node.h"
#include "run/room.h"

static const char unnamed_thread[] = "(unnamed thread)";

void lp_run_fold_release(struct lp_run_fold *fold)
{
    free(fold->nodes);
    free(fold->ids);
    free(fold->paces);
    *fold = (struct lp_run_fold){0};
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* What of a wait is known to be blocked or preempted: together at most all of it. */
static void even_out_wait(struct lp_run_figures *figures)
{
    uint64_t base_ns = figures->wall_ns - figures->nocpu_wall_ns;
    uint64_t wait_ns = base_ns > figures->cpu_ns ? base_ns - figures->cpu_ns : 0;
    figures->preempted_ns = at_most(figures->preempted_ns, wait_ns);
    figures->blocked_ns = at_most(figures->blocked_ns, wait_ns - figures->preempted_ns);
}

/* Every figure of a record is below 2^63, so that ended and open together do not overflow. */
struct lp_run_figures lp_run_fold_record(const struct lp_run_record *record)
{
    struct lp_run_figures figures = {
        .calls = record->calls,
        .wall_ns = record->wall_ns + record->open_wall_ns,
        .cpu_ns = (record->no_cpu ? 0 : record->cpu_ns) + (record->no_open_cpu ? 0 : record->open_cpu_ns),
        .open_calls = record->open_calls,
        .open_wall_ns = record->open_wall_ns,
        .ended_wall_ns = record->wall_ns,
        .stride = record->stride,
        .spare_calls = record->calls ? record->stride - 1 : 0, /* the last one measured may be the last of all */
        .cpu_seen = !record->no_cpu || (record->open_calls && !record->no_open_cpu),
        .blocked_ns = record->blocked_ns + (record->no_open_cpu ? 0 : record->open_blocked_ns),
        .preempted_ns = record->preempted_ns + (record->no_open_cpu ? 0 : record->open_preempted_ns),
        .blocked_seen = record->has_blocked,
        .preempted_seen = record->has_preempted,
        .async_work = record->async_work,
    };
    figures.child_wall_ns = at_most(record->child_wall_ns + record->open_child_wall_ns, figures.wall_ns);
    figures.late_wall_ns = at_most(record->late_wall_ns + record->open_late_wall_ns, figures.wall_ns);
    figures.nocpu_wall_ns = (record->no_cpu ? record->wall_ns : at_most(record->nocpu_wall_ns, record->wall_ns)) +
                            (record->no_open_cpu ? record->open_wall_ns : 0);
    even_out_wait(&figures);
    return figures;
}

static int add_device_time(struct lp_run_node *node, const struct lp_run_document *document,
                           const struct lp_run_record *record)
{
    struct lp_run_device_time *time = lp_run_tree_device_time(node);
    if (!time)
        return -1;
    time->calls = lp_run_sum(time->calls, record->gpu_calls, &node->phase.saturated);
    time->ns = lp_run_sum(time->ns, record->gpu_ns, &node->phase.saturated);
    for (size_t i = 0; i < record->n_gpu_hist; i++) {
        const struct lp_run_bucket *bucket = &document->buckets[record->gpu_hist + i];
        if (lp_run_hist_add(&time->hist, bucket->bucket, bucket->count, &node->phase.saturated) < 0)
            return -1;
    }
    return 0;
}

static int add_parts(struct lp_run_tree *tree, struct lp_run_node *node, const struct lp_run_document *document,
                     const struct lp_run_record *record)
{
    for (size_t i = 0; i < record->n_hist; i++) {
        const struct lp_run_bucket *bucket = &document->buckets[record->hist + i];
        if (lp_run_tree_add_hist(node, bucket->bucket, bucket->count) < 0)
            return -1;
    }
    if (record->has_gpu && add_device_time(node, document, record) < 0)
        return -1;
    for (size_t i = 0; i < record->n_counters; i++)
        if (lp_run_tree_count(tree, node, &document->tallies[record->counters + i]) < 0)
            return -1;
    return 0;
}

/* The share of a top-level phase in the phase that stands for its thread: time, but no entries. */
static void add_to_thread(struct lp_run_node *thread, const struct lp_run_figures *top)
{
    struct lp_run_figures figures = *top;
    figures.calls = figures.open_calls = figures.spare_calls = 0;
    figures.child_wall_ns = figures.wall_ns;
    figures.late_wall_ns = 0;
    figures.is_thread = true;
    lp_run_tree_add(thread, &figures);
}

/* A phase has a node in each thread, and an id in each. */
static int note_id(struct lp_run_fold *fold, const struct lp_run_record *record, struct lp_run_node *node)
{
    if (!record->id || record->id > UINT32_MAX) /* no sample can name it */
        return 0;
    if (lp_run_room(&fold->ids, &fold->ids_room, fold->n_ids, sizeof *fold->ids) < 0)
        return -1;
    fold->ids[fold->n_ids++] = (struct lp_run_phase_id){(uint32_t)record->id, &node->phase};
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const struct lp_run_phase_id *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

int lp_run_fold_ids(struct lp_run_fold *fold, struct lp_run_worker *worker)
{
    if (!fold->n_ids)
        return 0;
    worker->phase_ids = malloc(fold->n_ids * sizeof *fold->ids);
    if (!worker->phase_ids)
        return -1;
    qsort(fold->ids, fold->n_ids, sizeof *fold->ids, by_id);
    memcpy(worker->phase_ids, fold->ids, fold->n_ids * sizeof *fold->ids);
    worker->n_phase_ids = fold->n_ids;
    return 0;
}

/* Adds to what the worker did in the phase, which has a record in each thread. */
static int note_pace(struct lp_run_fold *fold, const struct lp_run_record *record, struct lp_run_node *node)
{
    bool noted = node->pace < fold->n_paces && fold->paces[node->pace].phase == &node->phase;
    if (!noted) {
        if (lp_run_room(&fold->paces, &fold->paces_room, fold->n_paces, sizeof *fold->paces) < 0)
            return -1;
        node->pace = fold->n_paces++;
        fold->paces[node->pace] = (struct lp_run_pace){.phase = &node->phase};
    }
    struct lp_run_pace *pace = &fold->paces[node->pace];
    bool saturated = false;
    uint64_t self_ns = record->wall_ns > record->child_wall_ns ? record->wall_ns - record->child_wall_ns : 0;
    pace->calls = lp_run_sum(pace->calls, record->calls, &saturated);
    pace->self_ns = lp_run_sum(pace->self_ns, self_ns, &saturated);
    return 0;
}

static int by_self_time(const void *a, const void *b)
{
    const struct lp_run_pace *left = a, *right = b;
    if (left->self_ns != right->self_ns)
        return left->self_ns > right->self_ns ? -1 : 1;
    return (left->calls < right->calls) - (left->calls > right->calls);
}

int lp_run_fold_paces(struct lp_run_fold *fold, struct lp_run_worker *worker)
{
    size_t n = fold->n_paces < LP_RUN_PACES_MAX ? fold->n_paces : LP_RUN_PACES_MAX;
    if (!n)
        return 0;
    if (fold->n_paces > n)
        qsort(fold->paces, fold->n_paces, sizeof *fold->paces, by_self_time);
    worker->paces = malloc(n * sizeof *worker->paces);
    if (!worker->paces)
        return -1;
    memcpy(worker->paces, fold->paces, n * sizeof *worker->paces);
    worker->n_paces = n;
    return 0;
}

static int add_slot(struct lp_run_fold *fold, struct lp_run_tree *tree, struct lp_run_node *top,
                    const struct lp_run_document *document, const struct lp_run_slot *slot, uint64_t number)
{
    const struct lp_run_record *records = document->records + slot->nodes;
    fold->nodes[0] = top;
    if (add_parts(tree, top, document, &records[0]) < 0)
        return -1;
    for (size_t i = 1; i < slot->n_nodes; i++) {
        struct lp_run_node *node = lp_run_tree_child(tree, fold->nodes[records[i].parent], records[i].name);
        if (!node)
            return -1;
        lp_run_tree_note_worker(node, number);
        if (note_pace(fold, &records[i], node) < 0 || add_parts(tree, node, document, &records[i]) < 0)
            return -1;
        struct lp_run_figures figures = lp_run_fold_record(&records[i]);
        lp_run_tree_add(node, &figures);
        if (document->thread_names && records[i].parent == 0)
            add_to_thread(top, &figures);
        if (note_id(fold, &records[i], node) < 0)
            return -1;
        fold->nodes[i] = node;
    }
    return 0;
}

/* Where the slot's phases hang: the root, or the phase of its thread. */
static struct lp_run_node *slot_top(struct lp_run_tree *tree, const struct lp_run_document *document,
                                    const struct lp_run_slot *slot, uint64_t number)
{
    const struct lp_run_record *root = &document->records[slot->nodes];
    if (!document->thread_names || (slot->n_nodes == 1 && !root->n_counters))
        return tree->root;
    struct lp_span name = slot->name.len ? slot->name : (struct lp_span){unnamed_thread, strlen(unnamed_thread)};
    struct lp_run_node *top = lp_run_tree_child(tree, tree->root, name);
    if (!top)
        return NULL;
    if (slot->n_nodes == 1) { /* only counters: no phase below will say so */
        const struct lp_run_figures no_time = {.stride = 1, .is_thread = true, .cpu_seen = document->measure_cpu};
        lp_run_tree_add(top, &no_time);
    }
    lp_run_tree_note_worker(top, number);
    return top;
}

static int make_room(struct lp_run_fold *fold, size_t n_nodes)
{
    if (n_nodes <= fold->room)
        return 0;
    free(fold->nodes);
    fold->nodes = calloc(n_nodes, sizeof(struct lp_run_node *));
    fold->room = fold->nodes ? n_nodes : 0;
    return fold->nodes ? 0 : -1;
}

int lp_run_fold_figures(struct lp_run_fold *fold, struct lp_run_tree *tree, const struct lp_run_document *document,
                        uint64_t number)
{
    if (make_room(fold, document->n_records) < 0)
        return -1;
    lp_run_tree_note_worker(tree->root, number);
    fold->n_ids = fold->n_paces = 0;
    for (size_t i = 0; i < document->n_slots; i++) {
        const struct lp_run_slot *slot = &document->slots[i];
        struct lp_run_node *top = slot_top(tree, document, slot, number);
        if (!top || add_slot(fold, tree, top, document, slot, number) < 0)
            return -1;
    }
    return 0;
}
