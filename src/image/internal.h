/*
 * image/internal: the file behind an image, for the files of this room.
 */
#ifndef LP_IMAGE_INTERNAL_H
#define LP_IMAGE_INTERNAL_H

#include "image/image.h"

#define LP_IMAGE_FIRST_BYTES (64u << 10) /* and the step of allocation */

/* A locked file without a name, so that nobody meets it half made; its descriptor, -1 if it cannot be had. Sets path,
   inode and device. */
int lp_image_create_file(struct lp_image *image, const char *worker);
/* Whether image->fd is still the file that we opened. */
bool lp_image_owns_file(const struct lp_image *image);
/* Blocks from..to of the file, so that a store there finds one. False if they cannot be had. */
bool lp_image_allocate(int fd, size_t from, size_t to);
/* Gives the file its name. */
bool lp_image_link(struct lp_image *image);
void lp_image_close_file(struct lp_image *image);

#endif
