#include "run/caveats.h"

#include <stdlib.h>
#include <string.h>

#include "run/room.h"
#include "run/skew.h"

#define SUSPENDED_LEAST_NS 1000000000u

void lp_run_caveat_add(struct lp_run_caveat_list *list, const char *kind, struct lp_run_line *line)
{
    char *text = lp_run_line_take(line);
    if (!text || lp_run_room(&list->caveats, &list->room, list->n_caveats, sizeof *list->caveats) < 0) {
        free(text);
        list->failed = true;
        return;
    }
    list->caveats[list->n_caveats++] = (struct lp_run_caveat){kind, text};
}

void lp_run_line_worker(struct lp_run_line *line, const struct lp_run_worker *worker)
{
    if (worker->role.len) {
        lp_run_line_name(line, lp_text_span(&worker->role));
        lp_run_line_add(line, " ");
    }
    if (worker->rank >= 0)
        lp_run_line_add(line, "rank %lld, ", (long long)worker->rank);
    if (worker->index >= 0)
        lp_run_line_add(line, "index %lld, ", (long long)worker->index);
    lp_run_line_add(line, "pid %lld on ", (long long)worker->pid);
    lp_run_line_name(line, lp_text_span(&worker->host));
}

void lp_run_concern(struct lp_run_concerned *concerned, const struct lp_run_worker *worker, uint64_t count)
{
    if (concerned->n < LP_RUN_NAMED_WORKERS)
        concerned->first[concerned->n] = worker;
    concerned->n++;
    if (__builtin_add_overflow(concerned->count, count, &concerned->count))
        concerned->count = UINT64_MAX;
}

void lp_run_line_concerned(struct lp_run_line *line, const struct lp_run_concerned *concerned)
{
    for (size_t i = 0; i < concerned->n && i < LP_RUN_NAMED_WORKERS; i++) {
        lp_run_line_add(line, i ? ", " : "");
        lp_run_line_worker(line, concerned->first[i]);
    }
    if (concerned->n > LP_RUN_NAMED_WORKERS)
        lp_run_line_add(line, " and %zu more worker%s", concerned->n - LP_RUN_NAMED_WORKERS,
                        lp_run_plural(concerned->n - LP_RUN_NAMED_WORKERS));
}

const struct lp_run_worker **lp_run_sorted_workers(struct lp_run_caveat_list *list, const struct lp_run *run,
                                                   int (*compare)(const void *, const void *))
{
    const struct lp_run_worker **workers = calloc(run->n_workers + 1, sizeof(struct lp_run_worker *));
    if (!workers) {
        list->failed = true;
        return NULL;
    }
    for (size_t i = 0; i < run->n_workers; i++)
        workers[i] = &run->workers[i];
    qsort(workers, run->n_workers, sizeof(struct lp_run_worker *), compare);
    return workers;
}

/* The first phase of the tree, parents before children, with a sum at its limit; counts all of them. */
static const struct lp_run_phase *first_saturated(const struct lp_run_phase *phase, size_t *n)
{
    const struct lp_run_phase *first = NULL;
    bool saturated = phase->saturated;
    for (size_t i = 0; i < phase->n_counters; i++)
        saturated |= phase->counters[i].saturated;
    if (saturated) {
        first = phase;
        ++*n;
    }
    for (size_t i = 0; i < phase->n_children; i++) {
        const struct lp_run_phase *below = first_saturated(phase->children[i], n);
        first = first ? first : below;
    }
    return first;
}

void lp_run_line_path(struct lp_run_line *line, const struct lp_run_phase *phase)
{
    if (!phase->parent) {
        lp_run_line_add(line, "(outside any phase)");
        return;
    }
    if (phase->parent->parent) {
        lp_run_line_path(line, phase->parent);
        lp_run_line_add(line, "/");
    }
    lp_run_line_name(line, lp_text_span(&phase->name));
}

static void caveat_saturated(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    size_t n = 0;
    struct lp_run_line line = {0};
    const struct lp_run_phase *phase = first_saturated(run->tree, &n);
    if (!phase)
        return;
    lp_run_line_add(&line, "sums of %zu phase%s reached the largest number there is and are too low, first in ", n,
                    lp_run_plural(n));
    lp_run_line_path(&line, phase);
    lp_run_caveat_add(list, "saturated", &line);
}

enum several_clocks { ONE_CLOCK, OF_ONE_BOOT, OF_SEVERAL_BOOTS };

/* Workers are sorted by host, so that two boots show side by side. */
static enum several_clocks several_clocks(const struct lp_run *run)
{
    const struct lp_run_worker *last = NULL;
    enum several_clocks several = ONE_CLOCK;
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_worker *worker = &run->workers[i];
        if (!*worker->boot_id) /* a process without descriptors cannot read it */
            continue;
        if (last && strcmp(worker->boot_id, last->boot_id) != 0)
            return OF_SEVERAL_BOOTS;
        if (last && worker->time_namespace != last->time_namespace)
            several = OF_ONE_BOOT;
        last = worker;
    }
    return several;
}

