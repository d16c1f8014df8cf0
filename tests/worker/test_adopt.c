/* What dead workers have left: written out once, whole, and removed; what may be needed stays (F7). */
#include "support/in_folder.h"
#include "support/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "process/identity.h"
#include "process/other.h"
#include "process/stamp.h"
#include "process/thread_state.h"
#include "worker/adopt.h"
#include "worker/children.h"
#include "worker/owner.h"
#include "worker/walk.h"

static void own_shm(void)
{
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=64m,mode=1777");
}

static size_t adopt(const char *run_dir)
{
    return lp_adopt(&(struct lp_adoption){.run_dir = run_dir});
}

static int count_one(void *context, const struct lp_image_file *file)
{
    (void)file;
    ++*(uint64_t *)context;
    return 0;
}

static uint64_t images(void)
{
    uint64_t n = 0;
    lp_images_walk(O_RDONLY, count_one, &n);
    return n;
}

/* What a worker that is to die tells the test. */
struct told {
    char path[512], image[300];
};

static void tell(int to, const struct lp_worker *worker)
{
    struct told told;
    memset(&told, 0, sizeof told);
    snprintf(told.path, sizeof told.path, "%s", lp_worker_path(worker));
    snprintf(told.image, sizeof told.image, "%s", lp_worker_recorder((struct lp_worker *)worker)->image.path);
    CHECK(write(to, &told, sizeof told) == sizeof told);
}

static void on_signal(int number)
{
    (void)number;
    _exit(3);
}

/* Starts a process that records seven entries and stays inside "outer", with whatever `then` does. */
static pid_t start(struct told *told, const char *run_dir, void (*then)(void))
{
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct lp_entry outer;
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        struct lp_worker *worker = worker_open(run_dir);
        signal(SIGUSR1, on_signal);
        CANNOT_IF(lp_worker_recorder(worker)->image.fd < 0);
        lp_record_enter(lp_worker_recorder(worker), name_of("outer"), &outer);
        for (int i = 0; i < 7; i++)
            worker_record(worker, "a");
        tell(pipes[1], worker);
        then();
        _exit(3);
    }
    close(pipes[1]);
    CHECK(read(pipes[0], told, sizeof *told) == sizeof *told);
    close(pipes[0]);
    return pid;
}

static void do_nothing(void)
{
    pause();
}

static void go_on(void)
{
}

static void wait_and_go_on(void)
{
    for (;;)
        pause();
}

static void die(void)
{
    raise(SIGKILL);
}

static void wait_for(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
}

static void kill_it(pid_t pid)
{
    CHECK(kill(pid, SIGKILL) == 0);
    wait_for(pid);
}

static struct told leave_a_dead_one(const char *run_dir)
{
    struct told told;
    wait_for(start(&told, run_dir, die));
    return told;
}

static json_int_t end_at(const char *path, const char *key)
{
    json_t *document = file_document(path), *ended = json_object_get(document, "ended");
    CHECK(json_is_object(ended));
    const json_t *value = json_object_get(ended, key);
    json_int_t number = json_is_null(value) ? -1 : json_integer_value(value);
    json_decref(document);
    return number;
}

static void check_file(const char *path)
{
    json_t *document = file_document(path);
    CHECK(document != NULL);
    CHECK(strcmp(text_at(document, "state"), "running") == 0);
    CHECK_U64(figures_at(document, "outer/a").calls, 7);
    CHECK_U64(figures_at(document, "outer").open_calls, 1);
    assert_document_adds_up(document);
    json_decref(document);
}

static void adopt_one(void *context)
{
    (void)context;
    own_shm();
    struct told told = leave_a_dead_one(folder);
    CHECK_U64(images(), 1);
    CHECK(file_document(told.path) == NULL); /* it died before its first flush */
    CHECK_U64(adopt("/no/such/run"), 0);
    CHECK_U64(adopt(folder), 1);
    check_file(told.path);
    CHECK(end_at(told.path, "signal") == -1 && end_at(told.path, "exit_status") == -1); /* the test has waited for it */
    CHECK_U64(images(), 0);
    CHECK_U64(adopt(folder), 0);
}

static int tell_to; /* not on the stack of a thread that ends */

