#include "process/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc_self.h"
#include "base/small_file.h"

#define MOUNTS "/sys/fs/cgroup"
#define NO_MEMORY_LIMIT (UINT64_C(1) << 62) /* version 1 says "none" by a number a little below 2^63 */
#define NANOCORES 1000000000u

/* False if it cannot be read; errno says why. */
static bool read_text(const char *path, char *text, size_t size)
{
    ssize_t n = lp_small_file_read(path, text, size);
    if (n == 0) /* an empty file says nothing */
        errno = EINVAL;
    return n > 0;
}

/* A file of a group. */
static bool read_in(const char *folder, const char *file, char *text, size_t size)
{
    char path[PATH_MAX];
    errno = ENAMETOOLONG;
    return snprintf(path, sizeof path, "%s/%s", folder, file) < (int)sizeof path && read_text(path, text, size);
}

/* The number at *text, which then stands behind it; false if there is none. */
static bool take_number(const char **text, uint64_t *value)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *value = strtoull(*text, &end, 10);
    *text = end + (*end == ' ');
    return errno == 0;
}

static struct lp_limit is_set(uint64_t value)
{
    return (struct lp_limit){LP_LIMIT_SET, value};
}

/* A group without the file has no such limit of its own: the first of a hierarchy, or one whose parent does not hand the
   controller on. */
static struct lp_limit not_read(void)
{
    return (struct lp_limit){errno == ENOENT ? LP_LIMIT_NONE : LP_LIMIT_UNKNOWN, 0};
}

static struct lp_limit quota_of(uint64_t quota, uint64_t period)
{
    uint64_t nanocores;
    if (period == 0 || __builtin_mul_overflow(quota, (uint64_t)NANOCORES, &nanocores) || nanocores < period)
        return (struct lp_limit){0};
    return is_set(nanocores / period);
}

/* "max 100000", "150000 100000". */
static struct lp_limit cpu_v2(const char *folder)
{
    char text[64];
    const char *at = text;
    uint64_t quota, period;
    if (!read_in(folder, "cpu.max", text, sizeof text))
        return not_read();
    if (strncmp(text, "max", 3) == 0)
        return (struct lp_limit){LP_LIMIT_NONE, 0};
    if (!take_number(&at, &quota) || !take_number(&at, &period))
        return (struct lp_limit){0};
    return quota_of(quota, period);
}

static struct lp_limit cpu_v1(const char *folder)
{
    char quota_text[64], period_text[64];
    const char *at = quota_text, *period_at = period_text;
    uint64_t quota, period;
    if (!read_in(folder, "cpu.cfs_quota_us", quota_text, sizeof quota_text))
        return not_read();
    if (quota_text[0] == '-')
        return (struct lp_limit){LP_LIMIT_NONE, 0};
    if (!take_number(&at, &quota) || !read_in(folder, "cpu.cfs_period_us", period_text, sizeof period_text) ||
        !take_number(&period_at, &period))
        return (struct lp_limit){0};
    return quota_of(quota, period);
}

static struct lp_limit memory_in(const char *folder, const char *file)
{
    char text[64];
    const char *at = text;
    uint64_t bytes;
    if (!read_in(folder, file, text, sizeof text))
        return not_read();
    if (strncmp(text, "max", 3) == 0)
        return (struct lp_limit){LP_LIMIT_NONE, 0};
    if (!take_number(&at, &bytes))
        return (struct lp_limit){0};
    return bytes >= NO_MEMORY_LIMIT ? (struct lp_limit){LP_LIMIT_NONE, 0} : is_set(bytes);
}

static struct lp_limit memory_v2(const char *folder)
{
    return memory_in(folder, "memory.max");
}

static struct lp_limit memory_v1(const char *folder)
{
    return memory_in(folder, "memory.limit_in_bytes");
}

typedef struct lp_limit limit_reader(const char *folder);

/* A limit that is known is one even if another level hides a tighter one. */
static struct lp_limit tighter(struct lp_limit a, struct lp_limit b)
{
    if (a.state == LP_LIMIT_SET && b.state == LP_LIMIT_SET)
        return a.value < b.value ? a : b;
    if (a.state == LP_LIMIT_SET || b.state == LP_LIMIT_SET)
        return a.state == LP_LIMIT_SET ? a : b;
    return a.state == LP_LIMIT_UNKNOWN ? a : b;
}

