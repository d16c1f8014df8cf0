/* One time for all workers of a directory: what began first, whatever the wall clocks were set to. */
#include "support/support.h"

#include "run/boots.h"

#define SECOND UINT64_C(1000000000)
#define EPOCH (UINT64_C(1780000000) * SECOND)

static struct lp_span span(const char *text)
{
    return (struct lp_span){text, strlen(text)};
}

static struct lp_run_stamp at(uint64_t boottime_s, int64_t ahead_s)
{
    return (struct lp_run_stamp){EPOCH + boottime_s * SECOND + (uint64_t)ahead_s * SECOND, 7, boottime_s * SECOND};
}

static size_t note(struct lp_run_boots *boots, const char *id, struct lp_run_stamp stamp)
{
    size_t place;
    assert_int_equal(lp_run_boots_note(boots, span(id), 0, &stamp, &place), 0);
    return place;
}

static uint64_t time_of(const struct lp_run_boots *boots, size_t place, struct lp_run_stamp stamp)
{
    return lp_run_boots_time(boots, place, &stamp);
}

/* CK01: within a boot the order is that of a clock that nobody sets. */
static void test_a_wall_clock_that_was_set_CK01(void **state)
{
    (void)state;
    for (int reversed = 0; reversed < 2; reversed++) { /* whatever the order of files */
        struct lp_run_boots boots = {0};
        const struct lp_run_stamp first = at(100, 0), second = at(200, -3600);
        size_t place = note(&boots, "boot", reversed ? second : first);
        assert_int_equal(note(&boots, "boot", reversed ? first : second), place);
        assert_true(time_of(&boots, place, first) < time_of(&boots, place, second));
        /* As the clock was set last. */
        assert_int_equal(time_of(&boots, place, second), second.realtime_ns);
        assert_int_equal(time_of(&boots, place, first), second.realtime_ns - 100 * SECOND);
        lp_run_boots_release(&boots);
    }
}

static void test_boots_are_lined_up_by_their_wall_clocks(void **state)
{
    struct lp_run_boots boots = {0};
    (void)state;
    size_t old = note(&boots, "old", at(1000, 0)), new = note(&boots, "new", at(10, 5000));
    assert_int_not_equal(old, new);
    assert_true(time_of(&boots, old, at(1000, 0)) < time_of(&boots, new, at(10, 5000)));
    assert_int_equal(note(&boots, "old", at(500, 0)), old);
    lp_run_boots_release(&boots);
}

/* Clocks of one boot are set off in time namespaces. */
static void test_time_namespaces_of_a_boot(void **state)
{
    size_t place;
    const struct lp_run_stamp before = at(5000, 0), after = at(10, 5000); /* and yet before it by its own clock */
    struct lp_run_boots boots = {0};
    (void)state;
    size_t first = note(&boots, "boot", before);
    assert_int_equal(lp_run_boots_note(&boots, span("boot"), 4026532222, &after, &place), 0);
    assert_int_not_equal(place, first);
    assert_true(time_of(&boots, first, before) < time_of(&boots, place, after));
    assert_int_equal(note(&boots, "boot", before), first);
    lp_run_boots_release(&boots);
}

/* No id: which boot it was is not known, and there is only the wall clock. And no stamp makes a time wrap around. */
static void test_what_is_not_known_or_cannot_be(void **state)
{
    struct lp_run_boots boots = {0};
    const struct lp_run_stamp none = {0};
    (void)state;
    size_t unknown = note(&boots, "", at(100, 0)), known = note(&boots, "boot", at(100, 0));
    assert_int_equal(time_of(&boots, unknown, at(50, -3600)), at(50, -3600).realtime_ns);
    assert_int_equal(time_of(&boots, known, at(200, 0)), at(100, 0).realtime_ns);
    size_t early = note(&boots, "early", none);
    assert_int_equal(time_of(&boots, early, none), 0);
    assert_int_equal(note(&boots, "early", (struct lp_run_stamp){1, 1, SECOND}), early);
    assert_int_equal(time_of(&boots, early, none), 0);
    lp_run_boots_release(&boots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wall_clock_that_was_set_CK01),
        cmocka_unit_test(test_boots_are_lined_up_by_their_wall_clocks),
        cmocka_unit_test(test_time_namespaces_of_a_boot),
        cmocka_unit_test(test_what_is_not_known_or_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
