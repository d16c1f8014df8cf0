#include "base/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

ssize_t lp_small_file_read(const char *path, char *text, size_t size)
{
    text[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, size - 1);
    int why = errno;
    close(fd);
    errno = why;
    text[n > 0 ? n : 0] = '\0';
    return n;
}
