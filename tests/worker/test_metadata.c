/* metadata.json: one line for each run, however many workers begin at once and whatever lies in the way. */
#include "support/worker.h"

#include "process/other.h"

#include <sys/syscall.h>

#include "worker/adopt.h"
#include "worker/internal.h"

static char *folder, *path, *lock;

static int make_folder(void **state)
{
    (void)state;
    folder = folder_make();
    assert_true(asprintf(&path, "%s/metadata.json", folder) > 0);
    assert_true(asprintf(&lock, "%s/metadata.json.lock", folder) > 0);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    free(path);
    free(lock);
    folder_remove(folder);
    return 0;
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

static struct lp_worker *open_run(const char *run_id)
{
    struct lp_worker_options options = quiet_options(folder);
    options.run_id = run_id;
    options.run_id_origin = LP_RUN_ID_GIVEN;
    return worker_open_with(&options);
}

static json_t *metadata(void)
{
    size_t len = 0;
    char *text = file_read(path, &len);
    assert_non_null(text);
    json_t *root = json_of(text, len);
    free(text);
    assert_string_equal(text_at(root, "format"), "lineprofiler-metadata");
    assert_int_equal(json_u64(root, "version", 0), 1);
    return root;
}

static void assert_has_run(const json_t *root, const char *run_id)
{
    char host[256] = "";
    const json_t *run = json_object_get(json_object_get(root, "runs"), run_id);
    assert_non_null(run);
    gethostname(host, sizeof host - 1);
    assert_string_equal(text_at(run, "run_id"), run_id);
    assert_string_equal(text_at(run, "host"), host);
    assert_true(is_stamp(json_object_get(run, "started")));
    assert_true(json_u64(run, "pid", 0) > 0);
    assert_true(json_array_size(json_object_get(run, "command")) > 0);
    assert_non_null(text_at(run, "library"));
}

static size_t runs_in(const json_t *root)
{
    return json_object_size(json_object_get(root, "runs"));
}

/* F3, F4 */
static void test_each_run_has_one_line_in_the_order_of_beginning(void **state)
{
    static const char *const runs[] = {"20260813T2241-471c94", "second", "third \"quoted\" \\ run"};
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 3; i++) {
            struct lp_worker *worker = open_run(runs[i]);
            lp_worker_free(worker);
        }
    }
    json_t *root = metadata();
    assert_int_equal(runs_in(root), 3);
    assert_has_run(root, runs[0]);
    assert_has_run(root, runs[1]);
    assert_has_run(root, "third \"quoted\" \\\\ run"); /* text: a backslash is two */
    const char *first = json_object_iter_key(json_object_iter(json_object_get(root, "runs")));
    assert_string_equal(first, runs[0]);
    json_decref(root);
    char *text = file_read(path, NULL);
    unsigned lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 5); /* the opening, a line each, the end */
    free(text);
    assert_int_equal(access(lock, F_OK), -1);
    assert_int_equal(folder_each(folder, NULL, NULL), 2); /* this and workers/ */
}

struct start {
    int go[2];
    int number;
};

static void begin_a_run(const struct start *start)
{
    char byte, run_id[32];
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    close(start->go[1]);
    CHECK(read(start->go[0], &byte, 1) == 0); /* all at once */
    snprintf(run_id, sizeof run_id, "run-%d", start->number % 2);
    struct lp_worker *worker = open_run(run_id);
    worker_record(worker, "a");
    CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
}

