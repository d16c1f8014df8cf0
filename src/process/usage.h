/*
 * process/usage: what this process uses now, from getrusage(2), clocks and /proc/self. Nothing here looks at each thread.
 * What is read for that counts as read in passing (base/own_reads.h).
 *
 * Must not know: phases.
 */
#ifndef LP_PROCESS_USAGE_H
#define LP_PROCESS_USAGE_H

#include <stddef.h>
#include <stdint.h>

#define LP_USAGE_UNKNOWN UINT64_MAX

/* Each LP_USAGE_UNKNOWN where it could not be read. Faults and switches are of all threads, also of ended ones. */
struct lp_usage {
    uint64_t cpu_ns, rss_bytes;
    uint64_t minor_faults, major_faults, voluntary_switches, involuntary_switches;
    uint64_t threads, open_files;
};

void lp_usage_read(struct lp_usage *usage);

/* The threads of this process; returns how many, 0 if they are more than size or cannot be told. */
size_t lp_tasks_read(uint64_t *tids, size_t size);

/* How long a thread of this process was runnable while no core ran it, in all (second figure of /proc/<pid>/schedstat);
   LP_USAGE_UNKNOWN where the kernel does not tell. */
uint64_t lp_run_delay_ns(uint64_t tid);

#endif
