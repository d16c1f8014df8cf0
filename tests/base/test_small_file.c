#include "support/in_folder.h"
#include "support/support.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/small_file.h"

static void path_of(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", folder, name);
}

static void test_a_file_is_a_text(void **state)
{
    char path[256], text[8];
    (void)state;
    path_of(path, sizeof path, "file");
    file_write(path, "abc\n", 4);
    assert_int_equal(lp_small_file_read(path, text, sizeof text), 4);
    assert_string_equal(text, "abc\n");
    file_write(path, "more than fits", 14);
    assert_int_equal(lp_small_file_read(path, text, sizeof text), 7);
    assert_string_equal(text, "more th");
    file_write(path, "", 0);
    assert_int_equal(lp_small_file_read(path, text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void test_what_cannot_be_read_says_why(void **state)
{
    char path[256], text[8] = "before";
    (void)state;
    path_of(path, sizeof path, "none");
    assert_int_equal(lp_small_file_read(path, text, sizeof text), -1);
    assert_int_equal(errno, ENOENT);
    assert_string_equal(text, "");
    assert_int_equal(lp_small_file_read(folder, text, sizeof text), -1);
    assert_int_equal(errno, EISDIR);
}

/* A pipe that nobody writes to. */
static void test_nobody_is_waited_for(void **state)
{
    char path[256], text[8];
    (void)state;
    path_of(path, sizeof path, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(lp_small_file_read(path, text, sizeof text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_a_file_is_a_text),
        in_folder(test_what_cannot_be_read_says_why),
        in_folder(test_nobody_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
