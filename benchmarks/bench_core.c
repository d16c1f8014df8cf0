/*
 * What recording costs a C or C++ program, through the public interface of the shared library, beside what it competes
 * with: the time of each thing on one thread and on two at once, and its instructions.
 *
 * A way of reading the clocks is chosen once in the life of a process, so each is measured by a child of its own. There
 * all rows are measured in turns: on one thread while the other sleeps, on the other, and on both, which begin together; each
 * has a core of its own.
 * What a thread did while it was descheduled is thrown away; figures are medians of what is left, and say so if that is
 * little. Instructions are counted by callgrind (core_counted.c) and come out the same each time.
 *
 * Prints a table, fields separated by tabs, and verdicts.
 *
 * usage: bench_core
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core_counted.h"
#include "core_rows.h"

#define WANTED 41         /* undisturbed measurements of a row */
#define FEW 9             /* fewer are told */
#define ROUNDS 400        /* to get them, at most */
#define ENOUGH_NS 300000u /* of one measurement; shorter than what a busy machine leaves a thread to itself */
#define LONGEST_NS 40000000000u
#define MAX_ROWS 32
#define TOGETHER_NS 20000 /* two threads began together if not further apart */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- one measurement ------------------------------------------------------------------ */

struct span {
    uint64_t from_ns, to_ns;
    bool disturbed; /* the thread was off its core meanwhile */
};

static long switches(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw + usage.ru_nivcsw : 0;
}

static struct span measure(const struct core_row *row, int turns)
{
    struct span span;
    long before = switches();
    span.from_ns = now_ns();
    row->run(turns);
    span.to_ns = now_ns();
    span.disturbed = switches() != before;
    return span;
}

/* Turns that take long enough to be measured. */
static int turns_of(const struct core_row *row)
{
    int turns = row->period ? row->period : 16;
    for (int tries = 0; tries < 1000 && turns < 1 << 24; tries++) {
        struct span span = measure(row, turns);
        if (span.disturbed)
            continue;
        if (span.to_ns - span.from_ns >= ENOUGH_NS)
            break;
        turns *= 2;
    }
    return turns;
}

/* ---- two threads ---------------------------------------------------------------------- */

/* Both meet at the gate, asleep, so that one who measures alone has the machine to itself; to begin together they then wait
   awake. */
static struct {
    pthread_barrier_t gate;
    const struct core_row *row; /* NULL: the other may go */
    int turns;
    bool together;
    struct span other;
    _Atomic int awake __attribute__((aligned(128)));
} pair;

static int cores[2], n_cores;

static void find_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int i = 0; i < CPU_SETSIZE && n_cores < 2; i++)
        if (CPU_ISSET(i, &set))
            cores[n_cores++] = i;
}

