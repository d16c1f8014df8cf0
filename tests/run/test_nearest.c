#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/nearest.h"

static const char *const commands[] = {"report", "compare", "top", "where", "run", NULL};

static void test_a_slip_is_understood(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"reprot", "report"}, {"reports", "report"}, {"compre", "compare"}, {"tpo", "top"},
        {"were", "where"},    {"rum", "run"},        {"report", "report"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(lp_run_nearest(rows[i][0], commands), rows[i][1]);
}

static void test_nonsense_is_not_guessed(void **state)
{
    (void)state;
    assert_null(lp_run_nearest("profile", commands));
    assert_null(lp_run_nearest("", commands));
    assert_null(lp_run_nearest("xyz", commands));
    assert_null(lp_run_nearest("reportreportreportreportreportreportreportreportreportreportreport", commands));
}

static void test_how_far_names_are_apart(void **state)
{
    (void)state;
    assert_int_equal(lp_run_distance("actor", "actor"), 0);
    assert_int_equal(lp_run_distance("actr", "actor"), 1);
    assert_int_equal(lp_run_distance("node0007.example.org", "node0017.example.org"), 1);
    assert_true(lp_run_distance("actor", "learner") == SIZE_MAX);
    assert_true(lp_run_distance("x", "a") == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slip_is_understood),
        cmocka_unit_test(test_nonsense_is_not_guessed),
        cmocka_unit_test(test_how_far_names_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
