#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/analysis.h"
#include "model/model.h"

struct fixture {
    struct model model;
    struct lp_run_role *role;
    struct lp_analysis *analysis;
};

static struct fixture *begin(void)
{
    static struct fixture fixture;
    fixture = (struct fixture){0};
    model_run(&fixture.model);
    fixture.role = model_role(&fixture.model, "actor");
    model_worker(&fixture.model, fixture.role, "node07");
    return &fixture;
}

static const struct lp_analysis_role *analyse(struct fixture *fixture)
{
    lp_analysis_free(fixture->analysis);
    assert_int_equal(lp_analysis_make(&fixture->analysis, fixture->model.run), 0);
    return &fixture->analysis->roles[0];
}

static void end(struct fixture *fixture)
{
    lp_analysis_free(fixture->analysis);
    model_free(&fixture->model);
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.17g is not %.17g", value, expected);
}

static const char *name_of(const struct lp_analysis_role *role, size_t index)
{
    return role->phases[index].phase->name.bytes;
}

static void test_a_parent_stands_before_its_children(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *a = model_phase(&f->model, f->role->tree, "a");
    struct lp_run_phase *b = model_phase(&f->model, a, "b");
    model_phase(&f->model, b, "c");
    model_phase(&f->model, a, "d");
    model_phase(&f->model, f->role->tree, "e");
    const struct lp_analysis_role *role = analyse(f);
    static const size_t parents[] = {LP_ANALYSIS_NONE, 0, 1, 0, LP_ANALYSIS_NONE};
    static const unsigned depths[] = {1, 2, 3, 2, 1};
    assert_int_equal(role->n_phases, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(name_of(role, i)[0], "abcde"[i]);
        assert_int_equal(role->phases[i].parent, parents[i]);
        assert_int_equal(role->phases[i].depth, depths[i]);
    }
    end(f);
}

/* J4: a phase that only wraps a blocking call has more wait than self time; it pairs with wall. */
static void test_wait_pairs_with_wall(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *outer = model_phase(&f->model, f->role->tree, "outer");
    struct lp_run_phase *inner = model_phase(&f->model, outer, "inner");
    model_entries(&f->model, inner, 10, 90 * MS, 1.0);
    model_entries(&f->model, outer, 10, 100 * MS, 0.9);
    const struct lp_analysis_phase *figures = &analyse(f)->phases[0];
    assert_int_equal(figures->self_ns, 100 * MS);
    assert_int_equal(figures->wait_ns, 900 * MS);
    assert_int_equal(figures->wait_base_ns, 1 * S);
    assert_near(figures->wait_share, 0.9);
    end(f);
}

/* B7, H2: no CPU figures are no figures; some are figures of that part. */
static void test_wait_that_was_not_measured(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *none = model_phase(&f->model, f->role->tree, "none");
    struct lp_run_phase *some = model_phase(&f->model, f->role->tree, "some");
    model_entries(&f->model, none, 1, 1 * S, 0);
    none->cpu_known = false;
    none->cpu_ns = 0;
    model_entries(&f->model, some, 2, 1 * S, 0.5);
    some->nocpu_wall_ns = 1 * S;
    some->cpu_ns = 250 * MS;
    const struct lp_analysis_role *role = analyse(f);
    assert_true(isnan(role->phases[0].wait_share));
    assert_near(role->phases[1].wait_share, 0.75);
    assert_int_equal(role->phases[1].wait_base_ns, 1 * S);
    assert_true(role->cpu_missing);
    assert_true(role->cpu_partial);
    end(f);
}

/* A CPU clock that ran ahead of the wall clock by a tick is no negative wait. */
static void test_wait_is_never_negative(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *phase = model_phase(&f->model, f->role->tree, "spin");
    model_entries(&f->model, phase, 1, 1 * S, 0);
    phase->cpu_ns += 500;
    const struct lp_analysis_phase *figures = &analyse(f)->phases[0];
    assert_int_equal(figures->wait_ns, 0);
    assert_true(figures->wait_share == 0);
    end(f);
}

