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

/* False if the process is not known to live: it is gone, of another pid namespace, or hidden. */
bool lp_process_rss(const struct lp_process_ref *process, uint64_t *bytes);

#endif
