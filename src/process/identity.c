#include "process/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/small_file.h"
#include "process/other.h"

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

uint64_t lp_pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

void lp_boot_id_read(char *boot_id, size_t size)
{
    lp_small_file_read("/proc/sys/kernel/random/boot_id", boot_id, size);
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
    uint64_t parent;
    memset(identity, 0, sizeof *identity);
    identity->pid = getpid();
    identity->parent_pid = getppid();
    identity->pid_namespace = lp_pid_namespace();
    if (gethostname(identity->host, sizeof identity->host - 1) != 0 || !identity->host[0])
        snprintf(identity->host, sizeof identity->host, "unknown");
    lp_process_parent((uint64_t)identity->pid, &parent, &identity->process_start_ticks);
    lp_boot_id_read(identity->boot_id, sizeof identity->boot_id);
    read_launcher(identity);
    read_batch(identity);
    read_command(identity);
}
