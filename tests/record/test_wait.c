/*
 * Who is billed why a thread waited. What the clock tells is its own test's business (clock/test_wait.c): most tests here
 * say it themselves, in the clock's place.
 */
#include "support/recording.h"

#include <signal.h>

struct waits {
    bool blocked_known, preempted_known;
    uint64_t blocked_ns, preempted_ns, open_blocked_ns, open_preempted_ns, wait_ns;
};

static struct waits waits_at(const json_t *document, const char *path)
{
    struct waits sum = {0};
    struct figures figures = figures_at(document, path);
    size_t i, j;
    const json_t *thread, *node;
    json_array_foreach(json_object_get(document, "threads"), i, thread)
    {
        const json_t *nodes = json_object_get(thread, "nodes");
        json_array_foreach(nodes, j, node)
        {
            if (j == 0 || !node_has_path(nodes, node, path))
                continue;
            sum.blocked_known |= json_object_get(node, "blocked_ns") != NULL;
            sum.preempted_known |= json_object_get(node, "preempted_ns") != NULL;
            sum.blocked_ns += json_u64(node, "blocked_ns", 0);
            sum.preempted_ns += json_u64(node, "preempted_ns", 0);
            sum.open_blocked_ns += json_u64(node, "open_blocked_ns", 0);
            sum.open_preempted_ns += json_u64(node, "open_preempted_ns", 0);
        }
    }
    sum.wait_ns = figures.wall_ns - figures.nocpu_wall_ns - figures.cpu_ns;
    return sum;
}

static struct waits waits_now(struct recording *recording, const char *path)
{
    json_t *document = recording_document(recording);
    struct waits waits = waits_at(document, path);
    json_decref(document);
    return waits;
}

/* Nothing is told but by the test itself. */
static void open_told_by_us(struct recording *recording)
{
    assert_int_equal(setenv("LINEPROFILER_CLOCK_WAIT", "switches", 1), 0);
    recording_open_with(recording, &(struct recording_options){.wait_detail = true});
    struct lp_thread *thread = self(recording);
    CHECK(thread->cpu.wait == &thread->wait);
    thread->cpu.wait = NULL;
    atomic_store(&thread->slot->wait_source, LP_WAIT_SCHEDSTAT);
}

static void tell(struct recording *recording, struct lp_wait_split split)
{
    struct lp_thread *thread = self(recording);
    thread->wait.told(thread->wait.context, &split);
}

