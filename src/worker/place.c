#include "worker/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

bool lp_directory_id_read(uint64_t *id, int fd)
{
    char text[BEGINNING_BYTES];
    *id = 0;
    int file = openat(fd, "metadata.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return errno == ENOENT;
    ssize_t n = pread(file, text, sizeof text, 0);
    close(file);
    *id = n > 0 ? lp_directory_id_in(text, (size_t)n) : 0;
    return *id != 0;
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
    place->id_known = false;
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
    place->id_known = place->id != 0;
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
        place->id_known = lp_directory_id_read(&place->id, fd);
        close(fd);
    }
    return true;
}

/* ---- images --------------------------------------------------------------------------------- */

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

static bool has_other_id(const struct lp_header *header, const struct lp_run_place *place)
{
    uint64_t id = atomic_load(&header->run_dir_id);
    return id != 0 && place->id_known && id != place->id;
}

static bool leads_to(const char *path, const struct lp_run_place *place)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_ino == place->inode && st.st_dev == place->device;
}

static bool is_at(const char *path, const struct lp_header *header, const struct lp_run_place *place)
{
    bool same_path = strcmp(path, place->path) == 0, same_inode = has_inode_of(header, place);
    if (has_other_id(header, place))
        return false;
    if (place->inode == 0 || atomic_load(&header->run_dir_inode) == 0) /* not asked, or the owner has not looked yet */
        return same_path;
    if (place->id_known && atomic_load(&header->run_dir_id) != 0)
        return same_path || same_inode;
    return same_inode && (same_path || leads_to(path, place));
}

bool lp_image_may_belong(const struct lp_header *header, int fd, const struct lp_run_place *place)
{
    char path[PATH_MAX];
    if (has_other_id(header, place))
        return false;
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
