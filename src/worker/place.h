/*
 * worker/place: a run directory, and which images are of it.
 *
 * Neither its path nor its inode tells a directory: containers with one /dev/shm have different ones at one path, one that
 * is removed leaves its inode to the next at the same path, and to one that was moved its path no longer leads. So
 * metadata.json holds an id of the directory, random when it is made (docs/format.md), and each image that of its own. A
 * copy of a directory has the same id: then the path or the inode must be the same too. Not both: a file server may give an
 * inode anew each time, and a container may see a directory at another path.
 *
 * That file may be removed, damaged or made anew under a run. Then a file of the image's own worker in the directory shows
 * whose it is, as its name has random digits. Until there is one, the worker's folder in it does if both the path and the
 * inode are the same, unless the directory has another id by now.
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
    ino_t inode; /* 0: the directory was not asked; images are known by the path alone */
    uint64_t id; /* 0: not known: there is no metadata.json, it cannot be read, or has none */
};

/* False, with errno set, if there is no such directory. */
bool lp_run_place_find(struct lp_run_place *place, const char *run_dir);
/* As the owner of an image has last found it, asking no file system. False if it has not, or has no path. */
bool lp_run_place_noted(struct lp_run_place *place, const char *run_dir, const struct lp_header *own);
/* The path alone, asking no file system; false if there is no such path. */
bool lp_run_place_name(struct lp_run_place *place, const char *run_dir);

/* The id in a text of metadata.json, of which the beginning will do; 0 if it has none. */
uint64_t lp_directory_id_in(const char *text, size_t len);
/* That of the directory open at fd; 0 if there is none to be read. System calls only. */
uint64_t lp_directory_id_read(int fd);

/* Whether the image's run directory is this one, by whatever path; file: the image's name. Asks no file system but that of
   this one: the server of another may not answer. */
bool lp_image_belongs(const struct lp_view *view, const char *file, const struct lp_run_place *place);
/* The same by the header of the image open at fd and little more: false if it certainly is not. */
bool lp_image_may_belong(const struct lp_header *header, int fd, const struct lp_run_place *place);
/* The same as lp_image_belongs, of an image of which only the header can be read. */
bool lp_image_of_other_version_belongs(const struct lp_header *header, const char *file, int fd,
                                       const struct lp_run_place *place);

#endif
