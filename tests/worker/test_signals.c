/* F8: SIGTERM, SIGUSR1 and SIGHUP write the worker's file, and then do what they did before. */
#include "support/in_folder.h"
#include "support/worker.h"

#include "worker/adopt.h"

#include <fcntl.h>

static const int numbers[] = {SIGTERM, SIGUSR1, SIGHUP};
#define N_SIGNALS (sizeof numbers / sizeof *numbers)

static struct lp_worker *open_with_keeper(bool keeper)
{
    struct lp_worker_options options = quiet_options(folder);
    options.snapshot_interval_s = keeper ? 3600 : 0;
    return worker_open_with(&options);
}

/* Entries of the phase in the file of the only worker; -1: there is no file. */
static long entries_in_file(const struct lp_worker *worker)
{
    json_t *document = json_load_file(lp_worker_path(worker), 0, NULL);
    long calls = document ? (long)figures_at(document, "a").calls : -1;
    json_decref(document);
    return calls;
}

/* With a keeper its first flush is waited for: what comes after is in no file until a signal. */
static struct lp_worker *record_three(bool keeper)
{
    struct lp_worker *worker = open_with_keeper(keeper);
    worker_record(worker, "a");
    if (keeper)
        WAIT_UNTIL(entries_in_file(worker) == 1);
    worker_record(worker, "a");
    worker_record(worker, "a");
    return worker;
}

/* A child records and raises; the parent looks at how it ended and at what the file holds. */
static void check_default(int number, bool keeper)
{
    int status = 0, ends[2];
    char path[PATH_MAX] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(number, SIG_DFL);
        struct lp_worker *worker = record_three(keeper);
        CHECK(write(ends[1], lp_worker_path(worker), strlen(lp_worker_path(worker))) > 0);
        raise(number);
        _exit(1);
    }
    close(ends[1]);
    assert_true(read(ends[0], path, sizeof path - 1) > 0);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
    json_t *document = json_load_file(path, 0, NULL);
    assert_non_null(document);
    assert_int_equal(figures_at(document, "a").calls, 3);
    json_decref(document);
    if (lp_adopt(&(struct lp_adoption){.run_dir = folder}) == 0)
        return; /* no shared memory here */
    document = json_load_file(path, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(document, "ended"), "signal")), number);
    json_decref(document);
}

static void test_the_default_still_ends_the_process_F8(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        check_default(numbers[i], true);
        check_default(numbers[i], false);
    }
}

static volatile sig_atomic_t called, called_with_info;
static struct lp_worker *looked_at;
static char seen[64 << 10]; /* the file, when the handler ran */
static volatile ssize_t seen_bytes;

static void plain_handler(int number)
{
    (void)number;
    called = called + 1;
    int fd = looked_at ? open(lp_worker_path(looked_at), O_RDONLY | O_CLOEXEC) : -1;
    seen_bytes = fd < 0 ? 0 : read(fd, seen, sizeof seen);
    if (fd >= 0)
        close(fd);
}

static long seen_in_file(void)
{
    json_t *document = seen_bytes > 0 ? json_loadb(seen, (size_t)seen_bytes, 0, NULL) : NULL;
    long calls = document ? (long)figures_at(document, "a").calls : -1;
    json_decref(document);
    return calls;
}

static void info_handler(int number, siginfo_t *info, void *context)
{
    called_with_info = called_with_info + (info && context && info->si_signo == number);
    plain_handler(number);
}

static void test_a_handler_is_called_after_the_write_F8(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * N_SIGNALS; i++) {
        int number = numbers[i % N_SIGNALS];
        /* On an alternate stack, which a sanitizer may have set, nothing is written in place. */
        struct sigaction theirs = {.sa_flags = SA_RESTART | (i % 2 == 0 ? SA_ONSTACK : 0)}, now, after;
        if (i < N_SIGNALS)
            theirs.sa_handler = plain_handler;
        else
            theirs.sa_sigaction = info_handler, theirs.sa_flags |= SA_SIGINFO;
        sigemptyset(&theirs.sa_mask);
        sigaddset(&theirs.sa_mask, SIGUSR2);
        assert_int_equal(sigaction(number, &theirs, NULL), 0);
        sigaction(number, NULL, &theirs); /* with what libc adds */
        called = called_with_info = 0;
        looked_at = record_three(i % 2 == 0);
        sigaction(number, NULL, &now);
        assert_int_equal(now.sa_flags & ~SA_SIGINFO, theirs.sa_flags & ~SA_SIGINFO);
        assert_true(sigismember(&now.sa_mask, SIGUSR2));
        raise(number);
        assert_int_equal(called, 1);
        assert_int_equal(called_with_info, i >= N_SIGNALS);
        assert_int_equal(seen_in_file(), 3);
        lp_worker_free(looked_at);
        sigaction(number, NULL, &after); /* theirs again */
        assert_int_equal(after.sa_flags, theirs.sa_flags);
        assert_true(i < N_SIGNALS ? after.sa_handler == plain_handler : after.sa_sigaction == info_handler);
        signal(number, SIG_DFL);
    }
}

