/* Tails: against tables, and against exact sums where a law has two values. L1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "analysis/chance.h"

static void assert_close(double value, double expected, double part)
{
    if (!(fabs(value - expected) <= part * fabs(expected)))
        fail_msg("%.12g is not %.12g", value, expected);
}

static void test_normal(void **state)
{
    (void)state;
    assert_close(lp_chance_normal(0.025), 1.959963985, 1e-8);
    assert_close(lp_chance_normal(1e-6), 4.753424309, 1e-8);
}

static void test_student(void **state)
{
    (void)state;
    assert_close(lp_chance_student(1, 0.025), 12.70620474, 1e-7);
    assert_close(lp_chance_student(2, 0.0025), 14.08904728, 1e-7);
    assert_close(lp_chance_student(4, 0.005), 4.604094871, 1e-7);
    assert_close(lp_chance_student(30, 0.0005), 3.645958635, 1e-7);
    assert_close(lp_chance_student(1e5, 1e-6), lp_chance_normal(1e-6), 1e-3);
    assert_close(lp_chance_student(1e9, 1e-6), lp_chance_normal(1e-6), 1e-9);
    assert_true(isinf(lp_chance_student(0.05, 1e-6)));
}

static double binomial(unsigned n, unsigned k, double q)
{
    int sign;
    double log_choose = lgamma_r(n + 1.0, &sign) - lgamma_r(k + 1.0, &sign) - lgamma_r(n - k + 1.0, &sign);
    return exp(log_choose + k * log(q) + (n - k) * log1p(-q));
}

/* P(mean of n - mean of m >= d) where a draw is 1 with probability q, else 0. */
static double exact(unsigned n, unsigned m, double q, double d)
{
    double p = 0;
    for (unsigned i = 0; i <= n; i++)
        for (unsigned k = 0; k <= m; k++)
            if (i / (double)n - k / (double)m >= d)
                p += binomial(n, i, q) * binomial(m, k, q);
    return p;
}

/* Skewed laws, samples of very different size, far out: where a normal tail is wrong a thousandfold. */
static void test_differences_of_a_skewed_law(void **state)
{
    (void)state;
    static const struct {
        unsigned n, m;
        double q, p;
    } cases[] = {{100, 100, 0.5, 1e-4}, {200, 200, 0.05, 1e-5}, {40, 600, 0.1, 1e-4},
                 {40, 600, 0.1, 1e-6},  {600, 40, 0.1, 1e-4},   {300, 300, 0.02, 1e-6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lp_chance_law law = {0};
        lp_chance_add(&law, 0, 3 * (1 - cases[i].q));
        lp_chance_add(&law, 1, 3 * cases[i].q);
        double d = lp_chance_difference(&law, cases[i].n, cases[i].m, cases[i].p);
        double step = 1.0 / fmax(cases[i].n, cases[i].m);
        assert_true(exact(cases[i].n, cases[i].m, cases[i].q, d + step) < 1.5 * cases[i].p);
        assert_true(exact(cases[i].n, cases[i].m, cases[i].q, d - step) > 0.5 * cases[i].p);
    }
}

/* With values, weights and shift of any scale. */
static void test_scale_and_place_do_not_matter(void **state)
{
    (void)state;
    struct lp_chance_law law = {0}, moved = {0};
    for (unsigned i = 0; i < 20; i++) {
        lp_chance_add(&law, i * i, 20 - i);
        lp_chance_add(&moved, 1e12 + 1e9 * i * i, 1e-6 * (20 - i));
    }
    double d = lp_chance_difference(&law, 500, 80, 1e-5);
    assert_true(d > 0 && isfinite(d));
    assert_close(lp_chance_difference(&moved, 500, 80, 1e-5), 1e9 * d, 1e-6);
    assert_close(lp_chance_variance(&moved), 1e18 * lp_chance_variance(&law), 1e-6);
}

static void test_laws_at_their_end(void **state)
{
    (void)state;
    struct lp_chance_law law = {0};
    lp_chance_add(&law, 7, 100);
    lp_chance_add(&law, 8, 0);
    assert_true(lp_chance_difference(&law, 50, 50, 1e-4) == 0);
    /* Two entries a side can be no surer than one in 16 of anything. */
    lp_chance_add(&law, 9, 100);
    assert_true(isinf(lp_chance_difference(&law, 2, 2, 1e-6)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_student),
        cmocka_unit_test(test_differences_of_a_skewed_law),
        cmocka_unit_test(test_scale_and_place_do_not_matter),
        cmocka_unit_test(test_laws_at_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
