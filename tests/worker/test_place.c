/* Whose an image is: that of the directory its worker recorded in, and of no other that has its path, inode or name. */
#include "support/in_folder.h"
#include "support/worker.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "process/stamp.h"
#include "worker/adopt.h"
#include "worker/images.h"
#include "worker/place.h"

static char run[400], other[400];

static void own_mounts(void)
{
    mounts_enter();
    mounts_tmpfs("/dev/shm", "size=64m,mode=1777");
    snprintf(run, sizeof run, "%s/run", folder);
    snprintf(other, sizeof other, "%s/other", folder);
}

/* A process that records so many entries of "a" in the directory and is killed; flushes: after it has written its file. */
static void leave_a_dead_of(const char *run_dir, int calls, bool flushes)
{
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct lp_worker *worker = worker_open(run_dir);
        CANNOT_IF(lp_worker_recorder(worker)->image.fd < 0);
        if (flushes)
            CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK);
        for (int i = 0; i < calls; i++)
            worker_record(worker, "a");
        raise(SIGKILL);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
}

static void leave_a_dead_one(const char *run_dir, int calls)
{
    leave_a_dead_of(run_dir, calls, false);
}

static int add_calls(void *context, const struct lp_image_document *image)
{
    json_t *document = json_of(image->document, image->len);
    *(uint64_t *)context += figures_at(document, "a").calls;
    json_decref(document);
    return 0;
}

/* The entries in the images of the directory. */
static uint64_t calls_of(const char *run_dir)
{
    uint64_t calls = 0;
    CHECK(lp_images_each(run_dir, add_calls, &calls) == 0);
    return calls;
}

static size_t adopt(const char *run_dir)
{
    return lp_adopt(&(struct lp_adoption){.run_dir = run_dir});
}

/* Of the worker files in the directory, how many tell of so many entries. */
static int files_of(const char *run_dir, uint64_t calls)
{
    return files_with_calls(run_dir, "a", calls);
}

static void remove_and_begin_anew(void *context)
{
    (void)context;
    own_mounts();
    leave_a_dead_one(run, 7);
    CHECK_U64(calls_of(run), 7);
    folder_empty(run);
    leave_a_dead_one(run, 3);
    CHECK_U64(calls_of(run), 3);
    CHECK_U64(adopt(run), 1);
    CHECK(files_of(run, 3) == 1 && files_of(run, 7) == 0);
}

static void test_a_directory_made_anew(void **state)
{
    (void)state;
    in_child(remove_and_begin_anew, NULL);
}

/* Before anybody has recorded in the new one. */
static void remove_and_look(void *context)
{
    (void)context;
    own_mounts();
    leave_a_dead_one(run, 7);
    folder_empty(run);
    CHECK(mkdir(run, 0777) == 0);
    CHECK_U64(calls_of(run), 0);
    CHECK_U64(adopt(run), 0);
    CHECK(folder_each(run, NULL, NULL) == 0);
}

static void test_an_empty_directory_in_the_place_of_one(void **state)
{
    (void)state;
    in_child(remove_and_look, NULL);
}

/* As two containers that share /dev/shm have it. */
static void cover(void *context)
{
    (void)context;
    own_mounts();
    leave_a_dead_one(run, 7);
    mounts_tmpfs(run, "size=1m");
    CHECK_U64(calls_of(run), 0);
    leave_a_dead_one(run, 3);
    CHECK_U64(calls_of(run), 3);
    CHECK_U64(adopt(run), 1);
    CHECK(files_of(run, 3) == 1 && files_of(run, 7) == 0);
    CHECK(umount(run) == 0);
    CHECK_U64(calls_of(run), 7);
    CHECK_U64(adopt(run), 1);
    CHECK(files_of(run, 7) == 1 && files_of(run, 3) == 0);
}

static void test_two_directories_of_one_path(void **state)
{
    (void)state;
    in_child(cover, NULL);
}

