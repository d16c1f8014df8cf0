/*
 * Forks: a child is a worker of its own from its first phase on, nothing reaches the parent's figures, no thread of ours
 * runs across a fork, and no fork waits for long.
 */
#include "support/in_folder.h"
#include "support/worker.h"

#include <pthread.h>
#include <sys/syscall.h>

static void await(pid_t pid)
{
    int status;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static struct lp_worker *open_with_keeper(void)
{
    struct lp_worker_options options = quiet_options(folder);
    options.snapshot_interval_s = 30;
    options.sample_interval_s = 1;
    return worker_open_with(&options);
}

/* FK01, FK02, F9 */
static void test_a_child_is_a_worker_of_its_own(void **state)
{
    enum { CHILDREN = 3 };
    struct lp_worker *worker = open_with_keeper();
    char *path = strdup(lp_worker_path(worker)), *run_id = strdup(lp_worker_run_id(worker));
    pid_t pids[CHILDREN];
    (void)state;
    struct lp_entry open;
    lp_record_enter(lp_worker_recorder(worker), name_of("across"), &open);
    lp_record_count(lp_worker_recorder(worker), name_of("n"), 1);
    for (int i = 0; i < CHILDREN; i++) {
        fflush(NULL);
        pids[i] = fork();
        if (pids[i] == 0) {
            lp_record_leave(&open); /* of the parent's: nothing */
            for (int j = 0; j <= i; j++)
                worker_record(worker, "child");
            lp_record_count(lp_worker_recorder(worker), name_of("n"), 10);
            CHECK(strcmp(lp_worker_path(worker), path) != 0);
            CHECK(strcmp(lp_worker_run_id(worker), run_id) == 0);
            CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
            json_t *document = worker_document(worker);
            struct counter_figures n;
            CHECK_U64(json_u64(document, "pid", 0), (uint64_t)getpid());
            CHECK_U64(json_u64(document, "parent_pid", 0), (uint64_t)getppid());
            CHECK(strcmp(text_at(document, "run_id_origin"), "inherited") == 0);
            CHECK_U64(figures_at(document, "child").calls, (uint64_t)i + 1);
            CHECK_U64(figures_at(document, "across").nodes, 0);
            CHECK(counter_at(document, "", "n", &n) && n.sum == 10);
            CHECK_U64(json_object_size(json_object_get(document, "troubles")), 0);
            _exit(0);
        }
        worker_record(worker, "parent");
    }
    for (int i = 0; i < CHILDREN; i++)
        await(pids[i]);
    lp_record_leave(&open);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    json_t *document = file_document(path);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "across").calls, 1);
    assert_int_equal(figures_at(document, "across/parent").calls, CHILDREN);
    assert_int_equal(figures_at(document, "child").nodes, 0);
    json_decref(document);
    struct run_files files = run_files(folder);
    assert_int_equal(files.n, 1 + CHILDREN);
    run_files_free(&files);
    lp_worker_free(worker);
    free(path);
    free(run_id);
}

static void test_a_grandchild_too(void **state)
{
    struct lp_worker *worker = open_with_keeper();
    (void)state;
    worker_record(worker, "a");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int status;
        worker_record(worker, "b");
        pid_t grandchild = fork();
        if (grandchild == 0) {
            worker_record(worker, "c");
            CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
            _exit(0);
        }
        CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
        _exit(0);
    }
    await(pid);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_int_equal(files_with_calls(folder, "a", 1), 1);
    assert_int_equal(files_with_calls(folder, "b", 1), 1);
    assert_int_equal(files_with_calls(folder, "c", 1), 1);
    lp_worker_free(worker);
}

/* A child about to exec, or that records nothing, leaves no trace. */
static void test_a_child_that_records_nothing_leaves_no_trace(void **state)
{
    struct lp_worker *worker = open_with_keeper();
    char images[64];
    (void)state;
    worker_record(worker, "a");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        char *document_text;
        size_t len;
        CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK);
        document_text = lp_worker_document(worker, &len);
        CHECK(document_text == NULL);
        execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL);
        _exit(1);
    }
    await(pid);
    pid = fork();
    if (pid == 0) {
        CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
        worker_record(worker, "late"); /* closed is final */
        lp_worker_free(worker);
        _exit(0);
    }
    await(pid);
    assert_int_equal(folder_each(folder, NULL, NULL), 2); /* metadata.json, workers/ */
    struct run_files files = run_files(folder);
    assert_int_equal(files.n, 0);
    run_files_free(&files);
    lp_image_folder(images, sizeof images);
    const struct lp_image *image = &lp_worker_recorder(worker)->image;
    assert_true(image->fd < 0 || access(image->path, F_OK) == 0); /* the parent's is still there */
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_int_equal(files_with_calls(folder, "a", 1), 1);
    lp_worker_free(worker);
}

