/* Two runs: which phase is which, what is called real and what is not. L1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "analysis/compare.h"
#include "model/model.h"

struct fixture {
    struct model a, b;
    struct lp_compare *compare;
};

static struct fixture fixture;

static void begin(void)
{
    fixture = (struct fixture){0};
    model_run(&fixture.a);
    model_run(&fixture.b)->run_id = model_text(&fixture.b, "another");
}

static const struct lp_compare *compare_over(double fail_over)
{
    lp_compare_free(fixture.compare);
    assert_int_equal(lp_compare_make(&fixture.compare, fixture.a.run, fixture.b.run, fail_over), 0);
    return fixture.compare;
}

static void end(void)
{
    lp_compare_free(fixture.compare);
    model_free(&fixture.a);
    model_free(&fixture.b);
}

/* One phase "step" in each run. */
static struct lp_run_phase *step_of(struct model *model)
{
    struct lp_run_role *role = model_role(model, "actor");
    model_worker(model, role, "node07");
    return model_phase(model, role->tree, "step");
}

/* Entries of one process around `middle`, alike on both sides of it: a bell of nine bars, from 80% to 120%. */
static void bell(struct model *model, struct lp_run_phase *phase, uint64_t n, uint64_t middle)
{
    static const unsigned shares[] = {1, 4, 11, 20, 28, 20, 11, 4, 1};
    struct lp_run_phase one = {.calls = 0};
    for (unsigned i = 0; i < 9; i++) {
        uint64_t count = n * shares[i] / 100, each = middle * (80 + 5 * i) / 100;
        one.calls += count;
        one.wall_ns += count * each;
        one.spread.l += count * lp_hist_bucket_log(lp_hist_bucket_of(each));
        model_hist(model, &phase->hist, each, count);
    }
    lp_run_square c = one.calls, w = one.wall_ns, l = one.spread.l;
    phase->workers += phase->calls > 0;
    phase->calls += one.calls;
    phase->wall_ns += one.wall_ns;
    phase->spread.l += one.spread.l;
    phase->spread.cc += c * c;
    phase->spread.ccc += c * c * c;
    phase->spread.cw += c * w;
    phase->spread.ww += w * w;
    phase->spread.cl += c * l;
    phase->spread.ll += l * l;
}

static const struct lp_compare_phase *compare_bells(uint64_t n_a, uint64_t a, uint64_t n_b, uint64_t b)
{
    begin();
    bell(&fixture.a, step_of(&fixture.a), n_a, a);
    bell(&fixture.b, step_of(&fixture.b), n_b, b);
    return &compare_over(NAN)->phases[0];
}

static void test_a_planted_shift_is_found(void **state)
{
    (void)state;
    const struct lp_compare_phase *row = compare_bells(10000, 10 * MS, 10000, 10500 * US);
    assert_int_equal(row->verdict, LP_COMPARE_SLOWER);
    assert_true(fabs(row->mean.size - 0.05) < 1e-6);
    assert_true(row->mean.margin < 0.025);
    assert_false(row->disagrees);
    end();
    row = compare_bells(10000, 10500 * US, 10000, 10 * MS);
    assert_int_equal(row->verdict, LP_COMPARE_FASTER);
    end();
}

static void test_equal_runs_are_the_same(void **state)
{
    (void)state;
    const struct lp_compare_phase *row = compare_bells(10000, 10 * MS, 5000, 10 * MS);
    assert_int_equal(row->verdict, LP_COMPARE_SAME);
    assert_true(fabs(row->mean.size) < 1e-6);
    assert_int_equal(fixture.compare->n_tested, 1);
    end();
}

/* However many entries there are, what every two runs differ by is not called real. */
static void test_the_noise_of_runs_is_no_change(void **state)
{
    (void)state;
    assert_int_equal(compare_bells(100000000, 10 * MS, 100000000, 10060 * US)->verdict, LP_COMPARE_SAME);
    end();
}

