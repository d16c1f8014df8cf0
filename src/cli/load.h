/*
 * cli/load: a run directory read for a command, with progress on a terminal's stderr.
 */
#ifndef LP_CLI_LOAD_H
#define LP_CLI_LOAD_H

#include "cli/command.h"
#include "run/run.h"

/* 0, or -1 after a line on err, *run being NULL. */
int lp_cli_load(struct lp_run **run, const char *dir, bool no_samples, const struct lp_cli *cli,
                const struct lp_cli_command *command);
/* The same of the workers that the filter takes. */
int lp_cli_load_some(struct lp_run **run, const char *dir, bool no_samples, const struct lp_run_filter *filter,
                     const struct lp_cli *cli, const struct lp_cli_command *command);

#endif
