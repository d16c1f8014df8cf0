/*
 * Native programs that fork, spawn and die: nothing is lost but the entry in flight, nothing of a parent's is touched by
 * its children, and a parent that only waits goes on with its file.
 */
#include "support/in_folder.h"
#include "support/native.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>

extern char **environ;

static int status_of(pid_t pid)
{
    int status = 0;
    assert_true(pid > 0);
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return status;
}

static pid_t fork_clean(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static void skip_without_images(void)
{
    if (access("/dev/shm", W_OK) != 0)
        skip();
}

static lp_profiler *open_for(const char *role, double snapshot_s)
{
    lp_profiler *profiler = lp_open(&(lp_options){
        .run_dir = folder, .run_id = "one", .role = role, .snapshot_interval_s = snapshot_s, .sample_interval_s = -1});
    CHECK(profiler);
    return profiler;
}

static void check_counts(const struct lp_run *run, const char *path, const char *name, int64_t sum)
{
    const struct lp_run_phase *phase = phase_at(run, path);
    assert_non_null(phase);
    for (size_t i = 0; i < phase->n_counters; i++)
        if (phase->counters[i].name.len == strlen(name) &&
            memcmp(phase->counters[i].name.bytes, name, strlen(name)) == 0)
            assert_int_equal((int64_t)phase->counters[i].sum, sum);
}

/* ---- deaths ------------------------------------------------------------------------------ */

enum way { BY_SIGKILL, BY__EXIT, BY_ABORT, BY_SEGV, BY_RETURN, BY_SIGTERM, BY_EXEC, WAYS };

static void die(enum way way)
{
    volatile char *nowhere = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's would print */
    signal(SIGABRT, SIG_DFL);
    switch (way) {
    case BY_SIGKILL:
        raise(SIGKILL);
        break;
    case BY__EXIT:
        _exit(7);
    case BY_ABORT:
        abort();
    case BY_SEGV:
        *nowhere = 1;
        break;
    case BY_SIGTERM:
        raise(SIGTERM);
        break;
    case BY_EXEC:
        execl("/bin/true", "true", (char *)NULL);
        break;
    default:
        _exit(0);
    }
}

static atomic_bool recorded_beside;

/* On a thread of its own, with an entry open. */
static void *record_and_stay(void *profiler)
{
    for (int i = 0; i < 50; i++)
        enter_and_leave(profiler, "beside");
    lp_phase open = lp_enter(profiler, lp_intern("open beside"));
    (void)open;
    atomic_store(&recorded_beside, true);
    for (;;)
        pause();
    return NULL;
}

static void record_and_die(enum way way, double snapshot_s)
{
    pthread_t thread;
    lp_profiler *profiler = open_for("victim", snapshot_s);
    CHECK(pthread_create(&thread, NULL, record_and_stay, profiler) == 0);
    lp_phase outer = lp_enter(profiler, lp_intern("outer"));
    for (int i = 0; i < 100; i++) {
        enter_and_leave(profiler, "inner");
        lp_count(profiler, lp_intern("n"), 2);
    }
    lp_phase left = lp_enter(profiler, lp_with(lp_intern("io"), LP_IO));
    lp_leave(&left);
    while (!atomic_load(&recorded_beside))
        pause_ms(1);
    (void)outer;
    die(way);
}

static void test_deaths_of_all_kinds_lose_nothing_F7(void **state)
{
    const int statuses[WAYS] = {SIGKILL, 7 << 8, SIGABRT, SIGSEGV, 0, SIGTERM, 0};
    (void)state;
    skip_without_images();
    for (int way = 0; way < WAYS; way++)
        for (int keeper = 0; keeper < 2; keeper++) {
            pid_t pid = fork_clean();
            if (pid == 0)
                record_and_die(way, keeper ? 3600 : -1);
            assert_int_equal(status_of(pid) & ~0x80, statuses[way]);
            struct lp_run *run = run_read(folder);
            assert_int_equal(run->n_workers, 1);
            assert_int_equal(calls_at(run, "outer/inner"), 100);
            assert_int_equal(calls_at(run, "outer/io"), 1);
            assert_int_equal(calls_at(run, "beside"), 50);
            assert_int_equal(open_at(run, "outer"), 1);
            assert_int_equal(open_at(run, "open beside"), 1);
            assert_false(run->live);
            check_counts(run, "outer", "n", 200);
            lp_run_free(run);
            folder_empty(folder);
            assert_int_equal(mkdir(folder, 0700), 0);
        }
}

/* ---- signals ------------------------------------------------------------------------------ */

static char path_in_handler[4096], seen_in_handler[4096];

/* Keeps the file as it is now. */
static void look_and_leave(int number)
{
    (void)number;
    _exit(link(path_in_handler, seen_in_handler) == 0 ? 42 : 1);
}

static void handle_sigterm_before_or_after(bool before)
{
    struct sigaction action = {.sa_handler = look_and_leave}, now;
    if (before)
        CHECK(sigaction(SIGTERM, &action, NULL) == 0);
    lp_profiler *profiler = open_for("actor", 3600);
    if (!before)
        CHECK(sigaction(SIGTERM, &action, NULL) == 0);
    enter_and_leave(profiler, "a");
    enter_and_leave(profiler, "a");
    lp_worker_file(profiler, path_in_handler, sizeof path_in_handler);
    snprintf(seen_in_handler, sizeof seen_in_handler, "%s/seen", folder);
    while (access(path_in_handler, F_OK) != 0) /* the keeper's first: the next comes in an hour */
        pause_ms(1);
    enter_and_leave(profiler, "a");
    CHECK(sigaction(SIGTERM, NULL, &now) == 0);
    CHECK((now.sa_handler == look_and_leave) == !before);
    raise(SIGTERM);
    _exit(99);
}

/* Before: ours has written the file when theirs runs. After: theirs is left alone. */
static void test_handlers_from_before_and_from_after_F8(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        pid_t pid = fork_clean();
        if (pid == 0)
            handle_sigterm_before_or_after(before);
        char seen[4096];
        assert_int_equal(status_of(pid), 42 << 8);
        snprintf(seen, sizeof seen, "%s/seen", folder);
        json_t *document = file_document(seen);
        if (before)
            assert_int_equal(figures_at(document, "a").calls, 3);
        else
            assert_true(figures_at(document, "a").calls < 3);
        json_decref(document);
        struct lp_run *run = run_read(folder);
        assert_int_equal(calls_at(run, "a"), 3);
        lp_run_free(run);
        folder_empty(folder);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
}

/* Until the last profiler is closed, and then not only for that one. */
static void test_the_last_close_gives_back_what_was_there_F8(void **state)
{
    struct sigaction theirs = {.sa_handler = look_and_leave}, now;
    (void)state;
    assert_int_equal(sigaction(SIGHUP, &theirs, NULL), 0);
    lp_profiler *one = open_quietly(folder), *two = open_quietly(folder);
    sigaction(SIGHUP, NULL, &now);
    assert_true(now.sa_handler != look_and_leave);
    lp_close(one);
    sigaction(SIGHUP, NULL, &now);
    assert_true(now.sa_handler != look_and_leave);
    lp_close(two);
    sigaction(SIGHUP, NULL, &now);
    assert_true(now.sa_handler == look_and_leave);
    signal(SIGHUP, SIG_DFL);
}

/* ---- forks and what looks like one ----------------------------------------------------------- */

/* A parent that forks its actors and then only waits: its file goes on, whether or not it has recorded before. */
static void wait_for_files(bool records)
{
    char path[4096];
    lp_profiler *profiler = open_for("parent", 0.01);
    if (records)
        enter_and_leave(profiler, "before");
    lp_worker_file(profiler, path, sizeof path);
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork_clean();
        if (pid == 0) {
            CHECK(keepers_now() == 0);
            CHECK(threads_now(NULL) == 1);
            _exit(0);
        }
        assert_int_equal(status_of(pid), 0);
    }
    unlink(path);
    WAIT_UNTIL(access(path, F_OK) == 0); /* written anew */
    assert_int_equal(keepers_now(), 1);
    assert_int_equal(lp_close(profiler), 0);
    assert_int_equal(keepers_now(), 0);
}

