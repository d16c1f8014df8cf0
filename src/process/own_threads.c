#include "process/own_threads.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/small_file.h"

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

/* A thread that has ended stays in /proc only if it is the process's first. */
static bool first_has_ended(void)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    if (lp_small_file_read(path, text, sizeof text) <= 0)
        return false;
    const char *name_end = strrchr(text, ')');
    return name_end && (strncmp(name_end, ") Z", 3) == 0 || strncmp(name_end, ") X", 3) == 0);
}

bool lp_own_threads_are_alone(void)
{
    struct stat tasks;
    /* The kernel counts the threads among the links of that folder, beside "." and "..". */
    return stat("/proc/self/task", &tasks) == 0 && (long)tasks.st_nlink - 2 <= atomic_load(&running) + 1L &&
           first_has_ended();
}
