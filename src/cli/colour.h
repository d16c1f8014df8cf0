/*
 * cli/colour: --color, and whether a report is coloured.
 */
#ifndef LP_CLI_COLOUR_H
#define LP_CLI_COLOUR_H

#include <stdbool.h>

#include "cli/arguments.h"

enum lp_cli_colour { LP_CLI_COLOUR_AUTO, LP_CLI_COLOUR_ALWAYS, LP_CLI_COLOUR_NEVER };

/* Reads the option's value. 0, or -1 after a line on err. */
int lp_cli_colour_choose(enum lp_cli_colour *colour, const struct lp_cli_arguments *arguments);
/* auto: on a terminal, unless NO_COLOR is set or the terminal is a dumb one. */
bool lp_cli_colour_wanted(enum lp_cli_colour colour, bool terminal);

#endif
