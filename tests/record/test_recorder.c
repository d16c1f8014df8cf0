/* The life of a recorder: idle, running, stopped for good; woken, forked, given back. */
#include "support/recording.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void record_one(struct recording *recording, const char *name)
{
    struct lp_entry entry = enter(recording, name);
    leave(&entry);
}

static uint64_t calls_of(struct recording *recording, const char *path)
{
    json_t *document = recording_document(recording);
    uint64_t calls = figures_at(document, path).calls;
    json_decref(document);
    return calls;
}

static void test_an_idle_recorder_begins_at_the_first_boundary(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open_with(&recording, &(struct recording_options){.idle = true});
    assert_int_equal(recording.begun, 0);
    record_one(&recording, "a");
    record_one(&recording, "a");
    assert_int_equal(recording.begun, 1);
    assert_int_equal(calls_of(&recording, "a"), 2);
    recording_close(&recording);
}

/* As a hook with a lock does: when it has that, the other thread's lp_recorder_start is done. */
static int await_the_other_thread(void *context)
{
    struct recording *recording = context;
    atomic_fetch_add(&recording->begun, 1);
    atomic_store(&recording->recorder.key, UINT64_MAX);
    return 0;
}

static void test_the_first_boundaries_of_two_threads_are_both_recorded(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open_with(&recording, &(struct recording_options){.idle = true});
    recording.recorder.hooks.begin = await_the_other_thread;
    atomic_store(&recording.recorder.state, LP_RECORDER_RUNNING); /* and no key yet: half way through the start */
    record_one(&recording, "a");
    assert_int_equal(recording.begun, 1);
    assert_int_equal(calls_of(&recording, "a"), 1);
    recording_close(&recording);
}

static void *record_one_elsewhere(void *context)
{
    record_one(context, "elsewhere");
    return NULL;
}

static void test_a_woken_recorder_asks_once_at_the_next_boundary(void **state)
{
    static struct recording recording;
    pthread_t thread;
    (void)state;
    recording_open(&recording);
    struct lp_entry open = enter(&recording, "a");
    assert_int_equal(recording.begun, 0);
    lp_recorder_wake(&recording.recorder);
    leave(&open); /* what was open is closed as ever */
    assert_int_equal(recording.begun, 1);
    record_one(&recording, "a");
    assert_int_equal(recording.begun, 1);
    lp_recorder_wake(&recording.recorder);
    assert_int_equal(pthread_create(&thread, NULL, record_one_elsewhere, &recording), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(recording.begun, 2);
    record_one(&recording, "a");
    assert_int_equal(recording.begun, 2);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "a").calls, 3);
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(&recording);
}

static void test_a_stopped_recorder_is_not_woken(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    record_one(&recording, "a");
    lp_recorder_stop(&recording.recorder);
    lp_recorder_wake(&recording.recorder);
    record_one(&recording, "b");
    assert_int_equal(recording.begun, 0);
    assert_int_equal(calls_of(&recording, "b"), 0);
    recording_close(&recording);
}

/* A wake that meets a stop must not bring the recorder back. */
static struct recording waking;
static atomic_bool enough;

static void *wake_on(void *context)
{
    while (!atomic_load(&enough))
        lp_recorder_wake(&waking.recorder);
    return context;
}

static void test_stop_wins_over_wake(void **state)
{
    pthread_t thread;
    (void)state;
    for (int i = 0; i < 300; i++) {
        atomic_store(&enough, false);
        recording_open(&waking);
        assert_int_equal(pthread_create(&thread, NULL, wake_on, NULL), 0);
        for (int j = 0; j < i; j++)
            record_one(&waking, "a");
        lp_recorder_stop(&waking.recorder);
        for (int j = 0; j < 20; j++)
            record_one(&waking, "after");
        atomic_store(&enough, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(atomic_load(&waking.recorder.key), 0);
        assert_int_equal(calls_of(&waking, "after"), 0);
        recording_close(&waking);
    }
}

/* ---- stopping under load ----------------------------------------------------------- */

struct busy {
    struct recording *recording;
    _Atomic uint64_t done;
};

static void *record_until_enough(void *context)
{
    struct busy *busy = context;
    while (!atomic_load_explicit(&enough, memory_order_relaxed)) {
        struct lp_entry a = enter(busy->recording, "a"), b = enter(busy->recording, "b");
        leave(&b);
        leave(&a);
        atomic_fetch_add(&busy->done, 1);
    }
    return NULL;
}

static void test_stop_while_others_record(void **state)
{
    static struct recording recording;
    pthread_t threads[3];
    (void)state;
    for (int round = 0; round < 30; round++) {
        struct busy busy = {.recording = &recording};
        atomic_store(&enough, false);
        recording_open(&recording);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, record_until_enough, &busy), 0);
        WAIT_UNTIL(atomic_load(&busy.done) > 100);
        lp_recorder_stop(&recording.recorder);
        json_t *at_stop = recording_document(&recording);
        uint64_t calls = figures_at(at_stop, "a").calls;
        json_decref(at_stop);
        uint64_t done = atomic_load(&busy.done);
        WAIT_UNTIL(atomic_load(&busy.done) > done + 300); /* they go on undisturbed */
        atomic_store(&enough, true);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        uint64_t after = calls_of(&recording, "a");
        assert_true(after >= calls && after <= calls + 3); /* what was under way at that moment */
        recording_close(&recording);
    }
}

