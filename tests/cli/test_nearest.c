#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/command.h"

static const char *const commands[] = {"report", "compare", "top", "where", "run", NULL};

static void test_a_slip_is_understood(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"reprot", "report"}, {"reports", "report"}, {"compre", "compare"}, {"tpo", "top"},
        {"were", "where"},    {"rum", "run"},        {"report", "report"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(lp_cli_nearest(rows[i][0], commands), rows[i][1]);
}

static void test_nonsense_is_not_guessed(void **state)
{
    (void)state;
    assert_null(lp_cli_nearest("profile", commands));
    assert_null(lp_cli_nearest("", commands));
    assert_null(lp_cli_nearest("xyz", commands));
    assert_null(lp_cli_nearest("reportreportreportreportreportreportreport", commands));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slip_is_understood),
        cmocka_unit_test(test_nonsense_is_not_guessed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
