#include "support/support.h"

#include "record/table.h"

#define KEYS 5000

static void test_what_was_put_is_found_and_nothing_else(void **state)
{
    struct lp_table table = {0};
    static uint64_t keys[KEYS];
    uint64_t seed = 7;
    (void)state;
    assert_int_equal(lp_table_get(&table, 1), 0);
    for (uint32_t i = 0; i < KEYS; i++) { /* as they occur: a parent and a small number; and hashes */
        keys[i] = i % 2 ? random_next(&seed) | 1 : (uint64_t)(i / 7 + 1) << 32 | (i % 7 + 1);
        assert_int_equal(lp_table_get(&table, keys[i]), 0);
        assert_true(lp_table_put(&table, keys[i], i + 1));
        assert_int_equal(table.used, i + 1);
    }
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(lp_table_get(&table, keys[i]), i + 1);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(lp_table_get(&table, random_next(&seed) & ~(uint64_t)1), 0);
    lp_table_release(&table);
    assert_int_equal(table.size, 0);
}

static void test_a_reset_table_is_empty(void **state)
{
    struct lp_table table = {0};
    (void)state;
    lp_table_reset(&table);
    assert_true(lp_table_put(&table, 9, 1));
    lp_table_reset(&table);
    assert_int_equal(lp_table_get(&table, 9), 0);
    assert_true(lp_table_put(&table, 9, 2));
    assert_int_equal(lp_table_get(&table, 9), 2);
    lp_table_release(&table);
    lp_table_release(&table);
}

static void test_a_reserved_place_needs_no_more_memory(void **state)
{
    struct lp_table table = {0};
    (void)state;
    for (uint64_t key = 1; key < 1000; key++) {
        assert_true(lp_table_reserve(&table));
        uint32_t size = table.size;
        assert_true(lp_table_put(&table, key, 1));
        assert_int_equal(table.size, size);
    }
    lp_table_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_put_is_found_and_nothing_else),
        cmocka_unit_test(test_a_reset_table_is_empty),
        cmocka_unit_test(test_a_reserved_place_needs_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