static void blocked(struct recording *recording, uint64_t ns)
{
    tell(recording, (struct lp_wait_split){.blocked_ns = ns});
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- who was open -------------------------------------------------------------------- */

static void all_that_is_open(void *context)
{
    static struct recording recording;
    (void)context;
    open_told_by_us(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b");
    nap();
    blocked(&recording, 1000);
    leave(&b);
    struct lp_entry c = enter(&recording, "c");
    nap();
    tell(&recording, (struct lp_wait_split){.blocked_ns = 20, .preempted_ns = 300});
    struct waits open = waits_now(&recording, "a/c");
    CHECK_U64(open.blocked_ns, 0);
    CHECK_U64(open.open_blocked_ns, 20);
    CHECK_U64(open.open_preempted_ns, 300);
    CHECK_U64(waits_now(&recording, "a").open_blocked_ns, 1020);
    leave(&c);
    leave(&a);
    blocked(&recording, 5000); /* nobody's */
    CHECK_U64(waits_now(&recording, "a").blocked_ns, 1020);
    CHECK_U64(waits_now(&recording, "a").preempted_ns, 300);
    CHECK_U64(waits_now(&recording, "a").open_blocked_ns, 0);
    CHECK_U64(waits_now(&recording, "a/b").blocked_ns, 1000);
    CHECK_U64(waits_now(&recording, "a/c").blocked_ns, 20);
    recording_close(&recording);
}

static void test_all_that_is_open_is_billed(void **state)
{
    (void)state;
    in_child(all_that_is_open, NULL);
}

static void out_of_order(void *context)
{
    static struct recording recording;
    (void)context;
    open_told_by_us(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b");
    nap();
    blocked(&recording, 100);
    leave(&a);
    nap();
    blocked(&recording, 30);
    leave(&b);
    CHECK_U64(waits_now(&recording, "a").blocked_ns, 100);
    CHECK_U64(waits_now(&recording, "a/b").blocked_ns, 130);
    recording_close(&recording);
}

static void test_an_entry_that_has_ended_is_not_billed(void **state)
{
    (void)state;
    in_child(out_of_order, NULL);
}

/* Who came and went while it was put off cannot know what was its own. */
static void put_off(void *context)
{
    static struct recording recording;
    const struct lp_wait_split begins = {.begins_put_off = true};
    (void)context;
    open_told_by_us(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b");
    nap();
    tell(&recording, begins);
    leave(&b);
    b = enter(&recording, "b");
    nap();
    tell(&recording, (struct lp_wait_split){.blocked_ns = 100, .put_off = true});
    CHECK_U64(waits_now(&recording, "a/b").open_blocked_ns, 0);
    blocked(&recording, 20);
    leave(&b);
    leave(&a);
    CHECK_U64(waits_now(&recording, "a").blocked_ns, 120);
    CHECK_U64(waits_now(&recording, "a/b").blocked_ns, 20);
    recording_close(&recording);
}

static void test_what_was_put_off_is_of_those_who_were_open_throughout(void **state)
{
    (void)state;
    in_child(put_off, NULL);
}

/* The clock is read while an entry is being opened: what passed before is not its own. */
static void before_it_began(void *context)
{
    static struct recording recording;
    (void)context;
    CHECK(setenv("LINEPROFILER_CLOCK_WAIT", "schedstat", 1) == 0);
    recording_open_with(&recording, &(struct recording_options){.wait_detail = true});
    struct lp_entry a = enter(&recording, "a");
    CANNOT_IF(atomic_load(&self(&recording)->slot->wait_source) != LP_WAIT_SCHEDSTAT);
    for (int i = 0; i < 20; i++) {
        nap();
        struct lp_entry b = enter(&recording, "b");
        leave(&b);
        struct lp_entry c = enter(&recording, "c");
        nap();
        leave(&c);
    }
    leave(&a);
    struct waits outer = waits_now(&recording, "a"), with = waits_now(&recording, "a/c"),
                 without = waits_now(&recording, "a/b");
    CHECK(with.blocked_ns >= 20000000); /* as long as it slept */
    CHECK(outer.blocked_ns >= with.blocked_ns + 20000000);
    CHECK(without.blocked_ns + without.preempted_ns <= without.wait_ns);
    CHECK(with.blocked_ns + with.preempted_ns <= with.wait_ns);
    CHECK(outer.blocked_ns + outer.preempted_ns <= outer.wait_ns);
    CHECK(outer.blocked_ns + outer.preempted_ns >= with.blocked_ns + with.preempted_ns + without.blocked_ns);
    CHECK(without.blocked_ns < 1000000); /* less than one of the twenty naps before it */
    recording_close(&recording);
}

static void test_what_passed_before_an_entry_is_its_parents(void **state)
{
    (void)state;
    in_child(before_it_began, NULL);
}

/* ---- what is not known --------------------------------------------------------------- */

static void ended_elsewhere(void *context)
{
    static struct recording recording;
    (void)context;
    open_told_by_us(&recording);
    struct lp_entry a = enter(&recording, "a"), b = enter(&recording, "b");
    nap();
    blocked(&recording, 7);
    leave(&b);
    b = enter(&recording, "b");
    nap();
    blocked(&recording, 100);
    leave_elsewhere(&b);
    CHECK_U64(waits_now(&recording, "a/b").blocked_ns, 7); /* before its own thread has met it, */
    CHECK_U64(waits_now(&recording, "a/b").open_blocked_ns, 0);
    blocked(&recording, 30);
    leave(&a); /* and after */
    struct waits b_waits = waits_now(&recording, "a/b");
    CHECK_U64(b_waits.blocked_ns, 7);
    CHECK_U64(waits_now(&recording, "a").blocked_ns, 137);
    recording_close(&recording);
}

static void test_an_entry_that_another_thread_ended_is_not_measured(void **state)
{
    (void)state;
    in_child(ended_elsewhere, NULL);
}

static void tasks(void *context)
{
    static struct recording recording;
    (void)context;
    open_told_by_us(&recording);
    struct lp_entry loop = enter(&recording, "loop");
    CHECK(run_task(&recording, 1) != NULL);
    struct lp_entry one = enter(&recording, "one");
    nap();
    blocked(&recording, 1);
    CHECK(run_task(&recording, 2) != NULL);
    struct lp_entry two = enter(&recording, "two");
    nap();
    blocked(&recording, 20);
    CHECK(run_task(&recording, 0) != NULL); /* no task runs: the loop waits for something */
    nap();
    blocked(&recording, 300);
    CHECK(run_task(&recording, 1) != NULL);
    struct lp_thread *thread = self(&recording);
    thread->runs_unknown = true; /* as while the change of tasks is noticed late */
    blocked(&recording, 4000);
    thread->runs_unknown = false;
    tell(&recording, (struct lp_wait_split){.begins_put_off = true});
    tell(&recording, (struct lp_wait_split){.blocked_ns = 50000, .put_off = true});
    leave(&one);
    CHECK(run_task(&recording, 2) != NULL);
    leave(&two);
    CHECK(run_task(&recording, 0) != NULL);
    leave(&loop);
    CHECK_U64(waits_now(&recording, "one").blocked_ns, 1);
    CHECK_U64(waits_now(&recording, "two").blocked_ns, 20);
    CHECK_U64(waits_now(&recording, "loop").blocked_ns, 54321);
    recording_close(&recording);
}

static void test_a_task_is_billed_for_what_it_ran(void **state)
{
    (void)state;
    in_child(tasks, NULL);
}

static void sampled(void *context)
{
    static struct recording recording;
    (void)context;
    open_told_by_us(&recording);
    for (int i = 0; i < 10; i++) {
        struct lp_entry entry = enter_sampled(&recording, "s", 5);
        nap();
        blocked(&recording, 1000);
        leave(&entry);
    }
    CHECK_U64(waits_now(&recording, "s").blocked_ns, 10000); /* two of them, scaled */
    recording_close(&recording);
}

static void test_sampled_phases_are_scaled(void **state)
{
    (void)state;
    in_child(sampled, NULL);
}

/* What is told may be more than the clocks make of the wait; a part is no more than the whole. */
static void more_than_all(void *context)
{
    static struct recording recording;
    (void)context;
    open_told_by_us(&recording);
    struct lp_entry a = enter(&recording, "a");
    tell(&recording, (struct lp_wait_split){.blocked_ns = 1000000000, .preempted_ns = 1000000000});
    leave(&a);
    struct waits waits = waits_now(&recording, "a");
    CHECK(waits.blocked_ns + waits.preempted_ns <= waits.wait_ns);
    recording_close(&recording);
}

static void test_parts_are_at_most_the_whole(void **state)
{
    (void)state;
    in_child(more_than_all, NULL);
}

static void by_source(void *source)
{
    static struct recording recording;
    const char *name = source;
    if (name)
        CHECK(setenv("LINEPROFILER_CLOCK_WAIT", name, 1) == 0);
    recording_open_with(&recording, &(struct recording_options){.wait_detail = name != NULL, .no_cpu = false});
    struct lp_entry a = enter(&recording, "a");
    nap();
    leave(&a);
    struct waits waits = waits_now(&recording, "a");
    CHECK(!waits.blocked_known);
    CHECK(waits.preempted_known == (name && strcmp(name, "switches") == 0));
    recording_close(&recording);
}

/* Not measured is no zero. */
static void test_what_was_not_asked_is_not_there(void **state)
{
    (void)state;
    in_child(by_source, NULL);
    in_child(by_source, "off");
    in_child(by_source, "switches");
}

/* ---- descriptors, threads and forks -------------------------------------------------- */

static unsigned count_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void *enter_and_sleep(void *context)
{
    struct lp_entry entry = enter(context, "a");
    nap();
    leave(&entry);
    return NULL;
}

static void threads_end(void *context)
{
    static struct recording recording;
    pthread_t thread;
    (void)context;
    CHECK(setenv("LINEPROFILER_CLOCK_WAIT", "schedstat", 1) == 0);
    recording_open_with(&recording, &(struct recording_options){.wait_detail = true});
    unsigned before = count_descriptors();
    for (int i = 0; i < 10; i++) {
        CHECK(pthread_create(&thread, NULL, enter_and_sleep, &recording) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_U64(count_descriptors(), before);
    }
    json_t *document = recording_document(&recording);
    CANNOT_IF(!waits_at(document, "a").blocked_known);
    CHECK_U64(figures_at(document, "a").nodes, 1); /* all took over one slot */
    CHECK(waits_at(document, "a").blocked_ns >= 10000000);
    json_decref(document);
    enter_and_sleep(&recording);
    CHECK_U64(count_descriptors(), before + 1);
    lp_recorder_stop(&recording.recorder); /* as a profiler that is closed while its threads go on */
    CHECK_U64(count_descriptors(), before);
    recording_close(&recording);
}

static void test_threads_that_ended_have_left_no_descriptor(void **state)
{
    (void)state;
    in_child(threads_end, NULL);
}

static void forks(void *context)
{
    static struct recording recording;
    (void)context;
    CHECK(setenv("LINEPROFILER_CLOCK_WAIT", "schedstat", 1) == 0);
    unsigned before = count_descriptors();
    recording_open_with(&recording, &(struct recording_options){.wait_detail = true});
    unsigned open = count_descriptors();
    struct lp_entry a = enter(&recording, "a");
    CANNOT_IF(atomic_load(&self(&recording)->slot->wait_source) != LP_WAIT_SCHEDSTAT);
    CHECK_U64(count_descriptors(), open + 1);
    pid_t pid = recording_fork();
    if (pid == 0) {
        CHECK(count_descriptors() <= open);
        enter_and_sleep(&recording);
        struct waits waits = waits_now(&recording, "a");
        CHECK(waits.blocked_known && waits.blocked_ns >= 1000000);
        CHECK(waits.blocked_ns + waits.preempted_ns <= waits.wait_ns);
        recording_close(&recording);
        CHECK(count_descriptors() <= before + 1);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    nap();
    leave(&a);
    CHECK_U64(count_descriptors(), open + 1);
    CHECK(waits_now(&recording, "a").blocked_ns >= 1000000);
    recording_close(&recording);
    CHECK_U64(count_descriptors(), before);
}

static void test_parent_and_child_of_a_fork_go_on(void **state)
{
    (void)state;
    in_child(forks, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_is_open_is_billed),
        cmocka_unit_test(test_an_entry_that_has_ended_is_not_billed),
        cmocka_unit_test(test_what_was_put_off_is_of_those_who_were_open_throughout),
        cmocka_unit_test(test_what_passed_before_an_entry_is_its_parents),
        cmocka_unit_test(test_an_entry_that_another_thread_ended_is_not_measured),
        cmocka_unit_test(test_a_task_is_billed_for_what_it_ran),
        cmocka_unit_test(test_sampled_phases_are_scaled),
        cmocka_unit_test(test_parts_are_at_most_the_whole),
        cmocka_unit_test(test_what_was_not_asked_is_not_there),
        cmocka_unit_test(test_threads_that_ended_have_left_no_descriptor),
        cmocka_unit_test(test_parent_and_child_of_a_fork_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