/* As start(), on a thread that outlives the process's first; it loses its file, is given another, and dies. */
static void *record_alone(void *context)
{
    struct lp_entry outer;
    struct lp_worker *worker;
    struct lp_thread_look look;
    do
        lp_thread_glance(&look, (uint64_t)getpid(), (uint64_t)getpid());
    while (look.state != 'Z');
    worker = worker_open(folder);
    struct lp_recorder *recorder = lp_worker_recorder(worker);
    lp_record_enter(recorder, name_of("outer"), &outer);
    for (int i = 0; i < 7; i++)
        worker_record(worker, "a");
    CHECK(access(recorder->image.path, F_OK) == 0);
    CHECK(unlink(recorder->image.path) == 0);
    lp_recorder_restore(recorder);
    CHECK(access(recorder->image.path, F_OK) == 0);
    tell(tell_to, worker);
    raise(SIGKILL);
    return context;
}

static void end_first_thread(void *context)
{
    pthread_t other;
    CHECK(pthread_create(&other, NULL, record_alone, context) == 0);
    pthread_exit(NULL);
}

static void adopt_one_without_first_thread(void *context)
{
    int pipes[2];
    struct told told;
    (void)context;
    own_shm();
    CHECK(pipe(pipes) == 0);
    tell_to = pipes[1];
    int status = run_child(end_first_thread, NULL);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(read(pipes[0], &told, sizeof told) == sizeof told);
    CHECK_U64(adopt(folder), 1);
    check_file(told.path);
}

static void test_a_process_whose_first_thread_has_ended(void **state)
{
    (void)state;
    if (LP_TEST_TSAN)
        skip(); /* it has a thread of its own */
    in_child(adopt_one_without_first_thread, NULL);
}

static void test_a_killed_worker(void **state)
{
    (void)state;
    in_child(adopt_one, NULL);
}

static void adopt_a_zombie(void *context)
{
    struct told told;
    siginfo_t info;
    (void)context;
    own_shm();
    pid_t killed = start(&told, folder, die);
    CHECK(waitid(P_PID, (id_t)killed, &info, WEXITED | WNOWAIT) == 0);
    CHECK_U64(adopt(folder), 1);
    CHECK(end_at(told.path, "signal") == SIGKILL && end_at(told.path, "exit_status") == -1);
    wait_for(killed); /* still there to be waited for */

    pid_t left = start(&told, folder, go_on);
    CHECK(waitid(P_PID, (id_t)left, &info, WEXITED | WNOWAIT) == 0);
    CHECK_U64(adopt(folder), 1);
    CHECK(end_at(told.path, "signal") == -1 && end_at(told.path, "exit_status") == 3);
    wait_for(left);
}

static void test_how_a_child_ended_is_told(void **state)
{
    (void)state;
    in_child(adopt_a_zombie, NULL);
}

