#include "cli/load.h"

#include "cli/progress.h"

int lp_cli_load(struct lp_run **run, const char *dir, struct lp_run_options *options, const struct lp_cli *cli,
                const struct lp_cli_command *command)
{
    char message[1024];
    struct lp_cli_progress progress;
    lp_cli_progress_begin(&progress, cli->err);
    options->progress = lp_cli_progress_step;
    options->progress_context = &progress;
    int status = lp_run_load(run, dir, options, message, sizeof message);
    lp_cli_progress_end(&progress);
    if (status == LP_RUN_OK)
        return 0;
    lp_cli_wrong(cli, command, "%s", message);
    return -1;
}
