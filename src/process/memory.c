#include "process/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/small_file.h"

/* "size resident shared ..." in pages. */
static bool read_statm(uint64_t pid, uint64_t *pages)
{
    char path[64], text[128], *end;
    snprintf(path, sizeof path, "/proc/%llu/statm", (unsigned long long)pid);
    if (lp_small_file_read(path, text, sizeof text) <= 0)
        return false;
    (void)strtoull(text, &end, 10);
    const char *resident = end;
    *pages = strtoull(resident, &end, 10);
    return end != resident && *pages > 0; /* 0: a process that is just ending */
}

bool lp_process_rss(const struct lp_process_ref *process, uint64_t *bytes, bool *stopped)
{
    uint64_t pages;
    long page_size = sysconf(_SC_PAGESIZE);
    /* The look comes after the read: a pid that was taken over in between would be another start. */
    if (page_size <= 0 || !read_statm(process->pid, &pages) ||
        lp_process_lives_stopped(process, stopped) != LP_PROCESS_LIVES)
        return false;
    *bytes = pages * (uint64_t)page_size;
    return true;
}

/* The figure of a line "Key:  123 kB", in bytes; 0 if there is none. */
static uint64_t bytes_of(const char *text, const char *key)
{
    const char *line = strstr(text, key);
    unsigned long long kib = line ? strtoull(line + strlen(key), NULL, 10) : 0;
    return kib <= UINT64_MAX / 1024 ? kib * 1024 : 0;
}

void lp_memory_of_self(struct lp_own_memory *memory)
{
    char text[16384]; /* the groups of its user stand before, however many there are */
    *memory = (struct lp_own_memory){0};
    if (lp_small_file_read("/proc/thread-self/status", text, sizeof text) <= 0)
        return;
    /* The name of the process, which stands before, may hold anything but a newline. */
    memory->rss_bytes = bytes_of(text, "\nVmRSS:");
    memory->peak_rss_bytes = bytes_of(text, "\nVmHWM:");
}

uint64_t lp_memory_pss_of_self(void)
{
    char text[1024];
    return lp_small_file_read("/proc/thread-self/smaps_rollup", text, sizeof text) > 0 ? bytes_of(text, "\nPss:") : 0;
}