static void move(void *context)
{
    (void)context;
    own_mounts();
    leave_a_dead_one(run, 7);
    CHECK(rename(run, other) == 0);
    CHECK_U64(calls_of(run), 0);
    CHECK_U64(calls_of(other), 7);
    leave_a_dead_one(run, 3); /* the next run, where the first had begun */
    CHECK_U64(calls_of(run), 3);
    CHECK_U64(calls_of(other), 7);
    CHECK_U64(adopt(other), 1);
    CHECK(files_of(other, 7) == 1 && files_of(run, 7) == 0);
    CHECK_U64(calls_of(run), 3);
}

static void test_a_directory_that_was_moved(void **state)
{
    (void)state;
    in_child(move, NULL);
}

/* What a copy was made of may go on, which is not its business. */
static void copy(void *context)
{
    char command[1000];
    (void)context;
    own_mounts();
    leave_a_dead_one(run, 7);
    snprintf(command, sizeof command, "cp -a '%s' '%s'", run, other);
    CHECK(system(command) == 0);
    CHECK_U64(calls_of(other), 0);
    CHECK_U64(adopt(other), 0);
    CHECK_U64(calls_of(run), 7);
    CHECK(rename(other, run) != 0);
    folder_empty(run); /* and a copy that was put back in its place is that directory again */
    CHECK(rename(other, run) == 0);
    CHECK_U64(calls_of(run), 7);
}

static void test_a_copy_of_a_directory(void **state)
{
    (void)state;
    in_child(copy, NULL);
}

static void bind(void *context)
{
    (void)context;
    own_mounts();
    leave_a_dead_one(run, 7);
    CHECK(mkdir(other, 0777) == 0);
    CANNOT_IF(mount(run, other, NULL, MS_BIND, NULL) != 0);
    CHECK_U64(calls_of(other), 7);
    CHECK_U64(adopt(other), 1);
    CHECK(files_of(run, 7) == 1);
    CHECK(umount(other) == 0);
}

static void test_a_directory_at_another_path(void **state)
{
    (void)state;
    in_child(bind, NULL);
}

/* Of two live workers one finds the directory gone and makes it anew; the other finds it there. */
static void lose_under_two(void *context)
{
    (void)context;
    own_mounts();
    struct lp_worker *first = worker_open(run), *second = worker_open(run);
    CANNOT_IF(lp_worker_recorder(first)->image.fd < 0);
    worker_record(first, "a");
    worker_record(second, "a");
    folder_empty(run);
    CHECK(lp_worker_snapshot(first, NULL, 0) == LP_WORKER_OK);
    CHECK(lp_worker_snapshot(second, NULL, 0) == LP_WORKER_OK);
    worker_record(first, "a");
    worker_record(second, "a");
    CHECK_U64(calls_of(run), 4);
    lp_worker_free(first);
    lp_worker_free(second);
}

static void test_a_directory_removed_under_the_living(void **state)
{
    (void)state;
    in_child(lose_under_two, NULL);
}

/* Without an id the inode decides. */
static void without_id(void *context)
{
    char metadata[500];
    static const char old[] = "{\"format\":\"lineprofiler-metadata\",\"version\":1,\"runs\":{\n\"old\":{}\n}}\n";
    (void)context;
    own_mounts();
    leave_a_dead_one(run, 7);
    snprintf(metadata, sizeof metadata, "%s/metadata.json", run);
    file_write(metadata, old, sizeof old - 1);
    CHECK_U64(calls_of(run), 7);
    mounts_tmpfs(run, "size=1m");
    file_write(metadata, old, sizeof old - 1);
    CHECK_U64(calls_of(run), 0);
    CHECK(umount(run) == 0);
}

static void test_a_directory_without_an_id(void **state)
{
    (void)state;
    in_child(without_id, NULL);
}

/* ---- metadata.json comes to harm under a run ------------------------------------------------ */

static void below(char path[500], const char *run_dir, const char *name)
{
    snprintf(path, 500, "%s/%s", run_dir, name);
}

static void remove_metadata(const char *run_dir)
{
    char metadata[500];
    below(metadata, run_dir, "metadata.json");
    CHECK(unlink(metadata) == 0);
}

