#include "run/caveats.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SHARED_LEAST_NS UINT64_C(1000000000) /* one profiler may follow another within a moment */

/* Compared by address. */
static const char stale[] = "stale", open_phase[] = "open", unclosed[] = "unclosed";

/* "inside iteration/mcts, open 3.2s" for the thread whose open phase is the oldest; how many more threads were in one.
   */
static void add_open(struct lp_run_line *line, const struct lp_run_worker *worker)
{
    const struct lp_run_open *oldest = &worker->open[0];
    for (size_t i = 1; i < worker->n_open; i++)
        if (worker->open[i].open_ns > oldest->open_ns)
            oldest = &worker->open[i];
    lp_run_line_add(line, " inside ");
    lp_run_line_name(line, lp_text_span(&oldest->path));
    if (oldest->open_ns > 0) { /* else it was entered after the worker's last sign of life */
        lp_run_line_add(line, ", open ");
        lp_run_line_duration(line, oldest->open_ns);
        if (worker->ended) /* that long it was seen */
            lp_run_line_add(line, " or more");
    }
    if (worker->n_open > 1)
        lp_run_line_add(line, " (and %zu more thread%s inside a phase)", worker->n_open - 1,
                        lp_run_plural(worker->n_open - 1));
}

static const char *signal_name(int64_t number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"}, {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
        {SIGINT, "SIGINT"},   {SIGHUP, "SIGHUP"},   {SIGFPE, "SIGFPE"},   {SIGILL, "SIGILL"},   {SIGQUIT, "SIGQUIT"},
        {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGPIPE, "SIGPIPE"}, {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].number == number)
            return names[i].name;
    return NULL;
}

static void add_end(struct lp_run_line *line, const struct lp_run_worker *worker)
{
    const char *name = signal_name(worker->signal);
    if (name)
        lp_run_line_add(line, ", killed by %s", name);
    else if (worker->signal > 0)
        lp_run_line_add(line, ", killed by signal %lld", (long long)worker->signal);
    else if (worker->exit_status >= 0)
        lp_run_line_add(line, ", with exit status %lld", (long long)worker->exit_status);
    if (worker->n_open)
        lp_run_line_add(line, worker->signal > 0 || worker->exit_status >= 0 ? "," : "");
}

/* What is known of a worker that did not close: that it ended, or only when it wrote last. */
static void describe(struct lp_run_line *line, const struct lp_run_worker *worker)
{
    lp_run_line_worker(line, worker);
    if (worker->ended) {
        lp_run_line_add(line, " ended without close");
        add_end(line, worker);
    } else if (worker->stale) {
        lp_run_line_add(line, " stopped writing ");
        lp_run_line_duration(line, worker->silent_ns);
        lp_run_line_add(line, " before the end of the run, without close");
    } else {
        lp_run_line_add(line, " was last written without close");
    }
    if (worker->n_open)
        add_open(line, worker);
}

/* The caveat's kind, NULL for a worker that is closed or known to live. */
static const char *kind_of(const struct lp_run_worker *worker)
{
    if (worker->closed || worker->source == LP_SOURCE_LIVE_IMAGE)
        return NULL;
    if (worker->stale && worker->source == LP_SOURCE_FILE)
        return stale;
    return worker->n_open ? open_phase : unclosed;
}

static void caveats_of_kind(struct lp_run_caveat_list *list, const struct lp_run *run, const char *kind,
                            const char *rest)
{
    size_t n = 0;
    for (size_t i = 0; i < run->n_workers; i++) {
        const char *is = kind_of(&run->workers[i]);
        if (is != kind || ++n > LP_RUN_CAVEATS_MAX)
            continue;
        struct lp_run_line line = {0};
        describe(&line, &run->workers[i]);
        lp_run_caveat_add(list, kind, &line);
    }
    if (n > LP_RUN_CAVEATS_MAX) {
        struct lp_run_line line = {0};
        lp_run_line_add(&line, "and %zu more workers %s", n - LP_RUN_CAVEATS_MAX, rest);
        lp_run_caveat_add(list, kind, &line);
    }
}

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

/* To be freed. NULL without memory, which the list then says. */
static const struct lp_run_worker **sorted_workers(struct lp_run_caveat_list *list, const struct lp_run *run,
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
    const struct lp_run_worker **workers = sorted_workers(list, run, by_process);
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
        died = died || kind_of(workers[i - 1]);
    }
    if (!died || workers[0]->rank < 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (is_child(run, workers[i]))
            return;
    for (size_t i = 0; i + 1 < n; i++)
        if (kind_of(workers[i]))
            lp_run_concern(concerned, workers[i], 1);
}

/* Where somebody gave the run id: else a launcher's restart is an attempt of its own. */
static void caveat_restarted(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    struct lp_run_concerned concerned = {0};
    const struct lp_run_worker **workers = sorted_workers(list, run, by_rank);
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
    caveats_of_kind(list, run, stale, "that stopped writing before the end of the run");
    caveats_of_kind(list, run, open_phase, "without close, inside a phase");
    caveats_of_kind(list, run, unclosed, "without close");
    caveat_elsewhere(list, run);
    caveat_shared(list, run);
    caveat_restarted(list, run);
}
