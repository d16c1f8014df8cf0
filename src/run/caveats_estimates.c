/* Sampled phases that were entered too seldom. Each thread measures the first of so many entries and lets it stand for all
   of them: right for the groups that it filled, too much for its last one. */
#include "run/caveats.h"

#define SPARE_LEAST_SHARE 10 /* of so many calls, one that may not have been is worth a word */

static bool is_sampled(const struct lp_run_phase *phase)
{
    return phase->parent && phase->stride_max > phase->parent->stride_max;
}

static void add_caveat(struct lp_run_caveat_list *list, const struct lp_run_role *role,
                       const struct lp_run_phase *phase)
{
    struct lp_run_line line = {0};
    lp_run_line_path(&line, phase);
    if (role->name.len) {
        lp_run_line_add(&line, " of ");
        lp_run_line_name(&line, lp_text_span(&role->name));
    }
    lp_run_line_add(&line,
                    ": up to %llu of its ~%llu calls may not have been, nor their time: some threads entered it too "
                    "seldom for one in %llu to stand for all; sample less there, or not at all",
                    (unsigned long long)phase->spare_calls, (unsigned long long)phase->calls,
                    (unsigned long long)phase->stride_max);
    lp_run_caveat_add(list, "estimated", &line);
}

/* Returns how many there are in all. */
static size_t caveats_below(struct lp_run_caveat_list *list, const struct lp_run_role *role,
                            const struct lp_run_phase *phase, size_t n)
{
    if (is_sampled(phase) && phase->spare_calls > phase->calls / SPARE_LEAST_SHARE && n++ < LP_RUN_CAVEATS_MAX)
        add_caveat(list, role, phase);
    for (size_t i = 0; i < phase->n_children; i++)
        n = caveats_below(list, role, phase->children[i], n);
    return n;
}

void lp_run_caveats_of_estimates(struct lp_run_caveat_list *list, const struct lp_run *run)
{
    struct lp_run_line line = {0};
    size_t n = 0;
    for (size_t i = 0; i < run->n_roles; i++)
        n = caveats_below(list, &run->roles[i], run->roles[i].tree, n);
    if (n <= LP_RUN_CAVEATS_MAX)
        return;
    lp_run_line_add(&line, "and %zu more sampled phases that were entered too seldom", n - LP_RUN_CAVEATS_MAX);
    lp_run_caveat_add(list, "estimated", &line);
}
