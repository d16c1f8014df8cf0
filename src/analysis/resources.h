/*
 * analysis/resources: what each host of a run granted it, and how much of that its processes used.
 *
 * Rules:
 *  - Granted is what the machine has, or less: the cores in the affinity masks of all processes together, the quota and
 *    the memory limit of control groups. Where processes say different things of one host, the largest counts.
 *  - CPU is the time that all processes used, over the time from the first start to the last write on that host.
 *  - Memory of a process is the most resident memory that it had. Sums are over the processes that ran at the same time:
 *    of those moments, the one with the largest sum. A page that processes share, by a fork or a library, counts in each;
 *    in proportional set sizes once.
 *  - A figure that was not measured of some process says of how many it is.
 *
 * Must not know: formats.
 */
#ifndef LP_ANALYSIS_RESOURCES_H
#define LP_ANALYSIS_RESOURCES_H

#include "run/run.h"

/* What processes used of one thing. */
struct lp_analysis_use {
    size_t n_known;         /* Processes of which it was measured; the figures are of those. */
    double sum;             /* NaN: of none. */
    double share;           /* Of what was granted; NaN: not known. */
    double mean, heaviest;  /* Of one process; NaN: of none. */
    size_t heaviest_worker; /* Index in lp_run.workers; SIZE_MAX: none. */
};

struct lp_analysis_host {
    size_t n_workers;
    double cores, cores_usable, cpu_limit_cores; /* NaN: not known; the limit infinite: none. */
    double ram_bytes, memory_limit_bytes;
    double cores_granted, memory_granted_bytes; /* NaN: not known. */
    const struct lp_text *kernel, *cpu_model;   /* Borrowed; NULL: not known. */
    double span_ns;                             /* From the first start to the last write. */
    struct lp_analysis_use cpu_cores, rss_bytes, pss_bytes;
};

struct lp_analysis;
/* Fills the hosts, in the order of the run's, and what each role used. 0 or -ENOMEM. */
int lp_analysis_resources(struct lp_analysis *analysis);

/* Whether anything is known of any host. */
bool lp_analysis_has_resources(const struct lp_analysis *analysis);

#endif
