/*
 * clock/cpu: CPU time of the calling thread, mostly without a system call.
 *
 * clock_gettime(CLOCK_THREAD_CPUTIME_ID) costs 300 to 700 ns. But a thread that was not descheduled since its last
 * reading has used exactly as much CPU as wall time went by. The kernel tells us whether it was: it clears rseq_cs in
 * the thread's restartable-sequence area when the thread is preempted, blocks, migrates or takes a signal. We keep the
 * address of a dummy critical section there (the token), which is never executed; while it stands, CPU time is
 * extrapolated from wall time. Several readers on one thread, as two profilers are, have a section each: else what one has
 * seen to be gone and put back would look to the other as if it had stood.
 *
 *  token    extrapolate while the token stands, but read the real clock once a millisecond all the same: hypervisor
 *           steal never clears the token.
 *  bounded  extrapolate only if, besides, under 2 us passed since the last reading. From Linux 6.19 on, areas
 *           registered in the newer form keep the token when a thread slept and woke on the same CPU
 *           (include/linux/rseq.h, rseq_sched_switch_event); no sleep is shorter than 2 us.
 *  plain    read the real clock each time: no area, or an unknown machine.
 *
 * A process begins bounded; lp_cpu_prove, run by a thread that may sleep, moves it to token.
 * LINEPROFILER_CLOCK_CPU=token|bounded|plain overrides (for tests; "token" then waits for no proof).
 *
 * Never registers an area of its own: glibc's is used where it has one (__rseq_offset, __rseq_size, looked up at run
 * time). The library must be linked -z nodelete, since the kernel reads the dummy section.
 *
 * Must not know: anything outside clock/.
 */
#ifndef LP_CLOCK_CPU_H
#define LP_CLOCK_CPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock/wait.h"
#include "clock/wall.h"

enum lp_cpu_mode { LP_CPU_PLAIN, LP_CPU_BOUNDED, LP_CPU_TOKEN };

#define LP_CPU_BOUND_NS 2000u
#define LP_CPU_RESYNC_NS 1000000u
#define LP_CPU_RESYNC_TRIES 3 /* real readings at most, each time one is due */

/* One thread's state. Used by that thread only. */
struct lp_cpu {
    _Atomic uint64_t *token_slot; /* Borrowed from libc: rseq_cs of this thread, or a slot that never matches. */
    uint64_t token;               /* what this reader keeps there; another reader of the thread has another */
    uint64_t valid_until_ns;      /* wall time up to which extrapolation is allowed */
    uint64_t ahead_ns;            /* wall minus CPU time at the last real reading (modulo 2^64) */
    uint64_t last_ns;             /* last result; results never step back */
    uint64_t resync_ns;           /* wall time at which the real clock is due */
    bool bounded;
    struct lp_wait *wait; /* Borrowed; NULL: why the thread waited is not asked. */
};

struct lp_reading {
    uint64_t wall_ns, cpu_ns;
};

enum lp_edge { LP_EDGE_ENTER, LP_EDGE_LEAVE };

/* Chooses the mode once per process. */
void lp_cpu_open(void);
enum lp_cpu_mode lp_cpu_mode(void);
/* "token", "bounded" or "plain". */
const char *lp_cpu_mode_name(void);
/* Prepares the calling thread's state. The line profiler, of which one runs at a time, has a token of its own. */
enum lp_cpu_reader { LP_CPU_OF_RECORDER, LP_CPU_OF_LINES };
void lp_cpu_init(struct lp_cpu *cpu, enum lp_cpu_reader reader);
/* Moves the process from bounded to token if the kernel clears the token on sleeps; sleeps for about a millisecond in
   all. To be called by a thread with all signals blocked. */
void lp_cpu_prove(void);
/* CPU time used so far by a thread of this process, read from outside; false if there is no such thread. */
bool lp_cpu_of_thread(uint64_t tid, uint64_t *cpu_ns);

struct lp_reading lp_cpu_resync(struct lp_cpu *cpu, enum lp_edge edge);

/* Both clocks without a system call; false if the real CPU clock is due. */
LP_ALWAYS_INLINE bool lp_cpu_extrapolate(struct lp_cpu *cpu, struct lp_reading *now)
{
    now->wall_ns = lp_wall_ns();
    atomic_signal_fence(memory_order_seq_cst); /* the token must stand after the reading, not only before */
    if (LP_UNLIKELY(atomic_load_explicit(cpu->token_slot, memory_order_relaxed) != cpu->token ||
                    now->wall_ns >= cpu->valid_until_ns))
        return false;
    if (cpu->bounded && now->wall_ns + LP_CPU_BOUND_NS < cpu->resync_ns)
        cpu->valid_until_ns = now->wall_ns + LP_CPU_BOUND_NS;
    now->cpu_ns = now->wall_ns - cpu->ahead_ns;
    if (LP_UNLIKELY((int64_t)(now->cpu_ns - cpu->last_ns) < 0))
        now->cpu_ns = cpu->last_ns;
    cpu->last_ns = now->cpu_ns;
    return true;
}

/* Both clocks at one moment. Where the real CPU clock must be read, its cost falls outside the phase: before the
   moment when entering, after it when leaving - unless the thread was preempted there: that wait is the leaving
   phase's, whose running used up the slice. */
LP_ALWAYS_INLINE struct lp_reading lp_cpu_read(struct lp_cpu *cpu, enum lp_edge edge)
{
    struct lp_reading now;
    return LP_LIKELY(lp_cpu_extrapolate(cpu, &now)) ? now : lp_cpu_resync(cpu, edge);
}

#endif
