/* What host.c loads: it is linked with the library, which comes and stays with it. */
#include <lineprofiler.h>

__attribute__((visibility("default"))) int record(const char *run_dir, int round);

/* In the first round it opens, in the last one it leaves the profiler open, with its keeper running. */
int record(const char *run_dir, int round)
{
    if (round != 1 && lp_installed() == NULL &&
        !lp_open(&(lp_options){.run_dir = run_dir, .run_id = "one", .snapshot_interval_s = 0.01}))
        return -1;
    LP_PHASE("round");
    LP_PHASE_WITH("io", LP_IO, 1.0);
    LP_COUNT("rounds", 1);
    return round == 0 ? lp_snapshot(lp_installed()) : 0;
}
