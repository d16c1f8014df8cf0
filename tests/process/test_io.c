/* Bytes that were moved: by whom, at which layer, and what of a child's becomes its parent's. */
#include "support/in_folder.h"
#include "support/support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "process/io.h"

#define BYTES 300000u

static bool kernel_counts(void)
{
    struct lp_io io;
    return lp_io_of_thread(&io) != 0;
}

/* Writes so many bytes to a new file and reads them again, by three calls each. */
static void move(const char *name, size_t bytes)
{
    char path[512];
    char *block = calloc(1, bytes);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && block);
    CHECK(write(fd, block, bytes / 2) == (ssize_t)(bytes / 2));
    CHECK(write(fd, block, bytes - bytes / 2) == (ssize_t)(bytes - bytes / 2));
    CHECK(pread(fd, block, bytes, 0) == (ssize_t)bytes);
    close(fd);
    free(block);
}

static void *move_there(void *bytes)
{
    move("thread", *(size_t *)bytes);
    return NULL;
}

static void test_what_a_thread_moves_is_its_own(void **state)
{
    struct lp_io before, after, process_before, process_after;
    pthread_t thread;
    size_t mine = BYTES, its = 2 * BYTES;
    (void)state;
    if (!kernel_counts())
        skip();
    size_t process_cost = lp_io_of_process(&process_before), cost = lp_io_of_thread(&before);
    assert_true(process_cost > 0 && cost > 0);
    assert_int_equal(pthread_create(&thread, NULL, move_there, &its), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    move("mine", mine);
    size_t last_cost = lp_io_of_thread(&after);
    assert_true(lp_io_of_process(&process_after) > 0);
    assert_int_equal(after.write_chars - before.write_chars, mine);
    assert_int_equal(after.read_chars - before.read_chars, mine + cost);
    /* Of the process: both threads', also that of the one that has ended, and the readings in between. */
    assert_int_equal(process_after.write_chars - process_before.write_chars, mine + its);
    assert_int_equal(process_after.read_chars - process_before.read_chars,
                     mine + its + process_cost + cost + last_cost);
}

static void test_any_thread_can_be_asked(void **state)
{
    struct lp_io own, named;
    (void)state;
    if (!kernel_counts())
        skip();
    move("a", BYTES);
    size_t cost = lp_io_of_thread(&own);
    assert_true(lp_io_of_task(&named, (uint64_t)gettid()) > 0);
    assert_int_equal(named.write_chars, own.write_chars);
    assert_int_equal(named.read_chars, own.read_chars + cost);
    assert_int_equal(lp_io_of_task(&named, 0), 0);
    assert_int_equal(lp_io_of_task(&named, UINT64_MAX), 0);
    assert_int_equal(lp_io_of_task(&named, (uint64_t)getppid()), 0); /* no thread of this process */
}

/* The block layer: what is dirtied counts as written at once, what is read past the page cache as read. */
static void test_bytes_of_the_block_layer(void **state)
{
    struct lp_io before, written, read_back;
    char path[512];
    void *block = NULL;
    (void)state;
    snprintf(path, sizeof path, "%s/direct", folder);
    if (!kernel_counts())
        skip();
    assert_int_equal(posix_memalign(&block, 4096, 1u << 20), 0);
    memset(block, 1, 1u << 20);
    int fd = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    if (fd < 0) {
        free(block);
        skip(); /* a file system without direct access */
    }
    lp_io_of_thread(&before);
    assert_int_equal(write(fd, block, 1u << 20), 1 << 20);
    lp_io_of_thread(&written);
    assert_int_equal(pread(fd, block, 1u << 20, 0), 1 << 20);
    lp_io_of_thread(&read_back);
    close(fd);
    free(block);
    if (written.write_bytes == before.write_bytes)
        skip(); /* its file system is no block device's */
    assert_in_range(written.write_bytes - before.write_bytes, 1 << 20, (1 << 20) + (64 << 10)); /* and the inode */
    assert_int_equal(written.read_bytes, before.read_bytes);
    assert_int_equal(read_back.read_bytes - written.read_bytes, 1 << 20);
    assert_int_equal(read_back.write_bytes, written.write_bytes);
}

/* ---- children ------------------------------------------------------------------------------- */

static pid_t start_mover(size_t bytes)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        move("child", bytes);
        _exit(0);
    }
    return pid;
}

