#include "analysis/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

double lp_analysis_ratio(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

/* Flattening keeps its own stack: the depth of a tree that was read from a file is not ours to trust. */

struct pending {
    const struct lp_run_phase *phase;
    size_t parent;
    unsigned depth;
};

struct flattener {
    struct pending *stack; /* Owned. */
    size_t n_stack, stack_size;
    struct lp_analysis_phase *phases; /* Owned until handed over. */
    size_t n_phases, phases_size;
};

static int grow(void **items, size_t *size, size_t need, size_t item_size)
{
    if (need <= *size)
        return 0;
    size_t wanted = *size < 16 ? 16 : *size;
    while (wanted < need)
        wanted *= 2;
    void *grown = realloc(*items, wanted * item_size);
    if (grown == NULL)
        return -ENOMEM;
    *items = grown;
    *size = wanted;
    return 0;
}

static int push_children(struct flattener *flat, const struct lp_run_phase *phase, size_t index, unsigned depth)
{
    void *stack = flat->stack;
    int error = grow(&stack, &flat->stack_size, flat->n_stack + phase->n_children, sizeof *flat->stack);
    flat->stack = stack;
    if (error)
        return error;
    for (size_t i = phase->n_children; i-- > 0;)
        flat->stack[flat->n_stack++] = (struct pending){phase->children[i], index, depth + 1};
    return 0;
}

static int append(struct flattener *flat, const struct pending *next)
{
    void *phases = flat->phases;
    int error = grow(&phases, &flat->phases_size, flat->n_phases + 1, sizeof *flat->phases);
    flat->phases = phases;
    if (error)
        return error;
    flat->phases[flat->n_phases++] =
        (struct lp_analysis_phase){.phase = next->phase, .parent = next->parent, .depth = next->depth};
    return 0;
}

static int flatten_tree(struct flattener *flat, const struct lp_run_phase *root)
{
    int error = push_children(flat, root, LP_ANALYSIS_NONE, 0);
    while (!error && flat->n_stack > 0) {
        struct pending next = flat->stack[--flat->n_stack];
        error = append(flat, &next);
        if (!error)
            error = push_children(flat, next.phase, flat->n_phases - 1, next.depth);
    }
    return error;
}

/* Each moment is in one phase's self time, also of a child that went on beyond the end of all around it. An estimated child
   may come to more than the parent that was measured around it; a whole is never less than its parts. */
static uint64_t wall_of_all(const struct lp_analysis_role *figures)
{
    uint64_t inclusive_ns = 0, self_ns = 0;
    for (size_t i = 0; i < figures->n_phases; i++) {
        const struct lp_run_phase *phase = figures->phases[i].phase;
        bool top = figures->phases[i].parent == LP_ANALYSIS_NONE;
        inclusive_ns = lp_analysis_add(inclusive_ns, top ? phase->wall_ns : 0);
        self_ns = lp_analysis_add(self_ns, lp_run_phase_self_ns(phase));
    }
    return inclusive_ns > self_ns ? inclusive_ns : self_ns;
}

int lp_analysis_flatten(struct lp_analysis_role *figures)
{
    struct flattener flat = {0};
    int error = flatten_tree(&flat, figures->role->tree);
    free(flat.stack);
    if (error) {
        free(flat.phases);
        return error;
    }
    figures->phases = flat.phases;
    figures->n_phases = flat.n_phases;
    figures->wall_ns = wall_of_all(figures);
    return 0;
}

static void measure_wait(struct lp_analysis_phase *figures)
{
    const struct lp_run_phase *phase = figures->phase;
    figures->wait_share = figures->blocked_share = figures->preempted_share = NAN;
    if (!phase->cpu_known)
        return;
    figures->wait_base_ns = lp_analysis_less(phase->wall_ns, phase->nocpu_wall_ns);
    figures->wait_ns = lp_analysis_less(figures->wait_base_ns, phase->cpu_ns);
    figures->wait_share = lp_analysis_ratio((double)figures->wait_ns, (double)figures->wait_base_ns);
    if (phase->blocked_known)
        figures->blocked_share = lp_analysis_ratio((double)phase->blocked_ns, (double)figures->wait_base_ns);
    if (phase->preempted_known)
        figures->preempted_share = lp_analysis_ratio((double)phase->preempted_ns, (double)figures->wait_base_ns);
}

/* No entry took longer than all together, and a single one took exactly that: a bucket's width must not show there. */
static double quantile(const struct lp_hist *hist, double q, uint64_t calls, double ended_ns)
{
    if (lp_hist_total(hist) == 0)
        return NAN;
    double value = lp_hist_quantile(hist, q);
    return calls == 1 || value > ended_ns ? ended_ns : value;
}

static void measure_device_time(struct lp_analysis_phase *figures)
{
    static const struct lp_run_device_time none;
    const struct lp_run_device_time *time = figures->phase->device_time ? figures->phase->device_time : &none;
    figures->gpu_mean_ns = lp_analysis_ratio((double)time->ns, (double)time->calls);
    figures->gpu_p50_ns = quantile(&time->hist, 0.50, time->calls, (double)time->ns);
    figures->gpu_p99_ns = quantile(&time->hist, 0.99, time->calls, (double)time->ns);
}

static void measure_entries(struct lp_analysis_phase *figures)
{
    const struct lp_run_phase *phase = figures->phase;
    double ended_ns = (double)lp_analysis_less(phase->wall_ns, phase->open_wall_ns);
    figures->mean_ns = lp_analysis_ratio(ended_ns, (double)phase->calls);
    figures->p50_ns = quantile(&phase->hist, 0.50, phase->calls, ended_ns);
    figures->p95_ns = quantile(&phase->hist, 0.95, phase->calls, ended_ns);
    figures->p99_ns = quantile(&phase->hist, 0.99, phase->calls, ended_ns);
}

bool lp_analysis_self_estimated(const struct lp_run_phase *phase)
{
    bool estimated = phase->estimated;
    for (size_t i = 0; i < phase->n_children && !estimated; i++)
        estimated = phase->children[i]->estimated;
    return estimated;
}

static void measure_shares(const struct lp_analysis_role *role, struct lp_analysis_phase *figures)
{
    const struct lp_run_phase *phase = figures->phase;
    double role_ns = (double)role->wall_ns;
    figures->share = lp_analysis_ratio((double)phase->wall_ns, role_ns);
    figures->self_share = lp_analysis_ratio((double)figures->self_ns, role_ns);
    figures->parent_share = figures->share;
    if (figures->parent != LP_ANALYSIS_NONE)
        figures->parent_share = lp_analysis_ratio((double)lp_analysis_less(phase->wall_ns, phase->late_wall_ns),
                                                  (double)role->phases[figures->parent].phase->wall_ns);
}

/* What goes on beyond its parent's end is in the self time of no phase further out, either. */
static void mark_around(struct lp_analysis_role *role, size_t inner)
{
    const struct lp_run_phase *phase = role->phases[inner].phase;
    if (!phase->estimated || phase->late_wall_ns == 0)
        return;
    for (size_t i = role->phases[inner].parent; i != LP_ANALYSIS_NONE; i = role->phases[i].parent)
        role->phases[i].self_estimated = true;
}

void lp_analysis_measure(struct lp_analysis_role *role)
{
    for (size_t i = 0; i < role->n_phases; i++) {
        struct lp_analysis_phase *figures = &role->phases[i];
        const struct lp_run_phase *phase = figures->phase;
        figures->self_ns = lp_run_phase_self_ns(phase);
        figures->self_estimated = lp_analysis_self_estimated(phase);
        measure_wait(figures);
        measure_entries(figures);
        measure_device_time(figures);
        measure_shares(role, figures);
        role->open_calls = lp_analysis_add(role->open_calls, phase->open_calls);
        role->cpu_partial |= phase->cpu_known && phase->nocpu_wall_ns > 0;
        role->cpu_missing |= !phase->cpu_known;
        role->wait_explained |= figures->blocked_share > 0 || figures->preempted_share > 0;
    }
    for (size_t i = 0; i < role->n_phases; i++)
        mark_around(role, i);
}

struct lp_analysis_counter lp_analysis_counter(const struct lp_run_phase *phase, const struct lp_run_counter *counter)
{
    struct lp_analysis_counter figures = {.each_ns = NAN};
    figures.rate_per_s = lp_analysis_ratio((double)counter->sum * 1e9, (double)phase->wall_ns);
    if (counter->sum > 0 && phase->wall_ns > 0)
        figures.each_ns = (double)phase->wall_ns / (double)counter->sum;
    return figures;
}
