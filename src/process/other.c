#include "process/other.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/identity.h"

static ssize_t read_file(const char *path, char *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, bytes, size);
    close(fd);
    return n;
}

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
    ssize_t n = read_file(path, text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
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

enum lp_process_state lp_process_lives(const struct lp_process_ref *process)
{
    char path[64];
    struct stat_line line;
    if (process->pid_namespace == 0 || process->pid_namespace != lp_pid_namespace() || process->start_ticks == 0)
        return LP_PROCESS_UNKNOWN;
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)process->pid);
    if (!read_stat(path, &line))
        return errno == ENOENT || errno == ESRCH ? LP_PROCESS_GONE : LP_PROCESS_UNKNOWN;
    /* A main thread that ended alone looks like a zombie too. */
    bool ended = line.state == 'X' || (line.state == 'Z' && line.threads <= 1);
    return line.start_ticks != process->start_ticks || ended ? LP_PROCESS_GONE : LP_PROCESS_LIVES;
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
    ssize_t n = read_file(path, text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    *cpu_ns = strtoull(text, &end, 10); /* the first of three figures; all are 0 where the kernel does not count */
    return end != text && *cpu_ns > 0;
}

/* "from-to perms offset major:minor inode path": whether the line is of that file. */
static bool is_mapping_of(const char *line, dev_t device, ino_t inode)
{
    unsigned major_number, minor_number;
    unsigned long long number;
    return sscanf(line, "%*s %*s %*s %x:%x %llu", &major_number, &minor_number, &number) == 3 && number == inode &&
           major_number == major(device) && minor_number == minor(device);
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
