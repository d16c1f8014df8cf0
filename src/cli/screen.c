#include "cli/screen.h"

#include <curses.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#define ESCAPE_MS 50 /* What follows an escape within this time belongs to it. */
#define REPLACEMENT L'\xfffd'

static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH};
#define N_SIGNALS (sizeof signals / sizeof *signals)

struct lp_screen {
    FILE *in;       /* Borrowed. */
    SCREEN *term;   /* Owned. */
    bool colour;    /* Pairs are defined. */
    int ended_by;   /* A signal; 0 so far. */
    int signals_fd; /* Owned; -1: none. */
    struct termios modes;
    bool has_modes;
    sigset_t old_mask;
    struct sigaction old_actions[N_SIGNALS];
    locale_t locale, old_locale; /* Owned; (locale_t)0: the old one stands. */
};

/* --- locale --- */

static bool is_ascii(locale_t locale)
{
    const char *name = nl_langinfo_l(CODESET, locale);
    return strcmp(name, "ANSI_X3.4-1968") == 0 || strcmp(name, "US-ASCII") == 0;
}

/* That of the environment, for this thread alone. Where it says nothing of characters beyond ASCII, they are taken to be
   UTF-8, as in a report. */
static void take_locale(struct lp_screen *screen)
{
    screen->locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (screen->locale == (locale_t)0 || is_ascii(screen->locale)) {
        locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
        if (utf8 != (locale_t)0 && screen->locale != (locale_t)0)
            freelocale(screen->locale);
        if (utf8 != (locale_t)0)
            screen->locale = utf8;
    }
    if (screen->locale != (locale_t)0)
        screen->old_locale = uselocale(screen->locale);
}

static void give_locale_back(struct lp_screen *screen)
{
    if (screen->locale == (locale_t)0)
        return;
    uselocale(screen->old_locale);
    freelocale(screen->locale);
    screen->locale = (locale_t)0;
}

/* --- signals --- */

/* What is ignored (nohup, a background job) stays so: a blocked signal would be queued all the same. */
static void take_signals(struct lp_screen *screen)
{
    sigset_t taken;
    sigemptyset(&taken);
    for (size_t i = 0; i < N_SIGNALS; i++) {
        sigaction(signals[i], NULL, &screen->old_actions[i]);
        if (screen->old_actions[i].sa_handler != SIG_IGN)
            sigaddset(&taken, signals[i]);
    }
    pthread_sigmask(SIG_BLOCK, &taken, &screen->old_mask);
    screen->signals_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ncurses has set some. Before the mask, so that whatever is pending meets the handlers that it was meant for. */
static void give_signals_back(struct lp_screen *screen)
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        sigaction(signals[i], &screen->old_actions[i], NULL);
    pthread_sigmask(SIG_SETMASK, &screen->old_mask, NULL);
    if (screen->signals_fd >= 0)
        close(screen->signals_fd);
}

/* 0 if there is none. */
static int next_signal(const struct lp_screen *screen)
{
    struct signalfd_siginfo info;
    if (screen->signals_fd < 0 || read(screen->signals_fd, &info, sizeof info) != sizeof info)
        return 0;
    return (int)info.ssi_signo;
}

/* As the default action would: the shell is to see a job that was stopped by that signal. */
static void stop(void)
{
    struct sigaction old, stopping = {.sa_handler = SIG_DFL};
    sigset_t only;
    endwin();
    sigaction(SIGTSTP, &stopping, &old);
    sigemptyset(&only);
    sigaddset(&only, SIGTSTP);
    kill(getpid(), SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL); /* Here it stands, until it is continued. */
    pthread_sigmask(SIG_BLOCK, &only, NULL);
    sigaction(SIGTSTP, &old, NULL);
}

