#include "run/live.h"

/* No image reader yet: a run is what its files say. */
int lp_run_live_each(const char *dir, lp_run_live_fn *take, void *context)
{
    (void)dir;
    (void)take;
    (void)context;
    return 0;
}
