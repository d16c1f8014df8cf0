/* The living and the others of a run, on a machine of one's own. */
#include "support/in_folder.h"
#include "support/worker.h"

#include <math.h>
#include <sched.h>
#include <sys/syscall.h>

#include "run/where.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static struct lp_where *load(void)
{
    struct lp_where *where;
    char message[256];
    int status = lp_where_load(&where, folder, NULL, NULL, message, sizeof message);
    if (status != LP_RUN_OK)
        print_error("%s\n", message);
    CHECK(status == LP_RUN_OK);
    return where;
}

/* A worker of the same run in a process of its own, inside a phase. */
static pid_t start(void (*then)(struct lp_worker *))
{
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct lp_entry entry;
        struct lp_worker_options options = quiet_options(folder);
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        close(ready[0]);
        options.run_id = "one";
        struct lp_worker *worker = worker_open_with(&options);
        lp_record_enter(lp_worker_recorder(worker), name_of("step"), &entry);
        CHECK(write(ready[1], "x", 1) == 1);
        then(worker);
        _exit(0);
    }
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return pid;
}

static void hang(struct lp_worker *worker)
{
    (void)worker;
    pause();
}

static void close_it(struct lp_worker *worker)
{
    lp_worker_free(worker);
}

static void write_and_hang(struct lp_worker *worker)
{
    char message[256];
    CHECK(lp_worker_snapshot(worker, message, sizeof message) == 0);
    pause();
}

/* The file of the one worker; NULL: there is none yet. */
static char *file_of_worker(void)
{
    struct run_files files = run_files(folder);
    char *path = files.n > 0 ? strdup(files.paths[0]) : NULL;
    run_files_free(&files);
    return path;
}

static const struct lp_where_worker *find(const struct lp_where *where, pid_t pid)
{
    for (size_t i = 0; i < where->n_workers; i++)
        if (where->workers[i].stacks.pid == (uint64_t)pid)
            return &where->workers[i];
    return NULL;
}

static void look_at_all(void *context)
{
    (void)context;
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=32m,mode=1777");
    pid_t hangs = start(hang), killed = start(hang), closes = start(close_it);
    CHECK(waitpid(closes, NULL, 0) == closes);
    CHECK(kill(killed, SIGKILL) == 0 && waitpid(killed, NULL, 0) == killed);
    struct lp_where *where = load();
    CHECK_U64(where->n_workers, 1);
    CHECK_U64(where->n_ended, 1);
    CHECK_U64(where->n_closed, 1);
    CHECK_U64(where->n_elsewhere, 0);
    CHECK_U64(where->n_all, 3);
    CHECK(where->run_id.len == 3 && memcmp(where->run_id.bytes, "one", 3) == 0);
    CHECK(where->ended[0].worker->pid == killed);
    CHECK(where->ended[0].worker->source == LP_SOURCE_FILE); /* adopted */
    const struct lp_where_worker *worker = find(where, hangs);
    CHECK(worker && worker->of_run && worker->n_threads == 1);
    CHECK(worker->threads[0].open.n_stacks == 1);
    CHECK(worker->threads[0].state == LP_WHERE_WAITING);
    CHECK(worker->threads[0].kernel_state == 'S');
    lp_where_free(where);

    CHECK(kill(hangs, SIGSTOP) == 0);
    CHECK(waitpid(hangs, NULL, WUNTRACED) == hangs);
    where = load();
    worker = find(where, hangs);
    CHECK(worker && worker->threads[0].state == LP_WHERE_STOPPED);
    lp_where_free(where);
    CHECK(kill(hangs, SIGKILL) == 0 && waitpid(hangs, NULL, 0) == hangs);
}

static void test_the_living_the_dead_and_the_closed(void **state)
{
    (void)state;
    in_child(look_at_all, NULL);
}

static void test_there_is_nothing(void **state)
{
    (void)state;
    struct lp_where *where;
    char message[256];
    assert_int_equal(lp_where_load(&where, folder, NULL, NULL, message, sizeof message), LP_RUN_EMPTY);
    assert_null(where);
    assert_non_null(strstr(message, folder));
    assert_int_equal(lp_where_load(&where, "/no/such/run", NULL, NULL, message, sizeof message), LP_RUN_MISSING);
    assert_null(where);
}

/* One that only has an image yet, and a directory in which no file can be read. */
static void look_without_files(void *context)
{
    (void)context;
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=32m,mode=1777");
    pid_t hangs = start(hang);
    char *path;
    CHECK(asprintf(&path, "%s/workers/here", folder) > 0);
    CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
    free(path);
    CHECK(asprintf(&path, "%s/workers/here/w_x_1_1.json", folder) > 0);
    file_write(path, "{", 1);
    free(path);
    struct lp_where *where = load();
    CHECK_U64(where->n_workers, 1);
    CHECK_U64(where->n_all, 1);
    CHECK(where->run && where->run->n_unreadable == 1);
    lp_where_free(where);
    CHECK(kill(hangs, SIGKILL) == 0 && waitpid(hangs, NULL, 0) == hangs);
}

static void test_without_a_readable_file(void **state)
{
    (void)state;
    in_child(look_without_files, NULL);
}

/* In place of libc's: hangs when it is told to, as on a dead file server. */
static atomic_bool hangs_in_fsync;

int fsync(int fd)
{
    while (atomic_load(&hangs_in_fsync))
        pause();
    return (int)syscall(SYS_fsync, fd);
}

