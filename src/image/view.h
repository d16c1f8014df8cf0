/*
 * image/view: reading an image, one's own or another process's, without trusting it.
 *
 * A view is a span of bytes: the owner's own mapping, or a copy that was read with pread. Every ref is bounded before
 * it is followed, so a damaged or hostile image can at worst show nonsense that the reader of the document rejects.
 * Figures that belong together are taken whole by their sequence words; in a copy of a live image a line that was
 * caught in the middle of a change is read again from the file.
 *
 * Must not know: what the figures mean.
 */
#ifndef LP_IMAGE_VIEW_H
#define LP_IMAGE_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "image/image.h"

struct lp_view {
    const char *base;
    size_t size;
    int fd;     /* of a foreign image; -1: base is the owner's live memory */
    char *copy; /* Owned by the view, or NULL. */
};

/* A node's figures and whether the frames that were asked about still held the same entries at that moment. */
struct lp_core_copy {
    uint64_t calls, wall_ns, cpu_ns, nocpu_wall_ns, child_wall_ns, late_wall_ns;
    uint32_t stride;
    bool torn; /* no whole reading could be had: the owner died or was stopped inside a change */
};

struct lp_counter_copy {
    int64_t sum, min, max;
    uint64_t calls;
};

struct lp_hist_copy {
    uint64_t total;
    uint64_t counts[LP_HIST_USED_OCTAVES * LP_HIST_PER_OCTAVE];
};

/* The owner's own image as it stands. */
void lp_view_own(struct lp_view *view, const struct lp_image *image);
enum lp_view_peeked {
    LP_VIEW_FITS,
    LP_VIEW_OTHER_VERSION, /* of the header holds what all versions have */
    LP_VIEW_NO_IMAGE
};
/* Reads the header of the image open at fd alone, and checks it as lp_view_foreign does. */
enum lp_view_peeked lp_view_peek(struct lp_header *header, int fd);
/* Copies the image open at fd (kept, not owned) and checks magic, version, layout and size. 0, or -1. */
int lp_view_foreign(struct lp_view *view, int fd);
void lp_view_release(struct lp_view *view);

static inline const struct lp_header *lp_view_header(const struct lp_view *view)
{
    return (const struct lp_header *)(const void *)view->base;
}

/* The object at ref; NULL if it does not lie whole inside the view. */
const void *lp_view_at(const struct lp_view *view, lp_ref ref, size_t bytes);
/* The name at ref; NULL if there is none. */
const struct lp_name *lp_view_name(const struct lp_view *view, lp_ref ref);
/* Copies the name at ref as a text ended by NUL, at most size - 1 bytes; false if there is none, it is longer, or it
   holds a NUL. */
bool lp_view_text(const struct lp_view *view, lp_ref ref, char *text, size_t size);
/* Takes a node's figures whole. */
void lp_view_core(const struct lp_view *view, const struct lp_node *node, struct lp_core_copy *copy);
void lp_view_counter(const struct lp_view *view, const struct lp_counter *counter, struct lp_counter_copy *copy);
/* Takes a node's histogram. fresh: of a copy, as the file has it now. */
void lp_view_hist(const struct lp_view *view, const struct lp_node *node, bool fresh, struct lp_hist_copy *copy);
/* The same of any array of LP_HIST_USED_OCTAVES or more refs inside the view. */
void lp_view_octaves(const struct lp_view *view, const _Atomic lp_ref *octaves, bool fresh, struct lp_hist_copy *copy);
/* True if the frame holds the entry `serial` now; asks the file if the view is a copy. */
bool lp_view_frame_holds(const struct lp_view *view, const struct lp_frame *frame, uint64_t serial);

#endif
