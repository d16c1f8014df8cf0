/* Sampled phases: the first entry and then one in so many is measured, and stands for the others. */
#include "support/recording.h"

static json_t *closed_document(struct recording *recording)
{
    json_t *document = recording_document(recording);
    assert_document_adds_up(document);
    return document;
}

/* The innermost node that is open on the calling thread. */
static struct lp_node *node_of(struct recording *recording)
{
    return lp_thread_self(&recording->recorder)->node;
}

static bool measured(const struct lp_entry *entry)
{
    return entry->thread && !(entry->frame & LP_ENTRY_SKIPPED);
}

static void burn(void)
{
    volatile uint64_t sink = 0;
    for (uint64_t i = 0; i < 200; i++)
        sink += i;
    (void)sink;
}

/* So that durations need not be waited for. */
static void began_earlier(struct recording *recording, const struct lp_entry *entry, uint64_t ns)
{
    struct lp_frame *frame = lp_image_at(&recording->recorder.image, entry->frame);
    assert_true(measured(entry));
    LP_SET(frame->start_wall_ns, LP_GET(frame->start_wall_ns) - ns);
}

static void test_the_first_is_measured_and_then_one_in_so_many(void **state)
{
    static const uint32_t strides[] = {1, 2, 100, 1u << 20, UINT32_MAX};
    static struct recording recording;
    (void)state;
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        uint64_t stride = strides[i], expected = (1001 + stride - 1) / stride;
        recording_open(&recording);
        for (uint64_t n = 0; n < 1001; n++) {
            struct lp_entry entry = enter_sampled(&recording, "a", strides[i]);
            assert_non_null(entry.thread);
            assert_int_equal(measured(&entry), n % stride == 0);
            leave(&entry);
        }
        json_t *document = closed_document(&recording);
        struct figures figures = figures_at(document, "a");
        assert_int_equal(figures.calls, expected * stride);
        assert_int_equal(figures.hist_total, expected * stride);
        assert_int_equal(figures.stride, stride);
        assert_int_equal(figures.open_calls, 0);
        assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
        json_decref(document);
        recording_close(&recording);
    }
}

static void test_strides_multiply(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    for (int i = 0; i < 12; i++) {
        struct lp_entry outer = enter_sampled(&recording, "outer", 3);
        for (int j = 0; j < 5; j++) {
            struct lp_entry inner = enter_sampled(&recording, "inner", 4), plain = enter(&recording, "plain");
            leave(&plain);
            leave(&inner);
        }
        leave(&outer);
    }
    json_t *document = closed_document(&recording);
    assert_int_equal(figures_at(document, "outer").calls, 12);
    assert_int_equal(figures_at(document, "outer").stride, 3);
    assert_int_equal(figures_at(document, "outer/inner").calls, 12 * 5);
    assert_int_equal(figures_at(document, "outer/inner").stride, 12);
    assert_int_equal(figures_at(document, "outer/inner/plain").calls, 12 * 5);
    assert_int_equal(figures_at(document, "outer/inner/plain").stride,
                     12); /* measured as seldom as what is around it */
    json_decref(document);
    recording_close(&recording);
}

static void test_a_product_of_strides_has_an_end(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry a = enter_sampled(&recording, "a", 1u << 20), b = enter_sampled(&recording, "b", 1u << 20);
    struct lp_entry c = enter_sampled(&recording, "c", UINT32_MAX);
    leave(&c);
    leave(&b);
    leave(&a);
    json_t *document = recording_document(&recording);
    assert_int_equal(figures_at(document, "a").calls, 1u << 20);
    assert_int_equal(figures_at(document, "a/b").calls, UINT32_MAX);
    assert_int_equal(figures_at(document, "a/b/c").calls, UINT32_MAX);
    json_decref(document);
    recording_close(&recording);
}

