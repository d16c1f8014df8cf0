/* Workers that did not close: one line for each, or for all that ended alike. */
#include "run/caveats.h"

#include <stdint.h>
#include <stdlib.h>

#define NAMED_SPANS 8 /* Roles, or ranges of numbers, of one line. */

/* Compared by address. */
static const char stale[] = "stale", open_phase[] = "open", unclosed[] = "unclosed";

/* "inside iteration/mcts, open 3.2s"; how many more threads were in a phase. */
static void add_open(struct lp_run_line *line, const struct lp_run_worker *worker)
{
    const struct lp_run_open *oldest = lp_run_longest_open(worker);
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

static void add_end(struct lp_run_line *line, const struct lp_run_worker *worker)
{
    const char *name = lp_run_signal_name(worker->signal);
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

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

bool lp_run_died(const struct lp_run_worker *worker)
{
    return kind_of(worker) != NULL;
}

static int compare_roles(const struct lp_run_worker *a, const struct lp_run_worker *b)
{
    return lp_text_compare(lp_text_span(&a->role), lp_text_span(&b->role));
}

/* 0 for workers of which the same can be said: their kind, how they ended, and, of one role, inside of what. Those that
   were in no phase have lost nothing, whatever they were. */
static int compare_ends(const struct lp_run_worker *a, const struct lp_run_worker *b)
{
    const char *kind = kind_of(a), *other = kind_of(b);
    int order = ORDER((uintptr_t)kind, (uintptr_t)other);
    if (order == 0 && kind != unclosed)
        order = compare_roles(a, b);
    if (order != 0 || !kind || kind == stale)
        return order;
    order = ORDER(a->ended, b->ended);
    order = order ? order : ORDER(a->signal, b->signal);
    order = order ? order : ORDER(a->exit_status, b->exit_status);
    if (order != 0 || kind != open_phase)
        return order;
    return lp_text_compare(lp_text_span(&lp_run_longest_open(a)->path), lp_text_span(&lp_run_longest_open(b)->path));
}

static int by_end(const void *a, const void *b)
{
    const struct lp_run_worker *left = *(const struct lp_run_worker *const *)a;
    const struct lp_run_worker *right = *(const struct lp_run_worker *const *)b;
    int order = compare_ends(left, right);
    order = order ? order : compare_roles(left, right);
    order = order ? order : ORDER(left->rank, right->rank);
    order = order ? order : ORDER(left->index, right->index);
    return order ? order : ORDER(left, right); /* as the run has them */
}

/* "stopped writing 1m 31s to 2h 28m before the end of the run, without close" */
static void add_silence(struct lp_run_line *line, const struct lp_run_worker **workers, size_t n)
{
    uint64_t least_ns = workers[0]->silent_ns, most_ns = least_ns;
    for (size_t i = 1; i < n; i++) {
        least_ns = workers[i]->silent_ns < least_ns ? workers[i]->silent_ns : least_ns;
        most_ns = workers[i]->silent_ns > most_ns ? workers[i]->silent_ns : most_ns;
    }
    lp_run_line_add(line, " stopped writing ");
    lp_run_line_duration(line, least_ns);
    lp_run_line_add(line, " to ");
    lp_run_line_duration(line, most_ns);
    lp_run_line_add(line, " before the end of the run, without close");
}

/* "inside iteration/mcts, the longest open 3.2s" */
static void add_longest_open(struct lp_run_line *line, const struct lp_run_worker **workers, size_t n)
{
    uint64_t longest_ns = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t open_ns = lp_run_longest_open(workers[i])->open_ns;
        longest_ns = open_ns > longest_ns ? open_ns : longest_ns;
    }
    lp_run_line_add(line, " inside ");
    lp_run_line_name(line, lp_text_span(&lp_run_longest_open(workers[0])->path));
    if (longest_ns == 0)
        return;
    lp_run_line_add(line, ", the longest open ");
    lp_run_line_duration(line, longest_ns);
    if (workers[0]->ended)
        lp_run_line_add(line, " or more");
}

static int64_t rank_of(const struct lp_run_worker *worker)
{
    return worker->rank;
}

static int64_t index_of(const struct lp_run_worker *worker)
{
    return worker->index;
}

/* "env index 0-2, 5"; false if not all have a number. They are sorted by it. */
static bool add_numbers(struct lp_run_line *line, const char *what, int64_t (*number)(const struct lp_run_worker *),
                        const struct lp_run_worker **workers, size_t n)
{
    size_t spans = 0;
    for (size_t i = 0; i < n; i++)
        if (number(workers[i]) < 0 || (i > 0 && number(workers[i]) < number(workers[i - 1])))
            return false;
    if (workers[0]->role.len)
        lp_run_line_name(line, lp_text_span(&workers[0]->role));
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && number(workers[to]) <= number(workers[to - 1]) + 1;)
            to++;
        if (++spans > NAMED_SPANS) {
            lp_run_line_add(line, " and %zu more workers", n - from);
            break;
        }
        lp_run_line_add(line, "%s", spans == 1 ? what : ", ");
        lp_run_line_range(line, number(workers[from]), number(workers[to - 1]));
    }
    return true;
}

