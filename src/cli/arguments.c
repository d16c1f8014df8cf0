#include "cli/arguments.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void lp_cli_arguments_begin(struct lp_cli_arguments *arguments, const struct lp_cli *cli,
                            const struct lp_cli_command *command, const char *shorts, const struct option *longs,
                            int argc, char **argv)
{
    *arguments = (struct lp_cli_arguments){.cli = cli,
                                           .command = command,
                                           .longs = longs,
                                           .argc = argc,
                                           .argv = argv,
                                           .saved_optind = optind,
                                           .saved_opterr = opterr,
                                           .saved_optopt = optopt,
                                           .saved_optarg = optarg};
    /* '-': operands come in their place. ':': a missing value is told from an unknown option. */
    snprintf(arguments->spec, sizeof arguments->spec, "-:%s", shorts);
    optind = 0; /* GNU: begin anew. */
    opterr = 0;
}

static bool has_value_of(const struct option *longs, int value)
{
    for (; longs->name != NULL; longs++)
        if (longs->val == value)
            return true;
    return false;
}

/* getopt says which letter or value it stumbled over in optopt (0: no option of that name), and has just left the
   word. */
static int mistake(const struct lp_cli_arguments *arguments, int option)
{
    const char letter[] = {'-', (char)optopt, '\0'};
    const char *word = arguments->argv[optind - 1];
    const char *what = "unknown option '%s'; see lineprofiler %s --help";
    if (option == ':')
        what = "option '%s' needs a value; see lineprofiler %s --help";
    else if (optopt != 0 && has_value_of(arguments->longs, optopt))
        what = "option '%s' takes no value; see lineprofiler %s --help";
    else if (optopt > ' ' && optopt < 127)
        word = letter;
    lp_cli_wrong(arguments->cli, arguments->command, what, word, arguments->command->name);
    return -1;
}

/* Behind "--" only operands are left; getopt has stopped there. */
static int next_of_rest(struct lp_cli_arguments *arguments)
{
    if (arguments->rest >= arguments->argc)
        return 0;
    arguments->value = arguments->argv[arguments->rest++];
    return LP_CLI_OPERAND;
}

/* The option's letter or value, LP_CLI_OPERAND, 0 at the end, -1 for a mistake, which has then been told. */
static int next(struct lp_cli_arguments *arguments)
{
    if (arguments->rest > 0)
        return next_of_rest(arguments);
    int option = getopt_long(arguments->argc, arguments->argv, arguments->spec, arguments->longs, NULL);
    if (option == '?' || option == ':')
        return mistake(arguments, option);
    arguments->value = optarg;
    if (option != -1)
        return option;
    arguments->rest = optind;
    return next_of_rest(arguments);
}

static void end(struct lp_cli_arguments *arguments)
{
    optind = arguments->saved_optind;
    opterr = arguments->saved_opterr;
    optopt = arguments->saved_optopt;
    optarg = arguments->saved_optarg;
}

int lp_cli_arguments_read(struct lp_cli_arguments *arguments, lp_cli_choose_fn *choose, void *choices, const bool *help)
{
    int option, error = 0;
    while (error == 0 && !*help && (option = next(arguments)) != 0)
        error = option < 0 ? -1 : choose(choices, arguments, option);
    end(arguments);
    return error;
}

int lp_cli_arguments_take_path(const struct lp_cli_arguments *arguments, const char **path)
{
    if (arguments->value[0] != '\0') {
        *path = arguments->value;
        return 0;
    }
    lp_cli_wrong(arguments->cli, arguments->command, "-o names no file: give its path, or - for standard output");
    return -1;
}

int lp_cli_arguments_take_dir(const struct lp_cli_arguments *arguments, const char **dir)
{
    if (*dir == NULL) {
        *dir = arguments->value;
        return 0;
    }
    lp_cli_wrong(arguments->cli, arguments->command, "one directory at a time: '%s' and '%s' were named", *dir,
                 arguments->value);
    return -1;
}

int lp_cli_arguments_need_dir(const struct lp_cli_arguments *arguments, const char *dir)
{
    if (dir != NULL)
        return 0;
    lp_cli_wrong(arguments->cli, arguments->command, "name the run directory, as in: lineprofiler %s profile/",
                 arguments->command->name);
    return -1;
}
