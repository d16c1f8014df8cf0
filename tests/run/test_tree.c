/* The merge tree: sums, order, associativity: J2, G2, B2. */
#include "support.h"

#include "run/tree.h"

static struct lp_run_node *child(struct lp_run_tree *tree, struct lp_run_node *parent, const char *name)
{
    struct lp_run_node *node = lp_run_tree_child(tree, parent, view_of(name));
    assert_non_null(node);
    return node;
}

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* What "worker" i adds: phases, histogram and counters that depend on i alone, now and then near the limits. */
static void add_worker(struct lp_run_tree *tree, uint64_t i)
{
    static const char *const names[] = {"a", "b", "c\xed\xb3\xbf", "dd"};
    uint64_t seed = i * 77 + 5;
    lp_run_tree_note_worker(tree->root, i + 1);
    for (int n = 0; n < 6; n++) {
        struct lp_run_node *node = tree->root;
        for (uint64_t depth = 1 + next(&seed) % 3; depth; depth--)
            node = child(tree, node, names[next(&seed) % 4]);
        struct lp_run_figures figures = {.calls = next(&seed) % 100,
                                         .wall_ns = next(&seed),
                                         .cpu_ns = next(&seed),
                                         .child_wall_ns = next(&seed),
                                         .nocpu_wall_ns = next(&seed) % 2 ? 0 : next(&seed),
                                         .late_wall_ns = next(&seed) % 50,
                                         .open_calls = next(&seed) % 2,
                                         .open_wall_ns = next(&seed) % 9,
                                         .stride = next(&seed) % 4 ? 1 : 1 + next(&seed) % 100,
                                         .spare_calls = next(&seed) % 100,
                                         .cpu_seen = next(&seed) % 3 > 0};
        if (next(&seed) % 8 == 0)
            figures.wall_ns = UINT64_MAX / 3;
        struct lp_run_tally tally = {view_of(names[next(&seed) % 4]), (int64_t)next(&seed) - (1 << 30),
                                     1 + next(&seed) % 5, -(int64_t)(next(&seed) % 10), (int64_t)(next(&seed) % 10)};
        if (next(&seed) % 4 == 0)
            tally.sum = next(&seed) % 2 ? INT64_MAX : INT64_MIN;
        lp_run_tree_note_worker(node, i + 1);
        lp_run_tree_add(node, &figures);
        assert_int_equal(lp_run_tree_add_hist(node, (unsigned)(next(&seed) % 496), figures.calls), 0);
        assert_int_equal(lp_run_tree_count(tree, node, &tally), 0);
    }
}

static void assert_same_counter(const struct lp_run_counter *a, const struct lp_run_counter *b)
{
    assert_true(lp_text_equal(lp_text_span(&a->name), lp_text_span(&b->name)));
    assert_int_equal(a->sum, b->sum);
    assert_int_equal(a->calls, b->calls);
    assert_int_equal(a->min, b->min);
    assert_int_equal(a->max, b->max);
    assert_int_equal(a->saturated, b->saturated);
}

static void assert_same_phase(const struct lp_run_phase *a, const struct lp_run_phase *b)
{
    assert_true(lp_text_equal(lp_text_span(&a->name), lp_text_span(&b->name)));
    assert_int_equal(a->calls, b->calls);
    assert_int_equal(a->wall_ns, b->wall_ns);
    assert_int_equal(a->cpu_ns, b->cpu_ns);
    assert_int_equal(a->nocpu_wall_ns, b->nocpu_wall_ns);
    assert_int_equal(a->child_wall_ns, b->child_wall_ns);
    assert_int_equal(a->late_wall_ns, b->late_wall_ns);
    assert_int_equal(a->open_calls, b->open_calls);
    assert_int_equal(a->open_wall_ns, b->open_wall_ns);
    assert_int_equal(a->stride_min, b->stride_min);
    assert_int_equal(a->stride_max, b->stride_max);
    assert_int_equal(a->spare_calls, b->spare_calls);
    assert_int_equal(a->workers, b->workers);
    assert_int_equal(a->cpu_known, b->cpu_known);
    assert_int_equal(a->estimated, b->estimated);
    assert_int_equal(a->saturated, b->saturated);
    assert_true(a->spread.cc == b->spread.cc && a->spread.ccc == b->spread.ccc && a->spread.cw == b->spread.cw);
    assert_true(a->spread.ww == b->spread.ww && a->spread.cl == b->spread.cl && a->spread.ll == b->spread.ll);
    assert_int_equal(a->spread.l, b->spread.l);
    assert_int_equal(a->spread.saturated, b->spread.saturated);
    for (unsigned i = 0; i < LP_HIST_BUCKETS; i++)
        assert_int_equal(lp_hist_bucket(&a->hist, i), lp_hist_bucket(&b->hist, i));
    assert_int_equal(a->n_counters, b->n_counters);
    for (size_t i = 0; i < a->n_counters; i++)
        assert_same_counter(&a->counters[i], &b->counters[i]);
    assert_int_equal(a->n_children, b->n_children);
    for (size_t i = 0; i < a->n_children; i++)
        assert_same_phase(a->children[i], b->children[i]);
}