static void test_closed_is_final_across_forks(void **state)
{
    struct lp_worker *worker = open_with_keeper();
    (void)state;
    worker_record(worker, "a");
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        worker_record(worker, "late");
        CHECK(lp_worker_closed(worker));
        CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK);
        CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
        CHECK_U64((uint64_t)threads_now(NULL), 1);
        _exit(0);
    }
    await(pid);
    struct run_files files = run_files(folder);
    assert_int_equal(files.n, 1);
    run_files_free(&files);
    assert_int_equal(files_with_calls(folder, "a", 1), 1);
    lp_worker_free(worker);
}

static _Atomic int asked_to_resume;

static void resume_later(void)
{
    atomic_fetch_add(&asked_to_resume, 1);
}

/* In the parent it comes back at once, or when the host says so: threads started inside fork handlers make CPython warn. In
   the child it comes back at the next phase. */
static void test_no_keeper_runs_across_a_fork(void **state)
{
    struct lp_worker *worker = open_with_keeper();
    (void)state;
    worker_record(worker, "a");
    WAIT_UNTIL(keepers_now() == 1);
    for (int host_resumes = 0; host_resumes < 2; host_resumes++) {
        if (host_resumes)
            lp_worker_resume_by(resume_later);
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            CHECK_U64((uint64_t)threads_now(NULL), 1);
            worker_record(worker, "b");
            CHECK_U64((uint64_t)threads_now(NULL), 2);
            CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
            CHECK_U64((uint64_t)threads_now(NULL), 1);
            _exit(0);
        }
        assert_int_equal(atomic_load(&asked_to_resume), host_resumes);
        if (host_resumes) {
            assert_int_equal(keepers_now(), 0);
            lp_worker_resume();
        }
        WAIT_UNTIL(keepers_now() == 1);
        await(pid);
    }
    lp_worker_resume_by(NULL);
    lp_worker_free(worker);
}

static void skip_if_forks_break_the_allocator(void)
{
    if (!LP_TEST_ASAN)
        return;
    print_message("AddressSanitizer's allocator does not survive a fork while another thread uses it\n");
    skip();
}

/* ---- forks while everything else goes on ---------------------------------------------- */

static atomic_bool enough;

static void *record_on(void *context)
{
    struct lp_worker *worker = context;
    char name[32];
    for (unsigned i = 0; !atomic_load_explicit(&enough, memory_order_relaxed); i++) {
        struct lp_entry outer;
        lp_record_enter(lp_worker_recorder(worker), name_of("outer"), &outer);
        snprintf(name, sizeof name, "phase %u", i % 1000);
        worker_record(worker, name);
        lp_record_leave(&outer);
    }
    return NULL;
}

static void *snapshot_on(void *context)
{
    struct lp_worker *worker = context;
    while (!atomic_load_explicit(&enough, memory_order_relaxed)) {
        lp_worker_snapshot(worker, NULL, 0);
        size_t len;
        free(lp_worker_document(worker, &len));
    }
    return NULL;
}

/* F9, FK05: all of them finish. */
static void test_200_forks_while_others_record_and_write(void **state)
{
    skip_if_forks_break_the_allocator();
    /* ThreadSanitizer allows no new threads in a child of several. */
    struct lp_worker *worker = LP_TEST_TSAN ? worker_open(folder) : open_with_keeper();
    pthread_t threads[2];
    (void)state;
    atomic_store(&enough, false);
    worker_record(worker, "a");
    assert_int_equal(pthread_create(&threads[0], NULL, record_on, worker), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, snapshot_on, worker), 0);
    for (int i = 0; i < 200; i++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(60);
            worker_record(worker, "child");
            if (i % 4 == 0) {
                CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
            } else if (i % 4 == 1) {
                lp_image_unlink(&lp_worker_recorder(worker)->image); /* it would be left to a reader */
            } else {
                CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK);
                lp_worker_free(worker);
            }
            _exit(0);
        }
        await(pid);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_int_equal(files_with_calls(folder, "child", 1), 150);
    json_t *document = worker_document(worker);
    assert_document_adds_up(document);
    assert_int_equal(figures_at(document, "child").nodes, 0);
    json_decref(document);
    lp_worker_free(worker);
}

