/*
 * caveats: what a reader of the figures must know, in words.
 *
 * Owns: the list lp_run.caveats. Each kind of loss or doubt has its own short function; a caveat is one line that says
 * what happened, to whom, and what it does to the figures. Workers of a role that ended alike share one. Of a kind that names
 * workers or files one by one at most LP_RUN_CAVEATS_MAX are named, and a last line says how many more there are.
 *
 * Looks at the finished model alone.
 */
#ifndef LP_RUN_CAVEATS_H
#define LP_RUN_CAVEATS_H

#include "run/line.h"

#define LP_RUN_CAVEATS_MAX 20 /* Lines of a kind. */

/* Fills run->caveats. 0, or -1 without memory. */
int lp_run_caveats(struct lp_run *run);

/* The list being made, and the parts that fill it. */
struct lp_run_caveat_list {
    struct lp_run_caveat *caveats; /* Owned. */
    size_t n_caveats, room;
    bool failed;
};

/* Ends the line and adds it to the list. kind is a literal. */
void lp_run_caveat_add(struct lp_run_caveat_list *list, const char *kind, struct lp_run_line *line);
void lp_run_caveats_of_estimates(struct lp_run_caveat_list *list, const struct lp_run *run);
void lp_run_caveats_of_files(struct lp_run_caveat_list *list, const struct lp_run *run);
void lp_run_caveats_of_ends(struct lp_run_caveat_list *list, const struct lp_run *run);
void lp_run_caveats_of_workers(struct lp_run_caveat_list *list, const struct lp_run *run);
void lp_run_caveats_of_troubles(struct lp_run_caveat_list *list, const struct lp_run *run);
void lp_run_caveats_of_samples(struct lp_run_caveat_list *list, const struct lp_run *run);

/* Which workers a caveat means: how many, the first few, and the sum of their counts. Zeroed before its first use. */
#define LP_RUN_NAMED_WORKERS 3
struct lp_run_concerned {
    size_t n;
    const struct lp_run_worker *first[LP_RUN_NAMED_WORKERS];
    uint64_t count;
};
void lp_run_concern(struct lp_run_concerned *concerned, const struct lp_run_worker *worker, uint64_t count);
/* "actor pid 4242 on node07, learner pid 7 on node08 and 3 more workers" */
void lp_run_line_concerned(struct lp_run_line *line, const struct lp_run_concerned *concerned);

/* All workers of the run, sorted by pointers to them; to be freed. NULL without memory, which the list then says. */
const struct lp_run_worker **lp_run_sorted_workers(struct lp_run_caveat_list *list, const struct lp_run *run,
                                                   int (*compare)(const void *, const void *));

/* Whether it did not close, as far as can be told: it is not known to live. */
bool lp_run_died(const struct lp_run_worker *worker);

/* "iteration/mcts"; "(outside any phase)" of a root. */
void lp_run_line_path(struct lp_run_line *line, const struct lp_run_phase *phase);

/* "actor pid 4242 on node07" */
void lp_run_line_worker(struct lp_run_line *line, const struct lp_run_worker *worker);

static inline const char *lp_run_plural(size_t n)
{
    return n == 1 ? "" : "s";
}

#endif
