#include "analysis/pace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/chance.h"
#include "analysis/internal.h"

#define SLOW_PART 4 /* At most one in so many can stand out among the others. */
#define TESTED_MAX 64

/* A host or a process: what is compared. */
struct unit {
    size_t host, worker, n_workers;
    double wall_ns, base_ns, wait_ns; /* In phases; base_ns is the part of which wait is known. */
};

/* What a unit did in a phase. */
struct part {
    size_t phase, unit;
    double calls, self_ns;
    double log; /* Of the mean. */
};

struct comparison {
    const struct lp_run *run;
    const struct lp_analysis_role *figures;
    struct unit *units; /* Owned. */
    size_t n_units;
    struct part *parts; /* Owned; sorted by phase, then log. */
    size_t n_parts;
    struct lp_analysis_pace *best; /* Owned: of each unit; ratio 0: nothing beyond a median. */
    double *waits;                 /* Owned: room for a share of each unit. */
};

/* ---- units and parts ------------------------------------------------------------------------------------------------- */

static void add_worker(struct unit *unit, const struct lp_run_worker *worker)
{
    double base_ns = (double)worker->root_wall_ns - (double)worker->root_nocpu_wall_ns;
    unit->n_workers++;
    unit->wall_ns += (double)worker->root_wall_ns;
    if (!worker->root_cpu_known || base_ns <= 0)
        return;
    unit->base_ns += base_ns;
    unit->wait_ns += fmax(0, base_ns - (double)worker->root_cpu_ns);
}

/* Workers are sorted by host, in the order of the hosts. */
static size_t host_of(const struct lp_run *run, const struct lp_run_worker *worker, size_t from)
{
    while (from + 1 < run->n_hosts && (worker->host.len != run->hosts[from].len ||
                                       memcmp(worker->host.bytes, run->hosts[from].bytes, worker->host.len) != 0))
        from++;
    return from;
}

struct numbered {
    const struct lp_run_phase *phase;
    size_t index;
};

static int by_address(const void *a, const void *b)
{
    const struct numbered *left = a, *right = b;
    return (left->phase > right->phase) - (left->phase < right->phase);
}

static void add_parts(struct comparison *comparison, const struct numbered *phases, const struct lp_run_worker *worker,
                      size_t unit)
{
    for (size_t i = 0; i < worker->n_paces; i++) {
        const struct lp_run_pace *pace = &worker->paces[i];
        const struct numbered key = {pace->phase, 0};
        const struct numbered *phase = bsearch(&key, phases, comparison->figures->n_phases, sizeof *phases, by_address);
        if (phase && pace->calls && pace->self_ns)
            comparison->parts[comparison->n_parts++] =
                (struct part){phase->index, unit, (double)pace->calls, (double)pace->self_ns, 0};
    }
}

static void take_workers(struct comparison *comparison, const struct numbered *phases, bool hosts)
{
    const struct lp_run *run = comparison->run;
    const struct lp_run_role *role = comparison->figures->role;
    for (size_t i = 0, host = 0; i < role->n_workers; i++) {
        const struct lp_run_worker *worker = &run->workers[role->workers[i]];
        size_t n = comparison->n_units;
        host = host_of(run, worker, host);
        if (!hosts || n == 0 || comparison->units[n - 1].host != host)
            comparison->units[comparison->n_units++] =
                (struct unit){.host = host, .worker = hosts ? SIZE_MAX : role->workers[i]};
        add_worker(&comparison->units[comparison->n_units - 1], worker);
        add_parts(comparison, phases, worker, comparison->n_units - 1);
    }
}

static int by_unit(const void *a, const void *b)
{
    const struct part *left = a, *right = b;
    if (left->phase != right->phase)
        return left->phase < right->phase ? -1 : 1;
    return (left->unit > right->unit) - (left->unit < right->unit);
}

static int by_pace(const void *a, const void *b)
{
    const struct part *left = a, *right = b;
    if (left->phase != right->phase)
        return left->phase < right->phase ? -1 : 1;
    if (left->log != right->log)
        return left->log < right->log ? -1 : 1;
    return (left->unit > right->unit) - (left->unit < right->unit);
}

