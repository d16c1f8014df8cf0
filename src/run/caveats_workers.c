#include "run/caveats.h"

#include <signal.h>

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
    lp_run_line_text(line, lp_text_span(&oldest->path));
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
    lp_run_line_text(&line, lp_text_span(first));
    if (hosts > 1)
        lp_run_line_add(&line, " and %zu other host%s", hosts - 1, lp_run_plural(hosts - 1));
    lp_run_line_add(&line, " only, as long as %s up", hosts == 1 ? "that is" : "those are");
    lp_run_caveat_add(list, "elsewhere", &line);
}

void lp_run_caveats_of_workers(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    caveats_of_kind(list, run, stale, "that stopped writing before the end of the run");
    caveats_of_kind(list, run, open_phase, "without close, inside a phase");
    caveats_of_kind(list, run, unclosed, "without close");
    caveat_elsewhere(list, run);
}
