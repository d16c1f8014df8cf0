/* The file behind an image. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/internal.h"

#define ALLOCATION_TRIES 100

int lp_image_folder(char *path, size_t size)
{
    return snprintf(path, size, "/dev/shm/lineprofiler-%u", (unsigned)geteuid());
}

int lp_image_open_folder(bool make)
{
    char path[64];
    struct stat st;
    lp_image_folder(path, sizeof path);
    bool made = make && mkdir(path, 0700) == 0;
    if (make && !made && errno != EEXIST)
        return -1;
    if (made) /* an umask may have left not even us in: for good, since nobody makes it again */
        fchmodat(AT_FDCWD, path, 0700, AT_SYMLINK_NOFOLLOW);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

bool lp_image_lock(int fd, enum lp_image_lock which)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = which, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool lp_image_is_locked(int fd, enum lp_image_lock which)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = which, .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int lp_image_create_file(struct lp_image *image, const char *worker)
{
    struct stat st;
    int folder = lp_image_open_folder(true);
    if (folder < 0)
        return -1;
    int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    close(folder);
    if (fd < 0)
        return -1;
    lp_image_folder(image->path, sizeof image->path);
    size_t len = strlen(image->path);
    int n = snprintf(image->path + len, sizeof image->path - len, "/%s.img", worker);
    if (n < 0 || (size_t)n >= sizeof image->path - len || fchmod(fd, 0600) != 0 || !lp_image_lock(fd, LP_LOCK_OWNER) ||
        fstat(fd, &st) != 0) {
        close(fd);
        image->path[0] = '\0';
        return -1;
    }
    image->inode = st.st_ino;
    image->device = st.st_dev;
    return fd;
}

bool lp_image_owns_file(const struct lp_image *image)
{
    struct stat st;
    return image->fd >= 0 && fstat(image->fd, &st) == 0 && st.st_ino == image->inode && st.st_dev == image->device;
}

/* fallocate, not ftruncate: blocks are there before the first store, or the call fails instead of a SIGBUS later. On
   kernels before 6.10 a signal interrupts it and undoes what it did; small steps get on even under a profiler's timer. */
bool lp_image_allocate(int fd, size_t from, size_t to)
{
    for (int interrupted = 0; from < to;) {
        if (fallocate(fd, 0, (off_t)from, LP_IMAGE_FIRST_BYTES) == 0)
            from += LP_IMAGE_FIRST_BYTES;
        else if (errno != EINTR || ++interrupted == ALLOCATION_TRIES)
            return false;
    }
    return true;
}

void lp_image_close_file(struct lp_image *image)
{
    image->path[0] = '\0';
    if (lp_image_owns_file(image))
        close(image->fd);
    image->fd = -1;
}

bool lp_image_link(struct lp_image *image)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/thread-self/fd/%d", image->fd);
    return lp_image_owns_file(image) && linkat(AT_FDCWD, link, AT_FDCWD, image->path, AT_SYMLINK_FOLLOW) == 0;
}

void lp_image_publish(struct lp_image *image)
{
    if (lp_image_link(image))
        return;
    /* A file that nobody can find is no better than private memory. */
    atomic_store(&lp_image_header(image)->shared, 0);
    lp_image_close_file(image);
}
