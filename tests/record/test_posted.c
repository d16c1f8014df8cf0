/* Exits on other threads: they end the entry at once, and its own thread takes that up at its next boundary. */
#include "support/recording.h"

static struct figures figures_now(struct recording *recording, const char *path)
{
    json_t *document = recording_document(recording);
    assert_document_adds_up(document);
    struct figures figures = figures_at(document, path);
    json_decref(document);
    return figures;
}

static void assert_same(struct figures a, struct figures b)
{
    assert_memory_equal(&a, &b, sizeof a);
}

static void pass_a_millisecond(void)
{
    uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + 1000000;
    while (clock_now_ns(CLOCK_MONOTONIC) < until_ns)
        ;
}

enum boundary { BY_ENTER, BY_LEAVE, BY_COUNT, BY_ITS_OWN_EXIT, BOUNDARIES };

/* The entry ends when the other thread says so, also for who looks before its own thread has met it. */
static void test_an_exit_elsewhere_ends_the_entry_at_that_moment(void **state)
{
    static struct recording recording;
    struct counter_figures n;
    (void)state;
    for (enum boundary by = 0; by < BOUNDARIES; by++) {
        recording_open(&recording);
        struct lp_entry under = enter(&recording, "under");
        uint64_t before_ns = clock_now_ns(CLOCK_MONOTONIC);
        struct lp_entry entry = enter(&recording, "a"), copy = entry;
        uint64_t begun_ns = clock_now_ns(CLOCK_MONOTONIC);
        pass_a_millisecond();
        uint64_t leaving_ns = clock_now_ns(CLOCK_MONOTONIC);
        leave_elsewhere(&entry);
        uint64_t left_ns = clock_now_ns(CLOCK_MONOTONIC);
        assert_null(entry.thread);
        pass_a_millisecond();
        struct figures seen = figures_now(&recording, "under/a");
        assert_int_equal(seen.calls, 1);
        assert_int_equal(seen.open_calls, 0);
        assert_in_range(seen.wall_ns, leaving_ns - begun_ns - BETWEEN_CLOCKS_NS,
                        left_ns - before_ns + BETWEEN_CLOCKS_NS);
        assert_int_equal(seen.nocpu_wall_ns, seen.wall_ns); /* unknown, not zero */
        assert_int_equal(seen.cpu_ns, 0);
        assert_int_equal(seen.hist_total, 1);
        struct lp_entry next = {0};
        if (by == BY_ENTER)
            next = enter(&recording, "next");
        else if (by == BY_LEAVE)
            leave(&under);
        else if (by == BY_COUNT)
            assert_int_equal(lp_record_count(&recording.recorder, name_of("n"), 5), LP_COUNT_OK);
        else
            leave(&copy); /* it has ended already */
        assert_int_equal(atomic_load(&recording.recorder.threads->stack->depth), by == BY_ENTER ? 2 : by != BY_LEAVE);
        assert_same(figures_now(&recording, "under/a"), seen);
        leave(&next);
        leave(&under);
        json_t *document = recording_document(&recording);
        assert_document_adds_up(document);
        assert_int_equal(figures_at(document, "under").child_wall_ns,
                         seen.wall_ns + figures_at(document, "under/next").wall_ns);
        assert_int_equal(figures_at(document, "under/next").calls, by == BY_ENTER);
        assert_int_equal(counter_at(document, "under", "n", &n), by == BY_COUNT);
        assert_int_equal(recording_trouble(&recording, LP_TROUBLE_FOREIGN_EXITS), 1);
        assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), by == BY_ITS_OWN_EXIT);
        json_decref(document);
        recording_close(&recording);
    }
}

/* Entries of which some have been ended elsewhere, in this order; what the document says before their own thread has
   met it and after. */
static void end_elsewhere(struct recording *recording, const int *order, size_t n, bool last_stays_open)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static const char *const paths[] = {"a", "a/b", "a/b/c", "a/b/c/d"};
    struct lp_entry open[4];
    struct figures seen[4];
    recording_open(recording);
    for (size_t i = 0; i < 4; i++) {
        open[i] = enter(recording, names[i]);
        pass_a_millisecond();
    }
    for (size_t i = 0; i < n; i++) {
        leave_elsewhere(&open[order[i]]);
        figures_now(recording, "a");
    }
    for (size_t i = 0; i < 4; i++)
        seen[i] = figures_now(recording, paths[i]);
    assert_non_null(lp_thread_self(&recording->recorder)); /* a boundary that changes nothing else */
    for (size_t i = 0; i < 4; i++) {
        struct figures after = figures_now(recording, paths[i]);
        bool ended = open[i].thread == NULL;
        assert_int_equal(after.calls, ended);
        assert_int_equal(after.open_calls, !ended);
        if (ended)
            assert_same(after, seen[i]);
        if (last_stays_open || ended)
            continue;
        leave(&open[i]);
    }
    for (size_t i = 0; i < 4; i++)
        leave(&open[i]);
    json_t *document = recording_document(recording);
    assert_document_adds_up(document);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(figures_at(document, paths[i]).calls, 1);
    assert_int_equal(recording_trouble(recording, LP_TROUBLE_FOREIGN_EXITS), n);
    assert_int_equal(recording_trouble(recording, LP_TROUBLE_LOST_EXITS), 0);
    json_decref(document);
    recording_close(recording);
}