static void hang_in_close(struct lp_worker *worker)
{
    atomic_store(&hangs_in_fsync, true);
    lp_worker_close(worker, NULL, 0);
}

/* Why does the job not end? It is not done with its file. */
static void look_at_one_that_closes(void *context)
{
    (void)context;
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=32m,mode=1777");
    pid_t hangs = start(hang_in_close);
    struct lp_where *where = load();
    while (where->n_closing == 0) {
        lp_where_free(where);
        where = load();
    }
    CHECK_U64(where->n_workers, 1);
    CHECK_U64(where->n_all, 1);
    CHECK_U64(where->n_closed, 0);
    CHECK(where->workers[0].stacks.closing && where->workers[0].stacks.closing_ns < 100000000000u);
    CHECK_U64(where->workers[0].n_threads, 0); /* what it leaves in close() would stay open for ever */
    lp_where_free(where);
    CHECK(kill(hangs, SIGKILL) == 0 && waitpid(hangs, NULL, 0) == hangs);
    where = load();
    CHECK_U64(where->n_workers + where->n_closing, 0);
    CHECK_U64(where->n_all, 1);
    lp_where_free(where);
}

static void test_one_that_hangs_in_close(void **state)
{
    (void)state;
    in_child(look_at_one_that_closes, NULL);
}

/* In a container the numbers of threads are others: what the kernel says of such numbers here is not about them. */
static void look_into_another_namespace(void *context)
{
    (void)context;
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=32m,mode=1777");
    CANNOT_IF(unshare(CLONE_NEWPID) != 0);
    pid_t hangs = start(hang);
    struct lp_where *where = load();
    CHECK_U64(where->n_workers, 1);
    const struct lp_where_thread *thread = &where->workers[0].threads[0];
    CHECK_U64(where->workers[0].stacks.pid, 1);
    CHECK(thread->open.n_stacks == 1 && thread->open.stacks[0].n_frames == 1);
    CHECK(thread->state == LP_WHERE_NOT_KNOWN && thread->kernel_state == 0 && isnan(thread->cpu_share));
    lp_where_free(where);
    CHECK(kill(hangs, SIGKILL) == 0 && waitpid(hangs, NULL, 0) == hangs);
}

static void test_another_pid_namespace(void **state)
{
    (void)state;
    in_child(look_into_another_namespace, NULL);
}

/* Durations are right also where the worker's clock is set off: a thousand seconds in which nothing was open. */
static void look_into_another_time(void *context)
{
    (void)context;
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=32m,mode=1777");
    CANNOT_IF(unshare(CLONE_NEWTIME) != 0);
    int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    static const char offset[] = "monotonic -1000 0";
    CANNOT_IF(fd < 0 || write(fd, offset, sizeof offset - 1) < 0);
    close(fd);
    pid_t hangs = start(hang);
    struct lp_where *where = load();
    CHECK_U64(where->n_workers, 1);
    const struct lp_stacks_thread *thread = &where->workers[0].threads[0].open;
    CHECK(thread->n_stacks == 1 && thread->stacks[0].n_frames == 1);
    CHECK(thread->stacks[0].frames[0].open_ns < 500000000000u);
    lp_where_free(where);
    CHECK(kill(hangs, SIGKILL) == 0 && waitpid(hangs, NULL, 0) == hangs);
}

static void test_another_time_namespace(void **state)
{
    (void)state;
    in_child(look_into_another_time, NULL);
}

/* CK05: workers of another boot, and of this one whose images are not to be seen. */
static void look_at_files(void *context)
{
    char *path, command[600];
    (void)context;
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=32m,mode=1777");
    pid_t hangs = start(write_and_hang);
    WAIT_UNTIL((path = file_of_worker()) != NULL);
    mounts_tmpfs("/dev/shm", "size=32m,mode=1777"); /* hides the image */
    struct lp_where *where = load();
    CHECK_U64(where->n_workers, 0);
    CHECK_U64(where->n_elsewhere, 1);
    CHECK(where->elsewhere[0].same_clock && !where->elsewhere[0].ahead);
    CHECK(where->elsewhere[0].age_ns < 100000000000u);
    CHECK(where->elsewhere[0].worker->n_open == 1);
    lp_where_free(where);
    snprintf(command, sizeof command, "sed -i 's/\"boot_id\":\"[^\"]*/\"boot_id\":\"x/' '%s' && touch -d @0 '%s'", path,
             path);
    CHECK(system(command) == 0);
    where = load();
    CHECK_U64(where->n_elsewhere, 1);
    CHECK(!where->elsewhere[0].same_clock && !where->elsewhere[0].ahead);
    CHECK(where->elsewhere[0].age_ns < 100000000000u);
    lp_where_free(where);
    free(path);
    CHECK(kill(hangs, SIGKILL) == 0 && waitpid(hangs, NULL, 0) == hangs);
}

static void test_only_their_files_are_seen_CK05(void **state)
{
    (void)state;
    in_child(look_at_files, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_the_living_the_dead_and_the_closed),
        in_folder(test_there_is_nothing),
        in_folder(test_without_a_readable_file),
        in_folder(test_one_that_hangs_in_close),
        in_folder(test_another_pid_namespace),
        in_folder(test_another_time_namespace),
        in_folder(test_only_their_files_are_seen_CK05),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