/* All entries inside one bucket, which is 12.5% wide: the mean tells them apart nevertheless, and what is a border's
   doing - equal entries, one ns apart, in two buckets - is none. */
static void test_a_bucket_neither_hides_nor_makes_a_shift(void **state)
{
    (void)state;
    uint64_t border = UINT64_C(1) << 23; /* Of buckets 1/8 of it wide above. */
    begin();
    model_process(&fixture.a, step_of(&fixture.a), 10000, border + border / 100);
    model_process(&fixture.b, step_of(&fixture.b), 10000, border + border / 100 * 6);
    const struct lp_compare_phase *row = &compare_over(NAN)->phases[0];
    assert_int_equal(row->verdict, LP_COMPARE_SLOWER);
    assert_true(row->mean.margin < 0.025);
    assert_false(row->disagrees);
    end();
    begin();
    model_process(&fixture.a, step_of(&fixture.a), 1000000, border - 1);
    model_process(&fixture.b, step_of(&fixture.b), 1000000, border);
    row = &compare_over(NAN)->phases[0];
    assert_int_equal(row->verdict, LP_COMPARE_SAME);
    assert_false(row->disagrees);
    end();
}

static void test_few_entries_are_marked_and_not_tested(void **state)
{
    (void)state;
    begin();
    struct lp_run_phase *a = step_of(&fixture.a), *b = step_of(&fixture.b);
    model_process(&fixture.a, a, 29, 10 * MS);
    model_process(&fixture.b, b, 1000, 30 * MS);
    const struct lp_compare_phase *row = &compare_over(0.05)->phases[0];
    assert_true(row->few);
    assert_int_equal(row->verdict, LP_COMPARE_UNDECIDED);
    assert_true(fabs(row->mean.size - 2) < 1e-9);
    assert_int_equal(fixture.compare->n_over, 0);
    model_process(&fixture.a, a, 1, 10 * MS);
    row = &compare_over(0.05)->phases[0];
    assert_false(row->few);
    assert_int_equal(row->verdict, LP_COMPARE_SLOWER);
    end();
}

/* Of a sampled phase one entry in a hundred was measured: 1,000 calls are but ten. */
static void test_sampled_phases_have_fewer_entries(void **state)
{
    (void)state;
    begin();
    struct lp_run_phase *a = step_of(&fixture.a), *b = step_of(&fixture.b);
    model_process(&fixture.a, a, 1000, 10 * MS);
    model_process(&fixture.b, b, 1000, 30 * MS);
    model_sampled(b, 1, 100);
    const struct lp_compare_phase *row = &compare_over(NAN)->phases[0];
    assert_true(row->estimated);
    assert_true(row->few);
    assert_true(fabs(row->b.entries - 10) < 1e-9);
    end();
}

/* A stall that happened to fall into one of the runs: a mean twice as long, and no change. */
static void test_a_stall_is_no_change(void **state)
{
    (void)state;
    begin();
    struct lp_run_phase *a = step_of(&fixture.a), *b = step_of(&fixture.b);
    bell(&fixture.a, a, 1000, 10 * MS);
    bell(&fixture.b, b, 999, 10 * MS);
    model_hist(&fixture.b, &b->hist, 10 * S, 1);
    b->calls++;
    b->wall_ns += 10 * S;
    const struct lp_compare_phase *row = &compare_over(0.05)->phases[0];
    assert_true(row->mean.size > 0.9);
    assert_int_equal(row->verdict, LP_COMPARE_SAME);
    assert_true(row->disagrees);
    assert_int_equal(fixture.compare->n_over, 0);
    end();
}

