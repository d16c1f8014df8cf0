/*
 * Why a thread was off its core, against the kernel's own count: what is told as preempted grows as the thread's run-queue
 * delay does, and blocked is the rest, as long as it gave its core up by itself. How much either is depends on the machine
 * and who else works on it; that they agree does not.
 */
#include "support/support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "clock/cpu.h"

/* Allowed between our sums and the kernel's for each time that we were told: shorter times off the core are not asked
   about, and the two are not read at one moment. */
#define APART_NS (2 * LP_WAIT_LEAST_NS)

struct sums {
    struct lp_wait wait;
    struct lp_cpu cpu;
    uint64_t blocked_ns, preempted_ns, told, put_off, from_put_off;
};

struct kernel {
    uint64_t wall_ns, cpu_ns, delay_ns;
};

static void told(void *context, const struct lp_wait_split *split)
{
    struct sums *sums = context;
    sums->blocked_ns += split->blocked_ns;
    sums->preempted_ns += split->preempted_ns;
    sums->told += !split->begins_put_off;
    sums->put_off += split->begins_put_off;
    sums->from_put_off += split->put_off;
}

static void begin(struct sums *sums, const char *source, enum lp_wait_source expected)
{
    if (source)
        CHECK(setenv("LINEPROFILER_CLOCK_WAIT", source, 1) == 0);
    else
        CHECK(unsetenv("LINEPROFILER_CLOCK_WAIT") == 0);
    lp_cpu_open();
    memset(sums, 0, sizeof *sums);
    lp_cpu_init(&sums->cpu, LP_CPU_OF_RECORDER);
    enum lp_wait_source found = lp_wait_begin(&sums->wait, told, sums);
    CANNOT_IF(expected == LP_WAIT_SCHEDSTAT && access("/proc/thread-self/schedstat", R_OK) != 0);
    CHECK_U64(found, expected);
    sums->cpu.wait = &sums->wait;
    lp_cpu_read(&sums->cpu, LP_EDGE_ENTER);
}

static struct kernel kernel_now(void)
{
    struct kernel now = {.wall_ns = clock_now_ns(CLOCK_MONOTONIC), .cpu_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID)};
    unsigned long long ran_ns, delay_ns;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    CHECK(file && fscanf(file, "%llu %llu", &ran_ns, &delay_ns) == 2);
    fclose(file);
    now.delay_ns = delay_ns;
    return now;
}

static void pin(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

static pid_t be_busy_beside(void)
{
    pid_t parent = getpid(), pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent)
            burn_turns(100000);
        _exit(0);
    }
    return pid;
}

static void end_busy(pid_t pid)
{
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

/* Uses a millisecond of CPU time a turn, until the thread has found no core for 20 ms in all. */
static void run_short_of_cores(struct sums *sums)
{
    for (uint64_t from_ns = kernel_now().delay_ns; kernel_now().delay_ns - from_ns < 20000000;) {
        uint64_t until_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) + 1000000;
        while (clock_now_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns)
            lp_cpu_read(&sums->cpu, LP_EDGE_LEAVE);
    }
}

static void sleep_often(struct sums *sums)
{
    for (int i = 0; i < 20; i++) {
        const struct timespec nap = {.tv_nsec = 1000000};
        lp_cpu_read(&sums->cpu, LP_EDGE_ENTER);
        nanosleep(&nap, NULL);
        lp_cpu_read(&sums->cpu, LP_EDGE_LEAVE);
    }
}

static void sleep_and_run_short(struct sums *sums)
{
    sleep_often(sums);
    run_short_of_cores(sums);
    sleep_often(sums);
}

/* The kernel's counts around what we are told of, and inside of it. */
struct bounds {
    struct kernel outer_from, inner_from, inner_to, outer_to;
};

static void bounds_begin(struct bounds *bounds, struct sums *sums)
{
    bounds->outer_from = kernel_now();
    lp_cpu_read(&sums->cpu, LP_EDGE_LEAVE);
    sums->told = sums->blocked_ns = sums->preempted_ns = 0;
    bounds->inner_from = kernel_now();
}

static void bounds_end(struct bounds *bounds, struct sums *sums)
{
    bounds->inner_to = kernel_now();
    lp_cpu_read(&sums->cpu, LP_EDGE_LEAVE);
    bounds->outer_to = kernel_now();
}

