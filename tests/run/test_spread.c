/* How a phase differs between workers, against the workers themselves: L1. */
#include "support.h"

#include "run/spread.h"
#include "run/tree.h"

static struct lp_run_share share(uint64_t calls, uint64_t each_ns, unsigned bucket)
{
    struct lp_run_share share = {0};
    lp_run_share_add(&share, calls, calls * each_ns);
    lp_run_share_add_bucket(&share, bucket, calls);
    return share;
}

static void test_sums_are_those_of_the_workers(void **state)
{
    (void)state;
    struct lp_run_spread spread = {0};
    struct lp_run_share shares[] = {share(10, 100, 37), share(3, 200, 45), {0}};
    for (size_t i = 0; i < 3; i++)
        lp_run_spread_add(&spread, &shares[i]);
    uint64_t l0 = 10 * lp_hist_bucket_log(37), l1 = 3 * lp_hist_bucket_log(45);
    assert_true(spread.cc == 100 + 9 && spread.ccc == 1000 + 27);
    assert_true(spread.cw == 10 * 1000 + 3 * 600 && spread.ww == 1000 * 1000 + 600 * 600);
    assert_true(spread.l == l0 + l1 && spread.cl == 10 * l0 + 3 * l1 && spread.ll == l0 * l0 + l1 * l1);
    assert_false(spread.saturated);
}

static void test_limits_saturate_and_say_so(void **state)
{
    (void)state;
    struct lp_run_spread spread = {0}, other = {0};
    struct lp_run_share full = {.calls = UINT64_MAX, .wall_ns = UINT64_MAX};
    lp_run_spread_add(&spread, &full);
    assert_true(spread.saturated); /* The cube. */
    assert_true(spread.ccc == ~(lp_run_square)0);
    lp_run_spread_merge(&other, &spread);
    assert_true(other.saturated);
    lp_run_spread_merge(&other, &spread);
    assert_true(other.ww == ~(lp_run_square)0);
}

/* Two threads of one worker are one share of it: products are of their sum. */
static void test_threads_of_a_worker_count_together(void **state)
{
    (void)state;
    struct lp_run_tree tree;
    assert_int_equal(lp_run_tree_init(&tree), 0);
    struct lp_run_node *node = lp_run_tree_child(&tree, tree.root, view_of("step"));
    const struct lp_run_figures figures = {.stride = 1, .calls = 2, .wall_ns = 70, .open_calls = 1, .open_wall_ns = 10};
    for (uint64_t worker = 1; worker <= 2; worker++) {
        for (int thread = 0; thread < 2; thread++) {
            lp_run_tree_note_worker(node, worker);
            assert_int_equal(lp_run_tree_add_hist(node, 30, 2), 0);
            lp_run_tree_add(node, &figures);
        }
    }
    struct lp_run_phase *root = lp_run_tree_seal(&tree);
    assert_non_null(root);
    const struct lp_run_spread *spread = &root->children[0]->spread;
    assert_true(spread->cc == 2 * 16);
    assert_true(spread->cw == 2 * 4 * 120); /* Open entries are left out. */
    assert_true(spread->ww == 2 * 120 * 120);
    assert_true(spread->l == 8 * lp_hist_bucket_log(30));
    lp_run_phase_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_those_of_the_workers),
        cmocka_unit_test(test_limits_saturate_and_say_so),
        cmocka_unit_test(test_threads_of_a_worker_count_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
