#include "worker/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/stamp.h"

#define FILE_NAME_BYTES 320

static const char *const suffixes[] = {[LP_PUBLISH_OWNER] = ".json.tmp", [LP_PUBLISH_ADOPTER] = ".json.adopted.tmp"};

/* write(), but a file size limit is an error (EFBIG) and no SIGXFSZ, which would end the program. */
static ssize_t write_some(int fd, const char *bytes, size_t len)
{
    const struct timespec no_time = {0};
    sigset_t limit, before, pending;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &before);
    sigpending(&pending);
    ssize_t n = write(fd, bytes, len);
    int why = errno;
    if (n < 0 && why == EFBIG && !sigismember(&pending, SIGXFSZ))
        sigtimedwait(&limit, NULL, &no_time);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return n;
}

int lp_write_all(void *fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write_some(*(int *)fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return -1;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

/* The next part of a path of several; NULL after the last. */
static const char *next_part(const char *path, char *part, size_t size)
{
    size_t len = strcspn(path, "/");
    if (len == 0 || len >= size)
        return NULL;
    memcpy(part, path, len);
    part[len] = '\0';
    return path[len] == '/' ? path + len + 1 : path + len;
}

/* A symbolic link is ELOOP, also where the kernel says ENOTDIR. */
static int open_no_link(int folder, const char *part)
{
    struct stat st;
    int inner = openat(folder, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int why = errno;
    if (inner < 0 && why == ENOTDIR && fstatat(folder, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
        why = ELOOP;
    errno = why;
    return inner;
}

static int open_part(int folder, const char *part, bool make)
{
    int inner = open_no_link(folder, part);
    if (inner >= 0 || !make || errno != ENOENT || (mkdirat(folder, part, 0777) != 0 && errno != EEXIST))
        return inner;
    return open_no_link(folder, part);
}

int lp_publish_open(const char *run_dir, const char *below, bool make, struct stat *st)
{
    char part[256];
    int folder = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0 && st && fstat(folder, st) != 0)
        *st = (struct stat){0};
    while (folder >= 0 && *below && (below = next_part(below, part, sizeof part))) {
        int inner = open_part(folder, part, make);
        int why = errno;
        close(folder);
        folder = inner;
        errno = why;
    }
    return folder;
}

static int write_document(int fd, const struct lp_view *view, const struct lp_stamp *written,
                          const struct lp_folder_clock *clock, enum lp_document_owner owner)
{
    struct lp_emit emit;
    lp_emit_init(&emit, lp_write_all, &fd);
    lp_document_emit(&emit, view, written, clock, owner);
    return lp_emit_end(&emit) == 0 ? fsync(fd) : -1;
}

static void temporary_name(char *name, const char *worker, enum lp_publisher publisher)
{
    snprintf(name, FILE_NAME_BYTES, "%.255s%s", worker, suffixes[publisher]);
}

/* Our own may have been left by an attempt that was cut off. That is rare, and looking each time is one more request to a
   file server. */
static int make_temporary(int folder, const char *name)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(folder, name, flags, 0666);
    if (fd >= 0 || errno != EEXIST || unlinkat(folder, name, 0) != 0)
        return fd;
    return openat(folder, name, flags, 0666);
}

/* The same, and by which clock the file was stamped: not the time of its last change, which a client may set. A file
   server has told it when it made the file, so that it is not asked again. */
static int make_stamped(int folder, const char *name, struct lp_folder_clock *clock)
{
    struct stat st;
    clock->before_ns = lp_stamp_now().realtime_ns;
    int fd = make_temporary(folder, name);
    bool stamped = fd >= 0 && fstat(fd, &st) == 0 && st.st_ctim.tv_sec > 0;
    clock->after_ns = lp_stamp_now().realtime_ns;
    clock->stamped_ns = stamped ? (uint64_t)st.st_ctim.tv_sec * 1000000000u + (uint64_t)st.st_ctim.tv_nsec : 0;
    return fd;
}

int lp_publish(int folder, const char *worker, enum lp_publisher publisher, const struct lp_view *view,
               const struct lp_stamp *written, enum lp_document_owner owner)
{
    char name[FILE_NAME_BYTES], temporary[FILE_NAME_BYTES];
    snprintf(name, sizeof name, "%.255s.json", worker);
    temporary_name(temporary, worker, publisher);
    struct lp_folder_clock clock;
    int fd = make_stamped(folder, temporary, &clock);
    if (fd < 0)
        return -1;
    int failed = write_document(fd, view, written, &clock, owner);
    int why = errno;
    if (close(fd) != 0 && !failed) {
        failed = -1;
        why = errno;
    }
    if (!failed && renameat(folder, temporary, folder, name) == 0) {
        fsync(folder); /* some file systems cannot sync a folder; the file itself is safe */
        return 0;
    }
    why = failed ? why : errno;
    unlinkat(folder, temporary, 0);
    errno = why;
    return -1;
}

void lp_publish_clean(int folder, const char *worker, enum lp_publisher publisher)
{
    char temporary[FILE_NAME_BYTES];
    temporary_name(temporary, worker, publisher);
    unlinkat(folder, temporary, 0);
}

bool lp_publish_is_there(int folder, const char *worker)
{
    char name[FILE_NAME_BYTES];
    struct stat st;
    snprintf(name, sizeof name, "%.255s.json", worker);
    return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}
