/*
 * api: the public C interface (lineprofiler.h) on top of a worker: defaults, the run to join, errors by code and
 * message; and what a host language needs to hand its own profilers to C.
 *
 * A profiler is never freed, so that any call on it is safe for ever; once closed it is its worker's memory and no more.
 *
 * Must not know: Python, reports.
 */
#ifndef LP_API_PROFILER_H
#define LP_API_PROFILER_H

#include <lineprofiler.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "worker/worker.h"

struct lp_profiler {
    _Alignas(LP_APART) struct lp_recorder *recorder; /* Borrowed from worker. */
    struct lp_worker *worker;                        /* NULL: never enabled; then so is recorder */
    bool strict_names;
    lp_profiler *older; /* of all that this process has made: none is a leak */
};

/* The C side of a worker that a host opened. The worker is to be closed as ever, but never freed. NULL: no memory. */
lp_profiler *lp_profiler_of_worker(struct lp_worker *worker, bool strict_names);

/* Makes it the installed one if there is none, or only a parent's; as the host decides. */
void lp_profiler_install(lp_profiler *profiler);
/* If it is the installed one, there is none from now on. */
void lp_profiler_uninstall(lp_profiler *profiler);

/* What lp_error_message() says from now on on the calling thread. */
LP_COLD void lp_api_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
