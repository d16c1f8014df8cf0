/*
 * worker/place: a run directory, and which images are of it.
 *
 * Neither its path nor its inode tells a directory: containers with one /dev/shm have different ones at one path, one that
 * is removed leaves its inode to the next at the same path, and to one that was moved its path no longer leads. So
 * metadata.json holds an id of the directory, random when it is made (docs/format.md), and each image that of its own. A
 * copy of a directory has the same id: then the path or the inode must be the same too. Not both: a file server may give an
 * inode anew each time, and a container may see a directory at another path.
 */
#ifndef LP_WORKER_PLACE_H
#define LP_WORKER_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "image/view.h"

#define LP_DIRECTORY_ID_DIGITS 16 /* hexadecimal, small */

struct lp_run_place {
    char path[PATH_MAX]; /* absolute */
    dev_t device;
    ino_t inode;   /* 0: the directory was not asked; images are known by the path alone */
    bool id_known; /* false: metadata.json cannot be read, or has none */
    uint64_t id;   /* 0: there is no metadata.json, and so no image with an id is of it */
};

/* False, with errno set, if there is no such directory. */
bool lp_run_place_find(struct lp_run_place *place, const char *run_dir);
/* As the owner of an image has last found it, asking no file system. False if it has not, or has no path. */
bool lp_run_place_noted(struct lp_run_place *place, const char *run_dir, const struct lp_header *own);
/* The path alone, asking no file system; false if there is no such path. */
bool lp_run_place_name(struct lp_run_place *place, const char *run_dir);

/* The id in a text of metadata.json, of which the beginning will do; 0 if it has none. */
uint64_t lp_directory_id_in(const char *text, size_t len);
/* That of the directory open at fd, as id and id_known of a place. System calls only. */
bool lp_directory_id_read(uint64_t *id, int fd);

/* Whether the image's run directory is this one, by whatever path. Asks no file system but that of this one: the server of
   another may not answer. */
bool lp_image_belongs(const struct lp_view *view, const struct lp_run_place *place);
/* The same by the header of the image open at fd and little more: false if it certainly is not. */
bool lp_image_may_belong(const struct lp_header *header, int fd, const struct lp_run_place *place);
/* The same as lp_image_belongs, of an image of which only the header can be read. */
bool lp_image_of_other_version_belongs(const struct lp_header *header, int fd, const struct lp_run_place *place);

#endif
