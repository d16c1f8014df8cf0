#include "cli/cli.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <lineprofiler.h>

int lp_cli_main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("lineprofiler %s (jansson %s)\n", lp_version(), jansson_version_str());
        return 0;
    }
    fprintf(stderr, "usage: lineprofiler --version\n");
    return 2;
}
