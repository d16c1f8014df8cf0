/*
 * base/own_reads: what the profiler reads on the program's threads in passing - a line of /proc, a limit of a cgroup.
 *
 * The kernel counts it among the chars that the thread and the process have read; whoever tells those takes it out.
 *
 * Costs: an atomic addition for each reading, which is a system call anyway. Async-signal-safe.
 */
#ifndef LP_BASE_OWN_READS_H
#define LP_BASE_OWN_READS_H

#include <stdbool.h>
#include <stdint.h>

/* Before a reading of at most so many chars, and after it, with how many they were. In between it counts for the most, so
   that no other thread can take it for the program's. */
void lp_own_reads_begin(uint64_t most);
void lp_own_reads_end(uint64_t most, int64_t chars); /* negative: none */
/* All of this process, its parents' at the moment of the fork included. */
uint64_t lp_own_reads(void);
/* The calling thread's. */
uint64_t lp_own_reads_of_thread(void);
/* Of all but threads that are apart. */
uint64_t lp_own_reads_of_program(void);

/* The calling thread is the profiler's alone, or is the program's. */
void lp_own_thread_set_apart(bool apart);
bool lp_own_thread_is_apart(void);

#endif
