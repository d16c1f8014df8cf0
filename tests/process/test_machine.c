/* What the machine is, and how much of it a process may use. */
#include "support/support.h"

#include "process/machine.h"

static void be_pinned(void *context)
{
    struct lp_machine machine;
    cpu_set_t all, one;
    (void)context;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    lp_machine_read(&machine, "");
    CHECK_U64(machine.cores_usable, 1);
    CHECK(CPU_ISSET((size_t)atoi(machine.usable_list), &one) && !strpbrk(machine.usable_list, "-,"));
    CHECK_U64(machine.cores, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
}

static void test_an_affinity_mask_PR07(void **state)
{
    (void)state;
    in_child(be_pinned, NULL);
}

static void test_this_machine(void **state)
{
    (void)state;
    struct lp_machine machine;
    unsigned long long kib = 0;
    char *meminfo = file_read("/proc/meminfo", NULL), *cpuinfo = file_read("/proc/cpuinfo", NULL);
    lp_machine_read(&machine, "");
    assert_int_equal(sscanf(strstr(meminfo, "MemTotal:"), "MemTotal: %llu kB", &kib), 1);
    assert_int_equal(machine.ram_bytes, kib * 1024);
    char *status = file_read("/proc/self/status", NULL), list[300];
    snprintf(list, sizeof list, "Cpus_allowed_list:\t%s\n", machine.usable_list);
    assert_non_null(strstr(status, list));
    free(status);
    assert_true(machine.cores_usable >= 1 && machine.cores_usable <= machine.cores);
    assert_true(machine.kernel[0] >= '1' && machine.kernel[0] <= '9');
    if (machine.cpu_model[0])
        assert_non_null(strstr(cpuinfo, machine.cpu_model));
    free(meminfo);
    free(cpuinfo);
}

static void with_online(const char *text, uint64_t cores)
{
    struct lp_machine machine;
    char *root = folder_make(), path[512];
    static const char *const folders[] = {"/sys", "/sys/devices", "/sys/devices/system", "/sys/devices/system/cpu"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s", root, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/online", root);
    if (text)
        file_write(path, text, strlen(text));
    lp_machine_read(&machine, root);
    assert_int_equal(machine.cores, cores);
    assert_int_equal(machine.limits.cpu_nanocores.state, LP_LIMIT_UNKNOWN);
    folder_remove(root);
}

static void test_cores_that_are_online(void **state)
{
    (void)state;
    with_online("0\n", 1);
    with_online("0-63\n", 64);
    with_online("0-3,8,10-11\n", 7);
    with_online("", 0);
    with_online("none\n", 0);
    with_online("3-0\n", 0);
    with_online("0-\n", 0);
    with_online("0-99999999999\n", 0);
    with_online(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_affinity_mask_PR07),
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_cores_that_are_online),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
