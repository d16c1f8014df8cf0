#include <errno.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/load.h"
#include "cli/output.h"
#include "report/rows.h"

static const char help[] =
    "Options:\n"
    "  --samples csv|jsonl  as comma-separated values with a line of names, or a JSON\n"
    "                       object a line\n"
    "  --gpu                the samples of devices instead of those of processes\n"
    "  --run ID             the attempt of that run id, or of a glob; of several the newest\n"
    "  -o, --output PATH    write to PATH, whole or not at all\n"
    "  -h, --help           this text\n"
    "\n"
    "Each row has the worker, its role, host, rank and pid, the deepest phase that was\n"
    "open, the time in seconds since the epoch, and the fields of docs/format.md. What\n"
    "was not measured is an empty field, or null. Rows stream: a run of any length needs\n"
    "no more memory than its report without samples.\n"
    "\n"
    "Examples:\n"
    "  lineprofiler export profile/ --samples csv -o samples.csv\n"
    "  lineprofiler export profile/ --samples jsonl | jq 'select(.role == \"learner\") | .rss_bytes'\n"
    "\n"
    "Exit status: 0 done; 2 wrong usage, no such directory, or no samples in it: then nothing\n"
    "is written.\n";

struct choices {
    const char *dir, *path, *run_id; /* Borrowed from argv. */
    bool chosen, json, gpu, help;
};

enum { OPTION_SAMPLES = 256, OPTION_GPU, OPTION_RUN };

static const struct option longs[] = {
    {"samples", required_argument, NULL, OPTION_SAMPLES},
    {"gpu", no_argument, NULL, OPTION_GPU},
    {"run", required_argument, NULL, OPTION_RUN},
    {"output", required_argument, NULL, 'o'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int choose_form(struct choices *choices, const struct lp_cli_arguments *arguments)
{
    choices->chosen = true;
    choices->json = strcmp(arguments->value, "jsonl") == 0;
    if (choices->json || strcmp(arguments->value, "csv") == 0)
        return 0;
    lp_cli_wrong(arguments->cli, arguments->command, "no form '%s'; there are csv and jsonl", arguments->value);
    return -1;
}

/* 0, or -1 after a line on err. */
static int choose(void *context, const struct lp_cli_arguments *arguments, int option)
{
    struct choices *choices = context;
    switch (option) {
    case OPTION_SAMPLES:
        return choose_form(choices, arguments);
    case OPTION_RUN:
        choices->run_id = arguments->value;
        return 0;
    case OPTION_GPU:
        choices->gpu = true;
        return 0;
    case 'o':
        return lp_cli_arguments_take_path(arguments, &choices->path);
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
    lp_cli_arguments_begin(&arguments, cli, command, "ho:", longs, argc, argv);
    int error = lp_cli_arguments_read(&arguments, choose, choices, &choices->help);
    if (error != 0 || choices->help)
        return error;
    if (lp_cli_arguments_need_dir(&arguments, choices->dir) != 0)
        return -1;
    if (choices->chosen)
        return 0;
    lp_cli_wrong(cli, command, "say what to export: --samples csv, or --samples jsonl");
    return -1;
}

struct export
{
    const struct lp_cli *cli; /* Borrowed, as all here. */
    const struct lp_cli_command *command;
    struct lp_report_rows *rows;
};

static int put_sample(void *context, const struct lp_run_sample *sample)
{
    const struct export *export = context;
    if (export->rows->n == 0)
        lp_report_rows_head(export->rows);
    return lp_report_rows_put(export->rows, sample);
}

static void tell_fault(void *context, const struct lp_run_worker *worker, const char *reason)
{
    const struct export *export = context;
    lp_cli_wrong(export->cli, export->command, "the samples of %s: %s", worker->worker.bytes, reason);
}

static int export_rows(const struct choices *choices, const struct lp_cli *cli, const struct lp_cli_command *command,
                       const struct lp_run *run)
{
    struct lp_cli_output output;
    struct lp_report_sink sink;
    struct lp_report_rows rows;
    struct export export = {cli, command, &rows};
    const struct lp_run_samples_visitor visitor = {&export, put_sample, tell_fault};
    enum lp_ring_kind kind = choices->gpu ? LP_RING_GPU : LP_RING_PROCESS;
    if (lp_cli_output_open(&output, cli, command, choices->path) != 0)
        return LP_CLI_WRONG;
    lp_report_sink_init(&sink, lp_report_put_file, output.file);
    lp_report_rows_init(&rows, &sink, kind, choices->json);
    if (lp_run_samples_each(run, kind, &visitor) != 0 && sink.error == 0)
        lp_report_fail(&sink, -ENOMEM);
    bool nothing = rows.n == 0 && sink.error == 0;
    lp_report_rows_release(&rows);
    if (!nothing)
        return lp_cli_output_close(&output, sink.error);
    lp_cli_output_drop(&output);
    return lp_cli_wrong(cli, command, "no samples of %s in '%s'%s", choices->gpu ? "devices" : "processes",
                        choices->dir, choices->gpu ? "" : ": were they switched off (sample_interval_s=None)?");
}

static int export(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv)
{
    struct choices choices;
    struct lp_run *run = NULL;
    if (read_arguments(&choices, cli, command, argc, argv) != 0)
        return LP_CLI_WRONG;
    if (choices.help)
        return lp_cli_help(cli, command);
    struct lp_run_options options = {.no_samples = true, .run_id = choices.run_id};
    if (lp_cli_load(&run, choices.dir, &options, cli, command) != 0)
        return LP_CLI_WRONG;
    int status = export_rows(&choices, cli, command, run);
    lp_run_free(run);
    return status;
}

const struct lp_cli_command lp_cli_export = {
    .name = "export",
    .operands = "DIR",
    .summary = "The samples of a run, row by row, for other programs",
    .help = help,
    .run = export,
};