/* ---- forks -------------------------------------------------------------------------- */

static void record_in_child(struct recording *recording)
{
    uint64_t was = calls_of(recording, "a");
    CHECK_U64(was, 0); /* an empty tree */
    record_one(recording, "child");
    CHECK_U64(calls_of(recording, "child"), 1);
    CHECK_U64(calls_of(recording, "a"), 0);
    recording_close(recording);
}

static void test_a_child_has_a_tree_of_its_own(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    record_one(&recording, "a");
    for (int i = 0; i < 3; i++) {
        int status = 0;
        pid_t pid = recording_fork();
        if (pid == 0) {
            CHECK_U64(atomic_load(&recording.recorder.state), LP_RECORDER_IDLE);
            record_in_child(&recording);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        record_one(&recording, "a");
    }
    assert_int_equal(calls_of(&recording, "a"), 4);
    assert_int_equal(calls_of(&recording, "child"), 0);
    recording_close(&recording);
}

/* FK05, F9: threads that are anywhere in the recorder, also in its slow parts, at the moment of a fork. */
static void *record_ever_new(void *context)
{
    struct recording *recording = context;
    char name[32];
    for (unsigned i = 0; !atomic_load_explicit(&enough, memory_order_relaxed); i++) {
        snprintf(name, sizeof name, "phase %u", i % 3000);
        struct lp_entry outer = enter(recording, "a"), inner = enter(recording, name);
        lp_record_count(&recording->recorder, name_of(name), 1);
        leave(&inner);
        leave(&outer);
    }
    return NULL;
}

static void *start_and_end(void *context)
{
    pthread_t thread;
    while (!atomic_load_explicit(&enough, memory_order_relaxed)) {
        CHECK(pthread_create(&thread, NULL, record_one_elsewhere, context) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return NULL;
}

static void test_200_forks_while_others_record(void **state)
{
    static struct recording recording;
    pthread_t threads[2];
    (void)state;
    if (LP_TEST_ASAN) {
        print_message("AddressSanitizer's allocator does not survive a fork while another thread uses it\n");
        skip();
    }
    atomic_store(&enough, false);
    recording_open(&recording);
    record_one(&recording, "a");
    assert_int_equal(pthread_create(&threads[0], NULL, record_ever_new, &recording), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, start_and_end, &recording), 0);
    for (int i = 0; i < 200; i++) {
        int status = 0;
        pid_t pid = recording_fork();
        if (pid == 0) {
            alarm(60); /* a child that hangs is a failure, not a hang of the tests */
            record_in_child(&recording);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    recording_close(&recording);
}

/* A clone that runs no handlers has its parent's image mapped, and must not touch it. */
static void test_a_clone_without_handlers_records_nothing(void **state)
{
    static struct recording recording;
    int status = 0;
    (void)state;
    if (LP_TEST_TSAN) {
        print_message("ThreadSanitizer must see every fork\n");
        skip();
    }
    recording_open(&recording);
    struct lp_entry open = enter(&recording, "a");
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        leave(&open);
        for (int i = 0; i < 10; i++)
            record_one(&recording, "clone");
        lp_record_count(&recording.recorder, name_of("n"), 1);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    json_t *document = recording_document(&recording);
    assert_int_equal(figures_at(document, "a").open_calls, 1);
    assert_int_equal(figures_at(document, "clone").nodes + figures_at(document, "a/clone").nodes, 0);
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    leave(&open);
    assert_int_equal(calls_of(&recording, "a"), 1);
    recording_close(&recording);
}

/* A program may have taken all thread-specific keys: what lies under another's is not ours. */
static void record_without_a_key(void *context)
{
    static struct recording recording;
    pthread_key_t keys[PTHREAD_KEYS_MAX];
    pthread_t thread;
    int n = 0;
    (void)context;
    while (n < PTHREAD_KEYS_MAX && pthread_key_create(&keys[n], NULL) == 0) {
        CHECK(pthread_setspecific(keys[n], &keys[n]) == 0);
        n++;
    }
    recording_open(&recording);
    record_one(&recording, "a");
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&thread, NULL, record_one_elsewhere, &recording) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    for (int i = 0; i < n; i++)
        CHECK(pthread_getspecific(keys[i]) == &keys[i]);
    json_t *document = recording_document(&recording);
    CHECK_U64(figures_at(document, "elsewhere").calls, 3);
    CHECK_U64(json_array_size(json_object_get(document, "threads")), 4); /* nor is one thread taken for another */
    json_decref(document);
    recording_close(&recording);
}

static void test_a_program_that_has_all_keys(void **state)
{
    (void)state;
    in_child(record_without_a_key, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_that_has_all_keys), /* first: the key is taken once */
        cmocka_unit_test(test_an_idle_recorder_begins_at_the_first_boundary),
        cmocka_unit_test(test_the_first_boundaries_of_two_threads_are_both_recorded),
        cmocka_unit_test(test_a_woken_recorder_asks_once_at_the_next_boundary),
        cmocka_unit_test(test_a_stopped_recorder_is_not_woken),
        cmocka_unit_test(test_stop_wins_over_wake),
        cmocka_unit_test(test_stop_while_others_record),
        cmocka_unit_test(test_a_child_has_a_tree_of_its_own),
        cmocka_unit_test(test_200_forks_while_others_record),
        cmocka_unit_test(test_a_clone_without_handlers_records_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
