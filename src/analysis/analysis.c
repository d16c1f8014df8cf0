#include "analysis/analysis.h"

#include <errno.h>
#include <stdlib.h>

#include "analysis/internal.h"
#include "analysis/usage.h"

/* Which process of the role did most, and what one did on average: the two sides of its imbalance.
 */
static void weigh_workers(struct lp_analysis_role *figures, const struct lp_run *run)
{
    const struct lp_run_role *role = figures->role;
    uint64_t most_ns = 0;
    double sum_ns = 0;
    figures->busiest = LP_ANALYSIS_NONE;
    for (size_t i = 0; i < role->n_workers; i++) {
        uint64_t wall_ns = run->workers[role->workers[i]].root_wall_ns;
        sum_ns += (double)wall_ns;
        if (wall_ns > most_ns) {
            most_ns = wall_ns;
            figures->busiest = role->workers[i];
        }
    }
    figures->mean_wall_ns = lp_analysis_ratio(sum_ns, (double)role->n_workers);
}

static int make_role(struct lp_analysis_role *figures, const struct lp_run *run)
{
    weigh_workers(figures, run);
    int error = lp_analysis_flatten(figures);
    if (error)
        return error;
    lp_analysis_measure(figures);
    lp_analysis_choose_repeating(figures);
    error = lp_analysis_choose_shares(figures);
    if (error)
        return error;
    error = lp_analysis_choose_dominant(figures);
    return error ? error : lp_analysis_pace(figures, run);
}

static size_t count_not_joined(const struct lp_run *run)
{
    size_t n = 0;
    for (size_t i = 0; i < run->n_superseded; i++)
        if (lp_run_did_not_join(run, &run->superseded[i]))
            n += run->superseded[i].n_workers;
    return n;
}

static int make_usage(struct lp_analysis *analysis)
{
    analysis->usage = calloc(1, sizeof *analysis->usage);
    return analysis->usage == NULL ? -ENOMEM : lp_analysis_usage_make(analysis->usage, analysis);
}

int lp_analysis_make(struct lp_analysis **out, const struct lp_run *run)
{
    *out = NULL;
    struct lp_analysis *analysis = calloc(1, sizeof *analysis);
    if (analysis == NULL)
        return -ENOMEM;
    analysis->run = run;
    analysis->n_lost = run->n_unreadable;
    analysis->most_lost = run->n_unreadable > run->n_workers + run->filtered.n_left_out;
    analysis->n_not_joined = count_not_joined(run);
    analysis->roles = calloc(run->n_roles + 1, sizeof *analysis->roles);
    int error = analysis->roles == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < run->n_roles && !error; i++) {
        analysis->roles[i].role = &run->roles[i];
        analysis->n_roles = i + 1;
        error = make_role(&analysis->roles[i], run);
    }
    if (!error)
        error = lp_analysis_resources(analysis);
    if (!error)
        error = make_usage(analysis);
    if (error) {
        lp_analysis_free(analysis);
        return error;
    }
    *out = analysis;
    return 0;
}

void lp_analysis_free(struct lp_analysis *analysis)
{
    if (analysis == NULL)
        return;
    if (analysis->usage != NULL)
        lp_analysis_usage_free(analysis->usage, analysis->n_roles);
    free(analysis->usage);
    for (size_t i = 0; i < analysis->n_roles; i++) {
        free(analysis->roles[i].phases);
        free(analysis->roles[i].shares);
        free(analysis->roles[i].dominant);
        free(analysis->roles[i].slow_hosts.paces);
        free(analysis->roles[i].slow_workers.paces);
    }
    free(analysis->roles);
    free(analysis->hosts);
    free(analysis);
}
