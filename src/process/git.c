#include "process/git.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (64u << 10)
#define LOOK_MS 5 /* between two looks at the clock */
#define REAP_NS 100000000u
#define CPU_SECONDS 60
#define NICE 10
#define MOST_DESCRIPTORS (1u << 20)

/* In the process between. The first two descriptors that it makes after it has closed all others. */
enum { READ_END = 3, WRITE_END = 4 };

/* ThreadSanitizer's account of a thread does not survive a child that shares its memory: later locks order nothing. */
#if defined(__SANITIZE_THREAD__)
#define CAN_BE_RUN false
#else
#define CAN_BE_RUN true
#endif

#if defined(__clang__) || defined(__GNUC__)
#define RUNS_ON_A_BORROWED_STACK __attribute__((no_sanitize("address"), no_sanitize("thread")))
#else
#define RUNS_ON_A_BORROWED_STACK
#endif

/* One run, in memory that both processes see. */
struct run {
    const char *git;
    char *arguments[LP_GIT_ARGUMENTS];
    char *environment[13];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    const _Atomic uint64_t *until_ns;
    struct lp_git_output *output;
    bool succeeded;
    char bytes[8192];
    _Alignas(16) char stack[STACK_BYTES];
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- in the process between: no memory is allocated and no lock taken, it may be killed at any moment -------------- */

static void close_all(void)
{
    struct rlimit limit;
    if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0)
        return;
    rlim_t n =
        getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < MOST_DESCRIPTORS ? limit.rlim_cur : MOST_DESCRIPTORS;
    for (unsigned fd = 3; fd < n; fd++)
        close((int)fd);
}

static bool set_up(void)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    const struct rlimit none = {0}, seconds = {CPU_SECONDS, CPU_SECONDS};
    int ends[2];
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    syscall(SYS_prctl, PR_SET_NAME, "lp-git", 0, 0, 0); /* not prctl(): a sanitizer's takes a lock to note the name */
    sigaction(SIGCHLD, &usual, NULL);                   /* one that is ignored leaves nothing to wait for */
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        return false;
    close_all();
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_CPU, &seconds);
    setpriority(PRIO_PROCESS, 0, NICE);
    return pipe2(ends, O_CLOEXEC) == 0 && ends[0] == READ_END && ends[1] == WRITE_END;
}

static void take(struct lp_git_output *output, const char *bytes, size_t len)
{
    size_t room = output->bytes < sizeof output->begin - 1 ? sizeof output->begin - 1 - (size_t)output->bytes : 0;
    memcpy(output->begin + sizeof output->begin - 1 - room, bytes, len < room ? len : room);
    output->bytes += len;
    lp_sha256_add(&output->hash, bytes, len);
}

/* True at the end of the output, false if it does not come in time. */
static bool take_all(struct run *run)
{
    struct pollfd output = {.fd = READ_END, .events = POLLIN};
    while (now_ns() < atomic_load(run->until_ns)) {
        if (poll(&output, 1, LOOK_MS) <= 0)
            continue;
        ssize_t n = read(READ_END, run->bytes, sizeof run->bytes);
        if (n <= 0)
            return n == 0;
        take(run->output, run->bytes, (size_t)n);
    }
    return false;
}

