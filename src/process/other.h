/*
 * process/other: what can be told of another process of this machine, from /proc and of one's own children.
 *
 * Nothing here waits for anybody or changes what others see; what is hidden or gone is unknown, never guessed.
 * Must not know: phases.
 */
#ifndef LP_PROCESS_OTHER_H
#define LP_PROCESS_OTHER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A process of this boot, named for ever. */
struct lp_process_ref {
    uint64_t pid, pid_namespace, start_ticks;
};
/* UNKNOWN: of another pid namespace, or /proc does not tell. */
enum lp_process_state { LP_PROCESS_GONE, LP_PROCESS_LIVES, LP_PROCESS_UNKNOWN };
enum lp_process_state lp_process_lives(const struct lp_process_ref *process);
/* The same, and of one that lives whether it is stopped: by SIGSTOP, ^Z or a debugger. */
enum lp_process_state lp_process_lives_stopped(const struct lp_process_ref *process, bool *stopped);

/* The parent of a process and when the process began (field 22), from /proc; false if it is gone or hidden. A parent in
   another pid namespace is 0. */
bool lp_process_parent(uint64_t pid, uint64_t *parent, uint64_t *start_ticks);

/* CPU time that a thread of a process in this pid namespace has used, from /proc; false if it cannot be told. */
bool lp_thread_cpu_read(uint64_t pid, uint64_t tid, uint64_t *cpu_ns);

/* Whether a process of this pid namespace has a file mapped. Allocates. */
enum lp_process_maps { LP_MAPS_NOT, LP_MAPS_IT, LP_MAPS_UNKNOWN };
enum lp_process_maps lp_process_maps_file(uint64_t pid, dev_t device, ino_t inode);

/* How a child of this process ended that nobody has waited for yet, as a status of wait(2); it can still be waited for
   afterwards. False if it lives, is no child, or was waited for. */
bool lp_process_end_of_child(uint64_t pid, int *status);

/* Whether this process has children that nobody has waited for yet, alive or not. Also true where that cannot be told. */
bool lp_process_has_children(void);

/* Watches how a child of this process ends, also one that somebody else waits for; needs Linux 6.15. */
struct lp_process_watch {
    uint64_t pid;
    int fd;
    uint64_t inode, device; /* of fd, to know it again: the host may have closed it and reused the number */
};
enum lp_process_end { LP_END_NOT_YET, LP_END_TOLD, LP_END_UNKNOWN };
bool lp_process_can_watch(void);
/* False if the process is gone or no descriptor is to be had. */
bool lp_process_watch(struct lp_process_watch *watch, uint64_t pid);
/* TOLD: *status is that of wait(2). */
enum lp_process_end lp_process_watched_end(const struct lp_process_watch *watch, int *status);
void lp_process_unwatch(const struct lp_process_watch *watch);

#endif