/* Those of one unit and phase become one: of hosts, each process has its own. */
static void settle_parts(struct comparison *comparison)
{
    struct part *parts = comparison->parts;
    size_t n = 0;
    if (comparison->n_parts == 0)
        return;
    qsort(parts, comparison->n_parts, sizeof *parts, by_unit);
    for (size_t i = 0; i < comparison->n_parts; i++) {
        if (n > 0 && parts[n - 1].phase == parts[i].phase && parts[n - 1].unit == parts[i].unit) {
            parts[n - 1].calls += parts[i].calls;
            parts[n - 1].self_ns += parts[i].self_ns;
        } else {
            parts[n++] = parts[i];
        }
    }
    comparison->n_parts = n;
    for (size_t i = 0; i < n; i++)
        parts[i].log = log(parts[i].self_ns / parts[i].calls);
    qsort(parts, n, sizeof *parts, by_pace);
}

/* ---- one phase ------------------------------------------------------------------------------------------------------- */

/* Whether Student's t is beyond what it is with a chance of p. The normal tail, which is cheap to ask, is the shorter one. */
static bool is_far(double t, double df, double p)
{
    return t > lp_chance_normal(p) && t > lp_chance_student(df, p);
}

/* How many of the last of n ascending logarithms stand out (Rosner's test, upwards only). p is for each of them. */
static size_t count_slow(const struct part *parts, size_t n, double p)
{
    size_t slow = 0, most = n / SLOW_PART < TESTED_MAX ? n / SLOW_PART : TESTED_MAX;
    double shift = parts[n / 2].log, sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double x = parts[i].log - shift;
        sum += x;
        squares += x * x;
    }
    for (size_t tested = 1; tested <= most; tested++) {
        size_t others = n - tested;
        double x = parts[others].log - shift;
        sum -= x;
        squares -= x * x;
        if (x < log(LP_PACE_RATIO) || others < 2)
            break; /* Too little to be said anyway. */
        double count = (double)others, mean = sum / count;
        double sd = sqrt(fmax(0, (squares - sum * mean) / (count - 1))), beyond = (x - mean) / sqrt(1 + 1 / count);
        if (is_far(beyond / fmax(sd, LP_PACE_LEAST_SPREAD), count - 1, p) ||
            is_far(beyond / fmax(sd, LP_PACE_USUAL_SPREAD), count - 1 + LP_PACE_USUAL_DF, p))
            slow = tested;
    }
    return slow;
}

static void weigh(struct comparison *comparison, const struct part *part, double median_ns, bool stands_out)
{
    const struct unit *unit = &comparison->units[part->unit];
    struct lp_analysis_pace *best = &comparison->best[part->unit];
    double mean_ns = part->self_ns / part->calls;
    struct lp_analysis_pace pace = {.host = unit->host,
                                    .worker = unit->worker,
                                    .n_workers = unit->n_workers,
                                    .phase = part->phase,
                                    .mean_ns = mean_ns,
                                    .median_ns = median_ns,
                                    .ratio = mean_ns / median_ns,
                                    .extra_ns = part->calls * (mean_ns - median_ns)};
    pace.extra_share = lp_analysis_ratio(pace.extra_ns, unit->wall_ns);
    pace.notable = stands_out && pace.ratio >= LP_PACE_RATIO && pace.extra_share >= LP_PACE_SHARE;
    if (pace.extra_ns <= 0 || (best->notable && !pace.notable))
        return;
    if (pace.notable > best->notable || pace.extra_ns > best->extra_ns)
        *best = pace;
}

static void compare_phase(struct comparison *comparison, const struct part *parts, size_t n, double p)
{
    double low = parts[(n - 1) / 2].log, high = parts[n / 2].log;
    double median_ns = (exp(low) + exp(high)) / 2;
    size_t slow = count_slow(parts, n, p);
    for (size_t i = 0; i < n; i++)
        weigh(comparison, &parts[i], median_ns, i >= n - slow);
}

