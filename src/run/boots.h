/*
 * boots: one time for all workers of a directory, by which it is told what began first.
 *
 * The wall clock of a machine may be set, back by an hour too; CLOCK_BOOTTIME cannot. So within a boot that clock
 * counts, and the wall clock only says when the boot was: as it was set last, since that is more likely right. In a
 * time namespace that clock is set off, so that each counts as a boot of its own.
 *
 * Must not know: what began.
 */
#ifndef LP_RUN_BOOTS_H
#define LP_RUN_BOOTS_H

#include "run/run.h"
#include "run/text.h"

struct lp_run_boot {
    struct lp_text id; /* Owned. */
    uint64_t time_namespace;
    struct lp_run_stamp newest;
};

/* Zeroed before its first use; release leaves it so. */
struct lp_run_boots {
    struct lp_run_boot *boots; /* Owned. */
    size_t n_boots, room, last;
};

void lp_run_boots_release(struct lp_run_boots *boots);
/* Notes a moment of a boot, and puts the boot's place into *place. 0, or -1 without memory. */
int lp_run_boots_note(struct lp_run_boots *boots, struct lp_span id, uint64_t time_namespace,
                      const struct lp_run_stamp *stamp, size_t *place);
/* A moment in ns since the epoch, by that time. It may change as long as moments are noted. */
uint64_t lp_run_boots_time(const struct lp_run_boots *boots, size_t place, const struct lp_run_stamp *stamp);

#endif
