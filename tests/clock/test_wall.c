/*
 * The wall clock against CLOCK_MONOTONIC: every reading lies between two of the kernel's, but for the error that the map
 * is allowed (wall.h): well under a microsecond while the kernel's clock runs evenly.
 */
#include "support/support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "clock/wall.h"

#define ALLOWED_NS 500u
#define THREADS 3

/* In place of libc's: the kernel's clock, some time behind. A machine that is suspended, or moved, looks so. */
static _Atomic int64_t lag_ns;
static int (*kernels_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void find_kernels_clock(void)
{
    kernels_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = kernels_clock ? kernels_clock(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
    int64_t lag = atomic_load_explicit(&lag_ns, memory_order_relaxed);
    if (!failed && clock == CLOCK_MONOTONIC && lag != 0) {
        int64_t ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec - lag;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return failed;
}

static uint64_t monotonic_ns(void)
{
    return clock_now_ns(CLOCK_MONOTONIC);
}

/* How far a reading lies outside its brackets. */
static uint64_t error_of_one_reading(void)
{
    uint64_t before = monotonic_ns();
    uint64_t now = lp_wall_ns();
    uint64_t after = monotonic_ns();
    return now < before ? before - now : now > after ? now - after : 0;
}

struct reader {
    pthread_t thread;
    uint64_t until_ns, worst_ns;
};

static void *read_until(void *context)
{
    struct reader *reader = context;
    do {
        for (int i = 0; i < 200; i++) {
            uint64_t error = error_of_one_reading();
            reader->worst_ns = error > reader->worst_ns ? error : reader->worst_ns;
        }
    } while (monotonic_ns() < reader->until_ns);
    return NULL;
}

static void check_for(uint64_t ns, uint64_t allowed_ns)
{
    struct reader readers[THREADS];
    uint64_t until_ns = monotonic_ns() + ns;
    for (int i = 0; i < THREADS; i++) {
        readers[i] = (struct reader){.until_ns = until_ns};
        CHECK(pthread_create(&readers[i].thread, NULL, read_until, &readers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(readers[i].thread, NULL) == 0);
        if (readers[i].worst_ns > allowed_ns)
            dprintf(2, "a reading was %llu ns off\n", (unsigned long long)readers[i].worst_ns);
        CHECK(readers[i].worst_ns <= allowed_ns);
    }
}

/* A second has the vDSO at its beginning, the first short piece, and ten of full length. */
static void read_by_the_default(void *context)
{
    (void)context;
    lp_wall_open();
    check_for(1200000000, ALLOWED_NS);
    CHECK(lp_wall_jumps() == 0);
}

static void test_readings_follow_the_kernel(void **state)
{
    (void)state;
    in_child(read_by_the_default, NULL);
}

static void read_by_the_vdso(void *context)
{
    (void)context;
    CHECK(setenv("LINEPROFILER_CLOCK_WALL", "vdso", 1) == 0);
    lp_wall_open();
    CHECK(lp_wall_source() == LP_WALL_VDSO);
    CHECK(strcmp(lp_wall_source_name(), "vdso") == 0);
    check_for(200000000, 0);
}

static void test_the_vdso_can_be_forced(void **state)
{
    (void)state;
    in_child(read_by_the_vdso, NULL);
}

static void read_unopened(void *context)
{
    (void)context;
    CHECK(error_of_one_reading() == 0);
    CHECK(lp_wall_source() == LP_WALL_VDSO);
}

static void test_readings_before_opening_come_from_the_vdso(void **state)
{
    (void)state;
    in_child(read_unopened, NULL);
}

/* Makes the map serve: the first piece needs a base of two milliseconds. */
static void wait_for_a_piece(void)
{
    while (atomic_load(&lp_wall_map.valid_ticks) == 0) {
        lp_wall_ns();
        pause_ms(1);
    }
}

static void open_with_tsc(void)
{
    lp_wall_open();
    CANNOT_IF(lp_wall_source() != LP_WALL_TSC);
    wait_for_a_piece();
}

static void jump(void *context)
{
    int64_t by_ns = *(const int64_t *)context;
    open_with_tsc();
    CHECK(error_of_one_reading() <= ALLOWED_NS);
    /* As if the machine had been moved: the map's line is now far from the truth, and its piece at an end. */
    atomic_fetch_add(&lp_wall_map.base_ns, (uint64_t)by_ns);
    uint64_t jumps = lp_wall_jumps();
    while (lp_wall_jumps() == jumps)
        lp_wall_ns(); /* until the piece is used up */
    CHECK(lp_wall_jumps() == jumps + 1);
    check_for(300000000, ALLOWED_NS);
    CHECK(lp_wall_jumps() == jumps + 1);
}

static void test_a_jump_is_noticed_counted_and_mended(void **state)
{
    int64_t jumps[] = {50000000, -50000000, 3600000000000, -3600000000000};
    (void)state;
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++)
        in_child(jump, &jumps[i]);
}

/* The kernel's clock stands still while the counter goes on, or jumps ahead of it. */
static void lose_time(void *context)
{
    const int64_t *lost = context; /* in a silence of so many ms, so much time, so many jumps */
    open_with_tsc();
    uint64_t until_ns = monotonic_ns() + 50000000;
    while (monotonic_ns() < until_ns)
        CHECK(error_of_one_reading() <= ALLOWED_NS);
    pause_ms(lost[0]);
    atomic_fetch_add(&lag_ns, lost[1]);
    check_for(500000000, ALLOWED_NS);
    CHECK(lp_wall_jumps() == (uint64_t)lost[2]);
}

static void test_time_lost_in_a_silence_bends_no_line(void **state)
{
    int64_t silences[][3] = {
        {300, 300000000, 1},   /* suspended all the time */
        {600, 8000000, 1},     /* for less than a slew could explain */
        {150, 0, 0},           /* nothing happened */
        {300, -5000000000, 1}, /* moved to a machine whose counter is behind */
    };
    (void)state;
    for (size_t i = 0; i < sizeof silences / sizeof *silences; i++)
        in_child(lose_time, silences[i]);
}

static void idle_then_read(void *context)
{
    (void)context;
    open_with_tsc();
    for (int i = 0; i < 5; i++) {
        pause_ms(150); /* longer than a piece: the next reading begins a new one */
        for (int j = 0; j < 1000; j++)
            CHECK(error_of_one_reading() <= ALLOWED_NS);
    }
    CHECK(lp_wall_jumps() == 0);
}

static void test_an_idle_process_reads_right_at_once(void **state)
{
    (void)state;
    in_child(idle_then_read, NULL);
}

/* A fork can cut the thread off that was writing the map: its halves must not be read as one. */
static void fork_in_publish(void *context)
{
    (void)context;
    open_with_tsc();
    atomic_fetch_add(&lp_wall_map.seq, 1);
    atomic_store(&lp_wall_map.base_ns, 1);
    atomic_store(&lp_wall_map.ns_per_tick_q32, 1);
    lp_wall_after_fork();
    wait_for_a_piece();
    check_for(300000000, ALLOWED_NS);
    CHECK(lp_wall_jumps() == 0);
}

static void test_a_map_cut_off_by_a_fork_is_forgotten(void **state)
{
    (void)state;
    in_child(fork_in_publish, NULL);
}

static atomic_bool enough;

static void *read_until_enough(void *context)
{
    (void)context;
    while (!atomic_load(&enough))
        if (error_of_one_reading() > ALLOWED_NS)
            return &enough;
    return NULL;
}

static void read_in_forked_child(void *context)
{
    (void)context;
    lp_wall_after_fork();
    uint64_t until_ns = monotonic_ns() + 5000000;
    do
        CHECK(error_of_one_reading() <= ALLOWED_NS);
    while (monotonic_ns() < until_ns);
}

static void fork_while_reading(void *context)
{
    pthread_t thread;
    void *failed;
    (void)context;
    lp_wall_open();
    CHECK(pthread_create(&thread, NULL, read_until_enough, NULL) == 0);
    for (int i = 0; i < 100; i++)
        CHECK(run_child(read_in_forked_child, NULL) == 0);
    atomic_store(&enough, true);
    CHECK(pthread_join(thread, &failed) == 0 && failed == NULL);
}

static void test_forked_children_read_right_while_others_write_the_map(void **state)
{
    (void)state;
    in_child(fork_while_reading, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readings_follow_the_kernel),
        cmocka_unit_test(test_the_vdso_can_be_forced),
        cmocka_unit_test(test_readings_before_opening_come_from_the_vdso),
        cmocka_unit_test(test_a_jump_is_noticed_counted_and_mended),
        cmocka_unit_test(test_time_lost_in_a_silence_bends_no_line),
        cmocka_unit_test(test_an_idle_process_reads_right_at_once),
        cmocka_unit_test(test_a_map_cut_off_by_a_fork_is_forgotten),
        cmocka_unit_test(test_forked_children_read_right_while_others_write_the_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