static void stay_on(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void begin_together(void)
{
    int here = atomic_fetch_add(&pair.awake, 1) / 2 * 2 + 2;
    for (unsigned i = 0; atomic_load_explicit(&pair.awake, memory_order_acquire) < here; i++)
        if (i % 100000 == 99999)
            sched_yield();
}

static void *other_side(void *unused)
{
    (void)unused;
    stay_on(cores[1]);
    for (pthread_barrier_wait(&pair.gate); pair.row; pthread_barrier_wait(&pair.gate)) {
        if (pair.together)
            begin_together();
        pair.other = measure(pair.row, pair.turns);
        pthread_barrier_wait(&pair.gate);
    }
    return NULL;
}

static struct span measure_there(const struct core_row *row, int turns)
{
    pair.row = row;
    pair.turns = turns;
    pair.together = false;
    pthread_barrier_wait(&pair.gate);
    pthread_barrier_wait(&pair.gate);
    return pair.other;
}

static struct span measure_both(const struct core_row *row, int turns, struct span *other)
{
    pair.row = row;
    pair.turns = turns;
    pair.together = true;
    pthread_barrier_wait(&pair.gate);
    begin_together();
    struct span span = measure(row, turns);
    pthread_barrier_wait(&pair.gate);
    *other = pair.other;
    return span;
}

/* ---- all of them ------------------------------------------------------------------------ */

struct series {
    int n;
    double values[WANTED];
};

struct figures {
    const struct core_row *row;
    int turns;
    struct series alone_ns, both_ns;
    struct series scaling; /* how much more two threads do than one of them */
};

static struct figures all[MAX_ROWS];
static int n_all;

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(struct series *series)
{
    double *values = series->values;
    int n = series->n;
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n == 0 ? 0 : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void add(struct series *series, double value)
{
    series->values[series->n++] = value;
}

static double ns_of_turn(const struct figures *figures, const struct span *span)
{
    return (double)(span->to_ns - span->from_ns) / figures->turns;
}

/* Alone and together, one right after the other, so that what slows the machine for a while slows both. */
static void measure_two(struct figures *figures, const struct span *here)
{
    struct span there = measure_there(figures->row, figures->turns), other;
    struct span span = measure_both(figures->row, figures->turns, &other);
    int64_t apart_ns = (int64_t)(span.from_ns - other.from_ns);
    if (here->disturbed || there.disturbed || span.disturbed || other.disturbed)
        return;
    if (apart_ns > TOGETHER_NS || -apart_ns > TOGETHER_NS)
        return;
    double alone = 1 / ns_of_turn(figures, here) + 1 / ns_of_turn(figures, &there);
    double both = 1 / ns_of_turn(figures, &span) + 1 / ns_of_turn(figures, &other);
    add(&figures->both_ns, 2 / both);
    add(&figures->scaling, 2 * both / alone);
}

static void measure_round(struct figures *figures)
{
    bool alone = figures->alone_ns.n<WANTED, two = n_cores> 1 && figures->scaling.n < WANTED;
    if (!alone && !two)
        return;
    struct span here = measure(figures->row, figures->turns);
    if (alone && !here.disturbed)
        add(&figures->alone_ns, ns_of_turn(figures, &here));
    if (two)
        measure_two(figures, &here);
}

static void choose_rows(bool without, bool all_of_them)
{
    n_all = 0;
    for (size_t i = 0; i < core_n_rows && n_all < MAX_ROWS; i++)
        if (without ? core_rows[i].when == CORE_WITHOUT
                    : core_rows[i].when == CORE_EACH_WAY || (all_of_them && core_rows[i].when == CORE_ONCE))
            all[n_all++] = (struct figures){.row = &core_rows[i]};
}

static void measure_all(void)
{
    pthread_t other;
    bool paired = n_cores > 1 && pthread_barrier_init(&pair.gate, NULL, 2) == 0 &&
                  pthread_create(&other, NULL, other_side, NULL) == 0;
    n_cores = paired ? 2 : 1;
    stay_on(cores[0]);
    for (int i = 0; i < n_all; i++) {
        struct span unused;
        all[i].turns = turns_of(all[i].row);
        if (paired)
            measure_both(all[i].row, all[i].turns, &unused);
    }
    uint64_t end_ns = now_ns() + LONGEST_NS;
    for (int round = 0; round < ROUNDS && now_ns() < end_ns; round++)
        for (int i = 0; i < n_all; i++)
            measure_round(&all[i]);
    if (paired) {
        pair.row = NULL;
        pthread_barrier_wait(&pair.gate);
        pthread_join(other, NULL);
    }
}

/* ---- a profiler in a folder of its own -------------------------------------------------- */

static char run_dir[64];

static bool make_folder(void)
{
    snprintf(run_dir, sizeof run_dir, "/tmp/lp-bench-XXXXXX");
    return mkdtemp(run_dir) != NULL;
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", run_dir);
    if (system(command) != 0)
        fprintf(stderr, "could not remove %s\n", run_dir);
}

/* True if the file holds the text. */
static bool holds(const char *path, const char *text)
{
    static char bytes[65536];
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    bytes[fread(bytes, 1, sizeof bytes - 1, file)] = '\0';
    fclose(file);
    return strstr(bytes, text) != NULL;
}

/* The clocks as they are to be measured: the keeper proves the token a little after the first phase. */
static bool wait_for_clock(const char *clock)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    char path[4096];
    for (int i = 0; i < 200; i++) {
        core_touch();
        lp_snapshot(core_profiler());
        lp_worker_file(core_profiler(), path, sizeof path);
        if (holds(path, clock))
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* ---- instructions ----------------------------------------------------------------------- */

/* What callgrind wrote into one of its files; 0 if it cannot be read. */
static uint64_t counted_in(int number)
{
    char path[128], line[256];
    uint64_t count = 0;
    snprintf(path, sizeof path, "%s/counts.%d", run_dir, number);
    FILE *file = fopen(path, "rb");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "summary: %" SCNu64, &count) == 1)
            break;
    if (file)
        fclose(file);
    return count;
}

/* Instructions of one turn of the row that was the index-th to be counted; negative: not known. */
static double instructions(const struct core_row *row, int index)
{
    uint64_t least[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 2 * COUNTED_TIMES; i++) {
        uint64_t count = counted_in(1 + index * 2 * COUNTED_TIMES + i);
        if (count == 0)
            return -1;
        least[i & 1] = count < least[i & 1] ? count : least[i & 1];
    }
    return ((double)least[1] - (double)least[0]) / COUNTED_TURNS(row);
}

static bool run(char **argv)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        execvp(argv[0], argv);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* Counts those of the rows that run outside the kernel. per_turn: one for each of `all`. NULL, or why it cannot be done. */
static const char *count_instructions(bool without, bool no_cpu, double *per_turn)
{
    char numbers[MAX_ROWS][12], out[128];
    char *probe[] = {"valgrind", "--tool=callgrind", "--version", NULL};
    char *argv[MAX_ROWS + 16] = {
        "valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=counted", "--dump-after=counted",
        out,        CORE_COUNTED,       without ? "" : run_dir, no_cpu ? "no_cpu" : "cpu"};
    int n = 9, index = 0;
    snprintf(out, sizeof out, "--callgrind-out-file=%s/counts", run_dir);
    for (int i = 0; i < n_all; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%d", (int)(all[i].row - core_rows));
        if (!all[i].row->in_kernel)
            argv[n++] = numbers[i];
    }
    if (!run(probe))
        return "there is no valgrind (Debian: valgrind)";
    if (!run(argv))
        return "core_counted fails under valgrind --tool=callgrind";
    for (int i = 0; i < n_all; i++)
        if (!all[i].row->in_kernel)
            per_turn[i] = instructions(all[i].row, index++);
    return NULL;
}

/* ---- the ways of reading the clocks ----------------------------------------------------- */

static const struct way {
    const char *name, *wall, *cpu; /* forced by the environment; NULL: by the machine */
    bool no_cpu;
    bool counted;      /* it can be had under valgrind */
    const char *clock; /* as the worker's file names it; NULL: no profiler */
} ways[] = {
    {"", NULL, NULL, false, true, "\"clock\":{\"wall\":\"tsc\",\"cpu\":\"token\"}"},
    {", token, vDSO", "vdso", NULL, false, false, "\"clock\":{\"wall\":\"vdso\",\"cpu\":\"token\"}"},
    {", bounded, TSC", NULL, "bounded", false, false, "\"clock\":{\"wall\":\"tsc\",\"cpu\":\"bounded\"}"},
    {", plain, TSC", NULL, "plain", false, false, "\"clock\":{\"wall\":\"tsc\",\"cpu\":\"plain\"}"},
    {", no CPU, TSC", NULL, NULL, true, true, "\"clock\":{\"wall\":\"tsc\",\"cpu\":\"off\"}"},
    {"", NULL, NULL, false, true, NULL},
};

/* What the children tell: what verdicts are about (0: not measured), and what they could not do. */
struct verdict {
    double pair_ns, clocks_ns, scaling, nothing_shared;
    bool few, measured_once;
    char not_counted[128], not_here[256];
};

static void print_figure(double value, bool known, const char *end)
{
    if (known)
        printf("%.2f%s", value, end);
    else
        printf("-%s", end);
}

static void print_rows(const char *way, const double *per_turn)
{
    for (int i = 0; i < n_all; i++) {
        struct figures *figures = &all[i];
        printf("%s%s\t", figures->row->name, way);
        print_figure(median(&figures->alone_ns), figures->alone_ns.n > 0, "\t");
        print_figure(median(&figures->both_ns), figures->both_ns.n > 0, "\t");
        print_figure(median(&figures->scaling), figures->scaling.n > 0, "\t");
        print_figure(per_turn[i], per_turn[i] >= 0, "\n");
    }
}

static bool is_few(const struct figures *figures)
{
    return figures->alone_ns.n < FEW || (n_cores > 1 && figures->scaling.n < FEW);
}

static void judge(struct verdict *verdict)
{
    for (int i = 0; i < n_all; i++) {
        struct figures *figures = &all[i];
        bool judged = true;
        if (figures->row->name == core_pair) {
            verdict->pair_ns = median(&figures->alone_ns);
            verdict->scaling = median(&figures->scaling);
        } else if (figures->row->name == core_two_clocks) {
            verdict->clocks_ns = median(&figures->alone_ns);
        } else if (figures->row->name == core_nothing_shared) {
            verdict->nothing_shared = median(&figures->scaling);
        } else {
            judged = false;
        }
        verdict->few |= judged && is_few(figures);
    }
}

static void bench_rows(const struct way *way, struct verdict *verdict)
{
    double per_turn[MAX_ROWS];
    choose_rows(!way->clock, !verdict->measured_once);
    measure_all();
    for (int i = 0; i < n_all; i++)
        per_turn[i] = -1;
    const char *why = way->counted ? count_instructions(!way->clock, way->no_cpu, per_turn) : NULL;
    if (why)
        snprintf(verdict->not_counted, sizeof verdict->not_counted, "%s", why);
    print_rows(way->name, per_turn);
    if (way == ways)
        judge(verdict);
    verdict->measured_once = true;
}

static int bench_way(const struct way *way, struct verdict *verdict)
{
    if (way->wall)
        setenv("LINEPROFILER_CLOCK_WALL", way->wall, 1);
    if (way->cpu)
        setenv("LINEPROFILER_CLOCK_CPU", way->cpu, 1);
    if (!make_folder() || core_open(&(struct core_set_up){way->clock ? run_dir : NULL, way->no_cpu, 0}) != 0) {
        fprintf(stderr, "cannot open a profiler in '%s': %s\n", run_dir, lp_error_message());
        return 1;
    }
    if (!way->clock || wait_for_clock(way->clock)) {
        bench_rows(way, verdict);
    } else {
        size_t len = strlen(verdict->not_here);
        snprintf(verdict->not_here + len, sizeof verdict->not_here - len, "%s%s", len ? "; " : "",
                 *way->name ? way->name + 2 : "proven token, TSC");
    }
    core_close();
    remove_folder();
    return 0;
}

static void print_verdicts(const struct verdict *verdict)
{
    printf("\nClocks are read by a proven token and the TSC where nothing else is said. Instructions are those of a "
           "turn and its "
           "loop, counted by callgrind; those of the kernel and its vDSO cannot be, nor is the real clock's reading "
           "once a "
           "millisecond.\n");
    if (*verdict->not_here)
        printf("\nNot on this machine: %s.\n", verdict->not_here);
    if (*verdict->not_counted)
        printf("\nNo instructions counted: %s.\n", verdict->not_counted);
    if (verdict->few)
        printf("\nToo busy a machine: fewer than %d measurements of a row that is judged were undisturbed.\n", FEW);
    if (verdict->pair_ns == 0) {
        printf("\nO4: not judged without a proven token and the TSC.\n");
        return;
    }
    double ratio = verdict->pair_ns / verdict->clocks_ns;
    printf("\nO4: a pair takes %.2f of two clock_gettime(CLOCK_MONOTONIC), at most 1.00: %s\n", ratio,
           ratio <= 1 ? "met" : "MISSED");
    if (verdict->scaling == 0)
        printf("\nO4: two threads: not judged, there is one core.\n");
    else
        printf("\nO4: two threads record %.2f times what one does (an empty loop: %.2f), at least 1.95: %s\n",
               verdict->scaling, verdict->nothing_shared, verdict->scaling >= 1.95 ? "met" : "MISSED");
}

int main(void)
{
    int failed = 0;
    struct verdict *verdict = mmap(NULL, sizeof *verdict, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (verdict == MAP_FAILED)
        return 1;
    find_cores();
    printf("through the shared library\tns, one thread\tns, two threads\ttwo / one\tinstructions\n");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            return bench_way(&ways[i], verdict);
        if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
            failed = 1;
    }
    print_verdicts(verdict);
    return failed;
}
