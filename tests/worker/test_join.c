/* Which run is joined: the program, the environment, the ancestors, and what the environment says of a run that is over.
 */
#include "support/worker.h"

#include <sys/prctl.h>

#include "worker/join.h"

static char *folder, *dir_a, *dir_b;

static int make_folders(void **state)
{
    (void)state;
    folder = folder_make();
    assert_true(asprintf(&dir_a, "%s/a", folder) > 0 && asprintf(&dir_b, "%s/b", folder) > 0);
    unsetenv("LINEPROFILER_PROFILE");
    unsetenv("LINEPROFILER_RUN_DIR");
    unsetenv("LINEPROFILER_RUN_ID");
    unsetenv("LINEPROFILER_EXPORTED");
    return 0;
}

static int remove_folders(void **state)
{
    (void)state;
    free(dir_a);
    free(dir_b);
    folder_remove(folder);
    return 0;
}

#define in_folders(test) cmocka_unit_test_setup_teardown(test, make_folders, remove_folders)

static struct lp_worker *open_in(const char *run_dir, const char *run_id)
{
    struct lp_worker *worker;
    struct lp_worker_options options = quiet_options(run_dir);
    options.run_id = run_id;
    CHECK(lp_worker_open(&worker, &options, NULL, 0) == LP_WORKER_OK);
    CANNOT_IF(lp_worker_recorder(worker)->image.fd < 0);
    return worker;
}

static void put_variables(const char *profile, const char *run_dir, const char *run_id)
{
    profile ? setenv("LINEPROFILER_PROFILE", profile, 1) : unsetenv("LINEPROFILER_PROFILE");
    run_dir ? setenv("LINEPROFILER_RUN_DIR", run_dir, 1) : unsetenv("LINEPROFILER_RUN_DIR");
    run_id ? setenv("LINEPROFILER_RUN_ID", run_id, 1) : unsetenv("LINEPROFILER_RUN_ID");
}

/* As an open profiler does for its children. */
static void export_run(const struct lp_worker *worker)
{
    char text[PATH_MAX];
    put_variables("1", lp_worker_run_dir(worker), lp_worker_run_id(worker));
    snprintf(text, sizeof text, "%s:%s:%s", lp_worker_name(worker), lp_worker_run_id(worker),
             lp_worker_run_dir(worker));
    setenv("LINEPROFILER_EXPORTED", text, 1);
}

static bool same(const char *text, const char *other)
{
    return text == other || (text && other && strcmp(text, other) == 0);
}

