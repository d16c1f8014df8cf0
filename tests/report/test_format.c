#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/format.h"

#define assert_cell(cell, expected) assert_string_equal((cell).text, expected)

static uint64_t next_random(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Every magnitude alike. */
static double any_positive(double least, double most)
{
    double unit = (double)(next_random() >> 11) / (double)(UINT64_C(1) << 53);
    return least * pow(most / least, unit);
}

/* K12: as the document writes them. */
static void test_durations_read_as_documented(void **state)
{
    (void)state;
    assert_cell(lp_report_duration(9060e9), "2h 31m");
    assert_cell(lp_report_duration(27 * 60e9), "27m");
    assert_cell(lp_report_duration(4140e9), "1h 09m");
    assert_cell(lp_report_duration(9.4e6), "9.4ms");
    assert_cell(lp_report_duration(210.4e6), "210.4ms");
    assert_cell(lp_report_each(156.8e3), "156.8us/ea");
}

static void test_durations_over_the_whole_scale(void **state)
{
    (void)state;
    static const struct {
        double ns;
        const char *text;
    } rows[] = {
        {0, "0ns"},
        {0.01, "<0.1ns"},
        {0.3, "0.3ns"},
        {1, "1ns"},
        {9.94, "9.9ns"},
        {9.96, "10ns"},
        {15, "15ns"},
        {815.4, "815ns"},
        {999.4, "999ns"},
        {999.6, "1.0us"},
        {1000, "1.0us"},
        {999949, "999.9us"},
        {999951, "1.0ms"},
        {721673000, "721.7ms"}, /* RP01 */
        {999.94e6, "999.9ms"},
        {999.96e6, "1.0s"},
        {59.94e9, "59.9s"},
        {59.96e9, "1m"},
        {60e9, "1m"},
        {65e9, "1m 05s"},
        {119.6e9, "2m"},
        {3599.4e9, "59m 59s"},
        {3599.6e9, "1h 00m"},
        {3600e9, "1h 00m"},
        {7199.0e9, "2h 00m"},
        {99 * 3600e9 + 59 * 60e9, "99h 59m"},
        {100 * 3600e9, "4d 04h"},
        {364 * 86400e9 + 23 * 3600e9, "364d 23h"},
        {365 * 86400e9 - 1e9, "1y 0d"},
        {377 * 86400e9, "1y 12d"},
        {18446744073709551615.0, "584y 344d"},
        {-9.4e6, "-9.4ms"},
        {NAN, "n/a"},
        {INFINITY, "for ever"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_cell(lp_report_duration(rows[i].ns), rows[i].text);
}

struct unit {
    const char *name;
    double value;
    double limit; /* The number in front of it stays below. */
};

static const struct unit duration_units[] = {
    {"ns", 1, 1000}, {"us", 1e3, 1000},  {"ms", 1e6, 1000},   {"s", 1e9, 60},
    {"m", 60e9, 60}, {"h", 3600e9, 100}, {"d", 86400e9, 365}, {"y", 365 * 86400e9, 1000},
};

/* Reads a duration back; *step is what its last digit stands for. Fails on a number that its unit cannot have. */
static double read_duration(const char *text, double *step)
{
    double sum = 0;
    for (const char *at = text; *at != '\0';) {
        char *rest;
        double number = strtod(at, &rest);
        size_t digits = strspn(rest, "nusmhdy");
        const struct unit *unit = NULL;
        for (size_t i = 0; i < sizeof duration_units / sizeof *duration_units; i++)
            if (strlen(duration_units[i].name) == digits && strncmp(duration_units[i].name, rest, digits) == 0)
                unit = &duration_units[i];
        if (unit == NULL || number >= unit->limit)
            fail_msg("'%s' is no duration", text);
        sum += number * unit->value;
        *step = memchr(at, '.', (size_t)(rest - at)) != NULL ? unit->value / 10 : unit->value;
        at = rest + digits + strspn(rest + digits, " ");
    }
    if (*step == 60e9 && strchr(text, 'h') == NULL) /* "27m" is 27m 00s. */
        *step = 1e9;
    return sum;
}

static void test_durations_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < 200000; i++) {
        double ns = any_positive(0.06, 1.8e19), step = 0;
        struct lp_report_cell cell = lp_report_duration(ns);
        double back = read_duration(cell.text, &step);
        if (fabs(back - ns) > step * 0.5000001)
            fail_msg("%.17g was shown as '%s'", ns, cell.text);
        assert_true(strlen(cell.text) <= 9);
    }
}

/* Two digits at least, so that no figure is off by more than some 5 %. */
static void test_durations_are_precise(void **state)
{
    (void)state;
    for (int i = 0; i < 100000; i++) {
        double ns = any_positive(1e3, 1.8e19), step = 0;
        read_duration(lp_report_duration(ns).text, &step);
        if (step / ns > 0.1)
            fail_msg("%.17g is shown in steps of %.17g", ns, step);
    }
}

static void test_rates(void **state)
{
    (void)state;
    assert_cell(lp_report_rate(6377), "6,377.0/s");
    assert_cell(lp_report_rate(0), "0.0/s");
    assert_cell(lp_report_rate(0.1), "0.1/s");
    assert_cell(lp_report_rate(999.96), "1,000.0/s");
    assert_cell(lp_report_rate(0.05), "3.0/min");
    assert_cell(lp_report_rate(1.5 / 3600), "1.5/h");
    assert_cell(lp_report_rate(2.0 / 86400), "2.0/day");
    assert_cell(lp_report_rate(1e-9), "<0.1/day");
    assert_cell(lp_report_rate(-6377), "-6,377.0/s");
    assert_cell(lp_report_rate_brief(NAN), "n/a");
    assert_cell(lp_report_rate_brief(0), "0.0/s");
    assert_cell(lp_report_rate_brief(0.05), "3.0/min");
    assert_cell(lp_report_rate_brief(999.94), "999.9/s");
    assert_cell(lp_report_rate_brief(999.96), "1.0k/s");
    assert_cell(lp_report_rate_brief(6377), "6.4k/s");
    assert_cell(lp_report_rate_brief(999949), "999.9k/s");
    assert_cell(lp_report_rate_brief(999951), "1.0M/s");
    assert_cell(lp_report_rate_brief(-3e9), "-3.0G/s");
    assert_cell(lp_report_rate_brief(9e17), "900.0P/s");
    assert_cell(lp_report_rate(9.2e27), "9200000000e18/s");
    assert_cell(lp_report_rate(NAN), "n/a");
}

static double read_rate(const char *text)
{
    char digits[64];
    size_t n = 0;
    for (; strchr("0123456789,.", *text) != NULL; text++)
        if (*text != ',')
            digits[n++] = *text;
    digits[n] = '\0';
    double per = strcmp(text, "/s") == 0 ? 1 : strcmp(text, "/min") == 0 ? 60 : strcmp(text, "/h") == 0 ? 3600 : 86400;
    return atof(digits) / per;
}

static void test_rates_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < 100000; i++) {
        double per_s = any_positive(2e-6, 1e16);
        struct lp_report_cell cell = lp_report_rate(per_s);
        double back = read_rate(cell.text);
        if (fabs(back - per_s) > fmax(0.0500001, per_s * 1e-15) && fabs(back / per_s - 1) > 0.5)
            fail_msg("%.17g was shown as '%s'", per_s, cell.text);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    assert_cell(lp_report_size(0), "0 B");
    assert_cell(lp_report_size(999), "999 B");
    assert_cell(lp_report_size(1000), "1.0 kB");
    assert_cell(lp_report_size(408.7e6), "408.7 MB");
    assert_cell(lp_report_size(999.96e6), "1.0 GB");
    assert_cell(lp_report_size(8.4e9), "8.4 GB");
    assert_cell(lp_report_size(18446744073709551615.0), "18.4 EB");
    assert_cell(lp_report_size(-408.7e6), "-408.7 MB");
    assert_cell(lp_report_size_rate(327.6e6), "327.6 MB/s");
    assert_cell(lp_report_size_rate(1.1e9), "1.1 GB/s");
    assert_cell(lp_report_size(NAN), "n/a");
}

