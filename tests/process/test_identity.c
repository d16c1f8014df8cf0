/* Who a process is: what /proc says, and nothing guessed. */
#include "support/support.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "process/identity.h"
#include "process/other.h"

static void test_this_process(void **state)
{
    struct lp_identity identity;
    char host[256] = "", *boot_id = file_read("/proc/sys/kernel/random/boot_id", NULL);
    struct stat st;
    (void)state;
    lp_identity_read(&identity);
    assert_int_equal(identity.pid, getpid());
    assert_int_equal(identity.parent_pid, getppid());
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    assert_string_equal(identity.host, host);
    boot_id[strcspn(boot_id, "\n")] = '\0';
    assert_string_equal(identity.boot_id, boot_id);
    assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
    assert_int_equal(identity.pid_namespace, st.st_ino);
    free(boot_id);
}

/* ---- the command line ------------------------------------------------------------- */

static size_t arguments_of(const struct lp_identity *identity)
{
    size_t n = 0;
    for (size_t i = 0; i < identity->command_len; i += strlen(identity->command + i) + 1)
        n++;
    return n;
}

/* This program run again with arguments; it checks what it sees of itself (see main). */
static void run_again(void *context)
{
    char **arguments = context;
    execv("/proc/self/exe", arguments);
    CHECK(!"exec");
}

static void test_command_lines(void **state)
{
    char *plain[] = {"lp-self", "command", "3", "--lr=0.1", NULL};
    char *empty[] = {"lp-self", "command", "4", "", "", NULL};
    char *many[503] = {"lp-self", "command", "64"};
    char *huge[] = {"lp-self", "command", "5", NULL, "after", NULL};
    (void)state;
    in_child(run_again, plain);
    in_child(run_again, empty);
    for (int i = 3; i < 502; i++)
        many[i] = "many";
    in_child(run_again, many);
    huge[3] = malloc(100001);
    assert_non_null(huge[3]);
    memset(huge[3], 'h', 100000);
    huge[3][100000] = '\0';
    in_child(run_again, huge);
    free(huge[3]);
}

/* In the program that was run again: so many arguments are kept, each cut at its limit. */
static int check_command(int argc, char **argv)
{
    struct lp_identity identity;
    size_t expected = (size_t)argc < LP_COMMAND_ARGUMENTS ? (size_t)argc : LP_COMMAND_ARGUMENTS;
    lp_identity_read(&identity);
    CHECK_U64(arguments_of(&identity), expected);
    const char *at = identity.command;
    for (size_t i = 0; i < expected; i++, at += strlen(at) + 1) {
        size_t len = strlen(argv[i]);
        len = len < LP_COMMAND_ARGUMENT_BYTES - 1 ? len : LP_COMMAND_ARGUMENT_BYTES - 1;
        CHECK_U64(strlen(at), len);
        CHECK(memcmp(at, argv[i], len) == 0);
    }
    CHECK_U64(identity.command_len, (uint64_t)(at - identity.command));
    return 0;
}

/* ---- others: who lives -------------------------------------------------------------- */

static struct lp_process_ref ref_of_self(void)
{
    struct lp_identity identity;
    lp_identity_read(&identity);
    CHECK(identity.process_start_ticks > 0);
    return (struct lp_process_ref){(uint64_t)identity.pid, identity.pid_namespace, identity.process_start_ticks};
}

static void test_one_lives_oneself(void **state)
{
    struct lp_process_ref self = ref_of_self(), other;
    (void)state;
    assert_int_equal(lp_process_lives(&self), LP_PROCESS_LIVES);
    other = self;
    other.start_ticks++; /* PR10: another process, with our number */
    assert_int_equal(lp_process_lives(&other), LP_PROCESS_GONE);
    other = self;
    other.pid_namespace++;
    assert_int_equal(lp_process_lives(&other), LP_PROCESS_UNKNOWN);
    other.pid_namespace = 0;
    assert_int_equal(lp_process_lives(&other), LP_PROCESS_UNKNOWN);
    other = self;
    other.start_ticks = 0;
    assert_int_equal(lp_process_lives(&other), LP_PROCESS_UNKNOWN);
    other = self;
    other.pid = 0x7fffffff;
    assert_int_equal(lp_process_lives(&other), LP_PROCESS_GONE);
}

