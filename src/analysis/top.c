#include "analysis/top.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"
#include "run/table.h"

#define SECOND_NS 1e9
#define UNLIKE 1.5 /* Intervals that are longer than that of the readings by more are not the same. */

struct making {
    const struct lp_top_reading *after, *before; /* Borrowed; before may be NULL. */
    struct lp_top *top;
    struct lp_run_table names; /* The workers of before by name. */
};

/* --- workers --- */

static uint64_t age_of(const struct lp_run_worker *worker, const struct lp_top_reading *now)
{
    bool same_clock = *now->boot_id != '\0' && strcmp(worker->boot_id, now->boot_id) == 0 &&
                      worker->time_namespace == now->time_namespace;
    return same_clock ? lp_analysis_less(now->taken.monotonic_ns, worker->written.monotonic_ns)
                      : lp_analysis_less(now->taken.realtime_ns, worker->written.realtime_ns);
}

static enum lp_top_state state_of(const struct lp_top_worker *row, bool known)
{
    const struct lp_run_worker *worker = row->worker;
    if (worker->closed)
        return LP_TOP_CLOSED;
    if (worker->ended || worker->source == LP_SOURCE_DEAD_IMAGE)
        return LP_TOP_DIED;
    if (worker->source == LP_SOURCE_FILE && worker->stale)
        return LP_TOP_STALE;
    if (worker->source == LP_SOURCE_FILE && row->interval_ns == 0)
        return LP_TOP_SILENT;
    return known ? LP_TOP_LIVE : LP_TOP_NEW;
}

static void measure_worker(struct lp_top_worker *row, const struct lp_run_worker *was)
{
    static const struct lp_run_worker nothing = {0};
    const struct lp_run_worker *is = row->worker;
    double interval_s = (double)row->interval_ns / SECOND_NS;
    was = was != NULL ? was : &nothing;
    row->wall_ns = lp_analysis_less(is->root_wall_ns, was->root_wall_ns);
    uint64_t calls = lp_analysis_less(is->calls, was->calls);
    row->share = lp_analysis_ratio((double)row->wall_ns, (double)row->interval_ns);
    row->calls_per_s = lp_analysis_ratio((double)calls, interval_s);
    if (!is->root_cpu_known)
        return;
    uint64_t cpu_ns = lp_analysis_less(is->root_cpu_ns, was->root_cpu_ns);
    uint64_t nocpu_ns = lp_analysis_less(is->root_nocpu_wall_ns, was->root_nocpu_wall_ns);
    row->wait_base_ns = lp_analysis_less(row->wall_ns, nocpu_ns);
    row->wait_ns = lp_analysis_less(row->wait_base_ns, cpu_ns);
    row->wait_share = lp_analysis_ratio((double)row->wait_ns, (double)row->wait_base_ns);
}

static const struct lp_run_worker *worker_before(const struct making *making, const struct lp_run_worker *worker)
{
    return lp_run_table_find(&making->names, NULL, lp_text_span(&worker->worker));
}

static void make_worker(const struct making *making, size_t index)
{
    struct lp_top_worker *row = &making->top->workers[index];
    const struct lp_run_worker *worker = &making->after->run->workers[index];
    const struct lp_run_worker *was = worker_before(making, worker);
    *row = (struct lp_top_worker){.worker = worker, .share = NAN, .wait_share = NAN, .calls_per_s = NAN};
    row->rss_bytes = making->after->rss_bytes != NULL ? making->after->rss_bytes[index] : NAN;
    row->stopped = making->after->stopped != NULL && making->after->stopped[index];
    row->age_ns = age_of(worker, making->after);
    if (making->before != NULL) {
        uint64_t from_ns = was != NULL ? was->written.monotonic_ns : worker->started.monotonic_ns;
        row->interval_ns = lp_analysis_less(worker->written.monotonic_ns, from_ns);
        if (row->interval_ns > 0)
            measure_worker(row, was);
    }
    row->state = state_of(row, was != NULL || making->before == NULL);
    bool ended = row->state == LP_TOP_CLOSED || row->state == LP_TOP_DIED;
    row->changed = row->state == LP_TOP_NEW ||
                   (making->before != NULL && ended &&
                    (was == NULL || (!was->closed && !was->ended && was->source != LP_SOURCE_DEAD_IMAGE)));
}

/* Those of the earlier reading that left no trace. */
static void add_gone(const struct making *making, const struct lp_run_table *names)
{
    for (size_t i = 0; making->before != NULL && i < making->before->run->n_workers; i++) {
        const struct lp_run_worker *worker = &making->before->run->workers[i];
        if (lp_run_table_find(names, NULL, lp_text_span(&worker->worker)) != NULL)
            continue;
        struct lp_top_worker *row = &making->top->workers[making->top->n_workers++];
        *row = (struct lp_top_worker){.worker = worker,
                                      .state = LP_TOP_GONE,
                                      .changed = true,
                                      .share = NAN,
                                      .wait_share = NAN,
                                      .calls_per_s = NAN,
                                      .rss_bytes = NAN,
                                      .age_ns = age_of(worker, making->after)};
    }
}

