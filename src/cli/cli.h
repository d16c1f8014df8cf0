/*
 * cli: the command line, shared by the native command and `python -m lineprofiler`.
 *
 * Owns: arguments, exit statuses, where a report goes (terminal, pipe, file), help. One command,
 * one file (command_<name>.c); cli.c finds it by name.
 *
 * A guest in a process that may be a Python interpreter: never exits, installs no signal handler,
 * leaves getopt's variables as they were and whatever it wrote flushed. Not reentrant, because
 * getopt is not.
 *
 * Must not know: what a run directory looks like (run/), what a report says (report/).
 */
#ifndef LP_CLI_CLI_H
#define LP_CLI_CLI_H

#include <stdio.h>

enum lp_cli_status {
    LP_CLI_DONE = 0,
    LP_CLI_GATE = 1, /* A gate that the user set has failed. */
    LP_CLI_WRONG = 2 /* Wrong usage, or no report could be made; one line on err says why. */
};

struct lp_cli_command;

/* Where a command talks to. */
struct lp_cli {
    FILE *out, *err; /* Borrowed. */
    /* What a command that is Python's is handed over to; NULL: nothing. See interpreter.h. */
    int (*run_by_python)(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv);
};

/* Runs one command line as main() would and returns its exit status; out and err are the standard streams. */
int lp_cli_main(int argc, char **argv);
int lp_cli_run(const struct lp_cli *cli, int argc, char **argv);

#endif