static void test_a_parent_that_only_waits_goes_on(void **state)
{
    (void)state;
    wait_for_files(true);
    wait_for_files(false);
}

/* And comes for the dead: a child's image becomes a file, with how it ended. */
static void test_a_parent_that_only_waits_adopts(void **state)
{
    int ready[2];
    char byte;
    (void)state;
    skip_without_images();
    lp_profiler *profiler = open_for("parent", 0.01);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork_clean();
    if (pid == 0) {
        enter_and_leave(profiler, "child");
        CHECK(write(ready[1], "x", 1) == 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(pid, SIGKILL);
    status_of(pid);
    WAIT_UNTIL(files_with_calls(folder, "child", 1) == 1);
    assert_int_equal(lp_close(profiler), 0);
    close(ready[0]);
    close(ready[1]);
}

static void test_without_intervals_no_thread_comes_of_a_fork(void **state)
{
    (void)state;
    lp_profiler *profiler = open_quietly(folder);
    enter_and_leave(profiler, "a");
    pid_t pid = fork_clean();
    if (pid == 0)
        _exit(0);
    assert_int_equal(status_of(pid), 0);
    assert_int_equal(keepers_now(), 0);
    assert_int_equal(lp_close(profiler), 0);
}

static void test_many_forks_in_a_row(void **state)
{
    (void)state;
    lp_profiler *profiler = open_for("parent", 0.005);
    for (int i = 0; i < 200; i++) {
        pid_t pid = fork_clean();
        if (pid == 0)
            _exit(0);
        if (i % 3 == 0)
            enter_and_leave(profiler, "a");
        assert_int_equal(status_of(pid), 0);
    }
    assert_int_equal(lp_close(profiler), 0);
    struct lp_run *run = run_read(folder);
    assert_int_equal(run->n_workers, 1);
    assert_int_equal(calls_at(run, "a"), 67);
    lp_run_free(run);
}

/* Installed by the parent, inherited by its children; LP_PHASE in both. */
static void record_by_macros(int n)
{
    for (int i = 0; i < n; i++) {
        LP_PHASE("step");
        LP_PHASE_WITH("io", LP_IO, 1.0);
        LP_COUNT("n", 1);
    }
}

static void test_macros_across_a_fork(void **state)
{
    (void)state;
    lp_profiler *profiler = open_quietly(folder);
    lp_phase across = lp_enter(profiler, lp_with(lp_intern("across"), LP_IO));
    record_by_macros(2);
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork_clean();
        if (pid == 0) {
            lp_leave(&across); /* of the parent's */
            record_by_macros(10);
            CHECK(lp_close(lp_installed()) == 0);
            CHECK(!lp_installed());
            record_by_macros(10);
            _exit(0);
        }
        assert_int_equal(status_of(pid), 0);
    }
    record_by_macros(1);
    lp_leave(&across);
    assert_int_equal(lp_close(profiler), 0);
    struct lp_run *run = run_read(folder);
    assert_int_equal(run->n_workers, 4);
    assert_int_equal(calls_at(run, "across/step"), 3);
    assert_int_equal(calls_at(run, "across/step/io"), 3);
    assert_int_equal(calls_at(run, "step"), 30);
    lp_run_free(run);
}

/* A child opens one of its own beside the one it inherits, or where the parent's was closed; closes, opens again. */
static void test_opening_in_a_child(void **state)
{
    (void)state;
    for (int closed = 0; closed < 2; closed++) {
        lp_profiler *inherited = open_quietly(folder);
        enter_and_leave(inherited, "parent");
        if (closed)
            assert_int_equal(lp_close(inherited), 0);
        pid_t pid = fork_clean();
        if (pid == 0) {
            CHECK(lp_is_enabled(inherited) == !closed);
            for (int i = 0; i < 2; i++) {
                lp_profiler *own = open_for("child", -1);
                CHECK(own && lp_is_enabled(own));
                /* The inherited one gives way: it has recorded nothing here, or is installed no more. */
                CHECK(lp_installed() == own);
                enter_and_leave(own, "child");
                enter_and_leave(inherited, "inherited");
                CHECK(lp_close(own) == 0);
            }
            CHECK(lp_snapshot(inherited) == 0);
            CHECK(lp_close(inherited) == 0);
            _exit(0);
        }
        assert_int_equal(status_of(pid), 0);
        assert_int_equal(lp_close(inherited), 0);
    }
    struct lp_run *run = run_read(folder);
    assert_int_equal(calls_at(run, "parent"), 2);
    assert_int_equal(calls_at(run, "child"), 4);
    assert_int_equal(calls_at(run, "inherited"), 2); /* where the parent's was not closed */
    assert_int_equal(run->n_workers, 2 + 4 + 1);
    lp_run_free(run);
}

static pid_t spawn(const char *command)
{
    char *const arguments[] = {"sh", "-c", (char *)(uintptr_t)command, NULL};
    pid_t pid = -1;
    assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ), 0);
    return pid;
}

