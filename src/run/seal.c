#include <stdlib.h>

#include "run/hist.h"
#include "run/node.h"

static void free_tallies(struct lp_run_node *node)
{
    for (struct lp_run_tally_node *tally = node->tallies, *next; tally; tally = next) {
        next = tally->next;
        lp_text_release(&tally->name);
        free(tally);
    }
    node->tallies = NULL;
}

void lp_run_device_time_free(struct lp_run_device_time *time)
{
    if (time)
        lp_run_hist_release(&time->hist);
    free(time);
}

/* Depth is bounded by the reader (LP_RUN_DEPTH_MAX), so recursion is safe here and below. */
void lp_run_phase_free(struct lp_run_phase *root)
{
    if (!root)
        return;
    struct lp_run_node *node = lp_run_node_of(root);
    for (struct lp_run_node *child = node->first_child, *next; child; child = next) {
        next = child->next_sibling;
        lp_run_phase_free(&child->phase);
    }
    free_tallies(node);
    for (size_t i = 0; root->counters && i < root->n_counters; i++)
        lp_text_release(&root->counters[i].name);
    free(root->counters);
    free(root->children);
    lp_run_hist_release(&root->hist);
    lp_run_device_time_free(root->device_time);
    lp_text_release(&root->name);
    free(node);
}

static int by_phase_name(const void *a, const void *b)
{
    const struct lp_run_phase *const *left = a;
    const struct lp_run_phase *const *right = b;
    return lp_text_compare(lp_text_span(&(*left)->name), lp_text_span(&(*right)->name));
}

static int by_counter_name(const void *a, const void *b)
{
    const struct lp_run_counter *left = a;
    const struct lp_run_counter *right = b;
    return lp_text_compare(lp_text_span(&left->name), lp_text_span(&right->name));
}

/* positive - negative as int64_t, at its limit where it does not fit. */
static int64_t net_sum(uint64_t positive, uint64_t negative, bool *saturated)
{
    bool minus = negative > positive;
    uint64_t size = minus ? negative - positive : positive - negative;
    uint64_t limit = (uint64_t)INT64_MAX + (minus ? 1 : 0);
    if (size > limit)
        *saturated = true;
    if (size >= limit)
        return minus ? INT64_MIN : INT64_MAX;
    return minus ? -(int64_t)size : (int64_t)size;
}

/* Moves the tally's name into the counter. */
static struct lp_run_counter counter_of(struct lp_run_tally_node *tally)
{
    struct lp_run_counter counter = {
        .name = tally->name,
        .calls = tally->calls,
        .min = tally->min,
        .max = tally->max,
        .saturated = tally->saturated,
    };
    tally->name = (struct lp_text){NULL, 0};
    counter.sum = net_sum(tally->positive, tally->negative, &counter.saturated);
    return counter;
}

static int seal_counters(struct lp_run_node *node)
{
    struct lp_run_phase *phase = &node->phase;
    if (!phase->n_counters)
        return 0;
    phase->counters = calloc(phase->n_counters, sizeof *phase->counters);
    if (!phase->counters)
        return -1;
    struct lp_run_counter *counter = phase->counters;
    for (struct lp_run_tally_node *tally = node->tallies; tally; tally = tally->next)
        *counter++ = counter_of(tally);
    free_tallies(node);
    qsort(phase->counters, phase->n_counters, sizeof *phase->counters, by_counter_name);
    return 0;
}

static int seal_children(struct lp_run_node *node)
{
    struct lp_run_phase *phase = &node->phase;
    if (!phase->n_children)
        return 0;
    phase->children = calloc(phase->n_children, sizeof(struct lp_run_phase *));
    if (!phase->children)
        return -1;
    size_t n = 0;
    for (struct lp_run_node *child = node->first_child; child; child = child->next_sibling)
        phase->children[n++] = &child->phase;
    qsort(phase->children, n, sizeof(struct lp_run_phase *), by_phase_name);
    return 0;
}

/* Where nothing but unmeasured wall time was added, asking for CPU time found none. */
static bool cpu_known(const struct lp_run_node *node)
{
    return node->cpu_seen && (node->phase.wall_ns == 0 || node->phase.nocpu_wall_ns < node->phase.wall_ns);
}

static int seal_node(struct lp_run_node *node)
{
    struct lp_run_phase *phase = &node->phase;
    if (!phase->stride_min)
        phase->stride_min = phase->stride_max = 1;
    phase->cpu_known = cpu_known(node);
    phase->blocked_known &= phase->cpu_known; /* no parts of what is not known */
    phase->preempted_known &= phase->cpu_known;
    lp_run_spread_add(&phase->spread, &node->share);
    node->share = (struct lp_run_share){0};
    if (seal_counters(node) < 0 || seal_children(node) < 0)
        return -1;
    for (size_t i = 0; i < phase->n_children; i++)
        if (seal_node(lp_run_node_of(phase->children[i])) < 0)
            return -1;
    return 0;
}

struct lp_run_phase *lp_run_tree_seal(struct lp_run_tree *tree)
{
    struct lp_run_node *root = tree->root;
    tree->root = NULL;
    lp_run_tree_release(tree);
    if (root && seal_node(root) < 0) {
        lp_run_phase_free(&root->phase);
        return NULL;
    }
    return root ? &root->phase : NULL;
}
