#include "run/caveats.h"

#include <stdlib.h>
#include <string.h>

#define SHARED_LEAST_NS UINT64_C(1000000000) /* one profiler may follow another within a moment */

static bool is_shown_as_of_a_flush(const struct lp_run_worker *worker)
{
    return worker->elsewhere && worker->source == LP_SOURCE_FILE && !worker->closed && !worker->ended;
}

/* Shared memory is of its machine. */
static void caveat_elsewhere(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    size_t n = 0, hosts = 0;
    const struct lp_text *first = NULL, *last = NULL;
    for (size_t i = 0; i < run->n_workers; i++) { /* sorted by host */
        const struct lp_run_worker *worker = &run->workers[i];
        if (!is_shown_as_of_a_flush(worker))
            continue;
        hosts += !last || !lp_text_equal(lp_text_span(last), lp_text_span(&worker->host));
        first = first ? first : &worker->host;
        last = &worker->host;
        n++;
    }
    if (n == 0)
        return;
    struct lp_run_line line = {0};
    lp_run_line_add(&line, "%zu worker%s shown as of %s last flush: what came after it can be read on ", n,
                    n == 1 ? " is" : "s are", n == 1 ? "its" : "their");
    lp_run_line_name(&line, lp_text_span(first));
    if (hosts > 1)
        lp_run_line_add(&line, " and %zu other host%s", hosts - 1, lp_run_plural(hosts - 1));
    lp_run_line_add(&line, " only, as long as %s up", hosts == 1 ? "that is" : "those are");
    lp_run_caveat_add(list, "elsewhere", &line);
}

/* Whether both are of one process; what names a process may be unknown. */
static int compare_process(const struct lp_run_worker *a, const struct lp_run_worker *b)
{
    int boots = strcmp(a->boot_id ? a->boot_id : "", b->boot_id ? b->boot_id : "");
    if (boots != 0)
        return boots;
    if (a->pid_namespace != b->pid_namespace)
        return a->pid_namespace < b->pid_namespace ? -1 : 1;
    if (a->process_start_ticks != b->process_start_ticks)
        return a->process_start_ticks < b->process_start_ticks ? -1 : 1;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

static int by_process(const void *a, const void *b)
{
    const struct lp_run_worker *left = *(const struct lp_run_worker *const *)a;
    const struct lp_run_worker *right = *(const struct lp_run_worker *const *)b;
    int processes = compare_process(left, right);
    if (processes != 0 || left->started.monotonic_ns == right->started.monotonic_ns)
        return processes;
    return left->started.monotonic_ns < right->started.monotonic_ns ? -1 : 1;
}

static void find_shared(struct lp_run_concerned *concerned, const struct lp_run_worker **workers, size_t n)
{
    uint64_t until_ns = 0; /* up to which the process has had a worker */
    for (size_t i = 0; i < n; i++) {
        const struct lp_run_worker *worker = workers[i];
        bool same = i > 0 && worker->process_start_ticks != 0 && worker->boot_id && *worker->boot_id &&
                    compare_process(workers[i - 1], worker) == 0;
        uint64_t last_ns = worker->written.monotonic_ns;
        uint64_t both_ns = same ? (last_ns < until_ns ? last_ns : until_ns) : 0;
        if (both_ns >= worker->started.monotonic_ns + SHARED_LEAST_NS)
            lp_run_concern(concerned, worker, 1);
        until_ns = same && until_ns > last_ns ? until_ns : last_ns;
    }
}

/* Each has samples of the process, and its peak. */
static void caveat_shared(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    struct lp_run_concerned concerned = {0};
    const struct lp_run_worker **workers = lp_run_sorted_workers(list, run, by_process);
    if (!workers)
        return;
    find_shared(&concerned, workers, run->n_workers);
    free(workers);
    if (!concerned.n)
        return;
    lp_run_line_add(&line,
                    "%zu worker%s recorded beside another one of the same process: what the process used of "
                    "cores, memory and disks is counted for each of them (",
                    concerned.n, lp_run_plural(concerned.n));
    lp_run_line_concerned(&line, &concerned);
    lp_run_line_add(&line, ")");
    lp_run_caveat_add(list, "shared_process", &line);
}

static int by_rank(const void *a, const void *b)
{
    const struct lp_run_worker *left = *(const struct lp_run_worker *const *)a;
    const struct lp_run_worker *right = *(const struct lp_run_worker *const *)b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    int roles = lp_text_compare(lp_text_span(&left->role), lp_text_span(&right->role));
    if (roles != 0 || left->started.realtime_ns == right->started.realtime_ns)
        return roles;
    return left->started.realtime_ns < right->started.realtime_ns ? -1 : 1;
}

/* A rank's children have its rank, and may have its role. */
static bool is_child(const struct lp_run *run, const struct lp_run_worker *worker)
{
    for (size_t i = 0; i < run->n_workers; i++)
        if (run->workers[i].pid == worker->parent_pid &&
            lp_text_equal(lp_text_span(&run->workers[i].host), lp_text_span(&worker->host)))
            return true;
    return false;
}

static bool is_same_rank(const struct lp_run_worker *a, const struct lp_run_worker *b)
{
    return a->rank == b->rank && lp_text_equal(lp_text_span(&a->role), lp_text_span(&b->role));
}

/* Of those of one role and rank, in the order in which they began: whoever died and had another one after it. Where
   several are there at once, nobody can tell who came for whom. */
static void find_replaced(struct lp_run_concerned *concerned, const struct lp_run *run,
                          const struct lp_run_worker **workers, size_t n)
{
    bool died = false;
    for (size_t i = 1; i < n; i++) {
        if (workers[i]->started.realtime_ns < workers[i - 1]->written.realtime_ns)
            return;
        died = died || lp_run_died(workers[i - 1]);
    }
    if (!died || workers[0]->rank < 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (is_child(run, workers[i]))
            return;
    for (size_t i = 0; i + 1 < n; i++)
        if (lp_run_died(workers[i]))
            lp_run_concern(concerned, workers[i], 1);
}

/* Where somebody gave the run id: else a launcher's restart is an attempt of its own. */
static void caveat_restarted(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    struct lp_run_concerned concerned = {0};
    const struct lp_run_worker **workers = lp_run_sorted_workers(list, run, by_rank);
    if (!workers)
        return;
    for (size_t from = 0, to; from < run->n_workers; from = to) {
        for (to = from + 1; to < run->n_workers && is_same_rank(workers[from], workers[to]);)
            to++;
        find_replaced(&concerned, run, workers + from, to - from);
    }
    free(workers);
    if (!concerned.n)
        return;
    lp_run_line_add(&line,
                    "%zu worker%s ended without close and had another one of the same rank begin afterwards: there are "
                    "more processes than ranks, and the figures of both count (",
                    concerned.n, lp_run_plural(concerned.n));
    lp_run_line_concerned(&line, &concerned);
    lp_run_line_add(&line, ")");
    lp_run_caveat_add(list, "restarted", &line);
}

void lp_run_caveats_of_workers(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    lp_run_caveats_of_ends(list, run);
    caveat_elsewhere(list, run);
    caveat_shared(list, run);
    caveat_restarted(list, run);
}