static bool is_hierarchy(const char *mount)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/cgroup.procs", mount) < (int)sizeof path && access(path, F_OK) == 0;
}

/* group as /proc/self/cgroup has it; one that begins with "/.." lies outside of what this process can see. */
static struct lp_limit tightest(const char *mount, const char *group, limit_reader *read_limit)
{
    char folder[PATH_MAX];
    struct lp_limit limit = {LP_LIMIT_NONE, 0};
    if (strncmp(group, "/..", 3) == 0 || snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder)
        return (struct lp_limit){0};
    size_t top = strlen(mount);
    for (size_t len = strlen(folder); len > top && folder[len - 1] == '/'; len--)
        folder[len - 1] = '\0';
    for (;;) {
        limit = tighter(limit, read_limit(folder));
        if (strlen(folder) <= top)
            return limit;
        *strrchr(folder, '/') = '\0';
    }
}

/* "cpu,cpuacct": whether that one is among them. */
static bool lists(const char *controllers, const char *controller)
{
    size_t len = strlen(controller);
    for (const char *at = controllers; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, controller, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    }
    return false;
}

/* The process's groups, as /proc/self/cgroup names them; NULL where it names none. Into its text. */
struct groups {
    const char *unified;               /* version 2 */
    const char *cpu, *cpu_controllers; /* version 1, and what is mounted together with it */
    const char *memory, *memory_controllers;
};

/* Lines "number:controllers:group"; a group's name may hold colons. */
static void find_groups(struct groups *groups, char *text)
{
    char *line;
    while ((line = strsep(&text, "\n"))) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(++controllers, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        if (strcmp(line, "0:") == 0)
            groups->unified = group;
        if (lists(controllers, "cpu")) {
            groups->cpu = group;
            groups->cpu_controllers = controllers;
        }
        if (lists(controllers, "memory")) {
            groups->memory = group;
            groups->memory_controllers = controllers;
        }
    }
}

static struct lp_limit limit_v1(const char *root, const char *controller, const char *controllers, const char *group,
                                limit_reader *read_limit)
{
    char mount[PATH_MAX];
    const char *const names[] = {controllers, controller};
    for (size_t i = 0; i < 2; i++)
        if (snprintf(mount, sizeof mount, "%s" MOUNTS "/%s", root, names[i]) < (int)sizeof mount && is_hierarchy(mount))
            return tightest(mount, group, read_limit);
    return (struct lp_limit){0};
}

/* Alone, or beside those of version 1 which then have the controllers. */
static struct lp_limit limit_v2(const char *root, const char *group, limit_reader *read_limit)
{
    char mount[PATH_MAX];
    static const char *const places[] = {MOUNTS, MOUNTS "/unified"};
    for (size_t i = 0; group && i < 2; i++)
        if (snprintf(mount, sizeof mount, "%s%s", root, places[i]) < (int)sizeof mount && is_hierarchy(mount))
            return tightest(mount, group, read_limit);
    return (struct lp_limit){0};
}

void lp_cgroup_read(struct lp_cgroup *cgroup, const char *root)
{
    char path[PATH_MAX], text[8192];
    struct groups groups = {0};
    *cgroup = (struct lp_cgroup){0};
    const char *self = lp_first_thread_has_ended() ? "thread-self" : "self";
    if (snprintf(path, sizeof path, "%s/proc/%s/cgroup", root, self) >= (int)sizeof path ||
        !read_text(path, text, sizeof text))
        return;
    find_groups(&groups, text);
    cgroup->cpu_nanocores = groups.cpu ? limit_v1(root, "cpu", groups.cpu_controllers, groups.cpu, cpu_v1)
                                       : limit_v2(root, groups.unified, cpu_v2);
    cgroup->memory_bytes = groups.memory ? limit_v1(root, "memory", groups.memory_controllers, groups.memory, memory_v1)
                                         : limit_v2(root, groups.unified, memory_v2);
}
