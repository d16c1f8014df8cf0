/* What an owner sees of its image: shared memory where it can be had, private memory where not, and never a signal. */
#include "support/support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "image/image.h"
#include "image/view.h"

#define SHM "size=64m,mode=1777"

/* Each test works in a /dev/shm of its own. */
static void own_shm(const char *options)
{
    mounts_enter();
    mounts_tmpfs("/dev/shm", options);
}

static void folder_path(char *path, size_t size)
{
    CHECK((size_t)lp_image_folder(path, size) < size);
}

static bool is_private(const struct lp_image *image)
{
    return image->fd == -1 && image->path[0] == '\0';
}

/* It can be written and read wherever it says it has memory. */
static void check_usable(struct lp_image *image, size_t bytes)
{
    lp_ref refs[64];
    size_t each = bytes / 64 + 1;
    for (int i = 0; i < 64; i++) {
        refs[i] = lp_image_alloc(image, each);
        CHECK(refs[i] != 0);
        char *place = lp_image_at(image, refs[i]);
        for (size_t j = 0; j < each; j += 512)
            CHECK(place[j] == 0);
        memset(place, i + 1, each);
    }
    for (int i = 0; i < 64; i++) {
        const char *place = lp_image_at(image, refs[i]);
        CHECK(place[0] == i + 1 && place[each - 1] == i + 1);
    }
}

/* ---- the file ----------------------------------------------------------------- */

