/*
 * The command line, shared by the native command and `python -m lineprofiler`.
 */
#ifndef LP_CLI_CLI_H
#define LP_CLI_CLI_H

/* Runs one command line as main() would and returns its exit status. */
int lp_cli_main(int argc, char **argv);

#endif
