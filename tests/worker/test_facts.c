/* Names that become file names. */
#include "support/support.h"

#include "worker/internal.h"

static void assert_named(const char *text, const char *expected)
{
    char name[64];
    lp_file_name_from(name, sizeof name, text);
    assert_string_equal(name, expected);
}

static void test_file_names(void **state)
{
    char small[4];
    (void)state;
    assert_named("node-07.cluster_A", "node-07.cluster_A");
    assert_named("", "");
    assert_named(".", "_");
    assert_named("..", "_.");
    assert_named("../../etc", "_._.._etc");
    assert_named("a/b c\td\n", "a_b_c_d_");
    assert_named("\xe8\xae\xad", "___");
    lp_file_name_from(small, sizeof small, "longer");
    assert_string_equal(small, "lon");
}

static void test_names_differ_and_fit(void **state)
{
    static struct lp_worker one, two;
    char run_id[LP_RUN_ID_BYTES + 1], run_dir[] = "/run";
    (void)state;
    memset(run_id, 'r', sizeof run_id - 1);
    run_id[sizeof run_id - 1] = '\0';
    one.run_id = two.run_id = run_id;
    one.run_dir = two.run_dir = run_dir;
    lp_identity_read(&one.identity);
    two.identity = one.identity;
    memset(one.identity.host, 'h', sizeof one.identity.host - 1);
    one.identity.pid = two.identity.pid = INT32_MAX;
    assert_int_equal(lp_worker_make_names(&one), 0);
    assert_int_equal(lp_worker_make_names(&two), 0);
    assert_string_not_equal(one.name, two.name);
    assert_true(strlen(one.name) + strlen(".json.tmp") <= 255);
    assert_memory_equal(one.path, one.folder, strlen(one.folder));
    free(one.folder);
    free(one.path);
    free(two.folder);
    free(two.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_names),
        cmocka_unit_test(test_names_differ_and_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
