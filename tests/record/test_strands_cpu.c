/*
 * The CPU time of a strand's entries: what the thread used while the strand ran.
 *
 * In the plain mode each boundary reads CLOCK_THREAD_CPUTIME_ID, so a figure is known to lie between the differences of
 * readings of that clock taken inside of its boundaries and outside of them: nothing else is allowed. How far the other
 * modes may be off at one reading is test_cpu's business; what strands add to it is arithmetic.
 */
#include "support/recording.h"

struct span {
    uint64_t least_ns, most_ns;
};

struct moment {
    uint64_t before_ns, after_ns;
};

static uint64_t cpu_ns(void)
{
    return clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void use_cpu(uint64_t ns)
{
    uint64_t until_ns = cpu_ns() + ns;
    while (cpu_ns() < until_ns)
        burn_turns(1000);
}

static void span_add(struct span *span, struct moment from, struct moment to)
{
    span->least_ns += to.before_ns - from.after_ns;
    span->most_ns += to.after_ns - from.before_ns;
}

static struct moment run_at(struct recording *recording, uint64_t task)
{
    struct moment moment = {.before_ns = cpu_ns()};
    CHECK(run_task(recording, task) != NULL);
    moment.after_ns = cpu_ns();
    return moment;
}

/* The same, and adds to the span of who ran since then. */
static struct moment run_at_after(struct recording *recording, uint64_t task, struct span *span, struct moment since)
{
    struct moment now = run_at(recording, task);
    span_add(span, since, now);
    return now;
}

static struct moment enter_at(struct recording *recording, const char *name, struct lp_entry *entry)
{
    struct moment moment = {.before_ns = cpu_ns()};
    *entry = enter(recording, name);
    moment.after_ns = cpu_ns();
    return moment;
}

static struct moment leave_at(struct lp_entry *entry)
{
    struct moment moment = {.before_ns = cpu_ns()};
    leave(entry);
    moment.after_ns = cpu_ns();
    return moment;
}

static void check_within(uint64_t ns, struct span span)
{
    if (ns < span.least_ns || ns > span.most_ns)
        dprintf(2, "%llu is not in [%llu, %llu]\n", (unsigned long long)ns, (unsigned long long)span.least_ns,
                (unsigned long long)span.most_ns);
    CHECK(ns >= span.least_ns && ns <= span.most_ns);
    CHECK(span.least_ns > 1000000 && span.most_ns - span.least_ns < span.least_ns); /* it says something */
}

static void plain_recording(struct recording *recording)
{
    CHECK(setenv("LINEPROFILER_CLOCK_CPU", "plain", 1) == 0);
    recording_open(recording);
}

/* Each has what the thread used while it ran, and nothing of the others'. */
static void switch_in_turn(void *context)
{
    static struct recording recording;
    static const char *const tasks[] = {"own", "first", "second", "third"};
    struct lp_entry of[4];
    struct span spans[4] = {0};
    struct moment begun, last;
    uint64_t seed = 4, running = 0;
    (void)context;
    plain_recording(&recording);
    begun = last = enter_at(&recording, tasks[0], &of[0]);
    for (uint64_t task = 1; task < 4; task++) {
        run_at_after(&recording, task, &spans[task - 1], last);
        last = enter_at(&recording, tasks[task], &of[task]);
        running = task;
    }
    for (int i = 0; i < 60; i++) {
        use_cpu(20000 + random_next(&seed) % 400000);
        uint64_t next = (running + 1 + random_next(&seed) % 3) % 4;
        last = run_at_after(&recording, next, &spans[running], last);
        running = next;
    }
    last = run_at_after(&recording, 0, &spans[running], last);
    json_t *document = recording_document(&recording); /* those that do not run stand still */
    struct moment taken = {last.before_ns, cpu_ns()};
    spans[0] = (struct span){0};
    span_add(&spans[0], begun, taken);
    for (uint64_t task = 0; task < 4; task++)
        check_within(figures_at(document, tasks[task]).open_cpu_ns, spans[task]);
    json_decref(document);
    for (uint64_t task = 1; task < 4; task++) {
        last = run_at(&recording, task);
        use_cpu(2000000);
        span_add(&spans[task], last, leave_at(&of[task]));
        run_at(&recording, 0);
    }
    spans[0] = (struct span){0};
    span_add(&spans[0], begun, leave_at(&of[0]));
    document = recording_document(&recording);
    for (uint64_t task = 0; task < 4; task++)
        check_within(figures_at(document, tasks[task]).cpu_ns, spans[task]);
    CHECK_U64(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(&recording);
}

static void test_cpu_time_is_that_of_the_strand(void **state)
{
    (void)state;
    in_child(switch_in_turn, NULL);
}

/* A change that was noted when it happened, and is made at the next boundary. */
static void run_since(void *context)
{
    static struct recording recording;
    struct lp_entry first, second;
    struct span of_first = {0}, of_second = {0};
    (void)context;
    plain_recording(&recording);
    struct lp_thread *thread = self(&recording);
    run_at(&recording, 2);
    struct moment begun_second = enter_at(&recording, "second", &second);
    struct moment now = run_at(&recording, 1);
    span_add(&of_second, begun_second, now);
    struct moment begun_first = enter_at(&recording, "first", &first);
    use_cpu(2000000);
    struct moment changed = {.before_ns = cpu_ns()};
    uint64_t changed_ns = lp_thread_cpu_ns(thread);
    changed.after_ns = cpu_ns();
    use_cpu(5000000);
    lp_thread_run_since(thread, lp_strand_find(thread, 2), changed_ns);
    use_cpu(2000000);
    span_add(&of_second, changed, leave_at(&second));
    span_add(&of_first, begun_first, changed);
    now = run_at(&recording, 1);
    span_add(&of_first, now, leave_at(&first));
    json_t *document = recording_document(&recording);
    check_within(figures_at(document, "first").cpu_ns, of_first);
    check_within(figures_at(document, "second").cpu_ns, of_second);
    CHECK_U64(recording_trouble(&recording, LP_TROUBLE_UNPLACED_CPU_NS), 0);
    json_decref(document);
    recording_close(&recording);
}

static void test_a_change_counts_from_when_it_happened(void **state)
{
    (void)state;
    in_child(run_since, NULL);
}

/* The strand is made at the boundary, and runs since before: also then is known what its open entries have used. */
static void run_a_new_one_since(void *context)
{
    static struct recording recording;
    struct lp_entry entry;
    struct span used = {0};
    (void)context;
    plain_recording(&recording);
    struct lp_thread *thread = self(&recording);
    uint64_t changed_ns = lp_thread_cpu_ns(thread);
    use_cpu(2000000);
    lp_thread_cpu_ns(thread); /* a boundary in between */
    lp_thread_run_since(thread, lp_strand_make(thread, 64), changed_ns);
    struct moment begun = enter_at(&recording, "a", &entry);
    use_cpu(5000000);
    struct moment taken = {.before_ns = cpu_ns()};
    json_t *document = recording_document(&recording);
    taken.after_ns = cpu_ns();
    span_add(&used, begun, taken);
    check_within(figures_at(document, "a").open_cpu_ns, used);
    json_decref(document);
    struct span all = {0};
    span_add(&all, begun, leave_at(&entry));
    document = recording_document(&recording);
    check_within(figures_at(document, "a").cpu_ns, all);
    json_decref(document);
    recording_close(&recording);
}

static void test_a_new_strand_may_have_run_since_before(void **state)
{
    (void)state;
    in_child(run_a_new_one_since, NULL);
}

/* Nobody knows whose the time since the last boundary is: it stays with who ran then, and is told. */
static void run_late(void *context)
{
    static struct recording recording;
    struct lp_entry first, second;
    struct span unplaced = {0}, of_first = {0};
    (void)context;
    plain_recording(&recording);
    struct lp_thread *thread = self(&recording);
    run_at(&recording, 1);
    struct moment begun = enter_at(&recording, "first", &first);
    use_cpu(2000000);
    struct moment late = {.before_ns = cpu_ns()};
    lp_thread_run_late(thread, lp_strand_make(thread, 2));
    late.after_ns = cpu_ns();
    span_add(&unplaced, begun, late);
    span_add(&of_first, begun, late);
    check_within(recording_trouble(&recording, LP_TROUBLE_UNPLACED_CPU_NS), unplaced);
    struct moment last = enter_at(&recording, "second", &second);
    use_cpu(2000000);
    late.before_ns = cpu_ns();
    lp_thread_run_late(thread, thread->strand); /* others may have run in between */
    late.after_ns = cpu_ns();
    span_add(&unplaced, last, late);
    check_within(recording_trouble(&recording, LP_TROUBLE_UNPLACED_CPU_NS), unplaced);
    leave(&second);
    struct moment now = run_at(&recording, 1);
    span_add(&of_first, now, leave_at(&first));
    json_t *document = recording_document(&recording);
    check_within(figures_at(document, "first").cpu_ns, of_first);
    CHECK_U64(json_u64(json_object_get(document, "troubles"), "unplaced_cpu_ns", 0),
              recording_trouble(&recording, LP_TROUBLE_UNPLACED_CPU_NS));
    json_decref(document);
    recording_close(&recording);
}

static void test_a_change_noticed_late_is_told(void **state)
{
    (void)state;
    in_child(run_late, NULL);
}

/* ---- the end of a thread ----------------------------------------------------------------- */

struct ending {
    struct recording *recording;
    struct span of_first;
};

static void *end_with_open_strands(void *context)
{
    struct ending *ending = context;
    struct recording *recording = ending->recording;
    struct lp_entry outer, first, inner, second;
    enter_at(recording, "outer", &outer);
    run_at(recording, 1);
    struct moment begun = enter_at(recording, "first", &first);
    use_cpu(2000000);
    struct moment left = run_at(recording, 2);
    span_add(&ending->of_first, begun, left);
    enter_at(recording, "second", &second);
    enter_at(recording, "inner", &inner);
    leave(&second);
    run_at(recording, 3);
    struct lp_entry sampled[2] = {enter_sampled(recording, "sampled", 1000000)};
    leave(&sampled[0]);
    sampled[1] = enter_sampled(recording, "sampled", 1000000);
    run_at(recording, 4);
    enter_at(recording, "running", &first);
    use_cpu(5000000);
    return NULL;
}

static void end_threads(void *context)
{
    static struct recording recording;
    struct ending ending = {.recording = &recording};
    pthread_t thread;
    (void)context;
    plain_recording(&recording);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&thread, NULL, end_with_open_strands, &ending) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_U64(recording.recorder.threads->n_tasks, 0);
        CHECK(recording.recorder.threads->strand == &recording.recorder.threads->own);
        CHECK_U64(recording.recorder.threads->depth, 0);
    }
    CHECK_U64(strands_of(recording.recorder.threads), 4); /* those of the first thread serve the later ones */
    CHECK(!recording.recorder.threads->next);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    CHECK_U64(json_array_size(json_object_get(document, "threads")), 1);
    static const char *const paths[] = {"outer", "first", "second", "second/inner", "running"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        CHECK_U64(figures_at(document, paths[i]).calls, 3);
        CHECK_U64(figures_at(document, paths[i]).open_calls, 0);
    }
    CHECK_U64(figures_at(document, "sampled").calls, 1000000);
    CHECK(figures_at(document, "second/inner").late_wall_ns > 0);
    check_within(figures_at(document, "first").cpu_ns, ending.of_first); /* nothing of what ran after it */
    CHECK_U64(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(&recording);
}

static void test_strands_end_with_their_thread(void **state)
{
    (void)state;
    in_child(end_threads, NULL);
}

static void test_without_cpu_time_nothing_is_unplaced(void **state)
{
    static struct recording recording;
    (void)state;
    recording_open_with(&recording, &(struct recording_options){.no_cpu = true});
    struct lp_thread *thread = self(&recording);
    run_task(&recording, 1);
    struct lp_entry a = enter(&recording, "a");
    burn_turns(10000);
    lp_thread_run_late(thread, lp_strand_make(thread, 2));
    struct lp_entry b = enter(&recording, "b");
    leave(&a);
    leave(&b);
    json_t *document = recording_document(&recording);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "a").calls, 1);
    assert_int_equal(figures_at(document, "b").calls, 1);
    assert_int_equal(figures_at(document, "a").nocpu_wall_ns, 0);
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    json_decref(document);
    recording_close(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* The last has a recorder here: the way in which CPU time is read is chosen once. */
        cmocka_unit_test(test_cpu_time_is_that_of_the_strand),
        cmocka_unit_test(test_a_change_counts_from_when_it_happened),
        cmocka_unit_test(test_a_new_strand_may_have_run_since_before),
        cmocka_unit_test(test_a_change_noticed_late_is_told),
        cmocka_unit_test(test_strands_end_with_their_thread),
        cmocka_unit_test(test_without_cpu_time_nothing_is_unplaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
