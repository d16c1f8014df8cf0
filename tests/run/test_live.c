/* Workers read while they live, and after they died without a word: J5, F7, EX01, EX10. */
#include <lineprofiler.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "support.h"

/* A recording process without files: no flush but by close. It takes a step for each byte in its pipe. */
struct child {
    pid_t pid;
    int step[2], done[2];
};

static void await_step(const struct child *child)
{
    char byte;
    if (write(child->done[1], "d", 1) != 1 || read(child->step[0], &byte, 1) != 1)
        _exit(3);
}

static void child_main(const struct child *child, const char *folder)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that failed must not leave it waiting */
    lp_options options = {.run_dir = folder, .role = "actor", .snapshot_interval_s = -1, .sample_interval_s = -1};
    lp_profiler *profiler = lp_open(&options);
    if (!profiler)
        _exit(2);
    lp_phase outer = lp_enter(profiler, lp_intern("outer"));
    for (int i = 0; i < 5; i++) {
        lp_phase inner = lp_enter(profiler, lp_intern("inner"));
        lp_count(profiler, lp_intern("games"), 3);
        lp_leave(&inner);
    }
    lp_phase inner = lp_enter(profiler, lp_intern("inner"));
    await_step(child);
    lp_leave(&inner);
    await_step(child);
    (void)outer; /* open for ever */
    _exit(0);
}

static void begin_child(struct child *child, const char *folder)
{
    assert_int_equal(pipe(child->step), 0);
    assert_int_equal(pipe(child->done), 0);
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid == 0)
        child_main(child, folder);
}

static void await_child(const struct child *child)
{
    char byte;
    assert_int_equal(read(child->done[0], &byte, 1), 1);
}

static void let_child_go_on(const struct child *child)
{
    assert_int_equal(write(child->step[1], "s", 1), 1);
}

static struct lp_run_worker *the_worker(struct lp_run *run)
{
    assert_int_equal(run->n_workers, 1);
    assert_int_equal(run->n_unreadable, 0);
    return &run->workers[0];
}

static struct lp_run *load_with_images(const char *folder)
{
    struct lp_run *run;
    char message[256];
    if (lp_run_load(&run, folder, NULL, message, sizeof message) != LP_RUN_OK)
        fail_msg("%s", message);
    the_worker(run);
    return run;
}

static void assert_living(const char *folder)
{
    struct lp_run *run = load_with_images(folder);
    const struct lp_run_phase *inner = phase_at(run->tree, "outer/inner");
    assert_true(run->live);
    assert_int_equal(run->workers[0].source, LP_SOURCE_LIVE_IMAGE);
    assert_int_equal(run->n_caveats, 0);
    assert_int_equal(inner->calls, 5);
    assert_int_equal(inner->open_calls, 1);
    assert_int_equal(lp_hist_total(&inner->hist), 5);
    assert_int_equal(inner->counters[0].sum, 15);
    assert_int_equal(phase_at(run->tree, "outer")->open_calls, 1);
    assert_true(phase_at(run->tree, "outer")->child_wall_ns >= inner->wall_ns);
    assert_int_equal(run->workers[0].n_open, 1);
    assert_string_equal(run->workers[0].open[0].path.bytes, "outer/inner");
    lp_run_free(run);
}

/* Whether an image of the run is left. */
static bool has_image(const char *folder)
{
    struct lp_run *run;
    char message[256];
    struct lp_run_options only_read = {.only_read = true};
    assert_int_equal(lp_run_load(&run, folder, &only_read, message, sizeof message), LP_RUN_OK);
    bool has = the_worker(run)->source != LP_SOURCE_FILE;
    lp_run_free(run);
    return has;
}

/* Read, it is written to its file, and the image goes. */
static void assert_dead(const char *folder)
{
    assert_true(has_image(folder));
    struct lp_run *run = load_with_images(folder);
    const char *text = "";
    assert_false(run->live);
    assert_int_equal(the_worker(run)->source, LP_SOURCE_FILE);
    assert_true(the_worker(run)->ended);
    assert_int_equal(phase_at(run->tree, "outer/inner")->calls, 6);
    assert_int_equal(count_caveats(run, "open", &text), 1);
    assert_non_null(strstr(text, " ended without close inside outer, open "));
    assert_false(has_image(folder));
    lp_run_free(run);
}

static void test_a_worker_alive_and_dead(void **state)
{
    (void)state;
    struct child child;
    struct lp_run *run;
    char message[256];
    int status;
    if (access("/dev/shm", W_OK) != 0)
        skip();
    char *folder = make_folder();
    begin_child(&child, folder);
    await_child(&child);
    assert_living(folder);
    let_child_go_on(&child);
    await_child(&child);
    let_child_go_on(&child);
    assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
    assert_int_equal(status, 0);
    struct lp_run_options files_only = {.no_images = true};
    assert_int_equal(lp_run_load(&run, folder, &files_only, message, sizeof message), LP_RUN_EMPTY);
    assert_dead(folder);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_worker_alive_and_dead)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
