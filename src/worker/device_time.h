/*
 * worker/device_time: how long a device worked on what was enqueued between entering and leaving a phase.
 *
 * A CUDA event is recorded on the current stream at either end. Nobody waits for them: later boundaries of phases with
 * gpu=True, snapshot() and close() look which of them the device has passed, and only then the node gets the time. An
 * entry of which that cannot be known - no context, a captured stream, another stream at the end, more than
 * LP_DEVICE_TIMES_PENDING entries under way, the end of the process before that of the work - is in no figure:
 * gpu_calls counts those that are.
 *
 * It is the time that the stream took from one event to the other. Where the program enqueues more slowly than the device
 * works, it holds the gaps as well.
 *
 * Thread-safe. Must not know: which stream is current.
 */
#ifndef LP_WORKER_DEVICE_TIME_H
#define LP_WORKER_DEVICE_TIME_H

#include "process/cuda.h"
#include "record/record.h"

#define LP_DEVICE_TIMES_PENDING 512u

struct lp_device_time;

/* Just before the phase is entered. NULL: it will not be known. */
struct lp_device_time *lp_device_time_begin(lp_cuda_stream stream);
/* Just after it is left, with the stream that is current then. node: of the entry, as lp_record_node told before, and
   marked; NULL: nothing is to be recorded. Takes the begun one, which may be NULL. */
void lp_device_time_end(struct lp_device_time *begun, struct lp_recorder *recorder, struct lp_node *node,
                        lp_cuda_stream stream);
/* Takes up what the device has finished, of any recorder: at a boundary a little of it, or all. Asks the driver, but waits
   for nothing. */
void lp_device_time_collect(bool all);
/* Gives up what is under way for a recorder. */
void lp_device_time_forget(const struct lp_recorder *recorder);
/* In a forked child: all of it is the parent's. */
void lp_device_time_after_fork(void);

#endif
