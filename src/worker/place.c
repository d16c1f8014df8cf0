#include "worker/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/publish.h"

#define BEGINNING_BYTES 512 /* of metadata.json: the id is among them */

/* ---- the directory -------------------------------------------------------------------------- */

uint64_t lp_directory_id_in(const char *text, size_t len)
{
    static const char key[] = "\"directory_id\":";
    uint64_t id = 0;
    const char *end = text + len,
               *digit = memmem(text, len < BEGINNING_BYTES ? len : BEGINNING_BYTES, key, sizeof key - 1);
    if (!digit)
        return 0;
    digit += sizeof key - 1;
    while (digit < end && *digit == ' ') /* a person may have looked at it with a tool */
        digit++;
    if (end - digit < LP_DIRECTORY_ID_DIGITS + 2 || *digit++ != '"' || digit[LP_DIRECTORY_ID_DIGITS] != '"')
        return 0;
    for (int i = 0; i < LP_DIRECTORY_ID_DIGITS; i++, digit++) {
        if (!(*digit >= '0' && *digit <= '9') && !(*digit >= 'a' && *digit <= 'f'))
            return 0;
        id = id << 4 | (uint64_t)(*digit <= '9' ? *digit - '0' : *digit - 'a' + 10);
    }
    return id;
}

uint64_t lp_directory_id_read(int fd)
{
    char text[BEGINNING_BYTES];
    int file = openat(fd, "metadata.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = file < 0 ? -1 : pread(file, text, sizeof text, 0);
    if (file >= 0)
        close(file);
    return n > 0 ? lp_directory_id_in(text, (size_t)n) : 0;
}

bool lp_run_place_name(struct lp_run_place *place, const char *run_dir)
{
    char here[PATH_MAX] = "";
    if (run_dir[0] != '/' && !getcwd(here, sizeof here))
        return false;
    int len = snprintf(place->path, sizeof place->path, "%s%s%s", here, run_dir[0] == '/' ? "" : "/", run_dir);
    if (len < 0 || (size_t)len >= sizeof place->path) {
        errno = ENAMETOOLONG;
        return false;
    }
    while (len > 1 && place->path[len - 1] == '/')
        place->path[--len] = '\0';
    place->device = 0;
    place->inode = 0;
    place->id = 0;
    return true;
}

bool lp_run_place_noted(struct lp_run_place *place, const char *run_dir, const struct lp_header *own)
{
    if (atomic_load(&own->run_dir_inode) == 0 || !lp_run_place_name(place, run_dir))
        return false;
    place->device = atomic_load(&own->run_dir_device);
    place->inode = atomic_load(&own->run_dir_inode);
    place->id = atomic_load(&own->run_dir_id);
    return true;
}

bool lp_run_place_find(struct lp_run_place *place, const char *run_dir)
{
    struct stat st;
    if (stat(run_dir, &st) != 0 || !lp_run_place_name(place, run_dir))
        return false;
    place->device = st.st_dev;
    place->inode = st.st_ino;
    int fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        place->id = lp_directory_id_read(fd);
        close(fd);
    }
    return true;
}

/* ---- images --------------------------------------------------------------------------------- */

/* A name of an image of which no more than the header was read. */
static bool read_name(lp_ref ref, int fd, char text[PATH_MAX])
{
    struct lp_name name;
    char bytes[sizeof name + PATH_MAX];
    ssize_t n = ref == 0 ? -1 : pread(fd, bytes, sizeof bytes, (off_t)ref * LP_LINE);
    if (n < (ssize_t)sizeof name)
        return false;
    memcpy(&name, bytes, sizeof name);
    if (name.len >= PATH_MAX || n - (ssize_t)sizeof name < (ssize_t)name.len)
        return false;
    memcpy(text, bytes + sizeof name, name.len);
    text[name.len] = '\0';
    return strlen(text) == name.len;
}

static bool has_inode_of(const struct lp_header *header, const struct lp_run_place *place)
{
    return place->inode != 0 && atomic_load(&header->run_dir_inode) == place->inode &&
           atomic_load(&header->run_dir_device) == place->device;
}

static bool has_id(const struct lp_header *header, const struct lp_run_place *place)
{
    return place->id != 0 && atomic_load(&header->run_dir_id) == place->id;
}

static bool has_other_id(const struct lp_header *header, const struct lp_run_place *place)
{
    return place->id != 0 && atomic_load(&header->run_dir_id) != 0 && !has_id(header, place);
}

static bool leads_to(const char *path, const struct lp_run_place *place)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_ino == place->inode && st.st_dev == place->device;
}

/* What the directory has of the image's worker. */
enum trace { NO_TRACE, ITS_FOLDER, ITS_FILE };

static enum trace find_trace(const char *folder, const char *file, const struct lp_run_place *place)
{
    char worker[256];
    struct stat run_dir;
    int fd = lp_publish_open(place->path, folder, false, &run_dir);
    if (fd < 0) /* a server that fails does not say that it is not there */
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? NO_TRACE : ITS_FOLDER;
    enum trace trace = NO_TRACE;
    snprintf(worker, sizeof worker, "%.*s", (int)strlen(file) - 4, file); /* but for ".img" */
    if (run_dir.st_ino == place->inode && run_dir.st_dev == place->device)
        trace = lp_publish_is_there(fd, worker) ? ITS_FILE : ITS_FOLDER;
    close(fd);
    return trace;
}

/* By the id; or, where the ids do not tell, by what the directory has of the worker. A directory that was made anew has no
   file of one that died before, and no folder of workers until it has an id. */
static bool is_at(const char *path, const char *folder, const char *file, const struct lp_header *header,
                  const struct lp_run_place *place)
{
    bool same_path = strcmp(path, place->path) == 0, same_inode = has_inode_of(header, place);
    if (place->inode == 0 || atomic_load(&header->run_dir_inode) == 0) /* not asked, or the owner has not looked yet */
        return same_path && !has_other_id(header, place);
    if (!same_inode && !(same_path && !has_other_id(header, place)))
        return false;
    if (has_id(header, place))
        return true;
    enum trace trace = find_trace(folder, file, place);
    return trace == ITS_FILE ||
           (trace == ITS_FOLDER && !has_other_id(header, place) && same_inode && (same_path || leads_to(path, place)));
}

bool lp_image_may_belong(const struct lp_header *header, int fd, const struct lp_run_place *place)
{
    char path[PATH_MAX];
    if (has_inode_of(header, place) || has_other_id(header, place))
        return has_inode_of(header, place);
    return read_name(header->run_dir, fd, path) && strcmp(path, place->path) == 0;
}

bool lp_image_of_other_version_belongs(const struct lp_header *header, const char *file, int fd,
                                       const struct lp_run_place *place)
{
    char path[PATH_MAX], folder[PATH_MAX];
    return lp_image_may_belong(header, fd, place) && read_name(header->run_dir, fd, path) &&
           read_name(header->folder, fd, folder) && is_at(path, folder, file, header, place);
}

bool lp_image_belongs(const struct lp_view *view, const char *file, const struct lp_run_place *place)
{
    char path[PATH_MAX], folder[300];
    const struct lp_header *header = lp_view_header(view);
    return lp_view_text(view, header->run_dir, path, sizeof path) &&
           lp_view_text(view, header->folder, folder, sizeof folder) && is_at(path, folder, file, header, place);
}
