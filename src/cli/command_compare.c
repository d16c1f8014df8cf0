/* `lineprofiler compare DIR_A DIR_B`: what changed from one run to the other, and whether it is more than chance. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/compare.h"
#include "cli/arguments.h"
#include "cli/colour.h"
#include "cli/load.h"
#include "cli/output.h"
#include "report/compare.h"

static const char help[] =
    "  --run-a ID           of DIR_A not the newest attempt, but that of this run id or glob\n"
    "  --run-b ID           likewise of DIR_B, which is DIR_A if it is not named\n"
    "  --fail-over PCT      exit with 1 if a phase became slower by more than PCT percent and that is\n"
    "                       more than chance; says which on stderr\n"
    "  --json               the same figures as JSON (docs/compare.md); short for --format json\n"
    "  --format text|json   text is the default\n"
    "  -o, --output PATH    write to PATH, whole or not at all\n"
    "  --color auto|always|never\n"
    "                       auto: on a terminal, unless NO_COLOR is set\n"
    "  -h, --help           this text\n"
    "\n"
    "Phases are matched by role and path; what is compared is the mean time of an entry.\n"
    "\n"
    "Examples:\n"
    "  lineprofiler compare profile_a/ profile_b/\n"
    "  lineprofiler compare baseline/ profile/ --fail-over 5\n"
    "  lineprofiler compare profile/ --run-a 'train-1*'\n"
    "  lineprofiler compare profile_a/ profile_b/ --json | jq '.roles[].phases[] | {path, verdict}'\n"
    "\n"
    "Exit status: 0 done; 1 a phase became slower than --fail-over allows, or none could be tested; 2 wrong\n"
    "usage, no such directory, or nothing readable in it.\n";

typedef int (*writer)(const struct lp_compare *, const struct lp_report_options *, struct lp_report_sink *);

struct choices {
    const char *dirs[2], *run_ids[2], *path; /* Borrowed from argv. */
    size_t n_dirs;
    writer write;
    double fail_over;  /* A fraction; NaN: no gate. */
    const char *limit; /* As it was typed. Borrowed. */
    enum lp_cli_colour colour;
    bool help;
};

enum {
    OPTION_JSON = 256,
    OPTION_FORMAT,
    OPTION_COLOR,
    OPTION_FAIL_OVER,
    OPTION_NO_SAMPLES,
    OPTION_RUN_A,
    OPTION_RUN_B
};

static const struct option longs[] = {
    {"run-a", required_argument, NULL, OPTION_RUN_A},
    {"run-b", required_argument, NULL, OPTION_RUN_B},
    {"fail-over", required_argument, NULL, OPTION_FAIL_OVER},
    {"json", no_argument, NULL, OPTION_JSON},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"no-samples", no_argument, NULL, OPTION_NO_SAMPLES}, /* None are read; as for report. */
    {"output", required_argument, NULL, 'o'},
    {"color", required_argument, NULL, OPTION_COLOR},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int choose_format(struct choices *choices, const struct lp_cli_arguments *arguments)
{
    if (strcmp(arguments->value, "text") == 0)
        choices->write = lp_report_compare_text;
    else if (strcmp(arguments->value, "json") == 0)
        choices->write = lp_report_compare_json;
    else
        return lp_cli_wrong(arguments->cli, arguments->command, "no format '%s'; there are text and json",
                            arguments->value);
    return 0;
}

/* Digits and one point, in any locale: "5", "2.5", "5%". -1 if it is none. */
static double percentage(const char *word)
{
    double value = 0, scale = 1;
    bool point = false;
    size_t digits = 0;
    for (; (*word >= '0' && *word <= '9') || (*word == '.' && !point); word++) {
        if (*word == '.') {
            point = true;
            continue;
        }
        value = value * 10 + (*word - '0');
        scale *= point ? 10 : 1;
        digits++;
    }
    bool whole = *word == '\0' || strcmp(word, "%") == 0;
    return whole && digits > 0 && digits < 16 ? value / scale : -1;
}

static int choose_limit(struct choices *choices, const struct lp_cli_arguments *arguments)
{
    double percent = percentage(arguments->value);
    if (percent < 0)
        return lp_cli_wrong(arguments->cli, arguments->command,
                            "'%s' is no percentage; as in: lineprofiler compare baseline/ profile/ --fail-over 5",
                            arguments->value);
    choices->fail_over = percent / 100;
    choices->limit = arguments->value;
    return 0;
}

static int choose_dir(struct choices *choices, const struct lp_cli_arguments *arguments)
{
    if (choices->n_dirs == 2)
        return lp_cli_wrong(arguments->cli, arguments->command,
                            "two directories at a time: '%s', '%s' and '%s' were named", choices->dirs[0],
                            choices->dirs[1], arguments->value);
    choices->dirs[choices->n_dirs++] = arguments->value;
    return 0;
}