static void test_open_time_is_in_wall_but_in_no_mean(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *phase = model_phase(&f->model, f->role->tree, "epoch");
    model_entries(&f->model, phase, 2, 10 * S, 0);
    phase->open_calls = 1;
    phase->open_wall_ns = 5 * S;
    phase->wall_ns += 5 * S;
    const struct lp_analysis_role *role = analyse(f);
    assert_int_equal(role->phases[0].self_ns, 25 * S);
    assert_near(role->phases[0].mean_ns, 10e9);
    assert_int_equal(role->open_calls, 1);
    phase->calls = 0;
    phase->hist = (struct lp_hist){0};
    role = analyse(f);
    assert_true(isnan(role->phases[0].mean_ns));
    assert_true(isnan(role->phases[0].p50_ns));
    assert_int_equal(role->n_dominant, 1);
    end(f);
}

/* K2 */
static void test_shares_are_of_the_first_level_that_branches(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *iteration = model_phase(&f->model, f->role->tree, "iteration");
    struct lp_run_phase *play = model_phase(&f->model, iteration, "self_play");
    struct lp_run_phase *env = model_phase(&f->model, play, "env_step");
    struct lp_run_phase *mcts = model_phase(&f->model, play, "mcts");
    model_entries(&f->model, env, 1, 10 * S, 0);
    model_entries(&f->model, mcts, 1, 60 * S, 0);
    model_entries(&f->model, play, 1, 80 * S, 0);
    model_entries(&f->model, iteration, 1, 100 * S, 0);
    const struct lp_analysis_role *role = analyse(f);
    assert_string_equal(name_of(role, role->level), "self_play");
    assert_int_equal(role->n_shares, 2);
    assert_string_equal(name_of(role, role->shares[0]), "mcts");
    assert_near(role->phases[role->shares[0]].share, 0.6);
    assert_near(role->phases[role->shares[1]].share, 0.1);
    assert_int_equal(role->other_ns, 30 * S);
    assert_near(role->other_share, 0.3);
    assert_near(role->phases[1].parent_share, 0.8);
    end(f);
}

static void test_shares_where_nothing_branches(void **state)
{
    (void)state;
    struct fixture *f = begin();
    assert_int_equal(analyse(f)->n_shares, 0);
    assert_true(isnan(analyse(f)->other_share));
    struct lp_run_phase *train = model_phase(&f->model, f->role->tree, "train");
    model_entries(&f->model, train, 1, 10 * S, 0);
    const struct lp_analysis_role *role = analyse(f);
    assert_int_equal(role->level, LP_ANALYSIS_NONE);
    assert_int_equal(role->n_shares, 1);
    assert_near(role->phases[role->shares[0]].share, 1);
    struct lp_run_phase *step = model_phase(&f->model, train, "step");
    model_entries(&f->model, step, 1, 9 * S, 0);
    role = analyse(f);
    assert_int_equal(role->level, 0);
    assert_string_equal(name_of(role, role->shares[0]), "step");
    assert_near(role->other_share, 0.1);
    model_entries(&f->model, model_phase(&f->model, step, "log"), 1, S, 0);
    model_entries(&f->model, model_phase(&f->model, step, "eval"), 1, S, 0);
    role = analyse(f);
    assert_string_equal(name_of(role, role->level), "step");
    end(f);
}

/* A little thing alone inside a phase is not where its time went. */
static void test_shares_above_an_only_child_with_little_time(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *train = model_phase(&f->model, f->role->tree, "train");
    model_entries(&f->model, train, 1, 10 * S, 0);
    model_entries(&f->model, model_phase(&f->model, train, "log"), 1, S, 0);
    const struct lp_analysis_role *role = analyse(f);
    assert_int_equal(role->level, LP_ANALYSIS_NONE);
    assert_string_equal(name_of(role, role->shares[0]), "train");
    assert_near(role->phases[role->shares[0]].share, 1);
    end(f);
}