/* PR02 */
static void test_a_child_counts_once_it_is_waited_for(void **state)
{
    struct lp_io thread_before, thread_after, before, ended, reaped;
    struct lp_reaped none, still_none, one;
    siginfo_t info;
    int status;
    (void)state;
    if (!kernel_counts())
        skip();
    assert_true(lp_reaped_read(&none));
    lp_io_of_thread(&thread_before);
    lp_io_of_process(&before);
    pid_t pid = start_mover(BYTES);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    lp_io_of_process(&ended);
    assert_true(lp_reaped_read(&still_none));
    assert_int_equal(still_none.work, none.work);
    assert_int_equal(ended.write_chars, before.write_chars);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    lp_io_of_process(&reaped);
    lp_io_of_thread(&thread_after);
    assert_true(lp_reaped_read(&one));
    assert_true(one.work > none.work);
    assert_int_equal(reaped.write_chars - ended.write_chars, BYTES);
    assert_int_equal(thread_after.write_chars, thread_before.write_chars);
    /* At the block layer the two say the same, and it can be left out to the byte. */
    assert_int_equal(reaped.write_bytes - ended.write_bytes, one.write_bytes - none.write_bytes);
    assert_int_equal(reaped.read_bytes - ended.read_bytes, one.read_bytes - none.read_bytes);
}

/* ---- what cannot be read ----------------------------------------------------------------------- */

static void be_nobody(void *context)
{
    struct lp_io io = {1, 2, 3, 4};
    struct lp_reaped reaped;
    (void)context;
    CANNOT_IF(setgid(65534) != 0 || setuid(65534) != 0);
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    CHECK_U64(lp_io_of_process(&io), 0);
    CHECK_U64(lp_io_of_thread(&io), 0);
    CHECK_U64(lp_io_of_task(&io, (uint64_t)gettid()), 0);
    CHECK(lp_reaped_read(&reaped));
}

/* PR01 */
static void test_a_process_that_may_not_be_looked_into(void **state)
{
    (void)state;
    in_child(be_nobody, NULL);
}

static void hide_proc(void *context)
{
    struct lp_io io;
    (void)context;
    mounts_enter();
    mounts_tmpfs("/proc", "size=4k");
    CHECK_U64(lp_io_of_process(&io), 0);
    CHECK_U64(lp_io_of_thread(&io), 0);
}

static void test_without_proc(void **state)
{
    (void)state;
    in_child(hide_proc, NULL);
}

static void hide_pids(void *context)
{
    struct lp_io io;
    (void)context;
    mounts_enter();
    CANNOT_IF(mount("proc", "/proc", "proc", 0, "hidepid=2") != 0);
    CANNOT_IF(setgid(65534) != 0 || setuid(65534) != 0);
    CANNOT_IF(prctl(PR_SET_DUMPABLE, 1) != 0);
    CHECK(lp_io_of_process(&io) > 0);
    CHECK(lp_io_of_task(&io, (uint64_t)gettid()) > 0);
}

static void test_hidden_processes_see_themselves(void **state)
{
    (void)state;
    in_child(hide_pids, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_what_a_thread_moves_is_its_own),
        in_folder(test_any_thread_can_be_asked),
        in_folder(test_bytes_of_the_block_layer),
        in_folder(test_a_child_counts_once_it_is_waited_for),
        in_folder(test_a_process_that_may_not_be_looked_into),
        in_folder(test_without_proc),
        in_folder(test_hidden_processes_see_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
