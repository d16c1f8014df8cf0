#include "process/stamp.h"

#include <time.h>

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct lp_stamp lp_stamp_now(void)
{
    return (struct lp_stamp){clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_BOOTTIME)};
}
