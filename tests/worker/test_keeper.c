/* The keeper: there from the first phase on, flushing on its own, deaf to signals, gone when the worker is closed. */
#include "support/worker.h"

#include <pthread.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "worker/adopt.h"

static char *folder;

/* Thread-local variables that fill a small stack, as some programs have. */
static __thread char large[300 << 10];

static int make_folder(void **state)
{
    (void)state;
    folder = folder_make();
    large[0] = 1;
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

static struct lp_worker *open_with_intervals(double snapshot_s, double sample_s)
{
    struct lp_worker_options options = quiet_options(folder);
    options.snapshot_interval_s = snapshot_s;
    options.sample_interval_s = sample_s;
    return worker_open_with(&options);
}

static uint64_t flushes_of(struct lp_worker *worker)
{
    json_t *document = worker_document(worker);
    uint64_t flushes = document ? json_u64(document, "flush", 0) : 0;
    json_decref(document);
    return flushes;
}

/* E2, E10 */
static void test_it_starts_at_the_first_phase_and_ends_with_the_worker(void **state)
{
    struct lp_worker *worker = open_with_intervals(30, 1);
    (void)state;
    assert_int_equal(keepers_now(), 0);
    worker_record(worker, "a");
    WAIT_UNTIL(keepers_now() == 1);
    worker_record(worker, "a");
    WAIT_UNTIL(keepers_now() == 1);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_int_equal(keepers_now(), 0);
    worker_record(worker, "a");
    assert_int_equal(keepers_now(), 0);
    lp_worker_free(worker);
}

static void test_a_count_is_a_beginning_too(void **state)
{
    struct lp_worker *worker = open_with_intervals(30, 1);
    (void)state;
    lp_record_count(lp_worker_recorder(worker), name_of("n"), 1);
    WAIT_UNTIL(keepers_now() == 1);
    lp_worker_free(worker);
    assert_int_equal(keepers_now(), 0);
}

static void test_without_intervals_there_is_none(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0);
    int before = threads_now(NULL);
    (void)state;
    worker_record(worker, "a");
    assert_int_equal(threads_now(NULL), before);
    lp_worker_free(worker);
}

/* F6 */
static void test_it_flushes_every_interval(void **state)
{
    struct lp_worker *worker = open_with_intervals(0.02, 0);
    (void)state;
    worker_record(worker, "a");
    WAIT_UNTIL(flushes_of(worker) >= 5);
    json_t *document = worker_document(worker);
    assert_string_equal(text_at(document, "state"), "running");
    assert_int_equal(figures_at(document, "a").calls, 1);
    json_decref(document);
    lp_worker_free(worker);
}

static void test_it_flushes_beside_samples(void **state)
{
    struct lp_worker *worker = open_with_intervals(0.02, 0.005);
    (void)state;
    worker_record(worker, "a");
    WAIT_UNTIL(flushes_of(worker) >= 3);
    lp_worker_free(worker);
}

/* F6: one that fails is counted and does not stop the next. */
static void test_a_failing_flush_does_not_stop_the_next(void **state)
{
    struct lp_worker *worker = open_with_intervals(0.02, 0);
    const struct lp_header *header = lp_image_header(&lp_worker_recorder(worker)->image);
    char *host_folder = strdup(lp_worker_path(worker));
    (void)state;
    *strrchr(host_folder, '/') = '\0';
    worker_record(worker, "a");
    WAIT_UNTIL(flushes_of(worker) >= 1);
    do /* a file where its folder should be */
        folder_empty(host_folder);
    while (rmdir(host_folder) == 0 || symlink("/nowhere/at/all", host_folder) != 0);
    WAIT_UNTIL(atomic_load(&header->troubles[LP_TROUBLE_FAILED_FLUSHES]) >= 3);
    assert_int_equal(unlink(host_folder), 0);
    WAIT_UNTIL(flushes_of(worker) >= 1);
    json_t *document = worker_document(worker);
    assert_true(trouble_at(document, "failed_flushes") >= 3);
    json_decref(document);
    free(host_folder);
    lp_worker_free(worker);
}

static void test_signals_go_to_the_programs_own_threads(void **state)
{
    struct lp_worker *worker = open_with_intervals(30, 1);
    char path[300];
    bool seen = false;
    (void)state;
    worker_record(worker, "a");
    WAIT_UNTIL(keepers_now() == 1);
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        char *status = entry->d_name[0] == '.' ? NULL : file_read(path, NULL);
        if (status && strstr(status, "Name:\tlp-keeper\n")) {
            unsigned long long blocked = strtoull(strstr(status, "SigBlk:\t") + 8, NULL, 16);
            for (int number = 1; number < 32; number++)
                if (number != SIGKILL && number != SIGSTOP)
                    assert_true(blocked & 1ull << (number - 1));
            seen = true;
        }
        free(status);
    }
    closedir(tasks);
    assert_true(seen);
    sigset_t mine;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &mine), 0);
    assert_false(sigismember(&mine, SIGTERM)); /* ours is as it was */
    lp_worker_free(worker);
}

