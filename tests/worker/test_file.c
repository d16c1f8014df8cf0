/* The worker's file: valid at any time, replaced as a whole, and written again once that is possible again. */
#include "support/in_folder.h"
#include "support/worker.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int snapshot(struct lp_worker *worker)
{
    char message[512] = "";
    int status = lp_worker_snapshot(worker, message, sizeof message);
    assert_int_equal(status == LP_WORKER_OK, message[0] == '\0');
    return status;
}

/* F1 */
static void test_a_closed_workers_file(void **state)
{
    char pattern[512], host[256];
    (void)state;
    uint64_t before = clock_now_ns(CLOCK_MONOTONIC);
    struct lp_worker *worker = worker_open(folder);
    gethostname(host, sizeof host);
    snprintf(pattern, sizeof pattern, "%s/workers/%s/w_%s_%d_", folder, host, lp_worker_run_id(worker), (int)getpid());
    assert_memory_equal(lp_worker_path(worker), pattern, strlen(pattern));
    assert_int_equal(strlen(lp_worker_path(worker)), strlen(pattern) + 8 + 5);
    assert_null(file_read(lp_worker_path(worker), NULL)); /* no file before the first flush */

    worker_record(worker, "a");
    assert_int_equal(snapshot(worker), LP_WORKER_OK);
    json_t *document = worker_document(worker);
    assert_string_equal(text_at(document, "state"), "running");
    assert_int_equal(json_u64(document, "flush", 0), 1);
    json_decref(document);

    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    document = worker_document(worker);
    assert_string_equal(text_at(document, "state"), "closed");
    assert_int_equal(json_u64(document, "flush", 0), 2);
    assert_string_equal(text_at(document, "worker"), lp_worker_name(worker));
    assert_string_equal(text_at(document, "run_id"), lp_worker_run_id(worker));
    assert_string_equal(text_at(document, "role"), "tester");
    assert_string_equal(text_at(document, "run_id_origin"), "generated");
    assert_int_equal(json_u64(document, "pid", 0), getpid());
    assert_true(json_is_null(json_object_get(document, "runtime")));
    assert_int_equal(json_object_size(json_object_get(document, "troubles")), 0);
    assert_int_equal(figures_at(document, "a").calls, 1);
    assert_document_adds_up(document);
    uint64_t started = json_u64(json_object_get(document, "started"), "monotonic_ns", 0);
    uint64_t written = json_u64(json_object_get(document, "written"), "monotonic_ns", 0);
    assert_true(before <= started && started <= written && written <= clock_now_ns(CLOCK_MONOTONIC));
    json_decref(document);
    lp_worker_free(worker);
}

/* In place of libc's: what is synced, and when the new file takes the old one's place. */
static char order[64];

static void note(char what)
{
    size_t n = strlen(order);
    if (n + 1 < sizeof order)
        order[n] = what;
}

int fsync(int fd)
{
    struct stat status;
    note(fstat(fd, &status) != 0 ? '?' : S_ISDIR(status.st_mode) ? 'd' : status.st_size > 0 ? 'f' : '0');
    return (int)syscall(SYS_fsync, fd);
}

int renameat(int old_folder, const char *old, int new_folder, const char *new)
{
    note('r');
    return (int)syscall(SYS_renameat2, old_folder, old, new_folder, new, 0);
}

static json_int_t own_at(const json_t *document, const char *key)
{
    return (json_int_t)json_u64(json_object_get(document, "own_io"), key, 0);
}

/* What the file says of the flushes before is what they wrote; what the program moves meanwhile is not in it. */
static void test_own_writes_are_measured_F10(void **state)
{
    char path[512];
    size_t len, written = 0;
    (void)state;
    struct lp_worker *worker = worker_open(folder);
    worker_record(worker, "a");
    snprintf(path, sizeof path, "%s/the_programs_own", folder);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(snapshot(worker), LP_WORKER_OK);
        json_t *document = worker_document(worker);
        if (!json_is_object(json_object_get(document, "own_io"))) {
            json_decref(document);
            lp_worker_free(worker);
            skip(); /* a kernel without I/O accounting */
        }
        assert_int_equal(own_at(document, "write_chars"), written);
        char *text = file_read(lp_worker_path(worker), &len);
        written += len;
        free(text);
        json_decref(document);
        file_write(path, "many bytes", 10);
    }
    lp_worker_free(worker);
}

