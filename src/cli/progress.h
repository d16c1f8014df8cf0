/*
 * cli/progress: a line on a terminal's stderr while a large run is read.
 *
 * Silent for the first second, on anything that is no terminal, and gone when the reading is done.
 */
#ifndef LP_CLI_PROGRESS_H
#define LP_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"

struct lp_cli_progress {
    FILE *err; /* Borrowed. */
    bool on, shown;
    uint64_t began_ns, shown_ns;
};

void lp_cli_progress_begin(struct lp_cli_progress *progress, FILE *err);
/* Fits lp_run_options.progress; context is the struct. */
void lp_cli_progress_step(void *context, size_t done, size_t total);
void lp_cli_progress_end(struct lp_cli_progress *progress);

#endif