/* Inside an entry that is not measured nothing is: neither phases nor counters, sampled or not. */
static void test_inside_a_skipped_entry_nothing_is_recorded(void **state)
{
    static struct recording recording;
    struct counter_figures n;
    (void)state;
    recording_open(&recording);
    struct lp_entry outer = enter(&recording, "outer");
    for (int i = 0; i < 10; i++) {
        struct lp_entry entry = enter_sampled(&recording, "a", 5);
        struct lp_entry inner = enter(&recording, "inner"), deeper = enter_sampled(&recording, "deeper", 2);
        struct lp_entry again = enter_sampled(&recording, "a", 5);
        assert_int_equal(inner.thread != NULL, i % 5 == 0);
        assert_int_equal(lp_record_count(&recording.recorder, name_of("n"), i), LP_COUNT_OK);
        assert_int_equal(lp_record_count(&recording.recorder, name_of("only skipped"), 1), LP_COUNT_OK);
        leave(&again);
        leave(&deeper);
        leave(&inner);
        lp_record_count(&recording.recorder, name_of("n"), 7 - i);
        leave(&entry);
        lp_record_count(&recording.recorder, name_of("n"), 1); /* outside again */
    }
    leave(&outer);
    json_t *document = closed_document(&recording);
    assert_int_equal(figures_at(document, "outer").calls, 1);
    assert_int_equal(figures_at(document, "outer/a").calls, 10);
    assert_int_equal(figures_at(document, "outer/a/inner").calls, 10);
    assert_true(counter_at(document, "outer", "n", &n));
    assert_int_equal(n.calls, 10);
    assert_int_equal(n.sum, 10);
    assert_true(counter_at(document, "outer/a", "n", &n)); /* 7 and 2, for five each */
    assert_int_equal(n.calls, 10);
    assert_int_equal(n.sum, 5 * (7 + 2));
    assert_int_equal(n.min, 2); /* as they were seen */
    assert_int_equal(n.max, 7);
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(&recording);
}

static void test_a_parent_covers_what_its_child_stands_for(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    for (int round = 0; round < 3; round++) {
        struct lp_entry outer = enter(&recording, "outer"), parent = enter_sampled(&recording, "parent", 2);
        for (int i = 0; i < 8; i++) {
            struct lp_entry child = enter_sampled(&recording, "child", 4);
            burn();
            leave(&child);
        }
        leave(&parent);
        leave(&outer);
    }
    json_t *document = closed_document(&recording);
    struct figures outer = figures_at(document, "outer"), parent = figures_at(document, "outer/parent");
    struct figures child = figures_at(document, "outer/parent/child");
    assert_int_equal(child.calls, 2 * 2 * 8); /* of four entries of the parent, two are measured */
    assert_int_equal(parent.child_wall_ns, child.wall_ns);
    assert_int_equal(outer.child_wall_ns, parent.wall_ns);
    json_decref(document);
    recording_close(&recording);
}

/* ---- what the document makes of it ----------------------------------------------------- */

static void test_figures_are_scaled_where_they_are_written(void **state)
{
    static struct recording recording;
    struct counter_figures n;
    (void)state;
    recording_open(&recording);
    struct lp_entry entry = enter_sampled(&recording, "a", 100), child = enter(&recording, "child");
    assert_int_equal(lp_record_count(&recording.recorder, name_of("n"), -3), LP_COUNT_OK);
    const struct lp_core *core = &node_of(&recording)->core;
    leave(&entry); /* before its child, which is late */
    burn();
    leave(&child);
    json_t *document = closed_document(&recording);
    struct figures figures = figures_at(document, "a/child");
    assert_int_equal(figures.calls, 100);
    assert_true(LP_GET(core->late_wall_ns) > 0);
    assert_int_equal(figures.wall_ns, 100 * LP_GET(core->wall_ns));
    assert_int_equal(figures.cpu_ns, 100 * LP_GET(core->cpu_ns));
    assert_int_equal(figures.late_wall_ns, 100 * LP_GET(core->late_wall_ns));
    assert_int_equal(figures.hist_total, 100);
    assert_true(counter_at(document, "a/child", "n", &n));
    assert_int_equal(n.sum, -300);
    assert_int_equal(n.calls, 100);
    assert_int_equal(n.min, -3);
    assert_int_equal(n.max, -3);
    json_decref(document);
    recording_close(&recording);
}

static void test_what_another_thread_has_ended_is_scaled_too(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry entry = enter_sampled(&recording, "a", 100);
    burn();
    leave_elsewhere(&entry);
    for (int taken_up = 0; taken_up < 2; taken_up++) {
        json_t *document = closed_document(&recording);
        struct figures figures = figures_at(document, "a");
        assert_int_equal(figures.calls, 100);
        assert_int_equal(figures.hist_total, 100);
        assert_true(figures.wall_ns > 0 && figures.wall_ns % 100 == 0);
        assert_int_equal(figures.nocpu_wall_ns, figures.wall_ns);
        assert_int_equal(figures.cpu_ns, 0);
        json_decref(document);
        lp_thread_self(&recording.recorder); /* a boundary */
    }
    recording_close(&recording);
}

