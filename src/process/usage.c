#include "process/usage.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own_reads.h"
#include "base/small_file.h"

#define DIRECTORY_BYTES 4096
#define LONGEST_COUNT 4096 /* descriptors that are counted one by one, where the kernel has no number ready */

/* To the microsecond; the clock of the process, which knows it to the nanosecond, goes through all threads once more. */
static uint64_t cpu_ns(const struct rusage *self)
{
    uint64_t s = (uint64_t)self->ru_utime.tv_sec + (uint64_t)self->ru_stime.tv_sec;
    uint64_t us = (uint64_t)self->ru_utime.tv_usec + (uint64_t)self->ru_stime.tv_usec;
    return s * 1000000000u + us * 1000u;
}

static size_t read_text(const char *path, char *text, size_t size)
{
    lp_own_reads_begin(size);
    ssize_t n = lp_small_file_read(path, text, size);
    lp_own_reads_end(size, n);
    return n > 0 ? (size_t)n : 0;
}

/* The number after the first blank; false if there is none. */
static bool second_number(const char *text, uint64_t *value)
{
    const char *at = strchr(text, ' ');
    if (!at || at[1] < '0' || at[1] > '9')
        return false;
    *value = 0;
    for (at++; *at >= '0' && *at <= '9'; at++)
        *value = *value * 10 + (uint64_t)(*at - '0');
    return true;
}

/* "size resident shared ..." in pages. */
static uint64_t rss_bytes(void)
{
    char text[128];
    uint64_t pages;
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (page_bytes <= 0 || !read_text("/proc/thread-self/statm", text, sizeof text) || !second_number(text, &pages) ||
        pages == 0)
        return LP_USAGE_UNKNOWN;
    return pages * (uint64_t)page_bytes;
}

/* Each thread is a folder there, and each of these a link to it: no thread needs to be looked at. */
static uint64_t threads(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) == 0 && st.st_nlink > 2 ? (uint64_t)st.st_nlink - 2 : LP_USAGE_UNKNOWN;
}

/* Calls take for each entry of the folder that is not hidden, until it returns false; false if that, or an error, ended
   it. Without malloc, as opendir needs it. */
static bool each_entry(int folder, bool (*take)(void *context, const char *name), void *context)
{
    struct entry { /* linux_dirent64 of getdents64(2) */
        uint64_t inode, offset;
        unsigned short bytes;
        unsigned char type;
        char name[];
    };
    _Alignas(uint64_t) char entries[DIRECTORY_BYTES];
    long n;
    while ((n = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0)
        for (long at = 0; at < n;) {
            const struct entry *entry = (const void *)(entries + at);
            if (entry->name[0] != '.' && !take(context, entry->name))
                return false;
            at += entry->bytes;
        }
    return n == 0;
}

static bool count_one(void *count, const char *name)
{
    (void)name;
    return ++*(uint64_t *)count < LONGEST_COUNT;
}

static uint64_t count_open_files(void)
{
    uint64_t count = 0;
    int folder = open("/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return LP_USAGE_UNKNOWN;
    bool known = each_entry(folder, count_one, &count);
    close(folder);
    return known && count > 0 ? count - 1 : LP_USAGE_UNKNOWN; /* this one */
}

/* From Linux 6.2 on the folder's size is their number. */
static uint64_t open_files(void)
{
    struct stat st;
    if (stat("/proc/thread-self/fd", &st) < 0)
        return LP_USAGE_UNKNOWN;
    return st.st_size > 0 ? (uint64_t)st.st_size : count_open_files();
}

void lp_usage_read(struct lp_usage *usage)
{
    struct rusage self;
    bool known = getrusage(RUSAGE_SELF, &self) == 0;
    usage->cpu_ns = known ? cpu_ns(&self) : LP_USAGE_UNKNOWN;
    usage->rss_bytes = rss_bytes();
    usage->minor_faults = known ? (uint64_t)self.ru_minflt : LP_USAGE_UNKNOWN;
    usage->major_faults = known ? (uint64_t)self.ru_majflt : LP_USAGE_UNKNOWN;
    usage->voluntary_switches = known ? (uint64_t)self.ru_nvcsw : LP_USAGE_UNKNOWN;
    usage->involuntary_switches = known ? (uint64_t)self.ru_nivcsw : LP_USAGE_UNKNOWN;
    usage->threads = threads();
    usage->open_files = open_files();
}

struct tasks {
    uint64_t *tids;
    size_t n, size;
};

static bool take_task(void *context, const char *name)
{
    struct tasks *tasks = context;
    uint64_t tid = 0;
    for (; *name >= '0' && *name <= '9'; name++)
        tid = tid * 10 + (uint64_t)(*name - '0');
    if (tasks->n == tasks->size)
        return false;
    tasks->tids[tasks->n++] = tid;
    return true;
}

size_t lp_tasks_read(uint64_t *tids, size_t size)
{
    struct tasks tasks = {.size = size};
    int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return 0;
    tasks.tids = tids;
    bool whole = each_entry(folder, take_task, &tasks);
    close(folder);
    return whole ? tasks.n : 0;
}

uint64_t lp_run_delay_ns(uint64_t tid)
{
    char path[64], text[128];
    uint64_t delay_ns;
    snprintf(path, sizeof path, "/proc/self/task/%llu/schedstat", (unsigned long long)tid);
    if (!read_text(path, text, sizeof text) || !second_number(text, &delay_ns))
        return LP_USAGE_UNKNOWN;
    return delay_ns;
}
