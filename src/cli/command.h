/*
 * cli/command.h: what a command is, and the manners that all of them share.
 */
#ifndef LP_CLI_COMMAND_H
#define LP_CLI_COMMAND_H

#include "base/compiler.h"
#include "cli/cli.h"

struct lp_cli_command {
    const char *name;
    const char *operands; /* "DIR": what the usage line shows. */
    const char *summary;  /* A line of the list of commands. */
    const char *help;     /* Options and examples, whole lines. */
    /* argv[0] is the command's name. Returns an enum lp_cli_status. */
    int (*run)(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv);
};

extern const struct lp_cli_command lp_cli_report;
extern const struct lp_cli_command lp_cli_compare;
extern const struct lp_cli_command lp_cli_top;
extern const struct lp_cli_command lp_cli_where;
extern const struct lp_cli_command lp_cli_export;
extern const struct lp_cli_command lp_cli_run_command;
extern const struct lp_cli_command lp_cli_config;

/* "lineprofiler report: <message>" as one line on err; returns LP_CLI_WRONG. command may be NULL.
 */
int lp_cli_wrong(const struct lp_cli *cli, const struct lp_cli_command *command, const char *format, ...)
    LP_PRINTF(3, 4);

/* Writes the command's help to out; returns the status. */
int lp_cli_help(const struct lp_cli *cli, const struct lp_cli_command *command);

/* Flushes out, into which a command has written; error is what its writer met (0 or -errno). A
   reader that went away (EPIPE) has what it wanted: quietly done. */
int lp_cli_flush(const struct lp_cli *cli, const struct lp_cli_command *command, int error);

#endif
