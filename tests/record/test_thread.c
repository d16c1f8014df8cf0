/* Threads: each in a slot of its own that the next one takes over, and the limits on paths and memory. */
#include "support/recording.h"

#include <pthread.h>

static size_t slots_of(struct recording *recording)
{
    json_t *document = recording_document(recording);
    size_t slots = json_array_size(json_object_get(document, "threads"));
    json_decref(document);
    return slots;
}

static void *work(void *context)
{
    struct recording *recording = context;
    for (int i = 0; i < 50; i++) {
        struct lp_entry a = enter(recording, "a"), b = enter(recording, i % 2 ? "b" : "c");
        lp_record_count(&recording->recorder, name_of("n"), 3);
        leave(&b);
        leave(&a);
    }
    return NULL;
}

/* B5 */
static void test_many_threads_come_and_go(void **state)
{
    enum { AT_ONCE = 8, ROUNDS = 60 };
    static struct recording recording;
    struct counter_figures n;
    pthread_t threads[AT_ONCE];
    (void)state;
    recording_open(&recording);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, work, &recording), 0);
        for (int i = 0; i < AT_ONCE; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_in_range(slots_of(&recording), 1, AT_ONCE);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "a").calls, AT_ONCE * ROUNDS * 50);
    assert_int_equal(figures_at(document, "a/b").calls, AT_ONCE * ROUNDS * 25);
    assert_true(counter_at(document, "a/c", "n", &n));
    assert_int_equal(n.calls, AT_ONCE * ROUNDS * 25);
    assert_int_equal(n.sum, 3 * AT_ONCE * ROUNDS * 25);
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(&recording);
}

static size_t kernel_name(void *context, char *name, size_t size)
{
    (void)context;
    return pthread_getname_np(pthread_self(), name, size) == 0 ? strnlen(name, size) : 0;
}

static void *work_under_a_name(void *context)
{
    struct {
        struct recording *recording;
        const char *name;
    } *named = context;
    pthread_setname_np(pthread_self(), named->name);
    return work(named->recording);
}

static void run_named(struct recording *recording, const char *name)
{
    struct {
        struct recording *recording;
        const char *name;
    } named = {recording, name};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, work_under_a_name, &named), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* G4: with thread names kept, a slot is taken over by threads of its name only; without, by any. */
static void test_slots_by_thread_name(void **state)
{
    static struct recording recording;
    (void)state;
    for (int keep = 0; keep <= 1; keep++) {
        recording_open_with(&recording,
                            &(struct recording_options){.keep_thread_names = keep, .thread_name = kernel_name});
        for (int i = 0; i < 5; i++) {
            run_named(&recording, "loader");
            run_named(&recording, "writer");
        }
        assert_int_equal(slots_of(&recording), keep ? 2 : 1);
        json_t *document = recording_document(&recording);
        assert_int_equal(figures_at(document, "a").calls, 500);
        if (keep) {
            const json_t *threads = json_object_get(document, "threads");
            for (size_t i = 0; i < 2; i++) {
                const json_t *slot = json_array_get(threads, i), *nodes = json_object_get(slot, "nodes");
                const char *name = json_string_value(json_object_get(slot, "name"));
                assert_true(strcmp(name, "loader") == 0 || strcmp(name, "writer") == 0);
                assert_int_equal(json_u64(json_array_get(nodes, 1), "calls", 0), 250);
            }
        }
        json_decref(document);
        recording_close(&recording);
    }
}

static void test_a_slot_says_whose_it_is(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open_with(&recording, &(struct recording_options){.thread_name = kernel_name});
    pthread_setname_np(pthread_self(), "main one");
    struct lp_entry entry = enter(&recording, "a");
    leave(&entry);
    json_t *document = recording_document(&recording);
    const json_t *slot = json_array_get(json_object_get(document, "threads"), 0);
    assert_string_equal(json_string_value(json_object_get(slot, "name")), "main one");
    assert_int_equal(json_u64(slot, "tid", 0), gettid());
    assert_true(json_is_true(json_object_get(slot, "alive")));
    json_decref(document);
    recording_close(&recording);
}

/* A destructor of the program's may record after ours has run. */
static pthread_key_t late_key;

static void record_late(void *context)
{
    work(context);
}

static void *end_with_a_destructor(void *context)
{
    pthread_setspecific(late_key, context);
    return work(context);
}

