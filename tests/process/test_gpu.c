/* Devices as NVML has them, by the stand-in of tests/fake_gpu. Where there is a real device the last test reads it. */
#include "support/support.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "process/gpu.h"

static char script[256];
static time_t wall_clock_is_ahead_s;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME)
        now->tv_sec += wall_clock_is_ahead_s;
    return failed;
}

/* What the stand-in says from now on. */
static void say(const char *text)
{
    FILE *file = fopen(script, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(script, sizeof script, "/tmp/lp_fake_gpu_%d", (int)getpid());
    setenv("FAKE_GPU_SCRIPT", script, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("NVIDIA_VISIBLE_DEVICES");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(script);
    return 0;
}

/* Opened, and past the first reading, which has no window yet. */
static struct lp_gpus *open_and_prime(const char *text)
{
    static struct lp_gpus gpus;
    struct lp_gpu_reading reading;
    memset(&gpus, 0, sizeof gpus);
    say(text);
    assert_true(lp_gpus_open(&gpus) > 0);
    for (unsigned i = 0; i < gpus.n; i++)
        lp_gpus_read(&gpus, i, &reading);
    return &gpus;
}

static struct lp_gpu_reading read_first(struct lp_gpus *gpus)
{
    struct lp_gpu_reading reading;
    lp_gpus_read(gpus, 0, &reading);
    return reading;
}

static void needs_first_pid_namespace(void)
{
    char link[64] = "";
    if (readlink("/proc/self/ns/pid", link, sizeof link - 1) < 0 || strcmp(link, "pid:[4026531836]") != 0) {
        print_message("skipped: these tests run in a pid namespace of their own, where NVML's pids are nobody's\n");
        skip();
    }
}

#define PLAIN "device 0 name=A100 uuid=GPU-1 total=1000 reserved=10 used=300 busy=80\n"

static void test_what_devices_there_are(void **state)
{
    (void)state;
    struct lp_gpus *gpus = open_and_prime(PLAIN "device 1 name=H100 uuid=GPU-2 total=2000 used=0\n");
    assert_int_equal(gpus->n, 2);
    assert_string_equal(gpus->gpus[0].name, "A100");
    assert_string_equal(gpus->gpus[1].uuid, "GPU-2");
    assert_int_equal(gpus->gpus[1].index, 1);
    assert_int_equal(gpus->gpus[1].memory_bytes, 2000);
    struct lp_gpu_reading reading = read_first(gpus);
    assert_int_equal(reading.device_used_bytes, 300);
    assert_int_equal(reading.busy_permille, 800);
    lp_gpus_close(gpus);
}

static void test_busy_is_the_mean_of_the_drivers_samples_GP11(void **state)
{
    (void)state;
    struct lp_gpu_reading reading;
    struct lp_gpus gpus = {0};
    say("device 0 total=1 used=1 busy=5 history=100,0,50,25\n");
    assert_int_equal(lp_gpus_open(&gpus), 1);
    lp_gpus_read(&gpus, 0, &reading); /* of a window before the first reading nothing is said */
    assert_int_equal(reading.busy_permille, LP_GPU_UNKNOWN_PERMILLE);
    lp_gpus_read(&gpus, 0, &reading);
    assert_int_equal(reading.busy_permille, 438);
    lp_gpus_close(&gpus);
}

static void test_not_found_is_a_measured_zero_GP01(void **state)
{
    (void)state;
    needs_first_pid_namespace();
    struct lp_gpus *gpus = open_and_prime(PLAIN "process 0 self sm=64 bytes=77\n");
    struct lp_gpu_reading reading = read_first(gpus);
    assert_int_equal(reading.own_busy_permille, 640);
    assert_int_equal(reading.own_used_bytes, 77);
    assert_true(gpus->gpus[0].attributed);
    say(PLAIN);
    reading = read_first(gpus);
    assert_int_equal(reading.own_busy_permille, 0);
    assert_int_equal(reading.own_used_bytes, 0);
    assert_int_equal(reading.busy_permille, 800);
    lp_gpus_close(gpus);
}

/* One sample in all, stamped by the wall clock: what the driver says of a device at that moment. */
static void say_at(time_t wall_s, unsigned percent)
{
    char text[256];
    snprintf(text, sizeof text,
             "device 0 total=1 used=1 busy=1 history=%u stamp=%lld000000\nprocess 0 self sm=%u bytes=1\n", percent,
             (long long)wall_s, percent);
    say(text);
}

static void test_after_the_wall_clock_was_set_back_samples_are_seen_CK01(void **state)
{
    (void)state;
    struct timespec now;
    struct lp_gpus gpus = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    wall_clock_is_ahead_s = 3600;
    say_at(now.tv_sec + 3600, 100);
    assert_int_equal(lp_gpus_open(&gpus), 1);
    read_first(&gpus);
    wall_clock_is_ahead_s = 0;
    say_at(now.tv_sec, 40);
    struct lp_gpu_reading reading = read_first(&gpus); /* how much of that lies in the window cannot be told */
    assert_int_equal(reading.busy_permille, LP_GPU_UNKNOWN_PERMILLE);
    assert_int_equal(reading.own_busy_permille, LP_GPU_UNKNOWN_PERMILLE);
    say_at(now.tv_sec + 1, 60);
    reading = read_first(&gpus);
    assert_int_equal(reading.busy_permille, 600);
    if (gpus.pids_are_ours)
        assert_int_equal(reading.own_busy_permille, 600);
    say_at(now.tv_sec + 1, 60); /* the same sample again is none */
    if (gpus.pids_are_ours)
        assert_int_equal(read_first(&gpus).own_busy_permille, 0);
    lp_gpus_close(&gpus);
}

/* Some drivers hand out more than 100 %. */
static void test_a_share_that_cannot_be_is_not_zero(void **state)
{
    (void)state;
    needs_first_pid_namespace();
    struct lp_gpus *gpus = open_and_prime(PLAIN "process 0 self sm=4294967295 bytes=77\n");
    assert_int_equal(read_first(gpus).own_busy_permille, LP_GPU_UNKNOWN_PERMILLE);
    say(PLAIN "process 0 self sm=4294967295 bytes=77\nprocess 0 self sm=30 bytes=77\n");
    assert_int_equal(read_first(gpus).own_busy_permille, 300);
    lp_gpus_close(gpus);
}

static void test_others_are_not_us(void **state)
{
    (void)state;
    needs_first_pid_namespace();
    struct lp_gpus *gpus = open_and_prime(PLAIN "process 0 1 sm=90 bytes=200\n");
    struct lp_gpu_reading reading = read_first(gpus);
    assert_int_equal(reading.own_busy_permille, 0);
    assert_int_equal(reading.own_used_bytes, 0);
    assert_false(gpus->gpus[0].attributed);
    lp_gpus_close(gpus);
}

/* In a pid namespace the number that is ours may be anybody's on the machine: here it is that of a busy stranger. */
static void test_pids_of_the_machine_are_not_ours_in_a_container_GP02(void **state)
{
    (void)state;
    int status;
    say(PLAIN "process 0 self sm=64 bytes=77\nprocess 0 1 sm=64 bytes=77\n");
    pid_t outer = fork();
    if (outer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWPID) != 0)
            _exit(77);
        pid_t inner = fork();
        if (inner == 0) {
            struct lp_gpus gpus = {0};
            struct lp_gpu_reading reading;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            CHECK(getpid() == 1 && lp_gpus_open(&gpus) == 1);
            for (int i = 0; i < 2; i++)
                lp_gpus_read(&gpus, 0, &reading);
            CHECK(reading.own_busy_permille == LP_GPU_UNKNOWN_PERMILLE && reading.own_used_bytes == LP_GPU_UNKNOWN);
            CHECK(reading.busy_permille == 800 && reading.device_used_bytes == 300);
            CHECK(gpus.gpus[0].own_busy == LP_GPU_OWN_PID_NAMESPACE && !gpus.gpus[0].attributed);
            _exit(0);
        }
        CHECK(waitpid(inner, &status, 0) == inner);
        _exit(status == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(outer, &status, 0), outer);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("skipped: this machine lets us make no pid namespace\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void test_not_supported_is_not_zero_GP03(void **state)
{
    (void)state;
    needs_first_pid_namespace();
    struct lp_gpus *gpus = open_and_prime(PLAIN "process 0 self sm=64 bytes=unknown\nerror utilization 0 3\n"
                                                "error process_samples 0 3\n");
    struct lp_gpu_reading reading = read_first(gpus);
    assert_int_equal(reading.busy_permille, LP_GPU_UNKNOWN_PERMILLE);
    assert_int_equal(reading.own_busy_permille, LP_GPU_UNKNOWN_PERMILLE);
    assert_true(reading.own_used_bytes == LP_GPU_UNKNOWN);
    assert_int_equal(reading.device_used_bytes, 300);
    assert_int_equal(gpus->gpus[0].own_busy, LP_GPU_OWN_NOT_SUPPORTED);
    say(PLAIN "error process_samples 0 4\nerror holders 0 4\n");
    reading = read_first(gpus);
    assert_int_equal(reading.own_busy_permille, LP_GPU_UNKNOWN_PERMILLE);
    assert_true(reading.own_used_bytes == LP_GPU_UNKNOWN);
    assert_int_equal(gpus->gpus[0].own_busy, LP_GPU_OWN_NO_PERMISSION);
    assert_int_equal(reading.busy_permille, 800);
    lp_gpus_close(gpus);
}

#define DIVIDED                                                                                                        \
    "device 0 name=A100 uuid=GPU-1 total=1000 used=300 mig=1\nerror memory 0 4\nerror holders 0 4\n"                   \
    "instance 0 uuid=MIG-a total=100 used=40\ninstance 0 uuid=MIG-b total=200 used=50\nprocess 0 self bytes=33\n"

static void test_a_divided_device_is_asked_by_its_instance_GP04(void **state)
{
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "MIG-b", 1);
    struct lp_gpus *gpus = open_and_prime(DIVIDED);
    struct lp_gpu_reading reading = read_first(gpus);
    assert_int_equal(reading.device_used_bytes, 50);
    assert_int_equal(gpus->gpus[0].memory_bytes, 200);
    assert_int_equal(reading.busy_permille, LP_GPU_UNKNOWN_PERMILLE);
    assert_int_equal(reading.own_busy_permille, LP_GPU_UNKNOWN_PERMILLE);
    lp_gpus_close(gpus);
    unsetenv("CUDA_VISIBLE_DEVICES"); /* of two instances nobody says which is ours */
    gpus = open_and_prime(DIVIDED);
    reading = read_first(gpus);
    assert_true(reading.device_used_bytes == LP_GPU_UNKNOWN);
    lp_gpus_close(gpus);
}

static void test_what_this_process_holds_of_an_instance(void **state)
{
    (void)state;
    needs_first_pid_namespace();
    setenv("NVIDIA_VISIBLE_DEVICES", "MIG-a", 1);
    struct lp_gpus *gpus = open_and_prime(DIVIDED);
    assert_int_equal(read_first(gpus).own_used_bytes, 33);
    lp_gpus_close(gpus);
    unsetenv("NVIDIA_VISIBLE_DEVICES");
}

static void test_the_long_structure_of_some_drivers_is_seen(void **state)
{
    (void)state;
    needs_first_pid_namespace();
    struct lp_gpus *gpus =
        open_and_prime(PLAIN "process 0 1 bytes=5\nprocess 0 self bytes=77\nprocess 0 2 bytes=6\nlong_holders\n");
    assert_int_equal(read_first(gpus).own_used_bytes, 77);
    lp_gpus_close(gpus);
}

static void test_a_lost_device_is_asked_no_more(void **state)
{
    (void)state;
    struct lp_gpus *gpus = open_and_prime(PLAIN "device 1 total=9 used=3 busy=20\n");
    say(PLAIN "device 1 total=9 used=3 busy=20\nerror utilization 0 15\n");
    struct lp_gpu_reading reading = read_first(gpus);
    assert_int_equal(reading.busy_permille, LP_GPU_UNKNOWN_PERMILLE);
    assert_int_equal(gpus->gpus[0].state, LP_GPU_LOST);
    say(PLAIN "device 1 total=9 used=3 busy=20\n");
    reading = read_first(gpus);
    assert_true(reading.device_used_bytes == LP_GPU_UNKNOWN);
    lp_gpus_read(gpus, 1, &reading);
    assert_int_equal(reading.busy_permille, 200);
    lp_gpus_close(gpus);
}

static void test_a_driver_that_does_not_fit_is_no_device_GP09(void **state)
{
    (void)state;
    static struct lp_gpus gpus;
    say(PLAIN "error init 18\n");
    assert_int_equal(lp_gpus_open(&gpus), 0);
    say("");
    assert_int_equal(lp_gpus_open(&gpus), 0);
    unlink(script);
    assert_int_equal(lp_gpus_open(&gpus), 0);
    lp_gpus_close(&gpus);
}

static void test_a_program_that_shuts_the_library_down_under_us(void **state)
{
    (void)state;
    struct lp_gpus *gpus = open_and_prime(PLAIN);
    gpus->nvml.shutdown();
    read_first(gpus);
    assert_int_equal(read_first(gpus).busy_permille, 800);
    lp_gpus_close(gpus);
}

static void test_a_forked_child_opens_it_anew_GP06(void **state)
{
    (void)state;
    struct lp_gpus *gpus = open_and_prime(PLAIN);
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        static struct lp_gpus own;
        struct lp_gpu_reading reading;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        lp_gpus_read(gpus, 0, &reading); /* the parent's serve nobody here */
        CHECK(reading.busy_permille == LP_GPU_UNKNOWN_PERMILLE);
        CHECK(lp_gpus_open(&own) == 1);
        lp_gpus_read(&own, 0, &reading);
        lp_gpus_read(&own, 0, &reading);
        CHECK(reading.busy_permille == 800);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read_first(gpus).busy_permille, 800);
    lp_gpus_close(gpus);
}

/* In a process whose libraries come from another folder. */
static void test_an_old_driver_gives_what_it_has_GP13(void **state)
{
    (void)state;
    int status;
    say(PLAIN "process 0 1 sm=5 bytes=6\nprocess 0 self sm=64 bytes=77\n");
    setenv("LD_LIBRARY_PATH", getenv("FAKE_GPU_OLD_FOLDER"), 1);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", "old driver", (char *)NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int read_old_driver(void)
{
    static struct lp_gpus gpus;
    struct lp_gpu_reading reading;
    CHECK(lp_gpus_open(&gpus) == 1 && gpus.nvml.memory_v2 == NULL);
    lp_gpus_read(&gpus, 0, &reading);
    lp_gpus_read(&gpus, 0, &reading);
    CHECK(reading.busy_permille == 800 && reading.device_used_bytes == 310);
    CHECK(reading.own_busy_permille == LP_GPU_UNKNOWN_PERMILLE);
    CHECK(reading.own_used_bytes == (gpus.pids_are_ours ? 77 : LP_GPU_UNKNOWN));
    lp_gpus_close(&gpus);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_devices_there_are),
        cmocka_unit_test(test_busy_is_the_mean_of_the_drivers_samples_GP11),
        cmocka_unit_test(test_not_found_is_a_measured_zero_GP01),
        cmocka_unit_test(test_after_the_wall_clock_was_set_back_samples_are_seen_CK01),
        cmocka_unit_test(test_a_share_that_cannot_be_is_not_zero),
        cmocka_unit_test(test_others_are_not_us),
        cmocka_unit_test(test_pids_of_the_machine_are_not_ours_in_a_container_GP02),
        cmocka_unit_test(test_not_supported_is_not_zero_GP03),
        cmocka_unit_test(test_a_divided_device_is_asked_by_its_instance_GP04),
        cmocka_unit_test(test_what_this_process_holds_of_an_instance),
        cmocka_unit_test(test_the_long_structure_of_some_drivers_is_seen),
        cmocka_unit_test(test_a_lost_device_is_asked_no_more),
        cmocka_unit_test(test_a_driver_that_does_not_fit_is_no_device_GP09),
        cmocka_unit_test(test_a_program_that_shuts_the_library_down_under_us),
        cmocka_unit_test(test_a_forked_child_opens_it_anew_GP06),
        cmocka_unit_test(test_an_old_driver_gives_what_it_has_GP13),
    };
    (void)argc;
    if (strcmp(argv[0], "old driver") == 0)
        return read_old_driver();
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