static void begin_sixteen_at_once(void)
{
    pid_t pids[16];
    struct start start;
    assert_int_equal(pipe(start.go), 0);
    fflush(NULL);
    for (int i = 0; i < 16; i++) {
        start.number = i;
        pids[i] = fork();
        if (pids[i] == 0) {
            begin_a_run(&start);
            _exit(0);
        }
    }
    close(start.go[0]);
    close(start.go[1]);
    for (int i = 0; i < 16; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

static void assert_both_runs(void)
{
    json_t *root = metadata();
    assert_int_equal(runs_in(root), 2);
    assert_has_run(root, "run-0");
    assert_has_run(root, "run-1");
    json_decref(root);
    assert_int_equal(access(lock, F_OK), -1);
    assert_int_equal(files_with_calls(folder, "a", 1), 16);
}

static void test_sixteen_workers_of_two_runs_at_once(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        begin_sixteen_at_once();
        assert_both_runs();
        folder_empty(folder);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
}

/* The lock of a process that was killed: all that wait find it dead at the same moment. */
static void test_sixteen_workers_behind_a_dead_lock(void **state)
{
    (void)state;
    file_write(lock, "", 0);
    begin_sixteen_at_once();
    assert_both_runs();
}

static bool dies_at_fsync;

/* In place of the system's. */
int fsync(int fd)
{
    if (dies_at_fsync)
        raise(SIGKILL);
    return (int)syscall(SYS_fsync, fd);
}

static void die_holding_the_lock(void)
{
    struct lp_worker *worker = open_run("r");
    dies_at_fsync = true;
    lp_metadata_note(worker, "note", "never written");
}

/* What it says; to be freed. */
static char *leave_lock_of_dead(void)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        die_holding_the_lock();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    char *text = file_read(lock, NULL);
    assert_non_null(text);
    return text;
}

/* Who waits for less time than a lock must stand to be taken for a dead process's. */
static int describe_soon(void)
{
    return lp_metadata_describe(&(struct lp_metadata_place){folder, "r", "w_r_1_01234567"}, "{}", 2);
}

static void test_the_lock_of_a_process_that_is_gone_is_removed_at_once(void **state)
{
    (void)state;
    free(leave_lock_of_dead());
    assert_int_equal(describe_soon(), 0);
    assert_int_equal(access(lock, F_OK), -1);
    json_t *root = metadata();
    assert_non_null(json_object_get(json_object_get(json_object_get(root, "runs"), "r"), "provenance"));
    json_decref(root);
}

static void assert_is_waited_for(const char *text)
{
    file_write(lock, text, strlen(text));
    assert_int_equal(describe_soon(), -1);
    assert_int_equal(errno, EBUSY);
    char *after = file_read(lock, NULL);
    assert_string_equal(after, text);
    free(after);
}

static void test_no_other_lock_is_removed_at_once(void **state)
{
    uint64_t parent, start_ticks;
    char *changed;
    (void)state;
    char *text = leave_lock_of_dead();
    size_t here = strcspn(text, "\n") + 1;
    assert_true(lp_process_parent((uint64_t)getpid(), &parent, &start_ticks));
    assert_true(asprintf(&changed, "%.*s%d %llu\n", (int)here, text, getpid(), (unsigned long long)start_ticks) > 0);
    assert_is_waited_for(changed); /* of a process that lives */
    free(changed);
    assert_true(asprintf(&changed, "another%s", text) > 0);
    assert_is_waited_for(changed); /* of another machine */
    free(changed);
    text[strlen(text) - 1] = '\0';
    assert_is_waited_for(text); /* not written to its end */
    assert_is_waited_for("");
    free(text);
}

static void test_sixteen_workers_behind_the_lock_of_a_process_that_is_gone(void **state)
{
    (void)state;
    char *text = leave_lock_of_dead();
    for (int round = 0; round < 10; round++) {
        folder_empty(folder);
        assert_int_equal(mkdir(folder, 0700), 0);
        file_write(lock, text, strlen(text));
        begin_sixteen_at_once();
        assert_both_runs();
    }
    free(text);
}

/* The run is listed, so that nobody needs the lock. */
static void test_the_lock_of_a_dead_worker_goes_with_its_image(void **state)
{
    (void)state;
    free(leave_lock_of_dead());
    assert_int_equal(lp_adopt(&(struct lp_adoption){.run_dir = folder}), 1);
    assert_int_equal(access(lock, F_OK), -1);
    assert_int_equal(folder_each(folder, NULL, NULL), 2);
}

static _Thread_local int naps; /* long enough to wait for others */

/* In place of the system's. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    naps += wanted->tv_nsec >= 10000000;
    return clock_nanosleep(CLOCK_MONOTONIC, 0, wanted, left) == 0 ? 0 : -1;
}

/* MN05: what cannot be locked costs the entry, never the worker, and nobody waits for it. */
static void test_a_lock_that_cannot_be_made(void **state)
{
    (void)state;
    assert_int_equal(mkdir(lock, 0700), 0);
    file_write(path, "", 0);
    naps = 0;
    struct lp_worker *worker = open_run("r");
    worker_record(worker, "a");
    assert_int_equal(lp_metadata_note(worker, "reason", "none"), -1);
    assert_int_equal(errno, EISDIR);
    assert_int_equal(naps, 0);
    assert_int_equal(lp_worker_snapshot(worker, NULL, 0), LP_WORKER_OK);
    assert_int_equal(files_with_calls(folder, "a", 1), 1);
    assert_int_equal(rmdir(lock), 0);
    assert_int_equal(lp_worker_close(worker, NULL, 0), LP_WORKER_OK); /* which tries again */
    json_t *root = metadata();
    assert_has_run(root, "r");
    json_decref(root);
    lp_worker_free(worker);
}

static void test_a_damaged_file_is_kept_beside(void **state)
{
    static const char *const damaged[] = {
        "not ours at all\n",
        "\"r\": at the very beginning\n",
        "{\"format\":\"lineprofiler-metadata\",\"version\":1,\"runs\":{\n\"old\":{\"run_id\":\"ol",
        "{\"format\":\"lineprofiler-metadata\",\"version\":1,\"runs\":{\n",
        "{}\n}}\n",
    };
    char *beside;
    (void)state;
    assert_true(asprintf(&beside, "%s.damaged", path) > 0);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        file_write(path, damaged[i], strlen(damaged[i]));
        lp_worker_free(open_run("r"));
        json_t *root = metadata();
        assert_int_equal(runs_in(root), 1);
        assert_has_run(root, "r");
        json_decref(root);
        char *text = file_read(beside, NULL);
        assert_string_equal(text, damaged[i]);
        free(text);
        unlink(beside);
        unlink(path);
    }
    free(beside);
}