static int by_name(struct lp_run_table *table, const struct lp_run *run)
{
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_worker *worker = &run->workers[i];
        if (lp_run_table_add(table, NULL, lp_text_span(&worker->worker), &run->workers[i]) < 0)
            return -ENOMEM;
    }
    return 0;
}

static void count_workers(struct lp_top *top)
{
    for (size_t i = 0; i < top->n_workers; i++) {
        const struct lp_top_worker *row = &top->workers[i];
        if (row->state == LP_TOP_CLOSED)
            top->n_closed++;
        else if (row->state == LP_TOP_DIED)
            top->n_died++;
        else if (row->state == LP_TOP_GONE)
            top->n_gone++;
        else if (row->worker->source == LP_SOURCE_FILE)
            top->n_file++;
        else
            top->n_live++;
    }
}

static int make_workers(struct making *making)
{
    const struct lp_run *run = making->after->run;
    size_t n_before = making->before != NULL ? making->before->run->n_workers : 0;
    struct lp_run_table names = {0};
    making->top->workers = calloc(run->n_workers + n_before + 1, sizeof *making->top->workers);
    int error = making->top->workers == NULL ? -ENOMEM : by_name(&names, run);
    if (!error && making->before != NULL)
        error = by_name(&making->names, making->before->run);
    if (!error) {
        for (size_t i = 0; i < run->n_workers; i++)
            make_worker(making, i);
        making->top->n_workers = run->n_workers;
        add_gone(making, &names);
        count_workers(making->top);
    }
    lp_run_table_release(&names);
    return error;
}

/* --- roles --- */

static bool runs(enum lp_top_state state)
{
    return state == LP_TOP_LIVE || state == LP_TOP_NEW || state == LP_TOP_SILENT;
}

/* Whether its state is older than the one that was read before. */
static bool went_back(const struct making *making, const struct lp_run_worker *is)
{
    const struct lp_run_worker *was = worker_before(making, is);
    return was != NULL && is->written.monotonic_ns < was->written.monotonic_ns;
}

static bool is_gone_from(const struct lp_top_worker *row, const struct lp_run_role *role)
{
    return row->state == LP_TOP_GONE && lp_text_equal(lp_text_span(&row->worker->role), lp_text_span(&role->name));
}

/* A worker counts as a whole one if its interval is that of the readings or more, a shorter life as a part. */
static void add_worker(struct lp_top_role *role, const struct lp_top_worker *row, uint64_t interval_ns)
{
    double part = lp_analysis_ratio((double)row->interval_ns, (double)interval_ns);
    role->n_seen++;
    role->n_whole += part < 1 ? part : 1;
    role->worker_ns = lp_analysis_add(role->worker_ns, row->interval_ns);
    role->rates_estimated |= part > UNLIKE;
    role->calls_per_s = (isnan(role->calls_per_s) ? 0 : role->calls_per_s) + row->calls_per_s;
}

/* The intervals of the role's workers, and what these came to: by worker, so that one whose state went back is left out
   of it. */
static void weigh_workers(struct lp_top_role *role, const struct making *making)
{
    const struct lp_top *top = making->top;
    uint64_t wall_ns = 0, wait_ns = 0, base_ns = 0;
    for (size_t i = 0; i < role->role->n_workers; i++) {
        const struct lp_top_worker *row = &top->workers[role->role->workers[i]];
        const struct lp_run_worker *worker = &making->after->run->workers[role->role->workers[i]];
        role->n_running += runs(row->state);
        role->share_estimated |= worker->root_estimated;
        role->calls_estimated |= worker->calls_estimated;
        role->stepped_back |= went_back(making, worker);
        if (row->interval_ns == 0)
            continue;
        add_worker(role, row, top->interval_ns);
        wall_ns = lp_analysis_add(wall_ns, row->wall_ns);
        wait_ns = lp_analysis_add(wait_ns, row->wait_ns);
        base_ns = lp_analysis_add(base_ns, row->wait_base_ns);
    }
    for (size_t i = making->after->run->n_workers; i < top->n_workers; i++)
        role->stepped_back |= is_gone_from(&top->workers[i], role->role);
    role->share = lp_analysis_ratio((double)wall_ns, (double)role->worker_ns);
    role->wait_share = lp_analysis_ratio((double)wait_ns, (double)base_ns);
}