static void test_what_is_renamed_is_on_the_disk_F1(void **state)
{
    (void)state;
    struct lp_worker *worker = worker_open(folder);
    worker_record(worker, "a");
    for (int i = 0; i < 2; i++) {
        memset(order, 0, sizeof order);
        assert_int_equal(snapshot(worker), LP_WORKER_OK);
        assert_string_equal(order, "frd"); /* the file as it was written, its name, the folder */
    }
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    lp_worker_free(worker);
}

/* A reader at any moment sees the state of one flush or of the one before, never half of one, never none. */
static atomic_bool enough;

static void *read_on(void *context)
{
    const char *path = context;
    uint64_t last = 0, readings = 0;
    while (!atomic_load(&enough)) {
        size_t len;
        char *text = file_read(path, &len);
        json_t *document = text ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
        uint64_t flush = document ? json_u64(document, "flush", 0) : 0;
        if (!document || fault_of_document(document) || flush < last)
            return context;
        last = flush;
        readings++;
        json_decref(document);
        free(text);
    }
    return readings ? NULL : context;
}

static void test_readers_never_see_half_a_file(void **state)
{
    struct lp_worker *worker = worker_open(folder);
    char name[32], *path;
    pthread_t thread;
    void *failed;
    (void)state;
    worker_record(worker, "a");
    assert_int_equal(snapshot(worker), LP_WORKER_OK);
    path = strdup(lp_worker_path(worker));
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&thread, NULL, read_on, path), 0);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "phase %d", i);
        worker_record(worker, name);
        assert_int_equal(snapshot(worker), LP_WORKER_OK);
    }
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    atomic_store(&enough, true);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    lp_worker_free(worker);
    free(path);
}

static void assert_mode(const char *path, mode_t mode)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
}

static void test_modes_are_the_users(void **state)
{
    static const mode_t masks[] = {022, 077, 002, 0};
    (void)state;
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        mode_t before = umask(masks[i]);
        char *run_dir, *path;
        assert_true(asprintf(&run_dir, "%s/deep/run%zu", folder, i) > 0);
        struct lp_worker *worker = worker_open(run_dir);
        worker_record(worker, "a");
        assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
        assert_mode(lp_worker_path(worker), 0666 & ~masks[i]);
        assert_mode(run_dir, 0777 & ~masks[i]);
        assert_true(asprintf(&path, "%s/workers", run_dir) > 0);
        assert_mode(path, 0777 & ~masks[i]);
        free(path);
        assert_true(asprintf(&path, "%s/metadata.json", run_dir) > 0);
        assert_mode(path, 0666 & ~masks[i]);
        free(path);
        lp_worker_free(worker);
        free(run_dir);
        umask(before);
    }
}

/* F6 */
static void test_a_folder_that_went_is_made_again(void **state)
{
    struct lp_worker *worker = worker_open(folder);
    (void)state;
    worker_record(worker, "a");
    assert_int_equal(snapshot(worker), LP_WORKER_OK);
    folder_empty(folder);
    assert_int_equal(access(folder, F_OK), -1);
    worker_record(worker, "a");
    assert_int_equal(snapshot(worker), LP_WORKER_OK);
    json_t *document = worker_document(worker);
    assert_int_equal(figures_at(document, "a").calls, 2);
    json_decref(document);
    folder_empty(folder);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    json_decref(worker_document(worker));
    lp_worker_free(worker);
}

