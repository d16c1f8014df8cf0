/* Exits that are out of order, on another thread, twice, after a fork or at a thread's end. */
#include "support/recording.h"

#include <pthread.h>

/* B8: a parent that ends before its child. What the child runs on is late, counted once, and no self time of who is around. */
static void test_a_parent_may_end_first(void **state)
{
    static struct recording recording;
    uint64_t seed = 8;
    (void)state;
    recording_open(&recording);
    struct lp_entry top = enter(&recording, "top"), parent = enter(&recording, "parent");
    struct lp_entry child = enter(&recording, "child");
    burn_some(&seed);
    leave(&parent);
    json_t *document = recording_document(&recording); /* in between */
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "top/parent").calls, 1);
    assert_int_equal(figures_at(document, "top/parent/child").open_calls, 1);
    json_decref(document);
    burn_some(&seed);
    leave(&child);
    struct lp_entry next = enter(&recording, "next"); /* nests under what is open, not under what ended */
    leave(&next);
    leave(&top);
    document = recording_document(&recording);
    assert_document_adds_up(document);
    struct figures at_parent = figures_at(document, "top/parent"), at_child = figures_at(document, "top/parent/child");
    assert_true(at_child.late_wall_ns > 0 && at_child.late_wall_ns < at_child.wall_ns);
    assert_int_equal(at_parent.child_wall_ns, at_child.wall_ns - at_child.late_wall_ns);
    assert_int_equal(figures_at(document, "top/next").calls, 1);
    assert_int_equal(figures_at(document, "top").child_wall_ns,
                     at_parent.wall_ns + at_child.late_wall_ns + figures_at(document, "top/next").wall_ns);
    json_decref(document);
    recording_close(&recording);
}

static void test_an_entry_under_an_ended_parent_may_have_children(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b");
    leave(&a);
    struct lp_entry c = enter(&recording, "c");
    leave(&c);
    leave(&b);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "a/b/c").calls, 1);
    json_decref(document);
    recording_close(&recording);
}

static uint64_t all_self_ns(const json_t *document)
{
    uint64_t self_ns = 0;
    size_t i;
    const json_t *node;
    json_array_foreach(json_object_get(json_array_get(json_object_get(document, "threads"), 0), "nodes"), i, node)
    {
        self_ns += json_u64(node, "wall_ns", 0) - json_u64(node, "child_wall_ns", 0) +
                   json_u64(node, "open_wall_ns", 0) - json_u64(node, "open_child_wall_ns", 0);
    }
    return self_ns;
}

/* Double buffering: each entry begins before the one before it has ended. With a phase around, none is late for it. */
static void test_overlapping_entries_cover_what_is_around(void **state)
{
    static struct recording recording;
    uint64_t seed = 11;
    (void)state;
    recording_open(&recording);
    for (int round = 0; round < 3; round++) {
        struct lp_entry top = enter(&recording, "top"), last = enter(&recording, "a");
        for (int i = 0; i < 20; i++) {
            burn_some(&seed);
            struct lp_entry next = enter(&recording, i % 2 ? "a" : "b");
            burn_some(&seed);
            leave(&last);
            last = next;
            json_t *document = recording_document(&recording); /* in between */
            struct figures at_top = figures_at(document, "top");
            assert_int_equal(all_self_ns(document), at_top.wall_ns + at_top.open_wall_ns);
            json_decref(document);
        }
        leave(&last);
        leave(&top);
    }
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(all_self_ns(document), figures_at(document, "top").wall_ns);
    assert_true(figures_at(document, "top/a/b").late_wall_ns > 0);
    json_decref(document);
    recording_close(&recording);
}

/* Whatever the order: self times are the roots' time, to the nanosecond, but for what is beyond the ends of all. */
static void any_order(bool around)
{
    static const char *const names[] = {"a", "b", "c"};
    static struct recording recording;
    uint64_t seed = 9, entered = 0;
    recording_open(&recording);
    for (int round = 0; round < 600; round++) {
        struct lp_entry open[12], outer = {0};
        size_t n = 0;
        if (around) {
            outer = enter(&recording, "outer");
            entered++;
        }
        for (int step = 0; step < 60 || n > 0; step++) {
            bool in = step < 60 && n < 12 && (n == 0 || random_next(&seed) % 2);
            if (in) {
                open[n++] = enter(&recording, names[random_next(&seed) % 3]);
                entered++;
            } else {
                size_t which = random_next(&seed) % (random_next(&seed) % 4 ? n : 1 + n / 2);
                leave(&open[which]);
                open[which] = open[--n];
            }
            burn_some(&seed);
            if (round % 30 == 0 && step % 9 == 0) {
                json_t *document = recording_document(&recording);
                struct figures at_outer = figures_at(document, "outer");
                assert_document_adds_up(document);
                if (around)
                    assert_int_equal(all_self_ns(document), at_outer.wall_ns + at_outer.open_wall_ns);
                json_decref(document);
            }
        }
        if (around)
            leave(&outer);
        assert_int_equal(atomic_load(&recording.recorder.threads->stack->depth), 0);
    }
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    if (around)
        assert_int_equal(all_self_ns(document), figures_at(document, "outer").wall_ns);
    uint64_t ended = 0;
    size_t i;
    const json_t *node;
    json_array_foreach(json_object_get(json_array_get(json_object_get(document, "threads"), 0), "nodes"), i, node)
    {
        ended += json_u64(node, "calls", 0);
    }
    assert_true(ended <= entered);
    if (recording_trouble(&recording, LP_TROUBLE_FOLDED_PATHS) == 0 &&
        recording_trouble(&recording, LP_TROUBLE_FOLDED_DEPTH) == 0)
        assert_int_equal(ended, entered);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 0);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_FOREIGN_EXITS), 0);
    json_decref(document);
    recording_close(&recording);
}

