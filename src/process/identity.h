/*
 * process/identity: who this process is - on which host, under which launcher, in which batch job.
 *
 * Read once per process from /proc and the environment; what is not there is left empty, never guessed.
 * Must not know: phases.
 */
#ifndef LP_PROCESS_IDENTITY_H
#define LP_PROCESS_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LP_COMMAND_ARGUMENTS 64
#define LP_COMMAND_ARGUMENT_BYTES 256

struct lp_identity {
    int64_t pid, parent_pid;
    uint64_t pid_namespace;       /* inode of /proc/self/ns/pid; 0 unknown */
    uint64_t process_start_ticks; /* field 22 of /proc/self/stat; 0 unknown */
    char boot_id[40];             /* "" unknown */
    char host[256];
    int64_t rank, world_size; /* -1: none */
    const char *launcher;     /* Static; NULL: none. */
    const char *job_system;   /* Static; NULL: none. */
    char job_id[256];
    char command[LP_COMMAND_ARGUMENTS * LP_COMMAND_ARGUMENT_BYTES]; /* arguments, each ended by NUL */
    size_t command_len;
};

void lp_identity_read(struct lp_identity *identity);

/* This machine's boot id, "" if unknown. */
void lp_boot_id_read(char *boot_id, size_t size);

/* A process of this boot, named for ever. */
struct lp_process_ref {
    uint64_t pid, pid_namespace, start_ticks;
};
/* UNKNOWN: of another pid namespace, or /proc does not tell. */
enum lp_process_state { LP_PROCESS_GONE, LP_PROCESS_LIVES, LP_PROCESS_UNKNOWN };
enum lp_process_state lp_process_lives(const struct lp_process_ref *process);

/* The parent of a process and when the process began (field 22), from /proc; false if it is gone or hidden. A parent in
   another pid namespace is 0. */
bool lp_process_parent(uint64_t pid, uint64_t *parent, uint64_t *start_ticks);

/* CPU time that a thread of a process in this pid namespace has used, from /proc; false if it cannot be told. */
bool lp_thread_cpu_read(uint64_t pid, uint64_t tid, uint64_t *cpu_ns);

#endif
