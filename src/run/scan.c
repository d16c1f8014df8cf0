#include "run/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/room.h"

#define STALE_TRIES 5

static const char workers[] = "workers";
static const char is_link[] = "symbolic link: not followed";
static const char is_directory[] = "a directory, not a file";
static const char not_regular[] = "not a regular file";

static int add_file(struct lp_run_files *files, const char *folder, const char *name, const char *fault)
{
    if (lp_run_room(&files->files, &files->room, files->n_files, sizeof *files->files) < 0)
        return -1;
    struct lp_run_file file = {NULL, fault};
    if (asprintf(&file.path, "%s/%s", folder, name) < 0) {
        errno = ENOMEM;
        return -1;
    }
    files->files[files->n_files++] = file;
    return 0;
}

static bool is_worker_name(const char *name)
{
    size_t len = strlen(name);
    return len > 7 && memcmp(name, "w_", 2) == 0 && strcmp(name + len - 5, ".json") == 0;
}

/* The entry's type, asked for where the file system does not tell it; DT_UNKNOWN if it is gone meanwhile. */
static unsigned char type_of(int fd, const struct dirent *entry)
{
    struct stat status;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return DT_UNKNOWN;
    return (unsigned char)IFTODT(status.st_mode);
}

static const char *type_fault(unsigned char type)
{
    if (type == DT_LNK)
        return is_link;
    if (type == DT_DIR)
        return is_directory;
    return type == DT_REG ? NULL : not_regular;
}

/* Opens a folder for reading its entries; NULL with errno. */
static DIR *open_folder(int dir_fd, const char *path, int flags)
{
    int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK | flags);
    if (fd < 0)
        return NULL;
    DIR *folder = fdopendir(fd);
    if (!folder)
        close(fd);
    return folder;
}

typedef int visit_fn(struct lp_run_files *files, int dir_fd, const char *folder, const char *name, unsigned char type);

/* Calls visit for every entry of an open folder, and closes it. */
static int each_entry(struct lp_run_files *files, int dir_fd, DIR *folder, const char *path, visit_fn *visit)
{
    int result = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry) {
            result = errno ? -1 : 0;
            break;
        }
        if (entry->d_name[0] == '.')
            continue;
        unsigned char type = type_of(dirfd(folder), entry);
        if (type == DT_UNKNOWN)
            continue;
        result = visit(files, dir_fd, path, entry->d_name, type);
        if (result < 0)
            break;
    }
    int saved = errno;
    closedir(folder);
    errno = saved;
    return result;
}

static int visit_file(struct lp_run_files *files, int dir_fd, const char *folder, const char *name, unsigned char type)
{
    (void)dir_fd;
    return is_worker_name(name) ? add_file(files, folder, name, type_fault(type)) : 0;
}

/* A folder that cannot be read costs its workers, and is named. */
static int visit_host(struct lp_run_files *files, int dir_fd, const char *folder, const char *name, unsigned char type)
{
    if (type == DT_LNK && !is_worker_name(name))
        return add_file(files, folder, name, is_link);
    if (type != DT_DIR)
        return visit_file(files, dir_fd, folder, name, type);
    char path[sizeof workers + 1 + sizeof((struct dirent *)0)->d_name];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    DIR *host = open_folder(dir_fd, path, O_NOFOLLOW);
    if (host)
        return each_entry(files, dir_fd, host, path, visit_file);
    if (errno == ENOENT)
        return 0;
    return errno == ENOMEM ? -1 : add_file(files, folder, name, "folder that cannot be opened");
}

static int by_path(const void *a, const void *b)
{
    const struct lp_run_file *left = a;
    const struct lp_run_file *right = b;
    return strcmp(left->path, right->path);
}

int lp_run_scan(struct lp_run_files *files, int dir_fd)
{
    *files = (struct lp_run_files){0};
    DIR *top = open_folder(dir_fd, workers, 0);
    if (!top)
        return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    if (each_entry(files, dir_fd, top, workers, visit_host) < 0)
        return -1;
    if (files->n_files)
        qsort(files->files, files->n_files, sizeof *files->files, by_path);
    return 0;
}

