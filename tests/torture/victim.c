/*
 * A victim: plays a program of phases and counters (program.py) until it dies, and writes a byte to standard output
 * after each operation that has returned. The byte is the number of the stream that did it.
 *
 *     victim RUN_DIR RUN_ID PROGRAM [option=value...]
 *
 *     interval=S    of flushes; 0: none
 *     snapshots=1   a thread writes the file over and over
 *     forks=N       the first stream forks N times, after fork_at operations; each child plays lines of its own
 *     end=HOW       what the stream `by` does after `at` operations: exit, segv, abort, exec, hog, return
 *     turns=N       operations of each stream; after them the process closes its profiler and returns
 *     churn=1       streams but the first take a new thread for each round
 *     daemon=1      closes all descriptors that are not its own, as daemons do
 *     signal=N      handler=ignored, before, after: ours installed before or after the profiler's
 *     then=HOW      what that handler does: exit (with 42), stop (all streams end; the process returns 43)
 *     cgroup=FILE   joins this memory cgroup
 */
#include <fcntl.h>
#include <lineprofiler.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define DEPTH 32
#define STREAMS 64
#define PIECE ((size_t)1 << 20)

struct operation {
    char kind;
    lp_name name;
    int64_t n;
};

struct stream {
    struct operation *operations;
    size_t n;
    unsigned char id;
};

static struct stream streams[STREAMS];
static unsigned n_streams, n_processes = 1;
static lp_profiler *profiler;
static _Atomic bool stop;
static int status;
static const char *how_to_end = "";
static unsigned ends_by;
static unsigned long ends_at, forks_at, turns;
static bool churn;

static int option_count;
static char **options;

static const char *option(const char *key, const char *otherwise)
{
    size_t len = strlen(key);
    for (int i = 0; i < option_count; i++)
        if (strncmp(options[i], key, len) == 0 && options[i][len] == '=')
            return options[i] + len + 1;
    return otherwise;
}

static unsigned long number(const char *key)
{
    return strtoul(option(key, "0"), NULL, 10);
}

static void fail(const char *what)
{
    perror(what);
    _exit(99);
}

/* ---- the program ----------------------------------------------------------------- */

static struct operation read_operation(char *word)
{
    struct operation operation = {.kind = word[0]};
    char *colon = word[0] == '#' ? strchr(word, ':') : NULL;
    if (colon) {
        *colon = '\0';
        operation.n = strtoll(colon + 1, NULL, 10);
    }
    operation.name = word[1] ? lp_intern(word + 1) : 0;
    return operation;
}

static void read_line(struct stream *stream, char *line)
{
    char *rest = line;
    stream->operations = calloc(strlen(line) / 2 + 1, sizeof *stream->operations);
    for (char *word; stream->operations && (word = strsep(&rest, " \n"));)
        if (*word)
            stream->operations[stream->n++] = read_operation(word);
}

static void read_program(const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    if (!file)
        fail(path);
    for (; n_streams < STREAMS && getline(&line, &size, file) > 0; n_streams++) {
        streams[n_streams].id = (unsigned char)n_streams;
        read_line(&streams[n_streams], line);
    }
    free(line);
    fclose(file);
}

/* ---- ends ------------------------------------------------------------------------ */

/* More and more memory, until the kernel has enough of it. */
static void *hog(void *context)
{
    for (char *piece; (piece = malloc(PIECE));)
        memset(piece, 1, PIECE);
    return context;
}

static void start(void *(*function)(void *), void *context)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, context) != 0 || pthread_detach(thread) != 0)
        fail("pthread_create");
}

static void end(void)
{
    int *volatile nowhere = NULL;
    if (strcmp(how_to_end, "exit") == 0)
        _exit(7);
    if (strcmp(how_to_end, "segv") == 0)
        *nowhere = 1;
    if (strcmp(how_to_end, "abort") == 0)
        abort();
    if (strcmp(how_to_end, "exec") == 0)
        execl("/bin/true", "true", (char *)NULL);
    if (strcmp(how_to_end, "hog") == 0)
        start(hog, NULL);
    if (strcmp(how_to_end, "return") == 0)
        atomic_store(&stop, true);
}

static void exit_at_once(int number_of_signal)
{
    (void)number_of_signal;
    _exit(42);
}

static void stop_all(int number_of_signal)
{
    (void)number_of_signal;
    status = 43;
    atomic_store(&stop, true);
}

