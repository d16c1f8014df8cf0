/*
 * process/git: a run of git that the host program cannot notice.
 *
 * A child that executes a program raises SIGCHLD at its end and is found by a wait for any child, whatever it was cloned
 * with. So git is the child of a process in between, which executes nothing and was cloned without an end signal: only a
 * wait with __WCLONE finds it, which is ours. That process shares the memory (nothing is copied, however large the program
 * is) but not the descriptors, which it closes, so that no pipe or socket of the program stays open by it; the thread that
 * runs git waits for it, all signals blocked, a bounded time. It dies with that thread.
 *
 * git gets no terminal, no descriptor but its output, no lock, no hook and little of the environment. What it is to do
 * with a repository's filters is for the repository to say.
 *
 * Must not know: what is asked.
 */
#ifndef LP_PROCESS_GIT_H
#define LP_PROCESS_GIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"

#define LP_GIT_ARGUMENTS 24

/* What git takes of the environment, copied when it was safe to read: a program may change it at any time. NULL: unset. */
struct lp_git_environment {
    const char *path, *home, *config_home, *library_path;
};

struct lp_git_output {
    uint64_t bytes;
    struct lp_sha256 hash; /* of all of them, not ended */
    char begin[256];       /* the first of them; NUL-terminated */
};

/* Runs "git -C folder arguments" and takes its output; arguments ends with NULL. True if it exited with 0 before
   CLOCK_MONOTONIC came to *until_ns, which others may change at any time. On a thread with all signals blocked. */
bool lp_git_run(struct lp_git_output *output, const char *folder, const char *const *arguments,
                const struct lp_git_environment *environment, const _Atomic uint64_t *until_ns);

#endif
