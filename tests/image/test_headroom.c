/* What is left for an image, as the file system, the memory cgroup (both versions) and the limits of the process say. */
#include "support/support.h"

#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statfs.h>

#include "image/headroom.h"

#define MIB ((uint64_t)1 << 20)

/* A /dev/shm of one's own, and cgroups that are files like any others; text is what /proc/self/cgroup says. */
static int own_machine(const char *shm_options, const char *text)
{
    mounts_enter();
    mounts_tmpfs("/dev/shm", shm_options);
    mounts_tmpfs("/sys/fs/cgroup", "size=1m");
    int fd = open("/dev/shm/cgroup", O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    CANNOT_IF(mount("/dev/shm/cgroup", "/proc/self/cgroup", NULL, MS_BIND, NULL) != 0);
    fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
    CHECK(fd >= 0);
    return fd;
}

static void put(const char *folder, const char *file, const char *text)
{
    char path[256];
    for (size_t len = 1; len <= strlen(folder); len++) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%.*s", (int)len, folder);
        if (folder[len] == '/' || folder[len] == '\0')
            mkdir(path, 0700);
    }
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void by_file_system(void *context)
{
    (void)context;
    int fd = own_machine("size=8m", "0::/\n");
    uint64_t room = lp_headroom_shared(fd, 0);
    CHECK(room > MIB - 64 * 1024 && room <= MIB);
    CHECK(fallocate(fd, 0, 0, 4 << 20) == 0);
    room = lp_headroom_shared(fd, 4 << 20);
    CHECK(room > MIB / 2 - 64 * 1024 && room <= MIB / 2);
}

static void by_nothing(void *context)
{
    (void)context;
    CHECK_U64(lp_headroom_shared(own_machine("size=0", "0::/\n"), 0), UINT64_MAX);
    CHECK_U64(lp_headroom_private(), UINT64_MAX);
}

static void by_cgroup_v2(void *context)
{
    (void)context;
    int fd = own_machine("size=0", "1:name=systemd:/elsewhere\n0::/a/b\n");
    put("/a", "memory.max", "max\n");
    put("/a", "memory.current", "1048576\n");
    put("/a/b", "memory.max", "67108864\n");
    put("/a/b", "memory.current", "50331648\n");
    put("/a/b", "memory.stat", "anon 1\nfile 33554432\ninactive_anon 3\ninactive_file 4194304\nactive_file 12582912\n");
    CHECK_U64(lp_headroom_shared(fd, 0), 4 * MIB); /* (64 - (48 - 4 - 12)) / 8 */
    CHECK_U64(lp_headroom_private(), 4 * MIB);
    put("/a", "memory.max", "9437184\n");
    CHECK_U64(lp_headroom_shared(fd, 0), MIB); /* any ancestor's limit counts */
    put("/a", "memory.current", "9437185\n");
    CHECK_U64(lp_headroom_shared(fd, 0), 0);
    put("/a", "memory.max", "many\n");
    CHECK_U64(lp_headroom_shared(fd, 0), 4 * MIB);
    put("", "memory.max", "16777216\n"); /* as inside a container */
    put("", "memory.current", "8388608\n");
    CHECK_U64(lp_headroom_shared(fd, 0), MIB);
}

static void by_cgroup_v1(void *context)
{
    const char *line = context;
    int fd = own_machine("size=0", line);
    put("/memory/pods:cri:x", "memory.limit_in_bytes", "33554432\n");
    put("/memory/pods:cri:x", "memory.usage_in_bytes", "25165824\n");
    put("/memory/pods:cri:x", "memory.stat",
        "cache 5\ninactive_file 1\ntotal_active_file 4194304\ntotal_inactive_file 4194304\n");
    CHECK_U64(lp_headroom_shared(fd, 0), 2 * MIB);
    CHECK_U64(lp_headroom_private(), 2 * MIB);
    put("/memory", "memory.limit_in_bytes", "9223372036854771712\n"); /* v1 says "none" so */
    put("/memory", "memory.usage_in_bytes", "25165824\n");
    CHECK_U64(lp_headroom_shared(fd, 0), 2 * MIB);
}

static void by_file_limit(void *context)
{
    const struct rlimit limit = {2 * MIB, 2 * MIB};
    (void)context;
    int fd = own_machine("size=0", "");
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK_U64(lp_headroom_shared(fd, 0), MIB / 4);
    CHECK_U64(lp_headroom_shared(fd, MIB), MIB / 8);
    CHECK_U64(lp_headroom_shared(fd, 2 * MIB), 0);
    CHECK_U64(lp_headroom_shared(fd, 3 * MIB), 0);
}

static void test_the_least_of_all_that_limits(void **state)
{
    (void)state;
    in_child(by_file_system, NULL);
    in_child(by_nothing, NULL);
    in_child(by_cgroup_v2, NULL);
    in_child(by_cgroup_v1, "4:memory:/pods:cri:x\n0::/\n");
    in_child(by_cgroup_v1, "3:cpu,cpuacct:/\n4:hugetlb,memory:/pods:cri:x\n");
    in_child(by_file_limit, NULL);
}

static void limit_address_space(void *context)
{
    const struct rlimit limit = {800 * MIB, 800 * MIB};
    (void)context;
    CHECK_U64(lp_headroom_address_space(), UINT64_MAX);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK_U64(lp_headroom_address_space(), 100 * MIB);
}

static void test_an_eighth_of_the_address_space(void **state)
{
    (void)state;
    if (LP_TEST_ASAN || LP_TEST_TSAN) {
        print_message("sanitizers take all address space\n");
        skip();
    }
    in_child(limit_address_space, NULL);
}

static void test_no_file_no_room(void **state)
{
    (void)state;
    assert_int_equal(lp_headroom_shared(-1, 0), 0);
}

/* A store into it may wait for the disk, or be a SIGBUS. */
static void test_a_file_on_a_disk_is_no_memory(void **state)
{
    struct statfs fs;
    (void)state;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    if (fstatfs(fd, &fs) != 0 || fs.f_type == TMPFS_MAGIC) {
        print_message("this program is not on a disk\n");
        close(fd);
        skip();
    }
    assert_int_equal(lp_headroom_shared(fd, 0), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_least_of_all_that_limits),
        cmocka_unit_test(test_an_eighth_of_the_address_space),
        cmocka_unit_test(test_no_file_no_room),
        cmocka_unit_test(test_a_file_on_a_disk_is_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
