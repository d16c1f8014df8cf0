/*
 * process/cuda: the CUDA driver, if this process uses it already.
 *
 * By the driver rather than by a framework, so that torch, JAX, CuPy and code in C++ are served alike. Nothing here loads
 * the driver, initialises it or makes a context: where the program has none, all of it does nothing. Of a stream that is
 * being captured into a graph nothing is asked: an event would become part of the graph, a synchronisation would ruin it.
 *
 * Costs: as long as the driver is not loaded, one look at whether a library was loaded since; else the driver's calls.
 * Thread-safe; needs no interpreter. After a fork the child has nothing of its parent's.
 *
 * Must not know: phases.
 */
#ifndef LP_PROCESS_CUDA_H
#define LP_PROCESS_CUDA_H

#include <stdbool.h>
#include <stdint.h>

/* CUstream; 0 is the default stream. */
typedef uintptr_t lp_cuda_stream;
#define LP_CUDA_NO_STREAM UINTPTR_MAX

struct lp_cuda_event;

/* Whether the process has loaded the driver. */
bool lp_cuda_is_loaded(void);
/* Whether a context is current on the calling thread. */
bool lp_cuda_has_context(void);

/* Waits until the device of the calling thread's context has done all that was enqueued; without a context here, all
   devices that the process has a primary context on. stream: one that the caller would enqueue to, or NO_STREAM. False:
   there is nothing to wait for, or some stream is being captured. To be called without locks. */
bool lp_cuda_synchronize(lp_cuda_stream stream);

/* Has the stream note the device's time once it has done what was enqueued so far. NULL: no context here, or a capture,
   or the driver refuses. */
struct lp_cuda_event *lp_cuda_record(lp_cuda_stream stream);
/* For use again. NULL does nothing. */
void lp_cuda_event_release(struct lp_cuda_event *event);

enum lp_cuda_elapsed { LP_CUDA_DONE, LP_CUDA_PENDING, LP_CUDA_FAILED };
/* The device's time between two events, if it has passed both. Waits for nothing. Of a context that is not current on
   the calling thread nothing is asked: PENDING. */
enum lp_cuda_elapsed lp_cuda_elapsed(const struct lp_cuda_event *begin, const struct lp_cuda_event *end, uint64_t *ns);

/* In a forked child: threads of its parent may have held the locks here, and the events are the parent's. */
void lp_cuda_after_fork(void);

#endif
