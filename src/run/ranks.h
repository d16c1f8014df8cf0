/*
 * ranks: the ranks of an attempt, and which of them nobody recorded for.
 *
 * A rank that died before its first write, on another host, leaves no trace; that it was to be there is known by the
 * world size of the others alone. What is missing counts as missing only where nothing else explains it:
 *  - all ranks are of one world size, so of one launch or of ones alike: in a mixture of several nobody can tell whose
 *    rank it is. Worlds of one rank do not count.
 *  - programs choose who records: rank 0 alone, or one rank of each node. Ranks of which every n-th recorded were chosen.
 *  - of several programs that one launcher starts, the first ones may have no profiler: the first ranks are not missed.
 *
 * Costs: 8 bytes for each worker that has a rank.
 */
#ifndef LP_RUN_RANKS_H
#define LP_RUN_RANKS_H

#include "run/document.h"

/* Zeroed before its first use. */
struct lp_run_ranks {
    int64_t size;   /* Of the world of all; 0: nobody has a rank among others. */
    bool mixed;     /* They are of several worlds, or of none that there can be. */
    int64_t *ranks; /* Owned; as they came. */
    size_t n, room;
};

void lp_run_ranks_release(struct lp_run_ranks *ranks);
/* 0, or -1 without memory; so the next. */
int lp_run_ranks_note(struct lp_run_ranks *ranks, const struct lp_run_document *document);
/* Those that are missing, ascending and to be freed; NULL and 0: none. Sorts the ranks. */
int lp_run_ranks_missing(struct lp_run_ranks *ranks, struct lp_run_rank_range **missing, size_t *n);

#endif