static void add_skew(struct lp_run_line *line, const struct lp_run_skew *skew)
{
    lp_run_line_add(line, ", and these differ: that of ");
    lp_run_line_name(line, lp_text_span(&skew->ahead->host));
    lp_run_line_add(line, " is ahead of that of ");
    lp_run_line_name(line, lp_text_span(&skew->behind->host));
    lp_run_line_add(line, " by about ");
    lp_run_line_duration(line, skew->by_ns);
    lp_run_line_add(line, " (estimated by the stamps of the file server, to ");
    lp_run_line_duration(line, skew->give_ns);
    lp_run_line_add(line, "); what came first on different ones, and how long the run took, may be wrong by as much");
}

/* Of several names the first is told, and how many more there are. */
static void caveat_host_names(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    size_t n = 0, first = 0;
    struct lp_run_line line = {0};
    for (size_t i = 0; i < run->n_hosts; i++) {
        if (lp_run_machines_of(run, i) < 2)
            continue;
        first = n++ ? first : i;
    }
    if (!n)
        return;
    lp_run_line_add(&line, "%zu machines were called ", lp_run_machines_of(run, first));
    lp_run_line_name(&line, lp_text_span(&run->hosts[first]));
    lp_run_line_add(&line, " at the same time");
    if (n > 1)
        lp_run_line_add(&line, ", and so were those of %zu more name%s", n - 1, lp_run_plural(n - 1));
    lp_run_line_add(&line, ": what such a name used is that of all of them together, and what it was granted is not "
                           "known; give each machine a name of its own");
    lp_run_caveat_add(list, "host_names", &line);
}

static void caveat_host_clocks(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    enum several_clocks several = several_clocks(run);
    if (several == ONE_CLOCK)
        return;
    if (several == OF_ONE_BOOT) {
        lp_run_line_add(&line, "processes are in several time namespaces, each with monotonic clocks of its own: when "
                               "things began is by the wall clock; durations of phases are not affected");
    } else if (lp_run_count_machines(run) == 1) {
        lp_run_line_add(&line, "the host restarted while the run lasted: when things began is by its wall clock; "
                               "durations of phases are not affected");
    } else {
        struct lp_run_skew skew = lp_run_skew(run);
        lp_run_line_add(&line, "%zu hosts keep time, each by its own clock", lp_run_count_machines(run));
        if (skew.by_ns)
            add_skew(&line, &skew);
        else
            lp_run_line_add(&line, ": what came first on different ones, and how long the run took, is no surer than "
                                   "those clocks agree");
        lp_run_line_add(&line, "; durations of phases are not affected");
    }
    lp_run_caveat_add(list, "host_clocks", &line);
}

/* CLOCK_BOOTTIME goes on while the machine is suspended, CLOCK_MONOTONIC does not. */
static uint64_t suspended_ns(const struct lp_run_worker *worker)
{
    const struct lp_run_stamp *from = &worker->started, *to = &worker->written;
    int64_t boot_ns = (int64_t)(to->boottime_ns - from->boottime_ns);
    int64_t awake_ns = (int64_t)(to->monotonic_ns - from->monotonic_ns);
    return boot_ns > awake_ns ? (uint64_t)(boot_ns - awake_ns) : 0;
}

/* One line for each host, with the longest that any of its workers went through: workers are sorted by host. */
static void caveat_suspended(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    uint64_t longest_ns = 0;
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_text *host = &run->workers[i].host;
        uint64_t ns = suspended_ns(&run->workers[i]);
        longest_ns = ns > longest_ns ? ns : longest_ns;
        if (i + 1 < run->n_workers && strcmp(host->bytes, run->workers[i + 1].host.bytes) == 0)
            continue;
        if (longest_ns >= SUSPENDED_LEAST_NS) {
            struct lp_run_line line = {0};
            lp_run_line_name(&line, lp_text_span(host));
            lp_run_line_add(&line, " was suspended for ");
            lp_run_line_duration(&line, longest_ns);
            lp_run_line_add(&line, " while it recorded: phases do not contain that time");
            lp_run_caveat_add(list, "clock", &line);
        }
        longest_ns = 0;
    }
}

int lp_run_caveats(struct lp_run *run)
{
    struct lp_run_caveat_list list = {0};
    lp_run_caveats_of_files(&list, run);
    lp_run_caveats_of_workers(&list, run);
    lp_run_caveats_of_troubles(&list, run);
    lp_run_caveats_of_samples(&list, run);
    lp_run_caveats_of_estimates(&list, run);
    caveat_saturated(&list, run);
    caveat_host_names(&list, run);
    caveat_host_clocks(&list, run);
    caveat_suspended(&list, run);
    run->caveats = list.caveats;
    run->n_caveats = list.n_caveats;
    return list.failed ? -1 : 0;
}
