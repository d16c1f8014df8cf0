/* Who is slower than the others, and when that is worth saying. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "analysis/analysis.h"
#include "model/model.h"

#define ENTRIES 100

/* Some ranks over some hosts; in phase 0 a rank's entry takes what times says, in ns. */
struct fleet {
    struct model model;
    struct lp_run_role *role;
    struct lp_run_phase *phases[4];
    struct lp_analysis *analysis;
};

static uint64_t seed;

/* Uniform in [0, 1): the same in each run of the test. */
static double draw(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(seed >> 11) / (double)(UINT64_C(1) << 53);
}

/* Nearly normal, of mean 0 and standard deviation 1. */
static double noise(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += draw();
    return sum;
}

static void add_pace(struct fleet *fleet, struct lp_run_worker *worker, size_t phase, double each_ns)
{
    struct lp_run_pace *paces = model_append(&fleet->model, worker->paces, worker->n_paces, sizeof *paces);
    paces[worker->n_paces++] = (struct lp_run_pace){fleet->phases[phase], ENTRIES, (uint64_t)(each_ns * ENTRIES)};
    worker->paces = paces;
}

static void begin(struct fleet *fleet, size_t n_phases)
{
    static const char *const names[] = {"compute", "load", "save", "wait"};
    *fleet = (struct fleet){0};
    seed = 1;
    model_run(&fleet->model);
    fleet->role = model_role(&fleet->model, "learner");
    for (size_t i = 0; i < n_phases; i++)
        fleet->phases[i] = model_phase(&fleet->model, fleet->role->tree, names[i]);
}

static struct lp_run_worker *add_rank(struct fleet *fleet, size_t per_host, double wall_ns)
{
    char host[32];
    size_t n = fleet->model.run->n_workers;
    snprintf(host, sizeof host, "node%04zu", n / per_host);
    struct lp_run_worker *worker = model_worker(&fleet->model, fleet->role, host);
    worker->rank = (int64_t)n;
    worker->root_wall_ns = (uint64_t)(wall_ns * ENTRIES);
    worker->root_cpu_known = true;
    return worker;
}

static const struct lp_analysis_role *analyse(struct fleet *fleet)
{
    assert_int_equal(lp_analysis_make(&fleet->analysis, fleet->model.run), 0);
    return &fleet->analysis->roles[0];
}

static void end(struct fleet *fleet)
{
    lp_analysis_free(fleet->analysis);
    model_free(&fleet->model);
}

/* Data-parallel ranks: each iteration ends for all when the slowest is through, and the others wait for it. */
static void test_a_slow_rank_MN07(void **state)
{
    (void)state;
    struct fleet fleet;
    const double step_ns = 100e6, iteration_ns = 125e6;
    begin(&fleet, 4);
    for (size_t rank = 0; rank < 8; rank++) {
        struct lp_run_worker *worker = add_rank(&fleet, 4, iteration_ns);
        double compute_ns = step_ns * (rank == 5 ? 1.2 : 1) * (1 + 0.005 * noise());
        add_pace(&fleet, worker, 0, compute_ns);
        add_pace(&fleet, worker, 3, iteration_ns - compute_ns);
        worker->root_cpu_ns = (uint64_t)(compute_ns * ENTRIES);
    }
    const struct lp_analysis_role *role = analyse(&fleet);
    assert_int_equal(role->slow_workers.n_notable, 1);
    const struct lp_analysis_pace *slow = &role->slow_workers.paces[0];
    assert_true(slow->notable);
    assert_int_equal(fleet.model.run->workers[slow->worker].rank, 5);
    assert_int_equal(slow->phase, 0);
    assert_true(fabs(slow->ratio - 1.2) < 0.02);
    assert_true(fabs(slow->extra_ns - 0.2 * step_ns * ENTRIES) < 0.02 * step_ns * ENTRIES);
    assert_true(slow->wait_share < 0.06);
    assert_true(slow->median_wait_share > 0.15);
    assert_false(role->slow_hosts.n_notable); /* of two hosts none can be told to be the odd one */
    end(&fleet);
}

static void test_a_slow_host(void **state)
{
    (void)state;
    struct fleet fleet;
    begin(&fleet, 1);
    for (size_t rank = 0; rank < 64; rank++)
        add_pace(&fleet, add_rank(&fleet, 8, 131e6), 0, (rank / 8 == 3 ? 131e6 : 100e6) * (1 + 0.03 * noise()));
    const struct lp_analysis_role *role = analyse(&fleet);
    assert_int_equal(role->slow_hosts.n_notable, 1);
    assert_int_equal(role->slow_hosts.paces[0].host, 3);
    assert_int_equal(role->slow_hosts.paces[0].n_workers, 8);
    assert_true(fabs(role->slow_hosts.paces[0].ratio - 1.31) < 0.05);
    assert_int_equal(role->slow_workers.n_notable, 8);
    end(&fleet);
}

