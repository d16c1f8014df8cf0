/* A program that exits in the middle of a phase, 20 ms after it has entered it, and does not close. */
#include <lineprofiler.h>

#include <stdlib.h>
#include <time.h>

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    const lp_options options = {.run_id = "one", .snapshot_interval_s = 3600, .sample_interval_s = -1};
    lp_options with_folder = options;
    if (argc < 2)
        return 2;
    with_folder.run_dir = argv[1];
    if (!lp_open(&with_folder))
        return 3;
    LP_PHASE("inside");
    for (double until_s = now_s() + 0.02; now_s() < until_s;)
        continue;
    exit(0);
}
