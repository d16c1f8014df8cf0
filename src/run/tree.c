#include "run/tree.h"

#include <stdlib.h>

#include "run/hist.h"
#include "run/node.h"

static struct lp_run_node *new_node(struct lp_span name)
{
    struct lp_run_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    if (lp_text_copy(&node->phase.name, name) < 0) {
        free(node);
        return NULL;
    }
    return node;
}

int lp_run_tree_init(struct lp_run_tree *tree)
{
    *tree = (struct lp_run_tree){.root = new_node((struct lp_span){"", 0})};
    return tree->root ? 0 : -1;
}

void lp_run_tree_release(struct lp_run_tree *tree)
{
    if (tree->root)
        lp_run_phase_free(&tree->root->phase);
    lp_run_table_release(&tree->table);
    tree->root = NULL;
}

struct lp_run_node *lp_run_tree_child(struct lp_run_tree *tree, struct lp_run_node *parent, struct lp_span name)
{
    struct lp_run_node *child = lp_run_table_find(&tree->table, parent, name);
    if (child)
        return child;
    child = new_node(name);
    if (!child)
        return NULL;
    if (lp_run_table_add(&tree->table, parent, lp_text_span(&child->phase.name), child) < 0) {
        lp_run_phase_free(&child->phase);
        return NULL;
    }
    child->phase.parent = &parent->phase;
    child->next_sibling = parent->first_child;
    parent->first_child = child;
    parent->phase.n_children++;
    return child;
}

static void add_stride(struct lp_run_phase *phase, uint64_t stride_min, uint64_t stride_max)
{
    if (!phase->stride_min || stride_min < phase->stride_min)
        phase->stride_min = stride_min;
    if (stride_max > phase->stride_max)
        phase->stride_max = stride_max;
    phase->estimated |= stride_max > 1;
}

static void add_figures(struct lp_run_node *node, const struct lp_run_figures *figures)
{
    struct lp_run_phase *phase = &node->phase;
    bool *saturated = &phase->saturated;
    phase->calls = lp_run_sum(phase->calls, figures->calls, saturated);
    phase->wall_ns = lp_run_sum(phase->wall_ns, figures->wall_ns, saturated);
    phase->cpu_ns = lp_run_sum(phase->cpu_ns, figures->cpu_ns, saturated);
    phase->nocpu_wall_ns = lp_run_sum(phase->nocpu_wall_ns, figures->nocpu_wall_ns, saturated);
    phase->child_wall_ns = lp_run_sum(phase->child_wall_ns, figures->child_wall_ns, saturated);
    phase->late_wall_ns = lp_run_sum(phase->late_wall_ns, figures->late_wall_ns, saturated);
    phase->open_calls = lp_run_sum(phase->open_calls, figures->open_calls, saturated);
    phase->open_wall_ns = lp_run_sum(phase->open_wall_ns, figures->open_wall_ns, saturated);
    phase->ended_wall_ns = lp_run_sum(phase->ended_wall_ns, figures->ended_wall_ns, saturated);
    phase->spare_calls = lp_run_sum(phase->spare_calls, figures->spare_calls, saturated);
    phase->blocked_ns = lp_run_sum(phase->blocked_ns, figures->blocked_ns, saturated);
    phase->preempted_ns = lp_run_sum(phase->preempted_ns, figures->preempted_ns, saturated);
    phase->blocked_known |= figures->blocked_seen;
    phase->preempted_known |= figures->preempted_seen;
    node->cpu_seen |= figures->cpu_seen;
    phase->is_thread |= figures->is_thread;
    phase->async_work |= figures->async_work;
    add_stride(phase, figures->stride, figures->stride);
}

void lp_run_tree_add(struct lp_run_node *node, const struct lp_run_figures *figures)
{
    uint64_t open_ns = figures->open_wall_ns;
    add_figures(node, figures);
    lp_run_share_add(&node->share, figures->calls, figures->wall_ns > open_ns ? figures->wall_ns - open_ns : 0);
}

int lp_run_tree_add_hist(struct lp_run_node *node, unsigned bucket, uint64_t count)
{
    lp_run_share_add_bucket(&node->share, bucket, count);
    return lp_run_hist_add(&node->phase.hist, bucket, count, &node->phase.saturated);
}

struct lp_run_device_time *lp_run_tree_device_time(struct lp_run_node *node)
{
    if (!node->phase.device_time)
        node->phase.device_time = calloc(1, sizeof *node->phase.device_time);
    return node->phase.device_time;
}

/* The node's tally of that name, made if there is none yet. A tally's owner in the table is the address of the list, a
   child's that of the node itself. */
static struct lp_run_tally_node *find_tally(struct lp_run_tree *tree, struct lp_run_node *node, struct lp_span name)
{
    struct lp_run_tally_node *tally = lp_run_table_find(&tree->table, &node->tallies, name);
    if (tally)
        return tally;
    tally = calloc(1, sizeof *tally);
    if (!tally)
        return NULL;
    *tally = (struct lp_run_tally_node){.next = node->tallies, .min = INT64_MAX, .max = INT64_MIN};
    if (lp_text_copy(&tally->name, name) < 0 ||
        lp_run_table_add(&tree->table, &node->tallies, lp_text_span(&tally->name), tally) < 0) {
        lp_text_release(&tally->name);
        free(tally);
        return NULL;
    }
    node->tallies = tally;
    node->phase.n_counters++;
    return tally;
}