static void test_destructors_may_record(void **state)
{
    static struct recording recording;
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_key_create(&late_key, record_late), 0);
    recording_open(&recording);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(pthread_create(&thread, NULL, end_with_a_destructor, &recording), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "a").calls, 20 * 2 * 50);
    assert_int_equal(json_array_size(json_object_get(document, "threads")), 1);
    json_decref(document);
    recording_close(&recording);
    pthread_key_delete(late_key);
}

/* ---- limits ------------------------------------------------------------------------ */

/* B6: the 4097th path is folded into its parent, in every thread, and the first one is named. */
static void *enter_many(void *context)
{
    struct recording *recording = context;
    char name[32];
    struct lp_entry outer = enter(recording, "outer");
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "episode %d", i);
        struct lp_entry entry = enter(recording, name);
        leave(&entry);
    }
    leave(&outer);
    return NULL;
}

static void test_paths_are_bounded_and_the_first_too_many_is_named(void **state)
{
    static struct recording recording;
    lp_name_id path[LP_STACK_DEPTH];
    pthread_t thread;
    (void)state;
    recording_open(&recording);
    assert_int_equal(lp_recorder_overflow(&recording.recorder, path, LP_STACK_DEPTH), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread, NULL, enter_many, &recording), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    enter_many(&recording);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document); /* no time is lost */
    const json_t *nodes = json_object_get(json_array_get(json_object_get(document, "threads"), 0), "nodes");
    assert_int_equal(json_array_size(nodes), 1 + LP_PATHS_LIMIT);
    assert_int_equal(figures_at(document, "outer").calls, 3);
    assert_int_equal(figures_at(document, "outer/episode 4094").calls, 3);
    assert_int_equal(figures_at(document, "outer/episode 4095").nodes, 0);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_FOLDED_PATHS), 3 * (5000 - 4095));
    json_decref(document);
    assert_int_equal(lp_recorder_overflow(&recording.recorder, path, 1), 0);
    assert_int_equal(lp_recorder_overflow(&recording.recorder, path, LP_STACK_DEPTH), 2);
    assert_string_equal(lp_name_text(path[0]).bytes, "outer");
    assert_string_equal(lp_name_text(path[1]).bytes, "episode 4095");
    recording_close(&recording);
}

static void test_a_full_image_folds_and_says_so(void **state)
{
    static struct recording recording;
    char name[32];
    (void)state;
    recording_open(&recording);
    recording.recorder.image.reserved = atomic_load(&recording.recorder.image.size);
    struct lp_entry outer = enter(&recording, "outer");
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "phase %d", i);
        struct lp_entry entry = enter(&recording, name);
        assert_int_equal(lp_record_count(&recording.recorder, name_of(name), 1), LP_COUNT_OK);
        leave(&entry);
    }
    leave(&outer);
    json_t *document = recording_document(&recording);
    assert_true(recording_trouble(&recording, LP_TROUBLE_IMAGE_FULL) > 0);
    assert_true(recording_trouble(&recording, LP_TROUBLE_LOST_COUNTERS) > 0);
    assert_int_equal(figures_at(document, "outer").calls, 1);
    assert_int_equal(figures_at(document, "outer/phase 0").calls, 1);
    assert_int_equal(figures_at(document, "outer/phase 999").nodes, 0);
    json_decref(document);
    recording_close(&recording);
}

static void *record_nothing(void *context)
{
    struct recording *recording = context;
    for (int i = 0; i < 100; i++) {
        struct lp_entry entry = enter(recording, "a");
        if (entry.thread)
            return context;
        leave(&entry);
        lp_record_count(&recording->recorder, name_of("n"), 1);
    }
    return NULL;
}

static void test_a_thread_that_finds_no_room_records_nothing(void **state)
{
    static struct recording recording;
    pthread_t thread;
    void *failed;
    (void)state;
    recording_open(&recording);
    recording.recorder.image.reserved = atomic_load(&lp_image_header(&recording.recorder.image)->used);
    assert_int_equal(pthread_create(&thread, NULL, record_nothing, &recording), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_true(recording_trouble(&recording, LP_TROUBLE_IMAGE_FULL) > 0);
    assert_int_equal(slots_of(&recording), 0);
    recording_close(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_threads_come_and_go),
        cmocka_unit_test(test_slots_by_thread_name),
        cmocka_unit_test(test_a_slot_says_whose_it_is),
        cmocka_unit_test(test_destructors_may_record),
        cmocka_unit_test(test_paths_are_bounded_and_the_first_too_many_is_named),
        cmocka_unit_test(test_a_full_image_folds_and_says_so),
        cmocka_unit_test(test_a_thread_that_finds_no_room_records_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