/* While workers come and go in another thread, a fork finds the process in any state. */
static void *open_and_close(void *context)
{
    (void)context;
    while (!atomic_load_explicit(&enough, memory_order_relaxed)) {
        struct lp_worker_options options = quiet_options(folder);
        struct lp_worker *worker;
        options.run_id = "churn";
        options.snapshot_interval_s = 30;
        CHECK(lp_worker_open(&worker, &options, NULL, 0) == LP_WORKER_OK);
        worker_record(worker, "a");
        lp_worker_free(worker);
    }
    return NULL;
}

static void test_forks_while_workers_come_and_go(void **state)
{
    pthread_t thread;
    (void)state;
    skip_if_forks_break_the_allocator();
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&thread, NULL, open_and_close, NULL), 0);
    for (int i = 0; i < 100; i++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(60);
            struct lp_worker_options options = quiet_options(folder);
            struct lp_worker *worker;
            CHECK(lp_worker_open(&worker, &options, NULL, 0) == LP_WORKER_OK);
            worker_record(worker, "own");
            CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
            json_t *document = worker_document(worker);
            CHECK_U64(figures_at(document, "own").calls, 1);
            json_decref(document);
            lp_worker_free(worker);
            _exit(0);
        }
        await(pid);
    }
    atomic_store(&enough, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Several threads of a child at its beginning: one image, one keeper. */
static void *record_one(void *context)
{
    worker_record(context, "child");
    return NULL;
}

static void *ask_for_documents(void *context)
{
    for (int i = 0; i < 50; i++) {
        size_t len;
        free(lp_worker_document(context, &len));
    }
    return NULL;
}

static void skip_if_children_have_no_threads(void)
{
    if (!LP_TEST_TSAN)
        return;
    print_message("ThreadSanitizer allows no new threads in a child of several\n");
    skip();
}

static void test_a_childs_threads_begin_together(void **state)
{
    (void)state;
    skip_if_children_have_no_threads();
    struct lp_worker *worker = open_with_keeper();
    worker_record(worker, "a");
    for (int i = 0; i < 20; i++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            pthread_t threads[5];
            alarm(60);
            for (int j = 0; j < 5; j++)
                CHECK(pthread_create(&threads[j], NULL, j < 4 ? record_one : ask_for_documents, worker) == 0);
            for (int j = 0; j < 5; j++)
                CHECK(pthread_join(threads[j], NULL) == 0);
            CHECK_U64((uint64_t)threads_now(NULL), 2);
            CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
            json_t *document = worker_document(worker);
            CHECK_U64(figures_at(document, "child").calls, 4);
            json_decref(document);
            lp_worker_free(worker);
            _exit(0);
        }
        await(pid);
    }
    lp_worker_free(worker);
}

/* ---- a flush that hangs ----------------------------------------------------------------- */

/* In place of libc's: can be made to hang, as on a dead file server. */
static atomic_bool hang;
static _Atomic int hanging;

int fsync(int fd)
{
    atomic_fetch_add(&hanging, 1);
    while (atomic_load(&hang))
        pause_ms(1);
    atomic_fetch_sub(&hanging, 1);
    return (int)syscall(SYS_fsync, fd);
}

static void test_a_hanging_flush_does_not_hang_the_fork(void **state)
{
    struct lp_worker_options options = quiet_options(folder);
    (void)state;
    skip_if_children_have_no_threads();
    options.snapshot_interval_s = 0.01;
    struct lp_worker *worker = worker_open_with(&options);
    atomic_store(&hang, true);
    worker_record(worker, "a");
    WAIT_UNTIL(atomic_load(&hanging) == 2); /* the keeper, with the file's lock, and who describes the run */
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        atomic_store(&hang, false);
        alarm(60);
        CHECK_U64((uint64_t)threads_now(NULL), 1);
        worker_record(worker, "child");
        CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
        _exit(0);
    }
    await(pid);
    worker_record(worker, "a"); /* nor does the parent wait for it */
    WAIT_UNTIL(keepers_now() == 1);
    atomic_store(&hang, false);
    /* The keeper goes on, or was asked to end while it hung and is started anew. */
    for (int i = 0; i < 3; i++) {
        const struct lp_header *header = lp_image_header(&lp_worker_recorder(worker)->image);
        uint64_t flushes = atomic_load(&header->flushes);
        WAIT_UNTIL(atomic_load(&header->flushes) > flushes + 2);
    }
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_int_equal(files_with_calls(folder, "a", 2), 1);
    assert_int_equal(files_with_calls(folder, "child", 1), 1);
    lp_worker_free(worker);
}

