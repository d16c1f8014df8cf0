/* Work that hangs, work that takes its time, and who frees what. */
#include "support/support.h"

#include <pthread.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include "run/patient.h"

struct task {
    int come_back[2];
    sem_t released;
    size_t progress;
    pthread_t progress_in;
};

static void release(void *task)
{
    sem_post(&((struct task *)task)->released);
}

static void hang(void *context, void *patient)
{
    struct task *task = context;
    char byte;
    (void)patient;
    assert_int_equal(read(task->come_back[0], &byte, 1), 1);
}

/* Longer than anybody has patience, but a step a second. */
static void move_on(void *task, void *patient)
{
    (void)task;
    for (size_t i = 1; i <= LP_PATIENCE_S + 1; i++) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        lp_patient_step(patient, i, LP_PATIENCE_S + 1);
    }
}

/* Without a step, but at work. */
static void compute(void *task, void *patient)
{
    struct timespec begin, now;
    (void)task;
    (void)patient;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec <= begin.tv_sec + LP_PATIENCE_S + 1);
}

static void note_progress(void *context, size_t done, size_t total)
{
    struct task *task = context;
    assert_true(done <= total);
    task->progress = done;
    task->progress_in = pthread_self();
}

static bool do_it(struct task *task, void (*act)(void *task, void *patient))
{
    assert_int_equal(sem_init(&task->released, 0, 0), 0);
    return lp_patient_do(&(struct lp_patient_work){
        .act = act, .release = release, .task = task, .progress = note_progress, .progress_context = task});
}

static void test_what_hangs_is_given_up_and_freed_when_it_comes_back(void **state)
{
    (void)state;
    struct task task = {0};
    assert_int_equal(pipe(task.come_back), 0);
    assert_false(do_it(&task, hang));
    assert_int_equal(sem_trywait(&task.released), -1);
    assert_int_equal(write(task.come_back[1], "x", 1), 1);
    assert_int_equal(sem_wait(&task.released), 0);
    close(task.come_back[0]);
    close(task.come_back[1]);
}

static void test_what_moves_on_may_take_its_time(void **state)
{
    (void)state;
    struct task task = {0};
    assert_true(do_it(&task, move_on));
    assert_true(task.progress >= LP_PATIENCE_S);
    assert_true(pthread_equal(task.progress_in, pthread_self()));
    assert_true(do_it(&task, compute));
    assert_int_equal(sem_trywait(&task.released), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_hangs_is_given_up_and_freed_when_it_comes_back),
        cmocka_unit_test(test_what_moves_on_may_take_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
