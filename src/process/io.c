#include "process/io.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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

bool lp_io_of_thread(struct lp_io *io)
{
    char text[512];
    int fd = open("/proc/thread-self/io", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return find(text, "rchar: ", &io->read_chars) && find(text, "wchar: ", &io->write_chars) &&
           find(text, "\nread_bytes: ", &io->read_bytes) && find(text, "\nwrite_bytes: ", &io->write_bytes);
}
