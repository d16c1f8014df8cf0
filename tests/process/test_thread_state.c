/* What the kernel says of threads: of one that waits, works, is stopped or gone. */
#include "support/support.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "process/thread_state.h"

static uint64_t own_tid(void)
{
    return (uint64_t)syscall(SYS_gettid);
}

static void test_a_thread_that_looks_at_itself_works(void **state)
{
    (void)state;
    struct lp_thread_look look;
    lp_thread_look(&look, (uint64_t)getpid(), own_tid());
    assert_int_equal(look.state, 'R');
    assert_string_equal(look.wait_channel, "");
    assert_true(look.age_ns < UINT64_MAX);
    assert_true(look.at_ns <= clock_now_ns(CLOCK_MONOTONIC));
}

struct waiting {
    int pipe[2];
    _Atomic uint64_t tid;
};

static void *wait_at_pipe(void *context)
{
    struct waiting *waiting = context;
    char byte;
    atomic_store(&waiting->tid, own_tid());
    ssize_t n = read(waiting->pipe[0], &byte, 1);
    (void)n;
    return NULL;
}

static char state_of(uint64_t pid, uint64_t tid)
{
    struct lp_thread_look look;
    lp_thread_look(&look, pid, tid);
    return look.state;
}

static void test_one_that_waits_and_is_gone(void **state)
{
    (void)state;
    struct waiting waiting = {0};
    pthread_t thread;
    struct lp_thread_look before, after;
    uint64_t pid = (uint64_t)getpid();
    assert_int_equal(pipe(waiting.pipe), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_at_pipe, &waiting), 0);
    WAIT_UNTIL(atomic_load(&waiting.tid) != 0 && state_of(pid, waiting.tid) == 'S');
    lp_thread_look(&before, pid, waiting.tid);
    lp_thread_glance(&after, pid, waiting.tid);
    assert_int_equal(before.state, 'S');
    assert_int_equal(before.cpu_known, after.cpu_known);
    assert_true(after.cpu_ns >= before.cpu_ns);
    assert_true(after.age_ns >= before.age_ns);
    assert_string_equal(after.wait_channel, "");
    assert_int_equal(write(waiting.pipe[1], "x", 1), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    WAIT_UNTIL(state_of(pid, waiting.tid) == 'X');
    lp_thread_look(&after, pid, waiting.tid);
    assert_false(after.cpu_known);
    assert_true(after.age_ns == UINT64_MAX);
    close(waiting.pipe[0]);
    close(waiting.pipe[1]);
}

/* A process whose name has everything that a line of /proc might trip over. */
static void test_one_that_is_stopped(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, ") R 1 (x");
        raise(SIGSTOP);
        _exit(0);
    }
    WAIT_UNTIL(state_of((uint64_t)pid, (uint64_t)pid) == 'T');
    struct lp_thread_look look;
    lp_thread_look(&look, (uint64_t)pid, (uint64_t)pid);
    assert_true(look.age_ns < 600000000000u);
    assert_int_equal(kill(pid, SIGKILL), 0);
    WAIT_UNTIL(state_of((uint64_t)pid, (uint64_t)pid) == 'Z');
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(state_of((uint64_t)pid, (uint64_t)pid), 'X');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_that_looks_at_itself_works),
        cmocka_unit_test(test_one_that_waits_and_is_gone),
        cmocka_unit_test(test_one_that_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
