#include "run/build.h"

#include <math.h>
#include <stdlib.h>

#include "run/machines.h"

static int by_worker(const void *a, const void *b)
{
    const struct lp_run_worker *left = a, *right = b;
    int order = lp_text_compare(lp_text_span(&left->host), lp_text_span(&right->host));
    if (order)
        return order;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->index != right->index)
        return left->index < right->index ? -1 : 1;
    if (left->started.realtime_ns != right->started.realtime_ns)
        return left->started.realtime_ns < right->started.realtime_ns ? -1 : 1;
    return lp_text_compare(lp_text_span(&left->worker), lp_text_span(&right->worker));
}

static int by_role(const void *a, const void *b)
{
    const struct lp_run_role_tree *left = *(struct lp_run_role_tree *const *)a;
    const struct lp_run_role_tree *right = *(struct lp_run_role_tree *const *)b;
    return lp_text_compare(lp_text_span(&left->name), lp_text_span(&right->name));
}

static int build_hosts(struct lp_run *run)
{
    run->hosts = calloc(run->n_workers, sizeof *run->hosts);
    if (!run->hosts)
        return -1;
    for (size_t i = 0; i < run->n_workers; i++) {
        struct lp_span host = lp_text_span(&run->workers[i].host);
        if (run->n_hosts && lp_text_equal(lp_text_span(&run->hosts[run->n_hosts - 1]), host))
            continue;
        if (lp_text_copy(&run->hosts[run->n_hosts], host) < 0)
            return -1;
        run->n_hosts++;
    }
    return 0;
}

static struct lp_run_role *role_of(const struct lp_run *run, const struct lp_run_worker *worker)
{
    return (struct lp_run_role *)lp_run_role_find(run, worker->role.bytes, worker->role.len);
}

static double imbalance_of(const struct lp_run *run, const struct lp_run_role *role)
{
    double sum = 0, max = 0;
    for (size_t i = 0; i < role->n_workers; i++) {
        double wall_ns = (double)run->workers[role->workers[i]].root_wall_ns;
        sum += wall_ns;
        max = wall_ns > max ? wall_ns : max;
    }
    return max > 0 ? max / (sum / (double)role->n_workers) : NAN;
}

/* Gives each role the indices of its workers. */
static int build_role_workers(struct lp_run *run)
{
    for (size_t i = 0; i < run->n_workers; i++)
        role_of(run, &run->workers[i])->n_workers++;
    for (size_t i = 0; i < run->n_roles; i++) {
        struct lp_run_role *role = &run->roles[i];
        role->workers = calloc(role->n_workers, sizeof *role->workers);
        if (!role->workers)
            return -1;
        role->n_workers = 0;
    }
    for (size_t i = 0; i < run->n_workers; i++) {
        struct lp_run_role *role = role_of(run, &run->workers[i]);
        role->workers[role->n_workers++] = i;
    }
    for (size_t i = 0; i < run->n_roles; i++)
        run->roles[i].imbalance = imbalance_of(run, &run->roles[i]);
    return 0;
}

/* Seals each role's tree, after it was added to the tree of all. */
static int build_trees(struct lp_run *run, struct lp_run_attempt *attempt, struct lp_run_tree *all)
{
    qsort(attempt->roles, attempt->n_roles, sizeof(struct lp_run_role_tree *), by_role);
    run->roles = calloc(attempt->n_roles, sizeof *run->roles);
    if (!run->roles)
        return -1;
    for (size_t i = 0; i < attempt->n_roles; i++) {
        struct lp_run_role *role = &run->roles[run->n_roles++];
        role->name = attempt->roles[i]->name;
        attempt->roles[i]->name = (struct lp_text){NULL, 0};
        if (lp_run_tree_merge(all, &attempt->roles[i]->tree) < 0)
            return -1;
        role->tree = lp_run_tree_seal(&attempt->roles[i]->tree);
        if (!role->tree)
            return -1;
    }
    run->tree = lp_run_tree_seal(all);
    return run->tree ? 0 : -1;
}

int lp_run_build_attempt(struct lp_run *run, struct lp_run_attempt *attempt)
{
    struct lp_run_tree all;
    run->workers = attempt->workers;
    run->n_workers = attempt->workers_kept;
    attempt->workers = NULL;
    attempt->workers_kept = 0;
    qsort(run->workers, run->n_workers, sizeof *run->workers, by_worker);
    if (lp_text_copy(&run->run_id, lp_text_span(&attempt->run_id)) < 0 || lp_run_tree_init(&all) < 0)
        return -1;
    int result = build_trees(run, attempt, &all);
    lp_run_tree_release(&all);
    if (result < 0 || build_role_workers(run) < 0 || build_hosts(run) < 0 || lp_run_machines(run) < 0)
        return -1;
    run->world_size = attempt->ranks.size;
    return lp_run_ranks_missing(&attempt->ranks, &run->missing_ranks, &run->n_missing_ranks);
}

int lp_run_build_superseded(struct lp_run *run, const struct lp_run_attempts *attempts)
{
    size_t n = attempts->n_attempts;
    if (n < 2)
        return 0;
    lp_run_attempts_sort(attempts);
    run->superseded = calloc(n - 1, sizeof *run->superseded);
    if (!run->superseded)
        return -1;
    const struct lp_run_attempt *chosen = lp_run_attempts_chosen(attempts);
    bool later = true;
    for (size_t i = 0; i < n && chosen; i++) {
        const struct lp_run_attempt *attempt = attempts->attempts[i];
        later &= attempt != chosen;
        if (attempt == chosen)
            continue;
        struct lp_run_superseded *superseded = &run->superseded[run->n_superseded++];
        if (lp_text_copy(&superseded->run_id, lp_text_span(&attempt->run_id)) < 0)
            return -1;
        superseded->later = later;
        superseded->n_workers = attempt->n_workers;
        superseded->started_realtime_ns = attempt->first_started_ns;
        superseded->written_realtime_ns = attempt->last_written_ns;
        superseded->generated = attempt->own_id_until_ns > 0;
        superseded->own_id_until_ns = attempt->own_id_until_ns;
        if (attempt->job.bytes && lp_text_copy(&superseded->job, lp_text_span(&attempt->job)) < 0)
            return -1;
        superseded->other_job = attempt->job.bytes && chosen->job.bytes &&
                                !lp_text_equal(lp_text_span(&attempt->job), lp_text_span(&chosen->job));
    }
    return 0;
}

int lp_run_build_filtered(struct lp_run *run, const struct lp_run_attempt *attempt, const struct lp_run_filter *filter)
{
    if (!filter)
        return 0;
    run->filtered.n_left_out = attempt->n_workers - run->n_workers;
    run->filtered.started_realtime_ns = attempt->first_started_ns;
    return lp_run_filter_copy(&run->filtered.by, filter);
}
