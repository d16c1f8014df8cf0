/* Stands in for screen.c in a build without ncurses. */
#include "cli/screen.h"

int lp_screen_open(struct lp_screen **screen, FILE *in, FILE *out, bool colour, char *message, size_t message_size)
{
    (void)in, (void)out, (void)colour;
    *screen = NULL;
    snprintf(message, message_size,
             "built without ncurses: build it again with the package libncurses-dev installed; --once works without");
    return -1;
}

int lp_screen_close(struct lp_screen *screen)
{
    (void)screen;
    return 0;
}

void lp_screen_size(const struct lp_screen *screen, size_t *rows, size_t *columns)
{
    (void)screen;
    *rows = *columns = 0;
}

void lp_screen_draw(struct lp_screen *screen, const struct lp_frame *frame)
{
    (void)screen, (void)frame;
}

int lp_screen_wait(struct lp_screen *screen, int timeout_ms)
{
    (void)screen, (void)timeout_ms;
    return LP_KEY_END;
}
