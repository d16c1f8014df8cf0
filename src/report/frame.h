/*
 * report/frame: a screenful of character cells.
 *
 * Text is put at a row and a column, sanitised and measured by label.h; what lies beyond an edge is dropped, so that a
 * layout need not ask how large a terminal is before it writes. A cell is a character with what combines with it, one or
 * two columns wide; the second half of a wide one is a cell of its own that holds nothing. Styles say what a text is, not
 * how it looks: that is for whoever draws.
 *
 * Must not know: terminals, what the text says.
 */
#ifndef LP_REPORT_FRAME_H
#define LP_REPORT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/sink.h"

enum lp_frame_style {
    LP_FRAME_PLAIN,
    LP_FRAME_BOLD,
    LP_FRAME_DIM,
    LP_FRAME_HEADING, /* The names of columns. */
    LP_FRAME_KEY,     /* What can be typed. */
    LP_FRAME_GOOD,
    LP_FRAME_WARNING,
    LP_FRAME_BAD
};

#define LP_FRAME_CODES 3 /* A character, and two that combine with it; more are dropped. */

struct lp_frame_cell {
    uint32_t codes[LP_FRAME_CODES]; /* codes[0] is 0 in the second half of a wide character. */
    uint8_t n_codes;                /* 0: blank, or a second half. */
    uint8_t columns;                /* 1 or 2; 0 in a second half. */
    uint8_t style;                  /* enum lp_frame_style */
};

struct lp_frame {
    size_t rows, columns;
    struct lp_frame_cell *cells; /* Owned; row by row. */
    int error;                   /* -ENOMEM: a label is missing. */
};

/* All blank. 0 or -ENOMEM. Either side may be 0. */
int lp_frame_init(struct lp_frame *frame, size_t rows, size_t columns);
void lp_frame_release(struct lp_frame *frame);

/* Each returns the column behind what it wrote. */

/* A text from a column on; its head if the line ends. */
size_t lp_frame_text(struct lp_frame *frame, size_t row, size_t column, enum lp_frame_style style, const char *text);
/* Any bytes, in at most `columns`: the tail behind an ellipsis if they take more. */
size_t lp_frame_label(struct lp_frame *frame, size_t row, size_t column, size_t columns, enum lp_frame_style style,
                      const char *bytes, size_t len);
/* Likewise the name of a host or a role: head and tail, with an ellipsis between them. */
size_t lp_frame_name(struct lp_frame *frame, size_t row, size_t column, size_t columns, enum lp_frame_style style,
                     const char *bytes, size_t len);
/* A text that ends before column `end`. */
size_t lp_frame_right(struct lp_frame *frame, size_t row, size_t end, enum lp_frame_style style, const char *text);

/* Gives so many cells of a row a style. */
void lp_frame_restyle(struct lp_frame *frame, size_t row, size_t column, size_t columns, enum lp_frame_style style);

/* The frame as lines of text, without styles; blanks at the ends of lines are left out. */
void lp_frame_write(const struct lp_frame *frame, struct lp_report_sink *sink);

#endif
