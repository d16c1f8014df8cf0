/*
 * image/ring: rows of a fixed size that wait in the image until a file has them.
 *
 * One thread puts rows; whoever holds the right to write the file takes them. A row that is put over one that was not
 * taken is lost, and told by the rows' own numbers. Rows are whole words, so that a reading is made of words that were
 * stored; whether it is of one row is asked afterwards.
 *
 * Must not know: what a row means.
 */
#ifndef LP_IMAGE_RING_H
#define LP_IMAGE_RING_H

#include <stdbool.h>

#include "image/view.h"

#define LP_RING_ROW_BYTES 128u /* at most */

/* Puts a row of row_bytes, a multiple of 8. The first makes the ring, for so many rows. False if there is no room for
   one. Of one kind one thread only. */
bool lp_ring_put(struct lp_image *image, enum lp_ring_kind kind, uint32_t capacity, uint32_t row_bytes,
                 const void *row);
/* The ring of a view; NULL if no row was ever put, or it is damaged. */
const struct lp_ring *lp_view_ring(const struct lp_view *view, enum lp_ring_kind kind);
/* The same of one's own image, to note in it what was filed. */
struct lp_ring *lp_image_ring(const struct lp_image *image, enum lp_ring_kind kind);
/* Copies row number i; false if it is not there yet, or no more. */
bool lp_ring_row(const struct lp_view *view, const struct lp_ring *ring, uint64_t i, void *row);

#endif
