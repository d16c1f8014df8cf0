/*
 * process/provenance: which state of the source a program ran from.
 *
 * The repository is that of the first folder which is in one. Its commit and branch are read from its files; whether the
 * program ran just that commit only git can tell, which is asked (process/git.h). Nothing is written there and nothing
 * waited for longer than is said.
 *
 * Must not know: who asks, and what becomes of it.
 */
#ifndef LP_PROCESS_PROVENANCE_H
#define LP_PROCESS_PROVENANCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "process/git.h"

#define LP_COMMIT_BYTES 65

enum lp_dirty { LP_DIRTY_UNKNOWN, LP_DIRTY_NO, LP_DIRTY_YES };

struct lp_provenance {
    bool found;                     /* there is a repository */
    char commit[LP_COMMIT_BYTES];   /* 40 or 64 hexadecimal digits; "" unknown, or there is none yet */
    char branch[256];               /* "" unknown, or none */
    enum lp_dirty dirty;            /* whether tracked files differ from the commit */
    char difference[LP_SHA256_HEX]; /* SHA-256 of "git diff HEAD"; "" unless dirty */
};

/* folders: absolute, looked at in this order, ended by NULL. environment: NULL asks git nothing. Blocks as long as file systems do, and git no longer than
   *until_ns (CLOCK_MONOTONIC), which others may change. On a thread with all signals blocked. */
void lp_provenance_read(struct lp_provenance *provenance, const char *const *folders,
                        const struct lp_git_environment *environment, const _Atomic uint64_t *until_ns);

#endif
