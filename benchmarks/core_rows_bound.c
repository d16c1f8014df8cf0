/* An object that does not link the library: it is given a table. */
#define LINEPROFILER_BOUND
#include "core_rows.h"

static lp_profiler *profiler;
static lp_name outer;

void core_bind(const lp_api *table, lp_profiler *of, lp_name name)
{
    lp_bind(table);
    profiler = of;
    outer = name;
}

void core_bound_pair(int turns)
{
    for (int i = 0; i < turns; i++) {
        lp_phase phase = lp_enter(profiler, outer);
        lp_leave(&phase);
    }
}

void core_bound_macro(int turns)
{
    for (int i = 0; i < turns; i++) {
        LP_PHASE("outer");
    }
}
