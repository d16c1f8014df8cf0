/*
 * worker/walk: the image files of this user on this machine, one by one.
 */
#ifndef LP_WORKER_WALK_H
#define LP_WORKER_WALK_H

#include <stdbool.h>

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

#endif