static void test_what_was_left_of_a_flush_is_taken_away(void **state)
{
    struct lp_worker *worker = worker_open(folder);
    char *temporary, *victim;
    (void)state;
    assert_true(asprintf(&temporary, "%s.tmp", lp_worker_path(worker)) > 0);
    assert_true(asprintf(&victim, "%s/victim", folder) > 0);
    file_write(victim, "mine", 4);
    assert_int_equal(symlink(victim, temporary), 0); /* nor is it followed */
    worker_record(worker, "a");
    assert_int_equal(snapshot(worker), LP_WORKER_OK);
    assert_int_equal(access(temporary, F_OK), -1);
    char *text = file_read(victim, NULL);
    assert_string_equal(text, "mine");
    free(text);
    free(temporary);
    free(victim);
    lp_worker_free(worker);
}

/* ---- where it cannot be written ------------------------------------------------------ */

static void check_failure(struct lp_worker *worker, int error)
{
    char message[512] = "";
    errno = 0;
    CHECK(lp_worker_snapshot(worker, message, sizeof message) == LP_WORKER_SYSTEM);
    CHECK_U64((uint64_t)errno, (uint64_t)error);
    CHECK(strstr(message, lp_worker_path(worker)) && strstr(message, strerror(error)) && !strchr(message, '\n'));
}

static void write_on_a_full_disk(void *context)
{
    char path[300];
    static char bytes[4096];
    (void)context;
    mounts_enter();
    mounts_tmpfs(folder, "size=256k");
    struct lp_worker *worker = worker_open(folder);
    worker_record(worker, "a");
    CHECK(snapshot(worker) == LP_WORKER_OK);
    char *before = file_read(lp_worker_path(worker), NULL);
    snprintf(path, sizeof path, "%s/filler", folder);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    while (write(fd, bytes, sizeof bytes) > 0)
        continue;
    for (int i = 0; i < 3; i++) {
        worker_record(worker, "a");
        check_failure(worker, ENOSPC);
        char *after = file_read(lp_worker_path(worker), NULL); /* the last good one stays */
        CHECK(after && strcmp(before, after) == 0);
        free(after);
        snprintf(path, sizeof path, "%s.tmp", lp_worker_path(worker));
        CHECK(access(path, F_OK) != 0);
    }
    CHECK(ftruncate(fd, 0) == 0); /* healed */
    CHECK(snapshot(worker) == LP_WORKER_OK);
    json_t *document = worker_document(worker);
    CHECK_U64(trouble_at(document, "failed_flushes"), 3);
    CHECK_U64(figures_at(document, "a").calls, 4);
    json_decref(document);
    CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
    lp_worker_free(worker);
    free(before);
    close(fd);
}

/* EX07, F6 */
static void test_a_full_disk(void **state)
{
    (void)state;
    in_child(write_on_a_full_disk, NULL);
}

static void write_read_only(void *context)
{
    (void)context;
    mounts_enter();
    mounts_tmpfs(folder, "size=1m");
    struct lp_worker *worker = worker_open(folder);
    worker_record(worker, "a");
    CANNOT_IF(mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0);
    check_failure(worker, EROFS);
    CHECK(mount(NULL, folder, NULL, MS_REMOUNT, NULL) == 0);
    CHECK(snapshot(worker) == LP_WORKER_OK);
    CHECK(mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);

    /* Closing cannot write either: the image is then the only copy, and stays for a reader. */
    char image[256], message[512] = "";
    strcpy(image, lp_worker_recorder(worker)->image.path);
    CHECK(lp_worker_close(worker, message, sizeof message) == LP_WORKER_SYSTEM);
    CHECK(strstr(message, strerror(EROFS)));
    CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_SYSTEM);
    CHECK(lp_worker_closed(worker));
    lp_worker_free(worker);
    if (image[0]) {
        CHECK(access(image, R_OK) == 0);
        unlink(image);
    }
}

static void test_a_file_system_that_turns_read_only(void **state)
{
    (void)state;
    in_child(write_read_only, NULL);
}

static void write_in_anothers_folder(void *context)
{
    (void)context;
    CHECK(chmod(folder, 0777) == 0);
    CANNOT_IF(setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0);
    struct lp_worker *worker = worker_open(folder);
    worker_record(worker, "a");
    CHECK(snapshot(worker) == LP_WORKER_OK);
    char *host_folder = strdup(lp_worker_path(worker));
    *strrchr(host_folder, '/') = '\0';
    CHECK(chmod(host_folder, 0555) == 0);
    check_failure(worker, EACCES);
    CHECK(chmod(host_folder, 0755) == 0);
    CHECK(snapshot(worker) == LP_WORKER_OK);
    lp_worker_free(worker);
    free(host_folder);
}

