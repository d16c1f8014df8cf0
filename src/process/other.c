#include "process/other.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/small_file.h"
#include "process/identity.h"

/* What we need of a stat file. */
struct stat_line {
    char state;
    uint64_t parent;
    unsigned long threads;
    uint64_t start_ticks; /* field 22 */
};

/* The text after so many blanks; NULL if there are fewer. */
static const char *skip_fields(const char *text, int n)
{
    while (text && n-- > 0 && (text = strchr(text, ' ')))
        text++;
    return text;
}

/* False if it cannot be read; errno says why. */
static bool read_stat(const char *path, struct stat_line *line)
{
    char text[1024];
    if (lp_small_file_read(path, text, sizeof text) <= 0)
        return false;
    errno = EINVAL;
    const char *state = skip_fields(strrchr(text, ')'), 1); /* the command before it may hold anything */
    const char *threads = skip_fields(state, 17), *start_ticks = skip_fields(threads, 2);
    if (!start_ticks)
        return false;
    line->state = *state;
    line->parent = strtoull(skip_fields(state, 1), NULL, 10);
    line->threads = strtoul(threads, NULL, 10);
    line->start_ticks = strtoull(start_ticks, NULL, 10);
    return true;
}

/* When a process began is told by the clocks of whoever asks: in another time namespace it began at another time. */
static bool shares_clocks(uint64_t pid)
{
    char path[64];
    struct stat ours, theirs;
    snprintf(path, sizeof path, "/proc/%llu/ns/time", (unsigned long long)pid);
    return stat("/proc/thread-self/ns/time", &ours) != 0 || stat(path, &theirs) != 0 || ours.st_ino == theirs.st_ino;
}

enum lp_process_state lp_process_lives_stopped(const struct lp_process_ref *process, bool *stopped)
{
    char path[64];
    struct stat_line line;
    *stopped = false;
    if (process->pid_namespace == 0 || process->pid_namespace != lp_pid_namespace() || process->start_ticks == 0)
        return LP_PROCESS_UNKNOWN;
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)process->pid);
    if (!read_stat(path, &line))
        return errno == ENOENT || errno == ESRCH ? LP_PROCESS_GONE : LP_PROCESS_UNKNOWN;
    /* A main thread that ended alone looks like a zombie too. */
    bool ended = line.state == 'X' || (line.state == 'Z' && line.threads <= 1);
    if (line.start_ticks != process->start_ticks)
        return shares_clocks(process->pid) ? LP_PROCESS_GONE : LP_PROCESS_UNKNOWN;
    *stopped = line.state == 'T' || line.state == 't';
    return ended ? LP_PROCESS_GONE : LP_PROCESS_LIVES;
}

enum lp_process_state lp_process_lives(const struct lp_process_ref *process)
{
    bool stopped;
    return lp_process_lives_stopped(process, &stopped);
}

bool lp_process_parent(uint64_t pid, uint64_t *parent, uint64_t *start_ticks)
{
    char path[64];
    struct stat_line line;
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    if (!read_stat(path, &line))
        return false;
    *parent = line.parent;
    *start_ticks = line.start_ticks;
    return true;
}

bool lp_thread_cpu_read(uint64_t pid, uint64_t tid, uint64_t *cpu_ns)
{
    char path[96], text[96], *end;
    snprintf(path, sizeof path, "/proc/%llu/task/%llu/schedstat", (unsigned long long)pid, (unsigned long long)tid);
    if (lp_small_file_read(path, text, sizeof text) <= 0)
        return false;
    *cpu_ns = strtoull(text, &end, 10); /* the first of three figures; all are 0 where the kernel does not count */
    return end != text && *cpu_ns > 0;
}

/* "from-to perms offset major:minor inode path": whether the line is of that file. */
static bool is_mapping_of(const char *line, dev_t device, ino_t inode)
{
    char *end;
    const char *numbers = skip_fields(line, 3);
    if (!numbers || strtoul(numbers, &end, 16) != major(device) || *end != ':' ||
        strtoul(end + 1, &end, 16) != minor(device))
        return false;
    return strtoull(end, NULL, 10) == inode;
}

enum lp_process_maps lp_process_maps_file(uint64_t pid, dev_t device, ino_t inode)
{
    char path[64], *line = NULL;
    size_t room = 0;
    enum lp_process_maps maps = LP_MAPS_NOT;
    snprintf(path, sizeof path, "/proc/%llu/maps", (unsigned long long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return LP_MAPS_UNKNOWN;
    size_t lines = 0;
    for (; maps == LP_MAPS_NOT && getline(&line, &room, file) > 0; lines++)
        if (is_mapping_of(line, device, inode))
            maps = LP_MAPS_IT;
    if (ferror(file) || lines == 0) /* it is hidden, or ends just now */
        maps = LP_MAPS_UNKNOWN;
    free(line);
    fclose(file);
    return maps;
}

bool lp_process_end_of_child(uint64_t pid, int *status)
{
    siginfo_t info = {0};
    if (pid > INT32_MAX || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return false;
    bool exited = info.si_code == CLD_EXITED;
    *status = exited ? W_EXITCODE(info.si_status & 0xff, 0) : W_EXITCODE(0, info.si_status & 0x7f);
    return true;
}

/* include/uapi/linux/pidfd.h of Linux 6.15; libc's may be older. */
struct pidfd_info_v0 {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
    int32_t exit_code;
};
#define PIDFD_GET_INFO_V0 _IOWR(0xFF, 11, struct pidfd_info_v0)
#define PIDFD_INFO_EXIT_BIT 8u

bool lp_process_has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 || errno != ECHILD;
}

/* An older kernel takes the request and never answers. */
bool lp_process_can_watch(void)
{
    struct utsname kernel;
    char *end;
    if (uname(&kernel) != 0)
        return false;
    unsigned long version = strtoul(kernel.release, &end, 10);
    return version > 6 || (version == 6 && *end == '.' && strtoul(end + 1, NULL, 10) >= 15);
}

bool lp_process_watch(struct lp_process_watch *watch, uint64_t pid)
{
    struct stat st;
    if (pid > INT32_MAX)
        return false;
    watch->fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (watch->fd < 0)
        return false;
    if (fstat(watch->fd, &st) != 0) {
        close(watch->fd);
        return false;
    }
    watch->pid = pid;
    watch->inode = st.st_ino;
    watch->device = st.st_dev;
    return true;
}

static bool is_still_open(const struct lp_process_watch *watch)
{
    struct stat st;
    return fstat(watch->fd, &st) == 0 && st.st_ino == watch->inode && st.st_dev == watch->device;
}

enum lp_process_end lp_process_watched_end(const struct lp_process_watch *watch, int *status)
{
    struct pollfd ends = {.fd = watch->fd, .events = POLLIN};
    struct pidfd_info_v0 info = {.mask = PIDFD_INFO_EXIT_BIT};
    if (!is_still_open(watch))
        return LP_END_UNKNOWN;
    if (poll(&ends, 1, 0) == 0)
        return LP_END_NOT_YET;
    if (ioctl(watch->fd, PIDFD_GET_INFO_V0, &info) != 0)
        return LP_END_UNKNOWN;
    if (!(info.mask & PIDFD_INFO_EXIT_BIT)) /* nobody has waited for it yet */
        return lp_process_end_of_child(watch->pid, status) ? LP_END_TOLD : LP_END_NOT_YET;
    *status = info.exit_code;
    return LP_END_TOLD;
}

void lp_process_unwatch(const struct lp_process_watch *watch)
{
    if (is_still_open(watch))
        close(watch->fd);
}
