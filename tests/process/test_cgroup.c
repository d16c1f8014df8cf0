/* Limits of control groups: laid out as files of a folder of one's own for both versions, and as real groups of version 1
   where they can be made. */
#include "support/support.h"

#include <signal.h>
#include <sys/prctl.h>

#include "process/cgroup.h"

#define GIB (UINT64_C(1) << 30)

/* Files below a root: pairs of a path and what it holds, ended by NULL. Folders are made on the way. */
static char *lay_out(const char *const *files)
{
    char *root = folder_make(), *path;
    for (; *files; files += 2) {
        assert_true(asprintf(&path, "%s%s", root, files[0]) > 0);
        for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
            *slash = '\0';
            mkdir(path, 0700);
            *slash = '/';
        }
        file_write(path, files[1], strlen(files[1]));
        free(path);
    }
    return root;
}

static struct lp_cgroup limits_of(const char *const *files)
{
    struct lp_cgroup cgroup;
    char *root = lay_out(files);
    lp_cgroup_read(&cgroup, root);
    folder_remove(root);
    return cgroup;
}
#define LIMITS(...) limits_of((const char *const[]){__VA_ARGS__, NULL})

#define V2 "/sys/fs/cgroup"
#define IS_V2 V2 "/cgroup.procs", ""
#define V1_CPU "/sys/fs/cgroup/cpu,cpuacct"
#define V1_MEMORY "/sys/fs/cgroup/memory"
#define ARE_V1 V1_CPU "/cgroup.procs", "", V1_MEMORY "/cgroup.procs", ""

static void assert_set(struct lp_limit limit, uint64_t value)
{
    assert_int_equal(limit.state, LP_LIMIT_SET);
    assert_int_equal(limit.value, value);
}

static void test_a_container_of_version_2_PR05_PR07(void **state)
{
    (void)state;
    struct lp_cgroup cgroup = LIMITS("/proc/self/cgroup", "0::/\n", IS_V2, V2 "/cpu.max", "150000 100000\n",
                                     V2 "/memory.max", "2147483648\n");
    assert_set(cgroup.cpu_nanocores, 1500000000);
    assert_set(cgroup.memory_bytes, 2 * GIB);
    cgroup = LIMITS("/proc/self/cgroup", "0::/\n", IS_V2, V2 "/cpu.max", "max 100000\n", V2 "/memory.max", "max\n");
    assert_int_equal(cgroup.cpu_nanocores.state, LP_LIMIT_NONE);
    assert_int_equal(cgroup.memory_bytes.state, LP_LIMIT_NONE);
}

static void test_the_tightest_of_all_groups_above_counts(void **state)
{
    (void)state;
    struct lp_cgroup cgroup =
        LIMITS("/proc/self/cgroup", "0::/pods/pod:7/train\n", IS_V2, V2 "/pods/cpu.max", "800000 100000\n",
               V2 "/pods/memory.max", "max\n", V2 "/pods/pod:7/cpu.max", "50000 100000\n", V2 "/pods/pod:7/memory.max",
               "3221225472\n", V2 "/pods/pod:7/train/cpu.max", "max 100000\n", V2 "/pods/pod:7/train/memory.max",
               "8589934592\n");
    assert_set(cgroup.cpu_nanocores, 500000000);
    assert_set(cgroup.memory_bytes, 3 * GIB);
}

/* The first group of a hierarchy has no limits at all, and no files for them. */
static void test_without_a_file_there_is_no_limit(void **state)
{
    (void)state;
    struct lp_cgroup cgroup = LIMITS("/proc/self/cgroup", "0::/user.slice\n", IS_V2, V2 "/user.slice/cgroup.procs", "");
    assert_int_equal(cgroup.cpu_nanocores.state, LP_LIMIT_NONE);
    assert_int_equal(cgroup.memory_bytes.state, LP_LIMIT_NONE);
}

