#include "image/headroom.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/own_reads.h"
#include "base/proc_self.h"
#include "base/small_file.h"

#define SHARE 8 /* take at most one part in so many */

static ssize_t read_text(const char *path, char *text, size_t size)
{
    lp_own_reads_begin(size);
    ssize_t n = lp_small_file_read(path, text, size);
    lp_own_reads_end(size, n);
    return n;
}

/* The number that a cgroup file holds; UINT64_MAX for "max" or a file that cannot be read. */
static uint64_t read_number(const char *folder, const char *file)
{
    char path[PATH_MAX], text[64];
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path ||
        read_text(path, text, sizeof text) <= 0)
        return UINT64_MAX;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    return end == text || errno ? UINT64_MAX : value;
}

/* The number behind a key of the text; 0 if it is not there. */
static uint64_t value_of(const char *text, const char *before, const char *key)
{
    size_t before_len = strlen(before), key_len = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, before, before_len) == 0 && strncmp(line + before_len, key, key_len) == 0)
            return strtoull(line + before_len + key_len, NULL, 10);
    }
    return 0;
}

/* Page cache, which the kernel gives back before it kills. A program that reads much keeps its group at the limit by it.
   Shared memory is in neither list. */
static uint64_t reclaimable(const char *folder, const char *before_keys)
{
    char path[PATH_MAX], text[8192];
    if (snprintf(path, sizeof path, "%s/memory.stat", folder) >= (int)sizeof path ||
        read_text(path, text, sizeof text) <= 0)
        return 0;
    return value_of(text, before_keys, "inactive_file ") + value_of(text, before_keys, "active_file ");
}

static uint64_t left_in(const char *folder, const char *limit_file, const char *usage_file, const char *before_keys)
{
    uint64_t limit = read_number(folder, limit_file), usage = read_number(folder, usage_file);
    if (limit == UINT64_MAX || usage == UINT64_MAX)
        return UINT64_MAX;
    uint64_t held = reclaimable(folder, before_keys);
    usage = usage > held ? usage - held : 0;
    return limit > usage ? limit - usage : 0;
}

/* Walks from the process's own group up to the mount point: any ancestor's limit counts. */
static uint64_t left_up_from(const char *mount, const char *group, const char *limit_file, const char *usage_file,
                             const char *before_keys)
{
    char folder[PATH_MAX];
    uint64_t least = UINT64_MAX;
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder)
        return least;
    size_t top = strlen(mount);
    while (strlen(folder) >= top) {
        uint64_t left = left_in(folder, limit_file, usage_file, before_keys);
        least = left < least ? left : least;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < top)
            break;
        *slash = '\0';
    }
    return least;
}

static uint64_t left_in_cgroups(void)
{
    char text[4096], *rest = text, *line;
    uint64_t least = UINT64_MAX;
    const char *groups = lp_first_thread_has_ended() ? "/proc/thread-self/cgroup" : "/proc/self/cgroup";
    if (read_text(groups, text, sizeof text) <= 0)
        return least;
    while ((line = strsep(&rest, "\n"))) { /* number:controllers:group; a group's name may hold colons */
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        uint64_t left = UINT64_MAX;
        if (strcmp(line, "0:") == 0)
            left = left_up_from("/sys/fs/cgroup", group, "memory.max", "memory.current", "");
        else if (strstr(controllers, "memory"))
            left = left_up_from("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_");
        least = left < least ? left : least;
    }
    return least;
}

static uint64_t left_by_limit(__rlimit_resource_t resource, uint64_t used)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

static uint64_t share_of(uint64_t left)
{
    return left == UINT64_MAX ? left : left / SHARE;
}

/* A store into a file on a disk waits for the disk at times, and is a SIGBUS where a quota or a journal has no room, also
   if its block is there. */
static bool is_memory(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

uint64_t lp_headroom_shared(int fd, uint64_t file_bytes)
{
    struct statvfs fs;
    uint64_t least = left_by_limit(RLIMIT_FSIZE, file_bytes);
    if (!is_memory(fd) || fstatvfs(fd, &fs) != 0)
        return 0;
    uint64_t left =
        fs.f_blocks ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX; /* f_blocks 0: a tmpfs without limit */
    least = left < least ? left : least;
    left = left_in_cgroups();
    least = left < least ? left : least;
    return share_of(least);
}

uint64_t lp_headroom_private(void)
{
    return share_of(left_in_cgroups());
}

uint64_t lp_headroom_address_space(void)
{
    return share_of(left_by_limit(RLIMIT_AS, 0));
}
