/* Histograms: buckets, totals, quantiles against the exact ones: B2, HG01, HG03. */
#include <math.h>

#include "support.h"

#include "run/hist.h"

static void test_buckets_cover_every_duration_once(void **state)
{
    (void)state;
    uint64_t next = 0;
    for (unsigned bucket = 0; bucket <= LP_HIST_HIT_MAX; bucket++) {
        uint64_t begin = lp_hist_bucket_begin(bucket), width = lp_hist_bucket_width(bucket);
        assert_int_equal(begin, next);
        assert_int_equal(lp_hist_bucket_of(begin), bucket);
        assert_int_equal(lp_hist_bucket_of(begin + (width - 1)), bucket);
        next = begin + width;
    }
    assert_int_equal(next, 0); /* one beyond the largest 64-bit number */
    assert_int_equal(lp_hist_bucket_of(UINT64_MAX), LP_HIST_HIT_MAX);
}

/* What geometric means are made of: within half a bucket of the true logarithm, and in order. */
static void test_logarithms_of_buckets_L1(void **state)
{
    (void)state;
    for (unsigned bucket = 1; bucket <= LP_HIST_HIT_MAX; bucket++) {
        double middle = (double)lp_hist_bucket_begin(bucket) + (double)(lp_hist_bucket_width(bucket) - 1) / 2;
        double log = (double)lp_hist_bucket_log(bucket) / LP_HIST_LOG_UNIT;
        assert_true(fabs(log - log2(middle)) < 0.1);
        assert_true(lp_hist_bucket_log(bucket) >= lp_hist_bucket_log(bucket - 1));
        if (bucket >= 64)
            assert_true(fabs(log - log2(middle)) < 0.02);
    }
}

static void test_buckets_beyond_the_last(void **state)
{
    (void)state;
    struct lp_hist hist = {{0}};
    assert_int_equal(lp_hist_bucket_begin(LP_HIST_HIT_MAX + 1), UINT64_MAX);
    assert_int_equal(lp_hist_bucket_width(LP_HIST_BUCKETS - 1), 1);
    assert_int_equal(lp_hist_bucket(&hist, LP_HIST_BUCKETS), 0);
    assert_int_equal(lp_hist_bucket(&hist, 100), 0);
}

static void add(struct lp_hist *hist, unsigned bucket, uint64_t count)
{
    bool saturated = false;
    assert_int_equal(lp_run_hist_add(hist, bucket, count, &saturated), 0);
    assert_false(saturated);
}

static void test_counts_add_up_before_and_after_a_merge_HG03(void **state)
{
    (void)state;
    struct lp_hist a = {{0}}, b = {{0}};
    bool saturated = false;
    add(&a, 0, 3);
    add(&a, LP_HIST_HIT_MAX, 4);
    add(&b, LP_HIST_HIT_MAX, 5);
    add(&b, 100, 1);
    assert_int_equal(lp_run_hist_merge(&a, &b, &saturated), 0);
    assert_int_equal(lp_hist_total(&a), 13);
    assert_int_equal(lp_hist_bucket(&a, LP_HIST_HIT_MAX), 9);
    assert_int_equal(lp_hist_bucket(&a, 100), 1);
    assert_int_equal(lp_hist_total(&b), 6);
    assert_false(saturated);
    lp_run_hist_release(&a);
    lp_run_hist_release(&b);
}

static void test_full_buckets_saturate(void **state)
{
    (void)state;
    struct lp_hist hist = {{0}};
    bool saturated = false;
    add(&hist, 5, UINT64_MAX - 1);
    assert_int_equal(lp_run_hist_add(&hist, 5, 2, &saturated), 0);
    assert_true(saturated);
    assert_int_equal(lp_hist_bucket(&hist, 5), UINT64_MAX);
    add(&hist, 6, 1);
    assert_int_equal(lp_hist_total(&hist), UINT64_MAX);
    assert_true(lp_hist_quantile(&hist, 1) >= 5);
    lp_run_hist_release(&hist);
}

static void test_quantile_of_nothing(void **state)
{
    (void)state;
    struct lp_hist hist = {{0}};
    assert_true(lp_hist_quantile(&hist, 0.5) == 0);
}

static void test_small_durations_are_exact(void **state)
{
    (void)state;
    struct lp_hist hist = {{0}};
    for (unsigned ns = 1; ns <= 10; ns++)
        add(&hist, ns, 1);
    assert_true(lp_hist_quantile(&hist, 0.5) == 5);
    assert_true(lp_hist_quantile(&hist, 0) == 1);
    assert_true(lp_hist_quantile(&hist, 1) == 10);
    assert_true(lp_hist_quantile(&hist, -1) == 1);
    assert_true(lp_hist_quantile(&hist, 7) == 10);
    assert_true(lp_hist_quantile(&hist, NAN) == 1);
    lp_run_hist_release(&hist);
}

/* A generator of its own, so that the data is the same everywhere. */
static double uniform(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(*seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *seed)
{
    return sqrt(-2 * log(uniform(seed))) * cos(6.283185307179586 * uniform(seed));
}

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

#define N 20000

/* Each quantile lies in the bucket of the exact one, or touches it from the next. */
static void assert_quantiles(uint64_t *durations)
{
    static const double qs[] = {0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1};
    struct lp_hist hist = {{0}};
    for (size_t i = 0; i < N; i++)
        add(&hist, lp_hist_bucket_of(durations[i]), 1);
    qsort(durations, N, sizeof *durations, by_value);
    for (size_t i = 0; i < sizeof qs / sizeof *qs; i++) {
        size_t rank = (size_t)ceil(qs[i] * N);
        uint64_t exact = durations[rank ? rank - 1 : 0];
        uint64_t found = (uint64_t)lp_hist_quantile(&hist, qs[i]);
        if (lp_hist_bucket_of(found) != lp_hist_bucket_of(exact))
            fail_msg("q %g: %llu, exactly %llu", qs[i], (unsigned long long)found, (unsigned long long)exact);
    }
    lp_run_hist_release(&hist);
}

static void test_quantiles_of_log_normal_durations(void **state)
{
    (void)state;
    static uint64_t durations[N];
    uint64_t seed = 1;
    for (size_t i = 0; i < N; i++)
        durations[i] = (uint64_t)exp(13 + 2 * normal(&seed));
    assert_quantiles(durations);
}

static void test_quantiles_of_constant_durations(void **state)
{
    (void)state;
    static uint64_t durations[N];
    static const uint64_t values[] = {0, 1, 15, 16, 17, 1000000, UINT64_C(3600000000000)};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        for (size_t i = 0; i < N; i++)
            durations[i] = values[v];
        assert_quantiles(durations);
    }
}

static void test_quantiles_of_two_humps(void **state)
{
    (void)state;
    static uint64_t durations[N];
    uint64_t seed = 7;
    for (size_t i = 0; i < N; i++)
        durations[i] = (uint64_t)((i % 10 ? 2e3 : 5e8) * (1 + 0.2 * uniform(&seed)));
    assert_quantiles(durations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_cover_every_duration_once),
        cmocka_unit_test(test_logarithms_of_buckets_L1),
        cmocka_unit_test(test_buckets_beyond_the_last),
        cmocka_unit_test(test_counts_add_up_before_and_after_a_merge_HG03),
        cmocka_unit_test(test_full_buckets_saturate),
        cmocka_unit_test(test_quantile_of_nothing),
        cmocka_unit_test(test_small_durations_are_exact),
        cmocka_unit_test(test_quantiles_of_log_normal_durations),
        cmocka_unit_test(test_quantiles_of_constant_durations),
        cmocka_unit_test(test_quantiles_of_two_humps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
