/*
 * cli/load: a run directory read for a command, with progress on a terminal's stderr.
 */
#ifndef LP_CLI_LOAD_H
#define LP_CLI_LOAD_H

#include "cli/command.h"
#include "run/run.h"

/* By these options, with the progress filled in. 0, or -1 after a line on err, *run being NULL. */
int lp_cli_load(struct lp_run **run, const char *dir, struct lp_run_options *options, const struct lp_cli *cli,
                const struct lp_cli_command *command);

#endif
