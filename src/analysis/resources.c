#include "analysis/analysis.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"
#include "run/samples.h"

#define CORES_MAX 65536

/* Which cores the processes of a host may use together. */
struct cores {
    uint8_t usable[CORES_MAX / 8];
    bool unknown; /* some process did not say which */
};

static double known(uint64_t value)
{
    return value ? (double)value : NAN;
}

/* The larger of two, NaN being neither. */
static double larger(double a, double b)
{
    return isnan(a) || b > a ? b : a;
}

static double smaller(double a, double b)
{
    return isnan(a) || b < a ? b : a;
}

/* "0-3,8": adds those to the cores; false if it is no such list. */
static bool add_list(struct cores *cores, const struct lp_text *list)
{
    char *end;
    for (const char *at = list->bytes; at && *at; at = *end == ',' ? end + 1 : end) {
        if (*at < '0' || *at > '9')
            return false;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (last >= CORES_MAX || last < first)
            return false;
        for (; first <= last; first++)
            cores->usable[first / 8] |= (uint8_t)(1u << (first % 8));
    }
    return list->len > 0;
}

static double count_cores(const struct cores *cores)
{
    unsigned n = 0;
    for (size_t i = 0; i < sizeof cores->usable; i++)
        n += (unsigned)__builtin_popcount(cores->usable[i]);
    return n;
}

static double memory_limit(const struct lp_run_machine *machine)
{
    return machine->memory_limit_bytes == UINT64_MAX ? INFINITY : known(machine->memory_limit_bytes);
}

static void take_machine(struct lp_analysis_host *host, const struct lp_run_machine *machine, struct cores *cores)
{
    host->cores = larger(host->cores, known(machine->cores));
    host->cores_usable = larger(host->cores_usable, known(machine->cores_usable));
    host->cpu_limit_cores =
        larger(host->cpu_limit_cores, machine->cpu_limit_cores > 0 ? machine->cpu_limit_cores : NAN);
    host->ram_bytes = larger(host->ram_bytes, known(machine->ram_bytes));
    host->memory_limit_bytes = larger(host->memory_limit_bytes, memory_limit(machine));
    if (machine->cores_usable && !add_list(cores, &machine->usable_list))
        cores->unknown = true;
    if (machine->kernel.len > 0)
        host->kernel = &machine->kernel;
    if (machine->cpu_model.len > 0)
        host->cpu_model = &machine->cpu_model;
}

/* Without knowing which cores the processes may use, what all may use together is not known if it is less than all. */
static void settle_grants(struct lp_analysis_host *host, const struct cores *cores)
{
    double together = count_cores(cores);
    bool which_known = !cores->unknown || host->n_workers <= 1 || host->cores_usable >= host->cores;
    if (!cores->unknown && together > 0)
        host->cores_usable = together;
    host->cores_granted = which_known ? smaller(host->cores, host->cores_usable) : NAN;
    if (which_known && isfinite(host->cpu_limit_cores))
        host->cores_granted = smaller(host->cores_granted, host->cpu_limit_cores);
    double limit_bytes = isfinite(host->memory_limit_bytes) ? host->memory_limit_bytes : NAN;
    host->memory_granted_bytes = smaller(host->ram_bytes, limit_bytes);
}

/* ---- use ------------------------------------------------------------------------------------------------------- */

/* What one process used; NaN: not measured. */
typedef double use_of(const struct lp_run_worker *worker);

static double cores_of(const struct lp_run_worker *worker)
{
    return worker->samples ? lp_run_samples_cores(worker->samples) : NAN;
}

static double rss_of(const struct lp_run_worker *worker)
{
    double sampled = worker->samples && worker->samples->rss_bytes.n ? (double)worker->samples->rss_bytes.peak : NAN;
    return larger(known(worker->peak_rss_bytes), sampled);
}

static double pss_of(const struct lp_run_worker *worker)
{
    return known(worker->pss_bytes);
}

static bool is_on(const struct lp_run *run, const struct lp_run_worker *worker, size_t host)
{
    return worker->host.len == run->hosts[host].len &&
           memcmp(worker->host.bytes, run->hosts[host].bytes, worker->host.len) == 0;
}

/* Some processes of a run. */
struct members {
    const struct lp_run *run;
    const size_t *workers; /* Borrowed: indices. */
    size_t n;
};

static const struct lp_run_worker *member(const struct members *members, size_t i)
{
    return &members->run->workers[members->workers[i]];
}

/* Each process's figure by itself. */
static struct lp_analysis_use weigh(const struct members *members, use_of *use)
{
    struct lp_analysis_use total = {0, NAN, NAN, NAN, NAN, SIZE_MAX};
    double sum = 0;
    for (size_t i = 0; i < members->n; i++) {
        double figure = use(member(members, i));
        if (isnan(figure))
            continue;
        total.n_known++;
        sum += figure;
        if (!(figure <= total.heaviest)) {
            total.heaviest = figure;
            total.heaviest_worker = members->workers[i];
        }
    }
    total.mean = lp_analysis_ratio(sum, (double)total.n_known);
    return total;
}

/* A process comes, or goes with what it had. */
struct event {
    uint64_t at_ns;
    double change;
};

/* Who goes at a moment has gone before who comes. */
static int by_time(const void *a, const void *b)
{
    const struct event *left = a, *right = b;
    if (left->at_ns != right->at_ns)
        return left->at_ns < right->at_ns ? -1 : 1;
    return (left->change > 0) - (right->change > 0);
}

