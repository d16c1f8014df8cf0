/* A run directory read again and again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/watch.h"

/* A running worker of another node, which writes every 30 s, as of so many seconds after its start. */
static const char worker_file[] =
    "{\"format\": \"lineprofiler-worker\", \"version\": 1, \"worker\": \"w_r1_7_0a1b2c3d\", \"run_id\": \"r1\",\n"
    " \"role\": \"main\", \"pid\": 7, \"parent_pid\": 1, \"host\": \"h\", \"rank\": null, \"world_size\": null,\n"
    " \"launcher\": null, \"job\": null, \"boot_id\": \"b\", \"pid_namespace\": 1, \"process_start_ticks\": 5,\n"
    " \"library\": \"0\", \"runtime\": null, \"command\": [], \"run_id_origin\": \"generated\",\n"
    " \"settings\": {\"measure_cpu\": true, \"thread_names\": false, \"snapshot_interval_s\": 30,\n"
    "  \"sample_interval_s\": null},\n"
    " \"started\": {\"realtime_ns\": 1780000000000000000, \"monotonic_ns\": 1000, \"boottime_ns\": 1000},\n"
    " \"written\": {\"realtime_ns\": 1780000004000000000, \"monotonic_ns\": %d000001000, \"boottime_ns\": 1000},\n"
    " \"state\": \"running\", \"flush\": 1, \"clock\": {\"wall\": \"tsc\", \"cpu\": \"token\"}, \"image\": "
    "\"shared\",\n"
    " \"threads\": [{\"name\": \"MainThread\", \"tid\": 7, \"alive\": true, \"nodes\": [{},\n"
    "  {\"parent\": 0, \"name\": \"step\", \"calls\": 1, \"wall_ns\": %d000000000, \"cpu_ns\": 250000,\n"
    "   \"hist\": \"143:1\"}]}]}\n";

static char folder[] = "/tmp/lineprofiler-test-watch-XXXXXX";
static char path[128], message[1024];

static void write_file(int written_s, int wall_s)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, worker_file, written_s, wall_s);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/workers", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/workers/h", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/workers/h/w_r1_7_0a1b2c3d.json", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void read_it(struct lp_watch *watch)
{
    if (lp_watch_read(watch, message, sizeof message) != 0)
        fail_msg("%s", message);
}

/* Between two flushes one goes on seeing what the last of them brought. */
static void test_an_interval_reaches_back_to_the_flush_before(void **state)
{
    (void)state;
    struct lp_watch watch = {.dir = folder, .interval_ns = 1};
    write_file(100, 50);
    for (int i = 0; i < 3; i++)
        read_it(&watch);
    assert_int_equal(watch.top->workers[0].state, LP_TOP_SILENT);
    assert_true(isnan(watch.top->roles[0].share));
    write_file(130, 65);
    for (int i = 0; i < 40; i++) {
        read_it(&watch);
        assert_true(watch.n <= LP_WATCH_KEPT);
        assert_true(fabs(watch.top->roles[0].share - 0.5) < 1e-9);
        assert_true(fabs(watch.top->workers[0].share - 0.5) < 1e-9);
        assert_int_equal(watch.top->workers[0].interval_ns, UINT64_C(30000000000));
    }
    lp_watch_release(&watch);
}

static void test_a_reading_that_fails_leaves_the_last_one(void **state)
{
    (void)state;
    struct lp_watch watch = {.dir = folder, .interval_ns = 1};
    write_file(100, 50);
    read_it(&watch);
    read_it(&watch);
    uint64_t interval_ns = watch.top->interval_ns;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(lp_watch_read(&watch, message, sizeof message), -1);
    assert_non_null(strstr(message, folder));
    assert_int_equal(watch.top->interval_ns, interval_ns);
    write_file(130, 65);
    read_it(&watch);
    assert_int_equal(watch.top->workers[0].interval_ns, UINT64_C(30000000000));
    lp_watch_release(&watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_interval_reaches_back_to_the_flush_before),
        cmocka_unit_test(test_a_reading_that_fails_leaves_the_last_one),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