static void test_an_open_entry_stands_for_itself(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry entry = enter_sampled(&recording, "a", 1000);
    began_earlier(&recording, &entry, 1000000000);
    json_t *document = closed_document(&recording);
    assert_int_equal(figures_at(document, "a").open_calls, 1);
    assert_in_range(figures_at(document, "a").open_wall_ns, 1000000000, 900000000000);
    json_decref(document);
    leave(&entry);
    struct lp_entry skipped = enter_sampled(&recording, "a", 1000); /* not to be seen */
    document = closed_document(&recording);
    assert_int_equal(figures_at(document, "a").open_calls, 0);
    assert_int_equal(figures_at(document, "a").calls, 1000);
    json_decref(document);
    leave(&skipped);
    recording_close(&recording);
}

static void test_estimates_end_where_numbers_do(void **state)
{
    static struct recording recording;
    struct counter_figures high, low;
    (void)state;
    recording_open(&recording);
    struct lp_entry entry = enter_sampled(&recording, "a", 100);
    lp_record_count(&recording.recorder, name_of("high"), INT64_MAX / 10);
    lp_record_count(&recording.recorder, name_of("low"), INT64_MIN / 10);
    struct lp_core *core = &node_of(&recording)->core;
    leave(&entry);
    LP_SET(core->wall_ns, INT64_MAX / 10);
    LP_SET(core->child_wall_ns, INT64_MAX / 10);
    LP_SET(core->late_wall_ns, UINT64_MAX);
    LP_SET(core->cpu_ns, (uint64_t)INT64_MAX / 100);
    json_t *document = recording_document(&recording);
    struct figures figures = figures_at(document, "a");
    assert_int_equal(figures.wall_ns, INT64_MAX);
    assert_int_equal(figures.child_wall_ns, INT64_MAX);
    assert_int_equal(figures.late_wall_ns, INT64_MAX);
    assert_int_equal(figures.cpu_ns, INT64_MAX / 100 * 100);
    assert_true(counter_at(document, "a", "high", &high) && counter_at(document, "a", "low", &low));
    assert_int_equal(high.sum, INT64_MAX);
    assert_int_equal(high.max, INT64_MAX / 10);
    assert_int_equal(low.sum, INT64_MIN);
    assert_int_equal(low.min, INT64_MIN / 10);
    json_decref(document);
    recording_close(&recording);
}

/* Ten seconds that stand for 2^32 - 1 as many are more than any number of nanoseconds holds: never little, and never
   what no reader takes. */
static void test_what_a_child_stands_for_has_an_end_in_its_parent(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry parent = enter(&recording, "parent");
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        struct lp_entry child = enter_sampled(&recording, names[i], UINT32_MAX);
        began_earlier(&recording, &child, 10000000000);
        leave(&child);
    }
    leave(&parent);
    parent = enter(&recording, "parent");
    struct lp_entry child = enter_sampled(&recording, "outliving", UINT32_MAX);
    began_earlier(&recording, &parent, 20000000000);
    began_earlier(&recording, &child, 10000000000);
    leave(&parent); /* before its child */
    leave(&child);
    json_t *document = recording_document(&recording);
    assert_int_equal(figures_at(document, "parent/a").wall_ns, INT64_MAX);
    assert_in_range(figures_at(document, "parent").child_wall_ns, LP_SHARE_LIMIT_NS, INT64_MAX);
    json_decref(document);
    recording_close(&recording);
}

/* One path, to whoever reads it. */
static void test_sampled_and_unsampled_side_by_side(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    for (int i = 0; i < 30; i++) {
        struct lp_entry entry = enter_sampled(&recording, "a", i % 3 == 0 ? 1 : i % 3 == 1 ? 2 : 5);
        leave(&entry);
    }
    json_t *document = closed_document(&recording);
    assert_int_equal(figures_at(document, "a").calls, 30);
    assert_int_equal(figures_at(document, "a").nodes, 3);
    assert_int_equal(recording.recorder.paths.used, 1); /* also where paths are counted */
    json_decref(document);
    recording_close(&recording);
}

/* ---- exits in any order and from anywhere ---------------------------------------------- */

/* A sampled phase whose next entry is skipped. */
static void measure_one(struct recording *recording)
{
    struct lp_entry first = enter_sampled(recording, "s", 1000);
    assert_true(measured(&first));
    leave(&first);
}

static void enter_and_leave(struct recording *recording, const char *name)
{
    struct lp_entry entry = enter(recording, name);
    leave(&entry);
}

