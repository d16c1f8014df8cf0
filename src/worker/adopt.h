/*
 * worker/adopt: what a dead worker has left in shared memory, written out as its last file and removed.
 *
 * Whoever comes first does it - a keeper at its next flush, the next profiler to start, a reader: under a lock on the
 * image, so that it is done once, and in an order that a kill at any moment leaves right: the file is published whole
 * before the image is removed, and who finds both does the same again. The file says how the worker ended (docs/format.md).
 *
 * An image that may be needed stays: that of a living owner, one whose run directory cannot be written, one of another
 * version. Never waits for anybody.
 */
#ifndef LP_WORKER_ADOPT_H
#define LP_WORKER_ADOPT_H

#include <stdbool.h>
#include <stddef.h>

struct lp_header;

struct lp_adoption {
    const char *run_dir; /* whose dead are adopted */
    /* Of an image of the caller's in that directory, which tells what need not be asked at each flush; may be NULL. */
    const struct lp_header *own;
    /* Also images that nobody came for: of other run directories on the same file system, after an hour; of such that
       are no more, after a day, and unreadable ones, after a week, which are only removed. */
    bool abandoned;
    size_t largest;              /* bytes of an image; larger ones are left for others. 0: any */
    bool (*stop)(void *context); /* asked between two images; may be NULL */
    void *context;
};

/* Returns how many images were written out. */
size_t lp_adopt(const struct lp_adoption *adoption);

#endif
