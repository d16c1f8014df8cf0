#include "base/own_reads.h"

#include <stdatomic.h>

static _Atomic uint64_t of_process;
/* Not taken from the heap at its first use, which may be in a signal handler. */
static __thread uint64_t of_thread __attribute__((tls_model("initial-exec")));

void lp_own_reads_begin(uint64_t most)
{
    atomic_fetch_add(&of_process, most);
}

void lp_own_reads_end(uint64_t most, int64_t chars)
{
    uint64_t were = chars > 0 ? (uint64_t)chars : 0;
    of_thread += were;
    atomic_fetch_add_explicit(&of_process, were - most, memory_order_relaxed);
}

uint64_t lp_own_reads(void)
{
    return atomic_load_explicit(&of_process, memory_order_relaxed);
}

uint64_t lp_own_reads_of_thread(void)
{
    return of_thread;
}