static void test_sizes_read_back(void **state)
{
    (void)state;
    static const struct unit units[] = {{" B", 1, 1000},    {" kB", 1e3, 1000},  {" MB", 1e6, 1000},
                                        {" GB", 1e9, 1000}, {" TB", 1e12, 1000}, {" PB", 1e15, 1000},
                                        {" EB", 1e18, 1000}};
    for (int i = 0; i < 100000; i++) {
        double bytes = any_positive(1, 1.8e19);
        struct lp_report_cell cell = lp_report_size(bytes);
        char *rest;
        double number = strtod(cell.text, &rest);
        const struct unit *unit = units;
        while (strcmp(unit->name, rest) != 0)
            unit++;
        double step = unit == units ? 1 : unit->value / 10;
        assert_true(number < unit->limit);
        assert_true(fabs(number * unit->value - bytes) <= step * 0.5000001);
    }
}

static void test_counts_are_whole(void **state)
{
    (void)state;
    assert_cell(lp_report_count(0), "0");
    assert_cell(lp_report_count(999), "999");
    assert_cell(lp_report_count(4800), "4,800");
    assert_cell(lp_report_count(UINT64_MAX), "18,446,744,073,709,551,615");
    assert_cell(lp_report_number(11794), "11794");
    assert_cell(lp_report_number(INT64_MIN), "-9223372036854775808");
    assert_cell(lp_report_process(5, -1, 4711), "rank 5");
    assert_cell(lp_report_process(0, 3, 4711), "rank 0 index 3");
    assert_cell(lp_report_process(-1, 0, 4711), "index 0");
    assert_cell(lp_report_process(-1, -1, 4711), "pid 4711");
    assert_cell(lp_report_process(INT64_MAX, INT64_MAX, 1), "rank 9223372036854775807 index 9223372036854775807");
    assert_cell(lp_report_signed(-1000), "-1,000");
    assert_cell(lp_report_signed(INT64_MIN), "-9,223,372,036,854,775,808");
    assert_cell(lp_report_signed(INT64_MAX), "9,223,372,036,854,775,807");
    for (int i = 0; i < 100000; i++) {
        int64_t value = (int64_t)next_random() >> next_random() % 64;
        struct lp_report_cell cell = lp_report_signed(value);
        char digits[32];
        size_t n = 0;
        for (const char *at = cell.text; *at != '\0'; at++)
            if (*at != ',')
                digits[n++] = *at;
        digits[n] = '\0';
        assert_int_equal(strtoll(digits, NULL, 10), value);
    }
}