static void test_exits_around_a_skipped_entry(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b");
    measure_one(&recording);
    struct lp_entry skipped = enter_sampled(&recording, "s", 1000), nothing = enter(&recording, "c");
    struct lp_entry copy = skipped;
    leave(&a); /* what is around it ends: it goes on */
    enter_and_leave(&recording, "unseen");
    leave(&b);
    enter_and_leave(&recording, "unseen");
    leave(&skipped);
    leave(&nothing); /* after what it was in */
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 0);
    enter_and_leave(&recording, "seen");
    struct lp_entry next = enter_sampled(&recording, "s", 1000), after = enter_sampled(&recording, "s", 1000);
    assert_true(measured(&next)); /* below the root, it is another's first */
    assert_true(measured(&after));
    leave(&after);
    leave(&next);
    skipped = enter_sampled(&recording, "s", 1000);
    leave(&copy); /* of one that has ended: counted, and this one goes on */
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 1);
    enter_and_leave(&recording, "unseen");
    leave(&skipped);
    json_t *document = closed_document(&recording);
    assert_int_equal(figures_at(document, "a").calls, 1);
    assert_int_equal(figures_at(document, "a/b").calls, 1);
    assert_int_equal(figures_at(document, "seen").calls, 1);
    assert_int_equal(figures_at(document, "unseen").nodes + figures_at(document, "a/b/unseen").nodes, 0);
    json_decref(document);
    recording_close(&recording);
}

static void test_each_strand_skips_by_itself(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    run_task(&recording, 64);
    measure_one(&recording);
    struct lp_entry skipped = enter_sampled(&recording, "s", 1000);
    run_task(&recording, 128);
    enter_and_leave(&recording, "other");
    run_task(&recording, 64);
    enter_and_leave(&recording, "unseen");
    run_task(&recording, 0);
    enter_and_leave(&recording, "own");
    leave(&skipped); /* here, and it is that strand's */
    assert_null(lp_strand_find(lp_thread_self(&recording.recorder), 64));
    run_task(&recording, 64);
    enter_and_leave(&recording, "seen");
    skipped = enter_sampled(&recording, "s", 1000);
    leave_elsewhere(&skipped);
    enter_and_leave(&recording, "seen");
    run_task(&recording, 128);
    skipped = enter_sampled(&recording, "s", 1000);
    run_task(&recording, 64);
    leave_elsewhere(&skipped);
    leave_elsewhere(&skipped); /* nothing */
    enter_and_leave(&recording, "seen");
    run_task(&recording, 128);
    enter_and_leave(&recording, "seen");
    json_t *document = closed_document(&recording);
    assert_int_equal(figures_at(document, "other").calls + figures_at(document, "own").calls, 2);
    assert_int_equal(figures_at(document, "seen").calls, 4);
    assert_int_equal(figures_at(document, "unseen").nodes, 0);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_FOREIGN_EXITS), 2);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 0);
    json_decref(document);
    recording_close(&recording);
}

static void test_a_skipped_entry_may_be_ended_twice_from_elsewhere(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    measure_one(&recording);
    struct lp_entry skipped = enter_sampled(&recording, "s", 1000), copy = skipped, late = skipped;
    leave_elsewhere(&skipped);
    leave_elsewhere(&copy);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 1);
    struct lp_entry next = enter_sampled(&recording, "s", 1000);
    assert_int_equal(next.frame & LP_ENTRY_SKIPPED, LP_ENTRY_SKIPPED);
    leave_elsewhere(&late); /* not the next one */
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 2);
    enter_and_leave(&recording, "unseen");
    leave(&next);
    enter_and_leave(&recording, "seen");
    json_t *document = closed_document(&recording);
    assert_int_equal(figures_at(document, "seen").calls, 1);
    assert_int_equal(figures_at(document, "unseen").nodes, 0);
    json_decref(document);
    recording_close(&recording);
}

/* ---- limits ------------------------------------------------------------------------------ */

/* Each begins before the last one has ended, for ever. */
static void test_overlapping_entries_make_no_ladder_of_strides(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry last = enter_sampled(&recording, "a", 10);
    for (int i = 0; i < 2000; i++) {
        struct lp_entry next = enter_sampled(&recording, "a", 10);
        leave(&last);
        last = next;
    }
    leave(&last);
    json_t *document = closed_document(&recording);
    uint64_t calls = figures_at(document, "a").calls + figures_at(document, "a/a").calls;
    assert_true(calls > 2000 / 4 && calls < 2000 * 4);
    assert_int_equal(figures_at(document, "a/a").stride, 100);
    assert_int_equal(figures_at(document, "a/a/a").nodes, 0);
    assert_true(recording_trouble(&recording, LP_TROUBLE_SAMPLED_OVERLAPS) > 0);
    json_decref(document);
    recording_close(&recording);
}