static void test_exits_elsewhere_in_any_order_add_up(void **state)
{
    static struct recording recording;
    uint64_t seed = 31;
    (void)state;
    for (int round = 0; round < 60; round++) {
        int order[] = {0, 1, 2, 3};
        for (size_t i = 4; i-- > 1;) {
            size_t other = random_next(&seed) % (i + 1);
            int kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        end_elsewhere(&recording, order, 1 + (size_t)round % 4, round % 2);
    }
}

static void test_an_exit_elsewhere_happens_once(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open(&recording);
    struct lp_entry entry = enter(&recording, "a"), second = entry, third = entry;
    leave_elsewhere(&entry);
    leave_elsewhere(&second);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 1);
    struct lp_entry again = enter(&recording, "a"), stale = again; /* in the same frame */
    stale.serial = third.serial;
    leave_elsewhere(&third);
    leave_elsewhere(&stale);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 3);
    assert_int_equal(figures_now(&recording, "a").calls, 1);
    assert_int_equal(figures_now(&recording, "a").open_calls, 1);
    struct lp_entry ended = again;
    leave(&again);
    leave_elsewhere(&ended);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 4);
    assert_int_equal(figures_now(&recording, "a").calls, 2);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_FOREIGN_EXITS), 1);
    recording_close(&recording);
}

/* A thread that is blocked for ever, or ends without another boundary. */
struct blocked {
    struct recording *recording;
    struct lp_entry entries[3];
    _Atomic int stage;
};

static void *enter_and_block(void *context)
{
    struct blocked *blocked = context;
    blocked->entries[0] = enter(blocked->recording, "outer");
    run_task(blocked->recording, 64);
    blocked->entries[1] = enter(blocked->recording, "task");
    blocked->entries[2] = enter(blocked->recording, "inner");
    run_task(blocked->recording, 0);
    atomic_compare_exchange_strong(&blocked->stage, &(int){0}, 1);
    while (atomic_load(&blocked->stage) < 2)
        pause_ms(1);
    return NULL;
}

static void test_an_exit_of_a_blocked_thread_s_entry_counts_before_it_ends_and_after(void **state)
{
    static struct recording recording;
    struct blocked blocked = {.recording = &recording};
    pthread_t thread;
    (void)state;
    recording_open(&recording);
    assert_int_equal(pthread_create(&thread, NULL, enter_and_block, &blocked), 0);
    WAIT_UNTIL(atomic_load(&blocked.stage) == 1);
    leave(&blocked.entries[0]);
    leave(&blocked.entries[1]); /* before the one inside of it */
    struct figures outer = figures_now(&recording, "outer"), task = figures_now(&recording, "task");
    assert_int_equal(outer.calls, 1);
    assert_int_equal(task.calls, 1);
    assert_true(task.child_wall_ns > 0);
    assert_int_equal(figures_now(&recording, "task/inner").open_calls, 1);
    pass_a_millisecond();
    atomic_store(&blocked.stage, 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_same(figures_now(&recording, "outer"), outer);
    assert_same(figures_now(&recording, "task"), task);
    struct figures inner = figures_now(&recording, "task/inner");
    assert_int_equal(inner.calls, 1);
    assert_int_equal(inner.nocpu_wall_ns, 0); /* ended with its thread */
    assert_int_equal(inner.wall_ns - inner.late_wall_ns, task.child_wall_ns);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_FOREIGN_EXITS), 2);
    leave(&blocked.entries[2]);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 1);
    recording_close(&recording);
}

static void test_exits_of_a_thread_that_was_follow_no_later_one(void **state)
{
    static struct recording recording;
    struct blocked first = {.recording = &recording, .stage = 2}, second = {.recording = &recording};
    pthread_t thread;
    (void)state;
    recording_open(&recording);
    assert_int_equal(pthread_create(&thread, NULL, enter_and_block, &first), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, enter_and_block, &second), 0);
    WAIT_UNTIL(atomic_load(&second.stage) == 1); /* in the same slot, the same frames */
    assert_ptr_equal(first.entries[1].thread, second.entries[1].thread);
    for (int i = 0; i < 3; i++)
        leave(&first.entries[i]);
    assert_int_equal(recording_trouble(&recording, LP_TROUBLE_LOST_EXITS), 3);
    assert_int_equal(figures_now(&recording, "task/inner").open_calls, 1);
    atomic_store(&second.stage, 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(figures_now(&recording, "task/inner").calls, 2);
    recording_close(&recording);
}

/* ---- all at once ---------------------------------------------------------------------------- */

