/*
 * worker/images: the images that lie on this machine, as documents.
 *
 * What a reader of a run directory sees of workers that still live, and of those that died without writing their last
 * file. Reads with pread, never maps, never waits for anybody, and disturbs no owner.
 */
#ifndef LP_WORKER_IMAGES_H
#define LP_WORKER_IMAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/samples.h"

/* Borrowed for the call. */
struct lp_image_document {
    const char *worker; /* w_<run>_<pid>_<uuid8>; NUL-terminated */
    const char *path; /* of the image; of one that another version has written there is nothing else, all being NULL */
    const char *document; /* JSON of docs/format.md, NUL-terminated */
    size_t len;
    const struct lp_view *view; /* what it was made of; for the rows that no file has yet */
    bool alive;                 /* the owner still runs; else open entries are settled when it was last seen */
};

/* Calls take for each image of this user whose run directory is the directory run_dir, in no order. Images that are going
   away are passed over. Stops when take returns other than 0 and returns that; else 0. */
int lp_images_each(const char *run_dir, int (*take)(void *context, const struct lp_image_document *image),
                   void *context);

#endif