static const char *directory_id(const json_t *root)
{
    const char *id = text_at(root, "directory_id");
    assert_int_equal(strspn(id, "0123456789abcdef"), 16);
    assert_int_equal(strlen(id), 16);
    return id;
}

/* By it images know their directory: a file that is mended must not part them from it. */
static void test_the_directory_keeps_its_id(void **state)
{
    static const char older[] = "{\"format\":\"lineprofiler-metadata\",\"version\":1,\"runs\":{\n\"old\":{}\n}}\n";
    char id[17];
    (void)state;
    lp_worker_free(open_run("r"));
    json_t *root = metadata();
    snprintf(id, sizeof id, "%s", directory_id(root));
    json_decref(root);
    assert_int_equal(truncate(path, 120), 0);
    for (int i = 0; i < 2; i++) {
        lp_worker_free(open_run(i == 0 ? "s" : "t"));
        root = metadata();
        assert_string_equal(directory_id(root), id);
        assert_int_equal(runs_in(root), i + 1);
        json_decref(root);
    }
    file_write(path, older, sizeof older - 1); /* that has none gets one with the next run */
    lp_worker_free(open_run("r"));
    root = metadata();
    assert_string_not_equal(directory_id(root), id);
    assert_int_equal(runs_in(root), 2);
    json_decref(root);
}

/* A run id inside another's line is no entry of its own. */
static void test_a_run_is_known_by_its_key_only(void **state)
{
    (void)state;
    lp_worker_free(open_run("outer"));
    lp_worker_free(open_run("run_id"));
    lp_worker_free(open_run("oute"));
    json_t *root = metadata();
    assert_int_equal(runs_in(root), 3);
    assert_has_run(root, "run_id");
    assert_has_run(root, "oute");
    json_decref(root);
}

static void test_no_symlink_is_followed(void **state)
{
    char *victim;
    (void)state;
    assert_true(asprintf(&victim, "%s/victim", folder) > 0);
    file_write(victim, "mine", 4);
    assert_int_equal(symlink(victim, path), 0);
    lp_worker_free(open_run("r"));
    char *text = file_read(victim, NULL);
    assert_string_equal(text, "mine");
    free(text);
    free(victim);
}