/* True once it has ended, its status then being told. */
static bool ended_before(pid_t pid, int *status, uint64_t until_ns)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    while (waitpid(pid, status, WNOHANG) == 0) {
        if (now_ns() >= until_ns)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

RUNS_ON_A_BORROWED_STACK static int in_between(void *context)
{
    struct run *run = context;
    pid_t pid;
    int status = -1;
    if (set_up() &&
        posix_spawn(&pid, run->git, &run->actions, &run->attributes, run->arguments, run->environment) == 0) {
        close(WRITE_END);
        bool whole = take_all(run);
        run->succeeded = whole && ended_before(pid, &status, atomic_load(run->until_ns)) && WIFEXITED(status) &&
                         WEXITSTATUS(status) == 0;
        if (status == -1) {
            kill(-pid, SIGKILL); /* it leads a session: what it has started goes too */
            ended_before(pid, &status, now_ns() + REAP_NS);
        }
    }
    syscall(SYS_exit_group, 0);
    return 0;
}

/* ---- on the thread that runs it ------------------------------------------------------------------------------------ */

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The first git on the path. One that depends on the working directory is passed over. */
static bool find_git(char *git, size_t size, const char *path)
{
    for (const char *at = path ? path : "/usr/local/bin:/usr/bin:/bin"; *at;) {
        size_t len = strcspn(at, ":");
        if (*at == '/' && snprintf(git, size, "%.*s/git", (int)len, at) < (int)size && is_program(git))
            return true;
        at += len + (at[len] == ':');
    }
    return false;
}

/* "NAME=value", to be freed. */
static void add_variable(struct run *run, size_t *n, const char *name, const char *value)
{
    char *text;
    if (value && asprintf(&text, "%s=%s", name, value) > 0)
        run->environment[(*n)++] = text;
}

/* Where the folder holds no repository that git takes for one, it is not to answer of one further up. */
static void add_ceiling(struct run *run, size_t *n, const char *folder)
{
    char ceiling[PATH_MAX];
    const char *slash = strrchr(folder, '/');
    if (!slash || snprintf(ceiling, sizeof ceiling, "%.*s", (int)(slash - folder), folder) >= (int)sizeof ceiling)
        return;
    add_variable(run, n, "GIT_CEILING_DIRECTORIES", *ceiling ? ceiling : "/");
}

static void make_environment(struct run *run, const char *folder, const struct lp_git_environment *given)
{
    size_t n = 0;
    add_variable(run, &n, "PATH", given->path);
    add_variable(run, &n, "HOME", given->home);
    add_variable(run, &n, "XDG_CONFIG_HOME", given->config_home);
    add_variable(run, &n, "LD_LIBRARY_PATH", given->library_path);
    add_variable(run, &n, "LC_ALL", "C");
    add_variable(run, &n, "GIT_OPTIONAL_LOCKS", "0");
    add_variable(run, &n, "GIT_TERMINAL_PROMPT", "0");
    add_variable(run, &n, "GIT_PAGER", "cat");
    add_variable(run, &n, "GIT_LFS_SKIP_SMUDGE", "1");
    add_variable(run, &n, "GIT_ALLOW_PROTOCOL", ""); /* none: a partial clone would fetch what it lacks */
    add_ceiling(run, &n, folder);
}

static bool make_arguments(struct run *run, const char *folder, const char *const *arguments)
{
    const char *const before[] = {"git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
                                  "-C",  folder};
    size_t n = 0;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        run->arguments[n++] = (char *)(uintptr_t)before[i];
    for (; *arguments && n < LP_GIT_ARGUMENTS - 1; arguments++)
        run->arguments[n++] = (char *)(uintptr_t)*arguments;
    return *arguments == NULL;
}

/* Not reported to anybody but who asks for just such children. */
static void wait_for(pid_t pid)
{
    while (waitpid(pid, NULL, (int)__WCLONE) < 0 && errno == EINTR)
        continue;
}

static void run_it(struct run *run)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_adddup2(&run->actions, WRITE_END, STDOUT_FILENO);
    posix_spawnattr_setsigdefault(&run->attributes, &all);
    posix_spawnattr_setsigmask(&run->attributes, &none);
    posix_spawnattr_setflags(&run->attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    pid_t pid = clone(in_between, run->stack + sizeof run->stack, CLONE_VM | CLONE_VFORK, run);
    if (pid > 0)
        wait_for(pid);
}

bool lp_git_run(struct lp_git_output *output, const char *folder, const char *const *arguments,
                const struct lp_git_environment *environment, const _Atomic uint64_t *until_ns)
{
    char git[PATH_MAX];
    struct run *run = calloc(1, sizeof *run);
    *output = (struct lp_git_output){0};
    lp_sha256_init(&output->hash);
    if (!CAN_BE_RUN || !run || now_ns() >= atomic_load(until_ns) || !find_git(git, sizeof git, environment->path) ||
        !make_arguments(run, folder, arguments)) {
        free(run);
        return false;
    }
    run->git = git;
    run->until_ns = until_ns;
    run->output = output;
    make_environment(run, folder, environment);
    if (posix_spawn_file_actions_init(&run->actions) == 0) {
        if (posix_spawnattr_init(&run->attributes) == 0) {
            run_it(run);
            posix_spawnattr_destroy(&run->attributes);
        }
        posix_spawn_file_actions_destroy(&run->actions);
    }
    bool succeeded = run->succeeded;
    for (char **variable = run->environment; *variable; variable++)
        free(*variable);
    free(run);
    return succeeded;
}
