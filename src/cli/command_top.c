/* `lineprofiler top DIR`: a run that is going on, looked at live. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/emit.h"
#include "cli/arguments.h"
#include "cli/colour.h"
#include "cli/screen.h"
#include "cli/watch.h"
#include "report/label.h"
#include "report/report.h"
#include "report/top.h"

static const char help[] =
    "  -i, --interval S     seconds from one reading to the next, 0.1 to 3600; 1 is the default\n"
    "  --once               two readings, an interval apart, as plain text: phases, then workers\n"
    "  --workers            begin with the workers\n"
    "  --sort KEY           sort by a column: share, self, wait, calls, each, name; of the workers:\n"
    "                       share, wait, calls, rss, for, pid, rank, index, host,\n"
    "                       role, state, name\n"
    "  --filter TEXT        only what contains TEXT: role, path, counter; pid, host, state\n"
    "  --color auto|always|never\n"
    "                       auto: unless NO_COLOR is set\n"
    "  -h, --help           this text\n"
    "\n"
    "Only reads, and never disturbs what it watches. Workers on this machine are read as they are now,\n"
    "those on other nodes by what they wrote last, if the directory is shared. Keys: h lists them.\n"
    "\n"
    "Examples:\n"
    "  lineprofiler top profile/\n"
    "  lineprofiler top profile/ --workers --sort rss\n"
    "  lineprofiler top profile/ --once --interval 10 > now.txt\n"
    "\n"
    "Exit status: 0 left by q or Ctrl-C, or done; 2 wrong usage, no such directory, nothing readable in\n"
    "it, or no terminal to draw on.\n";

#define INTERVAL_MIN_S 0.1
#define INTERVAL_MAX_S 3600.0
#define FIRST_S 0.25 /* After the first reading one does not want to wait. */
#define CPU_PART 10  /* Of this many parts of the time, reading uses a core for one at most, */
#define WALL_PART 4  /* and is under way, perhaps waiting for a file server, for one of this many. */
#define FILTER_BYTES 128

struct choices {
    const char *dir, *filter; /* Borrowed from argv. */
    double interval_s;
    enum lp_cli_colour colour;
    enum lp_top_key sort[LP_TOP_TABLES];
    bool once, workers, help;
};

enum { OPTION_ONCE = 256, OPTION_WORKERS, OPTION_SORT, OPTION_FILTER, OPTION_COLOR };