/* ---- clones that run no handlers ---------------------------------------------------------- */

static pid_t raw_clone(void)
{
    fflush(NULL);
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static void skip_if_clones_break_the_sanitizer(void)
{
    skip_if_forks_break_the_allocator(); /* the keeper may hold a lock of it, and no handler of ours waits for its end */
    if (!LP_TEST_TSAN)
        return;
    print_message("ThreadSanitizer must see every fork\n");
    skip();
}

static void test_a_clone_without_handlers_cannot_reach_its_parents_files(void **state)
{
    (void)state;
    skip_if_clones_break_the_sanitizer();
    struct lp_worker *worker = open_with_keeper();
    worker_record(worker, "a");
    pid_t pid = raw_clone();
    if (pid == 0) {
        size_t len;
        alarm(60);
        worker_record(worker, "clone");
        CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK);
        CHECK(lp_worker_document(worker, &len) == NULL);
        CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
        lp_worker_free(worker);
        _exit(0);
    }
    await(pid);
    struct run_files files = run_files(folder);
    assert_int_equal(files.n, 0);
    run_files_free(&files);
    const struct lp_image *image = &lp_worker_recorder(worker)->image;
    assert_int_equal(atomic_load(&lp_image_header(image)->closed), 0);
    assert_true(image->fd < 0 || access(image->path, F_OK) == 0);
    worker_record(worker, "a");
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_int_equal(files_with_calls(folder, "a", 2), 1);
    lp_worker_free(worker);
}

static void test_what_a_clone_opens_itself_records(void **state)
{
    (void)state;
    skip_if_clones_break_the_sanitizer();
    struct lp_worker *worker = open_with_keeper();
    worker_record(worker, "a");
    pid_t pid = raw_clone();
    if (pid == 0) {
        alarm(60);
        struct lp_worker *own = worker_open(folder);
        worker_record(own, "own");
        worker_record(worker, "inherited"); /* and from now on it is a child like any other */
        CHECK(lp_worker_close(own, NULL, 0) == LP_WORKER_OK);
        CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
        _exit(0);
    }
    await(pid);
    worker_record(worker, "a");
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    assert_int_equal(files_with_calls(folder, "own", 1), 1);
    assert_int_equal(files_with_calls(folder, "inherited", 1), 1);
    assert_int_equal(files_with_calls(folder, "a", 2), 1);
    lp_worker_free(worker);
}

static void test_a_fork_of_a_clone_records(void **state)
{
    (void)state;
    skip_if_clones_break_the_sanitizer();
    struct lp_worker *worker =
        worker_open(folder); /* a keeper might hold malloc's lock, which fork() wants in the clone */
    worker_record(worker, "a");
    pid_t pid = raw_clone();
    if (pid == 0) {
        int status;
        alarm(60);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            worker_record(worker, "grandchild");
            CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
            _exit(0);
        }
        CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        worker_record(worker, "clone");
        _exit(0);
    }
    await(pid);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK);
    json_t *document = worker_document(worker);
    assert_int_equal(figures_at(document, "clone").nodes, 0);
    json_decref(document);
    assert_int_equal(files_with_calls(folder, "grandchild", 1), 1);
    lp_worker_free(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_a_child_is_a_worker_of_its_own),
        in_folder(test_a_grandchild_too),
        in_folder(test_a_child_that_records_nothing_leaves_no_trace),
        in_folder(test_closed_is_final_across_forks),
        in_folder(test_no_keeper_runs_across_a_fork),
        in_folder(test_200_forks_while_others_record_and_write),
        in_folder(test_forks_while_workers_come_and_go),
        in_folder(test_a_childs_threads_begin_together),
        in_folder(test_a_hanging_flush_does_not_hang_the_fork),
        in_folder(test_a_clone_without_handlers_cannot_reach_its_parents_files),
        in_folder(test_what_a_clone_opens_itself_records),
        in_folder(test_a_fork_of_a_clone_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