static void widen(struct lp_run_tally_node *tally, int64_t min, int64_t max)
{
    if (min < tally->min)
        tally->min = min;
    if (max > tally->max)
        tally->max = max;
}

int lp_run_tree_count(struct lp_run_tree *tree, struct lp_run_node *node, const struct lp_run_tally *from)
{
    struct lp_run_tally_node *tally = find_tally(tree, node, from->name);
    if (!tally)
        return -1;
    uint64_t size = from->sum < 0 ? -(uint64_t)from->sum : (uint64_t)from->sum;
    uint64_t *side = from->sum < 0 ? &tally->negative : &tally->positive;
    *side = lp_run_sum(*side, size, &tally->saturated);
    tally->calls = lp_run_sum(tally->calls, from->calls, &tally->saturated);
    widen(tally, from->min, from->max);
    return 0;
}

void lp_run_tree_note_worker(struct lp_run_node *node, uint64_t number)
{
    if (node->last_worker == number)
        return;
    lp_run_spread_add(&node->phase.spread, &node->share);
    node->share = (struct lp_run_share){0};
    node->last_worker = number;
    node->phase.workers++;
}

static int merge_tally(struct lp_run_tree *tree, struct lp_run_node *node, const struct lp_run_tally_node *from)
{
    struct lp_run_tally_node *tally = find_tally(tree, node, lp_text_span(&from->name));
    if (!tally)
        return -1;
    tally->positive = lp_run_sum(tally->positive, from->positive, &tally->saturated);
    tally->negative = lp_run_sum(tally->negative, from->negative, &tally->saturated);
    tally->calls = lp_run_sum(tally->calls, from->calls, &tally->saturated);
    tally->saturated |= from->saturated;
    widen(tally, from->min, from->max);
    return 0;
}

static struct lp_run_figures figures_of(const struct lp_run_node *node)
{
    const struct lp_run_phase *phase = &node->phase;
    return (struct lp_run_figures){
        .calls = phase->calls,
        .wall_ns = phase->wall_ns,
        .cpu_ns = phase->cpu_ns,
        .nocpu_wall_ns = phase->nocpu_wall_ns,
        .child_wall_ns = phase->child_wall_ns,
        .late_wall_ns = phase->late_wall_ns,
        .open_calls = phase->open_calls,
        .open_wall_ns = phase->open_wall_ns,
        .ended_wall_ns = phase->ended_wall_ns,
        .stride = phase->stride_min,
        .spare_calls = phase->spare_calls,
        .blocked_ns = phase->blocked_ns,
        .preempted_ns = phase->preempted_ns,
        .cpu_seen = node->cpu_seen,
        .blocked_seen = phase->blocked_known,
        .preempted_seen = phase->preempted_known,
        .is_thread = phase->is_thread,
        .async_work = phase->async_work,
    };
}

static int merge_device_time(struct lp_run_node *node, const struct lp_run_device_time *from)
{
    struct lp_run_device_time *time = lp_run_tree_device_time(node);
    if (!time)
        return -1;
    time->calls = lp_run_sum(time->calls, from->calls, &node->phase.saturated);
    time->ns = lp_run_sum(time->ns, from->ns, &node->phase.saturated);
    return lp_run_hist_merge(&time->hist, &from->hist, &node->phase.saturated);
}

static int merge_node(struct lp_run_tree *tree, struct lp_run_node *node, const struct lp_run_node *from)
{
    struct lp_run_figures figures = figures_of(from);
    if (figures.stride) {
        add_figures(node, &figures);
        add_stride(&node->phase, from->phase.stride_min, from->phase.stride_max);
    }
    node->phase.saturated |= from->phase.saturated;
    node->phase.workers += from->phase.workers;
    lp_run_spread_merge(&node->phase.spread, &from->phase.spread);
    lp_run_spread_add(&node->phase.spread, &from->share);
    if (lp_run_hist_merge(&node->phase.hist, &from->phase.hist, &node->phase.saturated) < 0)
        return -1;
    if (from->phase.device_time && merge_device_time(node, from->phase.device_time) < 0)
        return -1;
    for (const struct lp_run_tally_node *tally = from->tallies; tally; tally = tally->next)
        if (merge_tally(tree, node, tally) < 0)
            return -1;
    for (const struct lp_run_node *child = from->first_child; child; child = child->next_sibling) {
        struct lp_run_node *into = lp_run_tree_child(tree, node, lp_text_span(&child->phase.name));
        if (!into || merge_node(tree, into, child) < 0)
            return -1;
    }
    return 0;
}

int lp_run_tree_merge(struct lp_run_tree *tree, const struct lp_run_tree *from)
{
    return merge_node(tree, tree->root, from->root);
}
