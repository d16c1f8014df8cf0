#include <string.h>

#include "run/caveats.h"

#define RANGES_MAX 8 /* Of ranks that are missing; the others are counted. */

static struct lp_span view_of(const char *string)
{
    return (struct lp_span){string, strlen(string)};
}

/* "and 3 more", where more than the most are there. */
static void add_rest(struct lp_run_caveat_list *list, const char *kind, size_t n, const char *what)
{
    struct lp_run_line line = {0};
    if (n <= LP_RUN_CAVEATS_MAX)
        return;
    lp_run_line_add(&line, "and %zu more %s", n - LP_RUN_CAVEATS_MAX, what);
    lp_run_caveat_add(list, kind, &line);
}

static void caveat_lost_workers(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    size_t read = run->n_workers + run->filtered.n_left_out;
    if (run->n_unreadable <= read)
        return;
    lp_run_line_add(
        &line, "%zu of %zu worker files could not be read: the figures are those of fewer than half of the processes",
        run->n_unreadable, run->n_unreadable + read);
    lp_run_caveat_add(list, "lost_workers", &line);
}

/* "workers/<host>": how many it holds is not known. Files of workers end in .json, images in .img. */
static bool is_folder(const char *path)
{
    size_t len = strlen(path);
    bool json = len > 5 && strcmp(path + len - 5, ".json") == 0;
    return !json && !(len > 4 && strcmp(path + len - 4, ".img") == 0);
}

static void caveat_unreadable(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    for (size_t i = 0; i < run->n_unreadable && i < LP_RUN_CAVEATS_MAX; i++) {
        struct lp_run_line line = {0};
        const char *path = run->unreadable[i].path;
        lp_run_line_add(&line, is_folder(path) ? "could not be read, all workers in it are missing: "
                                               : "could not be read, that worker is missing: ");
        lp_run_line_text(&line, view_of(path));
        lp_run_line_add(&line, " (");
        lp_run_line_text(&line, view_of(run->unreadable[i].reason));
        lp_run_line_add(&line, ")");
        lp_run_caveat_add(list, "unreadable", &line);
    }
    add_rest(list, "unreadable", run->n_unreadable, "files that could not be read");
}

static void caveat_copies(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    if (!run->n_copies)
        return;
    lp_run_line_add(&line, "%zu worker file%s left out, since the newest of the same worker is read: %s", run->n_copies,
                    run->n_copies == 1 ? " is" : "s are", run->n_copies == 1 ? "" : "one is ");
    lp_run_line_text(&line, view_of(run->copy));
    lp_run_caveat_add(list, "copies", &line);
}

/* Who tells of a run that it was earlier must know it. */
static bool is_of_other_job(const struct lp_run *run, const struct lp_run_superseded *other)
{
    return other->other_job && lp_run_is_beside(run, other);
}

static void add_attempt(struct lp_run_line *line, const struct lp_run_superseded *other, bool with_job)
{
    lp_run_line_name(line, lp_text_span(&other->run_id));
    lp_run_line_add(line, " (");
    if (with_job) {
        lp_run_line_name(line, lp_text_span(&other->job));
        lp_run_line_add(line, ", ");
    }
    lp_run_line_add(line, "%zu worker%s", other->n_workers, lp_run_plural(other->n_workers));
    if (other->n_unreadable)
        lp_run_line_add(line, " and %zu unreadable file%s", other->n_unreadable, lp_run_plural(other->n_unreadable));
    lp_run_line_add(line, ")");
}

static void caveat_superseded(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    size_t left_out = 0;
    bool any_later = false;
    for (size_t i = 0; i < run->n_superseded; i++) {
        const struct lp_run_superseded *superseded = &run->superseded[i];
        struct lp_run_line line = {0};
        any_later |= superseded->later;
        /* What ran at the same time is not earlier, and has a caveat of its own. */
        if (lp_run_did_not_join(run, superseded) || is_of_other_job(run, superseded) || ++left_out > LP_RUN_CAVEATS_MAX)
            continue;
        lp_run_line_add(&line, superseded->later ? "a later attempt in this directory is left out: "
                                                 : "an earlier attempt in this directory is left out: ");
        add_attempt(&line, superseded, false);
        lp_run_caveat_add(list, "superseded", &line);
    }
    add_rest(list, "superseded", left_out, any_later ? "other attempts" : "earlier attempts");
}