void lp_run_files_release(struct lp_run_files *files)
{
    for (size_t i = 0; i < files->n_files; i++)
        free(files->files[i].path);
    free(files->files);
    *files = (struct lp_run_files){0};
}

static int make_room(struct lp_run_buffer *buffer, size_t room)
{
    if (room <= buffer->room)
        return 0;
    free(buffer->bytes);
    buffer->bytes = malloc(room);
    buffer->room = buffer->bytes ? room : 0;
    return buffer->bytes ? 0 : -1;
}

/* The path holds no link: its folders were opened without following one. */
int lp_run_open_file(int dir_fd, const char *path, uint64_t most, size_t *size, struct lp_run_fault *fault)
{
    int error = EINVAL;
    struct stat status;
    int fd = openat(dir_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        error = errno;
        error == ELOOP ? lp_run_fault_set(fault, is_link) : lp_run_fault_set(fault, "cannot be opened: %m");
        errno = error;
        return -1;
    }
    if (fstat(fd, &status) < 0) {
        error = errno;
        lp_run_fault_set(fault, "cannot be examined: %m");
    } else if (!S_ISREG(status.st_mode))
        lp_run_fault_set(fault, S_ISDIR(status.st_mode) ? is_directory : not_regular);
    else if ((uint64_t)status.st_size > most)
        lp_run_fault_set(fault, "too large: %lld bytes, %llu are read", (long long)status.st_size,
                         (unsigned long long)most);
    else {
        *size = (size_t)status.st_size;
        return fd;
    }
    close(fd);
    errno = error;
    return -1;
}

/* A worker file is never changed in place, so that its size is its size; one that shrinks ends early and is found out.
   */
static int read_all(struct lp_run_buffer *buffer, int fd, size_t size, struct lp_run_fault *fault)
{
    buffer->len = 0;
    while (buffer->len < size) {
        ssize_t got = read(fd, buffer->bytes + buffer->len, size - buffer->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return lp_run_fault_set(fault, "cannot be read: %m");
        if (got == 0)
            break;
        buffer->len += (size_t)got;
    }
    return 0;
}

/* Not what is remembered of it. */
static void ask_size(int fd, size_t *size)
{
    struct statx status;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_SIZE, &status) == 0 &&
        (status.stx_mask & STATX_SIZE) && status.stx_size <= LP_RUN_FILE_MAX)
        *size = (size_t)status.stx_size;
}

static int read_once(struct lp_run_buffer *buffer, int dir_fd, const char *path, bool anew, struct lp_run_fault *fault)
{
    size_t size = 0;
    int fd = lp_run_open_file(dir_fd, path, LP_RUN_FILE_MAX, &size, fault);
    if (fd < 0)
        return -1;
    if (anew)
        ask_size(fd, &size);
    int result = make_room(buffer, size + 1) < 0 ? lp_run_fault_no_memory(fault) : read_all(buffer, fd, size, fault);
    int error = errno;
    close(fd);
    errno = error;
    if (buffer->room > 0)
        buffer->bytes[buffer->len] = '\0'; /* for readers that look for an end */
    return result;
}

/* A worker on another host replaces its file whenever it likes. Of network file systems the one that was opened may be gone
   then (ESTALE); under its name is the next. */
static int read_file(struct lp_run_buffer *buffer, int dir_fd, const char *path, bool anew, struct lp_run_fault *fault)
{
    for (int tries = 1;; tries++) {
        int result = read_once(buffer, dir_fd, path, anew, fault);
        if (result == 0 || fault->no_memory || errno != ESTALE || tries == STALE_TRIES)
            return result;
    }
}

int lp_run_read_file(struct lp_run_buffer *buffer, int dir_fd, const char *path, struct lp_run_fault *fault)
{
    return read_file(buffer, dir_fd, path, false, fault);
}

int lp_run_read_file_anew(struct lp_run_buffer *buffer, int dir_fd, const char *path, struct lp_run_fault *fault)
{
    return read_file(buffer, dir_fd, path, true, fault);
}

void lp_run_buffer_release(struct lp_run_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct lp_run_buffer){0};
}
