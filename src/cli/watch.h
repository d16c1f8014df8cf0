/*
 * cli/watch: a run directory read again and again, and the reading that an interval begins with.
 *
 * Usually that is the one before. Where some workers are known by their files alone, an interval must be long enough for
 * each to have written (lp_top_span_ns), so readings are kept that long; at most LP_WATCH_KEPT, spread over that time.
 *
 * Only reads: files, images, /proc. Costs what lp_run_load does, and two small reads for each live worker.
 */
#ifndef LP_CLI_WATCH_H
#define LP_CLI_WATCH_H

#include "analysis/top.h"

#define LP_WATCH_KEPT 12

struct lp_watch_entry {
    struct lp_run *run; /* Owned. */
    double *rss_bytes;  /* Owned. */
    bool *stopped;      /* Owned. */
    struct lp_run_stamp taken;
};

/* Zeroed but for dir and interval_ns before its first use. */
struct lp_watch {
    const char *dir;      /* Borrowed. */
    uint64_t interval_ns; /* How long an interval is to be at least. */
    struct lp_watch_entry entries[LP_WATCH_KEPT];
    size_t n;                           /* Oldest first. */
    struct lp_top *top;                 /* Owned: of the last reading. NULL before the first. */
    uint64_t took_wall_ns, took_cpu_ns; /* The last reading. */
};

/* Reads once more and makes the figures. 0, or -1 with one line in message; the figures are then the old ones. */
int lp_watch_read(struct lp_watch *watch, char *message, size_t message_size);
void lp_watch_release(struct lp_watch *watch);

#endif
