/*
 * What a flush does to a thread that records: gaps between its boundaries, while another thread flushes and while none
 * does, in turns of equal length.
 *
 * The recording thread does nothing but enter and leave fifty phases and looks at the clock after each; the two threads
 * are bound to cores of their own, so that what is seen is not the scheduler's choice. Prints `name<TAB>value` lines and
 * a verdict.
 *
 * usage: bench_flush
 */
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

enum turn { NOBODY_LOOKS, WITHOUT, WITH, OVER };

struct gaps {
    uint64_t n, longest_ns, pairs;
};

static lp_profiler *profiler;
static _Atomic int turn;
static struct gaps gaps[OVER];

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
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

static void one_round(void)
{
    turn = WITH;
    uint64_t began = now_ns();
    for (int i = 0; i < FLUSHES / TURNS; i++)
        if (lp_snapshot(profiler) != 0) {
            fprintf(stderr, "bench_flush: %s\n", lp_error_message());
            exit(1);
        }
    uint64_t took = now_ns() - began;
    turn = WITHOUT;
    nanosleep(&(struct timespec){.tv_sec = (time_t)(took / 1000000000u), .tv_nsec = (long)(took % 1000000000u)}, NULL);
    turn = NOBODY_LOOKS;
}

int main(void)
{
    char folder[] = "/tmp/bench-flush-XXXXXX", command[64];
    pthread_t thread;
    if (!mkdtemp(folder))
        return 1;
    bind_to(0);
    profiler = lp_open(&(lp_options){.run_dir = folder, .role = "bench", .snapshot_interval_s = -1});
    if (!profiler) {
        fprintf(stderr, "bench_flush: %s\n", lp_error_message());
        return 1;
    }
    pthread_create(&thread, NULL, record, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    for (int i = 0; i < TURNS; i++)
        one_round();
    turn = OVER;
    pthread_join(thread, NULL);
    lp_close(profiler);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        return 1;
    const struct gaps *without = &gaps[WITHOUT], *with = &gaps[WITH];
    printf("gaps over 20 us without flushes, of %.0f million\t%llu\n", (double)without->pairs / 1e6,
           (unsigned long long)without->n);
    printf("gaps over 20 us with 1,000 flushes, of %.0f million\t%llu\n", (double)with->pairs / 1e6,
           (unsigned long long)with->n);
    printf("longest gap without flushes, us\t%.1f\n", (double)without->longest_ns / 1e3);
    printf("longest gap with flushes, us\t%.1f\n", (double)with->longest_ns / 1e3);
    double more = (double)with->n - (double)without->n;
    bool chance = more <= 0 || more * more <= 4 * (double)(with->n + without->n); /* two standard deviations */
    printf("\nF6: gaps over 20 us that flushes add, beyond chance: %s\n", chance ? "none, met" : "MISSED");
    return 0;
}
