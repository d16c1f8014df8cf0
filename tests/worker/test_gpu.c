/* The thread that reads devices, by the stand-in of tests/fake_gpu: what it writes, and that nobody ever waits for it. */
#include "support/worker.h"

#include "worker/samples.h"

static char *folder;
static char script[256], call_log[256];

static void say(const char *text)
{
    char fresh[300];
    snprintf(fresh, sizeof fresh, "%s.new", script);
    FILE *file = fopen(fresh, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, script), 0);
}

static bool was_called(const char *call)
{
    size_t len;
    char *text = file_read(call_log, &len);
    bool found = text && strstr(text, call);
    free(text);
    return found;
}

static int set_up(void **state)
{
    (void)state;
    folder = folder_make();
    snprintf(script, sizeof script, "%s/script", folder);
    snprintf(call_log, sizeof call_log, "%s/calls", folder);
    setenv("FAKE_GPU_SCRIPT", script, 1);
    setenv("FAKE_GPU_LOG", call_log, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

static struct lp_worker *open_sampled(void)
{
    struct lp_worker_options options = quiet_options(folder);
    options.sample_interval_s = 0.01;
    return worker_open_with(&options);
}

static uint64_t rows_of(struct lp_worker *worker)
{
    struct lp_view view;
    lp_view_own(&view, &lp_worker_recorder(worker)->image);
    return lp_samples_told(&view, LP_RING_GPU).taken;
}

/* Of its samples file: the last row of a device. */
static struct lp_gpu_row last_row(const struct lp_worker *worker, uint32_t device)
{
    char path[4096];
    size_t len;
    struct lp_gpu_row row, found = {.device = UINT32_MAX};
    snprintf(path, sizeof path, "%.*sgpu_samples", (int)(strlen(lp_worker_path(worker)) - 4), lp_worker_path(worker));
    char *bytes = file_read(path, &len);
    assert_non_null(bytes);
    for (size_t at = LP_SAMPLES_HEADER_BYTES; at + sizeof row <= len; at += sizeof row) {
        memcpy(&row, bytes + at, sizeof row);
        if (row.device == device)
            found = row;
    }
    free(bytes);
    return found;
}

static const json_t *gpu_of(const json_t *document, size_t i)
{
    return json_array_get(json_object_get(document, "gpus"), i);
}

#define TWO "device 0 name=A uuid=GPU-1 total=1000 used=300 busy=80\ndevice 1 total=9 used=4 busy=10\n"

static void test_rows_and_facts_H5(void **state)
{
    (void)state;
    say(TWO "process 0 self sm=64 bytes=77\n");
    struct lp_worker *worker = open_sampled();
    struct lp_entry entry;
    lp_record_enter(lp_worker_recorder(worker), name_of("open"), &entry);
    WAIT_UNTIL(rows_of(worker) >= 6);
    lp_record_leave(&entry);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    struct lp_gpu_row row = last_row(worker, 0), other = last_row(worker, 1);
    assert_int_equal(row.device_used_bytes, 300);
    assert_int_equal(row.busy_permille, 800);
    assert_int_equal(other.busy_permille, 100);
    assert_int_equal(row.sequence, other.sequence);
    if (lp_image_header(&lp_worker_recorder(worker)->image)->pid_namespace == 4026531836u) {
        assert_int_equal(row.own_busy_permille, 640);
        assert_int_equal(row.own_used_bytes, 77);
        assert_int_equal(row.flags, LP_GPU_ATTRIBUTED);
        assert_int_equal(other.own_busy_permille, 0);
        assert_int_equal(other.flags, 0);
    }
    json_t *document = worker_document(worker);
    assert_string_equal(text_at(gpu_of(document, 0), "name"), "A");
    assert_string_equal(text_at(gpu_of(document, 0), "state"), "ok");
    assert_int_equal(json_integer_value(json_object_get(gpu_of(document, 1), "memory_bytes")), 9);
    assert_true(json_is_null(json_object_get(gpu_of(document, 1), "name")));
    json_decref(document);
    lp_worker_free(worker);
    assert_true(was_called("shutdown"));
}

static void test_the_first_row_names_the_open_phase(void **state)
{
    (void)state;
    say(TWO);
    struct lp_worker *worker = open_sampled();
    struct lp_entry entry;
    lp_record_enter(lp_worker_recorder(worker), name_of("open"), &entry);
    WAIT_UNTIL(rows_of(worker) >= 2);
    assert_int_equal(lp_worker_snapshot(worker, NULL, 0), LP_WORKER_OK);
    assert_int_not_equal(last_row(worker, 0).phase, 0);
    lp_worker_free(worker);
}

static void test_a_lost_device_is_told_and_the_other_goes_on(void **state)
{
    (void)state;
    say(TWO);
    struct lp_worker *worker = open_sampled();
    worker_record(worker, "a");
    WAIT_UNTIL(rows_of(worker) >= 4);
    say(TWO "error utilization 0 15\n");
    uint64_t before = rows_of(worker);
    WAIT_UNTIL(rows_of(worker) >= before + 6);
    lp_worker_close(worker, NULL, 0);
    json_t *document = worker_document(worker);
    assert_string_equal(text_at(gpu_of(document, 0), "state"), "lost");
    assert_string_equal(text_at(gpu_of(document, 1), "state"), "ok");
    assert_true(last_row(worker, 1).sequence > last_row(worker, 0).sequence);
    json_decref(document);
    lp_worker_free(worker);
}

static uint64_t trouble_of(struct lp_worker *worker, const char *name)
{
    size_t len;
    char *text = lp_worker_document(worker, &len);
    json_t *document = json_of(text, len);
    uint64_t count = json_u64(json_object_get(document, "troubles"), name, 0);
    json_decref(document);
    free(text);
    return count;
}

/* For longer than any test takes: nobody may wait for it, at a fork, at the end, or at exit. */
static void use_a_driver_that_hangs(const char *call)
{
    int status;
    struct lp_worker *worker = open_sampled();
    worker_record(worker, "a");
    WAIT_UNTIL(trouble_of(worker, "gpu_timeouts") == 1);
    struct lp_view view;
    lp_view_own(&view, &lp_worker_recorder(worker)->image);
    uint64_t before = lp_samples_told(&view, LP_RING_PROCESS).taken;
    WAIT_UNTIL(lp_samples_told(&view, LP_RING_PROCESS).taken > before + 2);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct lp_entry entry;
        lp_record_enter(lp_worker_recorder(worker), name_of("child"), &entry);
        lp_record_leave(&entry);
        CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    worker_record(worker, "a");
    CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
    lp_worker_free(worker);
    CHECK(was_called(call));
}

/* In a process of its own, which ends with the thread still hanging. */
static void hang_in(const char *call, const char *text)
{
    int status;
    say(text);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(100);
        use_a_driver_that_hangs(call);
        exit(0); /* as a program ends, with all that is done at exit */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_a_driver_that_hangs_holds_nothing_up_GP08(void **state)
{
    (void)state;
    hang_in("init", TWO "delay init 600000\n");
    hang_in("utilization", TWO "delay utilization 0 600000\n");
}

static void test_a_device_that_answers_again_is_told_as_such(void **state)
{
    (void)state;
    say(TWO);
    struct lp_worker *worker = open_sampled();
    worker_record(worker, "a");
    WAIT_UNTIL(rows_of(worker) >= 4);
    say(TWO "delay utilization 1 1000\n");
    WAIT_UNTIL(trouble_of(worker, "gpu_timeouts") == 1);
    assert_int_equal(lp_worker_snapshot(worker, NULL, 0), LP_WORKER_OK);
    json_t *document = worker_document(worker);
    assert_string_equal(text_at(gpu_of(document, 1), "state"), "timed_out");
    json_decref(document);
    say(TWO);
    uint64_t before = rows_of(worker);
    WAIT_UNTIL(rows_of(worker) >= before + 4);
    lp_worker_close(worker, NULL, 0);
    document = worker_document(worker);
    assert_string_equal(text_at(gpu_of(document, 1), "state"), "ok");
    json_decref(document);
    lp_worker_free(worker);
}

/* B forked while A's thread runs; both read, each by itself. */
static void test_parent_and_child_read_after_a_fork_GP06(void **state)
{
    (void)state;
    int status;
    say(TWO);
    struct lp_worker *worker = open_sampled();
    worker_record(worker, "a");
    WAIT_UNTIL(rows_of(worker) >= 4);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(60);
        worker_record(worker, "child");
        while (rows_of(worker) < 4)
            usleep(1000);
        lp_worker_close(worker, NULL, 0);
        CHECK(last_row(worker, 0).busy_permille == 800);
        _exit(0);
    }
    worker_record(worker, "a");
    uint64_t before = rows_of(worker);
    WAIT_UNTIL(rows_of(worker) >= before + 4);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    lp_worker_close(worker, NULL, 0);
    assert_int_equal(last_row(worker, 0).busy_permille, 800);
    lp_worker_free(worker);
}

/* Last, since the process remembers it. */
static void test_without_a_driver_nothing_runs_and_nothing_is_said_GP09(void **state)
{
    (void)state;
    say(TWO "error init 18\n");
    struct lp_worker *worker = open_sampled();
    worker_record(worker, "a");
    WAIT_UNTIL(was_called("init"));
    struct lp_view view;
    lp_view_own(&view, &lp_worker_recorder(worker)->image);
    uint64_t before = lp_samples_told(&view, LP_RING_PROCESS).taken;
    WAIT_UNTIL(lp_samples_told(&view, LP_RING_PROCESS).taken > before + 3);
    lp_worker_close(worker, NULL, 0);
    json_t *document = worker_document(worker);
    assert_null(json_object_get(document, "gpus"));
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    lp_worker_free(worker);
    unlink(call_log);
    worker = open_sampled();
    worker_record(worker, "a");
    lp_view_own(&view, &lp_worker_recorder(worker)->image);
    WAIT_UNTIL(lp_samples_told(&view, LP_RING_PROCESS).taken > 4);
    lp_worker_free(worker);
    assert_false(was_called("init"));
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_rows_and_facts_H5),
        in_folder(test_the_first_row_names_the_open_phase),
        in_folder(test_a_lost_device_is_told_and_the_other_goes_on),
        in_folder(test_a_driver_that_hangs_holds_nothing_up_GP08),
        in_folder(test_a_device_that_answers_again_is_told_as_such),
        in_folder(test_parent_and_child_read_after_a_fork_GP06),
        in_folder(test_without_a_driver_nothing_runs_and_nothing_is_said_GP09),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