static void test_what_is_ignored_stays_so_F8(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        struct sigaction now;
        signal(numbers[i], SIG_IGN);
        struct lp_worker *worker = record_three(false);
        sigaction(numbers[i], NULL, &now);
        assert_true(now.sa_handler == SIG_IGN);
        raise(numbers[i]);
        assert_int_equal(entries_in_file(worker), -1);
        lp_worker_free(worker);
        signal(numbers[i], SIG_DFL);
    }
}

static struct sigaction buried;

static void handler_that_goes_on(int number)
{
    called_with_info = called_with_info + 1;
    if (buried.sa_flags & SA_SIGINFO)
        buried.sa_sigaction(number, NULL, NULL);
}

/* Installed over ours, it stays; if it calls ours, that writes and goes on to the first, also when we came again. */
static void test_a_later_handler_stays_and_may_go_on_to_ours_F8(void **state)
{
    struct sigaction first = {.sa_handler = plain_handler}, later = {.sa_handler = handler_that_goes_on}, now;
    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &first, NULL), 0);
    looked_at = record_three(false);
    assert_int_equal(sigaction(SIGUSR1, &later, &buried), 0);
    called = called_with_info = 0;
    raise(SIGUSR1);
    assert_int_equal(called, 1);
    assert_int_equal(called_with_info, 1);
    assert_int_equal(seen_in_file(), 3);

    struct lp_worker *another = open_with_keeper(false); /* ours over theirs over ours */
    worker_record(looked_at, "a");
    worker_record(another, "a");
    raise(SIGUSR1);
    assert_int_equal(called, 2);
    assert_int_equal(called_with_info, 2);
    assert_int_equal(seen_in_file(), 4);
    assert_int_equal(entries_in_file(another), 1);

    lp_worker_free(another);
    lp_worker_free(looked_at);
    sigaction(SIGUSR1, NULL, &now);
    assert_true(now.sa_handler == handler_that_goes_on);
    called = 0;
    looked_at = open_with_keeper(false);
    sigaction(SIGUSR1, &later, NULL); /* theirs again, and ours at the bottom without a worker to write */
    lp_worker_free(looked_at);
    looked_at = NULL;
    raise(SIGUSR1);
    assert_int_equal(called, 1);
    signal(SIGUSR1, SIG_DFL);
}

static void counting_handler(int number)
{
    (void)number;
    called = called + 1;
}

/* FK16: at any moment of a boundary, a snapshot or an opening. */
static void test_signals_at_random_moments_F8_FK16(void **state)
{
    struct sigaction theirs = {.sa_handler = counting_handler};
    int status = 0;
    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &theirs, NULL), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        theirs.sa_handler = SIG_DFL;
        sigaction(SIGTERM, &theirs, NULL);
        for (uint64_t i = 0;; i++) {
            looked_at = open_with_keeper(i % 3 == 0);
            for (int j = 0; j < 2000; j++)
                worker_record(looked_at, "a");
            if (i % 2)
                lp_worker_snapshot(looked_at, NULL, 0);
            lp_worker_free(looked_at);
        }
    }
    uint64_t seed = 16;
    for (int i = 0; i < 2000; i++) {
        struct timespec pause = {.tv_nsec = (long)(random_next(&seed) % 100000)};
        nanosleep(&pause, NULL); /* spreads them; nothing is waited for */
        kill(pid, SIGUSR1);
    }
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
    signal(SIGUSR1, SIG_DFL);
}

static void test_a_forked_child_writes_nothing_of_its_parent_F8(void **state)
{
    int status = 0;
    (void)state;
    struct lp_worker *worker = record_three(false);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        raise(SIGTERM);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_int_equal(entries_in_file(worker), -1);
    lp_worker_free(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_the_default_still_ends_the_process_F8),
        in_folder(test_a_handler_is_called_after_the_write_F8),
        in_folder(test_what_is_ignored_stays_so_F8),
        in_folder(test_a_later_handler_stays_and_may_go_on_to_ours_F8),
        in_folder(test_signals_at_random_moments_F8_FK16),
        in_folder(test_a_forked_child_writes_nothing_of_its_parent_F8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
