/*
 * report/top: a run that is going on, as a screenful.
 *
 * Lays the figures of analysis/top.h out in a frame of any size: what run this is, then either the roles with their
 * phases and counters or the workers, then the keys. One row of a table is one line; which lines there are, in which
 * order, is top_lines.c; the columns of each table are in top_phases.c and top_workers.c, those that a narrow terminal has
 * no room for are left out, the least important first. A further figure of a worker is a further line in its table of
 * columns.
 *
 * Must not know: keys as they are typed, ncurses, clocks; it computes no figure.
 */
#ifndef LP_REPORT_TOP_H
#define LP_REPORT_TOP_H

#include "analysis/top.h"
#include "report/frame.h"

enum lp_top_mode { LP_TOP_PHASES, LP_TOP_WORKERS, LP_TOP_HELP };
#define LP_TOP_TABLES 2 /* The first modes. */

/* A column, and what a table is sorted by: numbers fall, texts and ids rise, unknown ones come last. */
enum lp_top_key {
    LP_TOP_BY_SHARE,
    LP_TOP_BY_SELF,
    LP_TOP_BY_WAIT,
    LP_TOP_BY_CALLS,
    LP_TOP_BY_EACH,
    LP_TOP_BY_RSS,
    LP_TOP_BY_OPEN,
    LP_TOP_BY_PID,
    LP_TOP_BY_RANK,
    LP_TOP_BY_INDEX, /* Of its role. */
    LP_TOP_BY_HOST,
    LP_TOP_BY_ROLE,
    LP_TOP_BY_STATE,
    LP_TOP_BY_NAME /* Of a phase, or of what a worker is in. */
};
#define LP_TOP_KEYS 14

struct lp_top_view {
    enum lp_top_mode mode;
    enum lp_top_key sort[LP_TOP_TABLES];
    bool reversed;
    bool hide_idle; /* Phases in which nothing happened, workers that do nothing. */
    bool paused;
    bool typing;         /* The filter is being typed. */
    const char *filter;  /* Borrowed, UTF-8. Lines that do not contain it are left out; case of ASCII aside. */
    size_t scroll;       /* Lines above the first one shown. */
    const char *message; /* Borrowed. What is wrong, instead of the line on the interval; NULL: nothing. */
    double every_s;      /* Between readings; 0: a single one, written for lp_top_height rows: without keys, and the
                           workers without what stands above the phases. */
};

/* The table's columns by which it can be sorted, in the order in which they stand. *n is their number. */
const enum lp_top_key *lp_top_keys(enum lp_top_mode mode, size_t *n);
/* "share": for options and messages. */
const char *lp_top_key_name(enum lp_top_key key);

/* Draws into an empty frame. Brings view->scroll within its bounds. 0 or -ENOMEM. */
int lp_top_draw(struct lp_frame *frame, const struct lp_top *top, struct lp_top_view *view);
/* How many rows a frame must have to show all lines of a single reading. 0 or -ENOMEM. */
int lp_top_height(size_t *rows, const struct lp_top *top, const struct lp_top_view *view);

#endif
