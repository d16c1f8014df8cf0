/* Profilers of the processes that a process descends from: found by their images, and nobody else's. */
#include "support/in_folder.h"
#include "support/worker.h"

#include <sys/prctl.h>

#include "worker/ancestor.h"

static struct lp_worker *open_in(const char *run_dir, const char *run_id)
{
    struct lp_worker *worker;
    struct lp_worker_options options = quiet_options(run_dir);
    options.run_id = run_id;
    CHECK(lp_worker_open(&worker, &options, NULL, 0) == LP_WORKER_OK);
    CANNOT_IF(lp_worker_recorder(worker)->image.fd < 0);
    return worker;
}

/* Runs body in a child of this child; it must end with 0. */
static void in_grandchild(void (*body)(const void *), const void *context)
{
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        body(context);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void find_none(const void *run_dir)
{
    struct lp_ancestor found;
    CHECK(!lp_ancestor_find(&found, run_dir));
}

/* What is to be found. */
struct expected {
    const struct lp_worker *worker;
    const char *run_dir, *run_id, *filter;
};

static void find_it(const void *context)
{
    const struct expected *expected = context;
    struct lp_ancestor found;
    CHECK(lp_ancestor_find(&found, expected->filter));
    CHECK(strcmp(found.run_dir, expected->run_dir) == 0);
    CHECK(strcmp(found.run_id, expected->run_id) == 0);
    CHECK(strcmp(found.worker, lp_worker_name(expected->worker)) == 0);
    CHECK(found.opened_boottime_ns <= clock_now_ns(CLOCK_BOOTTIME));
    CHECK(lp_ancestor_has_image(found.worker, strlen(found.worker)));
}

static void find_below(const struct lp_worker *worker, const char *run_dir, const char *run_id)
{
    const struct expected expected = {worker, run_dir, run_id, NULL};
    in_grandchild(find_it, &expected);
}

static void open_and_close(void *context)
{
    (void)context;
    in_grandchild(find_none, NULL);
    struct lp_worker *first = open_in(folder, "one");
    find_none(NULL); /* it is no ancestor of itself */
    find_below(first, folder, "one");
    struct lp_worker *second = open_in(folder, "two");
    find_below(second, folder, "two"); /* the one that was opened last */
    lp_worker_free(second);
    find_below(first, folder, "one");
    in_grandchild(find_none, "/");
    char name[256];
    snprintf(name, sizeof name, "%s", lp_worker_name(first));
    lp_worker_free(first);
    in_grandchild(find_none, NULL);
    CHECK(!lp_ancestor_has_image(name, strlen(name)));
}

/* E1 */
static void test_an_open_profiler_is_found_E1(void **state)
{
    (void)state;
    in_child(open_and_close, NULL);
}

static void find_over_generations(const void *outer)
{
    char *other = folder_make();
    const struct expected by_directory = {outer, folder, "outer", folder};
    find_it(&by_directory);
    find_below(outer, folder, "outer"); /* grandparents count */
    struct lp_worker *inner = open_in(other, "inner");
    find_below(inner, other, "inner"); /* the nearest */
    in_grandchild(find_it, &by_directory);
    lp_worker_free(inner);
    find_below(outer, folder, "outer");
    folder_remove(other);
}

static void begin_generations(void *context)
{
    (void)context;
    struct lp_worker *outer = open_in(folder, "outer");
    in_grandchild(find_over_generations, outer);
    lp_worker_free(outer);
}

static void test_the_nearest_ancestor_is_found_first(void **state)
{
    (void)state;
    in_child(begin_generations, NULL);
}

/* A forked child has no image before its first phase, so that its children see through to its parent. */
static void record_in_between(const void *context)
{
    struct lp_worker *worker = (struct lp_worker *)context;
    char before[256];
    snprintf(before, sizeof before, "%s", lp_worker_name(worker));
    find_below(worker, folder, "one");
    worker_record(worker, "a");
    CHECK(strcmp(before, lp_worker_name(worker)) != 0);
    find_below(worker, folder, "one");
}

static void fork_in_between(void *context)
{
    (void)context;
    struct lp_worker *worker = open_in(folder, "one");
    in_grandchild(record_in_between, worker);
    lp_worker_free(worker);
}

static void test_forked_children_in_between(void **state)
{
    (void)state;
    in_child(fork_in_between, NULL);
}

static void use_odd_ids(void *context)
{
    char longest[129];
    (void)context;
    memset(longest, '"', sizeof longest - 1);
    longest[128] = '\0';
    const char *const ids[] = {
        "a b/c",
        "\"quoted\"",
        "back\\slash\\",
        "\\u0041",
        "tab\tnewline\n\x7f",
        "\xc3\xbc\xf0\x9f\x98\x80",
        "\xed\xb3\xbf lone surrogate",
        "\\x00",
        longest,
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct lp_worker *worker = open_in(folder, ids[i]);
        find_below(worker, folder, ids[i]);
        lp_worker_free(worker);
    }
}

static void test_any_run_id_comes_back(void **state)
{
    (void)state;
    in_child(use_odd_ids, NULL);
}

static void defer(void *context)
{
    struct lp_worker_options options = quiet_options(folder);
    struct lp_worker *worker;
    (void)context;
    options.run_id = "one";
    options.deferred = true;
    CHECK(lp_worker_open(&worker, &options, NULL, 0) == LP_WORKER_OK);
    in_grandchild(find_none, NULL);
    worker_record(worker, "a");
    CANNOT_IF(lp_worker_recorder(worker)->image.fd < 0);
    find_below(worker, folder, "one");
    lp_worker_free(worker);
}

static void test_a_deferred_one_is_found_once_it_records(void **state)
{
    (void)state;
    in_child(defer, NULL);
}

/* ---- images that are not what their names say ------------------------------------------ */

static void put_image(const char *name, const char *bytes, size_t len)
{
    char path[400];
    size_t n = (size_t)lp_image_folder(path, sizeof path);
    snprintf(path + n, sizeof path - n, "/%s", name);
    file_write(path, bytes, len);
}

static void change_the_header(void *context)
{
    size_t len;
    char name[64];
    (void)context;
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=64m,mode=1777");
    struct lp_worker *worker = open_in(folder, "one");
    char *bytes = file_read(lp_worker_recorder(worker)->image.path, &len);
    CHECK(bytes != NULL);
    lp_worker_free(worker);
    struct lp_header *header = (struct lp_header *)(void *)bytes, good = *header;
    snprintf(name, sizeof name, "w_x_%d_01234567.img", (int)getpid());
    put_image(name, bytes, len);
    struct lp_ancestor found;
    if (fork() == 0)
        _exit(lp_ancestor_find(&found, NULL) ? 0 : 1);
    int status;
    CHECK(wait(&status) > 0 && status == 0); /* as it is, it would be taken */

    header->process_start_ticks++; /* the pid was another's before */
    put_image(name, bytes, len);
    in_grandchild(find_none, NULL);
    *header = good, header->pid++;
    put_image(name, bytes, len);
    in_grandchild(find_none, NULL);
    *header = good, header->pid_namespace++;
    put_image(name, bytes, len);
    in_grandchild(find_none, NULL);
    *header = good, header->boot_id[3] ^= 1;
    put_image(name, bytes, len);
    in_grandchild(find_none, NULL);
    *header = good, header->closed = 1;
    put_image(name, bytes, len);
    in_grandchild(find_none, NULL);
    *header = good, header->run_id = 1u << 30;
    put_image(name, bytes, len);
    in_grandchild(find_none, NULL);
    *header = good;
    for (size_t cut = 0; cut < len; cut = cut * 2 + 100) {
        put_image(name, bytes, cut);
        in_grandchild(find_none, NULL);
        if (cut * 2 + 100 > atomic_load(&good.used))
            break;
    }
    put_image("w_x_.img", bytes, len);
    put_image("_01234567.img", bytes, len);
    put_image("1_01234567.img", bytes, len);
    put_image(".img", bytes, len);
    put_image(name, "", 0);
    in_grandchild(find_none, NULL);
    free(bytes);
}

static void test_only_what_the_header_proves(void **state)
{
    (void)state;
    in_child(change_the_header, NULL);
}

static void enter_a_namespace(void *context)
{
    (void)context;
    struct lp_worker *worker = open_in(folder, "one");
    find_below(worker, folder, "one");
    if (unshare(CLONE_NEWPID) != 0)
        CANNOT_IF(unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0);
    in_grandchild(find_none, NULL);
    lp_worker_free(worker);
}

static void test_a_parent_in_another_namespace_is_none(void **state)
{
    (void)state;
    in_child(enter_a_namespace, NULL);
}

static void test_when_this_process_began(void **state)
{
    (void)state;
    uint64_t began_ns = lp_process_began_ns();
    assert_true(began_ns > 0);
    assert_true(began_ns <= clock_now_ns(CLOCK_BOOTTIME) + 10000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_an_open_profiler_is_found_E1),
        in_folder(test_the_nearest_ancestor_is_found_first),
        in_folder(test_forked_children_in_between),
        in_folder(test_any_run_id_comes_back),
        in_folder(test_a_deferred_one_is_found_once_it_records),
        in_folder(test_only_what_the_header_proves),
        in_folder(test_a_parent_in_another_namespace_is_none),
        in_folder(test_when_this_process_began),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