/* In a child of this process, with these arguments: the run that is chosen. */
static void assert_chosen(const char *given_dir, const char *given_id, const char *run_dir, const char *run_id)
{
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct lp_join join;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        lp_join_choose(&join, given_dir, given_id);
        if (!same(join.run_dir, run_dir) || !same(join.run_id, run_id))
            dprintf(2, "%s %s\n", join.run_dir ? join.run_dir : "-", join.run_id ? join.run_id : "-");
        CHECK(same(join.run_dir, run_dir));
        CHECK(same(join.run_id, run_id));
        CHECK(join.run_id_given == (given_id && *given_id));
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void choose_without_ancestors(void *context)
{
    struct lp_join join;
    (void)context;
    assert_chosen(NULL, NULL, NULL, NULL);
    assert_chosen("", "", NULL, NULL);
    assert_chosen("given", "id", "given", "id");
    put_variables("1", dir_a, "env");
    assert_chosen(NULL, NULL, dir_a, "env");
    assert_chosen("given", NULL, "given", "env");
    assert_chosen(NULL, "id", dir_a, "id");
    put_variables("1", "", "");
    assert_chosen(NULL, NULL, NULL, NULL);
    lp_join_choose(&join, NULL, NULL);
    CHECK(!join.in_run);
}

static void test_arguments_and_environment(void **state)
{
    (void)state;
    in_child(choose_without_ancestors, NULL);
}

static void choose_with_an_ancestor(void *context)
{
    (void)context;
    struct lp_worker *worker = open_in(dir_a, "one");
    assert_chosen(NULL, NULL, dir_a, "one");
    assert_chosen(dir_a, NULL, dir_a, "one"); /* the same directory: no attempt of its own */
    assert_chosen(dir_b, NULL, dir_b, NULL);
    assert_chosen(NULL, "id", dir_a, "id");
    put_variables("1", dir_a, NULL);
    assert_chosen(NULL, NULL, dir_a, "one");
    put_variables(NULL, dir_b, NULL); /* said by hand */
    assert_chosen(NULL, NULL, dir_b, NULL);
    put_variables(NULL, NULL, "by hand");
    assert_chosen(NULL, NULL, dir_a, "by hand");
    put_variables("1", dir_b, "by hand");
    assert_chosen(NULL, NULL, dir_b, "by hand");
    lp_worker_free(worker);
}

/* E1 */
static void test_an_ancestor_fills_in_what_nobody_says_E1(void **state)
{
    (void)state;
    in_child(choose_with_an_ancestor, NULL);
}

static void begin_another_run(void *context)
{
    (void)context;
    struct lp_worker *first = open_in(dir_a, "one");
    export_run(first);
    assert_chosen(NULL, NULL, dir_a, "one");
    struct lp_worker *second = open_in(dir_b, "two");
    assert_chosen(NULL, NULL, dir_a, "one"); /* its profiler is open: no reason to doubt */
    lp_worker_free(second);
    lp_worker_free(first);
    assert_chosen(NULL, NULL, dir_a, "one"); /* nothing is known that would be better */

    second = open_in(dir_b, "two");
    assert_chosen(NULL, NULL, dir_b, "two");
    assert_chosen(dir_b, NULL, dir_b, "two");
    assert_chosen("given", NULL, "given", "two");
    assert_chosen("given", "id", "given", "id");

    setenv("LINEPROFILER_RUN_ID", "by hand", 1); /* and the signature is inherited */
    assert_chosen(NULL, NULL, dir_a, "by hand");
    setenv("LINEPROFILER_RUN_ID", "one", 1);
    setenv("LINEPROFILER_RUN_DIR", "/by/hand", 1);
    assert_chosen(NULL, NULL, "/by/hand", "one");
    setenv("LINEPROFILER_RUN_DIR", dir_a, 1);
    assert_chosen(NULL, NULL, dir_b, "two");
    unsetenv("LINEPROFILER_EXPORTED");
    assert_chosen(NULL, NULL, dir_a, "one");
    static const char *const nonsense[] = {":", "::", "w", "w:one", "w:one:/elsewhere", "_:_:_"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        setenv("LINEPROFILER_EXPORTED", nonsense[i], 1);
        assert_chosen(NULL, NULL, dir_a, "one");
    }
    lp_worker_free(second);
}

/* FK12: a forkserver hands out the environment of the run in which it began. */
static void test_variables_of_a_run_that_is_over_FK12(void **state)
{
    (void)state;
    in_child(begin_another_run, NULL);
}

/* Its profiler closed, while this process's parent has one open: but that is not who exported. */
static void choose_below_another(void *context)
{
    int status;
    (void)context;
    struct lp_worker *outer = open_in(dir_b, "outer");
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct lp_worker *worker = open_in(dir_a, "one");
        export_run(worker);
        lp_worker_free(worker);
        assert_chosen(NULL, NULL, dir_a, "one");
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    lp_worker_free(outer);
}

static void test_another_process_has_a_profiler(void **state)
{
    (void)state;
    in_child(choose_below_another, NULL);
}

/* A child that was started in the first run and asks in the second is one of the first. */
static void start_slowly(void *context)
{
    int go[2], status;
    char byte;
    (void)context;
    struct lp_worker *first = open_in(dir_a, "one");
    export_run(first);
    CHECK(pipe(go) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct lp_join join;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        CHECK(read(go[0], &byte, 1) == 1);
        lp_join_choose(&join, NULL, NULL);
        CHECK(same(join.run_dir, dir_a) && same(join.run_id, "one"));
        _exit(0);
    }
    close(go[0]);
    lp_worker_free(first);
    /* The kernel tells when a process began to 10 ms only. */
    for (uint64_t until = clock_now_ns(CLOCK_BOOTTIME) + 20000000; clock_now_ns(CLOCK_BOOTTIME) < until;)
        pause_ms(5);
    struct lp_worker *second = open_in(dir_b, "two");
    assert_chosen(NULL, NULL, dir_b, "two");
    CHECK(write(go[1], "x", 1) == 1);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    lp_worker_free(second);
}

static void test_a_slow_child_of_the_first_run(void **state)
{
    (void)state;
    in_child(start_slowly, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folders(test_arguments_and_environment),
        in_folders(test_an_ancestor_fills_in_what_nobody_says_E1),
        in_folders(test_variables_of_a_run_that_is_over_FK12),
        in_folders(test_another_process_has_a_profiler),
        in_folders(test_a_slow_child_of_the_first_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