static void test_many_shares_are_added_up(void **state)
{
    (void)state;
    struct fixture *f = begin();
    for (int i = 0; i < 14; i++) {
        char name[] = {'p', (char)('a' + i), '\0'};
        struct lp_run_phase *phase = model_phase(&f->model, f->role->tree, name);
        model_entries(&f->model, phase, 1, (uint64_t)(i + 1) * S, 0);
    }
    const struct lp_analysis_role *role = analyse(f);
    assert_int_equal(role->n_shares, LP_ANALYSIS_SHARES_MAX);
    assert_string_equal(name_of(role, role->shares[0]), "pn");
    assert_int_equal(role->n_small, 4);
    assert_false(role->small_estimated);
    assert_int_equal(role->small_ns, 10 * S);
    assert_int_equal(role->other_ns, 0);
    assert_near(role->small_share, 10.0 / 105);
    end(f);
}

/* Exits out of order: time beyond the parent's end is in no parent, so the whole is more than its top level. */
static void test_late_time_does_not_make_more_than_all(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *outer = model_phase(&f->model, f->role->tree, "outer");
    struct lp_run_phase *inner = model_phase(&f->model, outer, "inner");
    model_entries(&f->model, inner, 1, 15 * S, 0);
    inner->late_wall_ns = 5 * S;
    outer->child_wall_ns = 10 * S;
    model_entries(&f->model, outer, 1, 12 * S, 0);
    const struct lp_analysis_role *role = analyse(f);
    assert_int_equal(role->wall_ns, 17 * S);
    assert_near(role->phases[0].self_share + role->phases[1].self_share, 1);
    assert_near(role->phases[1].parent_share, 10.0 / 12);
    assert_near(role->other_share, 2.0 / 17);
    end(f);
}

/* An estimate may exceed what was measured around it. */
static void test_an_estimate_is_never_more_than_all(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *outer = model_phase(&f->model, f->role->tree, "outer");
    struct lp_run_phase *inner = model_phase(&f->model, outer, "inner");
    model_entries(&f->model, inner, 100, 1 * S, 0);
    model_sampled(inner, 100, 100);
    model_entries(&f->model, outer, 1, 90 * S, 0);
    const struct lp_analysis_role *role = analyse(f);
    assert_near(role->phases[role->shares[0]].share, 1);
    assert_int_equal(role->other_ns, 0);
    assert_true(role->phases[0].self_estimated);
    assert_false(role->phases[0].phase->estimated);
    assert_true(role->other_estimated);
    end(f);
}

/* K3 */
static void test_dominant_phases_by_self_time(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *a = model_phase(&f->model, f->role->tree, "a");
    struct lp_run_phase *b = model_phase(&f->model, a, "b");
    struct lp_run_phase *c = model_phase(&f->model, a, "c");
    struct lp_run_phase *d = model_phase(&f->model, a, "d");
    model_entries(&f->model, b, 1, 500 * MS, 0);
    model_entries(&f->model, c, 1, 70 * S, 0);
    model_entries(&f->model, d, 1, 100 * MS, 0);
    model_counter(&f->model, d, "samples", 5, 5);
    model_entries(&f->model, a, 1, 100 * S, 0);
    const struct lp_analysis_role *role = analyse(f);
    assert_int_equal(role->n_dominant, 3);
    assert_string_equal(name_of(role, role->dominant[0]), "c");
    assert_string_equal(name_of(role, role->dominant[1]), "a");
    assert_string_equal(name_of(role, role->dominant[2]), "d"); /* Small, but it counts something. */
    assert_int_equal(role->n_minor, 1);
    assert_int_equal(role->minor_self_ns, 500 * MS);
    assert_near(role->minor_self_share, 0.005);
    end(f);
}

static void test_phases_without_any_time_are_still_listed(void **state)
{
    (void)state;
    struct fixture *f = begin();
    model_phase(&f->model, f->role->tree, "quick")->calls = 7;
    const struct lp_analysis_role *role = analyse(f);
    assert_int_equal(role->n_dominant, 1);
    assert_int_equal(role->repeating, 0);
    assert_true(isnan(role->phases[0].share));
    end(f);
}

