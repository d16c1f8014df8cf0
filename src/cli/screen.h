/*
 * cli/screen: the terminal as a screen that frames are drawn on, and the keys that are typed.
 *
 * Owns: ncurses, and the signals that concern a terminal. While a screen is open those signals are blocked and read like
 * keys, so that none of them runs code of ours or of ncurses at a bad moment; their handlers, the mask, the locale and the
 * terminal are as before once it is closed. A stop (Ctrl-Z) gives the terminal back and takes it again afterwards.
 *
 * screen_none.c stands in where this was built without ncurses.
 *
 * Must not know: what a frame shows, what a key does.
 */
#ifndef LP_CLI_SCREEN_H
#define LP_CLI_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

#include "report/frame.h"

struct lp_screen;

/* What lp_screen_wait returns beside characters. */
enum lp_screen_key {
    LP_KEY_NONE = -1, /* Time is up. */
    LP_KEY_END = -2,  /* A signal or a hang-up: close the screen. */
    LP_KEY_REDRAW = -3,
    LP_KEY_UP = -4,
    LP_KEY_DOWN = -5,
    LP_KEY_LEFT = -6,
    LP_KEY_RIGHT = -7,
    LP_KEY_PAGE_UP = -8,
    LP_KEY_PAGE_DOWN = -9,
    LP_KEY_HOME = -10,
    LP_KEY_LAST = -11, /* The key End. */
    LP_KEY_ENTER = -12,
    LP_KEY_ESCAPE = -13,
    LP_KEY_ERASE = -14,
    LP_KEY_F1 = -15,
    LP_KEY_F10 = -16,
    LP_KEY_OTHER = -17
};

/* Takes the terminal that in and out are. 0, or -1 with one line in message that says why not. */
int lp_screen_open(struct lp_screen **screen, FILE *in, FILE *out, bool colour, char *message, size_t message_size);
/* Gives it back. Returns the signal that ended it (SIGHUP of a terminal that went away), 0 if none did. */
int lp_screen_close(struct lp_screen *screen);

void lp_screen_size(const struct lp_screen *screen, size_t *rows, size_t *columns);
void lp_screen_draw(struct lp_screen *screen, const struct lp_frame *frame);
/* The next key: a character, or an enum lp_screen_key. Waits so long at most. */
int lp_screen_wait(struct lp_screen *screen, int timeout_ms);

#endif
