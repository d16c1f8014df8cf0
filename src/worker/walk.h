/*
 * worker/walk: the image files of this user on this machine, one by one.
 */
#ifndef LP_WORKER_WALK_H
#define LP_WORKER_WALK_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "image/view.h"

/* An image file found. Borrowed for the call. */
struct lp_image_file {
    int folder;       /* of the images */
    const char *name; /* in it */
    int fd;           /* open; closed after the call */
};

/* Calls look for every image file, in no order; access is O_RDONLY or O_RDWR. Stops when look returns other than 0 and
   returns that; else 0. */
int lp_images_walk(int access, int (*look)(void *context, const struct lp_image_file *file), void *context);

/* The image's worker, which the file must be named after; false if it is not. */
bool lp_image_worker(const struct lp_view *view, const char *file, char *worker, size_t size);

/* Notes in the image open at fd, which is not ours, how its owner ended: a status of wait(2). Best effort. */
void lp_image_note_end(int fd, int status);

/* A run directory, to know images by. */
struct lp_run_place {
    char path[PATH_MAX]; /* absolute */
    dev_t device;
    ino_t inode; /* 0: not known; images are known by the path alone */
};
/* False if there is no such directory. */
bool lp_run_place_find(struct lp_run_place *place, const char *run_dir);
/* The path alone, asking no file system; false if there is no such path. */
bool lp_run_place_name(struct lp_run_place *place, const char *run_dir);
/* Whether the image's run directory is this one, by whatever path. Asks no file system but that of this one: the server of
   another may not answer. */
bool lp_image_belongs(const struct lp_view *view, const struct lp_run_place *place);
/* The same by the header of the image open at fd and little more: false if it certainly is not. */
bool lp_image_may_belong(const struct lp_header *header, int fd, const struct lp_run_place *place);
/* The same as lp_image_belongs, of an image of which only the header can be read. */
bool lp_image_of_other_version_belongs(const struct lp_header *header, int fd, const struct lp_run_place *place);

#endif
