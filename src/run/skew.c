#include "run/skew.h"

#include <string.h>

#define SECOND_NS 1000000000
#define TICK_NS 20000000              /* A kernel stamps files by a clock that it sets at each tick. */
#define COARSE_NS INT64_C(2000000000) /* Some file systems keep seconds, the coarsest every second one. */
#define NOTABLE_NS SECOND_NS

/* How far a host's clock is ahead of the file server's: the middle, and how far off that may be. */
struct offset {
    const struct lp_run_worker *worker; /* NULL: not known. */
    int64_t middle_ns, half_ns;
};

static struct offset offset_of(const struct lp_run_worker *worker)
{
    const struct lp_run_folder_clock *clock = &worker->folder_clock;
    if (!clock->stamped_ns || clock->after_ns < clock->before_ns)
        return (struct offset){NULL, 0, 0};
    int64_t late_ns = clock->stamped_ns % SECOND_NS == 0 ? COARSE_NS : TICK_NS;
    int64_t least_ns = (int64_t)clock->before_ns - (int64_t)clock->stamped_ns - late_ns;
    int64_t most_ns = (int64_t)clock->after_ns - (int64_t)clock->stamped_ns;
    int64_t half_ns = (most_ns - least_ns) / 2;
    return (struct offset){worker, least_ns + half_ns, half_ns};
}

static bool is_sharper(const struct offset *offset, const struct offset *than)
{
    return offset->worker && (!than->worker || offset->half_ns < than->half_ns);
}

/* The sharpest of a host's; *i goes on to the next host. */
static struct offset offset_of_host(const struct lp_run *run, size_t *i)
{
    struct offset sharpest = {NULL, 0, 0};
    const char *host = run->workers[*i].host.bytes;
    for (; *i < run->n_workers && strcmp(run->workers[*i].host.bytes, host) == 0; ++*i) {
        struct offset offset = offset_of(&run->workers[*i]);
        if (is_sharper(&offset, &sharpest))
            sharpest = offset;
    }
    return sharpest;
}

struct lp_run_skew lp_run_skew(const struct lp_run *run)
{
    struct offset ahead = {NULL, 0, 0}, behind = {NULL, 0, 0};
    for (size_t i = 0; i < run->n_workers;) {
        struct offset offset = offset_of_host(run, &i);
        if (!offset.worker)
            continue;
        if (!ahead.worker || offset.middle_ns > ahead.middle_ns)
            ahead = offset;
        if (!behind.worker || offset.middle_ns < behind.middle_ns)
            behind = offset;
    }
    int64_t by_ns = ahead.middle_ns - behind.middle_ns, give_ns = ahead.half_ns + behind.half_ns;
    if (by_ns <= give_ns + NOTABLE_NS)
        return (struct lp_run_skew){NULL, NULL, 0, 0};
    return (struct lp_run_skew){ahead.worker, behind.worker, (uint64_t)by_ns, (uint64_t)give_ns};
}
