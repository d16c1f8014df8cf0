/* Phases and counters of one thread: trees, times that add up to the nanosecond, and memory that stays the same. */
#include "support/recording.h"

#include <pthread.h>

static void burn_a_little(void)
{
    volatile int sink = 0;
    for (int i = 0; i < 2000; i++)
        sink += i;
    (void)sink;
}

static void test_phases_make_a_tree_by_path(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    for (int i = 0; i < 10; i++) {
        struct lp_entry train = enter(&recording, "train");
        for (int j = 0; j < 3; j++) {
            struct lp_entry step = enter(&recording, "step");
            leave(&step);
        }
        struct lp_entry save = enter(&recording, "save");
        leave(&save);
        leave(&train);
        struct lp_entry step = enter(&recording, "step");
        leave(&step);
    }
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "train").calls, 10);
    assert_int_equal(figures_at(document, "train/step").calls, 30);
    assert_int_equal(figures_at(document, "train/save").calls, 10);
    assert_int_equal(figures_at(document, "step").calls, 10);
    assert_int_equal(figures_at(document, "step/train").nodes, 0);
    assert_int_equal(json_array_size(json_object_get(document, "threads")), 1);
    json_decref(document);
    recording_close(&recording);
}

/* B2: wall and CPU time of the body, no less than what the clocks saw inside it and no more than around it. */
static void test_times_are_those_of_the_body(void **state)
{
    static struct recording recording;
    uint64_t wall_inside = 0, wall_around = 0, cpu_inside = 0, cpu_around = 0;
    enum { ROUNDS = 300, SLACK_NS = 5000 }; /* what the clocks may be off, in tests/clock, each time */
    (void)state;
    recording_open(&recording);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t cpu_0 = clock_now_ns(CLOCK_THREAD_CPUTIME_ID), wall_0 = clock_now_ns(CLOCK_MONOTONIC);
        struct lp_entry entry = enter(&recording, "body");
        uint64_t wall_1 = clock_now_ns(CLOCK_MONOTONIC), cpu_1 = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
        if (i % 10 == 0)
            pause_ms(1);
        burn_a_little();
        uint64_t cpu_2 = clock_now_ns(CLOCK_THREAD_CPUTIME_ID), wall_2 = clock_now_ns(CLOCK_MONOTONIC);
        leave(&entry);
        uint64_t wall_3 = clock_now_ns(CLOCK_MONOTONIC), cpu_3 = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
        wall_inside += wall_2 - wall_1;
        wall_around += wall_3 - wall_0;
        cpu_inside += cpu_2 - cpu_1;
        cpu_around += cpu_3 - cpu_0;
    }
    json_t *document = recording_document(&recording);
    struct figures body = figures_at(document, "body");
    assert_int_equal(body.calls, ROUNDS);
    assert_in_range(body.wall_ns, wall_inside - ROUNDS * SLACK_NS / 5, wall_around + ROUNDS * SLACK_NS / 5);
    assert_true(body.cpu_ns + ROUNDS * SLACK_NS >= cpu_inside);
    assert_true(body.cpu_ns <= body.wall_ns);
    assert_true(body.wall_ns - body.cpu_ns >= 30 * 1000000u - ROUNDS * SLACK_NS); /* wait: thirty sleeps of 1 ms */
    assert_true(cpu_around >= cpu_inside);
    json_decref(document);
    recording_close(&recording);
}

/* B4 */
static void recurse(struct recording *recording, int depth)
{
    if (depth == 0)
        return;
    struct lp_entry entry = enter(recording, "r");
    burn_a_little();
    recurse(recording, depth - 1);
    leave(&entry);
}

static void test_recursion_makes_deeper_paths(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    for (int i = 0; i < 5; i++)
        recurse(&recording, 4);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    struct figures outer = figures_at(document, "r"), inner = figures_at(document, "r/r");
    assert_int_equal(outer.calls, 5);
    assert_int_equal(figures_at(document, "r/r/r/r").calls, 5);
    assert_int_equal(outer.child_wall_ns, inner.wall_ns);
    assert_true(outer.wall_ns > inner.wall_ns);
    json_decref(document);
    recording_close(&recording);
}

/* B6: deeper than the stack is folded into the ancestor, and no time is lost. */
static void test_depth_beyond_the_stack_is_folded(void **state)
{
    static struct recording recording;
    char path[2 * LP_STACK_DEPTH + 2] = "r";
    (void)state;
    recording_open(&recording);
    for (int i = 0; i < 3; i++)
        recurse(&recording, LP_STACK_DEPTH + 10);
    struct lp_entry after = enter(&recording, "after");
    leave(&after);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    for (unsigned i = 1; i < LP_STACK_DEPTH; i++)
        strcat(path, "/r");
    assert_int_equal(figures_at(document, path).calls, 3);
    strcat(path, "/r");
    assert_int_equal(figures_at(document, path).nodes, 0);
    assert_int_equal(figures_at(document, "after").calls, 1);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_FOLDED_DEPTH), 30);
    json_decref(document);
    recording_close(&recording);
}

