/* What a process uses, held against what the test does. */
#include "support/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "process/usage.h"

#define PAGES 4000u
#define THREADS 40

static struct lp_usage usage_now(void)
{
    struct lp_usage usage;
    lp_usage_read(&usage);
    return usage;
}

/* Each in a child, where nothing else happens. */

static void memory_is_faulted_in(void *context)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = PAGES * page;
    (void)context;
    char *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(block != MAP_FAILED && madvise(block, bytes, MADV_NOHUGEPAGE) == 0);
    struct lp_usage before = usage_now();
    for (size_t at = 0; at < bytes; at += page)
        block[at] = 1;
    struct lp_usage after = usage_now();
    CHECK(after.minor_faults - before.minor_faults >= PAGES);
    CHECK(after.minor_faults - before.minor_faults < PAGES + 200);
    CHECK(after.rss_bytes > before.rss_bytes && after.rss_bytes - before.rss_bytes >= bytes - (1u << 20));
    CHECK(after.rss_bytes - before.rss_bytes <= bytes + (1u << 20));
    CHECK(munmap(block, bytes) == 0);
    CHECK(usage_now().rss_bytes < after.rss_bytes - bytes / 2);
    CHECK(usage_now().minor_faults >= after.minor_faults); /* only grows */
}

static void test_memory_is_faulted_in(void **state)
{
    (void)state;
    if (LP_TEST_TSAN || LP_TEST_ASAN) /* they have memory of their own for each byte of ours */
        skip();
    in_child(memory_is_faulted_in, NULL);
}

/* A file that is mapped and not in memory. */
static void pages_are_read_from_disk(void *context)
{
    char path[] = "/var/tmp/lp-test-XXXXXX";
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 64 * page;
    (void)context;
    int fd = mkstemp(path);
    CANNOT_IF(fd < 0);
    unlink(path);
    char *block = calloc(1, bytes);
    CANNOT_IF(write(fd, block, bytes) != (ssize_t)bytes || fsync(fd) != 0);
    CANNOT_IF(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0);
    volatile char *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    CANNOT_IF(mapped == MAP_FAILED);
    unsigned char there[64];
    CANNOT_IF(mincore((void *)(uintptr_t)mapped, bytes, there) != 0 || there[0] & 1);
    struct lp_usage before = usage_now();
    for (size_t at = 0; at < bytes; at += page)
        (void)mapped[at];
    CHECK(usage_now().major_faults > before.major_faults);
    free(block);
}

static void test_pages_are_read_from_disk(void **state)
{
    (void)state;
    in_child(pages_are_read_from_disk, NULL);
}

static void cpu_time_is_that_of_all_threads(void *context)
{
    (void)context;
    struct lp_usage before = usage_now();
    uint64_t from_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID);
    burn_turns(20000000);
    uint64_t to_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID);
    struct lp_usage after = usage_now();
    CHECK(after.cpu_ns + 2000 - before.cpu_ns >= to_ns - from_ns); /* this one, of whole us, lies around the other */
    CHECK(before.cpu_ns <= from_ns && after.cpu_ns + 2000 >= to_ns);
}

static void test_cpu_time_is_that_of_all_threads(void **state)
{
    (void)state;
    in_child(cpu_time_is_that_of_all_threads, NULL);
}

static pthread_barrier_t all_there, all_may_go;

static void *wait_there(void *unused)
{
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&all_may_go);
    return unused;
}

static void threads_are_counted(void *context)
{
    pthread_t threads[THREADS];
    uint64_t tids[THREADS + 8];
    (void)context;
    pthread_barrier_init(&all_there, NULL, THREADS + 1);
    pthread_barrier_init(&all_may_go, NULL, THREADS + 1);
    uint64_t alone = usage_now().threads;
    CHECK_U64(alone, 1);
    struct lp_usage before = usage_now();
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, wait_there, NULL) == 0);
    pthread_barrier_wait(&all_there);
    CHECK_U64(usage_now().threads, alone + THREADS);
    CHECK_U64(lp_tasks_read(tids, THREADS + 8), alone + THREADS);
    CHECK_U64(lp_tasks_read(tids, THREADS), 0); /* too many: none rather than some */
    bool self = false;
    lp_tasks_read(tids, THREADS + 8);
    for (uint64_t i = 0; i < alone + THREADS; i++)
        self |= tids[i] == (uint64_t)gettid();
    CHECK(self);
    pthread_barrier_wait(&all_may_go);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    /* Each has waited: their switches stay counted when they have ended. */
    CHECK(usage_now().voluntary_switches >= before.voluntary_switches + THREADS);
}

static void test_threads_are_counted(void **state)
{
    (void)state;
    if (LP_TEST_TSAN) /* it starts a thread of its own at some time */
        skip();
    in_child(threads_are_counted, NULL);
}

