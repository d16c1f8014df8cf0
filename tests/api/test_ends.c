/* Programs in C and C++ that record to the very end, and objects that are unloaded while they do. */
#include "support/in_folder.h"
#include "support/native.h"

#include <dlfcn.h>

/* Where the build has put a program; the test is skipped where there is no compiler for it. */
static const char *built(const char *name)
{
    static char path[4096];
    const char *where = getenv("LP_API_PROGRAMS");
    snprintf(path, sizeof path, "%s/%s", where ? where : "", name);
    if (access(path, R_OK) != 0)
        skip();
    return path;
}

static void run_program(const char *path, const char *first, const char *second)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(110);
        execl(path, path, first, second, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static struct lp_run *run_ends(const char *how)
{
    run_program(built("ends"), folder, how);
    struct lp_run *run = run_read(folder);
    assert_int_equal(run->n_workers, 1);
    assert_false(run->live);
    assert_int_equal(calls_at(run, "first"), 1);
    assert_int_equal(calls_at(run, "thread"), 20);
    assert_int_equal(calls_at(run, "thread/pthread_exit"), 10);
    assert_int_equal(calls_at(run, "unwind/deep/deep with io/deep"), 1);
    assert_int_equal(calls_at(run, "unwind/left early"), 1);
    assert_int_equal(calls_at(run, "template/lambda"), 1);
    assert_int_equal(calls_at(run, "step"), 400);
    assert_int_equal(phase_at(run, "step")->open_calls, 0);
    return run;
}

/* Each key is destroyed four times at most, as libc goes round: all but what comes after our own last look counts. */
static void check_threads(const struct lp_run *run)
{
    assert_true(calls_at(run, "thread_local destructor") >= 20);
    uint64_t least = LP_TEST_TSAN ? 20 : 20 * 3;
    assert_true(calls_at(run, "early key") >= least && calls_at(run, "early key") <= 20 * 4);
    assert_true(calls_at(run, "late key") >= least && calls_at(run, "late key") <= 20 * 4);
    assert_int_equal(phase_at(run, "late key")->open_calls, 0);
}

static void test_what_is_recorded_after_main(void **state)
{
    (void)state;
    struct lp_run *run = run_ends("open");
    check_threads(run);
    assert_int_equal(calls_at(run, "exit handler"), 1);
    assert_int_equal(calls_at(run, "thread_local destructor"), 21); /* and that of main's thread */
    lp_run_free(run);
}

/* The profiler is closed before: nothing more, and no crash. */
static void test_ends_after_closing(void **state)
{
    (void)state;
    struct lp_run *run = run_ends("close");
    check_threads(run);
    assert_int_equal(calls_at(run, "exit handler"), 0);
    assert_int_equal(calls_at(run, "static destructor"), 0);
    lp_run_free(run);
}

static void test_an_exit_on_another_thread(void **state)
{
    (void)state;
    if (LP_TEST_TSAN)
        skip(); /* it finds the program at fault, which goes on while its objects are destroyed */
    struct lp_run *run = run_ends("other_thread");
    check_threads(run);
    lp_run_free(run);
}

static void test_a_quick_exit(void **state)
{
    (void)state;
    struct lp_run *run = run_ends("quick");
    check_threads(run);
    assert_int_equal(calls_at(run, "exit handler"), 0);
    lp_run_free(run);
}

/* It lasted until the exit, though nothing was recorded since it was entered and the keeper had not looked. */
static void test_an_exit_inside_a_phase(void **state)
{
    (void)state;
    run_program(built("leaves"), folder, NULL);
    struct lp_run *run = run_read(folder);
    assert_int_equal(run->n_workers, 1);
    const struct lp_run_phase *inside = phase_at(run, "inside");
    assert_non_null(inside);
    assert_int_equal(inside->open_calls, 1);
    assert_true(inside->open_wall_ns >= 20000000);
    lp_run_free(run);
}

static void test_an_object_that_comes_and_goes_with_a_table(void **state)
{
    char path[4096];
    (void)state;
    snprintf(path, sizeof path, "%s", built("plugin.so"));
    lp_profiler *profiler = open_quietly(folder);
    for (int i = 0; i < 3; i++) {
        lp_phase outer = lp_enter(profiler, lp_intern("host"));
        void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(object);
        int (*run)(const lp_api *) = (int (*)(const lp_api *))dlsym(object, "plugin_run");
        assert_non_null(run);
        assert_int_equal(run(lp_table()), 0);
        assert_int_equal(dlclose(object), 0);
        lp_leave(&outer);
    }
    assert_int_equal(lp_close(profiler), 0);
    struct lp_run *run = run_read(folder);
    assert_int_equal(calls_at(run, "host/plugin"), 3);
    assert_int_equal(calls_at(run, "plugin"), 3);
    assert_null(phase_at(run, "unloaded"));
    lp_run_free(run);
}

static void test_an_object_that_brings_the_library(void **state)
{
    char recorder[4096];
    (void)state;
    snprintf(recorder, sizeof recorder, "%s", built("recorder.so"));
    run_program(built("host"), recorder, folder);
    struct lp_run *run = run_read(folder);
    assert_int_equal(run->n_workers, 1);
    assert_int_equal(calls_at(run, "round"), 3);
    assert_int_equal(calls_at(run, "round/io"), 3);
    lp_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_what_is_recorded_after_main),
        in_folder(test_ends_after_closing),
        in_folder(test_an_exit_on_another_thread),
        in_folder(test_a_quick_exit),
        in_folder(test_an_exit_inside_a_phase),
        in_folder(test_an_object_that_comes_and_goes_with_a_table),
        in_folder(test_an_object_that_brings_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
