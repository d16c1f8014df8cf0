#include "run/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run/patient.h"

struct answer {
    int error;
    dev_t device;
    ino_t inode;
    uint64_t id;
};

/* More than stat() asks, which may be answered from what this machine remembers. */
static struct answer ask(const char *path)
{
    struct stat st;
    struct statfs system;
    char entries[4096];
    struct answer answer = {0};
    if (stat(path, &st) != 0)
        return (struct answer){.error = errno};
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fstatfs(fd, &system);
        (void)syscall(SYS_getdents64, fd, entries, sizeof entries);
        answer.id = lp_directory_id_read(fd);
        close(fd);
    }
    answer.device = st.st_dev;
    answer.inode = st.st_ino;
    return answer;
}

/* Holds nothing of the program's: others may wait for the end of its output, and of its terminal's. */
static void let_go_but(int fd)
{
    if (fd != 0)
        dup2(fd, 0);
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 1u, ~0u, 0u) == 0)
        return;
#endif
    for (int other = 1; other < 1024; other++)
        close(other);
}

/* In a forked child, which may have had threads: system calls only. */
static _Noreturn void ask_and_exit(const char *path, int to)
{
    pid_t pid = fork(); /* once more: the asker is nobody's child here */
    if (pid == 0) {
        (void)setsid();
        let_go_but(to);
        struct answer answer = ask(path);
        ssize_t n = write(0, &answer, sizeof answer);
        (void)n; /* then nobody waits any more */
    }
    _exit(pid < 0);
}

/* The end to read the answer from; -1 if nobody could be sent. */
static int send_asker(const char *path)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGPIPE, SIG_IGN);
        ask_and_exit(path, ends[1]);
    }
    close(ends[1]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0)
        return ends[0];
    close(ends[0]);
    return -1;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* False: not in time. */
static bool is_ready(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int64_t until_ms = now_ms() + LP_PATIENCE_S * 1000, left_ms;
    while ((left_ms = until_ms - now_ms()) > 0) {
        int n = poll(&one, 1, (int)left_ms);
        if (n > 0 || (n < 0 && errno != EINTR))
            return n > 0;
    }
    return false;
}

static bool is_missing(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP || error == ENAMETOOLONG;
}

enum lp_reach lp_run_reach(struct lp_run_place *place, const char *run_dir)
{
    struct answer answer;
    if (!lp_run_place_name(place, run_dir))
        return LP_REACH_MISSING;
    int from = send_asker(place->path);
    bool late = from >= 0 && !is_ready(from);
    if (!late && (from < 0 || read(from, &answer, sizeof answer) != sizeof answer))
        answer = ask(place->path);
    if (from >= 0)
        close(from);
    if (late)
        return LP_REACH_LATE;
    if (answer.error != 0)
        return is_missing(answer.error) ? LP_REACH_MISSING : LP_REACH_FAILED;
    place->device = answer.device;
    place->inode = answer.inode;
    place->id = answer.id;
    return LP_REACH_FOUND;
}
