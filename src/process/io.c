#include "process/io.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/small_file.h"

#define RUSAGE_BLOCK_BYTES 512u /* of ru_inblock and ru_oublock: include/linux/task_io_accounting_ops.h */

/* The number behind "key: "; strtoull may look at the locale. */
static bool find(const char *text, const char *key, uint64_t *value)
{
    const char *at = strstr(text, key);
    if (!at)
        return false;
    *value = 0;
    for (at += strlen(key); *at >= '0' && *at <= '9'; at++)
        *value = *value * 10 + (uint64_t)(*at - '0');
    return true;
}

static size_t read_counters(struct lp_io *io, const char *path)
{
    char text[512];
    ssize_t n = lp_small_file_read(path, text, sizeof text);
    if (n <= 0)
        return 0;
    bool whole = find(text, "rchar: ", &io->read_chars) && find(text, "wchar: ", &io->write_chars) &&
                 find(text, "\nread_bytes: ", &io->read_bytes) && find(text, "\nwrite_bytes: ", &io->write_bytes);
    return whole ? (size_t)n : 0;
}

size_t lp_io_of_thread(struct lp_io *io)
{
    return read_counters(io, "/proc/thread-self/io");
}

size_t lp_io_of_process(struct lp_io *io)
{
    return read_counters(io, "/proc/self/io");
}

size_t lp_io_of_task(struct lp_io *io, uint64_t tid)
{
    char path[64] = "/proc/self/task/", digits[24];
    size_t at = strlen(path), n = 0;
    do
        digits[n++] = (char)('0' + tid % 10);
    while ((tid /= 10) != 0);
    while (n > 0)
        path[at++] = digits[--n];
    memcpy(path + at, "/io", sizeof "/io");
    return read_counters(io, path);
}

/* "1234/task/1240" */
uint64_t lp_task_of_self(void)
{
    char link[64];
    uint64_t tid = 0;
    ssize_t n = readlink("/proc/thread-self", link, sizeof link - 1);
    link[n > 0 ? n : 0] = '\0';
    const char *at = strrchr(link, '/');
    if (!at)
        return (uint64_t)gettid();
    for (at++; *at >= '0' && *at <= '9'; at++)
        tid = tid * 10 + (uint64_t)(*at - '0');
    return tid;
}

static uint64_t microseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

bool lp_reaped_read(struct lp_reaped *reaped)
{
    struct rusage usage;
    if (getrusage(RUSAGE_CHILDREN, &usage) != 0)
        return false;
    reaped->work = microseconds(usage.ru_utime) + microseconds(usage.ru_stime) + (uint64_t)usage.ru_minflt +
                   (uint64_t)usage.ru_majflt + (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
    reaped->read_bytes = (uint64_t)usage.ru_inblock * RUSAGE_BLOCK_BYTES;
    reaped->write_bytes = (uint64_t)usage.ru_oublock * RUSAGE_BLOCK_BYTES;
    return true;
}
