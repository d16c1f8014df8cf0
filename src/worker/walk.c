#include "worker/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_image(const char *name)
{
    size_t len = strlen(name);
    return len > 4 && strcmp(name + len - 4, ".img") == 0;
}

int lp_images_walk(int access, int (*look)(void *context, const struct lp_image_file *file), void *context)
{
    const struct dirent *entry;
    int result = 0, fd = lp_image_open_folder(false);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    while (result == 0 && (entry = readdir(folder))) {
        if (!is_image(entry->d_name))
            continue;
        struct lp_image_file file = {.folder = fd, .name = entry->d_name};
        file.fd = openat(fd, entry->d_name, access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file.fd < 0)
            continue;
        result = look(context, &file);
        close(file.fd);
    }
    closedir(folder);
    return result;
}

void lp_image_note_end(int fd, int status)
{
    uint32_t ended = LP_END_KNOWN | (uint32_t)status;
    ssize_t n = pwrite(fd, &ended, sizeof ended, offsetof(struct lp_header, ended));
    (void)n; /* then it is not known */
}

bool lp_image_worker(const struct lp_view *view, const char *file, char *worker, size_t size)
{
    if (!lp_view_text(view, lp_view_header(view)->worker, worker, size))
        return false;
    size_t len = strlen(worker);
    return strncmp(worker, "w_", 2) == 0 && !strchr(worker, '/') && strncmp(file, worker, len) == 0 &&
           strcmp(file + len, ".img") == 0;
}

bool lp_run_place_name(struct lp_run_place *place, const char *run_dir)
{
    char here[PATH_MAX] = "";
    if (run_dir[0] != '/' && !getcwd(here, sizeof here))
        return false;
    int len = snprintf(place->path, sizeof place->path, "%s%s%s", here, run_dir[0] == '/' ? "" : "/", run_dir);
    if (len < 0 || (size_t)len >= sizeof place->path)
        return false;
    while (len > 1 && place->path[len - 1] == '/')
        place->path[--len] = '\0';
    place->device = 0;
    place->inode = 0;
    return true;
}

bool lp_run_place_find(struct lp_run_place *place, const char *run_dir)
{
    struct stat st;
    if (stat(run_dir, &st) != 0 || !lp_run_place_name(place, run_dir))
        return false;
    place->device = st.st_dev;
    place->inode = st.st_ino;
    return true;
}

/* The path of the run directory, of an image of which no more than the header was read. */
static bool read_run_dir(const struct lp_header *header, int fd, char path[PATH_MAX])
{
    struct lp_name name;
    char bytes[sizeof name + PATH_MAX];
    ssize_t n = header->run_dir == 0 ? -1 : pread(fd, bytes, sizeof bytes, (off_t)header->run_dir * LP_LINE);
    if (n < (ssize_t)sizeof name)
        return false;
    memcpy(&name, bytes, sizeof name);
    if (name.len >= PATH_MAX || n - (ssize_t)sizeof name < (ssize_t)name.len)
        return false;
    memcpy(path, bytes + sizeof name, name.len);
    path[name.len] = '\0';
    return strlen(path) == name.len;
}

static bool has_inode_of(const struct lp_header *header, const struct lp_run_place *place)
{
    return place->inode != 0 && atomic_load(&header->run_dir_inode) == place->inode &&
           atomic_load(&header->run_dir_device) == place->device;
}

static bool is_at(const char *path, const struct lp_header *header, const struct lp_run_place *place)
{
    struct stat st;
    if (strcmp(path, place->path) == 0)
        return true;
    /* Inodes come again: that of a directory that was removed may be another's by now. */
    return has_inode_of(header, place) && stat(path, &st) == 0 && st.st_ino == place->inode &&
           st.st_dev == place->device;
}

bool lp_image_may_belong(const struct lp_header *header, int fd, const struct lp_run_place *place)
{
    char path[PATH_MAX];
    return has_inode_of(header, place) || (read_run_dir(header, fd, path) && strcmp(path, place->path) == 0);
}

bool lp_image_of_other_version_belongs(const struct lp_header *header, int fd, const struct lp_run_place *place)
{
    char path[PATH_MAX];
    return read_run_dir(header, fd, path) && is_at(path, header, place);
}

bool lp_image_belongs(const struct lp_view *view, const struct lp_run_place *place)
{
    char path[PATH_MAX];
    const struct lp_header *header = lp_view_header(view);
    return lp_view_text(view, header->run_dir, path, sizeof path) && is_at(path, header, place);
}
