/* What launched a process: the variables of launchers and batch systems, and nothing guessed. */
#include "support/support.h"

#include "process/launch.h"

static const char *const variables[] = {
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "RANK",
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_JOB_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "FLUX_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_TASK_PID",
    "SLURM_PTY_PORT",
    "SLURM_RESTART_COUNT",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "RAY_RAYLET_PID",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_ERROR_FILE",
    "GROUP_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_MCA_orte_precondition_transports",
    "PMIX_NAMESPACE",
    "PMIX_SERVER_URI2",
};

/* The launch in an environment with these and no other launcher's variables. */
static struct lp_launch launch_with(const char *const (*pairs)[2], size_t n)
{
    struct lp_launch launch;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        assert_int_equal(unsetenv(variables[i]), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(setenv(pairs[i][0], pairs[i][1], 1), 0);
    lp_launch_read(&launch);
    return launch;
}

#define WITH(...)                                                                                                      \
    launch_with((const char *const[][2]){__VA_ARGS__},                                                                 \
                sizeof((const char *const[][2]){__VA_ARGS__}) / sizeof(char *[2]))

static void test_nothing_launched_this(void **state)
{
    struct lp_launch launch = launch_with(NULL, 0);
    (void)state;
    assert_int_equal(launch.rank, -1);
    assert_int_equal(launch.world_size, -1);
    assert_null(launch.launcher);
    assert_null(launch.job_system);
    assert_string_equal(launch.name, "");
    assert_false(launch.may_be_mpi);
}

/* F2: in that order. */
static void test_each_launcher(void **state)
{
    struct lp_launch launch;
    (void)state;
    launch = WITH({"PMI_RANK", "3"}, {"PMI_SIZE", "4"});
    assert_string_equal(launch.launcher, "pmi");
    assert_int_equal(launch.rank, 3);
    assert_int_equal(launch.world_size, 4);
    launch = WITH({"PMI_RANK", "3"}, {"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "6"});
    assert_string_equal(launch.launcher, "openmpi");
    assert_int_equal(launch.rank, 5);
    assert_int_equal(launch.world_size, 6);
    launch = WITH({"OMPI_COMM_WORLD_RANK", "5"}, {"RANK", "0"}, {"WORLD_SIZE", "8"});
    assert_string_equal(launch.launcher, "torchrun");
    assert_int_equal(launch.rank, 0);
    assert_int_equal(launch.world_size, 8);
    launch = WITH({"RANK", "1"}, {"SLURM_PROCID", "1023"}, {"SLURM_NTASKS", "1024"}, {"SLURM_JOB_ID", "77"});
    assert_string_equal(launch.launcher, "slurm");
    assert_int_equal(launch.rank, 1023);
    assert_int_equal(launch.world_size, 1024);
    assert_string_equal(launch.job_system, "slurm");
    assert_string_equal(launch.job_id, "77");
}

static void test_a_rank_without_a_world(void **state)
{
    struct lp_launch launch = WITH({"RANK", "2"});
    (void)state;
    assert_int_equal(launch.rank, 2);
    assert_int_equal(launch.world_size, -1);
    assert_int_equal(WITH({"RANK", "2"}, {"WORLD_SIZE", "0"}).world_size, -1);
    assert_int_equal(WITH({"RANK", "2"}, {"WORLD_SIZE", "-4"}).world_size, -1);
}

static void test_what_is_no_number_is_no_rank(void **state)
{
    static const char *const bad[] = {
        "", " ", "x", "-1", "+1", " 1", "1 ", "1.0", "0x1", "1e3", "2147483648", "99999999999999999999999", "1\n"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lp_launch launch = WITH({"SLURM_PROCID", bad[i]}, {"SLURM_NTASKS", "9"});
        assert_int_equal(launch.rank, -1);
        assert_int_equal(launch.world_size, -1);
        assert_null(launch.launcher);
        launch = WITH({"SLURM_PROCID", bad[i]}, {"PMI_RANK", "7"}); /* the next one counts */
        assert_int_equal(launch.rank, 7);
    }
    assert_int_equal(WITH({"RANK", "2147483647"}).rank, INT32_MAX);
    assert_int_equal(WITH({"RANK", "007"}).rank, 7);
}

static void test_each_batch_system(void **state)
{
    static const char *const pairs[][2] = {
        {"SLURM_JOB_ID", "slurm"}, {"PBS_JOBID", "pbs"}, {"LSB_JOBID", "lsf"}, {"FLUX_JOB_ID", "flux"}};
    char long_id[400];
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct lp_launch launch = WITH({pairs[i][0], "12.head-\"node\""});
        assert_string_equal(launch.job_system, pairs[i][1]);
        assert_string_equal(launch.job_id, "12.head-\"node\"");
    }
    assert_null(WITH({"PBS_JOBID", ""}).job_system);
    memset(long_id, 'j', sizeof long_id);
    long_id[sizeof long_id - 1] = '\0';
    struct lp_launch launch = WITH({"LSB_JOBID", long_id});
    assert_int_equal(strlen(launch.job_id), sizeof launch.job_id - 1);
}

/* ---- one inside the other ------------------------------------------------------------ */

/* What srun sets for its task, and what of that the programs below inherit. */
#define TASK(rank)                                                                                                     \
    {"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", rank}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"},                     \
        {"SLURM_STEP_NUM_TASKS", "4"},                                                                                 \
    {                                                                                                                  \
        "SLURM_TASK_PID", "4711"                                                                                       \
    }
#define BATCH_SCRIPT                                                                                                   \
    {"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"},                                              \
    {                                                                                                                  \
        "SLURM_TASK_PID", "4711"                                                                                       \
    }

static void test_the_inner_launcher_knows_the_rank_F2(void **state)
{
    struct lp_launch launch;
    (void)state;
    launch = WITH(BATCH_SCRIPT, {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"});
    assert_string_equal(launch.launcher, "openmpi");
    assert_int_equal(launch.rank, 3);
    assert_string_equal(launch.job_id, "77");
    launch = WITH(TASK("1"), {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}); /* below its daemon */
    assert_int_equal(launch.rank, 3);
    launch = WITH(TASK("1"), {"TORCHELASTIC_RUN_ID", "none"}, {"RANK", "15"}, {"WORLD_SIZE", "32"});
    assert_string_equal(launch.launcher, "torchrun");
    assert_int_equal(launch.rank, 15);
    assert_int_equal(launch.world_size, 32);
    launch = WITH(BATCH_SCRIPT, {"PMI_RANK", "2"}, {"PMI_SIZE", "4"});
    assert_string_equal(launch.launcher, "pmi");
    assert_int_equal(launch.rank, 2);
    launch = WITH(TASK("2"), {"PMI_RANK", "2"}, {"PMI_SIZE", "4"}); /* srun --mpi=pmi2 */
    assert_string_equal(launch.launcher, "slurm");
    assert_int_equal(launch.rank, 2);
}

static void test_a_batch_script_is_no_rank_F2(void **state)
{
    struct lp_launch launch = WITH(BATCH_SCRIPT);
    (void)state;
    assert_int_equal(launch.rank, -1);
    assert_null(launch.launcher);
    assert_string_equal(launch.job_system, "slurm");
    launch = WITH(BATCH_SCRIPT, {"SLURM_STEP_ID", "4294967291"}); /* as later versions call it */
    assert_int_equal(launch.rank, -1);
}

/* Daemons of Ray are started as a step, and their workers inherit what the task was told. */
static void test_a_worker_of_ray_is_no_task_F2(void **state)
{
    (void)state;
    struct lp_launch launch = WITH(TASK("3"), {"RAY_RAYLET_PID", "4242"});
    assert_null(launch.launcher);
    assert_int_equal(launch.rank, -1);
    assert_int_equal(launch.world_size, -1);
    assert_string_equal(launch.job_id, "77");
    launch = WITH(TASK("3"), {"RAY_RAYLET_PID", "4242"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}); /* --mpi=pmi2 */
    assert_null(launch.launcher);
    assert_int_equal(launch.rank, -1);
    launch = WITH({"RAY_RAYLET_PID", "4242"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"});
    assert_int_equal(launch.rank, -1);
    launch = WITH(TASK("3"), {"RAY_RAYLET_PID", "4242"}, {"RANK", "5"}, {"WORLD_SIZE", "16"}); /* Ray Train */
    assert_int_equal(launch.rank, 5);
    assert_int_equal(launch.world_size, 16);
}

static void test_the_job_of_an_array_is_called_as_slurm_shows_it_F2(void **state)
{
    (void)state;
    assert_string_equal(WITH(TASK("0"), {"SLURM_ARRAY_JOB_ID", "70"}, {"SLURM_ARRAY_TASK_ID", "3"}).job_id, "70_3");
    assert_null(WITH({"SLURM_ARRAY_JOB_ID", "70"}, {"SLURM_ARRAY_TASK_ID", "3"}).job_system);
}

/* ---- the name of a launch ------------------------------------------------------------- */

static void test_the_tasks_of_a_step_have_one_name_F4(void **state)
{
    (void)state;
    assert_string_equal(WITH(TASK("0")).name, "slurm-77.0");
    assert_string_equal(WITH(TASK("3")).name, "slurm-77.0");
    assert_string_equal(WITH(TASK("3"), {"SLURM_RESTART_COUNT", "2"}).name, "slurm-77.0-restart2");
    assert_string_equal(WITH(TASK("3"), {"SLURM_ARRAY_JOB_ID", "70"}, {"SLURM_ARRAY_TASK_ID", "3"}).name,
                        "slurm-70_3.0");
    assert_string_equal(WITH(TASK("1"), {"TORCHELASTIC_RUN_ID", "none"}, {"RANK", "15"}).name, "slurm-77.0");
}

/* PR10: what could be started again and again under one name has none. */
static void test_what_may_come_again_has_no_name_PR10(void **state)
{
    (void)state;
    assert_string_equal(WITH(BATCH_SCRIPT).name, "");
    assert_string_equal(WITH(TASK("0"), {"SLURM_PTY_PORT", "40123"}).name, "");
    assert_string_equal(WITH(TASK("0"), {"SLURM_STEP_NUM_TASKS", "1"}).name, "");
    assert_string_equal(WITH(TASK("1"), {"PMI_RANK", "3"}, {"PMI_SIZE", "8"}).name, "");
    assert_string_equal(WITH({"RANK", "0"}, {"WORLD_SIZE", "2"}).name, "");
}

#define RANK_OF_MPI(rank, size, here)                                                                                  \
    {"OMPI_COMM_WORLD_RANK", rank}, {"OMPI_COMM_WORLD_SIZE", size},                                                    \
    {                                                                                                                  \
        "OMPI_COMM_WORLD_LOCAL_SIZE", here                                                                             \
    }

static void test_the_ranks_of_one_mpirun_have_one_name_F4(void **state)
{
    struct lp_launch one, other;
    (void)state;
    one = WITH(RANK_OF_MPI("0", "8", "4"), {"OMPI_MCA_orte_precondition_transports", "4c96-8177"});
    assert_int_equal(strlen(one.name), strlen("mpirun-123456789abc"));
    assert_memory_equal(one.name, "mpirun-", strlen("mpirun-"));
    other = WITH(RANK_OF_MPI("5", "8", "4"), {"OMPI_MCA_orte_precondition_transports", "4c96-8177"});
    assert_string_equal(one.name, other.name);
    other = WITH(RANK_OF_MPI("5", "8", "4"), {"OMPI_MCA_orte_precondition_transports", "4c96-8178"});
    assert_string_not_equal(one.name, other.name);
    assert_string_equal(WITH(RANK_OF_MPI("0", "1", "1"), {"OMPI_MCA_orte_precondition_transports", "4c96-8177"}).name,
                        "");
    assert_true(one.may_be_mpi);
}

/* From Open MPI 5 on the only name is that of a host and a pid. */
static void test_a_pid_is_no_name_PR10(void **state)
{
    struct lp_launch one, other;
    (void)state;
    one = WITH(RANK_OF_MPI("0", "8", "8"), {"PMIX_NAMESPACE", "prterun-vm-7@1"}, {"PMIX_SERVER_URI2", "tcp4:1"});
    other = WITH(RANK_OF_MPI("0", "8", "8"), {"PMIX_NAMESPACE", "prterun-vm-7@1"}, {"PMIX_SERVER_URI2", "tcp4:2"});
    assert_int_not_equal(strlen(one.name), 0);
    assert_string_not_equal(one.name, other.name);
    one = WITH(RANK_OF_MPI("0", "8", "4"), {"PMIX_NAMESPACE", "prterun-vm-7@1"}, {"PMIX_SERVER_URI2", "tcp4:1"});
    assert_string_equal(one.name, "");
    one = WITH(RANK_OF_MPI("0", "8", "4"), {"PMIX_NAMESPACE", "prterun-vm-7@1"}, {"PBS_JOBID", "12.head"});
    other = WITH(RANK_OF_MPI("0", "8", "4"), {"PMIX_NAMESPACE", "prterun-vm-7@1"}, {"PBS_JOBID", "13.head"});
    assert_int_not_equal(strlen(one.name), 0);
    assert_string_not_equal(one.name, other.name);
}

#define OF_TORCHRUN(groups, count, file)                                                                               \
    {"TORCHELASTIC_RUN_ID", "none"}, {"RANK", "0"}, {"WORLD_SIZE", "4"}, {"GROUP_WORLD_SIZE", groups},                 \
        {"TORCHELASTIC_RESTART_COUNT", count},                                                                         \
    {                                                                                                                  \
        "TORCHELASTIC_ERROR_FILE", file                                                                                \
    }

static void test_the_ranks_of_one_torchrun_have_one_name_F4(void **state)
{
    struct lp_launch one, other;
    (void)state;
    one = WITH(OF_TORCHRUN("1", "0", "/log/attempt_9/none_a1b2/attempt_0/0/error.json"));
    assert_int_equal(strlen(one.name), strlen("torchrun-123456789abc"));
    assert_memory_equal(one.name, "torchrun-", strlen("torchrun-"));
    other = WITH(OF_TORCHRUN("1", "0", "/log/attempt_9/none_a1b2/attempt_0/3/error.json"));
    assert_string_equal(one.name, other.name);
    other = WITH(OF_TORCHRUN("1", "0", "/log/attempt_9/none_c3d4/attempt_0/0/error.json"));
    assert_string_not_equal(one.name, other.name);
    other = WITH(OF_TORCHRUN("1", "2", "/log/attempt_9/none_a1b2/attempt_2/0/error.json"));
    assert_memory_equal(one.name, other.name, strlen(one.name));
    assert_string_equal(other.name + strlen(one.name), "-attempt2");
}

/* PR10: several nodes, or no folder, and nothing else that is unique for sure. */
static void test_torchruns_on_several_nodes_PR10(void **state)
{
    (void)state;
    assert_string_equal(WITH(OF_TORCHRUN("2", "0", "/log/none_a1b2/attempt_0/0/error.json")).name, "");
    assert_string_equal(WITH(OF_TORCHRUN("1", "0", "/dev/null")).name, "");
    assert_string_equal(WITH(TASK("1"), OF_TORCHRUN("2", "0", "/log/none_a1b2/attempt_0/0/error.json")).name,
                        "slurm-77.0");
    assert_string_equal(
        WITH(TASK("1"), {"SLURM_RESTART_COUNT", "3"}, OF_TORCHRUN("2", "1", "/log/none_a1b2/attempt_1/0/error.json"))
            .name,
        "slurm-77.0-restart3-attempt1");
    assert_memory_equal(WITH(TASK("1"), OF_TORCHRUN("1", "0", "/log/none_a1b2/attempt_0/0/error.json")).name,
                        "torchrun-", strlen("torchrun-"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_launched_this),
        cmocka_unit_test(test_each_launcher),
        cmocka_unit_test(test_a_rank_without_a_world),
        cmocka_unit_test(test_what_is_no_number_is_no_rank),
        cmocka_unit_test(test_each_batch_system),
        cmocka_unit_test(test_the_inner_launcher_knows_the_rank_F2),
        cmocka_unit_test(test_a_batch_script_is_no_rank_F2),
        cmocka_unit_test(test_a_worker_of_ray_is_no_task_F2),
        cmocka_unit_test(test_the_job_of_an_array_is_called_as_slurm_shows_it_F2),
        cmocka_unit_test(test_the_tasks_of_a_step_have_one_name_F4),
        cmocka_unit_test(test_what_may_come_again_has_no_name_PR10),
        cmocka_unit_test(test_the_ranks_of_one_mpirun_have_one_name_F4),
        cmocka_unit_test(test_a_pid_is_no_name_PR10),
        cmocka_unit_test(test_the_ranks_of_one_torchrun_have_one_name_F4),
        cmocka_unit_test(test_torchruns_on_several_nodes_PR10),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
