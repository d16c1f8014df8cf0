/* Arguments that no caller should pass to the public functions: nothing is lost by them, and nothing crashes. */
#include "support/support.h"

#include <lineprofiler.h>

#include "run/run.h"

#define MIB (1u << 20)

struct opened {
    char folder[64];
    lp_profiler *profiler;
};

static void begin(struct opened *opened)
{
    strcpy(opened->folder, "/tmp/lp-api-XXXXXX");
    assert_non_null(mkdtemp(opened->folder));
    const lp_options options = {.run_dir = opened->folder, .snapshot_interval_s = -1, .sample_interval_s = -1};
    opened->profiler = lp_open(&options);
    assert_non_null(opened->profiler);
}

/* Closes it and reads what it wrote, which must be whole. */
static struct lp_run *end(struct opened *opened)
{
    char message[512], command[128];
    struct lp_run *run;
    assert_int_equal(lp_close(opened->profiler), 0);
    if (lp_run_load(&run, opened->folder, NULL, message, sizeof message) != LP_RUN_OK)
        fail_msg("%s", message);
    assert_int_equal(run->n_unreadable, 0);
    snprintf(command, sizeof command, "rm -rf '%s'", opened->folder);
    assert_int_equal(system(command), 0);
    return run;
}

static void enter_and_count(lp_profiler *profiler, lp_name name)
{
    lp_phase phase = lp_enter(profiler, name);
    assert_int_equal(lp_count(profiler, name, 1), 0);
    lp_leave(&phase);
}

/* A worker file with a nameless phase would be refused as a whole. */
static void test_a_number_that_is_no_name_costs_nothing_else_B12(void **state)
{
    struct opened opened;
    (void)state;
    begin(&opened);
    lp_phase good = lp_enter(opened.profiler, lp_intern("good"));
    enter_and_count(opened.profiler, 0);
    enter_and_count(opened.profiler, 12345);
    enter_and_count(opened.profiler, UINT32_MAX);
    lp_leave(&good);
    struct lp_run *run = end(&opened);
    assert_int_equal(run->tree->n_children, 1);
    assert_int_equal(run->tree->children[0]->calls, 1);
    assert_int_equal(run->tree->children[0]->n_children, 0);
    assert_int_equal(run->tree->children[0]->n_counters, 0);
    lp_run_free(run);
}

/* Each of these bytes is kept as three. */
static void test_a_name_may_not_grow_beyond_its_limit_B12(void **state)
{
    struct opened opened;
    char *text = malloc(MIB + 2);
    (void)state;
    assert_non_null(text);
    memset(text, 0xff, MIB + 2);
    text[MIB] = '\0';
    assert_int_equal(lp_intern(text), 0);
    text[MIB / 3 + 1] = '\0';
    assert_int_equal(lp_intern(text), 0);
    text[MIB / 3] = '\0';
    begin(&opened);
    enter_and_count(opened.profiler, lp_intern(text));
    struct lp_run *run = end(&opened);
    assert_int_equal(run->tree->n_children, 1);
    assert_int_equal(run->tree->children[0]->name.len, MIB / 3 * 3);
    lp_run_free(run);
    free(text);
}

static void test_nothing_is_left_and_closed(void **state)
{
    lp_phase none = {0};
    (void)state;
    lp_leave(NULL);
    lp_leave(&none);
    assert_int_equal(lp_close(NULL), 0);
    assert_int_equal(lp_snapshot(NULL), 0);
    assert_int_equal(lp_intern(NULL), 0);
    assert_int_equal(lp_intern(""), 0);
    enter_and_count(NULL, lp_intern("name"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_number_that_is_no_name_costs_nothing_else_B12),
        cmocka_unit_test(test_a_name_may_not_grow_beyond_its_limit_B12),
        cmocka_unit_test(test_nothing_is_left_and_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
