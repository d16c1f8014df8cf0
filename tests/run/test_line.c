/* Durations in sentences read as those of the pages: to the nearest, and never "60.0s" or "1000.0ms". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "report/format.h"
#include "run/line.h"

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns;
        const char *said;
    } of[] = {{0, "0ns"},
              {999, "999ns"},
              {1000, "1.0us"},
              {999949, "999.9us"},
              {999950, "1.0ms"},
              {999950000, "1.0s"},
              {59949999999, "59.9s"},
              {59950000000, "1m"},
              {104976399950, "1m 45s"},
              {3599499999999, "59m 59s"},
              {3599500000000, "1h 00m"},
              {359969999999999, "99h 59m"},
              {359970000000000, "4d 04h"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct lp_run_line line = {0};
        lp_run_line_duration(&line, of[i].ns);
        char *said = lp_run_line_take(&line);
        assert_string_equal(said, of[i].said);
        assert_string_equal(said, lp_report_duration((double)of[i].ns).text);
        free(said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