static void test_shares(void **state)
{
    (void)state;
    assert_cell(lp_report_share(0.829), "82.9%");
    assert_cell(lp_report_share(0), "0.0%");
    assert_cell(lp_report_share(1), "100.0%");
    assert_cell(lp_report_share(0.0004), "<0.1%");
    assert_cell(lp_report_share(0.0006), "0.1%");
    assert_cell(lp_report_share(NAN), "n/a");
    assert_cell(lp_report_percent(0.18), "18%");
    assert_cell(lp_report_percent(0), "0%");
    assert_cell(lp_report_percent(1), "100%");
    assert_cell(lp_report_percent(0.001), "<1%");
    assert_cell(lp_report_percent(0.9999), ">99%");
    assert_cell(lp_report_percent(NAN), "n/a"); /* B7: not measured is never 0% */
    assert_cell(lp_report_ratio(1.217), "1.22");
    assert_cell(lp_report_ratio(NAN), "n/a");
}

/* A process whose locale writes 9,4 still reports 9.4. */
static void test_the_point_is_a_point(void **state)
{
    (void)state;
    setlocale(LC_ALL, "de_DE.UTF-8"); /* Where it is not installed this shows nothing. */
    assert_cell(lp_report_duration(9.4e6), "9.4ms");
    assert_cell(lp_report_rate(6377.5), "6,377.5/s");
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations_read_as_documented),
        cmocka_unit_test(test_durations_over_the_whole_scale),
        cmocka_unit_test(test_durations_read_back),
        cmocka_unit_test(test_durations_are_precise),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_rates_read_back),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_sizes_read_back),
        cmocka_unit_test(test_counts_are_whole),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_the_point_is_a_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
