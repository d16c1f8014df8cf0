/* The bucket formula of docs/format.md, written out a second time, against the one that the recorder uses. */
#include "support/support.h"

#include "image/hist.h"

static unsigned bucket_by_the_book(uint64_t v)
{
    unsigned e = 0;
    if (v < 16)
        return (unsigned)v;
    while (v >> e > 1)
        e++;
    return (e - 2) * 8 + (unsigned)((v >> (e - 3)) & 7);
}

static void check(uint64_t v)
{
    unsigned bucket = lp_hist_bucket_of(v);
    assert_int_equal(bucket, bucket_by_the_book(v));
    assert_true(bucket < 496);
    assert_true(bucket / LP_HIST_PER_OCTAVE < LP_HIST_USED_OCTAVES);
    if (bucket < 16) {
        assert_int_equal(bucket, v);
        return;
    }
    uint64_t begin = (uint64_t)(8 + bucket % 8) << (bucket / 8 - 1), width = (uint64_t)1 << (bucket / 8 - 1);
    assert_true(v >= begin && v - begin < width);
}

/* HG01: where the edges belong. */
static void test_powers_of_two_and_their_neighbours(void **state)
{
    (void)state;
    for (uint64_t v = 0; v < 4096; v++)
        check(v);
    for (unsigned e = 0; e < 64; e++) {
        uint64_t power = (uint64_t)1 << e;
        check(power - 1);
        check(power);
        check(power + 1);
    }
    check(UINT64_MAX);
    check(UINT64_MAX - 1);
}

static void test_edges_of_every_bucket(void **state)
{
    (void)state;
    for (unsigned bucket = 16; bucket < 496; bucket++) {
        uint64_t begin = (uint64_t)(8 + bucket % 8) << (bucket / 8 - 1);
        assert_int_equal(lp_hist_bucket_of(begin), bucket);
        assert_int_equal(lp_hist_bucket_of(begin - 1), bucket - 1);
    }
}

static void test_random_durations(void **state)
{
    uint64_t seed = 6;
    (void)state;
    for (int i = 0; i < 1000000; i++)
        check(random_next(&seed) >> random_next(&seed) % 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_powers_of_two_and_their_neighbours),
        cmocka_unit_test(test_edges_of_every_bucket),
        cmocka_unit_test(test_random_durations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