/* 0, or else after a line on err. */
static int choose(void *context, const struct lp_cli_arguments *arguments, int option)
{
    struct choices *choices = context;
    switch (option) {
    case OPTION_JSON:
        choices->write = lp_report_compare_json;
        return 0;
    case OPTION_FORMAT:
        return choose_format(choices, arguments);
    case OPTION_NO_SAMPLES:
        return 0;
    case OPTION_RUN_A:
    case OPTION_RUN_B:
        choices->run_ids[option == OPTION_RUN_B] = arguments->value;
        return 0;
    case OPTION_COLOR:
        return lp_cli_colour_choose(&choices->colour, arguments);
    case OPTION_FAIL_OVER:
        return choose_limit(choices, arguments);
    case 'o':
        return lp_cli_arguments_take_path(arguments, &choices->path);
    case 'h':
        choices->help = true;
        return 0;
    default:
        return choose_dir(choices, arguments);
    }
}

static int read_arguments(struct choices *choices, const struct lp_cli *cli, const struct lp_cli_command *command,
                          int argc, char **argv)
{
    struct lp_cli_arguments arguments;
    *choices = (struct choices){.write = lp_report_compare_text, .fail_over = NAN, .limit = ""};
    lp_cli_arguments_begin(&arguments, cli, command, "ho:", longs, argc, argv);
    int error = lp_cli_arguments_read(&arguments, choose, choices, &choices->help);
    if (choices->n_dirs == 1 && (choices->run_ids[0] || choices->run_ids[1]))
        choices->dirs[choices->n_dirs++] = choices->dirs[0];
    if (error != 0 || choices->help || choices->n_dirs == 2)
        return error;
    return lp_cli_wrong(cli, command, "name two run directories, as in: lineprofiler compare profile_a/ profile_b/");
}

static int write_comparison(const struct choices *choices, const struct lp_cli *cli,
                            const struct lp_cli_command *command, const struct lp_compare *compare)
{
    struct lp_cli_output output;
    struct lp_report_sink sink;
    struct lp_report_options options = {0};
    if (lp_cli_output_open(&output, cli, command, choices->path) != 0)
        return LP_CLI_WRONG;
    bool terminal = lp_cli_output_is_terminal(&output, &options.width);
    options.colour = lp_cli_colour_wanted(choices->colour, terminal);
    lp_report_sink_init(&sink, lp_report_put_file, output.file);
    int error = choices->write(compare, &options, &sink);
    return lp_cli_output_close(&output, error);
}

/* The gate has failed: by how much, and which, on err, wherever the comparison went. */
static void tell(const struct choices *choices, const struct lp_cli *cli, const struct lp_cli_command *command,
                 const struct lp_compare *compare)
{
    struct lp_report_sink sink;
    lp_cli_wrong(cli, command, "%zu of %zu phases slower by more than %.*s%%", compare->n_over, compare->n_tested,
                 (int)strcspn(choices->limit, "%"), choices->limit);
    if (choices->write == lp_report_compare_text && choices->path == NULL)
        return; /* They stand on the page that was just written. */
    lp_report_sink_init(&sink, lp_report_put_file, cli->err);
    lp_report_compare_over(compare, &sink);
    fflush(cli->err);
}

static int judge(const struct choices *choices, const struct lp_cli *cli, const struct lp_cli_command *command,
                 const struct lp_run *a, const struct lp_run *b)
{
    struct lp_compare *compare = NULL;
    if (lp_compare_make(&compare, a, b, choices->fail_over) != 0)
        return lp_cli_wrong(cli, command, "out of memory");
    int status = write_comparison(choices, cli, command, compare);
    if (status == LP_CLI_DONE && !isnan(choices->fail_over) && compare->n_tested == 0) {
        lp_cli_wrong(cli, command, "no phase of one role is in both runs with entries enough to be tested");
        status = LP_CLI_GATE;
    } else if (status == LP_CLI_DONE && compare->n_over > 0) {
        tell(choices, cli, command, compare);
        status = LP_CLI_GATE;
    }
    lp_compare_free(compare);
    return status;
}

static int load(struct lp_run **run, const struct choices *choices, size_t i, const struct lp_cli *cli,
                const struct lp_cli_command *command)
{
    struct lp_run_options options = {.no_samples = true, .run_id = choices->run_ids[i]};
    return lp_cli_load(run, choices->dirs[i], &options, cli, command);
}

static int compare(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv)
{
    struct choices choices;
    struct lp_run *a = NULL, *b = NULL;
    int status = LP_CLI_WRONG;
    if (read_arguments(&choices, cli, command, argc, argv) != 0)
        return LP_CLI_WRONG;
    if (choices.help)
        return lp_cli_help(cli, command);
    if (load(&a, &choices, 0, cli, command) == 0 && load(&b, &choices, 1, cli, command) == 0)
        status = judge(&choices, cli, command, a, b);
    lp_run_free(b);
    lp_run_free(a);
    return status;
}

const struct lp_cli_command lp_cli_compare = {
    .name = "compare",
    .operands = "DIR_A [DIR_B]",
    .summary = "What changed from one run to another, beyond chance",
    .help = help,
    .run = compare,
};
