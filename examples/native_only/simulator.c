/*
 * A vectorised environment simulator: worker processes with threads that step many cart-poles at once and write what they
 * saw to a file. All of it C; lineprofiler shows where the time goes, over all processes and threads.
 *
 *     simulator [iterations [workers [threads [run_dir]]]]
 *
 * SIGTERM ends it after the iteration that is under way.
 */
#include <errno.h>
#include <lineprofiler.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENVIRONMENTS = 512, STEPS_PER_ITERATION = 128, ITERATIONS_PER_SYNC = 50, LIMIT = 16 };

struct settings {
    int iterations, workers, threads;
};

/* The cart's position and speed, the pole's angle and its speed. */
struct cart_pole {
    float x, x_speed, angle, angle_speed;
};

/* The environments of one thread, and the thread. */
struct stepper {
    struct worker *worker;
    int number;
    pthread_t thread;
    unsigned random;
    struct cart_pole environments[ENVIRONMENTS];
};

struct worker {
    int number, threads;
    pthread_barrier_t stepped, written; /* all of an iteration's steps are done; its trajectories are, too */
    int is_last;                        /* of the iteration: read by the steppers after `written` */
    struct stepper *steppers;
    FILE *trajectories;
};

static volatile sig_atomic_t stop_wanted;

/* The launcher's; 0 where one has ended. */
static pid_t workers[LIMIT];

/* In the launcher it goes on to the workers. */
static void want_stop(int number)
{
    stop_wanted = 1;
    for (int i = 0; i < LIMIT; i++)
        if (workers[i] > 0)
            kill(workers[i], number);
}

/* A line that says what the thread is in the middle of. */
static void log_line(const char *text, int number)
{
    char where[128];
    lp_current(lp_installed(), where, sizeof where);
    fprintf(stderr, "[%d %s] %s %d\n", (int)getpid(), where, text, number);
}

static float random_float(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 24);
}

static void reset(struct cart_pole *pole, unsigned *random)
{
    LP_PHASE_WITH("reset", 0, 1.0 / 32); /* so short that one entry in 32 is measured, and the rest estimated */
    *pole = (struct cart_pole){0};
    pole->angle = (random_float(random) - 0.5f) * 0.1f;
    pole->angle_speed = (random_float(random) - 0.5f) * 0.1f;
}

/* The equations of Barto, Sutton and Anderson (1983), a fiftieth of a second on. Has the pole fallen? */
static int step(struct cart_pole *pole, float force)
{
    const float gravity = 9.8f, pole_mass = 0.1f, mass = 1.1f, half_length = 0.5f, time_s = 0.02f;
    float sine = sinf(pole->angle), cosine = cosf(pole->angle);
    float push = (force + pole_mass * half_length * pole->angle_speed * pole->angle_speed * sine) / mass;
    float angle_acceleration =
        (gravity * sine - cosine * push) / (half_length * (4.0f / 3.0f - pole_mass * cosine * cosine / mass));
    float acceleration = push - pole_mass * half_length * angle_acceleration * cosine / mass;
    pole->x += time_s * pole->x_speed;
    pole->x_speed += time_s * acceleration;
    pole->angle += time_s * pole->angle_speed;
    pole->angle_speed += time_s * angle_acceleration;
    return fabsf(pole->x) > 2.4f || fabsf(pole->angle) > 0.21f;
}

/* One iteration's steps of a thread's environments. */
static void step_all(struct stepper *stepper)
{
    LP_PHASE("step");
    int episodes = 0;
    for (int i = 0; i < STEPS_PER_ITERATION; i++) {
        for (int e = 0; e < ENVIRONMENTS; e++) {
            float force = random_float(&stepper->random) < 0.5f ? -10.0f : 10.0f;
            if (step(&stepper->environments[e], force)) {
                reset(&stepper->environments[e], &stepper->random);
                episodes++;
            }
        }
    }
    LP_COUNT("steps", STEPS_PER_ITERATION * ENVIRONMENTS);
    LP_COUNT("episodes", episodes);
}

static void *run_stepper(void *context)
{
    struct stepper *stepper = context;
    struct worker *worker = stepper->worker;
    char name[32];
    snprintf(name, sizeof name, "stepper %d", stepper->number);
    lp_name_thread(name);
    do {
        LP_PHASE("iteration");
        step_all(stepper);
        LP_PHASE("wait_for_writer");
        pthread_barrier_wait(&worker->stepped);
        pthread_barrier_wait(&worker->written);
    } while (!worker->is_last);
    return NULL;
}

