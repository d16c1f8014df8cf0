/*
 * reading: the tree of one worker at one moment, and what happened between two such moments.
 *
 * A reading is made of a worker's own document. A cursor is a reading too: the one up to which everything was handed
 * out. lp_run_reading_advance hands out what came since, so that
 *  - nothing that is handed out is negative, although the figures of open entries may step back a little from one
 *    reading to the next: each figure of each phase is taken up to the greatest value it ever had;
 *  - all that was ever handed out adds up to the last reading, but for the CPU time of an open entry that an exit on
 *    another thread takes back later: that interval has none, and the next ones are right;
 *  - histograms are subtracted bucket by bucket, so that quantiles are those of the interval.
 *
 * While the worker runs, a phase without wall time in the interval is idle and keeps what else it may have (an entry
 * that was caught between two of its figures) for the next interval; once it is closed, all is handed out.
 *
 * Must not know: files, other workers.
 */
#ifndef LP_RUN_READING_H
#define LP_RUN_READING_H

#include "run/tree.h"

/* To be zeroed before its first use. */
struct lp_run_reading {
    struct lp_text worker;     /* Owned. Empty: of nobody, who has recorded nothing. */
    uint64_t written_ns;       /* CLOCK_MONOTONIC */
    bool closed;               /* it is the last one */
    struct lp_run_phase *tree; /* Owned. */
};

/* Reads a document; bytes NULL is that of nobody. 0, or -1 with one line in message: the document is refused, or (if it
   is empty) memory is short. */
int lp_run_reading_parse(struct lp_run_reading *reading, const char *bytes, size_t len, char *message, size_t size);
void lp_run_reading_release(struct lp_run_reading *reading);

/* Returns what happened from the cursor to the reading and moves the cursor there; takes the reading over. To be freed
   with lp_run_phase_free. NULL without memory: nothing was handed out.
   A reading older than the cursor, of a thread that was overtaken, gives nothing. One of another worker, which a forked
   child is, begins anew. In the result
    - open_calls and open_wall_ns are the reading's: what is open at the end of the interval, since it was opened;
    - ended_wall_ns belongs to the entries that ended in the interval, and has all of their time;
    - the min of a counter is above its max: not known;
    - a phase that did nothing lp_run_phase_is_idle. */
struct lp_run_phase *lp_run_reading_advance(struct lp_run_reading *cursor, struct lp_run_reading *reading);

/* True if the phase has no figures: it is there for what is below it. */
bool lp_run_phase_is_idle(const struct lp_run_phase *phase);

#endif
