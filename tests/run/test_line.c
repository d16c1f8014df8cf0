/* Durations in sentences read as those of the pages: to the nearest, and never "60.0s" or "1000.0ms". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char *named(const char *name)
{
    static char text[512];
    struct lp_run_line line = {0};
    lp_run_line_name(&line, (struct lp_span){name, strlen(name)});
    char *said = lp_run_line_take(&line);
    snprintf(text, sizeof text, "%s", said);
    free(said);
    return text;
}

/* A name may have 64 KiB, and a sentence has it in its middle. */
static void test_long_names_keep_both_ends(void **state)
{
    (void)state;
    assert_string_equal(named("actor"), "actor");
    assert_string_equal(named("123456789a123456789b123456789c123456789d12345678"),
                        "123456789a123456789b123456789c123456789d12345678");
    assert_string_equal(named("123456789a123456789b123456789c123456789d123456789"),
                        "123456789a123456789b1234…789c123456789d123456789");
    assert_string_equal(named("训练步骤训练步骤训练步骤训练步骤训练步骤训练步骤\xff"),
                        "训练步骤训练步骤训练步骤…练步骤训练步骤训练步骤\xef\xbf\xbd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_long_names_keep_both_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