/* A child that tells who it is and then does as it is told. */
struct child {
    pid_t pid;
    int told[2], ask[2];
    struct lp_process_ref ref;
};

static void *outlive_main(void *context)
{
    const struct child *child = context;
    struct lp_process_ref self = ref_of_self();
    char byte;
    pause_ms(20);
    CHECK(write(child->told[1], &self, sizeof self) == (ssize_t)sizeof self);
    CHECK(read(child->ask[0], &byte, 1) == 1);
    _exit(0);
}

static void child_start(struct child *child, void *(*body)(void *))
{
    pthread_t thread;
    assert_int_equal(pipe(child->told), 0);
    assert_int_equal(pipe(child->ask), 0);
    fflush(NULL);
    child->pid = fork();
    if (child->pid == 0) {
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        CHECK(pthread_create(&thread, NULL, body, child) == 0);
        pthread_exit(NULL);
    }
    assert_int_equal(close(child->told[1]), 0); /* a child that fails is noticed, not waited for */
    assert_int_equal(read(child->told[0], &child->ref, sizeof child->ref), (ssize_t)sizeof child->ref);
}

/* The main thread's end makes the process look like a zombie, but its other threads live and record. */
static void test_a_process_outlives_its_main_thread(void **state)
{
    static struct child child; /* not on the stack of the thread that ends */
    char path[64];
    (void)state;
    child_start(&child, outlive_main);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child.pid);
    bool zombie_leader = false;
    for (int i = 0; i < 1000 && !zombie_leader; i++) {
        char *text = file_read(path, NULL);
        zombie_leader = text && strstr(text, ") Z ");
        free(text);
        pause_ms(1);
    }
    assert_int_equal(lp_process_lives(&child.ref), LP_PROCESS_LIVES);
    assert_int_equal(write(child.ask[1], "x", 1), 1);
    WAIT_UNTIL(lp_process_lives(&child.ref) == LP_PROCESS_GONE); /* a zombie, not yet waited for */
    assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
    assert_int_equal(lp_process_lives(&child.ref), LP_PROCESS_GONE);
}

/* A command name may hold anything, also what looks like the rest of the line. */
static void test_a_name_that_looks_like_a_stat_line(void **state)
{
    struct lp_process_ref before = ref_of_self();
    char name[16];
    (void)state;
    assert_int_equal(prctl(PR_GET_NAME, name), 0);
    assert_int_equal(prctl(PR_SET_NAME, "a) Z 1 2 3) X 4"), 0);
    struct lp_process_ref self = ref_of_self();
    assert_int_equal(self.start_ticks, before.start_ticks);
    assert_int_equal(lp_process_lives(&self), LP_PROCESS_LIVES);
    assert_int_equal(prctl(PR_SET_NAME, name), 0);
}

static void test_the_boot_id(void **state)
{
    char boot_id[40], small[5];
    (void)state;
    lp_boot_id_read(boot_id, sizeof boot_id);
    assert_int_equal(strlen(boot_id), 36);
    lp_boot_id_read(small, sizeof small);
    assert_int_equal(strlen(small), 4);
    assert_memory_equal(small, boot_id, 4);
}

