#include "process/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Launchers in the order in which their variables count (F2). */
static const struct launcher {
    const char *name, *rank, *world_size;
} launchers[] = {
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS"},
    {"torchrun", "RANK", "WORLD_SIZE"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"pmi", "PMI_RANK", "PMI_SIZE"},
};

static const struct batch {
    const char *name, *id;
} batches[] = {
    {"slurm", "SLURM_JOB_ID"},
    {"pbs", "PBS_JOBID"},
    {"lsf", "LSB_JOBID"},
    {"flux", "FLUX_JOB_ID"},
};

static ssize_t read_file(const char *path, char *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, bytes, size);
    close(fd);
    return n;
}

/* The number that a variable holds; -1 if it is unset or anything but a plain number below 2^31. */
static int64_t number_in(const char *variable)
{
    const char *text = getenv(variable);
    if (!text || *text < '0' || *text > '9')
        return -1;
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    return *end || errno || value > INT32_MAX ? -1 : (int64_t)value;
}

static void read_launcher(struct lp_identity *identity)
{
    identity->rank = identity->world_size = -1;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        identity->rank = number_in(launchers[i].rank);
        if (identity->rank < 0)
            continue;
        identity->launcher = launchers[i].name;
        identity->world_size = number_in(launchers[i].world_size);
        if (identity->world_size == 0)
            identity->world_size = -1;
        return;
    }
}

static void read_batch(struct lp_identity *identity)
{
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const char *id = getenv(batches[i].id);
        if (!id || !*id)
            continue;
        identity->job_system = batches[i].name;
        snprintf(identity->job_id, sizeof identity->job_id, "%s", id);
        return;
    }
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

static uint64_t pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

enum lp_process_state lp_process_lives(const struct lp_process_ref *process)
{
    char path[64];
    struct stat_line line;
    if (process->pid_namespace == 0 || process->pid_namespace != pid_namespace() || process->start_ticks == 0)
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

void lp_boot_id_read(char *boot_id, size_t size)
{
    ssize_t n = read_file("/proc/sys/kernel/random/boot_id", boot_id, size - 1);
    boot_id[n > 0 ? n : 0] = '\0';
    boot_id[strcspn(boot_id, "\n")] = '\0';
}

/* Keeps at most so many arguments, each cut at so many bytes; reads no more of a huge command line than that needs. */
static void read_command(struct lp_identity *identity)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    char block[4096];
    ssize_t n;
    size_t arguments = 0, in_argument = 0;
    while (arguments < LP_COMMAND_ARGUMENTS && (n = read(fd, block, sizeof block)) > 0) {
        for (ssize_t i = 0; i < n && arguments < LP_COMMAND_ARGUMENTS; i++) {
            if (block[i] == '\0') {
                identity->command[identity->command_len++] = '\0';
                arguments++;
                in_argument = 0;
            } else if (in_argument < LP_COMMAND_ARGUMENT_BYTES - 1) {
                identity->command[identity->command_len++] = block[i];
                in_argument++;
            }
        }
    }
    close(fd);
    if (in_argument && identity->command_len < sizeof identity->command)
        identity->command[identity->command_len++] = '\0';
}

void lp_identity_read(struct lp_identity *identity)
{
    struct stat_line line;
    memset(identity, 0, sizeof *identity);
    identity->pid = getpid();
    identity->parent_pid = getppid();
    identity->pid_namespace = pid_namespace();
    if (gethostname(identity->host, sizeof identity->host - 1) != 0 || !identity->host[0])
        snprintf(identity->host, sizeof identity->host, "unknown");
    if (read_stat("/proc/self/stat", &line))
        identity->process_start_ticks = line.start_ticks;
    lp_boot_id_read(identity->boot_id, sizeof identity->boot_id);
    read_launcher(identity);
    read_batch(identity);
    read_command(identity);
}