static void test_a_folder_that_may_not_be_written(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("only root can become another user\n");
        skip();
    }
    in_child(write_in_anothers_folder, NULL);
}

/* SIGXFSZ keeps its deadly default, and a program's own pending one stays pending. */
static void write_beyond_the_limit(void *context)
{
    struct rlimit limit = {100, RLIM_INFINITY};
    sigset_t pending, blocked;
    (void)context;
    struct lp_worker *worker = worker_open(folder);
    worker_record(worker, "a");
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    check_failure(worker, EFBIG);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGXFSZ);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    raise(SIGXFSZ);
    check_failure(worker, EFBIG);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ));
    limit.rlim_cur = RLIM_INFINITY;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
    json_t *document = worker_document(worker);
    CHECK_U64(trouble_at(document, "failed_flushes"), 2);
    json_decref(document);
    lp_worker_free(worker);
}

static void test_a_limit_on_files_is_an_error_and_no_signal(void **state)
{
    (void)state;
    in_child(write_beyond_the_limit, NULL);
}

/* ---- the same in memory --------------------------------------------------------------- */

static void test_the_document_in_memory(void **state)
{
    struct lp_worker *worker = worker_open(folder);
    size_t len;
    (void)state;
    worker_record(worker, "a");
    char *text = lp_worker_document(worker, &len);
    assert_non_null(text);
    assert_int_equal(strlen(text), len);
    json_t *document = json_of(text, len);
    assert_null(fault_of_document(document));
    assert_int_equal(figures_at(document, "a").calls, 1);
    assert_int_equal(json_u64(document, "flush", 0), 1); /* of one that was not written */
    json_decref(document);
    free(text);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    text = lp_worker_document(worker, &len);
    document = json_of(text, len);
    json_t *written = file_document(lp_worker_path(worker));
    assert_true(json_is_null(json_object_get(document, "folder_clock")));
    json_object_del(document, "folder_clock");
    json_object_del(written, "folder_clock");
    assert_true(json_equal(document, written)); /* the last state */
    json_decref(document);
    json_decref(written);
    free(text);
    lp_worker_free(worker);
}

/* A disk of this machine's own stamps files by the same clock. */
static void test_the_clock_of_the_folder_CK04(void **state)
{
    struct lp_worker *worker = worker_open(folder);
    (void)state;
    worker_record(worker, "a");
    uint64_t before_ns = lp_stamp_now().realtime_ns;
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    json_t *document = file_document(lp_worker_path(worker));
    json_t *clock = json_object_get(document, "folder_clock");
    assert_true(json_u64(clock, "before_ns", 0) >= before_ns);
    assert_true(json_u64(clock, "after_ns", 0) >= json_u64(clock, "before_ns", 0));
    assert_true(json_u64(clock, "after_ns", 0) <= lp_stamp_now().realtime_ns);
    assert_true(json_u64(clock, "stamped_ns", 0) <= json_u64(clock, "after_ns", 0));
    assert_true(json_u64(clock, "stamped_ns", 0) + UINT64_C(2000000000) >= before_ns);
    json_decref(document);
    lp_worker_free(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_a_closed_workers_file),
        in_folder(test_own_writes_are_measured_F10),
        in_folder(test_what_is_renamed_is_on_the_disk_F1),
        in_folder(test_readers_never_see_half_a_file),
        in_folder(test_modes_are_the_users),
        in_folder(test_a_folder_that_went_is_made_again),
        in_folder(test_what_was_left_of_a_flush_is_taken_away),
        in_folder(test_a_full_disk),
        in_folder(test_a_file_system_that_turns_read_only),
        in_folder(test_a_folder_that_may_not_be_written),
        in_folder(test_a_limit_on_files_is_an_error_and_no_signal),
        in_folder(test_the_document_in_memory),
        in_folder(test_the_clock_of_the_folder_CK04),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
