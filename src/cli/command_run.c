/* The one command that Python runs: a program, in this process. */
#include <string.h>

#include "cli/command.h"

static const char help[] = "The program finds its arguments, __main__ and sys.path as \"python SCRIPT\" has\n"
                           "them, and its exit status is kept. When it has ended, in whatever way but a kill,\n"
                           "the lines of its code that took the most time are printed to standard error.\n"
                           "\n"
                           "Options, before the program:\n"
                           "  -m MODULE            a module instead of a script, as with \"python -m\"\n"
                           "  --top N              how many lines to print; 20 by default, 0 for no summary\n"
                           "  --functions GLOB     only functions whose qualified names match; may be repeated\n"
                           "  --project DIR        code in files below DIR is measured. By default that is the\n"
                           "                       nearest folder with a .git, upwards from the script, else\n"
                           "                       the script's own folder; of a module, from here\n"
                           "  --html PATH          write a page with the annotated source\n"
                           "  --lprof PATH         write what \"python -m line_profiler\" reads\n"
                           "  --json PATH          write all figures as JSON\n"
                           "  -h, --help           this text\n"
                           "\n"
                           "Examples:\n"
                           "  lineprofiler run train.py --epochs 3\n"
                           "  lineprofiler run --html lines.html --functions 'Search.*' -m package.train\n"
                           "\n"
                           "Exit status: the program's; 2 wrong usage, no such program, or a file that cannot\n"
                           "be written.\n";

static int run(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return lp_cli_help(cli, command);
    if (cli->run_by_python != NULL)
        return cli->run_by_python(cli, command, argc, argv);
    return lp_cli_wrong(cli, command, "start it as: lineprofiler run, or python -m lineprofiler run");
}

const struct lp_cli_command lp_cli_run_command = {
    .name = "run",
    .operands = "SCRIPT...",
    .summary = "A Python program, measured line by line",
    .help = help,
    .run = run,
};
