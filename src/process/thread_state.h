/*
 * process/thread_state: what the kernel says that a thread of another process is doing.
 *
 * One look is three small files of /proc; it waits for nobody and disturbs nobody. Whether a thread is busy takes two
 * looks some time apart: a thread that holds the GIL half of the time is asleep in every other look. What a running
 * thread has used is behind by up to a tick of the scheduler.
 *
 * Must not know: phases.
 */
#ifndef LP_PROCESS_THREAD_STATE_H
#define LP_PROCESS_THREAD_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define LP_WAIT_CHANNEL_BYTES 48

struct lp_thread_look {
    uint64_t at_ns;  /* CLOCK_MONOTONIC */
    uint64_t age_ns; /* since it began, at most a clock tick too long; UINT64_MAX: not known */
    uint64_t cpu_ns; /* used so far, if cpu_known */
    bool cpu_known;
    char state;                               /* the letter of /proc/<pid>/stat; 'X': it is gone; 0: cannot be told */
    char wait_channel[LP_WAIT_CHANNEL_BYTES]; /* the kernel function in which it sleeps; "" if none or hidden */
};

/* pid, tid: of this pid namespace. */
void lp_thread_look(struct lp_thread_look *look, uint64_t pid, uint64_t tid);
/* The same without the wait channel. */
void lp_thread_glance(struct lp_thread_look *look, uint64_t pid, uint64_t tid);

#endif
