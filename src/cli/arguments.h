/*
 * cli/arguments: getopt_long with manners.
 *
 * One line per mistake, in our words and with the way to the help; operands anywhere, in their
 * order, whatever POSIXLY_CORRECT says; getopt's variables are left as they were found.
 *
 *     lp_cli_arguments_begin(&arguments, cli, command, options, argc, argv);
 *     lp_cli_arguments_read(&arguments, choose, &choices, &choices.help);
 */
#ifndef LP_CLI_ARGUMENTS_H
#define LP_CLI_ARGUMENTS_H

#include <getopt.h>
#include <stdbool.h>

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
/* What a command makes of an option or operand; 0, or -1 after a line on err. */
typedef int lp_cli_choose_fn(void *choices, const struct lp_cli_arguments *arguments, int option);

/* Hands all of them to choose, up to the first mistake, or until *help is true. 0 or -1. */
int lp_cli_arguments_read(struct lp_cli_arguments *arguments, lp_cli_choose_fn *choose, void *choices,
                          const bool *help);

/* Takes the option's value as the path to write to. 0, or -1 after a line on err if it is empty. */
int lp_cli_arguments_take_path(const struct lp_cli_arguments *arguments, const char **path);
/* For commands about one run: takes the operand that is the value. 0, or -1 after a line on err if there is one already. */
int lp_cli_arguments_take_dir(const struct lp_cli_arguments *arguments, const char **dir);
/* 0, or -1 after a line on err if none was named. */
int lp_cli_arguments_need_dir(const struct lp_cli_arguments *arguments, const char *dir);

#endif
