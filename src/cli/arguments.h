/*
 * cli/arguments: getopt_long with manners.
 *
 * One line per mistake, in our words and with the way to the help; operands anywhere, in their
 * order, whatever POSIXLY_CORRECT says; getopt's variables are left as they were found.
 *
 *     lp_cli_arguments_begin(&arguments, cli, command, options, argc, argv);
 *     while ((option = lp_cli_arguments_next(&arguments)) > 0)
 *         ... case LP_CLI_OPERAND: arguments.value ...
 *     lp_cli_arguments_end(&arguments);
 */
#ifndef LP_CLI_ARGUMENTS_H
#define LP_CLI_ARGUMENTS_H

#include <getopt.h>

#include "cli/command.h"

#define LP_CLI_OPERAND 1

struct lp_cli_arguments {
    const struct lp_cli *cli; /* Borrowed, as all here. */
    const struct lp_cli_command *command;
    const struct option *longs;
    int argc;
    char **argv;
    const char *value; /* Of the option, or the operand; until the next call. */
    int rest;          /* Index of the next word once getopt is done; 0 until then. */
    int saved_optind, saved_opterr, saved_optopt;
    char *saved_optarg;
    char spec[32];
};

void lp_cli_arguments_begin(struct lp_cli_arguments *arguments, const struct lp_cli *cli,
                            const struct lp_cli_command *command, const char *shorts, const struct option *longs,
                            int argc, char **argv);
/* The option's letter or value, LP_CLI_OPERAND, 0 at the end, -1 for a mistake, which has then been told. */
int lp_cli_arguments_next(struct lp_cli_arguments *arguments);
void lp_cli_arguments_end(struct lp_cli_arguments *arguments);

/* For commands about one run: takes the operand that is the value. 0, or -1 after a line on err if there is one already. */
int lp_cli_arguments_take_dir(const struct lp_cli_arguments *arguments, const char **dir);
/* 0, or -1 after a line on err if none was named. */
int lp_cli_arguments_need_dir(const struct lp_cli_arguments *arguments, const char *dir);

#endif