/* The run with few entries has seen none of the stalls that the other has on record: its mean is lower by chance. */
static void test_stalls_not_seen_yet_are_no_change(void **state)
{
    (void)state;
    begin();
    struct lp_run_phase *a = step_of(&fixture.a), *b = step_of(&fixture.b);
    model_process(&fixture.a, a, 9900, 10 * MS);
    model_hist(&fixture.a, &a->hist, S, 100);
    a->calls += 100;
    a->wall_ns += 100 * S;
    model_process(&fixture.b, b, 40, 10 * MS);
    const struct lp_compare_phase *row = &compare_over(NAN)->phases[0];
    assert_true(row->mean.size < -0.4);
    assert_int_equal(row->verdict, LP_COMPARE_SAME);
    end();
}

/* Processes that differ by 10% among themselves: two sets of eight that lie 4% apart are two sets of eight, though each
   has made a million entries. If all are alike, 4% is a change. */
static void test_processes_that_differ_make_chance_larger(void **state)
{
    (void)state;
    for (int alike = 0; alike < 2; alike++) {
        begin();
        struct lp_run_phase *a = step_of(&fixture.a), *b = step_of(&fixture.b);
        for (uint64_t i = 0; i < 8; i++) {
            uint64_t more = alike ? 0 : (i % 5) * 500 * US;
            bell(&fixture.a, a, 1000000, 10 * MS + more);
            bell(&fixture.b, b, 1000000, 10400 * US + more);
        }
        const struct lp_compare_phase *row = &compare_over(NAN)->phases[0];
        assert_int_equal(row->verdict, alike ? LP_COMPARE_SLOWER : LP_COMPARE_SAME);
        end();
    }
}

/* The more phases are looked at, the more it takes: the error rate is that of the table. */
static void test_the_error_rate_is_that_of_the_table(void **state)
{
    (void)state;
    double margins[2];
    for (int many = 0; many < 2; many++) {
        begin();
        struct lp_run_phase *a = step_of(&fixture.a), *b = step_of(&fixture.b);
        bell(&fixture.a, a, 100, 10 * MS);
        bell(&fixture.b, b, 100, 10 * MS);
        for (int i = 0; i < 300 * many; i++) {
            char name[16];
            snprintf(name, sizeof name, "tail_%03d", i);
            bell(&fixture.a, model_phase(&fixture.a, a->parent, name), 100, MS);
            bell(&fixture.b, model_phase(&fixture.b, b->parent, name), 100, MS);
        }
        margins[many] = compare_over(NAN)->phases[0].mean.margin;
        assert_int_equal(fixture.compare->n_tested, 1 + 300 * many);
        end();
    }
    assert_true(margins[1] > 1.3 * margins[0]);
}

/* Log-normal bars over some twenty buckets, and one entry in a thousand that takes `tail`. */
static void heavy(struct model *model, struct lp_run_phase *phase, double middle, uint64_t tail)
{
    for (int i = -40; i <= 40; i++) {
        uint64_t each = (uint64_t)(middle * exp2(i / 24.0)), count = (uint64_t)(300 * exp(-i * i / 450.0));
        phase->calls += count;
        phase->wall_ns += count * each;
        phase->spread.l += count * lp_hist_bucket_log(lp_hist_bucket_of(each));
        model_hist(model, &phase->hist, each, count);
    }
    phase->calls += 10;
    phase->wall_ns += 10 * tail;
    phase->spread.l += 10 * lp_hist_bucket_log(lp_hist_bucket_of(tail));
    model_hist(model, &phase->hist, tail, 10);
}

/* Where a tail hides the mean, entries that all moved by 10% are found, and the gate goes by what they moved. */
static void test_typical_entries_beside_a_heavy_tail(void **state)
{
    (void)state;
    begin();
    heavy(&fixture.a, step_of(&fixture.a), 10e6, 20 * S);
    heavy(&fixture.b, step_of(&fixture.b), 11e6, 22 * S);
    const struct lp_compare_phase *row = &compare_over(0.05)->phases[0];
    assert_false(row->mean.real);
    assert_true(row->typical.real);
    assert_true(fabs(row->typical.size - 0.1) < 0.03);
    assert_int_equal(row->verdict, LP_COMPARE_SLOWER);
    assert_true(row->over);
    assert_int_equal(compare_over(0.2)->n_over, 0);
    end();
}