/* Root reads what it may not read. */
static void make_unreadable(const char *run_dir)
{
    char metadata[500];
    remove_metadata(run_dir);
    below(metadata, run_dir, "metadata.json");
    CHECK(symlink("nowhere", metadata) == 0);
}

static void lose_the_id(void *context)
{
    void (*lose)(const char *) = *(void (**)(const char *))context;
    own_mounts();
    leave_a_dead_one(run, 7);
    leave_a_dead_of(run, 5, true);
    lose(run);
    CHECK_U64(calls_of(run), 12);
    CHECK(rename(run, other) == 0);
    CHECK_U64(calls_of(other), 5); /* the other one's path leads elsewhere */
    CHECK(rename(other, run) == 0);
    CHECK_U64(adopt(run), 2);
    CHECK(files_of(run, 7) == 1 && files_of(run, 5) == 1);
}

static void test_metadata_that_is_gone_or_cannot_be_read(void **state)
{
    void (*const ways[])(const char *) = {remove_metadata, make_unreadable};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        in_child(lose_the_id, (void *)&ways[i]);
        folder_empty(folder);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
}

static void make_it_anew(void *context)
{
    (void)context;
    own_mounts();
    leave_a_dead_of(run, 5, true);
    remove_metadata(run);
    leave_a_dead_one(run, 3); /* which gives the directory another id */
    CHECK_U64(calls_of(run), 8);
    CHECK_U64(adopt(run), 2);
    CHECK(files_of(run, 5) == 1 && files_of(run, 3) == 1);
}

static void test_metadata_that_a_new_process_makes_anew(void **state)
{
    (void)state;
    in_child(make_it_anew, NULL);
}

/* One of the living does, and who has no file yet is not lost. */
static void make_it_again(void *context)
{
    (void)context;
    own_mounts();
    struct lp_worker *worker = worker_open(run);
    leave_a_dead_one(run, 7);
    CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK);
    remove_metadata(run);
    CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK);
    CHECK_U64(calls_of(run), 7);
    folder_empty(run);
    CHECK(lp_worker_snapshot(worker, NULL, 0) == LP_WORKER_OK); /* another directory at its path */
    CHECK_U64(calls_of(run), 0);
    lp_worker_free(worker);
}

static void test_metadata_that_a_living_one_makes_again(void **state)
{
    (void)state;
    in_child(make_it_again, NULL);
}

static void each_has(void *context, const char *name)
{
    const struct stat *run_dir = context;
    char path[500];
    uint64_t inode = run_dir->st_ino;
    snprintf(path, sizeof path, "/dev/shm/lineprofiler-%u/%s", (unsigned)geteuid(), name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && pwrite(fd, &inode, sizeof inode, offsetof(struct lp_header, run_dir_inode)) == sizeof inode);
    close(fd);
}

/* The images there are have the directory's inode, as those of a removed one may whose inode it has. */
static void recycle_the_inode(void)
{
    char images[64];
    struct stat run_dir;
    CHECK(stat(run, &run_dir) == 0);
    snprintf(images, sizeof images, "/dev/shm/lineprofiler-%u", (unsigned)geteuid());
    CHECK(folder_each(images, each_has, &run_dir) >= 1);
}

static void recycle(void *context)
{
    char metadata[500];
    (void)context;
    own_mounts();
    leave_a_dead_of(run, 7, true);
    folder_empty(run);
    CHECK(mkdir(run, 0777) == 0);
    recycle_the_inode();
    CHECK_U64(calls_of(run), 0);
    below(metadata, run, "metadata.json");
    file_write(metadata, "{}", 2);
    CHECK_U64(calls_of(run), 0);
    CHECK_U64(adopt(run), 0);
    CHECK(unlink(metadata) == 0);
    leave_a_dead_of(run, 3, true);
    CHECK_U64(calls_of(run), 3);
    CHECK_U64(adopt(run), 1);
    CHECK(files_of(run, 7) == 0 && files_of(run, 3) == 1);
}