static void count_pidfds(void *context, const char *name)
{
    char path[300], link[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%s", name);
    if (readlink(path, link, sizeof link - 1) > 0 && strstr(link, "pidfd"))
        ++*(int *)context;
}

static int pidfds(void)
{
    int n = 0;
    folder_each("/proc/self/fd", count_pidfds, &n);
    return n;
}

static void tell_of_children(void *context)
{
    struct told killed, left, alive;
    (void)context;
    own_shm();
    CANNOT_IF(!lp_process_can_watch());
    pid_t one = start(&killed, folder, do_nothing), two = start(&left, folder, wait_and_go_on);
    pid_t three = start(&alive, folder, do_nothing);
    lp_children_look();
    CHECK(pidfds() == 3);
    if (fork() == 0) { /* they are not its own */
        lp_children_after_fork();
        _exit(pidfds());
    }
    int status;
    CHECK(wait(&status) > 0 && status == 0);
    kill_it(one); /* and wait for it */
    CHECK(kill(two, SIGUSR1) == 0);
    wait_for(two);
    CHECK_U64(adopt(folder), 2);
    CHECK(end_at(killed.path, "signal") == SIGKILL && end_at(killed.path, "exit_status") == -1);
    CHECK(end_at(left.path, "signal") == -1 && end_at(left.path, "exit_status") == 3);
    CHECK(pidfds() == 1);
    lp_children_forget();
    CHECK(pidfds() == 0);
    kill_it(three);
    CHECK_U64(adopt(folder), 1);
    CHECK(end_at(alive.path, "signal") == -1);
}

static void test_how_children_ended_that_were_waited_for(void **state)
{
    (void)state;
    in_child(tell_of_children, NULL);
}

/* A host that closes all descriptors and opens its own finds those untouched. */
static void close_what_was_watched(void *context)
{
    struct told told;
    (void)context;
    own_shm();
    CANNOT_IF(!lp_process_can_watch());
    pid_t pid = start(&told, folder, do_nothing);
    lp_children_look();
    CHECK(pidfds() == 1);
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    int mine[64];
    for (int i = 0; i < 64; i++)
        CHECK((mine[i] = open("/dev/null", O_RDONLY)) >= 0);
    kill_it(pid);
    lp_children_note();
    lp_children_forget();
    for (int i = 0; i < 64; i++)
        CHECK(fcntl(mine[i], F_GETFD) >= 0);
    CHECK_U64(adopt(folder), 1);
    CHECK(end_at(told.path, "signal") == -1);
}

static void test_descriptors_of_the_host_are_left_alone(void **state)
{
    (void)state;
    in_child(close_what_was_watched, NULL);
}

/* ---- the living ------------------------------------------------------------------------ */

static void close_all(void)
{
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    pause();
}

static void become_another_program(void)
{
    execlp("sleep", "sleep", "1000", (char *)NULL);
    _exit(CANNOT);
}

static bool is_running(pid_t pid, const char *program)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    char *text = file_read(path, NULL);
    bool is = text && strcmp(text, program) == 0;
    free(text);
    return is;
}

static bool has_closed(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    return folder_each(path, NULL, NULL) <= 3;
}

static void leave_the_living(void *context)
{
    struct told told, closed;
    (void)context;
    own_shm();
    pid_t one = start(&told, folder, do_nothing), two = start(&closed, folder, close_all);
    WAIT_UNTIL(has_closed(two));
    CHECK_U64(adopt(folder), 0);
    CHECK_U64(images(), 2);
    kill_it(one);
    kill_it(two);
    CHECK_U64(adopt(folder), 2);
    check_file(told.path);
    check_file(closed.path);
}

static void test_the_living_are_left_alone(void **state)
{
    (void)state;
    in_child(leave_the_living, NULL);
}

/* What is asked of /proc takes a descriptor. */
static void look_without_descriptors(void *context)
{
    (void)context;
    own_shm();
    struct lp_worker *worker = worker_open(folder);
    struct lp_image *image = &lp_worker_recorder(worker)->image;
    CANNOT_IF(image->fd < 0);
    struct lp_header header = *lp_image_header(image), stranger = header;
    struct rlimit limit;
    int fd = open(image->path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    stranger.boot_id[0] = '\0'; /* its owner could not read it */
    CHECK(lp_owner_lives(&stranger, fd));
    limit.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(lp_owner_lives(&header, fd));
    CHECK(lp_owner_lives(&stranger, fd));
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    close(fd);
    lp_worker_free(worker);
}

static void test_nobody_is_dead_for_want_of_descriptors(void **state)
{
    (void)state;
    in_child(look_without_descriptors, NULL);
}

static void adopt_after_exec(void *context)
{
    struct told told;
    (void)context;
    own_shm();
    pid_t pid = start(&told, folder, become_another_program);
    WAIT_UNTIL(is_running(pid, "sleep"));
    CHECK_U64(adopt(folder), 1);
    check_file(told.path);
    CHECK(kill(pid, 0) == 0);
    kill_it(pid);
}

static void test_a_process_that_became_another_program_EX11(void **state)
{
    (void)state;
    in_child(adopt_after_exec, NULL);
}

/* A clone that runs no fork handlers keeps the lock of a dead parent. */
static void clone_and_die(void)
{
    if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L) == 0) {
        pause();
        _exit(0);
    }
    raise(SIGKILL);
}

static void adopt_under_a_clone(void *context)
{
    struct told told;
    (void)context;
    own_shm();
    CHECK(setpgid(0, 0) == 0);
    wait_for(start(&told, folder, clone_and_die));
    CHECK_U64(adopt(folder), 1);
    check_file(told.path);
    kill(0, SIGKILL); /* the clone, and us */
}

