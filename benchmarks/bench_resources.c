/*
 * What it costs to measure resources: phase(io=True) beside the two readings of /proc that it cannot do without, and the
 * samples of a process with many threads.
 *
 * The former two take turns in one process, the best round of each counts. The latter is the CPU time of the keeper itself,
 * over many ticks at a short interval, with what it appends to the samples file, divided by the ticks: what it costs a
 * second at the usual interval; the best of some rounds. The threads are inside phases and wait; a child was waited for
 * before, so that the I/O of each thread is looked at where they are few, which costs more. Prints `name<TAB>value` lines
 * and verdicts.
 *
 * usage: bench_resources
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "image/ring.h"
#include "worker/internal.h"
#include "worker/phase_io.h"

#define ROUNDS 40
#define TURNS 2000
#define SAMPLES 1000
#define SAMPLE_ROUNDS 3
#define FEW 4
#define MANY 200
#define INTERVAL_S 0.003
#define MOST_RATIO 1.5
#define MOST_US 100.0

static struct lp_worker *worker;
static char folder[64];

static void fail(const char *what)
{
    fprintf(stderr, "bench_resources: %s\n", what);
    exit(1);
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void open_worker(double sample_interval_s)
{
    const struct lp_worker_options options = {.run_dir = folder,
                                              .role = "bench",
                                              .role_len = 5,
                                              .measure_cpu = true,
                                              .wait_detail = LP_WAIT_DETAIL_DEFAULT,
                                              .sample_interval_s = sample_interval_s};
    char message[256];
    if (lp_worker_open(&worker, &options, message, sizeof message) != LP_WORKER_OK)
        fail(message);
}

/* ---- phase(io=True) ------------------------------------------------------------------- */

static void read_raw(void)
{
    char text[512];
    int fd = open("/proc/thread-self/io", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text) <= 0)
        fail("/proc/thread-self/io cannot be read");
    close(fd);
}

static void two_readings(void)
{
    for (int i = 0; i < TURNS; i++) {
        read_raw();
        read_raw();
    }
}

static void phases(void)
{
    struct lp_recorder *recorder = lp_worker_recorder(worker);
    lp_name_id name = lp_name_intern("phase", 5);
    for (int i = 0; i < TURNS; i++) {
        struct lp_entry entry;
        struct lp_phase_io io;
        lp_phase_io_begin(recorder, &io);
        lp_record_enter(recorder, name, &entry);
        struct lp_thread *thread = entry.thread;
        struct lp_node *node = lp_record_node(&entry);
        lp_record_leave(&entry);
        lp_phase_io_end(recorder, &io, thread, node);
    }
}

static double best_of(void (*what)(void), double best)
{
    uint64_t began = now_ns(CLOCK_MONOTONIC);
    what();
    double took_ns = (double)(now_ns(CLOCK_MONOTONIC) - began) / TURNS;
    return took_ns < best ? took_ns : best;
}

static void bench_phases(void)
{
    double raw_ns = 1e9, phase_ns = 1e9;
    open_worker(0);
    for (int i = 0; i < ROUNDS; i++) {
        raw_ns = best_of(two_readings, raw_ns);
        phase_ns = best_of(phases, phase_ns);
    }
    lp_worker_free(worker);
    printf("two raw readings of /proc/thread-self/io, ns\t%.0f\n", raw_ns);
    printf("entry of a phase with io=True, ns\t%.0f\n", phase_ns);
    printf("ratio O5 entry with io=True / its raw readings\t%.2f\n", phase_ns / raw_ns);
    printf("\nO5: the entry, at most %.1f times its raw readings: %s\n\n", MOST_RATIO,
           phase_ns / raw_ns <= MOST_RATIO ? "met" : "MISSED");
}

/* ---- samples ----------------------------------------------------------------------------- */

struct crowd {
    int n;
    pthread_t threads[256];
    pthread_barrier_t there, may_go;
};

