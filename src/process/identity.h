/*
 * process/identity: who this process is, on which host, and what launched it.
 *
 * Read once per process from /proc and the environment; what is not there is left empty, never guessed.
 * Must not know: phases.
 */
#ifndef LP_PROCESS_IDENTITY_H
#define LP_PROCESS_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/launch.h"

#define LP_COMMAND_ARGUMENTS 64
#define LP_COMMAND_ARGUMENT_BYTES 256

struct lp_identity {
    int64_t pid, parent_pid;
    uint64_t pid_namespace;       /* see lp_pid_namespace */
    uint64_t time_namespace;      /* see lp_time_namespace */
    uint64_t process_start_ticks; /* field 22 of /proc/self/stat; 0 unknown */
    char boot_id[40];             /* "" unknown */
    char host[256];
    struct lp_launch launch;
    char command[LP_COMMAND_ARGUMENTS * LP_COMMAND_ARGUMENT_BYTES]; /* arguments, each ended by NUL */
    size_t command_len;
};

void lp_identity_read(struct lp_identity *identity);

/* This machine's boot id, "" if unknown. */
void lp_boot_id_read(char *boot_id, size_t size);

/* Inode of the pid namespace; 0 unknown. */
uint64_t lp_pid_namespace(void);
/* By which clocks this process goes: in a time namespace CLOCK_MONOTONIC and CLOCK_BOOTTIME are set off (time_namespaces(7)).
   0: the machine's, or not known. Else a number made of the offsets, the same where they are: the inode of a namespace
   that is gone comes again, with others. Where they cannot be read that inode, below 2^62. */
uint64_t lp_time_namespace(void);

#endif
