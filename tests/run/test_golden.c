/* One file for each thing that version 1 of the format can say, and for each way to get it wrong: J3, style 33. A new
   golden file must be listed here; docs/worker.schema.json is held against the good ones by
   tests/python/test_schema.py. */
#include <dirent.h>
#include <fcntl.h>

#include "support.h"

#include "run/document.h"
#include "run/scan.h"

static const struct {
    const char *name;
    const char *reason; /* How it begins; NULL: the file is good. */
} golden[] = {
    {"v1_closed.json", NULL},
    {"v1_equal_nodes.json", NULL},
    {"v1_minimal.json", NULL},
    {"v1_newer_keys.json", NULL},
    {"v1_no_cpu.json", NULL},
    {"v1_running.json", NULL},
    {"v1_sampled.json", NULL},
    {"v1_text.json", NULL},
    {"v1_thread_names.json", NULL},
    {"v1_waits.json", NULL},
    {"v1_bad_array.json", "JSON, but not a worker file"},
    {"v1_bad_beyond.json", "not JSON at byte "},
    {"v1_bad_binary.json", "not JSON at byte 0: a NUL"},
    {"v1_bad_blocked.json", "threads[0].nodes[1].blocked_ns: above wall_ns"},
    {"v1_bad_child_wall.json", "threads[0].nodes[1].child_wall_ns: above wall_ns"},
    {"v1_bad_clock.json", "written.monotonic_ns: before started"},
    {"v1_bad_counter.json", "threads[0].nodes[2].counters.nodes: [sum, calls, min, max] expected"},
    {"v1_bad_counter_min.json", "threads[0].nodes[2].counters.nodes: min above max"},
    {"v1_bad_empty.json", "empty file"},
    {"v1_bad_empty_name.json", "threads[0].nodes[1].name: empty"},
    {"v1_bad_escape.json", "threads[0].nodes[1].name: text with an unknown escape"},
    {"v1_bad_format.json", "JSON, but not a worker file"},
    {"v1_bad_fraction.json", "threads[0].nodes[1].wall_ns: an integer expected, found a fraction"},
    {"v1_bad_hist_bucket.json", "threads[0].nodes[1].hist: no bucket:count pair at character 9"},
    {"v1_bad_hist_calls.json", "threads[0].nodes[1].hist: adds up to 11, calls to 3"},
    {"v1_bad_hist_order.json", "threads[0].nodes[1].hist: bucket 249 out of order"},
    {"v1_bad_hist_text.json", "threads[0].nodes[1].hist: not bucket:count pairs joined by blanks"},
    {"v1_bad_infinity.json", "not JSON at byte "},
    {"v1_bad_named_root.json", "threads[0].nodes[0]: the root has a parent or a name"},
    {"v1_bad_nan.json", "not JSON at byte "},
    {"v1_bad_negative.json", "threads[0].nodes[1].calls: negative"},
    {"v1_bad_no_root.json", "threads[0].nodes: empty, without even a root"},
    {"v1_bad_no_worker.json", "worker: missing"},
    {"v1_bad_parent.json", "threads[0].nodes[2].parent: 2 does not stand before its child"},
    {"v1_bad_preempted.json", "threads[0].nodes[1].preempted_ns: an integer expected, found null"},
    {"v1_bad_stride.json", "threads[0].nodes[1].stride: 0"},
    {"v1_bad_string.json", "threads[0].nodes[1].cpu_ns: an integer expected, found a string"},
    {"v1_bad_truncated.json", "cut off at byte "},
    {"v1_bad_twice.json", "not JSON at byte "},
    {"v1_bad_utf8.json", "not JSON at byte "},
    {"v1_bad_version.json", "version 2: written by a newer release; this one reads up to version 1"},
};
#define N_GOLDEN (sizeof golden / sizeof *golden)

static void test_every_golden_file(void **state)
{
    (void)state;
    struct lp_run_document document = {0};
    struct lp_run_buffer buffer = {0};
    int dir_fd = open(LP_TESTS_FOLDER "/run/golden", O_RDONLY | O_DIRECTORY);
    assert_true(dir_fd >= 0);
    for (size_t i = 0; i < N_GOLDEN; i++) {
        struct lp_run_fault fault = {0};
        if (lp_run_read_file(&buffer, dir_fd, golden[i].name, &fault) < 0)
            fail_msg("%s: %s", golden[i].name, fault.text);
        int result = lp_run_document_parse(&document, buffer.bytes, buffer.len, &fault);
        if (!golden[i].reason && result < 0)
            fail_msg("%s was refused: %s", golden[i].name, fault.text);
        if (golden[i].reason && result == 0)
            fail_msg("%s was accepted", golden[i].name);
        if (golden[i].reason && strncmp(fault.text, golden[i].reason, strlen(golden[i].reason)) != 0)
            fail_msg("%s: %s, expected %s", golden[i].name, fault.text, golden[i].reason);
    }
    close(dir_fd);
    lp_run_document_release(&document);
    lp_run_buffer_release(&buffer);
}

static bool is_listed(const char *name)
{
    for (size_t i = 0; i < N_GOLDEN; i++)
        if (strcmp(golden[i].name, name) == 0)
            return true;
    return false;
}

static void test_every_golden_file_is_listed(void **state)
{
    (void)state;
    DIR *folder = opendir(LP_TESTS_FOLDER "/run/golden");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && !is_listed(entry->d_name))
            fail_msg("%s is not listed", entry->d_name);
    closedir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_golden_file),
        cmocka_unit_test(test_every_golden_file_is_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