#define WORKERS 24

static struct lp_run_phase *merged_in_order(const uint64_t *order)
{
    struct lp_run_tree tree;
    assert_int_equal(lp_run_tree_init(&tree), 0);
    for (size_t i = 0; i < WORKERS; i++)
        add_worker(&tree, order[i]);
    struct lp_run_phase *root = lp_run_tree_seal(&tree);
    assert_non_null(root);
    return root;
}

static void test_any_order_gives_the_same_J2(void **state)
{
    (void)state;
    uint64_t order[WORKERS], seed = 3;
    for (uint64_t i = 0; i < WORKERS; i++)
        order[i] = i;
    struct lp_run_phase *expected = merged_in_order(order);
    for (int round = 0; round < 50; round++) {
        for (size_t i = WORKERS - 1; i > 0; i--) {
            size_t j = next(&seed) % (i + 1);
            uint64_t kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
        struct lp_run_phase *found = merged_in_order(order);
        assert_same_phase(expected, found);
        lp_run_phase_free(found);
    }
    lp_run_phase_free(expected);
}

/* Merges the workers from begin to end by splitting them at random and merging the halves' trees. */
static void merge_split(struct lp_run_tree *tree, uint64_t begin, uint64_t end, uint64_t *seed)
{
    assert_int_equal(lp_run_tree_init(tree), 0);
    if (end - begin == 1) {
        add_worker(tree, begin);
        return;
    }
    struct lp_run_tree left, right;
    uint64_t middle = begin + 1 + next(seed) % (end - begin - 1);
    merge_split(&left, begin, middle, seed);
    merge_split(&right, middle, end, seed);
    assert_int_equal(lp_run_tree_merge(tree, next(seed) % 2 ? &left : &right), 0);
    lp_run_tree_release(tree);
    assert_int_equal(lp_run_tree_init(tree), 0);
    bool swap = next(seed) % 2;
    assert_int_equal(lp_run_tree_merge(tree, swap ? &right : &left), 0);
    assert_int_equal(lp_run_tree_merge(tree, swap ? &left : &right), 0);
    lp_run_tree_release(&left);
    lp_run_tree_release(&right);
}

static void test_merges_of_merges_are_the_merge_of_all_J2(void **state)
{
    (void)state;
    uint64_t order[WORKERS], seed = 9;
    for (uint64_t i = 0; i < WORKERS; i++)
        order[i] = i;
    struct lp_run_phase *expected = merged_in_order(order);
    for (int round = 0; round < 50; round++) {
        struct lp_run_tree tree;
        merge_split(&tree, 0, WORKERS, &seed);
        struct lp_run_phase *found = lp_run_tree_seal(&tree);
        assert_non_null(found);
        assert_same_phase(expected, found);
        lp_run_phase_free(found);
    }
    lp_run_phase_free(expected);
}

static void test_children_and_counters_are_sorted(void **state)
{
    (void)state;
    static const char *const names[] = {"b", "a", "c", "ab", "aa"};
    struct lp_run_tree tree;
    assert_int_equal(lp_run_tree_init(&tree), 0);
    for (size_t i = 0; i < 5; i++) {
        struct lp_run_tally tally = {view_of(names[i]), 1, 1, 1, 1};
        child(&tree, tree.root, names[i]);
        assert_int_equal(lp_run_tree_count(&tree, tree.root, &tally), 0);
    }
    struct lp_run_phase *root = lp_run_tree_seal(&tree);
    static const char *const sorted[] = {"a", "aa", "ab", "b", "c"};
    assert_int_equal(root->n_children, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(root->children[i]->name.bytes, sorted[i]);
        assert_string_equal(root->counters[i].name.bytes, sorted[i]);
        assert_ptr_equal(lp_run_phase_child(root, sorted[i], strlen(sorted[i])), root->children[i]);
        assert_ptr_equal(root->children[i]->parent, root);
    }
    assert_null(lp_run_phase_child(root, "abc", 3));
    assert_null(lp_run_phase_child(root, "", 0));
    lp_run_phase_free(root);
}

/* The sum of two counters one step beyond the limit is the limit, and says so; whatever else is added in between. */
static void test_counter_sums_saturate(void **state)
{
    (void)state;
    static const struct {
        int64_t a, b, c, sum;
        bool saturated;
    } cases[] = {
        {INT64_MAX, 1, 0, INT64_MAX, true},
        {INT64_MIN, -1, 0, INT64_MIN, true},
        {INT64_MAX, 1, -1, INT64_MAX, false},
        {INT64_MIN, INT64_MAX, 1, 0, false},
        {INT64_MIN, 0, 0, INT64_MIN, false},
        {INT64_MAX, 0, 0, INT64_MAX, false},
        {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lp_run_tree tree;
        const int64_t sums[] = {cases[i].a, cases[i].b, cases[i].c};
        assert_int_equal(lp_run_tree_init(&tree), 0);
        for (size_t j = 0; j < 3; j++) {
            struct lp_run_tally tally = {view_of("n"), sums[j], 1, sums[j], sums[j]};
            assert_int_equal(lp_run_tree_count(&tree, tree.root, &tally), 0);
        }
        struct lp_run_phase *root = lp_run_tree_seal(&tree);
        assert_int_equal(root->counters[0].sum, cases[i].sum);
        assert_int_equal(root->counters[0].saturated, cases[i].saturated);
        assert_int_equal(root->counters[0].calls, 3);
        lp_run_phase_free(root);
    }
}

static void test_a_worker_counts_once_for_each_path(void **state)
{
    (void)state;
    struct lp_run_tree tree;
    assert_int_equal(lp_run_tree_init(&tree), 0);
    struct lp_run_node *a = child(&tree, tree.root, "a"), *b = child(&tree, tree.root, "b");
    lp_run_tree_note_worker(a, 1);
    lp_run_tree_note_worker(b, 1);
    lp_run_tree_note_worker(a, 1);
    lp_run_tree_note_worker(a, 2);
    struct lp_run_phase *root = lp_run_tree_seal(&tree);
    assert_int_equal(root->children[0]->workers, 2);
    assert_int_equal(root->children[1]->workers, 1);
    lp_run_phase_free(root);
}

static struct lp_run_phase *sealed_sum(const struct lp_run_figures *figures, size_t n)
{
    struct lp_run_tree tree;
    assert_int_equal(lp_run_tree_init(&tree), 0);
    for (size_t i = 0; i < n; i++)
        lp_run_tree_add(tree.root, &figures[i]);
    return lp_run_tree_seal(&tree);
}

static void test_cpu_is_known_where_some_was_measured_B7(void **state)
{
    (void)state;
    static const struct {
        struct lp_run_figures figures[2];
        bool known;
    } cases[] = {
        {{{.stride = 1, .wall_ns = 9, .nocpu_wall_ns = 9}, {.stride = 1, .wall_ns = 4, .nocpu_wall_ns = 4}}, false},
        {{{.stride = 1, .wall_ns = 9, .nocpu_wall_ns = 9}, {.stride = 1, .wall_ns = 4, .cpu_seen = true}}, true},
        {{{.stride = 1, .wall_ns = 9, .nocpu_wall_ns = 9}, {.stride = 1, .cpu_seen = true}}, false},
        {{{.stride = 1, .cpu_seen = true}, {.stride = 1, .cpu_seen = true}}, true},
        {{{.stride = 1}, {.stride = 1}}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lp_run_phase *root = sealed_sum(cases[i].figures, 2);
        assert_int_equal(root->cpu_known, cases[i].known);
        lp_run_phase_free(root);
    }
}

static void test_one_sampled_part_makes_an_estimate_G2(void **state)
{
    (void)state;
    struct lp_run_figures figures[] = {{.stride = 1}, {.stride = 100}, {.stride = 10}};
    struct lp_run_phase *root = sealed_sum(figures, 3);
    assert_true(root->estimated);
    assert_int_equal(root->stride_min, 1);
    assert_int_equal(root->stride_max, 100);
    lp_run_phase_free(root);
    root = sealed_sum(figures, 1);
    assert_false(root->estimated);
    lp_run_phase_free(root);
    root = sealed_sum(figures, 0);
    assert_int_equal(root->stride_min, 1);
    assert_int_equal(root->stride_max, 1);
    lp_run_phase_free(root);
}

/* Twice the siblings take about twice the time; found out by number of look-ups, not by a clock: all are found again.
   */
static void test_many_siblings(void **state)
{
    (void)state;
    struct lp_run_tree tree;
    assert_int_equal(lp_run_tree_init(&tree), 0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20000; i++) {
            char name[24];
            snprintf(name, sizeof name, "rank_%d", i);
            struct lp_run_figures figures = {.stride = 1, .calls = 1};
            lp_run_tree_add(child(&tree, tree.root, name), &figures);
        }
    }
    struct lp_run_phase *root = lp_run_tree_seal(&tree);
    assert_int_equal(root->n_children, 20000);
    for (size_t i = 0; i < root->n_children; i++)
        assert_int_equal(root->children[i]->calls, 2);
    lp_run_phase_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order_gives_the_same_J2),
        cmocka_unit_test(test_merges_of_merges_are_the_merge_of_all_J2),
        cmocka_unit_test(test_children_and_counters_are_sorted),
        cmocka_unit_test(test_counter_sums_saturate),
        cmocka_unit_test(test_a_worker_counts_once_for_each_path),
        cmocka_unit_test(test_cpu_is_known_where_some_was_measured_B7),
        cmocka_unit_test(test_one_sampled_part_makes_an_estimate_G2),
        cmocka_unit_test(test_many_siblings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