static void test_the_gate(void **state)
{
    (void)state;
    begin();
    bell(&fixture.a, step_of(&fixture.a), 10000, 10 * MS);
    bell(&fixture.b, step_of(&fixture.b), 10000, 10500 * US);
    assert_int_equal(compare_over(NAN)->n_over, 0);
    assert_int_equal(compare_over(0.04)->n_over, 1);
    assert_true(fixture.compare->phases[0].over);
    assert_int_equal(compare_over(0.06)->n_over, 0);
    end();
    begin(); /* Faster by as much closes no gate. */
    bell(&fixture.a, step_of(&fixture.a), 10000, 10500 * US);
    bell(&fixture.b, step_of(&fixture.b), 10000, 10 * MS);
    assert_int_equal(compare_over(0)->n_over, 0);
    end();
}

static void test_phases_are_matched_by_role_and_path(void **state)
{
    (void)state;
    begin();
    struct lp_run_phase *a = step_of(&fixture.a), *b = step_of(&fixture.b);
    model_phase(&fixture.a, a, "both");
    model_phase(&fixture.a, a, "old");
    model_phase(&fixture.b, b, "both");
    model_phase(&fixture.b, b, "new");
    model_phase(&fixture.b, model_role(&fixture.b, "learner")->tree, "both");
    const struct lp_compare *compare = compare_over(NAN);
    static const struct {
        const char *name;
        enum lp_compare_verdict verdict;
        size_t role, depth;
    } expected[] = {{"step", LP_COMPARE_UNDECIDED, 0, 1},
                    {"both", LP_COMPARE_UNDECIDED, 0, 2},
                    {"new", LP_COMPARE_ONLY_B, 0, 2},
                    {"old", LP_COMPARE_ONLY_A, 0, 2},
                    {"both", LP_COMPARE_ONLY_B, 1, 1}};
    assert_int_equal(compare->n_phases, 5);
    assert_int_equal(compare->n_roles, 2);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(lp_compare_either(&compare->phases[i])->name.bytes, expected[i].name);
        assert_int_equal(compare->phases[i].verdict, expected[i].verdict);
        assert_int_equal(compare->phases[i].role, expected[i].role);
        assert_int_equal(compare->phases[i].depth, expected[i].depth);
    }
    assert_int_equal(compare->n_both, 2);
    assert_null(compare->roles[1].a);
    end();
}

/* Thread names have no entries to compare, but what is below them has. */
static void test_threads_are_no_rows(void **state)
{
    (void)state;
    begin();
    struct lp_run_phase *a = step_of(&fixture.a), *b = step_of(&fixture.b);
    a->is_thread = b->is_thread = true;
    bell(&fixture.a, model_phase(&fixture.a, a, "inner"), 1000, MS);
    bell(&fixture.b, model_phase(&fixture.b, b, "inner"), 1000, MS);
    const struct lp_compare *compare = compare_over(NAN);
    assert_int_equal(compare->n_phases, 1);
    assert_int_equal(compare->phases[0].depth, 2);
    end();
}

/* Entries still open are in no mean; a phase in which none has ended has none. */
static void test_open_entries_are_left_out(void **state)
{
    (void)state;
    begin();
    struct lp_run_phase *a = step_of(&fixture.a), *b = step_of(&fixture.b);
    bell(&fixture.a, a, 1000, 10 * MS);
    bell(&fixture.b, b, 1000, 10 * MS);
    b->open_calls = 1;
    b->open_wall_ns = 50 * S;
    b->wall_ns += 50 * S;
    const struct lp_compare_phase *row = &compare_over(NAN)->phases[0];
    assert_int_equal(row->verdict, LP_COMPARE_SAME);
    assert_true(fabs(row->mean.size) < 1e-9);
    *b = (struct lp_run_phase){.name = b->name,
                               .parent = b->parent,
                               .stride_min = 1,
                               .stride_max = 1,
                               .wall_ns = S,
                               .open_wall_ns = S,
                               .open_calls = 1};
    row = &compare_over(NAN)->phases[0];
    assert_int_equal(row->verdict, LP_COMPARE_UNDECIDED);
    assert_true(isnan(row->mean.size) && isnan(row->b.mean_ns));
    end();
}

