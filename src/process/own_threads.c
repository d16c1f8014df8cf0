#include "process/own_threads.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* The process's folder in /proc is that of its first thread, which stays among the threads when it has ended, but has no
   program any more: proc(5), "exe". To ask for that is cheaper than the thread's state, and moves no chars. */
static bool first_has_ended(void)
{
    char program[1];
    return readlink("/proc/self/exe", program, sizeof program) < 0 && errno == ENOENT;
}

bool lp_own_threads_are_alone(void)
{
    struct stat tasks;
    /* The kernel counts the threads among the links of that folder, beside "." and "..". */
    return stat("/proc/self/task", &tasks) == 0 && (long)tasks.st_nlink - 2 <= atomic_load(&running) + 1L &&
           first_has_ended();
}