/* Rosner's test: one slow rank does not hide behind another. */
static void test_several_slow_ranks(void **state)
{
    (void)state;
    struct fleet fleet;
    begin(&fleet, 1);
    for (size_t rank = 0; rank < 40; rank++)
        add_pace(&fleet, add_rank(&fleet, 1, 100e6), 0, (rank % 10 == 7 ? 150e6 : 100e6) * (1 + 0.02 * noise()));
    const struct lp_analysis_role *role = analyse(&fleet);
    assert_int_equal(role->slow_workers.n_notable, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(role->slow_workers.paces[i].worker % 10, 7);
    end(&fleet);
}

/* Three others say little about how much equals differ: what is usual counts too. */
static void test_one_of_four(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct fleet fleet;
        begin(&fleet, 4);
        for (size_t rank = 0; rank < 4; rank++) {
            struct lp_run_worker *worker = add_rank(&fleet, 4, 400e6);
            for (size_t phase = 0; phase < 4; phase++)
                add_pace(&fleet, worker, phase,
                         (slow && rank == 2 && phase == 1 ? 2.2 : 1) * 100e6 * exp(0.05 * noise()));
        }
        const struct lp_analysis_role *role = analyse(&fleet);
        assert_int_equal(role->slow_workers.n_notable, slow);
        if (slow)
            assert_int_equal(role->slow_workers.paces[0].worker, 2);
        end(&fleet);
    }
}

/* Equal processes that differ by chance, much or little: next to nothing is said of 400 such runs. */
static void test_equal_ones_are_not_told_apart(void **state)
{
    (void)state;
    static const double spreads[] = {0.001, 0.05, 0.2};
    uint64_t seed_of_run = 1;
    size_t said = 0;
    for (size_t round = 0; round < 400; round++) {
        struct fleet fleet;
        begin(&fleet, 4);
        seed = seed_of_run;
        for (size_t rank = 0; rank < 3 + round % 30; rank++) {
            struct lp_run_worker *worker = add_rank(&fleet, 2, 400e6);
            for (size_t phase = 0; phase < 4; phase++)
                add_pace(&fleet, worker, phase, 100e6 * exp(spreads[round % 3] * noise()));
        }
        const struct lp_analysis_role *role = analyse(&fleet);
        said += role->slow_workers.n_notable > 0 || role->slow_hosts.n_notable > 0;
        seed_of_run = seed;
        end(&fleet);
    }
    assert_in_range(said, 0, 8); /* two tests of 1 % each: 8 of 400 at most are to be expected */
}

/* It is real, but not worth a word: little of its time, or little slower. */
static void test_small_matters_are_not_notable(void **state)
{
    (void)state;
    struct fleet fleet;
    begin(&fleet, 2);
    for (size_t rank = 0; rank < 50; rank++) {
        struct lp_run_worker *worker = add_rank(&fleet, 1, 100e6);
        add_pace(&fleet, worker, 0, rank == 9 ? 108e6 : 100e6);
        add_pace(&fleet, worker, 1, rank == 3 ? 2e6 : 1e6);
    }
    const struct lp_analysis_role *role = analyse(&fleet);
    assert_int_equal(role->slow_workers.n_notable, 0);
    assert_int_equal(role->slow_workers.paces[0].worker, 9); /* figures are there all the same */
    assert_false(role->slow_workers.paces[0].notable);
    assert_true(role->slow_workers.n <= LP_PACES_MAX);
    end(&fleet);
}

static void test_nobody_to_compare_with(void **state)
{
    (void)state;
    struct fleet fleet;
    begin(&fleet, 2);
    add_pace(&fleet, add_rank(&fleet, 1, 100e6), 0, 100e6);
    add_rank(&fleet, 1, 100e6);
    const struct lp_analysis_role *role = analyse(&fleet);
    assert_int_equal(role->slow_workers.n, 0);
    assert_int_equal(role->slow_hosts.n, 0);
    end(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_rank_MN07),
        cmocka_unit_test(test_a_slow_host),
        cmocka_unit_test(test_several_slow_ranks),
        cmocka_unit_test(test_one_of_four),
        cmocka_unit_test(test_equal_ones_are_not_told_apart),
        cmocka_unit_test(test_small_matters_are_not_notable),
        cmocka_unit_test(test_nobody_to_compare_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
