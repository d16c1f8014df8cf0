/*
 * worker/signals: SIGTERM, SIGUSR1 and SIGHUP write the state of every open worker, and then do what they did before.
 *
 * A signal that is ignored is left alone. Our handler has the flags and the mask of the one that was there, which it calls
 * in the end; where there was none, the signal is raised again with its default. It wakes the keepers and waits a second at
 * most for what they write; a worker without a keeper is written in place. It takes no lock and no memory.
 *
 * A handler that the program installs later stays; it may call ours, which it found, and ours goes on to the first. What
 * is recorded does not depend on any of this while the machine lives: it is in the image.
 */
#ifndef LP_WORKER_SIGNALS_H
#define LP_WORKER_SIGNALS_H

struct lp_worker;

/* Has signals write this worker too. The first one installs the handlers. */
void lp_signals_watch(struct lp_worker *worker);
/* No more; after it no handler uses the worker. The last one gives back the handlers that are still ours. */
void lp_signals_unwatch(struct lp_worker *worker);
/* In a forked child: handlers that ran on its parent's threads are not here. Async-signal-safe. */
void lp_signals_after_fork(void);

#endif
