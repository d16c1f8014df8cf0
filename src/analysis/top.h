/*
 * analysis/top: what happened between two readings of a run that is going on.
 *
 * Owns: the rates and shares of an interval, what became of each worker in it, and which reading an interval begins
 * with. Pure: two models, and the moments at which they were read.
 *
 * Every worker has an interval of its own: from the moment its state had in the earlier reading to the one that it has in
 * the later. For a worker of this machine, whose image is read, these are the readings themselves; for one that is known
 * by its file, the flushes that they found. A role's shares are of the sum of those intervals (worker_ns), so they are
 * true whatever the mixture. Rates of a role are what its workers did per second of their intervals, times how many they
 * are; where their intervals are not those of the readings (a flush every 30 s, met by chance) that is marked as an
 * estimate.
 *
 * What did not change is 0. A figure that is not known is NaN: in a role none of whose workers wrote, and of the phases of one in
 * which a worker's state went back, as it does when a worker dies inside a phase (what is open is then settled when it was last
 * seen), for the figures of a role are sums. Figures of the role itself are made of
 * its workers' and leave that one out.
 *
 * Must not know: terminals, columns, files; where resident sizes come from.
 */
#ifndef LP_ANALYSIS_TOP_H
#define LP_ANALYSIS_TOP_H

#include "analysis/analysis.h"

/* A run as it was read at one moment. All is borrowed. */
struct lp_top_reading {
    const struct lp_run *run;
    struct lp_run_stamp taken; /* Not before the run was read: of this machine's clocks. */
    const char *boot_id;       /* Of this machine; "" unknown. */
    uint64_t time_namespace;   /* Of this process. */
    const double *rss_bytes;   /* One for each worker of the run, NaN unknown; NULL: all unknown. */
    const bool *stopped;       /* Likewise: its process is known to be stopped. NULL: of none. */
};

enum lp_top_state {
    LP_TOP_LIVE,   /* Runs, and is in the earlier reading. */
    LP_TOP_NEW,    /* Runs, and is not: its interval began with it. */
    LP_TOP_SILENT, /* Known by its file alone, which was not written since. */
    LP_TOP_STALE,  /* So for so long that it should have been. */
    LP_TOP_CLOSED,
    LP_TOP_DIED, /* Ended without close. */
    LP_TOP_GONE  /* Was in the earlier reading, and there is no trace of it now. */
};

struct lp_top_worker {
    const struct lp_run_worker *worker; /* Borrowed; of the earlier run if it is gone. */
    enum lp_top_state state;
    bool changed;                   /* Became what it is (new, closed, died, gone) since the earlier reading. */
    uint64_t interval_ns;           /* 0: it has not written since. */
    uint64_t age_ns;                /* From what is known of it to the reading. */
    uint64_t wall_ns;               /* Of its root phases, summed over its threads, in the interval. */
    uint64_t wait_ns, wait_base_ns; /* The part of it off the CPU, and that for which this is known. */
    double share;                   /* wall_ns of interval_ns: over 1 where several threads are in phases. */
    double wait_share;              /* Of wait_base_ns. */
    double calls_per_s;             /* Entries that ended, of all phases. */
    double rss_bytes;               /* Resident set now. */
    bool stopped;                   /* Its process is. */
};

struct lp_top_counter {
    const struct lp_run_counter *counter; /* Borrowed; of the later run, as all below. */
    double per_s;                         /* Of the interval, like calls_per_s: not of the phase's own time. */
};

struct lp_top_phase {
    const struct lp_run_phase *phase; /* Borrowed. */
    size_t parent;                    /* Index in the role's phases; LP_ANALYSIS_NONE at the top level. */
    uint64_t wall_ns, self_ns;        /* In the interval. */
    double share, self_share;         /* Of the role's worker_ns. */
    double wait_share;                /* As a worker's. */
    double calls_per_s;               /* NaN of a thread standing as a phase. */
    double each_ns;                   /* Mean of the entries that ended in the interval; NaN: none did. */
    bool self_estimated;              /* Sampled itself, or a child of it is. */
    size_t counters, n_counters;      /* In the role's counters. */
    bool idle;                        /* Nothing happened in it. */
};

struct lp_top_role {
    const struct lp_run_role *role; /* Borrowed. */
    size_t n_running, n_seen;       /* Workers that run, as far as one knows; that wrote since the earlier reading. */
    double n_whole;                 /* The latter, those counted in part whose life in it was shorter. */
    uint64_t worker_ns;             /* Sum of their intervals. */
    bool stepped_back;              /* A worker's state went back: figures of the phases are not known. */
    bool rates_estimated;           /* Their intervals are not those of the readings. */
    double share, wait_share, calls_per_s;
    bool share_estimated, calls_estimated; /* Sampled phases are in them. */
    struct lp_top_phase *phases;           /* Owned; a parent stands before its children, which are sorted by name. */
    size_t n_phases;
    struct lp_top_counter *counters; /* Owned. First those outside any phase: */
    size_t n_counters, n_root_counters;
};

struct lp_top {
    const struct lp_run *run;  /* Borrowed: the later one. */
    uint64_t interval_ns;      /* Between the readings; 0: there is no earlier one. */
    bool restarted;            /* The earlier reading was of another attempt, and is not used. */
    struct lp_top_role *roles; /* Owned; in the order of the run's roles. */
    size_t n_roles;
    struct lp_top_worker *workers; /* Owned; in the order of the run's workers, those that are gone behind them. */
    size_t n_workers;
    /* Of the workers: image read; known by a file alone; and the others by how they ended. */
    size_t n_live, n_file, n_closed, n_died, n_gone;
};

/* before may be NULL: then all rates and shares are NaN. Both readings must outlive *top. Returns 0 or -ENOMEM, *top
   being NULL then. Free with lp_top_free. */
int lp_top_make(struct lp_top **top, const struct lp_top_reading *after, const struct lp_top_reading *before);
void lp_top_free(struct lp_top *top);

/* How long an interval must at least be for every running worker to have written in it: 0 where all images are read,
   else somewhat more than the longest flush interval among the others, at most LP_TOP_SPAN_MAX_NS. */
#define LP_TOP_SPAN_MAX_NS UINT64_C(300000000000)
uint64_t lp_top_span_ns(const struct lp_run *run);

#endif
