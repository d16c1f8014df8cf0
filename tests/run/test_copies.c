/* Several files of one worker: which one counts. */
#include <fcntl.h>

#include "support.h"

#include "run/copies.h"

#define NAME "w_r1_7_00000001"
#define OTHER "w_r1_8_00000002"

static char *folder;
static int dir_fd = -1;
static struct lp_run_files files;
static struct lp_run_copies copies;

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
    lp_run_copies_release(&copies);
    close(dir_fd);
    remove_folder(folder);
    return 0;
}

/* A file of the worker in the folder of a host. */
static void put(const char *host, const char *worker, const char *state, unsigned flush)
{
    char path[128];
    struct spec spec = {.worker = worker, .state = state, .flush = flush, .start_s = 0, .written_s = 10};
    char *text = make_document(&spec);
    snprintf(path, sizeof path, "workers/%s/%s.json", host, worker);
    write_bytes(folder, path, text, strlen(text));
    free(text);
}

static void look(void)
{
    assert_int_equal(lp_run_scan(&files, dir_fd), 0);
    assert_int_equal(lp_run_copies_leave_out(&copies, &files, dir_fd), 0);
}

static void assert_left(const char *path)
{
    look();
    assert_int_equal(files.n_files, 1);
    assert_string_equal(files.files[0].path, path);
}

static void test_the_later_flush_counts(void **state)
{
    (void)state;
    put("a", NAME, "running", 3);
    put("b", NAME, "running", 12);
    put("c", NAME, "running", 5);
    assert_left("workers/b/" NAME ".json");
    assert_int_equal(copies.n, 2);
    assert_string_equal(copies.first, "workers/a/" NAME ".json");
}

static void test_a_final_file_counts_before_any_flush(void **state)
{
    (void)state;
    put("a", NAME, "running", 12);
    put("b", NAME, "closed", 4);
    assert_left("workers/b/" NAME ".json");
}

static void test_of_equal_ones_the_first_counts(void **state)
{
    (void)state;
    put("a", NAME, "closed", 4);
    put("b", NAME, "closed", 4);
    assert_left("workers/a/" NAME ".json");
    assert_int_equal(copies.n, 1);
}

static void test_what_is_damaged_is_no_better_copy(void **state)
{
    (void)state;
    write_bytes(folder, "workers/a/" NAME ".json", "{", 1);
    put("b", NAME, "running", 4);
    assert_left("workers/b/" NAME ".json");
    assert_int_equal(copies.n, 1);
}

/* They are named then, one by one. */
static void test_if_none_can_be_read_all_stay(void **state)
{
    (void)state;
    write_bytes(folder, "workers/a/" NAME ".json", "{", 1);
    write_bytes(folder, "workers/b/" NAME ".json", "", 0);
    put("a", OTHER, "running", 4);
    look();
    assert_int_equal(files.n_files, 3);
    assert_int_equal(copies.n, 0);
    assert_null(copies.first);
}

static void test_none_at_all(void **state)
{
    (void)state;
    look();
    assert_int_equal(files.n_files, 0);
    assert_int_equal(copies.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_later_flush_counts, begin, end),
        cmocka_unit_test_setup_teardown(test_a_final_file_counts_before_any_flush, begin, end),
        cmocka_unit_test_setup_teardown(test_of_equal_ones_the_first_counts, begin, end),
        cmocka_unit_test_setup_teardown(test_what_is_damaged_is_no_better_copy, begin, end),
        cmocka_unit_test_setup_teardown(test_if_none_can_be_read_all_stay, begin, end),
        cmocka_unit_test_setup_teardown(test_none_at_all, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
