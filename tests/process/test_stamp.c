/* CK03: three clocks of one moment. */
#include "support/support.h"

#include "process/stamp.h"

static void test_three_clocks_at_one_moment(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t realtime = clock_now_ns(CLOCK_REALTIME), monotonic = clock_now_ns(CLOCK_MONOTONIC);
        uint64_t boottime = clock_now_ns(CLOCK_BOOTTIME);
        struct lp_stamp stamp = lp_stamp_now();
        assert_true(stamp.realtime_ns >= realtime && stamp.realtime_ns <= clock_now_ns(CLOCK_REALTIME));
        assert_true(stamp.monotonic_ns >= monotonic && stamp.monotonic_ns <= clock_now_ns(CLOCK_MONOTONIC));
        assert_true(stamp.boottime_ns >= boottime && stamp.boottime_ns <= clock_now_ns(CLOCK_BOOTTIME));
        assert_true(stamp.boottime_ns >= stamp.monotonic_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_clocks_at_one_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