static const struct option longs[] = {
    {"interval", required_argument, NULL, 'i'},
    {"once", no_argument, NULL, OPTION_ONCE},
    {"workers", no_argument, NULL, OPTION_WORKERS},
    {"sort", required_argument, NULL, OPTION_SORT},
    {"filter", required_argument, NULL, OPTION_FILTER},
    {"color", required_argument, NULL, OPTION_COLOR},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* --- arguments --- */

static int choose_interval(struct choices *choices, const struct lp_cli_arguments *arguments)
{
    char *end;
    double value = strtod(arguments->value, &end);
    if (end != arguments->value && *end == '\0' && value >= INTERVAL_MIN_S && value <= INTERVAL_MAX_S) {
        choices->interval_s = value;
        return 0;
    }
    lp_cli_wrong(arguments->cli, arguments->command, "'%s' is no interval; give seconds, 0.1 to 3600",
                 arguments->value);
    return -1;
}

/* In every table that has the column. */
static int choose_sort(struct choices *choices, const struct lp_cli_arguments *arguments)
{
    bool found = false;
    for (int mode = 0; mode < LP_TOP_TABLES; mode++) {
        size_t n;
        const enum lp_top_key *keys = lp_top_keys((enum lp_top_mode)mode, &n);
        for (size_t i = 0; i < n; i++) {
            if (strcmp(lp_top_key_name(keys[i]), arguments->value) == 0) {
                choices->sort[mode] = keys[i];
                found = true;
            }
        }
    }
    if (found)
        return 0;
    lp_cli_wrong(arguments->cli, arguments->command, "nothing can be sorted by '%s'; see lineprofiler top --help",
                 arguments->value);
    return -1;
}

/* 0, or -1 after a line on err. */
static int choose(void *context, const struct lp_cli_arguments *arguments, int option)
{
    struct choices *choices = context;
    switch (option) {
    case 'i':
        return choose_interval(choices, arguments);
    case OPTION_ONCE:
        choices->once = true;
        return 0;
    case OPTION_WORKERS:
        choices->workers = true;
        return 0;
    case OPTION_SORT:
        return choose_sort(choices, arguments);
    case OPTION_FILTER:
        choices->filter = arguments->value;
        return 0;
    case OPTION_COLOR:
        return lp_cli_colour_choose(&choices->colour, arguments);
    case 'h':
        choices->help = true;
        return 0;
    default:
        return lp_cli_arguments_take_dir(arguments, &choices->dir);
    }
}

static int read_arguments(struct choices *choices, const struct lp_cli *cli, const struct lp_cli_command *command,
                          int argc, char **argv)
{
    struct lp_cli_arguments arguments;
    *choices = (struct choices){.interval_s = 1};
    lp_cli_arguments_begin(&arguments, cli, command, "hi:", longs, argc, argv);
    int error = lp_cli_arguments_read(&arguments, choose, choices, &choices->help);
    return error != 0 || choices->help ? error : lp_cli_arguments_need_dir(&arguments, choices->dir);
}

/* --- one frame as text --- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Of COLUMNS, else of the terminal. */
static size_t width_of(FILE *out)
{
    struct winsize size = {0};
    const char *text = getenv("COLUMNS");
    unsigned long columns = text != NULL ? strtoul(text, NULL, 10) : 0;
    if (columns == 0 && ioctl(fileno(out), TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    return columns >= 20 && columns <= 1000 ? columns : LP_REPORT_WIDTH;
}

static int write_table(const struct lp_top *top, struct lp_top_view *view, size_t width, struct lp_report_sink *sink)
{
    struct lp_frame frame = {0};
    size_t rows;
    int error = lp_top_height(&rows, top, view);
    if (!error)
        error = lp_frame_init(&frame, rows, width);
    if (!error)
        error = lp_top_draw(&frame, top, view);
    if (!error)
        lp_frame_write(&frame, sink);
    lp_frame_release(&frame);
    return error ? error : sink->error;
}

static int write_once(struct lp_watch *watch, struct lp_top_view *view, const struct lp_cli *cli,
                      const struct lp_cli_command *command)
{
    struct lp_report_sink sink;
    size_t width = width_of(cli->out);
    lp_report_sink_init(&sink, lp_report_put_file, cli->out);
    view->mode = LP_TOP_PHASES;
    int error = write_table(watch->top, view, width, &sink);
    lp_report_puts(&sink, "\n");
    view->mode = LP_TOP_WORKERS;
    if (!error)
        error = write_table(watch->top, view, width, &sink);
    return lp_cli_flush(cli, command, error);
}

static int once(struct lp_watch *watch, struct lp_top_view *view, const struct lp_cli *cli,
                const struct lp_cli_command *command)
{
    char message[1024];
    struct timespec pause = {.tv_sec = (time_t)(watch->interval_ns / 1000000000u),
                             .tv_nsec = (long)(watch->interval_ns % 1000000000u)};
    if (lp_watch_read(watch, message, sizeof message) != 0)
        return lp_cli_wrong(cli, command, "%s", message);
    while (nanosleep(&pause, &pause) != 0)
        ;
    if (lp_watch_read(watch, message, sizeof message) != 0)
        return lp_cli_wrong(cli, command, "%s", message);
    return write_once(watch, view, cli, command);
}

/* --- the screen --- */

struct session {
    struct lp_watch *watch; /* Borrowed, as all here. */
    struct lp_screen *screen;
    struct lp_top_view view;
    enum lp_top_mode before_help;
    char filter[FILTER_BYTES], message[1024];
    uint64_t next_ns; /* The next reading. */
    double interval_s;
    bool leaving;
};

static void draw(struct session *session)
{
    struct lp_frame frame;
    size_t rows, columns;
    lp_screen_size(session->screen, &rows, &columns);
    if (lp_frame_init(&frame, rows, columns) == 0 && lp_top_draw(&frame, session->watch->top, &session->view) == 0)
        lp_screen_draw(session->screen, &frame);
    lp_frame_release(&frame);
}

static void read_again(struct session *session)
{
    struct lp_watch *watch = session->watch;
    bool failed = lp_watch_read(watch, session->message, sizeof session->message) != 0;
    session->view.message = failed ? session->message : NULL;
    double cpu_s = (double)watch->took_cpu_ns * 1e-9, wall_s = (double)watch->took_wall_ns * 1e-9;
    session->view.every_s = fmax(session->interval_s, fmax(cpu_s * (CPU_PART - 1), wall_s * (WALL_PART - 1)));
    session->next_ns = now_ns() + (uint64_t)(session->view.every_s * 1e9);
}

static void cycle_sort(struct lp_top_view *view, bool back)
{
    size_t n, at = 0;
    if (view->mode == LP_TOP_HELP)
        return;
    const enum lp_top_key *keys = lp_top_keys(view->mode, &n);
    while (at < n && keys[at] != view->sort[view->mode])
        at++;
    if (back)
        at = at > 0 ? at - 1 : n - 1;
    else
        at = at + 1 < n ? at + 1 : 0;
    view->sort[view->mode] = keys[at];
    view->scroll = 0;
}

static void sort_by(struct lp_top_view *view, enum lp_top_key phases, enum lp_top_key workers)
{
    if (view->mode == LP_TOP_HELP)
        return;
    view->sort[view->mode] = view->mode == LP_TOP_WORKERS ? workers : phases;
    view->scroll = 0;
}

static void show(struct lp_top_view *view, enum lp_top_mode mode)
{
    view->mode = mode;
    view->scroll = 0;
}

/* --- the filter --- */

static void drop_character(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && ((unsigned char)text[len - 1] & 0xc0u) == 0x80)
        len--;
    text[len > 0 ? len - 1 : 0] = '\0';
}

static void add_character(char *text, int key)
{
    char bytes[4];
    size_t len = strlen(text), n = lp_report_encode((uint32_t)key, bytes);
    if (key < ' ' || lp_report_shown((uint32_t)key) != (uint32_t)key || len + n >= FILTER_BYTES)
        return;
    memcpy(text + len, bytes, n);
    text[len + n] = '\0';
}

static void type_filter(struct session *session, int key)
{
    switch (key) {
    case LP_KEY_ESCAPE:
        session->filter[0] = '\0';
        session->view.typing = false;
        break;
    case LP_KEY_ENTER:
        session->view.typing = false;
        break;
    case LP_KEY_ERASE:
        drop_character(session->filter);
        break;
    case 21: /* Ctrl-U */
        session->filter[0] = '\0';
        break;
    default:
        if (key > 0)
            add_character(session->filter, key);
    }
    session->view.scroll = 0;
}

/* --- keys --- */

static void scroll(struct session *session, int key)
{
    size_t rows, columns, *at = &session->view.scroll;
    lp_screen_size(session->screen, &rows, &columns);
    size_t page = rows > 7 ? rows - 6 : 1; /* A line stays. */
    switch (key) {
    case LP_KEY_UP:
    case 'k':
        *at -= *at > 0;
        break;
    case LP_KEY_DOWN:
    case 'j':
        ++*at;
        break;
    case LP_KEY_PAGE_UP:
        *at -= *at < page ? *at : page;
        break;
    case LP_KEY_PAGE_DOWN:
        *at += page;
        break;
    case LP_KEY_HOME:
    case 'g':
        *at = 0;
        break;
    case LP_KEY_LAST:
    case 'G':
        *at = SIZE_MAX / 2;
        break;
    default:
        break;
    }
}

static void toggle_pause(struct session *session)
{
    session->view.paused = !session->view.paused;
    session->next_ns = now_ns();
}

static void act(struct session *session, int key)
{
    struct lp_top_view *view = &session->view;
    switch (key) {
    case LP_KEY_END:
    case LP_KEY_F10:
    case 'q':
    case 'Q':
        session->leaving = true;
        break;
    case 'w':
        show(view, LP_TOP_WORKERS);
        break;
    case 'p':
        show(view, LP_TOP_PHASES);
        break;
    case '\t':
        show(view, view->mode == LP_TOP_WORKERS ? LP_TOP_PHASES : LP_TOP_WORKERS);
        break;
    case 'h':
    case '?':
    case LP_KEY_F1:
        session->before_help = view->mode;
        show(view, LP_TOP_HELP);
        break;
    case 's':
    case '>':
    case LP_KEY_RIGHT:
        cycle_sort(view, false);
        break;
    case '<':
    case LP_KEY_LEFT:
        cycle_sort(view, true);
        break;
    case 'T':
        sort_by(view, LP_TOP_BY_SHARE, LP_TOP_BY_SHARE);
        break;
    case 'M':
        sort_by(view, view->sort[LP_TOP_PHASES], LP_TOP_BY_RSS);
        break;
    case 'N':
        sort_by(view, LP_TOP_BY_NAME, LP_TOP_BY_PID);
        break;
    case 'R':
        view->reversed = !view->reversed;
        break;
    case 'i':
        view->hide_idle = !view->hide_idle;
        break;
    case '/':
        view->typing = true;
        break;
    case LP_KEY_ESCAPE:
        session->filter[0] = '\0';
        break;
    case ' ':
        toggle_pause(session);
        break;
    default:
        scroll(session, key);
    }
}

static void take_key(struct session *session, int key)
{
    struct lp_top_view *view = &session->view;
    if (key == LP_KEY_END)
        session->leaving = true;
    else if (view->typing)
        type_filter(session, key);
    else if (view->mode == LP_TOP_HELP && key == LP_KEY_REDRAW)
        return;
    else if (view->mode == LP_TOP_HELP && key != 'q' && key != LP_KEY_F10)
        show(view, session->before_help);
    else
        act(session, key);
}

static int time_left_ms(const struct session *session)
{
    uint64_t now = now_ns();
    if (session->view.paused)
        return -1;
    return session->next_ns > now ? (int)((session->next_ns - now) / 1000000u) + 1 : 0;
}

static void watch_it(struct session *session)
{
    double first_s = session->interval_s < FIRST_S ? session->interval_s : FIRST_S;
    session->next_ns = now_ns() + (uint64_t)(first_s * 1e9);
    while (!session->leaving) {
        draw(session);
        int key = lp_screen_wait(session->screen, time_left_ms(session));
        if (key != LP_KEY_NONE)
            take_key(session, key);
        else if (!session->view.paused && now_ns() >= session->next_ns)
            read_again(session);
    }
}

/* As the signal's own action would have ended it, now that the terminal is given back. Ctrl-C is a way to leave. */
static int end_by(int signal)
{
    if (signal == 0 || signal == SIGINT)
        return LP_CLI_DONE;
    kill(getpid(), signal);
    return 128 + signal;
}

static int live(struct lp_watch *watch, const struct lp_top_view *view, const struct choices *choices,
                const struct lp_cli *cli, const struct lp_cli_command *command)
{
    struct session session = {.watch = watch, .view = *view, .interval_s = choices->interval_s};
    if (!isatty(fileno(cli->out)) || !isatty(fileno(stdin)))
        return lp_cli_wrong(cli, command, "this is no terminal to draw on; --once prints plain text");
    if (lp_watch_read(watch, session.message, sizeof session.message) != 0)
        return lp_cli_wrong(cli, command, "%s", session.message);
    if (choices->filter != NULL)
        strncat(session.filter, choices->filter, FILTER_BYTES - 1);
    session.view.filter = session.filter;
    session.view.every_s = choices->interval_s;
    bool colour = lp_cli_colour_wanted(choices->colour, true);
    if (lp_screen_open(&session.screen, stdin, cli->out, colour, session.message, sizeof session.message) != 0)
        return lp_cli_wrong(cli, command, "%s", session.message);
    watch_it(&session);
    return end_by(lp_screen_close(session.screen));
}

static int top(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv)
{
    struct choices choices;
    if (read_arguments(&choices, cli, command, argc, argv) != 0)
        return LP_CLI_WRONG;
    if (choices.help)
        return lp_cli_help(cli, command);
    struct lp_watch watch = {.dir = choices.dir, .interval_ns = (uint64_t)(choices.interval_s * 1e9)};
    struct lp_top_view view = {.mode = choices.workers ? LP_TOP_WORKERS : LP_TOP_PHASES,
                               .sort = {choices.sort[0], choices.sort[1]},
                               .filter = choices.filter};
    int status = choices.once ? once(&watch, &view, cli, command) : live(&watch, &view, &choices, cli, command);
    lp_watch_release(&watch);
    return status;
}

const struct lp_cli_command lp_cli_top = {
    .name = "top",
    .operands = "DIR",
    .summary = "A run that is going on, live: what its roles and workers do now",
    .help = help,
    .run = top,
};
