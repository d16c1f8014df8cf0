#include "base/own_reads.h"

#include <stdatomic.h>

static _Atomic uint64_t of_process, of_program;
static __thread bool is_apart __attribute__((tls_model("initial-exec")));
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
    if (!is_apart)
        atomic_fetch_add_explicit(&of_program, were, memory_order_relaxed);
    atomic_fetch_add_explicit(&of_process, were - most, memory_order_relaxed);
}

uint64_t lp_own_reads_of_program(void)
{
    return atomic_load_explicit(&of_program, memory_order_relaxed);
}

void lp_own_thread_set_apart(bool apart)
{
    is_apart = apart;
}

bool lp_own_thread_is_apart(void)
{
    return is_apart;
}

uint64_t lp_own_reads(void)
{
    return atomic_load_explicit(&of_process, memory_order_relaxed);
}

uint64_t lp_own_reads_of_thread(void)
{
    return of_thread;
}
