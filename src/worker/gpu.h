/*
 * worker/gpu: the thread that reads the devices of this machine at each sample interval, and what the worker's file says
 * of them.
 *
 * A thread of its own, since the driver may not answer for a minute, or ever: the keeper goes on, and so does the program.
 * It is begun by the keeper one interval after the first sample, where the library is there; where there is none, or
 * no device, nothing runs and nothing is said. A call that lasts LP_GPU_TIMED_OUT intervals is told as a trouble, and
 * the device as timed out, until it returns.
 *
 * Around a fork it is stopped, as the keeper is, and lets go of the driver, so that a child inherits nothing of it. A
 * thread that does not stop in time is left alone: it touches neither the worker nor what may be freed, and frees itself
 * when the driver answers.
 *
 * Must not know: what the figures are for. Calls no CUDA.
 */
#ifndef LP_WORKER_GPU_H
#define LP_WORKER_GPU_H

#include <stdint.h>
#include <time.h>

#define LP_GPU_TIMED_OUT 10 /* intervals */

struct lp_worker;
struct lp_gpu_watch;

/* For a new image: nothing is known yet. NULL if memory is short: then there are no figures. */
struct lp_gpu_watch *lp_gpu_watch_new(struct lp_worker *worker);
/* In a forked child: the thread is not here. */
void lp_gpu_watch_forget(struct lp_gpu_watch *watch);

/* On the keeper, at each sample: begins the thread if it does not run, and looks whether it hangs. */
void lp_gpu_watch_tick(struct lp_gpu_watch *watch, uint64_t now_ns);
/* Before a fork: asks the thread to end, and waits for it until that time of CLOCK_MONOTONIC at most. It is begun again
   by a later tick. */
void lp_gpu_watch_pause(struct lp_gpu_watch *watch, const struct timespec *until);
/* For good, with a last reading, and a bounded wait; watch is void then. */
void lp_gpu_watch_end(struct lp_gpu_watch *watch);

#endif
