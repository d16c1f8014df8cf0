/* Whether the profiler's threads are all that is left of a process. */
#include "support/support.h"

#include <pthread.h>
#include <semaphore.h>

#include "process/io.h"
#include "process/own_threads.h"
#include "process/thread_state.h"

static sem_t ours_is_there, others_may_end;

static void *live_on(void *context)
{
    while (sem_wait(&others_may_end) != 0)
        continue;
    return context;
}

static bool first_has_ended(void)
{
    struct lp_thread_look look;
    lp_thread_glance(&look, (uint64_t)getpid(), (uint64_t)getpid());
    return look.state == 'Z';
}

/* As the keeper does, which outlives them all. */
static void *ask(void *context)
{
    struct lp_io before, after;
    (void)context;
    lp_own_thread_begins();
    sem_post(&ours_is_there);
    while (!first_has_ended())
        sched_yield();
    CHECK(!lp_own_threads_are_alone()); /* another of the program's lives */
    sem_post(&others_may_end);
    size_t cost_chars = lp_io_of_thread(&before);
    while (!lp_own_threads_are_alone())
        sched_yield();
    CHECK(lp_io_of_thread(&after) == 0 || after.read_chars == before.read_chars + cost_chars);
    _exit(0);
}

static void end_thread_by_thread(void)
{
    pthread_t other, ours;
    CHECK(sem_init(&ours_is_there, 0, 0) == 0 && sem_init(&others_may_end, 0, 0) == 0);
    CHECK(pthread_create(&other, NULL, live_on, NULL) == 0);
    CHECK(pthread_create(&ours, NULL, ask, NULL) == 0);
    CHECK(sem_wait(&ours_is_there) == 0);
    CHECK(!lp_own_threads_are_alone());
    pthread_exit(NULL);
}

static void test_alone_when_all_others_have_ended(void **state)
{
    int status;
    (void)state;
    if (LP_TEST_TSAN)
        skip(); /* it has a thread of its own */
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        end_thread_by_thread();
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void *ask_once(void *alone)
{
    lp_own_thread_begins();
    *(bool *)alone = lp_own_threads_are_alone();
    lp_own_thread_ends();
    return NULL;
}

static void test_not_alone_beside_a_program_of_one_thread(void **state)
{
    pthread_t ours;
    bool alone = true;
    (void)state;
    assert_false(lp_own_threads_are_alone());
    assert_int_equal(pthread_create(&ours, NULL, ask_once, &alone), 0);
    assert_int_equal(pthread_join(ours, NULL), 0);
    assert_false(alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_alone_beside_a_program_of_one_thread),
        cmocka_unit_test(test_alone_when_all_others_have_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
