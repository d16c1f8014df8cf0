/*
 * What a flush does to a thread that records: gaps between its boundaries, while another thread flushes and while it does
 * not, in turns of equal length.
 *
 * The recording thread does nothing but enter and leave fifty phases and looks at the clock after each; the two threads
 * are bound to cores of their own, so that what is seen is not the scheduler's choice. First with the run directory in
 * memory, against turns in which nothing is done: what is seen is ours. Then on a disk, against turns in which as many
 * files of the same size are written and synced by plain code: a disk's interrupts and the threads of its journal come
 * to any core. Prints `name<TAB>value` lines and a verdict.
 *
 * usage: bench_flush
 */
#include <fcntl.h>
#include <lineprofiler.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PHASES 50
#define TURNS 40
#define FLUSHES 1000
#define GAP_NS 20000
#define FILE_BYTES 16384 /* of a worker file with fifty phases, about */

enum turn { NOBODY_LOOKS, WITHOUT, WITH, OVER };

struct gaps {
    uint64_t n, longest_ns, pairs;
};

static lp_profiler *profiler;
static _Atomic int turn;
static struct gaps gaps[OVER];
static char plain_file[128], plain_new[128];

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)}, NULL);
}

static void bind_to(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void *record(void *unused)
{
    lp_name names[PHASES];
    (void)unused;
    bind_to((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
    for (int i = 0; i < PHASES; i++) {
        char name[32];
        snprintf(name, sizeof name, "phase %d", i);
        names[i] = lp_intern(name);
    }
    uint64_t before = now_ns();
    for (unsigned i = 0; turn != OVER; i++) {
        lp_phase phase = lp_enter(profiler, names[i % PHASES]);
        lp_leave(&phase);
        uint64_t now = now_ns(), gap_ns = now - before;
        struct gaps *now_gaps = &gaps[atomic_load_explicit(&turn, memory_order_relaxed) % OVER];
        now_gaps->pairs++;
        now_gaps->n += gap_ns > GAP_NS;
        if (gap_ns > now_gaps->longest_ns)
            now_gaps->longest_ns = gap_ns;
        before = now;
    }
    return NULL;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_flush: %s\n", what);
    exit(1);
}

/* As a flush does it, without a profiler. */
static void write_plainly(void)
{
    static const char bytes[FILE_BYTES];
    int fd = open(plain_new, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0 || write(fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes || fsync(fd) != 0 || close(fd) != 0 ||
        rename(plain_new, plain_file) != 0)
        fail("cannot write a file");
}

static void one_round(bool on_disk)
{
    uint64_t began = now_ns();
    turn = WITH;
    for (int i = 0; i < FLUSHES / TURNS; i++)
        if (lp_snapshot(profiler) != 0)
            fail(lp_error_message());
    uint64_t took = now_ns() - began;
    turn = WITHOUT;
    began = now_ns();
    for (int i = 0; on_disk && i < FLUSHES / TURNS; i++)
        write_plainly();
    uint64_t passed = now_ns() - began;
    if (passed < took)
        pause_ns(took - passed);
    turn = NOBODY_LOOKS;
}

static void print(const char *place, const char *what, const struct gaps *found)
{
    printf("gaps over 20 us, %s, %s, of %.0f million\t%llu\n", place, what, (double)found->pairs / 1e6,
           (unsigned long long)found->n);
    printf("longest gap, %s, %s, us\t%.1f\n", place, what, (double)found->longest_ns / 1e3);
}

/* Whether the gaps with flushes are no more than chance makes of those without, in as much time: two standard deviations. */
static bool by_chance(void)
{
    double n = (double)gaps[WITHOUT].n, m = (double)gaps[WITH].n;
    return m <= n || (m - n) * (m - n) <= 4 * (m + n);
}

static bool bench(const char *where, bool on_disk)
{
    char folder[64], command[96];
    pthread_t thread;
    snprintf(folder, sizeof folder, "%s/bench-flush-XXXXXX", where);
    if (!mkdtemp(folder))
        fail("cannot make a folder");
    snprintf(plain_file, sizeof plain_file, "%s/plain", folder);
    snprintf(plain_new, sizeof plain_new, "%s/plain.tmp", folder);
    profiler = lp_open(&(lp_options){.run_dir = folder, .role = "bench", .snapshot_interval_s = -1});
    if (!profiler)
        fail(lp_error_message());
    turn = NOBODY_LOOKS;
    for (int i = 0; i < OVER; i++)
        gaps[i] = (struct gaps){0};
    pthread_create(&thread, NULL, record, NULL);
    pause_ns(200000000);
    for (int i = 0; i < TURNS; i++)
        one_round(on_disk);
    turn = OVER;
    pthread_join(thread, NULL);
    lp_close(profiler);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        fail("cannot remove the folder");
    print(on_disk ? "on disk" : "in memory", on_disk ? "1,000 plain writes" : "nothing else", &gaps[WITHOUT]);
    print(on_disk ? "on disk" : "in memory", "1,000 flushes", &gaps[WITH]);
    return by_chance();
}

int main(void)
{
    bind_to(0);
    bool in_memory = bench("/dev/shm", false), on_disk = bench("/tmp", true);
    printf("\nF6: gaps over 20 us that 1,000 flushes add, beyond chance: %s\n", in_memory ? "none, met" : "MISSED");
    printf("On a disk, beyond those of plain writes: %s\n", on_disk ? "none" : "some");
    return 0;
}