static void test_a_directory_with_the_inode_of_a_removed_one(void **state)
{
    (void)state;
    in_child(recycle, NULL);
}

/* ---- those that nobody comes for ------------------------------------------------------------ */

static void let_it_be_old(const char *name)
{
    char path[500], boot_id[40] = "another boot";
    snprintf(path, sizeof path, "/dev/shm/lineprofiler-%u/%s", (unsigned)geteuid(), name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && pwrite(fd, boot_id, sizeof boot_id, offsetof(struct lp_header, boot_id)) == sizeof boot_id);
    close(fd);
}

static void age_one(void *context, const char *name)
{
    (void)context;
    let_it_be_old(name);
}

static size_t adopt_abandoned(void)
{
    return lp_adopt(&(struct lp_adoption){.run_dir = folder, .abandoned = true});
}

static void age_all(void)
{
    char images[64];
    snprintf(images, sizeof images, "/dev/shm/lineprofiler-%u", (unsigned)geteuid());
    CHECK(folder_each(images, age_one, NULL) == 1);
}

static void come_late(void *context)
{
    (void)context;
    own_mounts();
    leave_a_dead_one(run, 7);
    folder_empty(run);
    CHECK(mkdir(run, 0777) == 0); /* somebody else's by now */
    age_all();
    CHECK_U64(adopt_abandoned(), 0);
    CHECK(folder_each(run, NULL, NULL) == 0);
    leave_a_dead_one(other, 3);
    age_all(); /* the first is gone */
    CHECK_U64(adopt_abandoned(), 1);
    CHECK(files_of(other, 3) == 1);
}

static void test_another_directory_is_not_written_to(void **state)
{
    (void)state;
    in_child(come_late, NULL);
}

/* ---- the id --------------------------------------------------------------------------------- */

static uint64_t id_in(const char *text)
{
    return lp_directory_id_in(text, strlen(text));
}

static void test_ids_in_texts(void **state)
{
    char long_text[4096];
    (void)state;
    assert_int_equal(id_in("{\"directory_id\":\"0123456789abcdef\",\"runs\":{}}"), 0x0123456789abcdef);
    assert_int_equal(id_in("{\"directory_id\":  \"00000000000000ff\"}"), 0xff);
    assert_int_equal(id_in(""), 0);
    assert_int_equal(id_in("{\"runs\":{}}"), 0);
    assert_int_equal(id_in("{\"directory_id\":"), 0);
    assert_int_equal(id_in("{\"directory_id\":\"0123456789abcde\""), 0);
    assert_int_equal(id_in("{\"directory_id\":\"0123456789abcdef"), 0);
    assert_int_equal(id_in("{\"directory_id\":\"0123456789ABCDEF\"}"), 0);
    assert_int_equal(id_in("{\"directory_id\":\"0123456789abcdef0\"}"), 0);
    assert_int_equal(id_in("{\"directory_id\":12}"), 0);
    memset(long_text, ' ', sizeof long_text);
    memcpy(long_text + 4000, "\"directory_id\":\"0123456789abcdef\"", 33);
    assert_int_equal(lp_directory_id_in(long_text, sizeof long_text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_a_directory_made_anew),
        in_folder(test_an_empty_directory_in_the_place_of_one),
        in_folder(test_two_directories_of_one_path),
        in_folder(test_a_directory_that_was_moved),
        in_folder(test_a_copy_of_a_directory),
        in_folder(test_a_directory_at_another_path),
        in_folder(test_a_directory_removed_under_the_living),
        in_folder(test_a_directory_without_an_id),
        in_folder(test_metadata_that_is_gone_or_cannot_be_read),
        in_folder(test_metadata_that_a_new_process_makes_anew),
        in_folder(test_metadata_that_a_living_one_makes_again),
        in_folder(test_a_directory_with_the_inode_of_a_removed_one),
        in_folder(test_another_directory_is_not_written_to),
        cmocka_unit_test(test_ids_in_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
