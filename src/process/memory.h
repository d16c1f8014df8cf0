/*
 * process/memory: how much memory a process of this machine has, from /proc.
 *
 * The resident set is what top and ps call RSS: pages that are shared, with a parent that forked or by a library, count in
 * every process that has them, so that sums over processes are too high. One read of /proc/<pid>/statm; the kernel keeps
 * its parts per thread and adds them up only now and then, so it may be off by some pages for each thread.
 */
#ifndef LP_PROCESS_MEMORY_H
#define LP_PROCESS_MEMORY_H

#include "process/other.h"

/* False if the process is not known to live: it is gone, of another pid namespace, or hidden. To know that, its state is
   read as well: *stopped says whether it is stopped. */
bool lp_process_rss(const struct lp_process_ref *process, uint64_t *bytes, bool *stopped);

/* The calling process's own; 0: not measured. Costs about 20 us. */
struct lp_own_memory {
    uint64_t rss_bytes;
    uint64_t peak_rss_bytes; /* the most it ever had, since it ran this program */
};
void lp_memory_of_self(struct lp_own_memory *memory);

/* The calling process's proportional set size: each shared page counts by how many processes share it, so that sums over
   processes are right. 0: not measured. The kernel walks all pages for it, 18 ms for a GiB, and the process can map no
   memory meanwhile. */
uint64_t lp_memory_pss_of_self(void);

#endif