enum { OWNERS = 2, ENDERS = 2, ROUNDS = LP_TEST_TSAN || LP_TEST_ASAN ? 4000 : 20000 };

struct handed {
    struct lp_entry entry;
    atomic_bool *ended; /* to be set, unless NULL */
};

struct race {
    struct recording recording;
    pthread_mutex_t lock;
    struct handed handed[256]; /* guarded by lock: to be ended by anybody */
    size_t n;
    _Atomic uint64_t entered;
    _Atomic int owners;
};

static bool hand_over(struct race *race, const struct lp_entry *entry, atomic_bool *ended)
{
    if (!entry->thread)
        return false;
    pthread_mutex_lock(&race->lock);
    bool room = race->n < 256;
    if (room)
        race->handed[race->n++] = (struct handed){*entry, ended};
    pthread_mutex_unlock(&race->lock);
    return room;
}

/* Its own thread does nothing until it has ended. */
static void have_it_ended(struct race *race, const struct lp_entry *entry)
{
    atomic_bool ended = false;
    if (hand_over(race, entry, &ended))
        while (!atomic_load(&ended))
            sched_yield();
}

static bool take_over(struct race *race, struct handed *handed)
{
    pthread_mutex_lock(&race->lock);
    bool any = race->n > 0;
    if (any)
        *handed = race->handed[--race->n];
    pthread_mutex_unlock(&race->lock);
    return any;
}

static void *own_and_hand_over(void *context)
{
    struct race *race = context;
    uint64_t seed = lp_thread_id();
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(run_task(&race->recording, random_next(&seed) % 3 * 64) != NULL);
        struct lp_entry outer = enter(&race->recording, "outer"), inner = enter(&race->recording, "inner");
        struct lp_entry sampled = enter_sampled(&race->recording, "sampled", 2);
        atomic_fetch_add(&race->entered, 1);
        uint64_t which = random_next(&seed);
        if (which % 2)
            hand_over(race, &outer, NULL);
        if (which % 3 == 0)
            hand_over(race, &inner, NULL);
        if (which % 5 == 0)
            hand_over(race, &sampled, NULL);
        if (i % 256 == 0)
            have_it_ended(race, which % 2 ? &inner : &outer);
        burn_some(&seed);
        leave(&sampled);
        leave(&inner);
        leave(&outer);
    }
    atomic_fetch_sub(&race->owners, 1);
    return NULL;
}

static void *end_what_is_handed_over(void *context)
{
    struct race *race = context;
    struct handed handed;
    while (atomic_load(&race->owners) > 0) {
        if (!take_over(race, &handed))
            continue;
        leave(&handed.entry);
        if (handed.ended)
            atomic_store(handed.ended, true);
    }
    return NULL;
}

static void watch(struct race *race)
{
    uint64_t last = 0;
    while (atomic_load(&race->owners) > 0) {
        json_t *document = recording_document(&race->recording);
        struct figures outer = figures_at(document, "outer"), inner = figures_at(document, "outer/inner");
        uint64_t entered = atomic_load(&race->entered) + OWNERS; /* each may be about to say so */
        assert_true(outer.calls >= last);
        assert_true(outer.calls + outer.open_calls <= entered && inner.calls + inner.open_calls <= entered);
        assert_true(outer.nocpu_wall_ns <= outer.wall_ns);
        last = outer.calls;
        json_decref(document);
    }
}

static void test_entries_end_once_whoever_is_first(void **state)
{
    static struct race race;
    pthread_t threads[OWNERS + ENDERS];
    (void)state;
    recording_open(&race.recording);
    assert_int_equal(pthread_mutex_init(&race.lock, NULL), 0);
    atomic_store(&race.owners, OWNERS);
    for (int i = 0; i < OWNERS + ENDERS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < OWNERS ? own_and_hand_over : end_what_is_handed_over, &race), 0);
    watch(&race);
    for (int i = 0; i < OWNERS + ENDERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    json_t *document = recording_document(&race.recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "outer").calls, OWNERS * ROUNDS);
    assert_int_equal(figures_at(document, "outer/inner").calls + figures_at(document, "inner").calls, OWNERS * ROUNDS);
    assert_int_equal(figures_at(document, "outer").open_calls, 0);
    assert_true(recording_trouble(&race.recording, LP_TROUBLE_FOREIGN_EXITS) > 0);
    json_decref(document);
    pthread_mutex_destroy(&race.lock);
    recording_close(&race.recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_exit_elsewhere_ends_the_entry_at_that_moment),
        cmocka_unit_test(test_exits_elsewhere_in_any_order_add_up),
        cmocka_unit_test(test_an_exit_elsewhere_happens_once),
        cmocka_unit_test(test_an_exit_of_a_blocked_thread_s_entry_counts_before_it_ends_and_after),
        cmocka_unit_test(test_exits_of_a_thread_that_was_follow_no_later_one),
        cmocka_unit_test(test_entries_end_once_whoever_is_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