static void handle_signal(const char *when)
{
    const char *handler = option("handler", "");
    struct sigaction action = {.sa_handler = strcmp(option("then", ""), "stop") == 0 ? stop_all : exit_at_once};
    if (strcmp(when, "before") == 0 && strcmp(handler, "ignored") == 0)
        action.sa_handler = SIG_IGN;
    else if (strcmp(handler, when) != 0)
        return;
    sigaction((int)number("signal"), &action, NULL);
}

/* ---- playing --------------------------------------------------------------------- */

static void *play(void *stream);

/* Where no thread can be had, another one is in the middle of an exec, and that is the end. */
static pthread_t start_to_join(void *(*function)(void *), void *context)
{
    pthread_t thread;
    while (pthread_create(&thread, NULL, function, context) != 0)
        pause();
    return thread;
}

static void *snapshots(void *context)
{
    while (!atomic_load(&stop))
        lp_snapshot(profiler);
    return context;
}

/* The streams of process `index`, the first of them on this thread. */
static void play_all(unsigned index)
{
    unsigned each = n_streams / n_processes, first = index * each;
    pthread_t threads[STREAMS];
    for (unsigned i = 1; i < each; i++)
        threads[i] = start_to_join(play, &streams[first + i]);
    play(&streams[first]);
    for (unsigned i = 1; i < each; i++)
        pthread_join(threads[i], NULL);
}

static void fork_all(void)
{
    for (unsigned i = 1; i < n_processes; i++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
            play_all(i);
            _exit(0);
        }
    }
}

/* From operation `done` until `until`. */
static void play_part(const struct stream *stream, unsigned long done, unsigned long until)
{
    lp_phase open[DEPTH];
    unsigned depth = 0;
    for (; done < until && !atomic_load_explicit(&stop, memory_order_relaxed); done++) {
        const struct operation *operation = &stream->operations[done % stream->n];
        if (stream->id == 0 && n_processes > 1 && done == forks_at)
            fork_all();
        if (stream->id == ends_by && done == ends_at) {
            end();
            if (atomic_load(&stop))
                break;
        }
        if (operation->kind == '+')
            open[depth++] = lp_enter(profiler, operation->name);
        else if (operation->kind == '-')
            lp_leave(&open[--depth]);
        else
            lp_count(profiler, operation->name, operation->n);
        if (write(STDOUT_FILENO, &stream->id, 1) != 1)
            _exit(98);
    }
}

struct part {
    const struct stream *stream;
    unsigned long from;
};

static void *play_round(void *context)
{
    const struct part *part = context;
    unsigned long until = part->from + part->stream->n;
    play_part(part->stream, part->from, until < turns ? until : turns);
    return NULL;
}

static void *play(void *context)
{
    const struct stream *stream = context;
    if (!churn || stream->id == 0) {
        play_part(stream, 0, turns);
        return NULL;
    }
    for (struct part part = {stream, 0}; part.from < turns && !atomic_load(&stop); part.from += stream->n)
        pthread_join(start_to_join(play_round, &part), NULL);
    return NULL;
}

static void join_cgroup(const char *path)
{
    char pid[32];
    int fd = open(path, O_WRONLY | O_CLOEXEC), len = snprintf(pid, sizeof pid, "%d", getpid());
    if (fd < 0 || write(fd, pid, (size_t)len) != len)
        fail(path);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    options = argv + 4;
    option_count = argc - 4;
    n_processes += (unsigned)number("forks");
    how_to_end = option("end", "");
    ends_by = (unsigned)number("by");
    ends_at = number("at");
    forks_at = number("fork_at");
    turns = number("turns") ? number("turns") : ~0ul;
    churn = number("churn");
    read_program(argv[3]);
    if (*option("cgroup", ""))
        join_cgroup(option("cgroup", ""));
    handle_signal("before");
    double interval_s = strtod(option("interval", "0"), NULL);
    profiler = lp_open(&(lp_options){.run_dir = argv[1],
                                     .run_id = argv[2],
                                     .role = "victim",
                                     .snapshot_interval_s = interval_s > 0 ? interval_s : -1,
                                     .sample_interval_s = -1});
    if (!profiler) {
        fprintf(stderr, "%s\n", lp_error_message());
        return 97;
    }
    handle_signal("after");
    if (number("daemon"))
        close_range(STDERR_FILENO + 1, ~0u, 0);
    if (number("snapshots"))
        start(snapshots, NULL);
    play_all(0);
    return lp_close(profiler) == 0 ? status : 96;
}