/* The largest sum over processes that ran at the same time. -1 without memory. */
static int sum_at_once(struct lp_analysis_use *total, const struct members *members, use_of *use)
{
    size_t n = 0;
    if (total->n_known == 0)
        return 0;
    struct event *events = calloc(total->n_known, 2 * sizeof *events);
    if (!events)
        return -1;
    for (size_t i = 0; i < members->n; i++) {
        const struct lp_run_worker *worker = member(members, i);
        double figure = use(worker);
        if (isnan(figure))
            continue;
        events[n++] = (struct event){worker->started.realtime_ns, figure};
        events[n++] = (struct event){worker->written.realtime_ns, -figure};
        if (events[n - 1].at_ns <= events[n - 2].at_ns) /* a clock that was set back: it was there all the same */
            events[n - 1].at_ns = events[n - 2].at_ns + 1;
    }
    qsort(events, n, sizeof *events, by_time);
    double now = 0;
    total->sum = 0;
    for (size_t i = 0; i < n; i++) {
        now += events[i].change;
        total->sum = now > total->sum ? now : total->sum;
    }
    free(events);
    return 0;
}

/* CPU time, over the time of the host's part of the run. */
static void sum_cpu(struct lp_analysis_host *host, const struct members *members)
{
    double cpu_ns = 0;
    uint64_t began_ns = UINT64_MAX, ended_ns = 0;
    for (size_t i = 0; i < members->n; i++) {
        const struct lp_run_worker *worker = member(members, i);
        began_ns = worker->started.realtime_ns < began_ns ? worker->started.realtime_ns : began_ns;
        ended_ns = worker->written.realtime_ns > ended_ns ? worker->written.realtime_ns : ended_ns;
        if (!isnan(cores_of(worker)))
            cpu_ns += (double)worker->samples->cpu_ns.sum;
    }
    host->span_ns = (double)lp_analysis_less(ended_ns, began_ns);
    if (host->cpu_cores.n_known)
        host->cpu_cores.sum = lp_analysis_ratio(cpu_ns, host->span_ns);
}

static int measure(struct lp_analysis_host *host, const struct members *members)
{
    host->cpu_cores = weigh(members, cores_of);
    host->rss_bytes = weigh(members, rss_of);
    host->pss_bytes = weigh(members, pss_of);
    sum_cpu(host, members);
    if (sum_at_once(&host->rss_bytes, members, rss_of) < 0 || sum_at_once(&host->pss_bytes, members, pss_of) < 0)
        return -1;
    host->cpu_cores.share = lp_analysis_ratio(host->cpu_cores.sum, host->cores_granted);
    host->rss_bytes.share = lp_analysis_ratio(host->rss_bytes.sum, host->memory_granted_bytes);
    host->pss_bytes.share = lp_analysis_ratio(host->pss_bytes.sum, host->memory_granted_bytes);
    return 0;
}

static int make_host(struct lp_analysis_host *host, const struct members *members, size_t n_machines)
{
    struct cores cores = {0};
    *host = (struct lp_analysis_host){.n_workers = members->n,
                                      .cores = NAN,
                                      .cores_usable = NAN,
                                      .cpu_limit_cores = NAN,
                                      .ram_bytes = NAN,
                                      .memory_limit_bytes = NAN};
    for (size_t i = 0; i < members->n; i++)
        take_machine(host, &member(members, i)->machine, &cores);
    settle_grants(host, &cores);
    if (n_machines > 1) /* the processes say what one of them granted, and not which */
        host->cores_granted = host->memory_granted_bytes = NAN;
    return measure(host, members);
}

static int make_hosts(struct lp_analysis *analysis, size_t *indices)
{
    const struct lp_run *run = analysis->run;
    for (size_t i = 0; i < run->n_hosts; i++) {
        size_t n = 0;
        for (size_t k = 0; k < run->n_workers; k++)
            if (is_on(run, &run->workers[k], i))
                indices[n++] = k;
        if (make_host(&analysis->hosts[i], &(struct members){run, indices, n}, lp_run_machines_of(run, i)) < 0)
            return -1;
    }
    return 0;
}

int lp_analysis_resources(struct lp_analysis *analysis)
{
    const struct lp_run *run = analysis->run;
    size_t *indices = calloc(run->n_workers + 1, sizeof *indices);
    analysis->hosts = calloc(run->n_hosts + 1, sizeof *analysis->hosts);
    int failed = !indices || !analysis->hosts || make_hosts(analysis, indices) < 0;
    free(indices);
    for (size_t i = 0; i < analysis->n_roles; i++) {
        struct lp_analysis_role *role = &analysis->roles[i];
        const struct members members = {run, role->role->workers, role->role->n_workers};
        role->cpu_cores = weigh(&members, cores_of);
        role->rss_bytes = weigh(&members, rss_of);
    }
    return failed ? -ENOMEM : 0;
}

bool lp_analysis_has_resources(const struct lp_analysis *analysis)
{
    const struct lp_analysis_host *hosts = analysis->hosts;
    for (size_t i = 0; i < analysis->run->n_hosts; i++)
        if (!isnan(hosts[i].cores) || !isnan(hosts[i].cores_usable) || !isnan(hosts[i].ram_bytes) ||
            hosts[i].rss_bytes.n_known || hosts[i].cpu_cores.n_known)
            return true;
    return false;
}