static double rate_of(const struct lp_top_role *role, double amount)
{
    double known_s = role->stepped_back ? 0 : (double)role->worker_ns / SECOND_NS;
    return lp_analysis_ratio(amount, known_s) * role->n_whole;
}

static double share_of(const struct lp_top_role *role, uint64_t wall_ns)
{
    return lp_analysis_ratio((double)wall_ns, role->stepped_back ? 0 : (double)role->worker_ns);
}

/* --- phases --- */

static const struct lp_run_phase no_phase;

static double wait_between(const struct lp_run_phase *is, const struct lp_run_phase *was, uint64_t wall_ns)
{
    if (!is->cpu_known)
        return NAN;
    uint64_t base_ns = lp_analysis_less(wall_ns, lp_analysis_less(is->nocpu_wall_ns, was->nocpu_wall_ns));
    uint64_t wait_ns = lp_analysis_less(base_ns, lp_analysis_less(is->cpu_ns, was->cpu_ns));
    return lp_analysis_ratio((double)wait_ns, (double)base_ns);
}

/* A phase is below what is open around it. What ended while its figures were being read is in them to its end, and in
   those of the phase around it, which is still open, only to the moment of the reading. */
static uint64_t wall_between(const struct lp_top_role *role, const struct lp_top_phase *row,
                             const struct lp_run_phase *was)
{
    const struct lp_run_phase *is = row->phase;
    uint64_t wall_ns = lp_analysis_less(is->wall_ns, was->wall_ns);
    if (row->parent == LP_ANALYSIS_NONE || is->estimated || role->phases[row->parent].phase->estimated)
        return wall_ns;
    uint64_t late_ns = lp_analysis_less(is->late_wall_ns, was->late_wall_ns);
    uint64_t most_ns = lp_analysis_add(role->phases[row->parent].wall_ns, late_ns);
    return wall_ns < most_ns ? wall_ns : most_ns;
}

static void measure_phase(const struct lp_top_role *role, struct lp_top_phase *row, const struct lp_run_phase *was)
{
    const struct lp_run_phase *is = row->phase;
    uint64_t calls = lp_analysis_less(is->calls, was->calls);
    row->wall_ns = wall_between(role, row, was);
    row->self_ns = lp_analysis_less(lp_run_phase_self_ns(is), lp_run_phase_self_ns(was));
    row->share = share_of(role, row->wall_ns);
    row->self_share = share_of(role, row->self_ns);
    row->idle = !isnan(row->share) && row->wall_ns == 0 && calls == 0;
    if (isnan(row->share))
        return;
    row->wait_share = wait_between(is, was, row->wall_ns);
    if (is->is_thread)
        return;
    row->calls_per_s = rate_of(role, (double)calls);
    row->each_ns = lp_analysis_ratio((double)lp_analysis_less(is->ended_wall_ns, was->ended_wall_ns), (double)calls);
}

static const struct lp_run_counter *counter_before(const struct lp_run_phase *was, const struct lp_text *name)
{
    for (size_t i = 0; i < was->n_counters; i++)
        if (lp_text_equal(lp_text_span(&was->counters[i].name), lp_text_span(name)))
            return &was->counters[i];
    return NULL;
}

/* Whether any of them was counted. */
static bool add_counters(struct lp_top_role *role, const struct lp_run_phase *is, const struct lp_run_phase *was)
{
    bool counted = false;
    for (size_t i = 0; i < is->n_counters; i++) {
        const struct lp_run_counter *counter = &is->counters[i];
        const struct lp_run_counter *before = counter_before(was, &counter->name);
        double sum = (double)(int64_t)((uint64_t)counter->sum - (uint64_t)(before != NULL ? before->sum : 0));
        role->counters[role->n_counters++] = (struct lp_top_counter){counter, rate_of(role, sum)};
        counted |= before == NULL || before->calls != counter->calls;
    }
    return counted;
}

static size_t count_counters(const struct lp_analysis_role *flat)
{
    size_t n = flat->role->tree->n_counters;
    for (size_t i = 0; i < flat->n_phases; i++)
        n += flat->phases[i].phase->n_counters;
    return n;
}

static const struct lp_run_phase *phase_before(const struct lp_run_phase *parent, const struct lp_run_phase *phase)
{
    const struct lp_run_phase *was = lp_run_phase_child(parent, phase->name.bytes, phase->name.len);
    return was != NULL ? was : &no_phase;
}

