/* The call that follows a periodic flush: what it may do, and who waits for it: I2. */
#include "support/worker.h"

#include <semaphore.h>

static char *folder;

/* What the call under test does, and what came of it. */
static struct call {
    struct lp_worker *worker;
    void (*act)(struct lp_worker *worker);
    _Atomic int begun, ended, released;
    sem_t enter, go; /* posted when a call has begun; waited for by one that is to block */
} call;

static int make_folder(void **state)
{
    (void)state;
    folder = folder_make();
    memset(&call, 0, sizeof call);
    sem_init(&call.enter, 0, 0);
    sem_init(&call.go, 0, 0);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

static void flushed(void *context)
{
    assert(context == &call);
    atomic_fetch_add(&call.begun, 1);
    if (call.act)
        call.act(call.worker);
    atomic_fetch_add(&call.ended, 1);
}

static void released(void *context)
{
    assert(context == &call);
    atomic_fetch_add(&call.released, 1);
}

static struct lp_worker *open_calling(double snapshot_s, void (*act)(struct lp_worker *worker))
{
    struct lp_worker_options options = quiet_options(folder);
    options.snapshot_interval_s = snapshot_s;
    options.flushed = flushed;
    options.flushed_release = released;
    options.flushed_context = &call;
    call.act = act;
    call.worker = worker_open_with(&options);
    return call.worker;
}

static void block(struct lp_worker *worker)
{
    (void)worker;
    sem_post(&call.enter);
    sem_wait(&call.go);
}

static void test_it_follows_periodic_flushes_only(void **state)
{
    struct lp_worker *worker = open_calling(0.01, NULL);
    (void)state;
    assert_int_equal(lp_worker_snapshot(worker, NULL, 0), LP_WORKER_OK);
    assert_int_equal(atomic_load(&call.begun), 0);
    worker_record(worker, "a");
    WAIT_UNTIL(atomic_load(&call.ended) >= 3);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    int calls = atomic_load(&call.begun);
    json_t *document = worker_document(worker);
    assert_true(json_u64(document, "flush", 0) >= (uint64_t)calls + 2); /* the snapshot and the close besides */
    json_decref(document);
    assert_int_equal(atomic_load(&call.released), 0);
    lp_worker_free(worker);
    assert_int_equal(atomic_load(&call.released), 1);
    assert_int_equal(atomic_load(&call.begun), calls);
}

static void test_a_failure_is_counted_in_the_file(void **state)
{
    struct lp_worker *worker = open_calling(0.01, lp_worker_callback_failed);
    (void)state;
    worker_record(worker, "a");
    WAIT_UNTIL(atomic_load(&call.ended) >= 2);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    json_t *document = worker_document(worker);
    assert_int_equal(trouble_at(document, "failed_callbacks"), atomic_load(&call.ended));
    json_decref(document);
    lp_worker_free(worker);
}

static void use(struct lp_worker *worker)
{
    size_t len;
    worker_record(worker, "inside");
    if (lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK)
        free(lp_worker_document(worker, &len));
}

static void test_it_may_use_the_worker(void **state)
{
    struct lp_worker *worker = open_calling(0.01, use);
    (void)state;
    worker_record(worker, "a");
    WAIT_UNTIL(atomic_load(&call.ended) >= 2);
    lp_worker_free(worker);
    assert_int_equal(keepers_now(), 0);
    assert_int_equal(files_with_calls(folder, "inside", (uint64_t)atomic_load(&call.ended)), 1);
}

static void close_here(struct lp_worker *worker)
{
    lp_worker_close(worker, NULL, 0);
    sem_post(&call.enter);
}

static void test_it_may_close_the_worker(void **state)
{
    struct lp_worker *worker = open_calling(0.01, close_here);
    (void)state;
    worker_record(worker, "a");
    sem_wait(&call.enter);
    assert_true(lp_worker_closed(worker));
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    lp_worker_free(worker);
    assert_int_equal(keepers_now(), 0);
    assert_int_equal(atomic_load(&call.begun), 1);
    assert_int_equal(atomic_load(&call.released), 1);
    assert_int_equal(files_with_calls(folder, "a", 1), 1);
}

static void free_here(struct lp_worker *worker)
{
    sem_wait(&call.go); /* no other thread uses it any more */
    lp_worker_free(worker);
    assert(atomic_load(&call.released) == 0); /* it is still in use: here */
    sem_post(&call.enter);
}

static void test_it_may_free_the_worker(void **state)
{
    struct lp_worker *worker = open_calling(0.01, free_here);
    (void)state;
    worker_record(worker, "a");
    sem_post(&call.go);
    sem_wait(&call.enter);
    WAIT_UNTIL(atomic_load(&call.released) == 1 && keepers_now() == 0);
    assert_int_equal(files_with_calls(folder, "a", 1), 1);
}

static void *close_it(void *worker)
{
    lp_worker_close(worker, NULL, 0);
    return NULL;
}

static void end_once_closing(struct lp_worker *worker)
{
    sem_post(&call.enter);
    while (!lp_worker_closing(worker))
        sched_yield();
    use(worker); /* while somebody waits for us */
}

static void test_closing_waits_for_it(void **state)
{
    struct lp_worker *worker = open_calling(0.01, end_once_closing);
    pthread_t closer;
    (void)state;
    worker_record(worker, "a");
    sem_wait(&call.enter);
    assert_int_equal(pthread_create(&closer, NULL, close_it, worker), 0);
    assert_int_equal(pthread_join(closer, NULL), 0);
    assert_int_equal(atomic_load(&call.begun), 1);
    assert_int_equal(atomic_load(&call.ended), 1);
    assert_int_equal(keepers_now(), 0);
    lp_worker_free(worker);
}

/* Takes the five seconds that closing waits. */
static void test_one_that_does_not_return_is_left_to_itself(void **state)
{
    struct lp_worker *worker = open_calling(0.01, block);
    (void)state;
    worker_record(worker, "a");
    sem_wait(&call.enter);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_int_equal(atomic_load(&call.ended), 0);
    assert_int_equal(files_with_calls(folder, "a", 1), 1);
    lp_worker_free(worker); /* does not wait again */
    assert_int_equal(atomic_load(&call.released), 0);
    sem_post(&call.go);
    WAIT_UNTIL(atomic_load(&call.released) == 1 && keepers_now() == 0);
    assert_int_equal(atomic_load(&call.begun), 1);
}

static int fork_and_record(struct lp_worker *worker)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        worker_record(worker, "child");
        CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

static void fork_here(struct lp_worker *worker)
{
    if (atomic_load(&call.begun) == 1)
        CHECK(fork_and_record(worker) == 0);
}

static void test_it_may_fork(void **state)
{
    struct lp_worker *worker = open_calling(0.01, fork_here);
    (void)state;
    worker_record(worker, "a");
    WAIT_UNTIL(atomic_load(&call.ended) >= 3); /* the parent's goes on */
    lp_worker_free(worker);
    assert_int_equal(files_with_calls(folder, "child", 1), 1);
    assert_int_equal(files_with_calls(folder, "a", 1), 1);
}

/* It may need what the forking thread holds, so nobody waits for it there. */
static void test_a_fork_goes_past_it(void **state)
{
    if (LP_TEST_TSAN) /* a child that starts a thread where its parent had one confuses it */
        skip();
    struct lp_worker *worker = open_calling(0.01, block);
    (void)state;
    worker_record(worker, "a");
    sem_wait(&call.enter);
    assert_int_equal(fork_and_record(worker), 0);
    assert_int_equal(atomic_load(&call.ended), 0);
    sem_post(&call.go);
    WAIT_UNTIL(atomic_load(&call.ended) == 1);
    worker_record(worker, "a"); /* a boundary brings it back */
    sem_wait(&call.enter);
    sem_post(&call.go);
    lp_worker_free(worker);
    assert_int_equal(atomic_load(&call.released), 1);
    assert_int_equal(files_with_calls(folder, "child", 1), 1);
}

static void *let_it_go(void *unused)
{
    sem_post(&call.go);
    return unused;
}

/* What a host does that goes on by itself, after the handlers of a fork. */
static void go_on_later(void)
{
}

static void test_a_pause_waits_for_it(void **state)
{
    if (LP_TEST_TSAN) /* a child that starts a thread where its parent had one confuses it */
        skip();
    struct lp_worker *worker = open_calling(0.01, block);
    pthread_t other;
    (void)state;
    lp_worker_resume_by(go_on_later);
    lp_worker_pause_calls(); /* nothing runs yet */
    worker_record(worker, "a");
    sem_wait(&call.enter);
    assert_int_equal(pthread_create(&other, NULL, let_it_go, NULL), 0);
    lp_worker_pause_calls();
    assert_int_equal(atomic_load(&call.ended), 1);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(fork_and_record(worker), 0);
    assert_int_equal(atomic_load(&call.begun), 1); /* none began meanwhile */
    worker_record(worker, "a");
    sem_wait(&call.enter);
    sem_post(&call.go);
    lp_worker_resume_by(NULL);
    lp_worker_free(worker);
    assert_int_equal(files_with_calls(folder, "child", 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_it_follows_periodic_flushes_only),
        in_folder(test_a_failure_is_counted_in_the_file),
        in_folder(test_it_may_use_the_worker),
        in_folder(test_it_may_close_the_worker),
        in_folder(test_it_may_free_the_worker),
        in_folder(test_closing_waits_for_it),
        in_folder(test_one_that_does_not_return_is_left_to_itself),
        in_folder(test_it_may_fork),
        in_folder(test_a_fork_goes_past_it),
        in_folder(test_a_pause_waits_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
