/* The run id of a worker that nobody gave one. */
#include "support/support.h"

#include "worker/run_id.h"

static void set_step(const char *tasks)
{
    assert_int_equal(unsetenv("OMPI_COMM_WORLD_RANK"), 0);
    assert_int_equal(unsetenv("PMI_RANK"), 0);
    assert_int_equal(unsetenv("SLURM_ARRAY_JOB_ID"), 0);
    assert_int_equal(unsetenv("SLURM_RESTART_COUNT"), 0);
    assert_int_equal(unsetenv("SLURM_PTY_PORT"), 0);
    assert_int_equal(setenv("SLURM_JOB_ID", "77", 1), 0);
    assert_int_equal(setenv("SLURM_PROCID", "1", 1), 0);
    assert_int_equal(setenv("SLURM_STEP_ID", "0", 1), 0);
    assert_int_equal(setenv("SLURM_STEP_NUM_TASKS", tasks, 1), 0);
}

/* Each further worker in a directory is in a further run. */
static void test_the_launch_names_the_run_F4(void **state)
{
    char run_id[128];
    (void)state;
    set_step("4");
    assert_true(lp_run_id_of_launch(run_id, sizeof run_id, "/one"));
    assert_string_equal(run_id, "slurm-77.0");
    assert_true(lp_run_id_of_launch(run_id, sizeof run_id, "/other"));
    assert_string_equal(run_id, "slurm-77.0");
    assert_true(lp_run_id_of_launch(run_id, sizeof run_id, "/one"));
    assert_string_equal(run_id, "slurm-77.0-2");
    assert_true(lp_run_id_of_launch(run_id, sizeof run_id, "/one"));
    assert_string_equal(run_id, "slurm-77.0-3");
}

static void test_too_many_directories_have_ids_of_their_own(void **state)
{
    char run_id[128], folder[32];
    unsigned named = 0;
    (void)state;
    set_step("4");
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(folder, sizeof folder, "/many/%u", i);
        named += lp_run_id_of_launch(run_id, sizeof run_id, folder);
    }
    assert_true(named > 10 && named < 1000);
    assert_true(lp_run_id_of_launch(run_id, sizeof run_id, "/many/0"));
    assert_string_equal(run_id, "slurm-77.0-2");
}

static void test_alone_it_makes_one(void **state)
{
    char run_id[128] = "";
    (void)state;
    set_step("1");
    assert_false(lp_run_id_of_launch(run_id, sizeof run_id, "/alone"));
    lp_run_id_generate(run_id, sizeof run_id);
    assert_int_equal(strlen(run_id), strlen("20260813T2241-471c94"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_launch_names_the_run_F4),
        cmocka_unit_test(test_too_many_directories_have_ids_of_their_own),
        cmocka_unit_test(test_alone_it_makes_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
