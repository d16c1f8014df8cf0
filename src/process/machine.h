/*
 * process/machine: what this machine is, and how much of it this process may use.
 *
 * Read once for each worker, in tens of microseconds; what cannot be told is unknown and never zero. /proc/cpuinfo is
 * not read: on some kernels opening it wakes every core and waits milliseconds.
 * Must not know: phases.
 */
#ifndef LP_PROCESS_MACHINE_H
#define LP_PROCESS_MACHINE_H

#include <stdint.h>

#include "process/cgroup.h"

struct lp_machine {
    uint64_t cores;        /* online; 0: unknown */
    uint64_t cores_usable; /* in the affinity mask of the process's main thread; 0: unknown */
    char usable_list[256]; /* which those are: "0-3,8"; "" unknown, or too long */
    uint64_t ram_bytes;    /* 0: unknown */
    struct lp_cgroup limits;
    char kernel[65];    /* its release; "" unknown */
    char cpu_model[64]; /* "" unknown */
};

/* root stands before the paths of /proc and /sys: "" but in tests. */
void lp_machine_read(struct lp_machine *machine, const char *root);

#endif