static void test_a_clone_holds_the_lock(void **state)
{
    (void)state;
    int status = run_child(adopt_under_a_clone, NULL);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
        skip();
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- closed, but not to the end ---------------------------------------------------------- */

static void change_image(const char *path, size_t offset, const void *bytes, size_t len)
{
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, bytes, len, (off_t)offset) == (ssize_t)len);
    close(fd);
}

#define change_header(path, field, value)                                                                              \
    do {                                                                                                               \
        typeof(((struct lp_header *)0)->field) value_ = (value);                                                       \
        change_image(path, offsetof(struct lp_header, field), &value_, sizeof value_);                                 \
    } while (0)

static void adopt_closed(void *context)
{
    (void)context;
    own_shm();
    /* Killed before it had written its last file, which is then written as it would have been. */
    struct told told = leave_a_dead_one(folder);
    struct lp_stamp now = lp_stamp_now();
    change_header(told.image, closed_at, now);
    change_header(told.image, closed, 1);
    CHECK_U64(adopt(folder), 1);
    json_t *document = file_document(told.path);
    CHECK(strcmp(text_at(document, "state"), "closed") == 0);
    CHECK(json_is_null(json_object_get(document, "ended")));
    CHECK_U64(json_u64(json_object_get(document, "written"), "monotonic_ns", 0), now.monotonic_ns);
    json_decref(document);

    /* Killed after that: only the image is left to remove. */
    told = leave_a_dead_one(folder);
    change_header(told.image, closed, 1);
    change_header(told.image, file_is_last, 1);
    CHECK_U64(adopt(folder), 1);
    CHECK(file_document(told.path) == NULL);
    CHECK_U64(images(), 0);
}

static void test_a_kill_inside_close(void **state)
{
    (void)state;
    in_child(adopt_closed, NULL);
}

static void adopt_what_could_not_be_written(void *context)
{
    char workers[400], aside[400], message[512];
    (void)context;
    own_shm();
    snprintf(workers, sizeof workers, "%s/workers", folder);
    snprintf(aside, sizeof aside, "%s/aside", folder);
    struct lp_worker *worker = worker_open(folder);
    CANNOT_IF(lp_worker_recorder(worker)->image.fd < 0);
    worker_record(worker, "a");
    CHECK(rename(workers, aside) == 0);
    file_write(workers, "", 0); /* no folder can be made there */
    CHECK(lp_worker_close(worker, message, sizeof message) != LP_WORKER_OK);
    CHECK_U64(adopt(folder), 0); /* nor by others */
    CHECK_U64(images(), 1);
    CHECK(unlink(workers) == 0);
    CHECK_U64(adopt(folder), 1); /* while the process lives */
    json_t *document = worker_document(worker);
    CHECK(strcmp(text_at(document, "state"), "closed") == 0);
    json_decref(document);
    lp_worker_free(worker);
    CHECK_U64(images(), 0);
}

static void test_a_close_that_could_not_write(void **state)
{
    (void)state;
    in_child(adopt_what_could_not_be_written, NULL);
}

/* What went on in private memory is lost with the process: a flush may have had it. */
static void adopt_a_part(void *context)
{
    size_t len;
    (void)context;
    own_shm();
    struct told told = leave_a_dead_one(folder), whole = leave_a_dead_one(folder);
    change_header(told.image, used, (uint64_t)1 << 20);
    change_header(whole.image, used, (uint64_t)1 << 20);
    file_write(whole.path, "the last flush", 14);
    CHECK_U64(adopt(folder), 2);
    check_file(told.path); /* better than nothing */
    char *text = file_read(whole.path, &len);
    CHECK(text && strcmp(text, "the last flush") == 0);
    free(text);
    CHECK_U64(images(), 0);
}

static void test_a_part_yields_to_the_last_flush(void **state)
{
    (void)state;
    in_child(adopt_a_part, NULL);
}

/* ---- once, by many ------------------------------------------------------------------------ */

#define DEAD 12
#define ADOPTERS 6

