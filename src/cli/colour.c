#include "cli/colour.h"

#include <stdlib.h>
#include <string.h>

int lp_cli_colour_choose(enum lp_cli_colour *colour, const struct lp_cli_arguments *arguments)
{
    static const char *const words[] = {"auto", "always", "never"};
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(arguments->value, words[i]) == 0) {
            *colour = (enum lp_cli_colour)i;
            return 0;
        }
    }
    lp_cli_wrong(arguments->cli, arguments->command, "no color '%s'; there are auto, always and never",
                 arguments->value);
    return -1;
}

bool lp_cli_colour_wanted(enum lp_cli_colour colour, bool terminal)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    if (colour != LP_CLI_COLOUR_AUTO)
        return colour == LP_CLI_COLOUR_ALWAYS;
    return terminal && (no_colour == NULL || *no_colour == '\0') && !(term != NULL && strcmp(term, "dumb") == 0);
}