/* Appends what the environments have come to; now and then the disk has to have it. */
static void write_trajectories(struct worker *worker, int iteration)
{
    LP_PHASE_WITH("write", LP_IO, 1.0); /* the bytes that it moves are counted */
    for (int i = 0; i < worker->threads; i++)
        fwrite(worker->steppers[i].environments, sizeof(struct cart_pole), ENVIRONMENTS, worker->trajectories);
    fflush(worker->trajectories);
    if (iteration % ITERATIONS_PER_SYNC == 0) {
        LP_PHASE("sync");
        log_line("iteration", iteration);
        fdatasync(fileno(worker->trajectories));
    }
}

static void iterate(struct worker *worker, int iteration, int is_last)
{
    LP_PHASE("iteration");
    {
        LP_PHASE("wait_for_steppers");
        pthread_barrier_wait(&worker->stepped);
    }
    write_trajectories(worker, iteration);
    worker->is_last = is_last;
    {
        LP_PHASE("release_steppers");
        pthread_barrier_wait(&worker->written);
    }
}

static void start_steppers(struct worker *worker)
{
    pthread_barrier_init(&worker->stepped, NULL, (unsigned)worker->threads + 1);
    pthread_barrier_init(&worker->written, NULL, (unsigned)worker->threads + 1);
    worker->steppers = calloc((size_t)worker->threads, sizeof *worker->steppers);
    for (int i = 0; worker->steppers && i < worker->threads; i++) {
        struct stepper *stepper = &worker->steppers[i];
        stepper->worker = worker;
        stepper->number = i;
        stepper->random = (unsigned)(worker->number * LIMIT + i);
        if (pthread_create(&stepper->thread, NULL, run_stepper, stepper) != 0)
            exit(EXIT_FAILURE);
    }
}

static void end_steppers(struct worker *worker)
{
    for (int i = 0; i < worker->threads; i++)
        pthread_join(worker->steppers[i].thread, NULL);
    free(worker->steppers);
}

/* All that a worker process does. Its profiler is one of its own, in the run of the launcher's. */
static int work(int number, const struct settings *settings)
{
    struct worker worker = {.number = number, .threads = settings->threads, .trajectories = tmpfile()};
    lp_profiler *profiler = lp_open(&(lp_options){.role = "simulator", .thread_names = 1});
    if (!profiler || !worker.trajectories)
        return EXIT_FAILURE;
    lp_name_thread("main");
    start_steppers(&worker);
    for (int iteration = 1; !worker.is_last; iteration++)
        iterate(&worker, iteration, iteration == settings->iterations || stop_wanted);
    end_steppers(&worker);
    fclose(worker.trajectories);
    return lp_close(profiler) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Forks the workers. A signal that comes meanwhile waits until all of them can be told. */
static void start_workers(const struct settings *settings)
{
    LP_PHASE("start_workers");
    sigset_t terminate;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    sigprocmask(SIG_BLOCK, &terminate, NULL);
    for (int i = 0; i < settings->workers; i++) {
        workers[i] = fork();
        if (workers[i] == 0) {
            memset(workers, 0, sizeof workers);
            sigprocmask(SIG_UNBLOCK, &terminate, NULL);
            exit(work(i, settings));
        }
    }
    sigprocmask(SIG_UNBLOCK, &terminate, NULL);
}

/* Waits for all workers. How many failed? */
static int watch(int n)
{
    LP_PHASE("watch");
    int failed = 0;
    for (int i = 0; i < n; i++) {
        int status = -1;
        while (waitpid(workers[i], &status, 0) < 0 && errno == EINTR)
            continue;
        workers[i] = 0;
        failed += status != 0;
    }
    return failed;
}

/* The argument at this place, from 1 to `most`. */
static int number_at(char **arguments, int place, int count, int otherwise, int most)
{
    int number = place < count ? atoi(arguments[place]) : otherwise;
    if (number < 1 || number > most) {
        fprintf(stderr, "usage: %s [iterations [workers [threads [run_dir]]]]; at most %d\n", arguments[0], most);
        exit(EXIT_FAILURE);
    }
    return number;
}

int main(int count, char **arguments)
{
    struct settings settings = {
        .iterations = number_at(arguments, 1, count, 1000, 1000000),
        .workers = number_at(arguments, 2, count, 2, LIMIT),
        .threads = number_at(arguments, 3, count, 2, LIMIT),
    };
    /* Before lp_open(): its handler writes the files, and then calls this one. */
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = want_stop}, NULL);
    lp_profiler *profiler = lp_open(&(lp_options){.run_dir = count > 4 ? arguments[4] : "profile", .role = "launcher"});
    if (!profiler) {
        fprintf(stderr, "%s\n", lp_error_message());
        return EXIT_FAILURE;
    }
    start_workers(&settings);
    int failed = watch(settings.workers);
    if (failed)
        fprintf(stderr, "%d workers failed\n", failed);
    return lp_close(profiler) == 0 && !failed ? EXIT_SUCCESS : EXIT_FAILURE;
}
