/*
 * The thread CPU clock in each of its modes against the kernel's: every reading lies between two of
 * CLOCK_THREAD_CPUTIME_ID, but for ALLOWED_NS.
 *
 * One thing no mode but plain can see at once: time during which the thread neither ran nor was switched away, because
 * the hypervisor took the processor (steal) or, on some kernels, because interrupts are not charged to the thread. It is
 * told apart by the kernel's own clocks: while the thread's count of switches stays the same, wall time that its CPU
 * clock did not follow was taken that way. Such time may show as CPU time until the real clock is read again, a
 * millisecond later, and then at most until the real clock has caught up; so it is allowed on top, and nothing else is.
 */
#include "support/support.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "clock/cpu.h"

#define ALLOWED_NS 5000u

struct moment {
    uint64_t wall_ns, cpu_ns;
    long switches;
};

static long switches_so_far(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

static uint64_t cpu_now_ns(void)
{
    return clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* A thread's clock under test, and what is known of it. */
struct probe {
    struct lp_cpu cpu;
    struct moment last;
    uint64_t taken_ns; /* that no switch explains, since a reading was exact */
    uint64_t last_cpu_ns;
    uint64_t readings;
};

static struct moment moment_now(void)
{
    struct moment now = {.switches = switches_so_far()};
    now.wall_ns = clock_now_ns(CLOCK_MONOTONIC);
    now.cpu_ns = cpu_now_ns();
    return now;
}

/* Time taken from the thread since the last moment that was looked at; where it was switched away meanwhile, that is not
   known, and 0 or, if it is to be the most, all the time away. */
static uint64_t taken_until(struct probe *probe, const struct moment *now, bool most)
{
    uint64_t wall_ns = now->wall_ns - probe->last.wall_ns, cpu_ns = now->cpu_ns - probe->last.cpu_ns;
    bool known = now->switches == probe->last.switches;
    probe->last = *now;
    return (known || most) && wall_ns > cpu_ns ? wall_ns - cpu_ns : 0;
}

static void probe_init(struct probe *probe)
{
    *probe = (struct probe){0};
    lp_cpu_init(&probe->cpu, LP_CPU_OF_RECORDER);
    probe->last = moment_now();
}

static void probe_read(struct probe *probe)
{
    struct moment before = moment_now();
    probe->taken_ns += taken_until(probe, &before, false);
    uint64_t from_ns = cpu_now_ns();
    struct lp_reading now = lp_cpu_read(&probe->cpu, probe->readings++ % 2 ? LP_EDGE_LEAVE : LP_EDGE_ENTER);
    uint64_t to_ns = cpu_now_ns();
    struct moment after = moment_now();
    uint64_t just_taken_ns = taken_until(probe, &after, true);
    probe->taken_ns += just_taken_ns;

    uint64_t off_ns = now.cpu_ns < from_ns ? from_ns - now.cpu_ns : now.cpu_ns > to_ns ? now.cpu_ns - to_ns : 0;
    uint64_t allowed_ns = lp_cpu_mode() == LP_CPU_PLAIN ? 0 : ALLOWED_NS + probe->taken_ns;
    if (off_ns > allowed_ns)
        dprintf(2, "reading %llu is %lld ns off, %llu ns were taken away\n", (unsigned long long)probe->readings,
                (long long)(now.cpu_ns < from_ns ? -(int64_t)off_ns : (int64_t)off_ns),
                (unsigned long long)probe->taken_ns);
    CHECK(off_ns <= allowed_ns);
    CHECK(now.cpu_ns >= probe->last_cpu_ns);
    if (off_ns <= ALLOWED_NS / 2)
        probe->taken_ns = just_taken_ns; /* perhaps after the reading */
    probe->last_cpu_ns = now.cpu_ns;
}

/* ---- what a thread may do between readings ---------------------------------- */

static void *be_busy(void *context)
{
    struct probe probe;
    uint64_t seed = (uint64_t)(uintptr_t)context;
    probe_init(&probe);
    uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + 300000000;
    do {
        probe_read(&probe);
        burn_turns(random_next(&seed) % 4096 * (random_next(&seed) % 64 == 0 ? 256 : 1));
    } while (clock_now_ns(CLOCK_MONOTONIC) < until_ns);
    return NULL;
}

static void be_busy_alone(void)
{
    be_busy((void *)(uintptr_t)1);
}

static void be_more_than_the_cores(void)
{
    pthread_t threads[8];
    for (uintptr_t i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, be_busy, (void *)(i + 2)) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void sleep_and_work(void)
{
    struct probe probe;
    uint64_t seed = 3;
    probe_init(&probe);
    for (int i = 0; i < 1500; i++) {
        const struct timespec nap = {.tv_nsec = (long)(random_next(&seed) % (i % 16 ? 60000 : 2000000))};
        probe_read(&probe);
        nanosleep(&nap, NULL);
        probe_read(&probe);
        burn_turns(random_next(&seed) % 3000);
    }
}

static void *answer(void *context)
{
    const int *fds = context;
    for (char byte; read(fds[0], &byte, 1) == 1;)
        CHECK(write(fds[1], &byte, 1) == 1);
    return NULL;
}

static void block_often(void)
{
    struct probe probe;
    int there[2], back[2];
    pthread_t thread;
    char byte = 'x';
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    int fds[] = {there[0], back[1]};
    CHECK(pthread_create(&thread, NULL, answer, fds) == 0);
    probe_init(&probe);
    for (int i = 0; i < 10000; i++) {
        CHECK(write(there[1], &byte, 1) == 1);
        probe_read(&probe);
        CHECK(read(back[0], &byte, 1) == 1);
        probe_read(&probe);
    }
    close(there[1]);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Another user of the area, as some allocators are: its sections look as the kernel wants them. */
static void share_the_area(void)
{
    static struct {
        unsigned char bytes[32];
    } __attribute__((aligned(32))) others;
    struct probe probe;
    probe_init(&probe);
    probe_read(&probe);
    if (lp_cpu_mode() == LP_CPU_PLAIN)
        return;
    memcpy(&others, (const void *)(uintptr_t)probe.cpu.token, sizeof others);
    for (int i = 0; i < 2000; i++) {
        atomic_store(probe.cpu.token_slot, i % 2 ? (uint64_t)(uintptr_t)&others : 0);
        if (i % 16 == 0)
            pause_ms(1); /* switched away while the other's section stands */
        else
            burn_turns(1000);
        probe_read(&probe);
    }
}

/* Two recorders on one thread: what one has seen, the other has not. */
static void read_by_turns(void)
{
    static int turn;
    struct probe probes[2];
    turn++;
    probe_init(&probes[0]);
    probe_init(&probes[1]);
    lp_cpu_init(&probes[1].cpu, turn % 2 ? LP_CPU_OF_LINES : LP_CPU_OF_RECORDER);
    for (int i = 0; i < 200; i++) {
        probe_read(&probes[0]);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        probe_read(&probes[1]);
        probe_read(&probes[0]);
        burn_turns(1000);
    }
}

static void (*const doings[])(void) = {be_busy_alone,          sleep_and_work, block_often,
                                       be_more_than_the_cores, share_the_area, read_by_turns};

static void check_mode(void *context)
{
    const char *mode = context;
    CHECK(setenv("LINEPROFILER_CLOCK_CPU", mode, 1) == 0);
    lp_cpu_open();
    CANNOT_IF(strcmp(lp_cpu_mode_name(), mode) != 0); /* no area: only plain is possible */
    for (size_t i = 0; i < sizeof doings / sizeof *doings; i++)
        doings[i]();
    CHECK(strcmp(lp_cpu_mode_name(), mode) == 0);
}

/* A machine may take time from a thread in ways that neither clock shows at once: steal, interrupts. A fault shows each
   time. */
static void right_in_the_end(void (*body)(void *), void *context)
{
    int status = 1;
    for (int i = 0; i < 3 && status != 0; i++)
        status = run_child(body, context);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
        skip();
    assert_int_equal(status, 0);
}

static void test_token(void **state)
{
    (void)state;
    right_in_the_end(check_mode, "token");
}

static void test_bounded(void **state)
{
    (void)state;
    right_in_the_end(check_mode, "bounded");
}

static void test_plain(void **state)
{
    (void)state;
    in_child(check_mode, "plain");
}

static void check_with_vdso(void *context)
{
    CHECK(setenv("LINEPROFILER_CLOCK_WALL", "vdso", 1) == 0);
    check_mode(context);
}

static void test_token_without_the_tsc(void **state)
{
    (void)state;
    right_in_the_end(check_with_vdso, "token");
}

/* FK15: the clock begins at zero in a child, where a token copied from the parent must prove nothing. */
static void read_in_grandchild(void *context)
{
    (void)context;
    be_busy_alone();
}

static void check_after_fork(void *context)
{
    struct probe probe;
    CHECK(setenv("LINEPROFILER_CLOCK_CPU", "token", 1) == 0);
    (void)context;
    lp_cpu_open();
    probe_init(&probe);
    burn_turns(1000000);
    probe_read(&probe);
    CHECK(run_child(read_in_grandchild, NULL) == 0);
    probe_read(&probe);
}

static void test_a_forked_child_begins_at_zero(void **state)
{
    (void)state;
    right_in_the_end(check_after_fork, NULL);
}

/* ---- the choice of the mode -------------------------------------------------- */

static void prove(void *context)
{
    (void)context;
    CHECK(unsetenv("LINEPROFILER_CLOCK_CPU") == 0);
    CHECK(lp_cpu_mode() == LP_CPU_PLAIN); /* before the choice */
    lp_cpu_open();
    CANNOT_IF(lp_cpu_mode() == LP_CPU_PLAIN);
    CHECK(lp_cpu_mode() == LP_CPU_BOUNDED);
    lp_cpu_prove();
    CHECK(lp_cpu_mode() == LP_CPU_TOKEN);
    CHECK(strcmp(lp_cpu_mode_name(), "token") == 0);
    for (size_t i = 0; i < sizeof doings / sizeof *doings; i++)
        doings[i]();
}

/* Up to Linux 6.18 each switch clears the token. Later ones may keep it, and then the proof must fail. */
static bool kernel_clears_always(void)
{
    struct utsname name;
    unsigned major, minor;
    assert_int_equal(uname(&name), 0);
    return sscanf(name.release, "%u.%u", &major, &minor) == 2 && (major < 6 || (major == 6 && minor < 19));
}

static void test_the_token_is_proven_where_the_kernel_clears_it(void **state)
{
    (void)state;
    if (!kernel_clears_always()) {
        print_message("this kernel may keep the token over a sleep\n");
        skip();
    }
    right_in_the_end(prove, NULL);
}

static void do_not_prove(void *context)
{
    CHECK(setenv("LINEPROFILER_CLOCK_CPU", context, 1) == 0);
    lp_cpu_open();
    lp_cpu_prove();
    CHECK(lp_cpu_mode() == LP_CPU_PLAIN || strcmp(lp_cpu_mode_name(), context) == 0);
}

static void test_a_forced_mode_stays(void **state)
{
    (void)state;
    in_child(do_not_prove, "bounded");
    in_child(do_not_prove, "plain");
    in_child(do_not_prove, "token");
}

static void *prove_elsewhere(void *context)
{
    lp_cpu_prove();
    return context;
}

static void change_mode(void *context)
{
    struct probe probe;
    pthread_t thread;
    (void)context;
    CHECK(unsetenv("LINEPROFILER_CLOCK_CPU") == 0);
    lp_cpu_open();
    probe_init(&probe);
    CHECK(pthread_create(&thread, NULL, prove_elsewhere, NULL) == 0);
    for (int i = 0; i < 100000 || lp_cpu_mode() == LP_CPU_BOUNDED; i++) {
        probe_read(&probe);
        if (i > 100000 && pthread_tryjoin_np(thread, NULL) == 0)
            return;
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

static void test_readings_stay_right_while_the_mode_changes(void **state)
{
    (void)state;
    right_in_the_end(change_mode, NULL);
}

/* ---- other threads' clocks --------------------------------------------------- */

static void test_the_clock_of_a_thread_by_its_number(void **state)
{
    uint64_t before = cpu_now_ns(), now = 0;
    (void)state;
    assert_true(lp_cpu_of_thread((uint64_t)gettid(), &now));
    uint64_t after = cpu_now_ns();
    assert_in_range(now, before, after);
    assert_false(lp_cpu_of_thread(0x3fffff, &now)); /* no such thread in this process */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_token_without_the_tsc),
        cmocka_unit_test(test_a_forked_child_begins_at_zero),
        cmocka_unit_test(test_the_token_is_proven_where_the_kernel_clears_it),
        cmocka_unit_test(test_a_forced_mode_stays),
        cmocka_unit_test(test_readings_stay_right_while_the_mode_changes),
        cmocka_unit_test(test_the_clock_of_a_thread_by_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
