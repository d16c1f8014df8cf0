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

bool lp_image_may_belong(const struct lp_header *header, int fd, const struct lp_run_place *place)
{
    char bytes[sizeof(struct lp_name) + sizeof place->path];
    struct lp_name name;
    size_t len = strlen(place->path), size = sizeof name + len;
    if (place->inode != 0 && atomic_load(&header->run_dir_inode) == place->inode &&
        atomic_load(&header->run_dir_device) == place->device)
        return true;
    if (pread(fd, bytes, size, (off_t)header->run_dir * LP_LINE) != (ssize_t)size)
        return false;
    memcpy(&name, bytes, sizeof name);
    return name.len == len && memcmp(bytes + sizeof name, place->path, len) == 0;
}

bool lp_image_belongs(const struct lp_view *view, const struct lp_run_place *place)
{
    char path[PATH_MAX];
    struct stat st;
    const struct lp_header *header = lp_view_header(view);
    if (!lp_view_text(view, header->run_dir, path, sizeof path))
        return false;
    if (strcmp(path, place->path) == 0)
        return true;
    /* Inodes come again: that of a directory that was removed may be another's by now. */
    return place->inode != 0 && atomic_load(&header->run_dir_inode) == place->inode &&
           atomic_load(&header->run_dir_device) == place->device && stat(path, &st) == 0 && st.st_ino == place->inode &&
           st.st_dev == place->device;
}
