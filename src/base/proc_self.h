/*
 * base/proc_self: where /proc tells of this process when its first thread has ended.
 *
 * /proc/self is that thread's folder. It stays among the threads when it has ended alone, but has no program, no memory, no
 * descriptors and no control groups any more: those are told under /proc/thread-self then, as they are of any thread.
 */
#ifndef LP_BASE_PROC_SELF_H
#define LP_BASE_PROC_SELF_H

#include <stdbool.h>

/* One system call, which moves no chars. False where there is no /proc. */
bool lp_first_thread_has_ended(void);

#endif
