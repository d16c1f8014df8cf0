/* The driver that a process uses already, by the stand-in of tests/fake_gpu. Each test has a process of its own. */
#include "support/support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/prctl.h>

#include "process/cuda.h"

#define STREAM 5

/* What the program that is looked at does itself. */
static struct {
    int (*init)(unsigned flags);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*synchronize)(lp_cuda_stream stream);
    int (*enqueue)(lp_cuda_stream stream, uint64_t ns);
    void (*capture)(lp_cuda_stream stream, int begins);
    int (*capture_state)(lp_cuda_stream stream);
    int (*users)(void);
    int (*live_events)(void);
    void (*replace_context)(void);
} cuda;

static void find(void *library, void *function, const char *name)
{
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(function, &found, sizeof found);
}

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(library != NULL);
    find(library, &cuda.init, "cuInit");
    find(library, &cuda.retain, "cuDevicePrimaryCtxRetain");
    find(library, &cuda.set_current, "cuCtxSetCurrent");
    find(library, &cuda.synchronize, "cuStreamSynchronize");
    find(library, &cuda.enqueue, "fake_enqueue");
    find(library, &cuda.capture, "fake_capture");
    find(library, &cuda.capture_state, "fake_capture_state");
    find(library, &cuda.users, "fake_users");
    find(library, &cuda.live_events, "fake_live_events");
    find(library, &cuda.replace_context, "fake_replace_context");
}

static void make_context(void)
{
    void *context;
    CHECK(cuda.init(0) == 0 && cuda.retain(&context, 0) == 0 && cuda.set_current(context) == 0);
}

/* Runs it in a child; what it CHECKs is asserted. */
static void run(void (*program)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        program();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void does_nothing(void)
{
    CHECK(!lp_cuda_has_context());
    CHECK(!lp_cuda_synchronize(LP_CUDA_NO_STREAM));
    CHECK(lp_cuda_record(0) == NULL);
}

static void without_cuda(void)
{
    does_nothing();
    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL);
    load(); /* and nothing more */
    does_nothing();
    CHECK(cuda.init(0) == 0);
    does_nothing();
    CHECK(cuda.users() == 0);
    make_context(); /* what was not there at the last look is found */
    CHECK(lp_cuda_has_context());
}

static void test_nothing_is_loaded_or_made(void **state)
{
    (void)state;
    run(without_cuda);
}

static void measure(void)
{
    uint64_t ns = 0;
    load();
    make_context();
    CHECK(cuda.enqueue(STREAM, 40000000) == 0); /* of before: not in it */
    struct lp_cuda_event *begin = lp_cuda_record(STREAM);
    CHECK(begin && cuda.enqueue(STREAM, 7000000) == 0);
    struct lp_cuda_event *end = lp_cuda_record(STREAM);
    CHECK(end && lp_cuda_elapsed(begin, end, &ns) == LP_CUDA_PENDING);
    CHECK(cuda.synchronize(STREAM) == 0);
    CHECK(lp_cuda_elapsed(begin, end, &ns) == LP_CUDA_DONE && ns == 7000000);
    lp_cuda_event_release(begin);
    lp_cuda_event_release(end);
    for (int i = 0; i < 100; i++)
        lp_cuda_event_release(lp_cuda_record(STREAM));
    CHECK(cuda.live_events() == 2);
    CHECK(lp_cuda_record(12345) == NULL); /* no stream of anybody */
}

static void test_device_time_without_waiting(void **state)
{
    (void)state;
    run(measure);
}

static void drain(void)
{
    uint64_t ns;
    load();
    make_context();
    cuda.enqueue(STREAM, 5000000);
    struct lp_cuda_event *event = lp_cuda_record(STREAM);
    CHECK(lp_cuda_synchronize(LP_CUDA_NO_STREAM));
    CHECK(lp_cuda_elapsed(event, event, &ns) == LP_CUDA_DONE);
}

static void *drain_elsewhere(void *context)
{
    (void)context;
    CHECK(!lp_cuda_has_context());
    CHECK(lp_cuda_synchronize(LP_CUDA_NO_STREAM));
    CHECK(!lp_cuda_has_context());
    return NULL;
}

/* As JAX does it: its own threads have the context. */
static void drain_from_another_thread(void)
{
    uint64_t ns;
    pthread_t thread;
    load();
    make_context();
    cuda.enqueue(STREAM, 5000000);
    struct lp_cuda_event *event = lp_cuda_record(STREAM);
    CHECK(pthread_create(&thread, NULL, drain_elsewhere, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(lp_cuda_elapsed(event, event, &ns) == LP_CUDA_DONE);
    CHECK(cuda.users() == 1);
}

static void test_all_work_is_done_after_a_synchronisation(void **state)
{
    (void)state;
    run(drain);
    run(drain_from_another_thread);
}

static void capture(void)
{
    load();
    make_context();
    cuda.capture(STREAM, 1);
    CHECK(lp_cuda_record(STREAM) == NULL);
    CHECK(lp_cuda_record(0) == NULL);
    CHECK(!lp_cuda_synchronize(STREAM) && !lp_cuda_synchronize(LP_CUDA_NO_STREAM));
    CHECK(cuda.capture_state(STREAM) == 1);
    cuda.capture(STREAM, 0);
    CHECK(lp_cuda_record(STREAM) != NULL && lp_cuda_synchronize(STREAM));
}

static void test_a_graph_that_is_captured_is_left_alone(void **state)
{
    (void)state;
    run(capture);
}

static void replace_context(void)
{
    uint64_t ns;
    load();
    make_context();
    struct lp_cuda_event *begin = lp_cuda_record(STREAM), *end = lp_cuda_record(STREAM);
    cuda.replace_context(); /* the stand-in ends the process if an old event is touched */
    CHECK(lp_cuda_elapsed(begin, end, &ns) == LP_CUDA_PENDING);
    lp_cuda_event_release(begin);
    begin = lp_cuda_record(STREAM);
    CHECK(begin != NULL && lp_cuda_elapsed(begin, end, &ns) == LP_CUDA_FAILED);
}

static void test_events_of_a_context_that_is_gone_are_not_touched(void **state)
{
    (void)state;
    run(replace_context);
}

static void fork_after_use(void)
{
    uint64_t ns;
    load();
    make_context();
    struct lp_cuda_event *event = lp_cuda_record(STREAM);
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        lp_cuda_after_fork();
        does_nothing();
        CHECK(lp_cuda_elapsed(event, event, &ns) == LP_CUDA_FAILED);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(lp_cuda_elapsed(event, event, &ns) == LP_CUDA_DONE);
}

static void test_a_forked_child_has_nothing_of_its_parents(void **state)
{
    (void)state;
    run(fork_after_use);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_loaded_or_made),
        cmocka_unit_test(test_device_time_without_waiting),
        cmocka_unit_test(test_all_work_is_done_after_a_synchronisation),
        cmocka_unit_test(test_a_graph_that_is_captured_is_left_alone),
        cmocka_unit_test(test_events_of_a_context_that_is_gone_are_not_touched),
        cmocka_unit_test(test_a_forked_child_has_nothing_of_its_parents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
