/*
 * cli/interpreter: hands a command over to Python, which takes this process over.
 *
 * Only in the native command: who calls lp_cli_main() from within Python runs such a command itself.
 */
#ifndef LP_CLI_INTERPRETER_H
#define LP_CLI_INTERPRETER_H

#include "cli/command.h"

/* Returns, an enum lp_cli_status, only if there is no interpreter. argv[0] is the command's name. */
int lp_cli_run_by_python(const struct lp_cli *cli, const struct lp_cli_command *command, int argc, char **argv);

#endif