static void create_and_publish(void *context)
{
    struct lp_image image;
    struct lp_view view;
    struct stat st;
    char folder[64];
    (void)context;
    own_shm(SHM);
    umask(0);
    folder_path(folder, sizeof folder);
    CHECK(lp_image_create(&image, "w_run_1_00000000") == 0);
    CHECK(image.fd >= 0);
    CHECK(stat(folder, &st) == 0 && S_ISDIR(st.st_mode));
    CHECK_U64(st.st_mode & 07777, 0700);
    CHECK_U64(st.st_uid, geteuid());
    CHECK_U64(folder_each(folder, NULL, NULL), 0); /* nobody meets it half made */
    lp_image_header(&image)->pid = 4711;
    lp_image_publish(&image);
    CHECK_U64(folder_each(folder, NULL, NULL), 1);
    CHECK(stat(image.path, &st) == 0 && S_ISREG(st.st_mode));
    CHECK_U64(st.st_mode & 07777, 0600);
    CHECK(strncmp(image.path, folder, strlen(folder)) == 0);
    CHECK(strcmp(image.path + strlen(folder), "/w_run_1_00000000.img") == 0);
    CHECK((fcntl(image.fd, F_GETFD) & FD_CLOEXEC) != 0);

    int fd = open(image.path, O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK(fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK);
    CHECK(lp_view_foreign(&view, fd) == 0);
    CHECK_U64(lp_view_header(&view)->pid, 4711);
    lp_view_release(&view);
    CHECK(!lp_view_at(&view, 0, 1));
    close(fd);

    lp_image_destroy(&image);
    CHECK_U64(folder_each(folder, NULL, NULL), 0);
    CHECK(image.base == NULL);
    lp_image_destroy(&image); /* twice is once */
}

static void test_a_file_that_only_the_user_can_read(void **state)
{
    (void)state;
    in_child(create_and_publish, NULL);
}

static void grow_shared(void *context)
{
    struct lp_image image;
    struct stat st;
    (void)context;
    own_shm(SHM);
    CHECK(lp_image_create(&image, "w") == 0);
    lp_image_publish(&image);
    const char *base = image.base;
    check_usable(&image, 4 << 20);
    CHECK(image.base == base);
    CHECK(stat(image.path, &st) == 0);
    CHECK_U64((uint64_t)st.st_size, atomic_load(&image.size));
    CHECK_U64(atomic_load(&lp_image_header(&image)->shared), atomic_load(&image.size));
    CHECK_U64((uint64_t)st.st_blocks * 512, (uint64_t)st.st_size); /* no block is missing: no SIGBUS */
    char byte;
    CHECK(pread(image.fd, &byte, 1, (off_t)(atomic_load(&lp_image_header(&image)->used) - 64)) == 1 && byte == 64);
    lp_image_destroy(&image);
}

static void test_it_grows_without_moving(void **state)
{
    (void)state;
    in_child(grow_shared, NULL);
}

struct claimant {
    pthread_t thread;
    struct lp_image *image;
    lp_ref refs[4000];
    uint64_t mark;
};

static void *claim_lines(void *context)
{
    struct claimant *claimant = context;
    for (size_t i = 0; i < 4000; i++) {
        claimant->refs[i] = lp_image_alloc(claimant->image, LP_LINE);
        CHECK(claimant->refs[i] != 0);
        uint64_t *line = lp_image_at(claimant->image, claimant->refs[i]);
        CHECK_U64(line[0], 0);
        for (size_t j = 0; j < LP_LINE / 8; j++)
            line[j] = claimant->mark + i;
    }
    return NULL;
}

static void claim_together(void *context)
{
    struct lp_image image;
    static struct claimant claimants[4];
    (void)context;
    own_shm(SHM);
    CHECK(lp_image_create(&image, "w") == 0);
    for (uint64_t i = 0; i < 4; i++) {
        claimants[i].image = &image;
        claimants[i].mark = (i + 1) << 32;
        CHECK(pthread_create(&claimants[i].thread, NULL, claim_lines, &claimants[i]) == 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(claimants[i].thread, NULL) == 0);
    for (int i = 0; i < 4; i++)
        for (size_t j = 0; j < 4000; j++)
            CHECK_U64(((uint64_t *)lp_image_at(&image, claimants[i].refs[j]))[7], claimants[i].mark + j);
    lp_image_destroy(&image);
}

static void test_threads_get_lines_of_their_own(void **state)
{
    (void)state;
    in_child(claim_together, NULL);
}

static void long_name(void *context)
{
    struct lp_image image;
    char worker[256] = "w_";
    (void)context;
    own_shm(SHM);
    memset(worker + 2, 'r', 128);
    strcpy(worker + 130, "_4194304_0123abcd");
    CHECK(lp_image_create(&image, worker) == 0);
    lp_image_publish(&image);
    CHECK(image.fd >= 0 && access(image.path, R_OK) == 0);
    lp_image_destroy(&image);
}

static void test_the_longest_run_id_has_shared_memory_too(void **state)
{
    (void)state;
    in_child(long_name, NULL);
}

static void unlink_and_go_on(void *context)
{
    struct lp_image image;
    char path[sizeof image.path];
    (void)context;
    own_shm(SHM);
    CHECK(lp_image_create(&image, "w") == 0);
    lp_image_publish(&image);
    strcpy(path, image.path);
    int fd = image.fd;
    lp_image_unlink(&image);
    CHECK(access(path, F_OK) != 0 && fcntl(fd, F_GETFD) < 0);
    check_usable(&image, 1 << 20); /* threads that are still inside */
    lp_image_unlink(&image);
    lp_image_destroy(&image);
}

static void test_memory_outlives_the_file(void **state)
{
    (void)state;
    in_child(unlink_and_go_on, NULL);
}

/* A host that daemonises closes what it does not know, and its next file gets our number. */
static void lose_the_descriptor(void *context)
{
    struct lp_image image;
    struct stat st;
    (void)context;
    own_shm(SHM);
    CHECK(lp_image_create(&image, "w") == 0);
    lp_image_publish(&image);
    int number = image.fd;
    close(number);
    int theirs = open("/dev/shm/theirs", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(theirs == number || dup2(theirs, number) == number);
    CHECK(write(theirs = number, "theirs", 6) == 6);
    check_usable(&image, 2 << 20);
    CHECK(fstat(theirs, &st) == 0 && st.st_size == 6);
    CHECK(atomic_load(&lp_image_header(&image)->shared) < atomic_load(&lp_image_header(&image)->used));
    lp_image_destroy(&image);
    CHECK(fstat(theirs, &st) == 0 && st.st_size == 6);
}

static void test_a_reused_descriptor_is_left_alone(void **state)
{
    (void)state;
    in_child(lose_the_descriptor, NULL);
}

/* ---- where no shared memory can be had ----------------------------------------- */

static void check_private(void)
{
    struct lp_image image;
    char folder[64];
    CHECK(lp_image_create(&image, "w") == 0);
    lp_image_publish(&image);
    CHECK(is_private(&image));
    CHECK_U64(atomic_load(&lp_image_header(&image)->shared), 0);
    check_usable(&image, 2 << 20);
    folder_path(folder, sizeof folder);
    CHECK_U64(folder_each(folder, NULL, NULL), 0); /* no file without content either (MN05) */
    lp_image_destroy(&image);
}

static void plant_a_symlink(void *context)
{
    char folder[64];
    (void)context;
    own_shm(SHM);
    folder_path(folder, sizeof folder);
    CHECK(mkdir("/dev/shm/elsewhere", 0700) == 0 && symlink("elsewhere", folder) == 0);
    check_private();
    CHECK_U64(folder_each("/dev/shm/elsewhere", NULL, NULL), 0);
}

static void plant_a_file(void *context)
{
    char folder[64];
    (void)context;
    own_shm(SHM);
    folder_path(folder, sizeof folder);
    file_write(folder, "", 0);
    check_private();
}

static void plant_an_open_folder(void *context)
{
    char folder[64];
    (void)context;
    own_shm(SHM);
    folder_path(folder, sizeof folder);
    CHECK(mkdir(folder, 0700) == 0 && chmod(folder, 0750) == 0);
    check_private();
}

static void plant_anothers_folder(void *context)
{
    char folder[64];
    (void)context;
    own_shm(SHM);
    folder_path(folder, sizeof folder);
    CHECK(mkdir(folder, 0700) == 0);
    CANNOT_IF(chown(folder, 65534, 65534) != 0);
    check_private();
}

static void be_somebody_else(void *context)
{
    struct lp_image image;
    (void)context;
    own_shm(SHM);
    CHECK(mkdir("/dev/shm/lineprofiler-65534", 0777) == 0); /* planted by another user, open to all */
    CHECK(chmod("/dev/shm/lineprofiler-65534", 0777) == 0);
    CANNOT_IF(setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0);
    CHECK(lp_image_create(&image, "w") == 0 && is_private(&image));
    check_usable(&image, 1 << 20);
    CHECK_U64(folder_each("/dev/shm/lineprofiler-65534", NULL, NULL), 0);
}

static void have_no_shm(void *context)
{
    (void)context;
    mounts_enter();
    mounts_tmpfs("/dev", "size=1m");
    check_private();
}

static void have_read_only_shm(void *context)
{
    (void)context;
    own_shm(SHM);
    CANNOT_IF(mount(NULL, "/dev/shm", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0);
    check_private();
}

static void have_tiny_shm(void *context)
{
    (void)context;
    own_shm("size=256k"); /* an eighth is less than the smallest image */
    check_private();
}

static void have_no_proc(void *context)
{
    (void)context;
    own_shm(SHM);
    mounts_tmpfs("/proc", "size=1m"); /* a file without a name cannot get one */
    check_private();
}

static void test_private_memory_serves_where_there_is_no_other(void **state)
{
    static const struct {
        const char *what;
        void (*body)(void *);
    } cases[] = {
        {"symlink", plant_a_symlink},
        {"file", plant_a_file},
        {"open folder", plant_an_open_folder},
        {"another's", plant_anothers_folder},
        {"no /dev/shm", have_no_shm},
        {"read-only", have_read_only_shm},
        {"tiny", have_tiny_shm},
        {"another user", be_somebody_else},
        {"no /proc", have_no_proc},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("%s\n", cases[i].what);
        in_child(cases[i].body, NULL);
    }
}

static void fill_small_shm(void *context)
{
    struct lp_image image;
    struct stat st;
    (void)context;
    own_shm("size=2m");
    CHECK(lp_image_create(&image, "w") == 0);
    CHECK(image.fd >= 0);
    lp_image_publish(&image);
    check_usable(&image, 4 << 20); /* EX07: goes on in private memory */
    uint64_t shared = atomic_load(&lp_image_header(&image)->shared);
    CHECK(shared >= 64 << 10 && shared <= 1 << 20);
    CHECK(stat(image.path, &st) == 0 && (uint64_t)st.st_size == shared);
    lp_image_destroy(&image);
}

static void test_a_full_shm_leaves_what_is_shared_and_goes_on(void **state)
{
    (void)state;
    in_child(fill_small_shm, NULL);
}

static void limit_files(void *context)
{
    struct lp_image image;
    const struct rlimit limit = {1 << 20, 1 << 20};
    (void)context;
    own_shm(SHM);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0); /* SIGXFSZ keeps its deadly default */
    CHECK(lp_image_create(&image, "w") == 0);
    CHECK(image.fd >= 0);
    check_usable(&image, 4 << 20);
    CHECK(atomic_load(&lp_image_header(&image)->shared) < 1 << 20);
    lp_image_destroy(&image);
}

static void test_a_limit_on_files_raises_no_signal(void **state)
{
    (void)state;
    in_child(limit_files, NULL);
}

static void limit_memory(void *context)
{
    struct lp_image image;
    rlim_t bytes = *(const rlim_t *)context;
    const struct rlimit limit = {bytes, bytes};
    own_shm(SHM);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(lp_image_create(&image, "w") == 0);
    CHECK(image.fd >= 0 && image.reserved <= bytes);
    check_usable(&image, 512 << 10);
    while (lp_image_alloc(&image, 4096)) /* to the end, which is no more than that */
        continue;
    CHECK(atomic_load(&lp_image_header(&image)->used) <= image.reserved);
    CHECK(lp_image_alloc(&image, SIZE_MAX / 2) == 0);
    lp_image_destroy(&image);
}

static void test_a_limit_on_memory_makes_a_smaller_image(void **state)
{
    rlim_t limits[] = {16 << 20, 64 << 20, 512 << 20};
    (void)state;
    if (LP_TEST_ASAN || LP_TEST_TSAN) {
        print_message("sanitizers take all address space\n");
        skip();
    }
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        in_child(limit_memory, &limits[i]);
}

/* What is left of the address space counts, not only the limit. */
static void have_little_left(void *context)
{
    struct lp_image image;
    struct rlimit limit = {(rlim_t)4 << 30, (rlim_t)4 << 30};
    (void)context;
    own_shm(SHM);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    size_t step = 1 << 30;
    while (step >= 8 << 20)
        if (mmap(NULL, step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
            step /= 2;
    CHECK(lp_image_create(&image, "w") == 0);
    check_usable(&image, 512 << 10);
    lp_image_destroy(&image);
}

static void test_an_almost_full_address_space_makes_a_smaller_image(void **state)
{
    (void)state;
    if (LP_TEST_ASAN || LP_TEST_TSAN) {
        print_message("sanitizers take all address space\n");
        skip();
    }
    in_child(have_little_left, NULL);
}

/* ---- a memory cgroup's limit: beyond it lies an OOM kill ------------------------- */

#define MEMORY_CGROUPS "/sys/fs/cgroup/memory"

static void grow_in_cgroup(void *context)
{
    const char *group = context;
    struct lp_image image;
    char path[128];
    own_shm("size=1g");
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CANNOT_IF(fd < 0 || write(fd, "0", 1) != 1);
    CHECK(lp_image_create(&image, "w") == 0 && image.fd >= 0);
    size_t handed_out = 0;
    for (int i = 0; i < 5000; i++) { /* more than 300 MB are asked for, and what there is is used */
        lp_ref ref = lp_image_alloc(&image, 64 << 10);
        if (ref)
            memset(lp_image_at(&image, ref), 1, 64 << 10);
        handed_out += ref ? 64 << 10 : 0;
    }
    uint64_t shared = atomic_load(&lp_image_header(&image)->shared);
    CHECK(shared > 1 << 20 && handed_out > 1 << 20 && handed_out < 32 << 20);
    CHECK(lp_image_alloc(&image, 64 << 10) == 0);
    lp_image_destroy(&image);
}

static void test_a_cgroups_limit_is_kept_away_from(void **state)
{
    char group[96], path[128];
    (void)state;
    if (LP_TEST_ASAN || LP_TEST_TSAN) {
        print_message("sanitizers take more memory than the group has\n");
        skip();
    }
    snprintf(group, sizeof group, "%s/lp-test-%d", MEMORY_CGROUPS, (int)getpid());
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", group);
    if (mkdir(group, 0755) != 0) {
        print_message("no memory cgroup (version 1) can be made: %s\n", strerror(errno));
        skip();
    }
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool limited = fd >= 0 && write(fd, "32M", 3) == 3;
    if (fd >= 0)
        close(fd);
    int status = limited ? run_child(grow_in_cgroup, group) : CANNOT << 8;
    WAIT_UNTIL(rmdir(group) == 0 || errno == ENOENT);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
        skip();
    assert_int_equal(status, 0);
}

/* ---- signals, forks ------------------------------------------------------------- */

static volatile sig_atomic_t ticks;

static void tick(int number)
{
    (void)number;
    ticks++;
}

/* A sampling profiler's timer must not cost the image its shared memory: allocation in tmpfs is interrupted. */
static void grow_under_a_timer(void *context)
{
    struct lp_image image;
    struct sigaction action = {.sa_handler = tick};
    const struct itimerval timer = {{0, 200}, {0, 200}};
    (void)context;
    own_shm("size=1g");
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(lp_image_create(&image, "w") == 0 && image.fd >= 0);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    check_usable(&image, 16 << 20);
    CHECK(ticks > 0);
    CHECK_U64(atomic_load(&lp_image_header(&image)->shared), atomic_load(&image.size));
    lp_image_destroy(&image);
}

static void test_signals_do_not_end_sharing(void **state)
{
    (void)state;
    in_child(grow_under_a_timer, NULL);
}

static void forget_in_child(void *context)
{
    struct lp_image *image = context;
    int fd = image->fd;
    lp_image_forget(image);
    CHECK(image->fd == -1 && image->path[0] == '\0' && fcntl(fd, F_GETFD) < 0);
    CHECK_U64(lp_image_header(image)->version, 0);
    memset(image->base, 0xff, atomic_load(&image->size));
    lp_image_destroy(image);
    CHECK(lp_image_create(image, "child") == 0);
    lp_image_publish(image);
    CHECK(image->fd >= 0);
    lp_image_destroy(image);
}

static void fork_with_an_image(void *context)
{
    struct lp_image image;
    (void)context;
    own_shm(SHM);
    CHECK(lp_image_create(&image, "parent") == 0);
    lp_image_publish(&image);
    lp_ref ref = lp_image_alloc(&image, 256 << 10);
    memset(lp_image_at(&image, ref), 'p', 256 << 10);
    if (!LP_TEST_TSAN) /* which sees no difference between ours and another thread's */
        CHECK(pthread_mutex_lock(&image.grow_lock) == 0);
    CHECK(run_child(forget_in_child, &image) == 0);
    if (!LP_TEST_TSAN)
        CHECK(pthread_mutex_unlock(&image.grow_lock) == 0);
    CHECK_U64(lp_image_header(&image)->version, LP_IMAGE_VERSION);
    for (size_t i = 0; i < 256 << 10; i++)
        CHECK(((char *)lp_image_at(&image, ref))[i] == 'p');
    CHECK(access(image.path, R_OK) == 0);
    lp_image_destroy(&image);
}

static void test_a_child_that_forgets_reaches_nothing_of_its_parents(void **state)
{
    (void)state;
    in_child(fork_with_an_image, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_that_only_the_user_can_read),
        cmocka_unit_test(test_it_grows_without_moving),
        cmocka_unit_test(test_threads_get_lines_of_their_own),
        cmocka_unit_test(test_the_longest_run_id_has_shared_memory_too),
        cmocka_unit_test(test_memory_outlives_the_file),
        cmocka_unit_test(test_a_reused_descriptor_is_left_alone),
        cmocka_unit_test(test_private_memory_serves_where_there_is_no_other),
        cmocka_unit_test(test_a_full_shm_leaves_what_is_shared_and_goes_on),
        cmocka_unit_test(test_a_limit_on_files_raises_no_signal),
        cmocka_unit_test(test_a_limit_on_memory_makes_a_smaller_image),
        cmocka_unit_test(test_an_almost_full_address_space_makes_a_smaller_image),
        cmocka_unit_test(test_a_cgroups_limit_is_kept_away_from),
        cmocka_unit_test(test_signals_do_not_end_sharing),
        cmocka_unit_test(test_a_child_that_forgets_reaches_nothing_of_its_parents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