static void check_against_kernel(const struct sums *sums, const struct bounds *bounds)
{
    const struct kernel *from = &bounds->outer_from, *to = &bounds->outer_to;
    uint64_t off_ns = to->wall_ns - from->wall_ns - (to->cpu_ns - from->cpu_ns);
    uint64_t delay_ns = bounds->inner_to.delay_ns - bounds->inner_from.delay_ns;
    uint64_t most_ns = to->delay_ns - from->delay_ns, apart_ns = APART_NS * (sums->told + 1);
    if (sums->preempted_ns > most_ns + apart_ns || sums->preempted_ns + apart_ns < delay_ns / 10 * 9 ||
        sums->blocked_ns + sums->preempted_ns > off_ns + apart_ns)
        dprintf(2, "told %llu times: blocked %llu, preempted %llu; kernel: off %llu, delay %llu to %llu\n",
                (unsigned long long)sums->told, (unsigned long long)sums->blocked_ns,
                (unsigned long long)sums->preempted_ns, (unsigned long long)off_ns, (unsigned long long)delay_ns,
                (unsigned long long)most_ns);
    CHECK(sums->told > 0);
    CHECK(sums->preempted_ns <= most_ns + apart_ns);
    CHECK(sums->preempted_ns + apart_ns >= delay_ns / 10 * 9);
    CHECK(sums->blocked_ns + sums->preempted_ns <= off_ns + apart_ns);
}

static void check_schedstat(void *doing)
{
    static struct sums sums;
    struct bounds bounds;
    pin();
    pid_t other = doing == (void *)sleep_often ? 0 : be_busy_beside();
    begin(&sums, "schedstat", LP_WAIT_SCHEDSTAT);
    bounds_begin(&bounds, &sums);
    ((void (*)(struct sums *))doing)(&sums);
    bounds_end(&bounds, &sums);
    if (other)
        end_busy(other);
    check_against_kernel(&sums, &bounds);
    if (doing == (void *)run_short_of_cores)
        CHECK(sums.preempted_ns > 10 * sums.blocked_ns);
    else
        CHECK(sums.blocked_ns > 15000000); /* of at least 20 ms asleep */
    lp_wait_end(&sums.wait);
}

/* A thread that shares its core with a busy one, and gives it up at no time. */
static void test_short_of_cores(void **state)
{
    (void)state;
    in_child(check_schedstat, (void *)run_short_of_cores);
}

static void test_asleep(void **state)
{
    (void)state;
    in_child(check_schedstat, (void *)sleep_often);
}

static void test_both(void **state)
{
    (void)state;
    in_child(check_schedstat, (void *)sleep_and_run_short);
}

/* ---- where schedstat cannot be had ------------------------------------------------ */

static void check_switches(void *context)
{
    static struct sums sums;
    (void)context;
    pin();
    pid_t other = be_busy_beside();
    begin(&sums, "switches", LP_WAIT_SWITCHES);
    CHECK(atomic_load(&sums.wait.fd) < 0);
    struct bounds bounds;
    bounds_begin(&bounds, &sums);
    sleep_often(&sums);
    CHECK_U64(sums.blocked_ns,
              0); /* after a sleep it may have waited for a core too: which was how long is not known */
    run_short_of_cores(&sums);
    bounds_end(&bounds, &sums);
    end_busy(other);
    CHECK(sums.preempted_ns > 0);
    CHECK(sums.preempted_ns <= bounds.outer_to.delay_ns - bounds.outer_from.delay_ns + APART_NS * (sums.told + 1));
    CHECK_U64(sums.blocked_ns, 0);
}

static void test_switches_tell_what_was_preempted_only(void **state)
{
    (void)state;
    in_child(check_switches, NULL);
}

static void check_off(void *context)
{
    static struct sums sums;
    (void)context;
    begin(&sums, "off", LP_WAIT_OFF);
    sleep_often(&sums);
    CHECK_U64(sums.told + sums.put_off, 0);
}

static void test_off(void **state)
{
    (void)state;
    in_child(check_off, NULL);
}

/* ---- the budget ---------------------------------------------------------------------- */

static void *echo(void *context)
{
    const int *fds = context;
    for (char byte; read(fds[0], &byte, 1) == 1;)
        CHECK(write(fds[1], &byte, 1) == 1);
    return NULL;
}

/* A thread that blocks all the time cannot ask each time: it hears later, and of no more time than it was away. */
static void check_budget(void *context)
{
    static struct sums sums;
    int there[2], back[2];
    char byte = 0;
    pthread_t other;
    (void)context;
    pin();
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    int ends[2] = {there[0], back[1]};
    CHECK(pthread_create(&other, NULL, echo, ends) == 0);
    begin(&sums, NULL, LP_WAIT_SCHEDSTAT);
    struct kernel from = kernel_now();
    uint64_t blocks = 0;
    for (; sums.from_put_off < 2; blocks++) {
        CHECK(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1);
        lp_cpu_read(&sums.cpu, LP_EDGE_LEAVE);
    }
    struct kernel to = kernel_now();
    CHECK(sums.told < blocks / 2);
    CHECK(sums.blocked_ns + sums.preempted_ns <= to.wall_ns - from.wall_ns - (to.cpu_ns - from.cpu_ns) + APART_NS);
    CHECK(sums.put_off == sums.from_put_off);
    close(there[1]);
    CHECK(pthread_join(other, NULL) == 0);
}