static void make_phase(struct lp_top_role *role, const struct lp_analysis_role *flat, size_t index,
                       const struct lp_run_phase **before)
{
    const struct lp_analysis_phase *at = &flat->phases[index];
    struct lp_top_phase *row = &role->phases[index];
    const struct lp_run_phase *parent_was =
        at->parent == LP_ANALYSIS_NONE ? before[flat->n_phases] : before[at->parent];
    const struct lp_run_phase *was = phase_before(parent_was, at->phase);
    before[index] = was;
    *row = (struct lp_top_phase){.phase = at->phase,
                                 .parent = at->parent,
                                 .wait_share = NAN,
                                 .calls_per_s = NAN,
                                 .each_ns = NAN,
                                 .self_estimated = lp_analysis_self_estimated(at->phase),
                                 .counters = role->n_counters,
                                 .n_counters = at->phase->n_counters};
    measure_phase(role, row, was);
    if (add_counters(role, at->phase, was))
        row->idle = false;
}

/* before has a place for each phase, and one for the root behind them. */
static int make_phases(struct lp_top_role *role, const struct lp_run_role *was)
{
    struct lp_analysis_role flat = {.role = role->role};
    if (lp_analysis_flatten(&flat) != 0)
        return -ENOMEM;
    const struct lp_run_phase **before = calloc(flat.n_phases + 1, sizeof(const struct lp_run_phase *));
    role->phases = calloc(flat.n_phases + 1, sizeof *role->phases);
    role->counters = calloc(count_counters(&flat) + 1, sizeof *role->counters);
    int error = before == NULL || role->phases == NULL || role->counters == NULL ? -ENOMEM : 0;
    if (!error) {
        before[flat.n_phases] = was != NULL ? was->tree : &no_phase;
        add_counters(role, role->role->tree, before[flat.n_phases]);
        role->n_root_counters = role->n_counters;
        for (size_t i = 0; i < flat.n_phases; i++)
            make_phase(role, &flat, i, before);
        role->n_phases = flat.n_phases;
    }
    free((void *)before);
    free(flat.phases);
    return error;
}

static int make_role(struct making *making, size_t index)
{
    struct lp_top_role *role = &making->top->roles[index];
    const struct lp_text *name = &making->after->run->roles[index].name;
    const struct lp_run_role *was =
        making->before != NULL ? lp_run_role_find(making->before->run, name->bytes, name->len) : NULL;
    *role = (struct lp_top_role){.role = &making->after->run->roles[index], .calls_per_s = NAN};
    making->top->n_roles = index + 1;
    weigh_workers(role, making);
    return make_phases(role, was);
}

/* --- all --- */

static int make_all(struct making *making)
{
    struct lp_top *top = making->top;
    const struct lp_run *run = making->after->run;
    int error = make_workers(making);
    top->roles = calloc(run->n_roles + 1, sizeof *top->roles);
    if (top->roles == NULL)
        error = -ENOMEM;
    for (size_t i = 0; i < run->n_roles && !error; i++)
        error = make_role(making, i);
    return error;
}

int lp_top_make(struct lp_top **out, const struct lp_top_reading *after, const struct lp_top_reading *before)
{
    struct making making = {.after = after, .before = before, .top = calloc(1, sizeof *making.top)};
    *out = NULL;
    if (making.top == NULL)
        return -ENOMEM;
    making.top->run = after->run;
    if (before != NULL && !lp_text_equal(lp_text_span(&before->run->run_id), lp_text_span(&after->run->run_id))) {
        making.top->restarted = true;
        making.before = NULL;
    }
    if (making.before != NULL)
        making.top->interval_ns = lp_analysis_less(after->taken.monotonic_ns, before->taken.monotonic_ns);
    int error = make_all(&making);
    lp_run_table_release(&making.names);
    if (error) {
        lp_top_free(making.top);
        return error;
    }
    *out = making.top;
    return 0;
}

void lp_top_free(struct lp_top *top)
{
    if (top == NULL)
        return;
    for (size_t i = 0; i < top->n_roles; i++) {
        free(top->roles[i].phases);
        free(top->roles[i].counters);
    }
    free(top->roles);
    free(top->workers);
    free(top);
}

/* Flushes are late now and then, and readings fall between them. */
#define SPAN_INTERVALS 1.1
#define SPAN_MORE_NS 1e9

uint64_t lp_top_span_ns(const struct lp_run *run)
{
    double span_ns = 0;
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_worker *worker = &run->workers[i];
        if (worker->source != LP_SOURCE_FILE || worker->closed || worker->ended || worker->stale ||
            !(worker->snapshot_interval_s > 0))
            continue;
        double needed_ns = worker->snapshot_interval_s * SECOND_NS * SPAN_INTERVALS + SPAN_MORE_NS;
        span_ns = needed_ns > span_ns ? needed_ns : span_ns;
    }
    return span_ns < (double)LP_TOP_SPAN_MAX_NS ? (uint64_t)span_ns : LP_TOP_SPAN_MAX_NS;
}
