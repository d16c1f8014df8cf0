/*
 * A file server that answers with errors. Loaded by LD_PRELOAD, it lets system calls on worker files and on metadata in
 * one folder fail: the next so many of one kind, with an error of the test's choosing. All others are the real ones, on
 * files of other runs too, which a keeper may write out at any moment.
 *
 * It also has a wall clock that can be set: CLOCK_REALTIME alone, for all who ask libc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum call { OPEN, WRITE, FSYNC, CLOSE, RENAME, CALLS };

void faulty_begin(const char *folder, int call, int why, int times);
int faulty_left(int call);
void faulty_set_clock(int64_t seconds_ahead);

static _Atomic int left[CALLS], reason[CALLS];
static _Atomic int64_t ahead_s;

static char concerned[PATH_MAX];

/* The next so many calls of the kind, on files below the folder, fail with errno why. */
void faulty_begin(const char *folder, int call, int why, int times)
{
    snprintf(concerned, sizeof concerned, "%s/", folder);
    atomic_store(&reason[call], why);
    atomic_store(&left[call], times);
}

int faulty_left(int call)
{
    return atomic_load(&left[call]);
}

void faulty_set_clock(int64_t seconds_ahead)
{
    atomic_store(&ahead_s, seconds_ahead);
}

static int is_concerned(const char *path)
{
    return strncmp(path, concerned, strlen(concerned)) == 0 && strstr(path, ".json") != NULL;
}

/* "": not known. */
static void path_of(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
}

static int is_file_concerned(int fd)
{
    char path[PATH_MAX];
    path_of(fd, path);
    return is_concerned(path);
}

static int is_name_concerned(int folder, const char *name)
{
    char path[2 * PATH_MAX], place[PATH_MAX];
    if (name[0] == '/')
        return is_concerned(name);
    path_of(folder, place);
    snprintf(path, sizeof path, "%s/%s", place, name);
    return is_concerned(path);
}

static int fails(enum call call)
{
    int n = atomic_load(&left[call]);
    while (n > 0 && !atomic_compare_exchange_weak(&left[call], &n, n - 1))
        continue;
    if (n <= 0)
        return 0;
    errno = atomic_load(&reason[call]);
    return 1;
}

static int any(enum call call)
{
    return atomic_load(&left[call]) > 0;
}

__attribute__((visibility("default"))) int openat64(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int mode = va_arg(arguments, int);
    va_end(arguments);
    if (any(OPEN) && is_name_concerned(folder, path) && fails(OPEN))
        return -1;
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

__attribute__((visibility("default"), alias("openat64"))) int openat(int folder, const char *path, int flags, ...);

__attribute__((visibility("default"))) ssize_t write(int fd, const void *bytes, size_t len)
{
    if (any(WRITE) && is_file_concerned(fd) && fails(WRITE))
        return -1;
    return syscall(SYS_write, fd, bytes, len);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    if (any(FSYNC) && is_file_concerned(fd) && fails(FSYNC))
        return -1;
    return (int)syscall(SYS_fsync, fd);
}

/* The descriptor is gone all the same, as Linux has it. */
__attribute__((visibility("default"))) int close(int fd)
{
    int concerned = any(CLOSE) && is_file_concerned(fd);
    int result = (int)syscall(SYS_close, fd);
    return concerned && fails(CLOSE) ? -1 : result;
}

__attribute__((visibility("default"))) int renameat(int old_folder, const char *old, int new_folder, const char *new)
{
    if (any(RENAME) && is_name_concerned(old_folder, old) && fails(RENAME))
        return -1;
    return (int)syscall(SYS_renameat2, old_folder, old, new_folder, new, 0);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    if (!failed && clock == CLOCK_REALTIME)
        time->tv_sec += atomic_load(&ahead_s);
    return failed;
}

__attribute__((visibility("default"))) time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}