/* Calls compare_phase for each phase that several have. */
static void compare_phases(struct comparison *comparison)
{
    size_t tests = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0, k; i < comparison->n_parts; i = k) {
            for (k = i + 1; k < comparison->n_parts && comparison->parts[k].phase == comparison->parts[i].phase; k++)
                ;
            if (k - i < 2)
                continue;
            if (pass == 0)
                tests += k - i;
            else
                compare_phase(comparison, comparison->parts + i, k - i, LP_PACE_ERROR / (double)tests);
        }
}

/* ---- the slowest ----------------------------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static double median_wait(const struct comparison *comparison)
{
    size_t n = 0;
    for (size_t i = 0; i < comparison->n_units; i++)
        if (comparison->units[i].base_ns > 0)
            comparison->waits[n++] = comparison->units[i].wait_ns / comparison->units[i].base_ns;
    if (n == 0)
        return NAN;
    qsort(comparison->waits, n, sizeof *comparison->waits, by_number);
    return (comparison->waits[(n - 1) / 2] + comparison->waits[n / 2]) / 2;
}

static int by_cost(const void *a, const void *b)
{
    const struct lp_analysis_pace *left = a, *right = b;
    if (left->notable != right->notable)
        return left->notable ? -1 : 1;
    if (left->extra_ns != right->extra_ns)
        return left->extra_ns > right->extra_ns ? -1 : 1;
    if (left->host != right->host)
        return left->host < right->host ? -1 : 1;
    return (left->worker > right->worker) - (left->worker < right->worker);
}

static int hand_out(struct lp_analysis_paces *paces, struct comparison *comparison)
{
    size_t n = 0;
    double median_wait_share = median_wait(comparison);
    for (size_t i = 0; i < comparison->n_units; i++) {
        const struct unit *unit = &comparison->units[i];
        struct lp_analysis_pace pace = comparison->best[i];
        if (pace.ratio <= 0)
            continue;
        pace.wait_share = lp_analysis_ratio(unit->wait_ns, unit->base_ns);
        pace.median_wait_share = median_wait_share;
        paces->n_notable += pace.notable;
        comparison->best[n++] = pace;
    }
    if (n == 0)
        return 0;
    qsort(comparison->best, n, sizeof *comparison->best, by_cost);
    paces->n = n < LP_PACES_MAX ? n : LP_PACES_MAX;
    paces->paces = malloc(paces->n * sizeof *paces->paces);
    if (!paces->paces)
        return -ENOMEM;
    memcpy(paces->paces, comparison->best, paces->n * sizeof *paces->paces);
    return 0;
}

static int compare(struct lp_analysis_paces *paces, const struct lp_run *run, const struct lp_analysis_role *figures,
                   const struct numbered *phases, bool hosts)
{
    size_t n = figures->role->n_workers, n_parts = 0;
    for (size_t i = 0; i < n; i++)
        n_parts += run->workers[figures->role->workers[i]].n_paces;
    struct comparison comparison = {.run = run,
                                    .figures = figures,
                                    .units = calloc(n + 1, sizeof *comparison.units),
                                    .parts = calloc(n_parts + 1, sizeof *comparison.parts),
                                    .best = calloc(n + 1, sizeof *comparison.best),
                                    .waits = calloc(n + 1, sizeof *comparison.waits)};
    int error = -ENOMEM;
    if (comparison.units && comparison.parts && comparison.best && comparison.waits) {
        take_workers(&comparison, phases, hosts);
        settle_parts(&comparison);
        compare_phases(&comparison);
        error = hand_out(paces, &comparison);
    }
    free(comparison.units);
    free(comparison.parts);
    free(comparison.best);
    free(comparison.waits);
    return error;
}

int lp_analysis_pace(struct lp_analysis_role *figures, const struct lp_run *run)
{
    struct numbered *phases = calloc(figures->n_phases + 1, sizeof *phases);
    if (!phases)
        return -ENOMEM;
    for (size_t i = 0; i < figures->n_phases; i++)
        phases[i] = (struct numbered){figures->phases[i].phase, i};
    if (figures->n_phases)
        qsort(phases, figures->n_phases, sizeof *phases, by_address);
    int error = compare(&figures->slow_hosts, run, figures, phases, true);
    if (!error)
        error = compare(&figures->slow_workers, run, figures, phases, false);
    free(phases);
    return error;
}