static void test_dominant_phases_are_not_endless(void **state)
{
    (void)state;
    struct fixture *f = begin();
    for (int i = 0; i < 40; i++) {
        char name[] = {'p', (char)('A' + i), '\0'};
        model_entries(&f->model, model_phase(&f->model, f->role->tree, name), 1, 1 * S, 0);
    }
    const struct lp_analysis_role *role = analyse(f);
    assert_int_equal(role->n_dominant, LP_ANALYSIS_DOMINANT_MAX);
    assert_int_equal(role->n_minor, 40 - LP_ANALYSIS_DOMINANT_MAX);
    assert_int_equal(role->minor_self_ns, (40 - LP_ANALYSIS_DOMINANT_MAX) * S);
    assert_string_equal(name_of(role, role->dominant[0]), "pA"); /* Ties in the order of names. */
    end(f);
}

/* K4 */
static void test_the_repeating_phase(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *setup = model_phase(&f->model, f->role->tree, "setup");
    struct lp_run_phase *step = model_phase(&f->model, f->role->tree, "step");
    struct lp_run_phase *inner = model_phase(&f->model, step, "inner");
    model_entries(&f->model, setup, 1, 1 * S, 0);
    model_entries(&f->model, inner, 100, 1 * MS, 0);
    model_entries(&f->model, step, 2, 1 * S, 0);
    assert_int_equal(analyse(f)->repeating, LP_ANALYSIS_NONE);
    model_entries(&f->model, step, 1, 1 * S, 0);
    const struct lp_analysis_role *role = analyse(f);
    assert_string_equal(name_of(role, role->repeating), "step");
    end(f);
}

/* G4: a thread's name is a level, not a phase. */
static void test_threads_are_looked_through(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *learner = model_phase(&f->model, f->role->tree, "learner");
    struct lp_run_phase *step = model_phase(&f->model, learner, "train_step");
    struct lp_run_phase *collector = model_phase(&f->model, f->role->tree, "collector");
    struct lp_run_phase *drain = model_phase(&f->model, collector, "drain_queue");
    learner->is_thread = collector->is_thread = true;
    model_entries(&f->model, step, 100, 40 * MS, 0.04);
    model_entries(&f->model, drain, 1000, 2 * MS, 0.94);
    learner->wall_ns = learner->child_wall_ns;
    collector->wall_ns = collector->child_wall_ns;
    const struct lp_analysis_role *role = analyse(f);
    assert_int_equal(role->level, LP_ANALYSIS_NONE);
    assert_string_equal(name_of(role, role->shares[0]), "learner");
    assert_int_equal(role->n_dominant, 2);
    assert_string_equal(name_of(role, role->dominant[0]), "train_step");
    assert_string_equal(name_of(role, role->repeating), "drain_queue");
    assert_int_equal(role->n_minor, 0);
    end(f);
}

static void test_counters(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *mcts = model_phase(&f->model, f->role->tree, "mcts");
    model_entries(&f->model, mcts, 80, 9400 * US, 0);
    struct lp_run_counter *counter = model_counter(&f->model, mcts, "simulations", 4800, 75);
    struct lp_analysis_counter figures = lp_analysis_counter(mcts, counter);
    assert_near(figures.rate_per_s, 4800 / 0.752);
    assert_near(figures.each_ns, 752e6 / 4800);
    counter->sum = 0;
    assert_true(isnan(lp_analysis_counter(mcts, counter).each_ns));
    assert_true(lp_analysis_counter(mcts, counter).rate_per_s == 0);
    counter->sum = -48;
    assert_true(lp_analysis_counter(mcts, counter).rate_per_s < 0);
    assert_true(isnan(lp_analysis_counter(mcts, counter).each_ns));
    assert_true(isnan(lp_analysis_counter(f->role->tree, counter).rate_per_s));
    end(f);
}

