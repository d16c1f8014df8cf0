#include "worker/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
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