static void caveat_other_job(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    size_t n = 0;
    for (size_t i = 0; i < run->n_superseded; i++) {
        struct lp_run_line line = {0};
        if (!is_of_other_job(run, &run->superseded[i]) || ++n > LP_RUN_CAVEATS_MAX)
            continue;
        lp_run_line_add(&line, "another job recorded in this directory at the same time, and is left out: ");
        add_attempt(&line, &run->superseded[i], true);
        if (n == 1)
            lp_run_line_add(&line, "; give each job a run directory of its own");
        lp_run_caveat_add(list, "other_job", &line);
    }
    add_rest(list, "other_job", n, "other jobs");
}

static void caveat_no_run_id(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    size_t attempts = 0, workers = 0;
    for (size_t i = 0; i < run->n_superseded; i++) {
        const struct lp_run_superseded *other = &run->superseded[i];
        if (!lp_run_did_not_join(run, other))
            continue;
        attempts++;
        workers += other->n_workers;
    }
    if (!attempts)
        return;
    lp_run_line_add(&line,
                    "%zu worker%s ran at the same time under %zu other run id%s and did not join this run: "
                    "LINEPROFILER_RUN_ID did not reach them, or a process has opened several profilers",
                    workers, lp_run_plural(workers), attempts, lp_run_plural(attempts));
    lp_run_caveat_add(list, "no_run_id", &line);
}

/* Those that are explained: files that could not be read, and workers who did not join. */
static size_t n_explained(const struct lp_run *run)
{
    size_t n = run->n_unreadable;
    for (size_t i = 0; i < run->n_superseded; i++)
        if (lp_run_did_not_join(run, &run->superseded[i]))
            n += run->superseded[i].n_workers + run->superseded[i].n_unreadable;
    return n;
}

/* "3 and 5-7", "0, 2, 4, 6, 8, 10, 12, 14 and 20 more" */
static void add_ranks(struct lp_run_line *line, const struct lp_run_rank_range *ranges, size_t n, uint64_t all)
{
    uint64_t told = 0;
    for (size_t i = 0; i < n && i < RANGES_MAX; i++) {
        lp_run_line_add(line, "%s", i == 0 ? "" : i + 1 == n ? " and " : ", ");
        lp_run_line_range(line, ranges[i].first, ranges[i].last);
        told += (uint64_t)(ranges[i].last - ranges[i].first) + 1;
    }
    if (all > told)
        lp_run_line_add(line, " and %llu more", (unsigned long long)(all - told));
}

static void caveat_missing_ranks(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    uint64_t n = 0;
    for (size_t i = 0; i < run->n_missing_ranks; i++)
        n += (uint64_t)(run->missing_ranks[i].last - run->missing_ranks[i].first) + 1;
    if (n <= n_explained(run))
        return;
    lp_run_line_add(&line, n == 1 ? "rank " : "ranks ");
    add_ranks(&line, run->missing_ranks, run->n_missing_ranks, n);
    lp_run_line_add(&line,
                    " of %lld %s no file here%s%s: %s opened no profiler, ended before the first write, or wrote to a "
                    "directory that is not this one, as on a disk of another host",
                    (long long)run->world_size, n == 1 ? "has" : "have", run->n_unreadable ? " that could be read" : "",
                    run->live ? " yet" : "", n == 1 ? "it" : "they");
    lp_run_caveat_add(list, "missing_ranks", &line);
}

void lp_run_caveats_of_files(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    caveat_lost_workers(list, run);
    caveat_unreadable(list, run);
    caveat_copies(list, run);
    caveat_superseded(list, run);
    caveat_other_job(list, run);
    caveat_no_run_id(list, run);
    caveat_missing_ranks(list, run);
}
