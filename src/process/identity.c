#include "process/identity.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/small_file.h"
#include "process/other.h"

uint64_t lp_pid_namespace(void)
{
    struct stat st;
    return stat("/proc/thread-self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* A line "boottime   3600   0" of timens_offsets: seconds and nanoseconds. */
static bool offset_of(const char *text, const char *clock, uint64_t *ns)
{
    char *end;
    const char *line = strstr(text, clock);
    if (!line)
        return false;
    *ns = (uint64_t)strtoll(line + strlen(clock), &end, 10) * 1000000000u;
    *ns += (uint64_t)strtoll(end, &end, 10);
    return *end == '\n';
}

/* That file has the offsets of the namespace that children will be in. It is of the process's first thread only, which may
   have ended. */
static bool read_offsets(uint64_t inode, uint64_t *monotonic_ns, uint64_t *boottime_ns)
{
    char text[256];
    struct stat of_children;
    return stat("/proc/self/ns/time_for_children", &of_children) == 0 && of_children.st_ino == inode &&
           lp_small_file_read("/proc/self/timens_offsets", text, sizeof text) > 0 &&
           offset_of(text, "monotonic", monotonic_ns) && offset_of(text, "boottime", boottime_ns);
}

uint64_t lp_time_namespace(void)
{
    const uint64_t of_the_machine = 0xEFFFFFFA; /* PROC_TIME_INIT_INO of linux/proc_ns.h */
    const uint64_t multiplier = 0xff51afd7ed558ccdu, mark = (uint64_t)1 << 62; /* which no inode has */
    uint64_t monotonic_ns, boottime_ns;
    struct stat st;
    if (stat("/proc/thread-self/ns/time", &st) != 0 || st.st_ino == of_the_machine)
        return 0;
    if (!read_offsets(st.st_ino, &monotonic_ns, &boottime_ns))
        return st.st_ino;
    if (monotonic_ns == 0 && boottime_ns == 0)
        return 0;
    uint64_t mixed = (monotonic_ns * multiplier ^ (boottime_ns + 1)) * multiplier;
    return (mixed ^ mixed >> 32) % mark | mark;
}

void lp_boot_id_read(char *boot_id, size_t size)
{
    lp_small_file_read("/proc/sys/kernel/random/boot_id", boot_id, size);
    boot_id[strcspn(boot_id, "\n")] = '\0';
}

/* Keeps at most so many arguments, each cut at so many bytes; reads no more of a huge command line than that needs. */
static void read_command(struct lp_identity *identity)
{
    int fd = open("/proc/thread-self/cmdline", O_RDONLY | O_CLOEXEC);
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
    identity->time_namespace = lp_time_namespace();
    if (gethostname(identity->host, sizeof identity->host - 1) != 0 || !identity->host[0])
        snprintf(identity->host, sizeof identity->host, "unknown");
    lp_process_parent((uint64_t)identity->pid, &parent, &identity->process_start_ticks);
    lp_boot_id_read(identity->boot_id, sizeof identity->boot_id);
    lp_launch_read(&identity->launch);
    read_command(identity);
}
