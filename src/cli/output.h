/*
 * cli/output: the file that a report goes to with -o, or standard output.
 *
 * A file is written under a temporary name beside it and renamed when it is whole, so that a full
 * disk or a kill never leaves half a report where a whole one stood; it keeps the modes of the file
 * that it replaces. What is no regular file (a pipe, /dev/stdout) is written as it stands.
 */
#ifndef LP_CLI_OUTPUT_H
#define LP_CLI_OUTPUT_H

#include <stdbool.h>

#include "cli/command.h"

struct lp_cli_output {
    const struct lp_cli *cli;             /* Borrowed. */
    const struct lp_cli_command *command; /* Borrowed. */
    FILE *file;                           /* Where to write. Owned unless it is cli->out. */
    char *path;                           /* Owned; NULL for standard output. */
    char *temporary;                      /* Owned; NULL where path itself is written. */
};

/* path NULL or "-": standard output. 0, or -1 after a line on err. */
int lp_cli_output_open(struct lp_cli_output *output, const struct lp_cli *cli, const struct lp_cli_command *command,
                       const char *path);
/* Ends it; error is what the writer met (0 or -errno). Returns the status of the command. */
int lp_cli_output_close(struct lp_cli_output *output, int error);
/* Ends it where nothing was written, and leaves no trace: what stood at the path stays. */
void lp_cli_output_drop(struct lp_cli_output *output);
/* Whether it is a terminal, and how many columns that has (0: unknown). */
bool lp_cli_output_is_terminal(const struct lp_cli_output *output, size_t *columns);

#endif