/* Idea 1: from bounded to token, where the kernel allows it. */
static void test_it_proves_the_token(void **state)
{
    struct utsname name;
    unsigned major = 0, minor = 0;
    (void)state;
    if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2 || major > 6 ||
        (major == 6 && minor >= 19)) {
        print_message("this kernel may keep the token over a sleep\n");
        skip();
    }
    struct lp_worker *worker = open_with_intervals(0.02, 0);
    if (lp_cpu_mode() == LP_CPU_PLAIN) {
        print_message("no restartable sequences here\n");
        skip();
    }
    worker_record(worker, "a");
    WAIT_UNTIL(lp_cpu_mode() == LP_CPU_TOKEN);
    uint64_t flushes = flushes_of(worker);
    WAIT_UNTIL(flushes_of(worker) > flushes + 1);
    json_t *document = worker_document(worker);
    assert_string_equal(text_at(json_object_get(document, "clock"), "cpu"), "token");
    json_decref(document);
    lp_worker_free(worker);
}

static void test_it_shows_that_the_worker_lives(void **state)
{
    struct lp_worker *worker = open_with_intervals(0, 0.005);
    const struct lp_header *header = lp_image_header(&lp_worker_recorder(worker)->image);
    (void)state;
    worker_record(worker, "a");
    uint64_t before = clock_now_ns(CLOCK_MONOTONIC);
    WAIT_UNTIL(atomic_load(&header->heartbeat_ns) > before);
    lp_worker_free(worker);
}

static void test_several_workers_have_one_each(void **state)
{
    struct lp_worker *one = open_with_intervals(0.02, 0), *two = open_with_intervals(30, 1);
    (void)state;
    worker_record(one, "a");
    WAIT_UNTIL(keepers_now() == 1);
    worker_record(two, "b");
    WAIT_UNTIL(keepers_now() == 2);
    lp_worker_free(one);
    WAIT_UNTIL(keepers_now() == 1);
    lp_worker_free(two);
    assert_int_equal(keepers_now(), 0);
}

/* Of a process whose program's threads all end: a second thread of it, then its first. */
static void *record_a_while(void *context)
{
    for (int i = 0; i < 5; i++)
        worker_record(context, "late");
    return NULL;
}

/* A handler of exit(), as programs have them; not all of what was theirs would be found, and be a leak. */
static void exit_at_once(void)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    _exit(sigismember(&blocked, SIGTERM) ? 4 : 0);
}

static void end_with_ones_last_thread(void)
{
    atexit(exit_at_once);
    pthread_t thread;
    struct lp_worker *workers[2];
    for (int i = 0; i < 2; i++) {
        workers[i] = open_with_intervals(30, 0.02);
        worker_record(workers[i], "a");
    }
    if (pthread_create(&thread, NULL, record_a_while, workers[0]) != 0)
        _exit(3);
    pthread_detach(thread);
    pthread_exit(NULL);
}

static void test_a_process_ends_with_the_programs_last_thread(void **state)
{
    int status;
    (void)state;
    if (LP_TEST_TSAN)
        skip(); /* it has a thread of its own, and no end either */
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        end_with_ones_last_thread();
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(lp_adopt(&(struct lp_adoption){.run_dir = folder}), 2);
}

static struct lp_worker *to_close;

static void *close_it(void *context)
{
    CHECK(lp_worker_close(to_close, NULL, 0) == LP_WORKER_OK);
    lp_worker_free(to_close);
    _exit(0); /* its end would be that of the last thread again, and of all that the first one had */
    return context;
}

static void close_on_another_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, close_it, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void end_and_close(void *context)
{
    (void)context;
    alarm(60);
    atexit(close_on_another_thread);
    to_close = open_with_intervals(30, 0.02);
    worker_record(to_close, "a");
    pthread_exit(NULL);
}

/* A handler of exit() runs on the keeper then, and must not wait for it. */
static void test_a_handler_of_exit_may_close_elsewhere(void **state)
{
    (void)state;
    if (LP_TEST_TSAN)
        skip(); /* as above */
    in_child(end_and_close, NULL);
    assert_int_equal(files_with_calls(folder, "a", 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_it_starts_at_the_first_phase_and_ends_with_the_worker),
        in_folder(test_a_count_is_a_beginning_too),
        in_folder(test_without_intervals_there_is_none),
        in_folder(test_it_flushes_every_interval),
        in_folder(test_it_flushes_beside_samples),
        in_folder(test_a_failing_flush_does_not_stop_the_next),
        in_folder(test_signals_go_to_the_programs_own_threads),
        in_folder(test_it_proves_the_token),
        in_folder(test_it_shows_that_the_worker_lives),
        in_folder(test_several_workers_have_one_each),
        in_folder(test_a_process_ends_with_the_programs_last_thread),
        in_folder(test_a_handler_of_exit_may_close_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