static void descriptors_are_counted(void *context)
{
    struct rlimit limit;
    (void)context;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max < 6000 ? limit.rlim_max : 6000;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    uint64_t before = usage_now().open_files, opened = 0;
    CHECK_U64(before, (uint64_t)folder_each("/proc/self/fd", NULL, NULL) - 1); /* not that of the listing */
    while (opened < 5000 && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        opened++;
    CANNOT_IF(opened < 100);
    uint64_t after = usage_now().open_files;
    CHECK(after == before + opened || (opened > 4000 && after == LP_USAGE_UNKNOWN));
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) /* until there is none */
        continue;
    struct lp_usage none_left = usage_now();
    /* Which newer kernels tell all the same. */
    CHECK(none_left.open_files == limit.rlim_cur || none_left.open_files == LP_USAGE_UNKNOWN);
    CHECK_U64(none_left.rss_bytes, LP_USAGE_UNKNOWN);
    CHECK(none_left.threads != LP_USAGE_UNKNOWN && none_left.cpu_ns != LP_USAGE_UNKNOWN);
    uint64_t tids[8];
    CHECK_U64(lp_tasks_read(tids, 8), 0);
}

static void test_descriptors_are_counted(void **state)
{
    (void)state;
    in_child(descriptors_are_counted, NULL);
}

static void without_proc(void *context)
{
    (void)context;
    mounts_enter();
    mounts_tmpfs("/proc", "size=4k");
    struct lp_usage usage = usage_now();
    CHECK_U64(usage.rss_bytes, LP_USAGE_UNKNOWN);
    CHECK_U64(usage.threads, LP_USAGE_UNKNOWN);
    CHECK_U64(usage.open_files, LP_USAGE_UNKNOWN);
    CHECK(usage.cpu_ns != LP_USAGE_UNKNOWN && usage.minor_faults != LP_USAGE_UNKNOWN);
    CHECK_U64(lp_run_delay_ns((uint64_t)gettid()), LP_USAGE_UNKNOWN);
}

static void test_without_proc(void **state)
{
    (void)state;
    in_child(without_proc, NULL);
}

static void as_nobody_not_dumpable(void *context)
{
    (void)context;
    CANNOT_IF(setgid(65534) != 0 || setuid(65534) != 0);
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    struct lp_usage usage = usage_now();
    uint64_t there = (uint64_t)folder_each("/proc/self/fd", NULL, NULL); /* kernels differ in whether one may look */
    CHECK_U64(usage.open_files, there ? there - 1 : LP_USAGE_UNKNOWN);
    CHECK(usage.rss_bytes != LP_USAGE_UNKNOWN && usage.rss_bytes > 0);
    CHECK(usage.threads != LP_USAGE_UNKNOWN);
}

static void test_as_nobody_not_dumpable(void **state)
{
    (void)state;
    in_child(as_nobody_not_dumpable, NULL);
}

/* Two that want one core: at least one of them has to wait for it. */
static _Atomic uint64_t burner_tid;
static _Atomic bool enough;

static void *burn_on(void *unused)
{
    atomic_store(&burner_tid, (uint64_t)gettid());
    while (!atomic_load(&enough))
        burn_turns(1000);
    return unused;
}

static void who_finds_no_core_waits(void *context)
{
    cpu_set_t one;
    pthread_t threads[2];
    (void)context;
    CANNOT_IF(sched_getaffinity(0, sizeof one, &one) != 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &one))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CANNOT_IF(sched_setaffinity(0, sizeof one, &one) != 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, burn_on, NULL) == 0);
    while (atomic_load(&burner_tid) == 0)
        pause_ms(1);
    uint64_t before = lp_run_delay_ns(atomic_load(&burner_tid));
    CANNOT_IF(before == LP_USAGE_UNKNOWN);
    while (lp_run_delay_ns(atomic_load(&burner_tid)) < before + 10000000)
        pause_ms(5);
    atomic_store(&enough, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_U64(lp_run_delay_ns(atomic_load(&burner_tid)), LP_USAGE_UNKNOWN);
}

static void test_who_finds_no_core_waits(void **state)
{
    (void)state;
    in_child(who_finds_no_core_waits, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_faulted_in),
        cmocka_unit_test(test_pages_are_read_from_disk),
        cmocka_unit_test(test_cpu_time_is_that_of_all_threads),
        cmocka_unit_test(test_threads_are_counted),
        cmocka_unit_test(test_descriptors_are_counted),
        cmocka_unit_test(test_without_proc),
        cmocka_unit_test(test_as_nobody_not_dumpable),
        cmocka_unit_test(test_who_finds_no_core_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
