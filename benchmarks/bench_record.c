/*
 * What recording costs a C program, through the public interface of the shared library, beside what it competes with.
 *
 * Prints `name<TAB>ns` lines, each the best of several rounds, and `ratio ...<TAB>value` lines, whose two sides were
 * measured in turns by one process. A way of reading the clocks is chosen once in the life of a process, so each is
 * measured by a child of its own.
 *
 * usage: bench_record
 */
#include <dirent.h>
#include <lineprofiler.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 25
#define TURNS 40000

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- what is measured: TURNS of something ----------------------------------- */

static lp_profiler *profiler;
static lp_name outer, inner, items;

static void nothing(void)
{
    for (int i = 0; i < TURNS; i++)
        __asm__ volatile("");
}

static void two_wall_clocks(void)
{
    struct timespec now;
    for (int i = 0; i < TURNS; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
}

static void one_cpu_clock(void)
{
    struct timespec now;
    for (int i = 0; i < TURNS; i++)
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}

static void pair(void)
{
    for (int i = 0; i < TURNS; i++) {
        lp_phase phase = lp_enter(profiler, outer);
        lp_leave(&phase);
    }
}

static void two_deep(void)
{
    for (int i = 0; i < TURNS; i++) {
        lp_phase first = lp_enter(profiler, outer);
        lp_phase second = lp_enter(profiler, inner);
        lp_leave(&second);
        lp_leave(&first);
    }
}

static void count(void)
{
    for (int i = 0; i < TURNS; i++)
        lp_count(profiler, items, 1);
}

/* ---- measuring ---------------------------------------------------------------- */

struct row {
    void (*turns)(void);
    double best_ns;
};

/* Rows are measured in turns, so that what disturbs the machine disturbs them all. */
static void measure(struct row *rows, int n)
{
    for (int i = 0; i < n; i++)
        rows[i].best_ns = 1e300;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < n; i++) {
            uint64_t start_ns = now_ns(CLOCK_MONOTONIC);
            rows[i].turns();
            double ns = (double)(now_ns(CLOCK_MONOTONIC) - start_ns) / TURNS;
            rows[i].best_ns = ns < rows[i].best_ns ? ns : rows[i].best_ns;
        }
    }
}

static void print_row(const char *name, double ns)
{
    printf("%s\t%.2f\n", name, ns);
}

/* ---- a profiler in a folder of its own ---------------------------------------- */

static char run_dir[64];

static void folder_of_workers(char *path, size_t size)
{
    char host[256] = "";
    snprintf(path, size, "%s/workers", run_dir);
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            snprintf(host, sizeof host, "%.255s", entry->d_name);
    if (folder)
        closedir(folder);
    snprintf(path, size, "%s/workers/%s", run_dir, host);
}

/* True if a worker file holds the text. */
static bool written(const char *text)
{
    static char bytes[65536];
    char folder_path[512], path[1024];
    bool found = false;
    folder_of_workers(folder_path, sizeof folder_path);
    DIR *folder = opendir(folder_path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%s", folder_path, entry->d_name);
        FILE *file = entry->d_name[0] != '.' ? fopen(path, "rb") : NULL;
        if (!file)
            continue;
        bytes[fread(bytes, 1, sizeof bytes - 1, file)] = '\0';
        found |= strstr(bytes, text) != NULL;
        fclose(file);
    }
    if (folder)
        closedir(folder);
    return found;
}

static void remove_run(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", run_dir);
    if (system(command) != 0)
        fprintf(stderr, "could not remove %s\n", run_dir);
}

static bool set_up(bool no_cpu)
{
    snprintf(run_dir, sizeof run_dir, "/tmp/lp-bench-XXXXXX");
    if (!mkdtemp(run_dir))
        return false;
    profiler = lp_open(&(lp_options){.run_dir = run_dir, .no_cpu = no_cpu});
    if (!profiler) {
        fprintf(stderr, "%s\n", lp_error_message());
        return false;
    }
    outer = lp_intern("outer");
    inner = lp_intern("inner");
    items = lp_intern("items");
    return true;
}

/* The clocks as they are to be measured: the keeper proves the token a little after the first phase. */
static bool wait_for_clock(const char *clock)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    for (int i = 0; i < 200; i++) {
        pair();
        lp_snapshot(profiler);
        if (written(clock))
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* ---- the ways of reading the clocks ------------------------------------------- */

static const struct way {
    const char *name, *wall, *cpu; /* forced by the environment; NULL: by the machine */
    bool no_cpu;
    const char *clock; /* as the worker's file names it */
} ways[] = {
    {"token, TSC", NULL, NULL, false, "\"clock\":{\"wall\":\"tsc\",\"cpu\":\"token\"}"},
    {"token, vDSO", "vdso", NULL, false, "\"clock\":{\"wall\":\"vdso\",\"cpu\":\"token\"}"},
    {"bounded, TSC", NULL, "bounded", false, "\"clock\":{\"wall\":\"tsc\",\"cpu\":\"bounded\"}"},
    {"plain, TSC", NULL, "plain", false, "\"clock\":{\"wall\":\"tsc\",\"cpu\":\"plain\"}"},
    {"no CPU, TSC", NULL, NULL, true, "\"clock\":{\"wall\":\"tsc\",\"cpu\":\"off\"}"},
};

static void bench_way(const struct way *way, bool first)
{
    char name[128];
    enum { EMPTY, WALL, CPU, PAIR, DEEP, COUNT, N };
    struct row rows[N] = {{nothing, 0}, {two_wall_clocks, 0}, {one_cpu_clock, 0}, {pair, 0}, {two_deep, 0}, {count, 0}};
    if (way->wall)
        setenv("LINEPROFILER_CLOCK_WALL", way->wall, 1);
    if (way->cpu)
        setenv("LINEPROFILER_CLOCK_CPU", way->cpu, 1);
    if (!set_up(way->no_cpu))
        return;
    if (wait_for_clock(way->clock)) {
        measure(rows, N);
        if (first) {
            print_row("empty loop", rows[EMPTY].best_ns);
            print_row("2 x clock_gettime(CLOCK_MONOTONIC)", rows[WALL].best_ns);
            print_row("clock_gettime(CLOCK_THREAD_CPUTIME_ID)", rows[CPU].best_ns);
        }
        snprintf(name, sizeof name, "pair (%s)", way->name);
        print_row(name, rows[PAIR].best_ns);
        snprintf(name, sizeof name, "two pairs, nested (%s)", way->name);
        print_row(name, rows[DEEP].best_ns);
        if (first)
            print_row("lp_count", rows[COUNT].best_ns);
        printf("ratio O4 pair (%s) / 2 x clock_gettime(CLOCK_MONOTONIC)\t%.2f\n", way->name,
               (rows[PAIR].best_ns - rows[EMPTY].best_ns) / (rows[WALL].best_ns - rows[EMPTY].best_ns));
    } else {
        printf("# not on this machine: %s\n", way->name);
    }
    lp_close(profiler);
    remove_run();
}

int main(void)
{
    int failed = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            bench_way(&ways[i], i == 0);
            return 0;
        }
        if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
            failed = 1;
    }
    printf("\nO4: the pair with the proven token and the TSC, at most 1.00.\n");
    return failed;
}
