#include "cli/progress.h"

#include <time.h>
#include <unistd.h>

#define PATIENCE_NS 1000000000u
#define STEP_NS 200000000u

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void lp_cli_progress_begin(struct lp_cli_progress *progress, FILE *err)
{
    *progress = (struct lp_cli_progress){.err = err, .began_ns = now_ns()};
    progress->on = isatty(fileno(err));
}

void lp_cli_progress_step(void *context, size_t done, size_t total)
{
    struct lp_cli_progress *progress = context;
    uint64_t now = now_ns();
    if (!progress->on || now - progress->began_ns < PATIENCE_NS || now - progress->shown_ns < STEP_NS)
        return;
    fprintf(progress->err, "\rreading %zu of %zu worker files", done, total);
    fflush(progress->err);
    progress->shown = true;
    progress->shown_ns = now;
}

void lp_cli_progress_end(struct lp_cli_progress *progress)
{
    if (progress->shown) {
        fputs("\r\033[K", progress->err);
        fflush(progress->err);
    }
}
