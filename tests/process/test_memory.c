/* The memory of another process. */
#include "support/support.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "process/identity.h"
#include "process/memory.h"

#define SIZE (64u << 20)

static struct lp_process_ref ref_of(pid_t pid)
{
    static struct lp_identity identity;
    struct lp_process_ref process = {.pid = (uint64_t)pid};
    uint64_t parent;
    lp_identity_read(&identity);
    process.pid_namespace = identity.pid_namespace;
    assert_true(lp_process_parent(process.pid, &parent, &process.start_ticks));
    return process;
}

/* A child that touches so many bytes, says so, and waits to be killed. */
static pid_t start_child(size_t bytes)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        char *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (block == MAP_FAILED || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_what_a_child_has_touched(void **state)
{
    (void)state;
    uint64_t small, large;
    bool stopped;
    pid_t little = start_child(4096), much = start_child(SIZE);
    struct lp_process_ref first = ref_of(little), second = ref_of(much);
    assert_true(lp_process_rss(&first, &small, &stopped));
    assert_true(lp_process_rss(&second, &large, &stopped));
    assert_true(small > 0);
    assert_in_range(large - small, SIZE - (4u << 20), SIZE + (4u << 20));
    end_child(little);
    end_child(much);
    assert_false(lp_process_rss(&second, &large, &stopped));
}

static void test_a_child_that_is_stopped(void **state)
{
    (void)state;
    uint64_t bytes;
    int status;
    bool stopped = true;
    pid_t child = start_child(4096);
    struct lp_process_ref process = ref_of(child);
    assert_true(lp_process_rss(&process, &bytes, &stopped));
    assert_false(stopped);
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(lp_process_rss(&process, &bytes, &stopped));
    assert_true(stopped);
    end_child(child);
}

static void test_another_process_of_that_pid_is_not_asked(void **state)
{
    (void)state;
    uint64_t bytes;
    bool stopped;
    struct lp_process_ref self = ref_of(getpid()), other = self;
    assert_true(lp_process_rss(&self, &bytes, &stopped));
    other.start_ticks++;
    assert_false(lp_process_rss(&other, &bytes, &stopped));
    other = self;
    other.pid_namespace++;
    assert_false(lp_process_rss(&other, &bytes, &stopped));
    other = (struct lp_process_ref){0};
    assert_false(lp_process_rss(&other, &bytes, &stopped));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_child_has_touched),
        cmocka_unit_test(test_a_child_that_is_stopped),
        cmocka_unit_test(test_another_process_of_that_pid_is_not_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