/* Sums that are too low, and histograms that are not there, decide nothing. */
static void test_what_cannot_be_trusted_is_not_tested(void **state)
{
    (void)state;
    begin();
    struct lp_run_phase *a = step_of(&fixture.a), *b = step_of(&fixture.b);
    bell(&fixture.a, a, 1000, 10 * MS);
    bell(&fixture.b, b, 1000, 20 * MS);
    b->saturated = true;
    assert_int_equal(compare_over(0)->phases[0].verdict, LP_COMPARE_UNDECIDED);
    b->saturated = false;
    b->spread.saturated = true;
    assert_int_equal(compare_over(0)->phases[0].verdict, LP_COMPARE_UNDECIDED);
    b->spread.saturated = false;
    b->hist = (struct lp_hist){0};
    assert_int_equal(compare_over(0)->phases[0].verdict, LP_COMPARE_UNDECIDED);
    assert_int_equal(fixture.compare->n_over, 0);
    end();
}

/* A clock that stood still: no time at all is nothing to divide by. */
static void test_no_time_at_all(void **state)
{
    (void)state;
    begin();
    model_process(&fixture.a, step_of(&fixture.a), 100, 0);
    model_process(&fixture.b, step_of(&fixture.b), 100, 5);
    const struct lp_compare_phase *row = &compare_over(0)->phases[0];
    assert_int_equal(row->verdict, LP_COMPARE_UNDECIDED);
    assert_true(isnan(row->mean.size));
    end();
    begin();
    model_process(&fixture.a, step_of(&fixture.a), 100, 5);
    model_process(&fixture.b, step_of(&fixture.b), 100, 0);
    row = &compare_over(0)->phases[0];
    assert_int_equal(row->verdict, LP_COMPARE_FASTER);
    assert_true(row->mean.size == -1);
    end();
}

static void test_a_run_and_itself(void **state)
{
    (void)state;
    begin();
    bell(&fixture.a, step_of(&fixture.a), 1000, 10 * MS);
    struct lp_compare *compare;
    assert_int_equal(lp_compare_make(&compare, fixture.a.run, fixture.a.run, 0), 0);
    assert_true(compare->same_run);
    assert_int_equal(compare->phases[0].verdict, LP_COMPARE_SAME);
    assert_true(compare->phases[0].mean.size == 0);
    lp_compare_free(compare);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_planted_shift_is_found),
        cmocka_unit_test(test_equal_runs_are_the_same),
        cmocka_unit_test(test_the_noise_of_runs_is_no_change),
        cmocka_unit_test(test_a_bucket_neither_hides_nor_makes_a_shift),
        cmocka_unit_test(test_few_entries_are_marked_and_not_tested),
        cmocka_unit_test(test_sampled_phases_have_fewer_entries),
        cmocka_unit_test(test_a_stall_is_no_change),
        cmocka_unit_test(test_stalls_not_seen_yet_are_no_change),
        cmocka_unit_test(test_processes_that_differ_make_chance_larger),
        cmocka_unit_test(test_the_error_rate_is_that_of_the_table),
        cmocka_unit_test(test_typical_entries_beside_a_heavy_tail),
        cmocka_unit_test(test_the_gate),
        cmocka_unit_test(test_phases_are_matched_by_role_and_path),
        cmocka_unit_test(test_threads_are_no_rows),
        cmocka_unit_test(test_open_entries_are_left_out),
        cmocka_unit_test(test_what_cannot_be_trusted_is_not_tested),
        cmocka_unit_test(test_no_time_at_all),
        cmocka_unit_test(test_a_run_and_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