static void test_who_asks_too_often_puts_it_off(void **state)
{
    (void)state;
    in_child(check_budget, NULL);
}

/* ---- descriptors ------------------------------------------------------------------- */

static unsigned count_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void check_host_closes(void *context)
{
    static struct sums sums;
    char byte = 0;
    struct stat st, after;
    (void)context;
    begin(&sums, "schedstat", LP_WAIT_SCHEDSTAT);
    int number = atomic_load(&sums.wait.fd), fds[2];
    CHECK(number > 2);
    CHECK(fcntl(number, F_GETFD) == FD_CLOEXEC);
    sleep_often(&sums);
    uint64_t told_before = sums.told;
    CHECK(told_before > 0);
    /* The host closes all that it does not know, and its next files get the numbers: this one must not be read. */
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    CHECK(pipe(fds) == 0 && write(fds[1], &byte, 1) == 1);
    for (int fd = fds[1] + 1; fd <= number; fd++)
        CHECK(dup2(fds[0], fd) == fd);
    CHECK(fstat(number, &st) == 0 && S_ISFIFO(st.st_mode));
    sleep_often(&sums);
    CHECK_U64(sums.told, told_before); /* not measured */
    CHECK(fstat(number, &after) == 0 && after.st_ino == st.st_ino);
    CHECK(read(fds[0], &byte, 1) == 1);
    /* A second later it is opened anew; what passed meanwhile is billed to nobody. */
    struct bounds bounds;
    sums.wait.reopen_ns = 0;
    sleep_often(&sums); /* the first of these */
    bounds_begin(&bounds, &sums);
    sleep_often(&sums);
    bounds_end(&bounds, &sums);
    check_against_kernel(&sums, &bounds);
    CHECK(atomic_load(&sums.wait.fd) > 2 && atomic_load(&sums.wait.fd) != number);
    lp_wait_end(&sums.wait);
    lp_wait_end(&sums.wait);
    CHECK(fstat(number, &after) == 0 && after.st_ino == st.st_ino);
}

static void test_a_host_that_closes_all_descriptors(void **state)
{
    (void)state;
    in_child(check_host_closes, NULL);
}

static void check_none_is_left(void *context)
{
    static struct sums sums;
    (void)context;
    unsigned before = count_descriptors();
    for (int i = 0; i < 3; i++) {
        begin(&sums, "schedstat", LP_WAIT_SCHEDSTAT);
        CHECK_U64(count_descriptors(), before + 1);
        lp_wait_end(&sums.wait);
        sleep_often(&sums); /* a reading after the end opens nothing */
        CHECK_U64(count_descriptors(), before);
    }
    begin(&sums, "schedstat", LP_WAIT_SCHEDSTAT);
    pid_t pid = fork();
    if (pid == 0) {
        lp_wait_forget(&sums.wait);
        CHECK_U64(count_descriptors(), before);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK_U64(count_descriptors(), before + 1);
}

static void test_none_is_left(void **state)
{
    (void)state;
    in_child(check_none_is_left, NULL);
}

static void check_few(void *context)
{
    static struct sums sums[3];
    const struct rlimit few = {32, 32};
    (void)context;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    unsigned before = count_descriptors();
    begin(&sums[0], NULL, LP_WAIT_SCHEDSTAT);
    begin(&sums[1], NULL, LP_WAIT_SCHEDSTAT);
    begin(&sums[2], NULL, LP_WAIT_SWITCHES); /* the third would be one too many for this host */
    CHECK_U64(count_descriptors(), before + 2);
    lp_wait_end(&sums[0].wait);
    begin(&sums[2], NULL, LP_WAIT_SCHEDSTAT);
}

static void test_a_host_with_few_descriptors(void **state)
{
    (void)state;
    in_child(check_few, NULL);
}

static void check_low_numbers(void *context)
{
    static struct sums sums;
    (void)context;
    int kept = dup(0);
    for (int fd = 0; fd < 2; fd++)
        CHECK(close(fd) == 0);
    begin(&sums, NULL, LP_WAIT_SCHEDSTAT);
    CHECK(fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0);
    CHECK(atomic_load(&sums.wait.fd) > 2 && kept > 2);
}

static void test_never_a_standard_stream(void **state)
{
    (void)state;
    in_child(check_low_numbers, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_of_cores),
        cmocka_unit_test(test_asleep),
        cmocka_unit_test(test_both),
        cmocka_unit_test(test_switches_tell_what_was_preempted_only),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_who_asks_too_often_puts_it_off),
        cmocka_unit_test(test_a_host_that_closes_all_descriptors),
        cmocka_unit_test(test_none_is_left),
        cmocka_unit_test(test_a_host_with_few_descriptors),
        cmocka_unit_test(test_never_a_standard_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
