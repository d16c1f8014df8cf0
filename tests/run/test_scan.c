/* Which files are worker files, and what may lie under their names: MN05, EX06, J3. */
#include <errno.h>
#include <fcntl.h>

#include "support.h"

#include "run/scan.h"

static char *folder;
static int dir_fd = -1;
static struct lp_run_files files;

static int begin(void **state)
{
    (void)state;
    folder = make_folder();
    dir_fd = open(folder, O_RDONLY | O_DIRECTORY);
    return dir_fd < 0;
}

static int end(void **state)
{
    (void)state;
    lp_run_files_release(&files);
    close(dir_fd);
    remove_folder(folder);
    return 0;
}

static void touch(const char *name)
{
    write_bytes(folder, name, "x", 1);
}

static char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void assert_files(const char *const *expected, size_t n)
{
    assert_int_equal(lp_run_scan(&files, dir_fd), 0);
    for (size_t i = 0; i < files.n_files && i < n; i++)
        assert_string_equal(files.files[i].path, expected[i]);
    assert_int_equal(files.n_files, n);
}

static void assert_read_fault(const char *name, const char *reason)
{
    struct lp_run_buffer buffer = {0};
    struct lp_run_fault fault;
    assert_int_equal(lp_run_read_file(&buffer, dir_fd, name, &fault), -1);
    assert_string_equal(fault.text, reason);
    lp_run_buffer_release(&buffer);
}

static void test_worker_files_in_order(void **state)
{
    (void)state;
    static const char *const expected[] = {"workers/a/w_1.json", "workers/a/w_2.json", "workers/b/w_0.json",
                                           "workers/w_3.json"};
    touch("workers/b/w_0.json");
    touch("workers/a/w_2.json");
    touch("workers/a/w_1.json");
    touch("workers/w_3.json");
    assert_files(expected, 4);
}

static void test_other_files_are_not_ours(void **state)
{
    (void)state;
    touch("metadata.json");
    touch("w_0.json");
    touch("workers/readme");
    touch("workers/a/w_1.json.tmp");
    touch("workers/a/w_1.samples");
    touch("workers/a/x_1.json");
    touch("workers/a/.json");
    touch("workers/a/w_.json");
    touch("workers/a/.w_1.json");
    touch("workers/.hidden/w_1.json");
    touch("workers/a/deeper/w_1.json");
    touch("backend/w_1.json");
    assert_files(NULL, 0);
}

static void test_no_workers_folder(void **state)
{
    (void)state;
    assert_files(NULL, 0);
}

static void test_workers_that_is_a_file(void **state)
{
    (void)state;
    touch("workers");
    assert_files(NULL, 0);
}

/* Links, pipes and folders under a worker file's name are named, and never waited for. */
static void test_what_is_no_regular_file(void **state)
{
    (void)state;
    static const char *const expected[] = {"workers/a/w_dir.json", "workers/a/w_fifo.json", "workers/a/w_link.json",
                                           "workers/linked"};
    touch("workers/a/file");
    touch("elsewhere/w_9.json");
    assert_int_equal(symlink("/etc/passwd", path_of("workers/a/w_link.json")), 0);
    assert_int_equal(mkfifo(path_of("workers/a/w_fifo.json"), 0600), 0);
    assert_int_equal(mkdir(path_of("workers/a/w_dir.json"), 0700), 0);
    assert_int_equal(symlink("../elsewhere", path_of("workers/linked")), 0);
    assert_files(expected, 4);
    assert_string_equal(files.files[0].fault, "a directory, not a file");
    assert_string_equal(files.files[1].fault, "not a regular file");
    assert_string_equal(files.files[2].fault, "symbolic link: not followed");
    assert_string_equal(files.files[3].fault, "symbolic link: not followed");
    /* The same where the kind is found out only on opening. */
    assert_read_fault("workers/a/w_fifo.json", "not a regular file");
    assert_read_fault("workers/a/w_dir.json", "a directory, not a file");
    assert_read_fault("workers/a/w_link.json", "symbolic link: not followed");
    assert_read_fault("workers/a/w_gone.json", "cannot be opened: No such file or directory");
}

static void test_too_large_a_file(void **state)
{
    (void)state;
    touch("workers/a/w_1.json");
    assert_int_equal(truncate(path_of("workers/a/w_1.json"), (off_t)LP_RUN_FILE_MAX + 1), 0);
    assert_read_fault("workers/a/w_1.json", "too large: 268435457 bytes, 268435456 are read");
}

static void test_whole_files_are_read(void **state)
{
    (void)state;
    struct lp_run_buffer buffer = {0};
    struct lp_run_fault fault;
    write_bytes(folder, "a", "0123456789", 10);
    write_bytes(folder, "b", "", 0);
    assert_int_equal(lp_run_read_file(&buffer, dir_fd, "a", &fault), 0);
    assert_int_equal(buffer.len, 10);
    assert_memory_equal(buffer.bytes, "0123456789", 10);
    assert_int_equal(lp_run_read_file(&buffer, dir_fd, "b", &fault), 0);
    assert_int_equal(buffer.len, 0);
    lp_run_buffer_release(&buffer);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_worker_files_in_order),  TEST(test_other_files_are_not_ours), TEST(test_no_workers_folder),
        TEST(test_workers_that_is_a_file), TEST(test_what_is_no_regular_file),  TEST(test_too_large_a_file),
        TEST(test_whole_files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
