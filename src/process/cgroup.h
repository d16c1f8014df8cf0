/*
 * process/cgroup: what the control groups of this process grant it, of CPU time and of memory.
 *
 * A group's limit holds for all groups below it, so each is asked from the process's own up to the mount point, and the
 * tightest counts. Each controller is in one hierarchy: of version 1 if /proc/self/cgroup lists it there, else of
 * version 2. Hierarchies are looked for where systems mount them, under /sys/fs/cgroup: the table of mounts, which tells
 * for certain, has hundreds of lines in a container, and a profiler of a short-lived actor is to be opened in
 * microseconds. Where the own group is not to be seen, as in containers of version 1, the mount point is the container's.
 *
 * That there is no limit and that it cannot be told are two things. Costs about three small files for each level.
 * Must not know: phases.
 */
#ifndef LP_PROCESS_CGROUP_H
#define LP_PROCESS_CGROUP_H

#include <stdint.h>

enum lp_limit_state { LP_LIMIT_UNKNOWN, LP_LIMIT_NONE, LP_LIMIT_SET };

struct lp_limit {
    enum lp_limit_state state;
    uint64_t value; /* if set */
};

struct lp_cgroup {
    struct lp_limit cpu_nanocores; /* billionths of a core: 1.5 cores are 1500000000 */
    struct lp_limit memory_bytes;
};

/* root stands before every path: "" but in tests. */
void lp_cgroup_read(struct lp_cgroup *cgroup, const char *root);

#endif