/* K11 */
static void test_losses(void **state)
{
    (void)state;
    struct fixture *f = begin();
    model_unreadable(&f->model, "workers/a/w.json", "not JSON");
    analyse(f);
    assert_int_equal(f->analysis->n_lost, 1);
    assert_false(f->analysis->most_lost); /* Half is not most. */
    model_unreadable(&f->model, "workers/a/v.json", "not JSON");
    analyse(f);
    assert_true(f->analysis->most_lost);
    end(f);
}

/* K11: reruns are over, and those who were told their run id meant it. */
static void test_workers_that_did_not_join_K11(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run *run = f->model.run;
    model_superseded(&f->model, "given", 2, false);
    model_superseded(&f->model, "before", 4, true);
    run->superseded[1].own_id_until_ns = run->started_realtime_ns; /* what it started may still be there */
    analyse(f);
    assert_int_equal(f->analysis->n_not_joined, 0);
    model_superseded(&f->model, "beside", 8, true);
    model_superseded(&f->model, "beside too", 16, true);
    analyse(f);
    assert_int_equal(f->analysis->n_not_joined, 24);
    assert_int_equal(f->analysis->n_lost, 0);
    end(f);
}

static void test_the_busiest_worker(void **state)
{
    (void)state;
    struct fixture *f = begin();
    assert_int_equal(analyse(f)->busiest, LP_ANALYSIS_NONE);
    model_worker(&f->model, f->role, "node08")->root_wall_ns = 30 * S;
    model_worker(&f->model, f->role, "node08")->root_wall_ns = 60 * S;
    const struct lp_analysis_role *role = analyse(f);
    assert_int_equal(role->busiest, 2);
    assert_near(role->mean_wall_ns, 30e9);
    end(f);
}

static void test_sums_do_not_wrap(void **state)
{
    (void)state;
    struct fixture *f = begin();
    for (int i = 0; i < 2; i++) {
        struct lp_run_phase *phase = model_phase(&f->model, f->role->tree, i == 0 ? "a" : "b");
        phase->wall_ns = UINT64_MAX - 5;
        phase->calls = UINT64_MAX;
    }
    const struct lp_analysis_role *role = analyse(f);
    assert_int_equal(role->wall_ns, UINT64_MAX);
    assert_int_equal(role->other_ns, 0);
    assert_true(role->phases[0].share <= 1);
    end(f);
}

/* A tree as deep as no reader lets through: no recursion of ours runs out of stack. */
static void test_a_very_deep_tree(void **state)
{
    (void)state;
    struct fixture *f = begin();
    struct lp_run_phase *at = f->role->tree;
    for (int i = 0; i < 100000; i++)
        at = model_phase(&f->model, at, "deeper");
    assert_int_equal(analyse(f)->n_phases, 100000);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_parent_stands_before_its_children),
        cmocka_unit_test(test_wait_pairs_with_wall),
        cmocka_unit_test(test_wait_that_was_not_measured),
        cmocka_unit_test(test_wait_is_never_negative),
        cmocka_unit_test(test_open_time_is_in_wall_but_in_no_mean),
        cmocka_unit_test(test_shares_are_of_the_first_level_that_branches),
        cmocka_unit_test(test_shares_where_nothing_branches),
        cmocka_unit_test(test_shares_above_an_only_child_with_little_time),
        cmocka_unit_test(test_many_shares_are_added_up),
        cmocka_unit_test(test_late_time_does_not_make_more_than_all),
        cmocka_unit_test(test_an_estimate_is_never_more_than_all),
        cmocka_unit_test(test_dominant_phases_by_self_time),
        cmocka_unit_test(test_phases_without_any_time_are_still_listed),
        cmocka_unit_test(test_dominant_phases_are_not_endless),
        cmocka_unit_test(test_the_repeating_phase),
        cmocka_unit_test(test_threads_are_looked_through),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_workers_that_did_not_join_K11),
        cmocka_unit_test(test_the_busiest_worker),
        cmocka_unit_test(test_sums_do_not_wrap),
        cmocka_unit_test(test_a_very_deep_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