static pid_t vfork_and_exec(const char *command)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static bool environment_is(char **before)
{
    size_t i = 0;
    while (before[i] && environ[i] && strcmp(before[i], environ[i]) == 0)
        i++;
    return !before[i] && !environ[i];
}

/* They run no handlers: the keeper goes on, nothing of the profiler reaches the program. */
static void test_posix_spawn_vfork_system_and_popen(void **state)
{
    char *before[4096] = {NULL};
    (void)state;
    for (size_t i = 0; environ[i] && i < 4095; i++)
        before[i] = strdup(environ[i]);
    lp_profiler *profiler = open_for("parent", 0.02);
    assert_true(environment_is(before));
    lp_phase phase = lp_enter(profiler, lp_intern("children"));
    WAIT_UNTIL(keepers_now() == 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(status_of(spawn("exit 3")), 3 << 8);
        assert_int_equal(status_of(vfork_and_exec("exit 4")), 4 << 8);
        assert_int_equal(system("exit 5"), 5 << 8);
        FILE *pipe_of = popen("cat >/dev/null", "w");
        assert_non_null(pipe_of);
        assert_int_equal(pclose(pipe_of), 0);
    }
    WAIT_UNTIL(keepers_now() == 1);
    lp_leave(&phase);
    assert_int_equal(lp_close(profiler), 0);
    assert_true(environment_is(before));
    struct lp_run *run = run_read(folder);
    assert_int_equal(run->n_workers, 1);
    assert_int_equal(calls_at(run, "children"), 1);
    lp_run_free(run);
    for (size_t i = 0; before[i]; i++)
        free(before[i]);
}

