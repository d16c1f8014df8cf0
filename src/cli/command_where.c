/* `lineprofiler where DIR`: what every worker of a run is doing now. */
#include <sys/ioctl.h>

#include "cli/arguments.h"
#include "cli/colour.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "report/where.h"

static const char help[] =
    "  --json               all of it as JSON, each thread by itself (docs/looking.md)\n"
    "  --all                as many lines as it takes; else a terminal is filled, no more\n"
    "  --color auto|always|never\n"
    "                       auto: on a terminal, unless NO_COLOR is set\n"
    "  -h, --help           this text\n"
    "\n"
    "For each thread of the workers that live on this machine: the phases that are open, from the outside\n"
    "in, for how long, and whether the thread waits or is on a CPU. What has been quiet longest is first.\n"
    "Workers of other nodes are as their newest files say. Disturbs no worker; answers at once, or in\n"
    "seconds where the file server of DIR does not: then with the workers of this machine alone.\n"
    "\n"
    "Examples:\n"
    "  lineprofiler where profile/\n"
    "  lineprofiler where profile/ --json | jq '.workers[].threads[] | {name, state, quiet_ns}'\n"
    "\n"
    "Exit status: 0 done; 2 wrong usage, no such directory, or nothing readable in it.\n";

struct choices {
    const char *dir; /* Borrowed from argv. */
    enum lp_cli_colour colour;
    bool json, all, help;
};

enum { OPTION_JSON = 256, OPTION_ALL, OPTION_COLOR };

static const struct option longs[] = {
    {"json", no_argument, NULL, OPTION_JSON},
    {"all", no_argument, NULL, OPTION_ALL},
    {"color", required_argument, NULL, OPTION_COLOR},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* 0, or -1 after a line on err. */
static int choose(void *context, const struct lp_cli_arguments *arguments, int option)
{
    struct choices *choices = context;
    switch (option) {
    case OPTION_JSON:
        choices->json = true;
        return 0;
    case OPTION_ALL:
        choices->all = true;
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
    *choices = (struct choices){0};
    lp_cli_arguments_begin(&arguments, cli, command, "h", longs, argc, argv);
    int error = lp_cli_arguments_read(&arguments, choose, choices, &choices->help);
    return error != 0 || choices->help ? error : lp_cli_arguments_need_dir(&arguments, choices->dir);
}

/* The lines of a terminal, but for the one that the next prompt takes; 0: unknown. */
static size_t rows_of(const struct lp_cli_output *output)
{
    struct winsize size = {0};
    if (ioctl(fileno(output->file), TIOCGWINSZ, &size) != 0 || size.ws_row < 2)
        return 0;
    return size.ws_row - 1u;
}

static int write_where(const struct choices *choices, const struct lp_cli *cli, const struct lp_cli_command *command,
                       const struct lp_where *where)
{
    struct lp_cli_output output;
    struct lp_report_sink sink;
    struct lp_report_where_options options = {0};
    if (lp_cli_output_open(&output, cli, command, NULL) != 0)
        return LP_CLI_WRONG;
    bool terminal = lp_cli_output_is_terminal(&output, &options.width);
    options.colour = lp_cli_colour_wanted(choices->colour, terminal);
    if (terminal && !choices->all)
        options.rows = rows_of(&output);
    lp_report_sink_init(&sink, lp_report_put_file, output.file);
    int error =
        choices->json ? lp_report_where_json(where, &options, &sink) : lp_report_where_text(where, &options, &sink);
    return lp_cli_output_close(&output, error);
}

static int where(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv)
{
    char message[1024];
    struct choices choices;
    struct lp_cli_progress progress;
    struct lp_where *found;
    if (read_arguments(&choices, cli, command, argc, argv) != 0)
        return LP_CLI_WRONG;
    if (choices.help)
        return lp_cli_help(cli, command);
    lp_cli_progress_begin(&progress, cli->err);
    int status = lp_where_load(&found, choices.dir, lp_cli_progress_step, &progress, message, sizeof message);
    lp_cli_progress_end(&progress);
    if (status != LP_RUN_OK)
        return lp_cli_wrong(cli, command, "%s", message);
    status = write_where(&choices, cli, command, found);
    lp_where_free(found);
    return status;
}

const struct lp_cli_command lp_cli_where = {
    .name = "where",
    .operands = "DIR",
    .summary = "What every worker of a live run is doing now",
    .help = help,
    .run = where,
};
