/*
 * What it costs to know why threads waited, at 20,000 switches a second: two threads hand a byte to and fro through
 * pipes, in phases, and work between, so that each gives its core up 10,000 times a second. With the detail and without, in
 * turns, in one process; beside it the time of a switch itself and of what is asked of the kernel.
 *
 * Prints `name<TAB>figure` lines. The bar: wait_detail is on by default as long as it costs less than 1 % here.
 *
 * usage: bench_wait
 */
#include <fcntl.h>
#include <lineprofiler.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 41
#define HANDS 2000       /* in each round, each way */
#define PERIOD_NS 100000 /* of one hand to and fro: four switches away from a core in two periods */
#define ASKED 20000

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- what is asked of the kernel ------------------------------------------------------ */

static double ns_each(uint64_t from_ns)
{
    return (double)(now_ns(CLOCK_MONOTONIC) - from_ns) / ASKED;
}

static void bench_questions(void)
{
    char line[96];
    struct stat st;
    struct rusage usage;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    uint64_t from_ns = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < ASKED; i++)
        getrusage(RUSAGE_THREAD, &usage);
    printf("getrusage(RUSAGE_THREAD), ns\t%.0f\n", ns_each(from_ns));
    if (fd < 0)
        return;
    from_ns = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < ASKED; i++)
        if (fstat(fd, &st) != 0 || pread(fd, line, sizeof line, 0) <= 0)
            return;
    printf("schedstat: fstat and pread, ns\t%.0f\n", ns_each(from_ns));
    close(fd);
    from_ns = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < ASKED; i++) {
        fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, line, sizeof line) <= 0)
            return;
        close(fd);
    }
    printf("schedstat: open, read and close, ns\t%.0f\n", ns_each(from_ns));
}

/* ---- two threads that wait for each other --------------------------------------------- */

struct side {
    lp_profiler *profiler;
    lp_name wait, work;
    int in, out;
    uint64_t work_turns;
    bool begins;
    uint64_t cpu_ns; /* what the hands took */
    long switches;
};

static void work(uint64_t turns)
{
    for (uint64_t i = 0; i < turns; i++)
        __asm__ volatile("");
}

static bool hand_over(const struct side *side)
{
    char byte = 0;
    return write(side->out, &byte, 1) == 1;
}

static bool take(const struct side *side)
{
    char byte;
    lp_phase phase = lp_enter(side->profiler, side->wait);
    bool ok = read(side->in, &byte, 1) == 1;
    lp_leave(&phase);
    return ok;
}

static void *play(void *context)
{
    struct side *side = context;
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < HANDS; i++) {
        if (!side->begins && !take(side))
            break;
        lp_phase phase = lp_enter(side->profiler, side->work);
        work(side->work_turns);
        lp_leave(&phase);
        if (!hand_over(side) || (side->begins && !take(side)))
            break;
    }
    side->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
    getrusage(RUSAGE_THREAD, &after);
    side->switches = after.ru_nvcsw - before.ru_nvcsw + after.ru_nivcsw - before.ru_nivcsw;
    return NULL;
}

struct round {
    double cpu_ns; /* like the switches of both threads, for each hand */
    double switches;
};

static struct round play_round(lp_profiler *profiler, uint64_t work_turns)
{
    int there[2], back[2];
    pthread_t other;
    struct round round = {0};
    if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0)
        return round;
    struct side first = {.profiler = profiler,
                         .wait = lp_intern("wait"),
                         .work = lp_intern("work"),
                         .in = back[0],
                         .out = there[1],
                         .work_turns = work_turns,
                         .begins = true};
    struct side second = first;
    second.in = there[0];
    second.out = back[1];
    second.begins = false;
    if (pthread_create(&other, NULL, play, &second) == 0) {
        play(&first);
        pthread_join(other, NULL);
    }
    round.cpu_ns = (double)(first.cpu_ns + second.cpu_ns) / HANDS;
    round.switches = (double)(first.switches + second.switches) / HANDS;
    close(there[0]);
    close(there[1]);
    close(back[0]);
    close(back[1]);
    return round;
}

/* ---- with and without ----------------------------------------------------------------- */

static lp_profiler *open_in(char *run_dir, int wait_detail)
{
    strcpy(run_dir, "/tmp/lp-bench-XXXXXX");
    if (!mkdtemp(run_dir))
        return NULL;
    return lp_open(&(lp_options){.run_dir = run_dir, .wait_detail = wait_detail});
}

static void close_in(lp_profiler *profiler, const char *run_dir)
{
    char command[128];
    lp_close(profiler);
    snprintf(command, sizeof command, "rm -rf '%s'", run_dir);
    if (system(command) != 0)
        fprintf(stderr, "could not remove %s\n", run_dir);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

/* Both on one core, so that each hand is two switches and nobody waits for a sleeping core. */
static bool pin(void)
{
    cpu_set_t one;
    int core = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(core < 0 ? 0 : core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

/* How many turns of work fill up the period. */
static uint64_t turns_for(lp_profiler *profiler)
{
    uint64_t turns = 1u << 24, from_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    work(turns);
    double turn_ns = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns) / (double)turns;
    double idle_ns = play_round(profiler, 0).cpu_ns;
    return idle_ns < PERIOD_NS ? (uint64_t)((PERIOD_NS - idle_ns) / 2 / turn_ns) : 0;
}

static void bench_detail(void)
{
    static double with_cpu[ROUNDS], without_cpu[ROUNDS], ratios[ROUNDS], same[ROUNDS], rate[ROUNDS];
    char dirs[2][32];
    lp_profiler *without = open_in(dirs[0], -1), *with = open_in(dirs[1], 1);
    if (!with || !without || !pin())
        return;
    uint64_t turns = turns_for(without);
    play_round(with, turns);
    for (int i = 0; i < ROUNDS; i++) {
        struct round first = play_round(without, turns), detail = play_round(with, turns),
                     second = play_round(without, turns);
        with_cpu[i] = detail.cpu_ns;
        without_cpu[i] = (first.cpu_ns + second.cpu_ns) / 2;
        ratios[i] = with_cpu[i] / without_cpu[i];
        same[i] = second.cpu_ns / first.cpu_ns;
        rate[i] = detail.switches * 1e9 / detail.cpu_ns;
    }
    printf("switches in a second of CPU time\t%.0f\n", median(rate, ROUNDS));
    printf("CPU time of a hand to and fro, without, ns\t%.0f\n", median(without_cpu, ROUNDS));
    printf("the same with wait_detail, ns\t%.0f\n", median(with_cpu, ROUNDS));
    double ratio = median(ratios, ROUNDS);
    printf("ratio of two rounds without, median\t%.4f\n", median(same, ROUNDS));
    printf("ratio with wait_detail / without, median\t%.4f\n", ratio);
    printf("\nwait_detail, on by default below 1 %%: %+.2f %%, %s\n", 100 * (ratio - 1),
           ratio < 1.01 ? "met" : "missed");
    close_in(with, dirs[1]);
    close_in(without, dirs[0]);
}

int main(void)
{
    bench_questions();
    bench_detail();
    return 0;
}
