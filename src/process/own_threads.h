/*
 * process/own_threads: the profiler's threads in this process, and whether they are all that is left of it.
 *
 * A process ends with its last thread: one whose main thread has gone by pthread_exit(), or that a thread has forked which
 * returns. It must not be ours that keep it.
 *
 * Costs: asking is one system call while others live, two beside a program of one thread; some microseconds. Nothing is read
 * of which the kernel would count the chars.
 */
#ifndef LP_PROCESS_OWN_THREADS_H
#define LP_PROCESS_OWN_THREADS_H

#include <stdbool.h>

/* By each of the profiler's threads, first and last. */
void lp_own_thread_begins(void);
void lp_own_thread_ends(void);
/* False also where /proc does not tell. */
bool lp_own_threads_are_alone(void);
/* In a forked child, where there are none. Async-signal-safe. */
void lp_own_threads_after_fork(void);

#endif