struct place {
    struct crowd *crowd;
    bool records;
};

static void *wait_inside(void *context)
{
    const struct place *place = context;
    struct crowd *crowd = place->crowd;
    struct lp_entry entry;
    if (place->records)
        lp_record_enter(lp_worker_recorder(worker), lp_name_intern("thread", 6), &entry);
    pthread_barrier_wait(&crowd->there);
    pthread_barrier_wait(&crowd->may_go);
    if (place->records)
        lp_record_leave(&entry);
    return NULL;
}

static void gather(struct crowd *crowd, int n, int recording)
{
    static struct place silent, records;
    silent = (struct place){crowd, false};
    records = (struct place){crowd, true};
    crowd->n = n;
    pthread_barrier_init(&crowd->there, NULL, (unsigned)n + 1);
    pthread_barrier_init(&crowd->may_go, NULL, (unsigned)n + 1);
    for (int i = 0; i < n; i++)
        if (pthread_create(&crowd->threads[i], NULL, wait_inside, i < recording ? &records : &silent) != 0)
            fail("cannot start a thread");
    pthread_barrier_wait(&crowd->there);
}

static void dismiss(struct crowd *crowd)
{
    pthread_barrier_wait(&crowd->may_go);
    for (int i = 0; i < crowd->n; i++)
        pthread_join(crowd->threads[i], NULL);
}

static uint64_t taken(void)
{
    const struct lp_ring *ring = lp_image_ring(&lp_worker_recorder(worker)->image, LP_RING_PROCESS);
    return ring ? atomic_load(&ring->taken) : 0;
}

static void wait_for(uint64_t samples)
{
    while (taken() < samples)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* CPU us of the keeper for each sample. */
static double sampling_us(int n, int recording)
{
    static struct crowd crowd;
    struct lp_entry entry;
    clockid_t clock;
    open_worker(INTERVAL_S);
    lp_record_enter(lp_worker_recorder(worker), lp_name_intern("main", 4), &entry);
    gather(&crowd, n, recording);
    wait_for(50); /* the token is proven, or it is not */
    if (pthread_getcpuclockid(worker->keeper.thread, &clock) != 0)
        fail("cannot read the keeper's clock");
    uint64_t from = taken(), cpu_ns = now_ns(clock);
    wait_for(from + SAMPLES);
    cpu_ns = now_ns(clock) - cpu_ns;
    uint64_t samples = taken() - from;
    dismiss(&crowd);
    lp_record_leave(&entry);
    lp_worker_free(worker);
    return (double)cpu_ns / 1e3 / (double)samples;
}

static double best_sampling_us(int n, int recording)
{
    double best_us = sampling_us(n, recording);
    for (int i = 1; i < SAMPLE_ROUNDS; i++) {
        double us = sampling_us(n, recording);
        best_us = us < best_us ? us : best_us;
    }
    return best_us;
}

static void bench_samples(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    static const struct {
        int n, recording;
    } crowds[] = {{FEW, FEW}, {MANY, 0}, {MANY, 10}, {MANY, MANY}};
    double worst_us = 0;
    for (size_t i = 0; i < sizeof crowds / sizeof *crowds; i++) {
        double us = best_sampling_us(crowds[i].n, crowds[i].recording);
        printf("keeper's CPU time for a sample, %d threads, %d of them inside phases, us\t%.1f\n", crowds[i].n,
               crowds[i].recording, us);
        if (crowds[i].n == MANY)
            worst_us = us > worst_us ? us : worst_us;
    }
    printf("\nA sample a second with %d threads alive, at most %.0f us: %s\n", MANY, MOST_US,
           worst_us <= MOST_US ? "met" : "MISSED");
}

int main(void)
{
    char command[96];
    snprintf(folder, sizeof folder, "/tmp/bench-resources-XXXXXX");
    if (!mkdtemp(folder))
        fail("cannot make a folder");
    bench_phases();
    bench_samples();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? 0 : 1;
}