static void test_any_order_adds_up(void **state)
{
    (void)state;
    any_order(false);
    any_order(true);
}

static void test_an_exit_happens_once(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry entry = enter(&recording, "a"), copy = entry;
    leave(&entry);
    leave(&entry); /* nothing */
    leave(&copy);  /* of an entry that is no longer there: counted */
    struct lp_entry again = enter(&recording, "a");
    struct lp_entry stale = copy;
    stale.thread = again.thread;
    leave(&stale); /* the frame is in use again, by another entry */
    leave(&again);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "a").calls, 2);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 2);
    json_decref(document);
    recording_close(&recording);
}

/* ---- other threads ------------------------------------------------------------------ */

static void *leave_for_another(void *context)
{
    struct lp_entry entry = *(struct lp_entry *)context;
    lp_record_leave(&entry);
    return NULL;
}

static void test_an_exit_on_another_thread_touches_nothing(void **state)
{
    static struct recording recording;
    pthread_t thread;
    (void)state;
    recording_open(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b");
    assert_int_equal(pthread_create(&thread, NULL, leave_for_another, &a), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_FOREIGN_EXITS), 1);
    leave(&b);
    leave(&a);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "a").calls, 1);
    assert_int_equal(figures_at(document, "a/b").calls, 1);
    assert_int_equal(json_array_size(json_object_get(document, "threads")), 1); /* nor does it get a slot */
    json_decref(document);
    recording_close(&recording);
}

static void *enter_and_end(void *context)
{
    struct recording *recording = context;
    struct lp_entry a = enter(recording, "a"), b = enter(recording, "b"), c = enter(recording, "c");
    leave(&b);
    (void)a;
    (void)c;
    return NULL;
}

static void test_what_is_open_ends_with_its_thread(void **state)
{
    static struct recording recording;
    pthread_t thread;
    (void)state;
    recording_open(&recording);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&thread, NULL, enter_and_end, &recording), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "a").calls, 3);
    assert_int_equal(figures_at(document, "a/b/c").calls, 3);
    assert_int_equal(figures_at(document, "a/b/c").open_calls, 0);
    const json_t *slot = json_array_get(json_object_get(document, "threads"), 0);
    assert_true(json_is_false(json_object_get(slot, "alive")));
    json_decref(document);
    recording_close(&recording);
}

/* ---- forks --------------------------------------------------------------------------- */

struct crossing {
    struct recording *recording;
    struct lp_entry *open;
    int n;
    bool record_first; /* in the child, before the exits */
};

static void leave_in_child(struct crossing *crossing)
{
    struct recording *recording = crossing->recording;
    if (crossing->record_first) {
        struct lp_entry own = enter(recording, "own");
        for (int i = crossing->n; i-- > 0;)
            leave(&crossing->open[i]);
        leave(&own);
    } else {
        for (int i = crossing->n; i-- > 0;)
            leave(&crossing->open[i]);
        struct lp_entry own = enter(recording, "own");
        leave(&own);
    }
    json_t *document = recording_document(recording);
    CHECK_U64(figures_at(document, "own").calls, 1);
    CHECK_U64(figures_at(document, "own").late_wall_ns, 0);
    CHECK_U64(figures_at(document, "parent").nodes, 0);
    CHECK_U64(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(recording);
}

/* F9: the child ignores exits of what it inherited open, quietly. */
static void test_entries_across_a_fork_are_ignored_in_the_child(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry open[3] = {enter(&recording, "parent"), enter(&recording, "b"), enter(&recording, "c")};
    for (int i = 0; i < 2; i++) {
        struct crossing crossing = {&recording, open, 3, i == 1};
        int status = 0;
        pid_t pid = recording_fork();
        if (pid == 0) {
            leave_in_child(&crossing);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    for (int i = 3; i-- > 0;)
        leave(&open[i]);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "parent/b/c").calls, 1);
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(&recording);
}

static void test_exits_after_the_end_do_nothing(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry entry = enter(&recording, "a");
    lp_recorder_stop(&recording.recorder);
    leave(&entry);
    struct lp_entry none = enter(&recording, "b");
    assert_null(none.thread);
    leave(&none);
    json_t *document = recording_document(&recording);
    assert_int_equal(figures_at(document, "a").open_calls, 1); /* as it stood */
    assert_int_equal(figures_at(document, "b").nodes, 0);
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_parent_may_end_first),
        cmocka_unit_test(test_an_entry_under_an_ended_parent_may_have_children),
        cmocka_unit_test(test_overlapping_entries_cover_what_is_around),
        cmocka_unit_test(test_any_order_adds_up),
        cmocka_unit_test(test_an_exit_happens_once),
        cmocka_unit_test(test_an_exit_on_another_thread_touches_nothing),
        cmocka_unit_test(test_what_is_open_ends_with_its_thread),
        cmocka_unit_test(test_entries_across_a_fork_are_ignored_in_the_child),
        cmocka_unit_test(test_exits_after_the_end_do_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