static const char *note_of(const json_t *root, const char *run_id, const char *key)
{
    const json_t *run = json_object_get(json_object_get(root, "runs"), run_id);
    return json_string_value(json_object_get(run, key));
}

/* M2 */
static void test_a_note_goes_to_its_run_and_the_first_one_stays(void **state)
{
    (void)state;
    lp_worker_free(open_run("before"));
    struct lp_worker *worker = open_run("noted \"\\");
    lp_worker_free(open_run("after"));
    assert_int_equal(lp_metadata_note(worker, "reason", "no \"package\"},\nof that"), 0);
    assert_int_equal(lp_metadata_note(worker, "reason", "another"), 0);
    assert_int_equal(lp_metadata_note(worker, "rea", ",\"second\":"), 0);
    assert_int_equal(lp_metadata_note(worker, "second", "2"), 0);
    lp_worker_free(worker);
    lp_worker_free(open_run("last"));
    json_t *root = metadata();
    assert_int_equal(runs_in(root), 4);
    assert_has_run(root, "noted \"\\\\");
    assert_string_equal(note_of(root, "noted \"\\\\", "reason"), "no \"package\"},\nof that");
    assert_string_equal(note_of(root, "noted \"\\\\", "rea"), ",\"second\":");
    assert_string_equal(note_of(root, "noted \"\\\\", "second"), "2");
    assert_null(note_of(root, "before", "reason"));
    assert_null(note_of(root, "after", "reason"));
    json_decref(root);
    assert_int_equal(access(lock, F_OK), -1);
}

static void note_and_end(int number)
{
    char key[16];
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    snprintf(key, sizeof key, "key%d", number % 4);
    struct lp_worker *worker = open_run("r");
    CHECK(lp_metadata_note(worker, key, "note") == 0);
    CHECK(lp_worker_close(worker, NULL, 0) == LP_WORKER_OK);
}

static void test_notes_of_many_at_once(void **state)
{
    pid_t pids[8];
    (void)state;
    fflush(NULL);
    for (int i = 0; i < 8; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            note_and_end(i);
            _exit(0);
        }
    }
    for (int i = 0; i < 8; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    json_t *root = metadata();
    assert_int_equal(runs_in(root), 1);
    for (int i = 0; i < 4; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%d", i);
        assert_string_equal(note_of(root, "r", key), "note");
    }
    json_decref(root);
}

static void test_a_note_in_a_file_that_is_not_ours(void **state)
{
    (void)state;
    struct lp_worker *worker = open_run("r");
    file_write(path, "{}\n", 3);
    assert_int_equal(lp_metadata_note(worker, "reason", "none"), -1);
    assert_int_equal(errno, EINVAL);
    unlink(path);
    assert_int_equal(lp_metadata_note(worker, "reason", "none"), -1);
    assert_int_equal(errno, ENOENT);
    char *text = file_read(path, NULL);
    assert_null(text);
    lp_worker_free(worker);
    assert_int_equal(access(lock, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_each_run_has_one_line_in_the_order_of_beginning),
        in_folder(test_sixteen_workers_of_two_runs_at_once),
        in_folder(test_sixteen_workers_behind_a_dead_lock),
        in_folder(test_the_lock_of_a_process_that_is_gone_is_removed_at_once),
        in_folder(test_no_other_lock_is_removed_at_once),
        in_folder(test_sixteen_workers_behind_the_lock_of_a_process_that_is_gone),
        in_folder(test_the_lock_of_a_dead_worker_goes_with_its_image),
        in_folder(test_a_lock_that_cannot_be_made),
        in_folder(test_a_damaged_file_is_kept_beside),
        in_folder(test_the_directory_keeps_its_id),
        in_folder(test_a_run_is_known_by_its_key_only),
        in_folder(test_no_symlink_is_followed),
        in_folder(test_a_note_goes_to_its_run_and_the_first_one_stays),
        in_folder(test_notes_of_many_at_once),
        in_folder(test_a_note_in_a_file_that_is_not_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