static void race(void *context)
{
    struct told dead[DEAD];
    int go[2], results[2];
    size_t sum = 0, one;
    (void)context;
    own_shm();
    for (int i = 0; i < DEAD; i++)
        dead[i] = leave_a_dead_one(folder);
    CHECK(pipe(go) == 0 && pipe(results) == 0);
    for (int i = 0; i < ADOPTERS; i++)
        if (fork() == 0) {
            char byte;
            close(go[1]);
            CHECK(read(go[0], &byte, 1) == 0); /* all at once */
            one = adopt(folder);
            CHECK(write(results[1], &one, sizeof one) == sizeof one);
            _exit(0);
        }
    close(go[1]);
    for (int i = 0; i < ADOPTERS; i++) {
        CHECK(read(results[0], &one, sizeof one) == sizeof one);
        sum += one;
    }
    while (wait(NULL) > 0)
        continue;
    CHECK_U64(sum, DEAD);
    CHECK_U64(images(), 0);
    for (int i = 0; i < DEAD; i++)
        check_file(dead[i].path);
}

static void test_many_at_once(void **state)
{
    (void)state;
    in_child(race, NULL);
}

static void clean_up(void *context)
{
    char half[600], beside_metadata[600];
    (void)context;
    own_shm();
    struct told told = leave_a_dead_one(folder);
    snprintf(half, sizeof half, "%s.tmp", told.path);
    file_write(half, "{", 1); /* of a flush that the kill cut off */
    snprintf(half, sizeof half, "%.*s.json.adopted.tmp", (int)strlen(told.path) - 5, told.path);
    file_write(half, "{", 1); /* of an adopter that was killed */
    size_t end = strlen(told.path) - strlen(".json");
    snprintf(beside_metadata, sizeof beside_metadata, "%s/metadata.json.%.8s.tmp", folder, told.path + end - 8);
    file_write(beside_metadata, "{", 1); /* of a worker that was killed when it began */
    CHECK_U64(adopt(folder), 1);
    check_file(told.path);
    *strrchr(half, '/') = '\0';
    CHECK_U64((uint64_t)folder_each(half, NULL, NULL), 1);
    CHECK(access(beside_metadata, F_OK) != 0);
}

static void test_half_files_are_removed(void **state)
{
    (void)state;
    in_child(clean_up, NULL);
}

/* ---- what nobody came for ------------------------------------------------------------------ */

/* As a profiler does that starts in a directory beside. */
static size_t adopt_abandoned(void)
{
    char *other = folder_make();
    size_t adopted = lp_adopt(&(struct lp_adoption){.run_dir = other, .abandoned = true});
    folder_remove(other);
    return adopted;
}

/* Who looks for what nobody came for is not in the way of who comes. */
static void read_beside_others(void *context)
{
    (void)context;
    own_shm();
    pid_t other = fork();
    CHECK(other >= 0);
    if (other == 0) {
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        for (;;)
            adopt_abandoned();
    }
    for (int i = 0; i < 200; i++) {
        leave_a_dead_one(folder);
        CHECK_U64(adopt(folder), 1);
    }
    CHECK(kill(other, SIGKILL) == 0);
    wait_for(other);
}

static void test_looking_for_others_hides_nothing(void **state)
{
    (void)state;
    in_child(read_beside_others, NULL);
}

static void let_it_be_silent(const char *image, uint64_t hours)
{
    uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME), ago_ns = hours * 3600u * 1000000000u;
    change_header(image, heartbeat_boottime_ns, now_ns > ago_ns ? now_ns - ago_ns : 0);
}

static void adopt_others(void *context)
{
    (void)context;
    own_shm();
    CANNOT_IF(clock_now_ns(CLOCK_BOOTTIME) < 2 * 3600u * (uint64_t)1000000000u);
    struct told told = leave_a_dead_one(folder);
    CHECK_U64(adopt_abandoned(), 0); /* its own run may still come */
    let_it_be_silent(told.image, 2);
    /* Its directory is not even looked at from that of another file system. */
    CHECK_U64(lp_adopt(&(struct lp_adoption){.run_dir = "/dev/shm", .abandoned = true}), 0);
    CHECK_U64(adopt_abandoned(), 1);
    check_file(told.path);
    CHECK_U64(images(), 0);
}