/* How many each role has: "Actor x16, Params x2, ray task x3". */
static void add_roles(struct lp_run_line *line, const struct lp_run_worker **workers, size_t n)
{
    size_t roles = 0;
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && compare_roles(workers[from], workers[to]) == 0;)
            to++;
        if (++roles > NAMED_SPANS)
            continue;
        lp_run_line_add(line, from ? ", " : "");
        lp_run_line_name(line, lp_text_span(&workers[from]->role));
        lp_run_line_add(line, " x%zu", to - from);
    }
    if (roles > NAMED_SPANS)
        lp_run_line_add(line, " and %zu more role%s", roles - NAMED_SPANS, lp_run_plural(roles - NAMED_SPANS));
}

static void add_who(struct lp_run_line *line, const struct lp_run_worker **workers, size_t n)
{
    struct lp_run_concerned concerned = {0};
    if (compare_roles(workers[0], workers[n - 1]) != 0) {
        add_roles(line, workers, n);
        return;
    }
    if (add_numbers(line, " rank ", rank_of, workers, n) || add_numbers(line, " index ", index_of, workers, n))
        return;
    for (size_t i = 0; i < n; i++)
        lp_run_concern(&concerned, workers[i], 1);
    lp_run_line_concerned(line, &concerned);
}

/* One line for all of them: sixteen actors that ended with their job are one thing to know, not sixteen. */
static void describe_alike(struct lp_run_line *line, const struct lp_run_worker **workers, size_t n)
{
    lp_run_line_add(line, "%zu workers", n);
    if (kind_of(workers[0]) == stale) {
        add_silence(line, workers, n);
    } else if (workers[0]->ended) {
        lp_run_line_add(line, " ended without close");
        add_end(line, workers[0]);
    } else {
        lp_run_line_add(line, " were last written without close");
    }
    if (kind_of(workers[0]) == open_phase)
        add_longest_open(line, workers, n);
    lp_run_line_add(line, " (");
    add_who(line, workers, n);
    lp_run_line_add(line, ")");
}

/* Of n workers of a kind of caveat, those that are alike side by side. */
static void caveats_of_kind(struct lp_run_caveat_list *list, const struct lp_run_worker **workers, size_t n,
                            const char *rest)
{
    size_t lines = 0, from = 0;
    while (from < n && lines < LP_RUN_CAVEATS_MAX) {
        struct lp_run_line line = {0};
        size_t to = from + 1;
        while (to < n && compare_ends(workers[from], workers[to]) == 0)
            to++;
        if (to - from <= LP_RUN_NAMED_WORKERS)
            to = from + 1;
        if (to - from == 1)
            describe(&line, workers[from]);
        else
            describe_alike(&line, workers + from, to - from);
        lp_run_caveat_add(list, kind_of(workers[from]), &line);
        from = to;
        lines++;
    }
    if (from < n) {
        struct lp_run_line line = {0};
        lp_run_line_add(&line, "and %zu more worker%s %s", n - from, lp_run_plural(n - from), rest);
        lp_run_caveat_add(list, kind_of(workers[from]), &line);
    }
}

void lp_run_caveats_of_ends(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    static const struct {
        const char *kind, *rest;
    } kinds[] = {
        {stale, "that stopped writing before the end of the run"},
        {open_phase, "without close, inside a phase"},
        {unclosed, "without close"},
    };
    const struct lp_run_worker **workers = lp_run_sorted_workers(list, run, by_end);
    if (!workers)
        return;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t from = 0, to;
        while (from < run->n_workers && kind_of(workers[from]) != kinds[i].kind)
            from++;
        for (to = from; to < run->n_workers && kind_of(workers[to]) == kinds[i].kind;)
            to++;
        caveats_of_kind(list, workers + from, to - from, kinds[i].rest);
    }
    free(workers);
}