/* B7 */
static void test_without_cpu_none_is_shown(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open_with(&recording, &(struct recording_options){.no_cpu = true});
    struct lp_entry entry = enter(&recording, "a"), open = enter(&recording, "b");
    json_t *document = recording_document(&recording);
    const json_t *nodes = json_object_get(json_array_get(json_object_get(document, "threads"), 0), "nodes");
    for (size_t i = 1; i <= 2; i++) {
        assert_true(json_is_null(json_object_get(json_array_get(nodes, i), "cpu_ns")));
        assert_true(json_is_null(json_object_get(json_array_get(nodes, i), "open_cpu_ns")));
    }
    assert_string_equal(json_string_value(json_object_get(json_object_get(document, "clock"), "cpu")), "off");
    json_decref(document);
    leave(&open);
    leave(&entry);
    recording_close(&recording);
}

static void test_open_entries_are_settled_at_one_moment(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b"), c = enter(&recording, "c");
    leave(&c);
    burn_a_little();
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    struct figures at_a = figures_at(document, "a"), at_b = figures_at(document, "a/b");
    assert_int_equal(at_a.open_calls, 1);
    assert_int_equal(at_b.open_calls, 1);
    assert_int_equal(at_a.calls + at_b.calls, 0);
    assert_int_equal(at_a.open_child_wall_ns, at_b.open_wall_ns);
    assert_int_equal(at_b.open_child_wall_ns, figures_at(document, "a/b/c").wall_ns);
    json_decref(document);
    leave(&b);
    leave(&a);
    document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "a").open_calls, 0);
    json_decref(document);
    recording_close(&recording);
}

/* ---- counters -------------------------------------------------------------------- */

static enum lp_count_result count(struct recording *recording, const char *name, int64_t n)
{
    return lp_record_count(&recording->recorder, name_of(name), n);
}

static void assert_counter(struct recording *recording, const char *path, const char *name, int64_t sum, uint64_t calls,
                           int64_t min, int64_t max)
{
    struct counter_figures figures;
    json_t *document = recording_document(recording);
    assert_true(counter_at(document, path, name, &figures));
    assert_int_equal(figures.sum, sum);
    assert_int_equal(figures.calls, calls);
    assert_int_equal(figures.min, min);
    assert_int_equal(figures.max, max);
    json_decref(document);
}

/* C1, C3 */
static void test_counters_belong_to_the_innermost_open_phase(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    assert_int_equal(count(&recording, "n", 1), LP_COUNT_OK);
    struct lp_entry a = enter(&recording, "a");
    for (int i = 1; i <= 9; i++)
        count(&recording, "n", i);
    struct lp_entry b = enter(&recording, "b");
    count(&recording, "n", -7);
    count(&recording, "m", 2);
    count(&recording, "n", -3);
    count(&recording, "m", 2);
    leave(&b);
    count(&recording, "n", 0);
    leave(&a);
    count(&recording, "n", 4);
    assert_counter(&recording, "", "n", 5, 2, 1, 4);
    assert_counter(&recording, "a", "n", 45, 10, 0, 9);
    assert_counter(&recording, "a/b", "n", -10, 2, -7, -3);
    assert_counter(&recording, "a/b", "m", 4, 2, 2, 2);
    recording_close(&recording);
}

/* C2 */
static void test_a_sum_beyond_64_bits_leaves_the_counter_as_it_was(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    assert_int_equal(count(&recording, "up", INT64_MAX), LP_COUNT_OK);
    assert_int_equal(count(&recording, "up", 1), LP_COUNT_OVERFLOW);
    assert_int_equal(count(&recording, "up", INT64_MAX), LP_COUNT_OVERFLOW);
    assert_counter(&recording, "", "up", INT64_MAX, 1, INT64_MAX, INT64_MAX);
    assert_int_equal(count(&recording, "up", -1), LP_COUNT_OK);
    assert_counter(&recording, "", "up", INT64_MAX - 1, 2, -1, INT64_MAX);
    assert_int_equal(count(&recording, "down", INT64_MIN), LP_COUNT_OK);
    assert_int_equal(count(&recording, "down", -1), LP_COUNT_OVERFLOW);
    assert_counter(&recording, "", "down", INT64_MIN, 1, INT64_MIN, INT64_MIN);
    recording_close(&recording);
}

static void test_many_counters_of_one_phase(void **state)
{
    static struct recording recording;
    char name[32];
    (void)state;
    recording_open(&recording);
    struct lp_entry entry = enter(&recording, "phase");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 300; i++) {
            snprintf(name, sizeof name, "counter %d", i);
            assert_int_equal(count(&recording, name, i), LP_COUNT_OK);
        }
    }
    leave(&entry);
    assert_counter(&recording, "phase", "counter 0", 0, 3, 0, 0);
    assert_counter(&recording, "phase", "counter 299", 897, 3, 299, 299);
    recording_close(&recording);
}