static void test_what_outlives_a_sampled_entry_is_recorded(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry sampled = enter_sampled(&recording, "setup", 4), outer = enter(&recording, "train");
    leave(&sampled);
    enter_and_leave(&recording, "step");
    assert_false(lp_record_will_measure(lp_thread_self(&recording.recorder), lp_phase_sampled(name_of("s"), 2)));
    struct lp_entry seldom = enter_sampled(&recording, "s", 2);
    enter_and_leave(&recording, "unseen");
    leave(&seldom);
    enter_and_leave(&recording, "step");
    leave(&outer);
    measure_one(&recording); /* as ever */
    json_t *document = closed_document(&recording);
    assert_int_equal(figures_at(document, "setup/train/step").calls, 2 * 4);
    assert_int_equal(figures_at(document, "setup/train/s").nodes, 0);
    assert_int_equal(figures_at(document, "unseen").nodes, 0);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_SAMPLED_OVERLAPS), 1);
    json_decref(document);
    recording_close(&recording);
}

static void test_at_the_depth_limit(void **state)
{
    static struct recording recording;
    struct lp_entry open[LP_STACK_DEPTH];
    (void)state;
    recording_open(&recording);
    for (unsigned i = 0; i < LP_STACK_DEPTH - 1; i++)
        open[i] = enter(&recording, "d");
    measure_one(&recording); /* the deepest there is */
    struct lp_entry skipped = enter_sampled(&recording, "s", 1000);
    for (int i = 0; i < 100; i++)
        enter_and_leave(&recording, "unseen"); /* not too deep, but not measured */
    leave(&skipped);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_FOLDED_DEPTH), 0);
    open[LP_STACK_DEPTH - 1] = enter(&recording, "d");
    struct lp_entry beyond = enter_sampled(&recording, "s", 1000);
    assert_null(beyond.thread);
    leave(&beyond);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_FOLDED_DEPTH), 1);
    for (unsigned i = LP_STACK_DEPTH; i-- > 0;)
        leave(&open[i]);
    json_t *document = closed_document(&recording);
    assert_int_equal(figures_at(document, "d").calls, 1);
    json_decref(document);
    recording_close(&recording);
}

static void test_a_number_that_is_no_phase_records_nothing(void **state)
{
    static struct recording recording;
    struct lp_entry entry;
    (void)state;
    recording_open(&recording);
    lp_record_enter(&recording.recorder, name_of("a") | 0xffff0000u, &entry); /* no such stride */
    assert_null(entry.thread);
    leave(&entry);
    lp_record_enter(&recording.recorder, lp_phase_sampled(name_of("a"), 2) & ~LP_NAME_MASK, &entry); /* no name */
    assert_null(entry.thread);
    enter_and_leave(&recording, "seen");
    json_t *document = closed_document(&recording);
    assert_int_equal(figures_at(document, "seen").calls, 1);
    assert_int_equal(figures_at(document, "a").nodes, 0);
    json_decref(document);
    recording_close(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_is_measured_and_then_one_in_so_many),
        cmocka_unit_test(test_strides_multiply),
        cmocka_unit_test(test_a_product_of_strides_has_an_end),
        cmocka_unit_test(test_inside_a_skipped_entry_nothing_is_recorded),
        cmocka_unit_test(test_a_parent_covers_what_its_child_stands_for),
        cmocka_unit_test(test_figures_are_scaled_where_they_are_written),
        cmocka_unit_test(test_what_another_thread_has_ended_is_scaled_too),
        cmocka_unit_test(test_an_open_entry_stands_for_itself),
        cmocka_unit_test(test_estimates_end_where_numbers_do),
        cmocka_unit_test(test_what_a_child_stands_for_has_an_end_in_its_parent),
        cmocka_unit_test(test_sampled_and_unsampled_side_by_side),
        cmocka_unit_test(test_exits_around_a_skipped_entry),
        cmocka_unit_test(test_each_strand_skips_by_itself),
        cmocka_unit_test(test_a_skipped_entry_may_be_ended_twice_from_elsewhere),
        cmocka_unit_test(test_overlapping_entries_make_no_ladder_of_strides),
        cmocka_unit_test(test_what_outlives_a_sampled_entry_is_recorded),
        cmocka_unit_test(test_at_the_depth_limit),
        cmocka_unit_test(test_a_number_that_is_no_phase_records_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