/* A child of vfork runs on its parent's memory. It dies of a signal there, in our handler. */
static void die_between_vfork_and_exec(void *context)
{
    (void)context;
    lp_profiler *profiler = open_for("parent", 3600);
    enter_and_leave(profiler, "a");
    pid_t pid = vfork();
    if (pid == 0) {
        kill((pid_t)syscall(SYS_getpid), SIGTERM);
        _exit(1);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    CHECK(lp_is_enabled(profiler));
    enter_and_leave(profiler, "a");
    raise(SIGTERM); /* writes, and ends */
    _exit(98);
}

static void test_a_signal_between_vfork_and_exec(void **state)
{
    (void)state;
    skip_without_images();
    int status = run_child(die_between_vfork_and_exec, NULL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_int_equal(files_with_calls(folder, "a", 2), 1); /* before anybody adopts */
}

static void close_after_vfork_died(void *context)
{
    (void)context;
    lp_profiler *profiler = open_for("parent", -1);
    pid_t pid = vfork();
    if (pid == 0) {
        kill((pid_t)syscall(SYS_getpid), SIGUSR1);
        _exit(1);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    CHECK(lp_close(profiler) == 0); /* waits for handlers that run: there is none */
}

static void test_closing_after_a_signal_between_vfork_and_exec(void **state)
{
    (void)state;
    in_child(close_after_vfork_died, NULL);
}

static pid_t raw_clone(void)
{
    fflush(NULL);
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

/* Runs no handlers: what it inherits is its parent's, until it opens one of its own. */
static void test_a_raw_clone(void **state)
{
    char text[64];
    (void)state;
    if (LP_TEST_ASAN || LP_TEST_TSAN)
        skip(); /* they must see every fork */
    lp_profiler *profiler = open_quietly(folder);
    enter_and_leave(profiler, "parent");
    pid_t pid = raw_clone();
    if (pid == 0) {
        alarm(60);
        CHECK(!lp_is_enabled(profiler));
        enter_and_leave(profiler, "clone");
        record_by_macros(1);
        LP_PHASE("new name");
        CHECK(lp_count(profiler, lp_intern("n"), 1) == 0);
        CHECK(lp_current(profiler, text, sizeof text) == 0);
        CHECK(lp_run_id(profiler, text, sizeof text) == 3);
        CHECK(lp_worker_file(profiler, text, sizeof text) > 0);
        lp_name_thread("clone");
        CHECK(lp_snapshot(profiler) == 0);
        lp_profiler *own = open_for("clone", -1);
        CHECK(lp_is_enabled(own));
        enter_and_leave(own, "own");
        CHECK(lp_close(own) == 0);
        CHECK(lp_close(profiler) == 0);
        _exit(0);
    }
    assert_int_equal(status_of(pid), 0);
    enter_and_leave(profiler, "parent");
    assert_int_equal(lp_close(profiler), 0);
    struct lp_run *run = run_read(folder);
    assert_int_equal(run->n_workers, 2);
    assert_int_equal(calls_at(run, "parent"), 2);
    assert_int_equal(calls_at(run, "own"), 1);
    assert_null(phase_at(run, "clone"));
    lp_run_free(run);
}

/* A child that dies with the handle of its parent's closed profiler, and threads that ask for the file as it changes. */
static void *ask_for_file(void *profiler)
{
    char text[4096];
    for (int i = 0; i < 2000; i++)
        if (lp_worker_file(profiler, text, sizeof text) == 0)
            return profiler;
    return NULL;
}

static void test_asking_for_the_file_while_a_child_begins(void **state)
{
    (void)state;
    if (LP_TEST_TSAN)
        skip(); /* allows no new threads in a child of several */
    lp_profiler *profiler = open_quietly(folder);
    enter_and_leave(profiler, "a");
    for (int i = 0; i < 10; i++) {
        pid_t pid = fork_clean();
        if (pid == 0) {
            pthread_t threads[2];
            void *failed;
            for (int j = 0; j < 2; j++)
                CHECK(pthread_create(&threads[j], NULL, ask_for_file, profiler) == 0);
            enter_and_leave(profiler, "child");
            for (int j = 0; j < 2; j++)
                CHECK(pthread_join(threads[j], &failed) == 0 && !failed);
            CHECK(lp_close(profiler) == 0);
            _exit(0);
        }
        assert_int_equal(status_of(pid), 0);
    }
    assert_int_equal(lp_close(profiler), 0);
    struct lp_run *run = run_read(folder);
    assert_int_equal(calls_at(run, "child"), 10);
    lp_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_deaths_of_all_kinds_lose_nothing_F7),
        in_folder(test_handlers_from_before_and_from_after_F8),
        in_folder(test_the_last_close_gives_back_what_was_there_F8),
        in_folder(test_a_parent_that_only_waits_goes_on),
        in_folder(test_a_parent_that_only_waits_adopts),
        in_folder(test_without_intervals_no_thread_comes_of_a_fork),
        in_folder(test_many_forks_in_a_row),
        in_folder(test_macros_across_a_fork),
        in_folder(test_opening_in_a_child),
        in_folder(test_posix_spawn_vfork_system_and_popen),
        in_folder(test_a_signal_between_vfork_and_exec),
        in_folder(test_closing_after_a_signal_between_vfork_and_exec),
        in_folder(test_a_raw_clone),
        in_folder(test_asking_for_the_file_while_a_child_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
