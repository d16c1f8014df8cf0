/* What a run came from, noted in its entry of metadata.json. */
#include "support/worker.h"

#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>

static char *folder, *source;
static char before[PATH_MAX];

static void shell(const char *line)
{
    assert_int_equal(system(line), 0);
}

/* In a repository, as the working directory. */
static int begin(void **state)
{
    (void)state;
    folder = folder_make();
    source = folder_make();
    if (!getcwd(before, sizeof before) || chdir(source) != 0)
        return -1;
    shell("export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1; git init -q -b main . && echo one > file && git add . && "
          "git -c user.name=a -c user.email=a@b commit -qm first && echo two >> file && echo bin >> .git/info/exclude");
    return 0;
}

static int end(void **state)
{
    (void)state;
    folder_remove(folder);
    folder_remove(source);
    return chdir(before);
}

#define in_repository(test) cmocka_unit_test_setup_teardown(test, begin, end)

static struct lp_worker *open_with(double snapshot_s, const char *packages, size_t packages_len)
{
    struct lp_worker_options options = quiet_options(folder);
    options.snapshot_interval_s = snapshot_s;
    options.run_id = "r1";
    struct lp_worker *worker = worker_open_with(&options);
    lp_worker_describe(worker, source, packages, packages_len);
    return worker;
}

/* The provenance of the run, borrowed from *root; NULL while there is none. */
static json_t *provenance_in(json_t **root)
{
    char *path;
    size_t len;
    assert_true(asprintf(&path, "%s/metadata.json", folder) > 0);
    char *text = file_read(path, &len);
    free(path);
    assert_non_null(text);
    *root = json_of(text, len);
    free(text);
    json_t *runs = json_object_get(*root, "runs");
    assert_int_equal(json_object_size(runs), 1);
    json_t *said = json_object_get(json_object_get(runs, "r1"), "provenance");
    if (!said)
        json_decref(*root);
    return said;
}

static bool is_described(void)
{
    json_t *root;
    bool is = provenance_in(&root) != NULL;
    if (is)
        json_decref(root);
    return is;
}

static void assert_described(bool with_git)
{
    json_t *root, *said = provenance_in(&root), *git = json_object_get(said, "git");
    assert_non_null(said);
    assert_int_equal(json_string_length(json_object_get(git, "commit")), 40);
    assert_string_equal(json_string_value(json_object_get(git, "branch")), "main");
    if (with_git && !LP_TEST_TSAN) { /* under which git is not run */
        assert_true(json_is_true(json_object_get(git, "dirty")));
        assert_int_equal(json_string_length(json_object_get(git, "difference_sha256")), 64);
    } else {
        assert_true(json_is_null(json_object_get(git, "dirty")));
        assert_true(json_is_null(json_object_get(git, "difference_sha256")));
    }
    json_decref(root);
}

static void test_by_the_keeper(void **state)
{
    (void)state;
    static const char packages[] = "torch\0"
                                   "2.3.0+cu121\0"
                                   "gone\0"
                                   "";
    struct lp_worker *worker = open_with(30, packages, sizeof packages);
    assert_false(is_described());
    worker_record(worker, "a");
    WAIT_UNTIL(is_described());
    assert_described(true);
    json_t *root, *named = json_object_get(provenance_in(&root), "packages");
    assert_int_equal(json_object_size(named), 2);
    assert_string_equal(json_string_value(json_object_get(named, "torch")), "2.3.0+cu121");
    assert_true(json_is_null(json_object_get(named, "gone")));
    json_decref(root);
    lp_worker_free(worker);
    assert_described(true);
}

/* A worker without a thread says what it can when it closes. */
static void test_without_a_keeper(void **state)
{
    (void)state;
    struct lp_worker *worker = open_with(0, NULL, 0);
    worker_record(worker, "a");
    lp_worker_free(worker);
    assert_described(false);
}

/* Only the worker that made the entry; and a forked child leaves it to its parent. */
static void test_by_one_worker(void **state)
{
    (void)state;
    struct lp_worker *worker = open_with(30, NULL, 0);
    struct lp_worker_options options = quiet_options(folder);
    options.run_id = "r1";
    struct lp_worker *other = worker_open_with(&options);
    assert_true(lp_worker_describes(worker));
    assert_false(lp_worker_describes(other));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(!lp_worker_describes(worker));
        worker_record(worker, "child");
        CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    lp_worker_free(worker);
    lp_worker_free(other);
    assert_true(is_described());
}

/* A git that never answers. */
static void hang_git(void)
{
    char path[PATH_MAX + 64];
    shell("mkdir bin && printf '#!/bin/sh\\necho x >> %s/asked\\nexec sleep 1000\\n' \"$PWD\" > bin/git && chmod +x "
          "bin/git");
    snprintf(path, sizeof path, "%s/bin:/usr/bin:/bin", source);
    assert_int_equal(setenv("PATH", path, 1), 0);
}

static long times_asked(void)
{
    struct stat st;
    return stat("asked", &st) == 0 ? (long)st.st_size / 2 : 0;
}

static void test_a_git_that_hangs_holds_up_nothing(void **state)
{
    if (LP_TEST_TSAN) {
        print_message("ThreadSanitizer does not survive how git is run\n");
        skip();
    }
    (void)state;
    char *path = strdup(getenv("PATH"));
    hang_git();
    struct lp_worker *worker = open_with(30, NULL, 0);
    worker_record(worker, "a");
    WAIT_UNTIL(times_asked() == 1);
    fflush(NULL);
    pid_t pid = fork(); /* it is ended for this, and asked again */
    if (pid == 0)
        _exit(0);
    int status;
    assert_int_equal(waitpid(-1, &status, 0), pid);
    worker_record(worker, "a");
    WAIT_UNTIL(times_asked() == 2);
    assert_int_equal(waitpid(-1, &status, WNOHANG), -1);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_described(false);
    lp_worker_free(worker);
    assert_int_equal(setenv("PATH", path, 1), 0);
    free(path);
}

/* Of a run directory that is made anew it is said anew. */
static void test_a_directory_that_went(void **state)
{
    (void)state;
    struct lp_worker *worker = open_with(0.05, NULL, 0);
    worker_record(worker, "a");
    WAIT_UNTIL(is_described());
    char *command, *path;
    assert_true(asprintf(&command, "rm -rf %s/*", folder) > 0);
    assert_true(asprintf(&path, "%s/metadata.json", folder) > 0);
    shell(command);
    WAIT_UNTIL(access(path, F_OK) == 0 && is_described());
    free(command);
    free(path);
    lp_worker_free(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_repository(test_by_the_keeper),         in_repository(test_without_a_keeper),
        in_repository(test_by_one_worker),         in_repository(test_a_git_that_hangs_holds_up_nothing),
        in_repository(test_a_directory_that_went),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
