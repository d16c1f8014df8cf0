#include "analysis/internal.h"
#include "analysis/usage.h"

#include <errno.h>
#include <stdlib.h>

/* Sorts indices by a weight, largest first; equal ones keep the order of the tree, which is that of the names. */

struct weighted {
    uint64_t weight;
    size_t index;
};

static int by_weight(const void *left, const void *right)
{
    const struct weighted *a = left, *b = right;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int sorted_indices(size_t **indices, struct weighted *items, size_t n)
{
    *indices = calloc(n > 0 ? n : 1, sizeof **indices);
    if (*indices == NULL)
        return -ENOMEM;
    if (n > 0)
        qsort(items, n, sizeof *items, by_weight);
    for (size_t i = 0; i < n; i++)
        (*indices)[i] = items[i].index;
    return 0;
}

/* The phase whose children are the first to be more than one, or the only one but with little of its time. In the flat order an only child follows its parent. */
static size_t branching_level(const struct lp_analysis_role *figures)
{
    size_t level = LP_ANALYSIS_NONE;
    const struct lp_run_phase *at = figures->role->tree;
    for (size_t i = 0; i < figures->n_phases && at->n_children == 1; i++) {
        at = figures->phases[i].phase;
        if (at->n_children == 0)
            break; /* Nothing branches: the last phase of the chain is the one row. */
        if (at->n_children == 1 && at->children[0]->wall_ns < at->wall_ns / 2)
            break; /* Below it, most of the time would be in no row. */
        level = i;
    }
    return level;
}

static void add_up_shares(struct lp_analysis_role *figures)
{
    uint64_t rows_ns = 0;
    for (size_t i = 0; i < figures->n_shares; i++) {
        const struct lp_run_phase *phase = figures->phases[figures->shares[i]].phase;
        rows_ns = lp_analysis_add(rows_ns, phase->wall_ns);
        figures->other_estimated |= phase->estimated;
        if (i < LP_ANALYSIS_SHARES_MAX)
            continue;
        figures->small_ns = lp_analysis_add(figures->small_ns, phase->wall_ns);
        figures->small_estimated |= phase->estimated;
    }
    if (figures->n_shares > LP_ANALYSIS_SHARES_MAX) {
        figures->n_small = figures->n_shares - LP_ANALYSIS_SHARES_MAX;
        figures->n_shares = LP_ANALYSIS_SHARES_MAX;
    }
    figures->other_ns = lp_analysis_less(figures->wall_ns, rows_ns);
    double wall_ns = (double)figures->wall_ns;
    figures->small_share = lp_analysis_ratio((double)figures->small_ns, wall_ns);
    figures->other_share = lp_analysis_ratio((double)figures->other_ns, wall_ns);
}

int lp_analysis_choose_shares(struct lp_analysis_role *figures)
{
    figures->level = branching_level(figures);
    struct weighted *rows = calloc(figures->n_phases + 1, sizeof *rows);
    if (rows == NULL)
        return -ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < figures->n_phases; i++)
        if (figures->phases[i].parent == figures->level)
            rows[n++] = (struct weighted){figures->phases[i].phase->wall_ns, i};
    int error = sorted_indices(&figures->shares, rows, n);
    free(rows);
    if (error)
        return error;
    figures->n_shares = n;
    add_up_shares(figures);
    return 0;
}

/* Those of phase(io=True) are shown by a block of their own. */
static bool has_counters(const struct lp_run_phase *phase)
{
    enum lp_run_flow flow;
    for (size_t i = 0; i < phase->n_counters; i++)
        if (!lp_analysis_is_io_counter(&phase->counters[i], &flow))
            return true;
    return false;
}

/* Worth a row of its own: much self time, or counters that would be seen nowhere else. Where no
   time was recorded at all the share is NaN, and every phase is. */
static bool is_dominant(const struct lp_analysis_phase *figures)
{
    return !(figures->self_share < LP_ANALYSIS_DOMINANT_SHARE) || has_counters(figures->phase) ||
           (figures->phase->device_time && figures->phase->device_time->ns > 0);
}

static void leave_out(struct lp_analysis_role *figures, const struct lp_analysis_phase *phase)
{
    figures->n_minor++;
    figures->minor_estimated |= phase->self_estimated;
    figures->minor_self_ns = lp_analysis_add(figures->minor_self_ns, phase->self_ns);
}

int lp_analysis_choose_dominant(struct lp_analysis_role *figures)
{
    struct weighted *rows = calloc(figures->n_phases + 1, sizeof *rows);
    if (rows == NULL)
        return -ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < figures->n_phases; i++) {
        const struct lp_analysis_phase *phase = &figures->phases[i];
        if (phase->phase->is_thread && !has_counters(phase->phase))
            continue;
        if (is_dominant(phase))
            rows[n++] = (struct weighted){phase->self_ns, i};
        else
            leave_out(figures, phase);
    }
    int error = sorted_indices(&figures->dominant, rows, n);
    free(rows);
    if (error)
        return error;
    figures->n_dominant = n < LP_ANALYSIS_DOMINANT_MAX ? n : LP_ANALYSIS_DOMINANT_MAX;
    for (size_t i = figures->n_dominant; i < n; i++)
        leave_out(figures, &figures->phases[figures->dominant[i]]);
    figures->minor_self_share = lp_analysis_ratio((double)figures->minor_self_ns, (double)figures->wall_ns);
    return 0;
}

static bool is_top(const struct lp_analysis_role *figures, size_t index)
{
    size_t parent = figures->phases[index].parent;
    return parent == LP_ANALYSIS_NONE || figures->phases[parent].phase->is_thread;
}

static bool repeats_more(const struct lp_run_phase *phase, const struct lp_run_phase *than)
{
    if (phase->calls != than->calls)
        return phase->calls > than->calls;
    return phase->wall_ns > than->wall_ns;
}

void lp_analysis_choose_repeating(struct lp_analysis_role *figures)
{
    figures->repeating = LP_ANALYSIS_NONE;
    for (size_t i = 0; i < figures->n_phases; i++) {
        const struct lp_run_phase *phase = figures->phases[i].phase;
        if (phase->calls < LP_ANALYSIS_REPEATING_CALLS || !is_top(figures, i))
            continue;
        if (figures->repeating == LP_ANALYSIS_NONE || repeats_more(phase, figures->phases[figures->repeating].phase))
            figures->repeating = i;
    }
}