/* ---- what is no name -------------------------------------------------------------- */

/* But that it was asked for is counted. */
static void test_what_is_no_name_records_nothing(void **state)
{
    static struct recording recording;
    struct lp_entry entry;
    (void)state;
    recording_open(&recording);
    struct lp_entry outer = enter(&recording, "outer");
    const lp_name_id bad[] = {LP_NAME_NONE, 60000, LP_NAMES_LIMIT, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lp_record_enter(&recording.recorder, bad[i], &entry);
        assert_int_equal(lp_record_count(&recording.recorder, bad[i], 1), LP_COUNT_OK);
        assert_null(entry.thread);
        lp_record_leave(&entry);
    }
    leave(&outer);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    const json_t *nodes = json_object_get(json_array_get(json_object_get(document, "threads"), 0), "nodes");
    assert_int_equal(json_array_size(nodes), 2);
    const json_t *troubles = json_object_get(document, "troubles");
    assert_int_equal(json_u64(troubles, "unnamed", 0), sizeof bad / sizeof *bad);
    assert_int_equal(json_u64(troubles, "lost_counters", 0), sizeof bad / sizeof *bad);
    json_decref(document);
    recording_close(&recording);
}

/* ---- memory ----------------------------------------------------------------------- */

/* B2: what a million entries take is what a thousand took, but for octaves of durations not met before. */
static void test_memory_stays_the_same(void **state)
{
    static struct recording recording;
    uint64_t used_after_a_thousand = 0;
    (void)state;
    recording_open(&recording);
    lp_name_id a = name_of("a"), b = name_of("b"), n = name_of("n");
    for (int i = 0; i < 1000000; i++) {
        struct lp_entry outer, inner;
        lp_record_enter(&recording.recorder, a, &outer);
        lp_record_enter(&recording.recorder, i % 2 ? a : b, &inner);
        lp_record_count(&recording.recorder, n, i);
        lp_record_leave(&inner);
        lp_record_leave(&outer);
        if (i == 999)
            used_after_a_thousand = atomic_load(&lp_image_header(&recording.recorder.image)->used);
    }
    uint64_t used = atomic_load(&lp_image_header(&recording.recorder.image)->used);
    assert_true(used - used_after_a_thousand <= 3 * LP_HIST_USED_OCTAVES * sizeof(struct lp_octave));
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "a").calls, 1000000);
    assert_int_equal(figures_at(document, "a/a").hist_total, 500000);
    json_decref(document);
    recording_close(&recording);
}

/* ---- several recorders ------------------------------------------------------------- */

static void test_recorders_on_one_thread_do_not_meet(void **state)
{
    static struct recording one, two;
    (void)state;
    recording_open(&one);
    recording_open_with(&two, &(struct recording_options){.no_cpu = true});
    for (int i = 0; i < 100; i++) {
        struct lp_entry a = enter(&one, "a"), x = enter(&two, "x"), b = enter(&one, "b"), y = enter(&two, "y");
        count(&one, "n", 1);
        count(&two, "n", 2);
        leave(&a); /* also out of the order of the two together, and of one */
        leave(&y);
        leave(&b);
        leave(&x);
    }
    json_t *first = recording_document(&one), *second = recording_document(&two);
    assert_document_adds_up(first);
    assert_document_adds_up(second);
    assert_int_equal(figures_at(first, "a/b").calls, 100);
    assert_int_equal(figures_at(second, "x/y").calls, 100);
    assert_int_equal(figures_at(first, "x").nodes + figures_at(second, "a").nodes, 0);
    assert_int_equal(json_array_size(json_object_get(first, "threads")), 1);
    assert_int_equal(json_object_size(json_object_get(first, "troubles")), 0);
    json_decref(first);
    json_decref(second);
    recording_close(&one);
    struct lp_entry z = enter(&two, "z");
    leave(&z);
    recording_close(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phases_make_a_tree_by_path),
        cmocka_unit_test(test_times_are_those_of_the_body),
        cmocka_unit_test(test_recursion_makes_deeper_paths),
        cmocka_unit_test(test_depth_beyond_the_stack_is_folded),
        cmocka_unit_test(test_without_cpu_none_is_shown),
        cmocka_unit_test(test_open_entries_are_settled_at_one_moment),
        cmocka_unit_test(test_counters_belong_to_the_innermost_open_phase),
        cmocka_unit_test(test_a_sum_beyond_64_bits_leaves_the_counter_as_it_was),
        cmocka_unit_test(test_many_counters_of_one_phase),
        cmocka_unit_test(test_what_is_no_name_records_nothing),
        cmocka_unit_test(test_memory_stays_the_same),
        cmocka_unit_test(test_recorders_on_one_thread_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