static void fit(const struct lp_screen *screen)
{
    struct winsize size = {0};
    int rows, columns;
    getmaxyx(stdscr, rows, columns);
    if (ioctl(fileno(screen->in), TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return;
    if (size.ws_row != rows || size.ws_col != columns)
        resizeterm(size.ws_row, size.ws_col);
}

/* A terminal that was somebody else's meanwhile is drawn anew. */
static void take_up_again(const struct lp_screen *screen)
{
    reset_prog_mode();
    fit(screen);
    clearok(curscr, TRUE);
}

/* What a signal means; LP_KEY_NONE if there was none. */
static int act_on_signal(struct lp_screen *screen)
{
    switch (next_signal(screen)) {
    case 0:
        return LP_KEY_NONE;
    case SIGTSTP:
        stop();
        take_up_again(screen);
        return LP_KEY_REDRAW;
    case SIGCONT:
        take_up_again(screen);
        return LP_KEY_REDRAW;
    case SIGWINCH:
        fit(screen);
        return LP_KEY_REDRAW;
    case SIGINT:
        screen->ended_by = SIGINT;
        return LP_KEY_END;
    case SIGQUIT:
        screen->ended_by = SIGQUIT;
        return LP_KEY_END;
    case SIGHUP:
        screen->ended_by = SIGHUP;
        return LP_KEY_END;
    default:
        screen->ended_by = SIGTERM;
        return LP_KEY_END;
    }
}

/* --- opening and closing --- */

static bool can_draw(char *message, size_t size)
{
    const char *name = getenv("TERM");
    if (name != NULL && *name != '\0' && strcmp(name, "dumb") != 0)
        return true;
    snprintf(message, size, "TERM is %s: this terminal has no screen to draw on; --once prints plain text",
             name == NULL    ? "not set"
             : *name == '\0' ? "empty"
                             : "dumb");
    return false;
}

static void define_colours(struct lp_screen *screen, bool wanted)
{
    screen->colour = wanted && has_colors() && start_color() == OK && use_default_colors() == OK;
    if (!screen->colour)
        return;
    init_pair(LP_FRAME_KEY, COLOR_CYAN, -1);
    init_pair(LP_FRAME_GOOD, COLOR_GREEN, -1);
    init_pair(LP_FRAME_WARNING, COLOR_YELLOW, -1);
    init_pair(LP_FRAME_BAD, COLOR_RED, -1);
}

/* Some terminals say these as if they had not been told to say others. */
static void define_arrows(void)
{
    define_key("\033[A", KEY_UP);
    define_key("\033[B", KEY_DOWN);
    define_key("\033[C", KEY_RIGHT);
    define_key("\033[D", KEY_LEFT);
}

static int start(struct lp_screen *screen, FILE *out, bool colour, char *message, size_t size)
{
    screen->has_modes = tcgetattr(fileno(screen->in), &screen->modes) == 0;
    screen->term = newterm(NULL, out, screen->in);
    const char *cursor_address = screen->term != NULL ? tigetstr("cup") : NULL;
    if (cursor_address == NULL || cursor_address == (const char *)-1) {
        snprintf(message, size,
                 "nothing is known here of a terminal '%s': try TERM=xterm-256color; --once prints plain text",
                 getenv("TERM"));
        return -1;
    }
    cbreak();
    noecho();
    nonl();
    curs_set(0);
    keypad(stdscr, TRUE);
    define_arrows();
    nodelay(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    define_colours(screen, colour);
    fit(screen);
    return 0;
}

int lp_screen_open(struct lp_screen **out_screen, FILE *in, FILE *out, bool colour, char *message, size_t message_size)
{
    *out_screen = NULL;
    if (!can_draw(message, message_size))
        return -1;
    struct lp_screen *screen = calloc(1, sizeof *screen);
    if (screen == NULL) {
        snprintf(message, message_size, "out of memory");
        return -1;
    }
    screen->in = in;
    take_locale(screen);
    take_signals(screen);
    if (start(screen, out, colour, message, message_size) == 0) {
        *out_screen = screen;
        return 0;
    }
    lp_screen_close(screen);
    return -1;
}

int lp_screen_close(struct lp_screen *screen)
{
    int ended_by = screen->ended_by;
    if (screen->term != NULL) {
        endwin();
        delscreen(screen->term);
    }
    if (screen->has_modes)
        tcsetattr(fileno(screen->in), TCSANOW, &screen->modes);
    give_signals_back(screen);
    give_locale_back(screen);
    free(screen);
    return ended_by;
}

/* --- drawing --- */

void lp_screen_size(const struct lp_screen *screen, size_t *rows, size_t *columns)
{
    int y, x;
    (void)screen;
    getmaxyx(stdscr, y, x);
    *rows = y > 0 ? (size_t)y : 0;
    *columns = x > 0 ? (size_t)x : 0;
}

static attr_t attributes(const struct lp_screen *screen, enum lp_frame_style style)
{
    switch (style) {
    case LP_FRAME_BOLD:
    case LP_FRAME_GOOD:
    case LP_FRAME_WARNING:
        return A_BOLD;
    case LP_FRAME_DIM:
        return A_DIM;
    case LP_FRAME_HEADING:
        return A_REVERSE;
    case LP_FRAME_KEY:
        return A_BOLD | A_REVERSE;
    case LP_FRAME_BAD:
        return screen->colour ? A_BOLD : A_BOLD | A_UNDERLINE;
    default:
        return A_NORMAL;
    }
}

static short pair_of(const struct lp_screen *screen, enum lp_frame_style style)
{
    return (short)(screen->colour && style >= LP_FRAME_KEY ? (int)style : 0);
}

/* Whether the locale can say it, and the C library thinks it as wide as we do: else the rest of the line would shift. */
static bool is_drawable(wchar_t code, int columns)
{
    char bytes[MB_LEN_MAX];
    mbstate_t state = {0};
    return wcrtomb(bytes, code, &state) != (size_t)-1 && wcwidth(code) == columns;
}

static void draw_code(const struct lp_frame_cell *cell, wchar_t text[LP_FRAME_CODES + 1])
{
    size_t n = 0;
    text[n++] = cell->n_codes > 0 ? (wchar_t)cell->codes[0] : L' ';
    if (!is_drawable(text[0], cell->columns)) {
        text[0] = is_drawable(REPLACEMENT, 1) ? REPLACEMENT : L'?';
    } else {
        for (size_t i = 1; i < cell->n_codes; i++)
            if (is_drawable((wchar_t)cell->codes[i], 0))
                text[n++] = (wchar_t)cell->codes[i];
    }
    text[n] = L'\0';
}

static void draw_cell(const struct lp_screen *screen, int row, int column, const struct lp_frame_cell *cell)
{
    wchar_t text[LP_FRAME_CODES + 1];
    cchar_t drawn;
    enum lp_frame_style style = (enum lp_frame_style)cell->style;
    if (cell->columns == 0)
        return;
    draw_code(cell, text);
    if (setcchar(&drawn, text, attributes(screen, style), pair_of(screen, style), NULL) == OK)
        mvadd_wch(row, column, &drawn);
}

void lp_screen_draw(struct lp_screen *screen, const struct lp_frame *frame)
{
    erase();
    for (size_t row = 0; row < frame->rows; row++)
        for (size_t column = 0; column < frame->columns; column++)
            draw_cell(screen, (int)row, (int)column, &frame->cells[row * frame->columns + column]);
    refresh();
}

/* --- keys --- */

static int named_key(wint_t code)
{
    static const struct {
        wint_t code;
        int key;
    } keys[] = {{KEY_UP, LP_KEY_UP},           {KEY_DOWN, LP_KEY_DOWN},     {KEY_LEFT, LP_KEY_LEFT},
                {KEY_RIGHT, LP_KEY_RIGHT},     {KEY_PPAGE, LP_KEY_PAGE_UP}, {KEY_NPAGE, LP_KEY_PAGE_DOWN},
                {KEY_HOME, LP_KEY_HOME},       {KEY_END, LP_KEY_LAST},      {KEY_ENTER, LP_KEY_ENTER},
                {KEY_BACKSPACE, LP_KEY_ERASE}, {KEY_DC, LP_KEY_ERASE},      {KEY_RESIZE, LP_KEY_REDRAW},
                {KEY_F(1), LP_KEY_F1},         {KEY_F(10), LP_KEY_F10}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].code == code)
            return keys[i].key;
    return LP_KEY_OTHER;
}

static int character(wint_t code)
{
    switch (code) {
    case '\r':
    case '\n':
        return LP_KEY_ENTER;
    case 27:
        return LP_KEY_ESCAPE;
    case 8:
    case 127:
        return LP_KEY_ERASE;
    case 12: /* Ctrl-L */
        clearok(curscr, TRUE);
        return LP_KEY_REDRAW;
    default:
        return (int)code;
    }
}

/* LP_KEY_NONE if none is there. */
static int typed_key(void)
{
    wint_t code;
    int kind = get_wch(&code);
    if (kind == ERR)
        return LP_KEY_NONE;
    return kind == KEY_CODE_YES ? named_key(code) : character(code);
}

int lp_screen_wait(struct lp_screen *screen, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = fileno(screen->in), .events = POLLIN}, {.fd = screen->signals_fd, .events = POLLIN}};
    int key = typed_key();
    if (key != LP_KEY_NONE)
        return key;
    if (poll(fds, 2, timeout_ms) <= 0)
        return LP_KEY_NONE;
    if (fds[1].revents != 0)
        key = act_on_signal(screen);
    if (key != LP_KEY_NONE || fds[0].revents == 0)
        return key;
    key = typed_key();
    if (key == LP_KEY_NONE && (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))) {
        screen->ended_by = SIGHUP;
        return LP_KEY_END;
    }
    return key;
}