static void test_another_runs_dead_after_an_hour(void **state)
{
    (void)state;
    in_child(adopt_others, NULL);
}

static void forget_without_a_folder(void *context)
{
    char *gone = folder_make();
    char boot_id[40] = "another boot";
    (void)context;
    own_shm();
    struct told told = leave_a_dead_one(gone);
    folder_empty(gone);
    CHECK_U64(adopt(gone), 0);
    CHECK_U64(adopt_abandoned(), 0);
    CHECK_U64(images(), 1);
    change_image(told.image, offsetof(struct lp_header, boot_id), boot_id, sizeof boot_id); /* long ago */
    CHECK_U64(adopt_abandoned(), 0);
    CHECK_U64(images(), 0);
    free(gone);
}

static void test_images_without_a_run_directory_go_in_time(void **state)
{
    (void)state;
    in_child(forget_without_a_folder, NULL);
}

/* ---- what an image may say ------------------------------------------------------------------ */

static void put_text(const char *image, size_t field, const char *text)
{
    /* Behind all that was handed out, where there is room. */
    uint64_t place = 60u << 10, end = place + 1024;
    lp_ref ref = (lp_ref)(place / LP_LINE);
    uint32_t len = (uint32_t)strlen(text);
    change_image(image, place, &len, sizeof len);
    change_image(image, place + offsetof(struct lp_name, bytes), text, len);
    change_image(image, field, &ref, sizeof ref);
    change_header(image, used, end);
}

static void refuse(void *context)
{
    static const char *const folders[] = {"workers/../..", "workers/a/b", "workers/", "elsewhere/host", "/tmp", ""};
    (void)context;
    own_shm();
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct told told = leave_a_dead_one(folder);
        put_text(told.image, offsetof(struct lp_header, folder), folders[i]);
        CHECK_U64(adopt(folder), 0);
        CHECK(unlink(told.image) == 0);
    }
    struct told told = leave_a_dead_one(folder);
    put_text(told.image, offsetof(struct lp_header, worker), "w_1/../../victim");
    CHECK_U64(adopt(folder), 0);
    put_text(told.image, offsetof(struct lp_header, worker), "w_another");
    CHECK_U64(adopt(folder), 0);
}

static void test_an_image_cannot_choose_where_it_is_written(void **state)
{
    (void)state;
    in_child(refuse, NULL);
}

static void refuse_links(void *context)
{
    char workers[400];
    char *victim = folder_make();
    (void)context;
    own_shm();
    struct told told = leave_a_dead_one(folder);
    snprintf(workers, sizeof workers, "%s/workers", folder);
    folder_empty(workers);
    CHECK(symlink(victim, workers) == 0);
    CHECK_U64(adopt(folder), 0);
    CHECK_U64((uint64_t)folder_each(victim, NULL, NULL), 0);
    CHECK(unlink(workers) == 0);
    CHECK_U64(adopt(folder), 1); /* the folders are made anew */
    check_file(told.path);
    folder_remove(victim);
}

static void test_no_link_is_followed(void **state)
{
    (void)state;
    in_child(refuse_links, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_a_killed_worker),
        in_folder(test_a_process_whose_first_thread_has_ended),
        in_folder(test_how_a_child_ended_is_told),
        in_folder(test_how_children_ended_that_were_waited_for),
        in_folder(test_descriptors_of_the_host_are_left_alone),
        in_folder(test_the_living_are_left_alone),
        in_folder(test_nobody_is_dead_for_want_of_descriptors),
        in_folder(test_a_process_that_became_another_program_EX11),
        in_folder(test_a_clone_holds_the_lock),
        in_folder(test_a_kill_inside_close),
        in_folder(test_a_close_that_could_not_write),
        in_folder(test_a_part_yields_to_the_last_flush),
        in_folder(test_many_at_once),
        in_folder(test_half_files_are_removed),
        in_folder(test_looking_for_others_hides_nothing),
        in_folder(test_another_runs_dead_after_an_hour),
        in_folder(test_images_without_a_run_directory_go_in_time),
        in_folder(test_an_image_cannot_choose_where_it_is_written),
        in_folder(test_no_link_is_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
