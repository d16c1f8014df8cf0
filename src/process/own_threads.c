#include "process/own_threads.h"

#include <stdatomic.h>
#include <sys/stat.h>

#include "base/proc_self.h"

static _Atomic int running;

void lp_own_thread_begins(void)
{
    atomic_fetch_add(&running, 1);
}

void lp_own_thread_ends(void)
{
    atomic_fetch_sub(&running, 1);
}

void lp_own_threads_after_fork(void)
{
    atomic_store(&running, 0);
}

bool lp_own_threads_are_alone(void)
{
    struct stat tasks;
    /* The kernel counts the threads among the links of that folder, beside "." and "..". */
    return stat("/proc/self/task", &tasks) == 0 && (long)tasks.st_nlink - 2 <= atomic_load(&running) + 1L &&
           lp_first_thread_has_ended();
}