static void test_version_1_PR05_PR07(void **state)
{
    (void)state;
    struct lp_cgroup cgroup = LIMITS("/proc/self/cgroup", "9:memory:/job\n4:cpu,cpuacct:/job\n2:cpuset:/\n0::/\n",
                                     ARE_V1, V1_CPU "/cpu.cfs_quota_us", "-1\n", V1_CPU "/cpu.cfs_period_us",
                                     "100000\n", V1_CPU "/job/cpu.cfs_quota_us", "250000\n",
                                     V1_CPU "/job/cpu.cfs_period_us", "100000\n", V1_MEMORY "/memory.limit_in_bytes",
                                     "9223372036854771712\n", V1_MEMORY "/job/memory.limit_in_bytes", "2147483648\n");
    assert_set(cgroup.cpu_nanocores, 2500000000);
    assert_set(cgroup.memory_bytes, 2 * GIB);
    cgroup = LIMITS("/proc/self/cgroup", "9:memory:/\n4:cpu,cpuacct:/\n", ARE_V1, V1_CPU "/cpu.cfs_quota_us", "-1\n",
                    V1_MEMORY "/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(cgroup.cpu_nanocores.state, LP_LIMIT_NONE);
    assert_int_equal(cgroup.memory_bytes.state, LP_LIMIT_NONE);
}

/* A container of version 1 names its group as the host does, but sees only what is its own, at the mount point. */
static void test_a_group_that_is_not_to_be_seen_is_the_mount_point(void **state)
{
    (void)state;
    struct lp_cgroup cgroup = LIMITS("/proc/self/cgroup", "9:memory:/docker/4f1c\n4:cpu,cpuacct:/docker/4f1c\n", ARE_V1,
                                     V1_CPU "/cpu.cfs_quota_us", "200000\n", V1_CPU "/cpu.cfs_period_us", "100000\n",
                                     V1_MEMORY "/memory.limit_in_bytes", "1073741824\n");
    assert_set(cgroup.cpu_nanocores, 2000000000);
    assert_set(cgroup.memory_bytes, GIB);
}

/* Version 2 beside version 1 has the controllers that version 1 does not list. */
static void test_both_versions_at_once(void **state)
{
    (void)state;
    struct lp_cgroup cgroup =
        LIMITS("/proc/self/cgroup", "4:cpu,cpuacct:/\n0::/user\n", V1_CPU "/cgroup.procs", "",
               V1_CPU "/cpu.cfs_quota_us", "-1\n", V2 "/unified/cgroup.procs", "", V2 "/unified/user/memory.max",
               "1073741824\n", V2 "/unified/user/cpu.max", "50000 100000\n");
    assert_int_equal(cgroup.cpu_nanocores.state, LP_LIMIT_NONE);
    assert_set(cgroup.memory_bytes, GIB);
}

static void test_what_cannot_be_told_is_unknown(void **state)
{
    (void)state;
    struct lp_cgroup nothing = LIMITS("/etc/hostname", "x\n");
    struct lp_cgroup no_mount = LIMITS("/proc/self/cgroup", "4:cpu:/\n0::/\n");
    struct lp_cgroup no_group = LIMITS("/proc/self/cgroup", "2:cpuset:/\n", IS_V2);
    struct lp_cgroup outside = LIMITS("/proc/self/cgroup", "0::/../../elsewhere\n", IS_V2, V2 "/cpu.max", "1 2\n");
    struct lp_cgroup nonsense =
        LIMITS("/proc/self/cgroup", "0::/\n", IS_V2, V2 "/cpu.max", "much\n", V2 "/memory.max", "\n");
    struct lp_cgroup negative =
        LIMITS("/proc/self/cgroup", "0::/\n", IS_V2, V2 "/cpu.max", "-5 100000\n", V2 "/memory.max", "-1\n");
    struct lp_cgroup no_period = LIMITS("/proc/self/cgroup", "0::/\n", IS_V2, V2 "/cpu.max", "100000 0\n",
                                        V2 "/memory.max", "99999999999999999999999999\n");
    const struct lp_cgroup all[] = {nothing, no_mount, no_group, outside, nonsense, negative, no_period};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(all[i].cpu_nanocores.state, LP_LIMIT_UNKNOWN);
        assert_int_equal(all[i].memory_bytes.state, LP_LIMIT_UNKNOWN);
    }
}

/* What one level says stands, though another is hidden; but "none" cannot be said any more. */
static void test_a_level_that_is_hidden(void **state)
{
    (void)state;
    struct lp_cgroup cgroup = LIMITS("/proc/self/cgroup", "0::/a\n", IS_V2, V2 "/cpu.max", "?\n", V2 "/a/cpu.max",
                                     "100000 100000\n", V2 "/memory.max", "?\n", V2 "/a/memory.max", "max\n");
    assert_set(cgroup.cpu_nanocores, 1000000000);
    assert_int_equal(cgroup.memory_bytes.state, LP_LIMIT_UNKNOWN);
}

static void put(const char *folder, const char *file, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CANNOT_IF(fd < 0 || write(fd, text, strlen(text)) < 0);
    close(fd);
}

static void be_limited(void *context)
{
    struct lp_cgroup cgroup;
    char pid[32];
    const char *folder = context;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    put(folder, "cpu.cfs_period_us", "100000");
    put(folder, "cpu.cfs_quota_us", "150000");
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    put(folder, "cgroup.procs", pid);
    lp_cgroup_read(&cgroup, "");
    CHECK_U64(cgroup.cpu_nanocores.state, LP_LIMIT_SET);
    CHECK_U64(cgroup.cpu_nanocores.value, 1500000000);
}

static void test_a_real_group_PR07(void **state)
{
    (void)state;
    char folder[128];
    snprintf(folder, sizeof folder, "/sys/fs/cgroup/cpu/lp-test-%d", (int)getpid());
    if (mkdir(folder, 0700) != 0)
        skip();
    int status = run_child(be_limited, folder);
    rmdir(folder);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
        skip();
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_container_of_version_2_PR05_PR07),
        cmocka_unit_test(test_the_tightest_of_all_groups_above_counts),
        cmocka_unit_test(test_without_a_file_there_is_no_limit),
        cmocka_unit_test(test_version_1_PR05_PR07),
        cmocka_unit_test(test_a_group_that_is_not_to_be_seen_is_the_mount_point),
        cmocka_unit_test(test_both_versions_at_once),
        cmocka_unit_test(test_what_cannot_be_told_is_unknown),
        cmocka_unit_test(test_a_level_that_is_hidden),
        cmocka_unit_test(test_a_real_group_PR07),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
