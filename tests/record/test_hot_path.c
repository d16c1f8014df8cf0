/* B5: recording takes no lock and makes no system call but, once a millisecond, a real reading of the CPU clock; with a
   proven token. A seccomp filter traps every other system call; clock readings pass through a clock_gettime of our own,
   which counts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "record/record.h"

#define ENTRIES 300000

static volatile sig_atomic_t cpu_readings, other_calls, last_other;
static int (*libc_clock_gettime)(clockid_t clock, struct timespec *now);

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!libc_clock_gettime) /* dlsym returns functions as objects: POSIX's own way round */
        *(void **)(void *)&libc_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    if (clock == CLOCK_THREAD_CPUTIME_ID)
        cpu_readings = cpu_readings + 1;
    return libc_clock_gettime(clock, now);
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    other_calls = other_calls + 1;
    last_other = info->si_syscall;
}

/* Traps all but clock readings and what this test itself needs afterwards. */
static int trap_system_calls(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrusage, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static struct lp_recorder recorder;

static int begin(void *context)
{
    (void)context;
    lp_recorder_start(&recorder);
    return 0;
}

static void record(lp_name_id outer, lp_name_id inner, lp_name_id counter, int entries)
{
    struct lp_entry outside, inside;
    for (int i = 0; i < entries; i++) {
        lp_record_enter(&recorder, outer, &outside);
        lp_record_enter(&recorder, inner, &inside);
        lp_record_count(&recorder, counter, i);
        lp_record_leave(&inside);
        lp_record_leave(&outside);
    }
}

enum verdict { FINE, NO_TOKEN = 40, NO_FILTER, TOO_MANY_READINGS, OTHER_CALL, LOST };

static uint64_t switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw);
}

static enum verdict judge(uint64_t took_ns, uint64_t switched)
{
    char line[128];
    int len =
        snprintf(line, sizeof line, "%d CPU clock readings in %llu us with %llu switches, %d other calls (last: %d)\n",
                 (int)cpu_readings, (unsigned long long)(took_ns / 1000), (unsigned long long)switched,
                 (int)other_calls, (int)last_other);
    if (len > 0 && write(STDERR_FILENO, line, (size_t)len) < 0)
        return LOST;
    if (other_calls > 0)
        return OTHER_CALL;
    /* The first, one a millisecond, and one after each switch, which may itself meet another; each is repeated where an
       interrupt fell into it. */
    uint64_t due = 1 + took_ns / LP_CPU_RESYNC_NS + 2 * switched;
    return (uint64_t)cpu_readings <= LP_CPU_RESYNC_TRIES * due ? FINE : TOO_MANY_READINGS;
}

static enum verdict child(void)
{
    const struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    const struct lp_recorder_hooks hooks = {.begin = begin};
    sigaction(SIGSYS, &action, NULL);
    if (lp_recorder_init(&recorder, &hooks, true, false) != 0 || lp_image_create(&recorder.image, "w_hot_path") != 0)
        return LOST;
    lp_cpu_prove();
    if (lp_cpu_mode() != LP_CPU_TOKEN || lp_wall_source() != LP_WALL_TSC)
        return NO_TOKEN;
    lp_name_id outer = lp_name_intern("outer", 5), inner = lp_name_intern("inner", 5), n = lp_name_intern("n", 1);
    uint64_t start_ns = lp_wall_ns();
    do /* until paths, octaves and the clock's pieces are there: what is measured after this is the steady state */
        record(outer, inner, n, 1000);
    while (lp_wall_ns() - start_ns < 50000000);
    if (trap_system_calls() != 0)
        return NO_FILTER;
    cpu_readings = 0;
    uint64_t switched = switches();
    start_ns = lp_wall_ns();
    record(outer, inner, n, ENTRIES);
    uint64_t took_ns = lp_wall_ns() - start_ns;
    return judge(took_ns, switches() - switched);
}

static void test_no_lock_and_no_system_call_B5(void **state)
{
    (void)state;
    int status;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("skipped: a sanitizer makes system calls of its own\n");
    skip();
#endif
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(child());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_TOKEN || WEXITSTATUS(status) == NO_FILTER) {
        print_message("skipped: %s\n", WEXITSTATUS(status) == NO_TOKEN ? "this kernel's token or TSC is not to be had"
                                                                       : "seccomp filters are not allowed");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), FINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_lock_and_no_system_call_B5)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
