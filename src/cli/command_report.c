/* `lineprofiler report DIR`: one run, as text or JSON. */
#include <stdlib.h>

#include "cli/arguments.h"
#include "cli/colour.h"
#include "cli/load.h"
#include "cli/output.h"
#include "report/report.h"
#include "run/run.h"

static const char help[] =
    "  --json               the same figures as JSON (docs/report-json.md); short for --format "
    "json\n"
    "  --format text|json   text is the default\n"
    "  --role NAME          only the processes of that role, or of those that a glob means: 'act*'\n"
    "  --host NAME          only those on that host, likewise\n"
    "  --rank N, --rank A-B only those of that rank, or of these: --rank 0-7. Each of the three may\n"
    "                       be given several times: of one kind any counts, of several all do\n"
    "  --run ID             the attempt of that run id, or of a glob: 'slurm-77*'; of several the newest\n"
    "  --no-samples         phases only: leaves out the resource samples, the bulk of a long run\n"
    "  -o, --output PATH    write to PATH, whole or not at all\n"
    "  --color auto|always|never\n"
    "                       auto: on a terminal, unless NO_COLOR is set\n"
    "  -h, --help           this text\n"
    "\n"
    "A run that is still going can be read at any time, without disturbing it.\n"
    "\n"
    "Examples:\n"
    "  lineprofiler report profile/\n"
    "  lineprofiler report profile/ --json | jq '.roles[].phases[] | {path, wait_share}'\n"
    "  lineprofiler report profile/ --role learner --rank 0-7\n"
    "  lineprofiler report profile/ -o report.txt\n"
    "\n"
    "Exit status: 0 done; 2 wrong usage, no such directory, nothing readable in it, or nobody\n"
    "there of that role, host, rank or run.\n";

struct choices {
    const char *dir, *path, *run_id; /* Borrowed from argv. */
    const struct lp_report_format *format;
    enum lp_cli_colour colour;
    struct lp_run_filter filter; /* Its arrays are Owned, with room for each word of argv. */
    bool no_samples, help;
};

enum {
    OPTION_JSON = 256,
    OPTION_FORMAT,
    OPTION_NO_SAMPLES,
    OPTION_COLOR,
    OPTION_ROLE,
    OPTION_HOST,
    OPTION_RANK,
    OPTION_RUN
};

static const struct option longs[] = {
    {"json", no_argument, NULL, OPTION_JSON},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"no-samples", no_argument, NULL, OPTION_NO_SAMPLES},
    {"role", required_argument, NULL, OPTION_ROLE},
    {"host", required_argument, NULL, OPTION_HOST},
    {"rank", required_argument, NULL, OPTION_RANK},
    {"run", required_argument, NULL, OPTION_RUN},
    {"output", required_argument, NULL, 'o'},
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
        choices->format = &lp_report_json;
        return 0;
    case OPTION_FORMAT:
        choices->format = lp_report_format_find(arguments->value);
        if (choices->format != NULL)
            return 0;
        lp_cli_wrong(arguments->cli, arguments->command, "no format '%s'; there are text and json", arguments->value);
        return -1;
    case OPTION_NO_SAMPLES:
        choices->no_samples = true;
        return 0;
    case OPTION_ROLE:
        choices->filter.roles[choices->filter.n_roles++] = arguments->value;
        return 0;
    case OPTION_HOST:
        choices->filter.hosts[choices->filter.n_hosts++] = arguments->value;
        return 0;
    case OPTION_RANK:
        choices->filter.ranks[choices->filter.n_ranks++] = arguments->value;
        return 0;
    case OPTION_RUN:
        choices->run_id = arguments->value;
        return 0;
    case OPTION_COLOR:
        return lp_cli_colour_choose(&choices->colour, arguments);
    case 'o':
        return lp_cli_arguments_take_path(arguments, &choices->path);
    case 'h':
        choices->help = true;
        return 0;
    default:
        return lp_cli_arguments_take_dir(arguments, &choices->dir);
    }
}

static const char **room_for(int words)
{
    return calloc((size_t)words + 1, sizeof(const char *));
}

static void release_choices(struct choices *choices)
{
    free((void *)choices->filter.roles);
    free((void *)choices->filter.hosts);
    free((void *)choices->filter.ranks);
}

static int read_arguments(struct choices *choices, const struct lp_cli *cli, const struct lp_cli_command *command,
                          int argc, char **argv)
{
    struct lp_cli_arguments arguments;
    *choices = (struct choices){.format = &lp_report_text,
                                .filter = {.roles = room_for(argc), .hosts = room_for(argc), .ranks = room_for(argc)}};
    if (!choices->filter.roles || !choices->filter.hosts || !choices->filter.ranks) {
        lp_cli_wrong(cli, command, "out of memory");
        return -1;
    }
    lp_cli_arguments_begin(&arguments, cli, command, "ho:", longs, argc, argv);
    int error = lp_cli_arguments_read(&arguments, choose, choices, &choices->help);
    return error != 0 || choices->help ? error : lp_cli_arguments_need_dir(&arguments, choices->dir);
}

static int write_report(const struct choices *choices, const struct lp_cli *cli, const struct lp_cli_command *command,
                        const struct lp_analysis *analysis)
{
    struct lp_cli_output output;
    struct lp_report_sink sink;
    struct lp_report_options options = {0};
    if (lp_cli_output_open(&output, cli, command, choices->path) != 0)
        return LP_CLI_WRONG;
    bool terminal = lp_cli_output_is_terminal(&output, &options.width);
    options.colour = lp_cli_colour_wanted(choices->colour, terminal);
    lp_report_sink_init(&sink, lp_report_put_file, output.file);
    int error = choices->format->write(analysis, &options, &sink);
    return lp_cli_output_close(&output, error);
}

static int report_run(const struct choices *choices, const struct lp_cli *cli, const struct lp_cli_command *command)
{
    struct lp_run *run = NULL;
    struct lp_analysis *analysis = NULL;
    int status;
    struct lp_run_options options = {
        .no_samples = choices->no_samples, .filter = &choices->filter, .run_id = choices->run_id};
    if (lp_cli_load(&run, choices->dir, &options, cli, command) != 0)
        return LP_CLI_WRONG;
    if (lp_analysis_make(&analysis, run) == 0)
        status = write_report(choices, cli, command, analysis);
    else
        status = lp_cli_wrong(cli, command, "out of memory");
    lp_analysis_free(analysis);
    lp_run_free(run);
    return status;
}

static int report(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv)
{
    struct choices choices;
    int status = LP_CLI_WRONG;
    if (read_arguments(&choices, cli, command, argc, argv) == 0)
        status = choices.help ? lp_cli_help(cli, command) : report_run(&choices, cli, command);
    release_choices(&choices);
    return status;
}

const struct lp_cli_command lp_cli_report = {
    .name = "report",
    .operands = "DIR",
    .summary = "Where the time of a run went, by role and phase",
    .help = help,
    .run = report,
};