static void read_without_proc(void *context)
{
    struct lp_identity identity;
    char boot_id[40];
    struct lp_process_ref self = ref_of_self();
    (void)context;
    mounts_enter();
    mounts_tmpfs("/proc", "size=1m");
    lp_identity_read(&identity);
    CHECK_U64((uint64_t)identity.pid, (uint64_t)getpid());
    CHECK_U64(identity.process_start_ticks + identity.pid_namespace + identity.command_len, 0);
    CHECK(identity.boot_id[0] == '\0' && identity.host[0] != '\0');
    lp_boot_id_read(boot_id, sizeof boot_id);
    CHECK(boot_id[0] == '\0');
    CHECK(lp_process_lives(&self) == LP_PROCESS_UNKNOWN);
}

static void test_without_proc_nothing_is_guessed(void **state)
{
    (void)state;
    in_child(read_without_proc, NULL);
}

static void test_cpu_of_a_thread_elsewhere(void **state)
{
    uint64_t cpu_ns = 0, before = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
    (void)state;
    if (!lp_thread_cpu_read((uint64_t)getpid(), (uint64_t)gettid(), &cpu_ns)) {
        print_message("this kernel keeps no schedstat\n");
        skip();
    }
    assert_true(cpu_ns <= clock_now_ns(CLOCK_THREAD_CPUTIME_ID));
    assert_true(cpu_ns + 1000000000 > before);
    assert_false(lp_thread_cpu_read((uint64_t)getpid(), 0x7fffffff, &cpu_ns));
    assert_false(lp_thread_cpu_read(0x7fffffff, 1, &cpu_ns));
}

/* A dead one counts until it is waited for, and is still there for the program to wait for. */
static void test_whether_there_are_children(void **state)
{
    int status;
    (void)state;
    assert_false(lp_process_has_children());
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(lp_process_has_children());
    assert_true(lp_process_has_children());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_false(lp_process_has_children());
}

/* ---- time namespaces -------------------------------------------------------------- */

/* What a process is told whose clocks are set off like that. */
static uint64_t told_in(const char *offsets)
{
    uint64_t *told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(told != MAP_FAILED);
    pid_t pid = fork();
    if (pid == 0) {
        CANNOT_IF(unshare(CLONE_NEWTIME) != 0);
        CHECK_U64(lp_time_namespace(), 0); /* only its children are in it */
        int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
        CANNOT_IF(fd < 0 || write(fd, offsets, strlen(offsets)) < 0);
        close(fd);
        pid_t child = fork();
        if (child == 0) {
            *told = lp_time_namespace();
            _exit(0);
        }
        CHECK(waitpid(child, NULL, 0) == child);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
        _exit(CANNOT);
    CHECK(status == 0);
    return *told;
}

/* By their offsets, whether they were there at once or one after the other: the kernel uses an inode again. */
static void look_into_others(void *context)
{
    uint64_t ahead = told_in("monotonic 1000 0\nboottime 1000 0\n");
    (void)context;
    CHECK(ahead >> 62 == 1);
    CHECK_U64(told_in("monotonic 1000 0\nboottime 1000 0\n"), ahead);
    CHECK(told_in("monotonic 1000 0\nboottime 1000 1\n") != ahead);
    CHECK(told_in("monotonic -1000 0\nboottime 1000 0\n") != ahead);
    CHECK_U64(told_in("monotonic 0 0\nboottime 0 0\n"), 0); /* the machine's clocks */
}

static void test_time_namespaces(void **state)
{
    (void)state;
    in_child(look_into_others, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_this_process),
        cmocka_unit_test(test_command_lines),
        cmocka_unit_test(test_one_lives_oneself),
        cmocka_unit_test(test_a_process_outlives_its_main_thread),
        cmocka_unit_test(test_a_name_that_looks_like_a_stat_line),
        cmocka_unit_test(test_the_boot_id),
        cmocka_unit_test(test_without_proc_nothing_is_guessed),
        cmocka_unit_test(test_cpu_of_a_thread_elsewhere),
        cmocka_unit_test(test_whether_there_are_children),
        cmocka_unit_test(test_time_namespaces),
    };
    if (argc > 1 && strcmp(argv[1], "command") == 0)
        return check_command(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
