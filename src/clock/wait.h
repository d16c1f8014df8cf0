/*
 * clock/wait: why the calling thread was off its core - it had blocked, or it could have run and found no core.
 *
 * Asked where the thread CPU clock has to read the real clock anyway (clock/cpu.h): there it shows how long the thread was
 * off its core since the last such reading. The kernel tells how much of that it spent runnable, in the second figure of
 * /proc/thread-self/schedstat, the run-queue delay; what follows a wake-up is in it. The rest it had blocked, if it gave
 * its core up by itself meanwhile (getrusage, voluntary switches); else the rest is a hypervisor's or interrupts', and
 * neither. Where schedstat cannot be had, only a time without voluntary switches but with involuntary ones is told:
 * preempted, all of it. The rest is then not measured.
 *
 * Costs: asking takes 1 to 2 us, up to ten times as much on a busy machine, so no more than 1/400 of a thread's CPU time
 * goes to it, or, where that is more, 1/1500 of its wall time. On an idle machine each is told up to some 400 switches a
 * second in a thread that mostly waits, and 1,500 in one that computes, on a busy one from 40 on; beyond that they are put
 * off in stretches of a few ten milliseconds, and told in one sum in the end,
 * so what lasted as long knows it, and what came and went meanwhile does not. One descriptor a thread, at most 1/16 of
 * what the process may have and 256; it is known by its inode before it is used or closed, so a host may close all
 * descriptors and reuse the numbers: then another is opened, a second later.
 *
 * LINEPROFILER_CLOCK_WAIT=schedstat|switches|off overrides (for tests; "schedstat" knows no limit to its cost).
 *
 * Must not know: anything outside clock/.
 */
#ifndef LP_CLOCK_WAIT_H
#define LP_CLOCK_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* How much can be told: nothing, only what was preempted, both. */
enum lp_wait_source { LP_WAIT_OFF, LP_WAIT_SWITCHES, LP_WAIT_SCHEDSTAT };

#define LP_WAIT_LEAST_NS 3000u /* shorter times off the core are not asked about: the clocks know no better */

/* What is told: blocked and preempted, of what the thread was off its core since the last time it was told. put_off: that
   was not since the last reading but since an earlier one; the first of these was told with begins_put_off, and no
   figures. */
struct lp_wait_split {
    uint64_t blocked_ns, preempted_ns;
    bool begins_put_off, put_off;
};

/* One thread's state. Used by that thread only, but for lp_wait_end. */
struct lp_wait {
    void (*told)(void *context, const struct lp_wait_split *split);
    void *context;
    enum lp_wait_source source;
    _Atomic int fd;                    /* of schedstat; -1: none, or in use this moment; -2: ended */
    int number;                        /* the same, for a forked child */
    uint64_t device, inode;            /* of fd, to know it again */
    uint64_t reopen_ns;                /* wall time from which on a lost descriptor may be opened anew */
    bool begun;                        /* off_seen_ns is set */
    bool put_off;                      /* some of window_ns is from an earlier reading */
    bool resting;                      /* asks again once enough has been saved */
    bool delay_lost;                   /* delay_ns is of a time before the window */
    uint64_t off_seen_ns;              /* the greatest wall minus CPU time so far */
    uint64_t window_ns;                /* off the core and not told yet */
    uint64_t delay_ns, early_delay_ns; /* run-queue delay as last read; of it, what belongs to the next window */
    uint64_t voluntary, involuntary;   /* switches as last read */
    uint64_t saved_at_ns, saved_at_cpu_ns;
    int64_t saved_ns; /* what asking may cost */
};

/* Reads the environment, once per process. */
void lp_wait_open(void);
/* A state that nothing is asked with, for lp_wait_end. */
void lp_wait_init(struct lp_wait *wait);
/* Prepares the calling thread's state, ended or new; told is called on this thread, in lp_wait_note. Returns what can be told. */
enum lp_wait_source lp_wait_begin(struct lp_wait *wait, void (*told)(void *context, const struct lp_wait_split *split),
                                  void *context);
/* At a reading of both clocks, which are now off_ns apart. True: the kernel was asked, which took some time. */
LP_COLD bool lp_wait_note(struct lp_wait *wait, uint64_t wall_ns, uint64_t off_ns);
/* What passed since then, up to another reading of both clocks, is nobody's. */
void lp_wait_pass(struct lp_wait *wait, uint64_t off_ns);
/* Closes the descriptor. On any thread; may be called again. */
void lp_wait_end(struct lp_wait *wait);
/* The same in a forked child, for each of its parent's threads. */
void lp_wait_forget(struct lp_wait *wait);

#endif
