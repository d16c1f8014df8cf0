#include "process/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* "size resident shared ..." in pages. */
static bool read_statm(uint64_t pid, uint64_t *pages)
{
    char path[64], text[128], *end;
    snprintf(path, sizeof path, "/proc/%llu/statm", (unsigned long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    (void)strtoull(text, &end, 10);
    const char *resident = end;
    *pages = strtoull(resident, &end, 10);
    return end != resident && *pages > 0; /* 0: a process that is just ending */
}

bool lp_process_rss(const struct lp_process_ref *process, uint64_t *bytes)
{
    uint64_t pages;
    long page_size = sysconf(_SC_PAGESIZE);
    /* The look comes after the read: a pid that was taken over in between would be another start. */
    if (page_size <= 0 || !read_statm(process->pid, &pages) || lp_process_lives(process) != LP_PROCESS_LIVES)
        return false;
    *bytes = pages * (uint64_t)page_size;
    return true;
}
