/*
 * run: a run directory read into one model.
 *
 * Owns: finding, reading and validating worker files (and the live images of workers on this machine), merging them
 * by role, choosing the attempt, and the list of caveats. Everything above (analysis, report, cli, python) sees the
 * structs below, const, and no file.
 *
 * Memory is flat: a worker file is read, folded into its role's tree and forgotten; what is kept per worker is the
 * struct lp_run_worker alone. Merging is commutative and associative, so the order of files does not matter.
 *
 * Must not know: how a run is shown.
 *
 * Truth rules that every consumer relies on:
 *  - wall_ns contains the time of open entries up to the flush (or up to now, for a live image); open_wall_ns says how
 *    much of it that is; calls, ended_wall_ns and hist count only entries that ended. A mean per entry is
 *    ended_wall_ns / calls.
 *  - cpu_known is false where no CPU time was measured at all: cpu_ns is then meaningless and is shown as "not measured".
 *    nocpu_wall_ns is the part of wall_ns without CPU figures, so wait = wall_ns - nocpu_wall_ns - cpu_ns (not below 0),
 *    and its denominator is wall_ns - nocpu_wall_ns.
 *  - blocked_ns and preempted_ns are what is known of why threads waited, together at most the wait; what they leave of it
 *    was not measured. Where blocked_known or preempted_known is false none of that was measured anywhere.
 *  - device_time, where it was asked for, is of device_time->calls entries; of the others it is not known.
 *  - estimated is set where any contribution was sampled (stride > 1).
 *  - Sums saturate at their type's limit instead of wrapping; saturated is then set and a caveat says so.
 */
#ifndef LP_RUN_RUN_H
#define LP_RUN_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text as recorded: UTF-8 in which lone surrogates may stand (WTF-8) and NUL may occur; also NUL-terminated. */
struct lp_text {
    char *bytes; /* Owned by the struct that holds the text. */
    size_t len;
};

#define LP_HIST_OCTAVES 64
#define LP_HIST_BUCKETS 512

/* Durations in ns; docs/format.md gives the bucket formula. An octave is allocated when first hit. */
struct lp_hist {
    uint64_t *octaves[LP_HIST_OCTAVES]; /* Owned; NULL: eight zeroes. */
};

uint64_t lp_hist_total(const struct lp_hist *hist);
uint64_t lp_hist_bucket(const struct lp_hist *hist, unsigned bucket);
/* The q-quantile in ns (0 <= q <= 1), interpolated inside its bucket; 0 for an empty histogram. */
double lp_hist_quantile(const struct lp_hist *hist, double q);
/* First ns of a bucket and its width. */
uint64_t lp_hist_bucket_begin(unsigned bucket);
uint64_t lp_hist_bucket_width(unsigned bucket);
/* log2 of a bucket's middle in units of 1 / LP_HIST_LOG_UNIT; never falls from one bucket to the next. */
#define LP_HIST_LOG_UNIT 256
unsigned lp_hist_bucket_log(unsigned bucket);

struct lp_run_counter {
    struct lp_text name;
    int64_t sum;
    uint64_t calls;
    int64_t min, max;
    bool saturated;
};

/* How a phase differs between workers: sums over those in which an entry of it ended, exact, from which variances are
   made (analysis/compare.h). c is a worker's calls, w the wall time of its ended entries in ns, l the sum over them of
   lp_hist_bucket_log. */
__extension__ typedef unsigned __int128 lp_run_square;
struct lp_run_spread {
    lp_run_square cc, ccc, cw, ww, cl, ll;
    uint64_t l;     /* Sum of l. */
    bool saturated; /* A sum stands at the limit of its type. */
};

/* How long a device worked on what entries enqueued, of those for which that is known. */
struct lp_run_device_time {
    uint64_t calls, ns;
    struct lp_hist hist;
};

struct lp_run_phase {
    struct lp_text name;            /* Empty on a root. */
    struct lp_run_phase *parent;    /* Borrowed; NULL on a root. */
    struct lp_run_phase **children; /* Owned; sorted by name, bytewise. */
    size_t n_children;
    uint64_t calls;
    uint64_t wall_ns, cpu_ns, nocpu_wall_ns, child_wall_ns, late_wall_ns;
    uint64_t blocked_ns, preempted_ns; /* Parts of the wait, open entries included. */
    uint64_t open_calls, open_wall_ns;
    uint64_t ended_wall_ns;          /* Of the entries that ended. */
    uint64_t stride_min, stride_max; /* 1 and 1 unless estimated. */
    uint64_t spare_calls;            /* Of a sampled phase: so many of its calls may not have been. */
    uint64_t workers;                /* How many workers have this path. */
    bool cpu_known, estimated, saturated;
    bool blocked_known, preempted_known;
    bool is_thread;  /* A thread's name standing as a phase (thread_names): the sum of its children, without entries. */
    bool async_work; /* Somewhere marked so: its wall time is that of submission. */
    struct lp_hist hist;
    struct lp_run_device_time *device_time; /* Owned; NULL: nowhere asked for. */
    struct lp_run_spread spread;
    struct lp_run_counter *counters; /* Owned; sorted by name. */
    size_t n_counters;
};

static inline uint64_t lp_run_phase_self_ns(const struct lp_run_phase *phase)
{
    return phase->wall_ns > phase->child_wall_ns ? phase->wall_ns - phase->child_wall_ns : 0;
}

/* An open path of one thread, deepest entry, as the worker last showed it. */
struct lp_run_open {
    struct lp_text thread;
    struct lp_text path; /* Components joined by '/', for display. */
    uint64_t open_ns;    /* Of the deepest open entry; of several at once, their mean. */
};

/* What samples come to: run/samples.h. */
struct lp_run_pending;
struct lp_run_phase_id;
struct lp_run_samples;
struct lp_run_sampled;
struct lp_run_sampling;

struct lp_run_stamp {
    uint64_t realtime_ns, monotonic_ns, boottime_ns;
};

/* When a worker's file was made: by its host's wall clock before and after, and between them by whoever stamps files in
   the run directory. stamped_ns 0: not known. */
struct lp_run_folder_clock {
    uint64_t before_ns, stamped_ns, after_ns;
};

struct lp_run_trouble {
    struct lp_text name;
    uint64_t count;
};

enum lp_run_source { LP_SOURCE_FILE, LP_SOURCE_LIVE_IMAGE, LP_SOURCE_DEAD_IMAGE };

/* What a worker said of the machine that it ran on, and what of it was its to use. Texts are Owned. */
struct lp_run_machine {
    uint64_t cores;              /* Online; 0: not known. */
    uint64_t cores_usable;       /* In its affinity mask; 0: not known. */
    double cpu_limit_cores;      /* Of its control group; infinite: none. NaN: not known. */
    uint64_t ram_bytes;          /* 0: not known. */
    uint64_t memory_limit_bytes; /* Of its control group; UINT64_MAX: none. 0: not known. */
    struct lp_text usable_list;  /* Those cores, as "0-3,8". Like the next: bytes is NULL where it is not known. */
    struct lp_text kernel, cpu_model;
};

/* A device of the machine that a worker ran on, as NVML has it. Strings are Owned. */
struct lp_run_device {
    uint64_t index, memory_bytes; /* memory_bytes: UINT64_MAX: not known */
    struct lp_text name, uuid;    /* bytes is NULL where it is not known. */
    char *state;                  /* "ok", "lost", "timed_out" */
    char *own; /* Why figures of this process are missing: "ok", "pid_namespace", "not_supported", "no_permission" */
};

/* One process that recorded. Strings are Owned. */
struct lp_run_worker {
    struct lp_text worker;                              /* w_<run>_<pid>_<uuid8> */
    struct lp_text run_id, role, host, job_id, runtime; /* bytes is NULL where the file says null. */
    char *job_system, *launcher, *boot_id, *library;    /* NULL where the file says null. */
    char *wall_clock, *cpu_clock;
    char *path; /* What it was read from: a file, relative to the run directory, or an image. */
    int64_t pid, parent_pid;
    int64_t rank, world_size; /* -1: none */
    int64_t index;            /* Which of its role it is; -1: not said. */
    struct lp_run_stamp started, written;
    struct lp_run_folder_clock folder_clock;
    double snapshot_interval_s; /* negative: no periodic flush */
    uint64_t flush;
    struct lp_run_machine machine;
    struct lp_run_device *devices; /* Owned. */
    size_t n_devices;
    uint64_t peak_rss_bytes, pss_bytes; /* As of its last write; 0: not measured. */
    uint64_t threads;
    uint64_t pid_namespace, process_start_ticks; /* 0: unknown. With pid and boot_id they name the process for ever. */
    uint64_t time_namespace; /* With boot_id it names the monotonic clocks. 0: that of the machine, or unknown. */
    uint64_t calls;          /* Entries that ended, of all its phases together. */
    /* Time inside of its phases, thread by thread: that of its root phases, and what others went on for beyond their ends.
       The base of imbalance. */
    uint64_t root_wall_ns;
    uint64_t root_cpu_ns, root_nocpu_wall_ns;
    bool root_cpu_known;                  /* As cpu_known of a phase. */
    bool calls_estimated, root_estimated; /* Sampled phases are among them. */
    bool closed, measure_cpu, private_image, run_id_generated;
    bool ended;                  /* Its process is gone without having closed it; written is when it was last seen. */
    int64_t signal, exit_status; /* How, if ended; -1: not known, or otherwise. */
    uint64_t silent_ns;          /* From its last write to the run's end, by the clock that runtime_ns is taken by. */
    bool elsewhere;              /* Of another machine than this one, or of an earlier boot. */
    bool stale; /* Last written more than 60 s and 3 flush intervals before the run's end, and not closed. */
    enum lp_run_source source;
    struct lp_run_trouble *troubles;
    size_t n_troubles;
    struct lp_run_open *open;
    size_t n_open;
    uint64_t samples_taken, samples_lost; /* UINT64_MAX: the file does not say. */
    struct lp_run_phase_id *phase_ids;    /* Owned: how samples name its phases, ascending. run/samples.h */
    size_t n_phase_ids;
    struct lp_run_pace *paces; /* Owned. */
    size_t n_paces;
    struct lp_run_pending *pending; /* Owned: its samples that no file has; NULL: none. run/pending.h */
    struct lp_run_samples *samples; /* Owned; NULL: it has none, or they were not to be read. run/samples.h */
};

/* What one process did in one phase, threads and tasks together: entries that ended, and their time outside child phases.
   Of a process the largest LP_RUN_PACES_MAX are kept; scaled where they are estimated. */
struct lp_run_pace {
    const struct lp_run_phase *phase; /* Borrowed from the role's tree. */
    uint64_t calls, self_ns;
};
#define LP_RUN_PACES_MAX 64

struct lp_run_role {
    struct lp_text name;
    struct lp_run_phase *tree; /* Owned root. */
    size_t *workers;           /* Owned indices into lp_run.workers. */
    size_t n_workers;
    double imbalance; /* max / mean of the workers' root_wall_ns; 1 for one worker; NaN if nothing was recorded. */
    struct lp_run_sampled *sampled; /* Owned: phases in the order of the tree, then what is in none. run/samples.h */
    size_t n_sampled;
};

struct lp_run_rank_range {
    int64_t first, last;
};

struct lp_run_unreadable {
    char *path;   /* Relative to the run directory. */
    char *reason; /* One line. */
};

/* What became of a heavy profiler's window. */
enum lp_run_backend_state {
    LP_BACKEND_OPEN,       /* The tool had started, and its end was not noted. */
    LP_BACKEND_WRITTEN,    /* The artifact is there. */
    LP_BACKEND_NONE,       /* There is none; reason says why. */
    LP_BACKEND_MISSING,    /* It was written, but is not there any more. */
    LP_BACKEND_UNREADABLE, /* path is the note, and reason why it could not be read. */
    LP_BACKEND_UNNOTED     /* An artifact without a note. */
};

/* A worker's window. Of an unreadable or missing note only worker, path and state are known. Strings are Owned. */
struct lp_run_backend {
    struct lp_text worker, role, backend, window_phase; /* bytes is NULL where it is not known. */
    struct lp_text reason, error;                       /* bytes is NULL: none. error is the last one. */
    char *path;                                         /* Relative to the run directory; NULL: none. */
    uint64_t start, end, entries;
    uint64_t bytes; /* Of the artifact; 0 without one. */
    uint64_t errors;
    size_t worker_index; /* In lp_run.workers; SIZE_MAX: not among them. */
    enum lp_run_backend_state state;
    bool cut_off; /* Open, and the worker has ended: nothing will be written. */
};

struct lp_run_superseded {
    struct lp_text run_id;
    size_t n_workers;    /* Readable ones. */
    size_t n_unreadable; /* Its files that could not be read; they are not in lp_run.unreadable. */
    uint64_t started_realtime_ns, written_realtime_ns; /* First start and last write. */
    struct lp_text job;                                /* "slurm job 77"; bytes is NULL: none, or several. */
    bool other_job;                                    /* That, and the run is of another one. */
    bool later;                                        /* It began after the run, which was asked for. */
    bool generated;           /* Nobody gave one of its workers the run id: it made it, or took its launch's. */
    uint64_t own_id_until_ns; /* Last write of such a worker; realtime. */
};

/* A thing the reader of a report must know. text is one line of plain UTF-8. kind is a stable word for programs:
     lost_workers    more than half of the worker files could not be read
     unreadable      a file that could not be read
     superseded      an earlier attempt in the directory; or a later one, where an earlier one was asked for
     other_job       the run of another batch job in the directory, at the same time
     no_run_id       workers that ran at the same time under run ids of their own
     copies          several files of one worker
     missing_ranks   ranks that nobody recorded for
     stale           a worker that stopped writing before the end of the run
     open, unclosed  a worker that did not close, inside a phase or in none
     restarted       workers that died, and were followed by others of their rank
     elsewhere       workers of other machines of which only the last flush can be read here
     failed_flushes  writes of its file that failed
     failed_callbacks  calls of on_snapshot functions that raised
     clock           jumps of the wall clock, time that a host was suspended
     troubles        what else went wrong while recording
     private_image   workers that a kill has cost data, or would have
     saturated       sums at the limit of their type
     samples         samples, or files of them, that could not be used
     dropped         intervals between samples that are in no sum
     host_names      a name that several machines had at once
     host_clocks     hosts, boots of one or time namespaces, whose clocks need not agree, or are seen to differ
   Of a kind that names one file, worker or attempt a line, at most 20 are named; a last line counts the others. */
struct lp_run_caveat {
    const char *kind;
    char *text;
};

struct lp_run_package {
    struct lp_text name, version; /* version.bytes is NULL where it is not known. */
};

/* What it came from. Texts are Owned; bytes is NULL where it is not known. */
struct lp_run_provenance {
    struct lp_text commit, branch;
    bool dirty, dirty_known; /* Files of the commit were changed. */
    struct lp_text difference_sha256;
    struct lp_run_package *packages; /* Owned; those that the program had asked for. */
    size_t n_packages;
};

/* Which workers are read: those whose role, host and rank are among these, of each kind that is named at all. Roles and
   hosts are globs, or the name itself; ranks are "3", "0-7" or several of that, "0-3,8". run/filter.h */
struct lp_run_filter {
    const char **roles, **hosts, **ranks; /* Texts are borrowed where a filter is handed in. */
    size_t n_roles, n_hosts, n_ranks;
};

/* What a filter left out. */
struct lp_run_filtered {
    struct lp_run_filter by;      /* Owned; nothing in it: there was no filter. */
    size_t n_left_out;            /* Readable workers of the attempt that it left out. */
    uint64_t started_realtime_ns; /* First start of the whole attempt. */
};

struct lp_run {
    char *dir;                                         /* As given. */
    struct lp_text run_id;                             /* The attempt reported. */
    uint64_t started_realtime_ns, written_realtime_ns; /* First start and last write over its workers. */
    uint64_t runtime_ns;       /* Between them, by monotonic time where all workers share a boot id. */
    bool one_clock;            /* Monotonic times of all its workers can be compared; */
    uint64_t began_ns;         /* its first start by that clock, else by realtime. */
    bool live;                 /* Some worker still runs. */
    struct lp_run_phase *tree; /* Owned: all roles merged. */
    struct lp_run_role *roles; /* Sorted by name. */
    size_t n_roles;
    struct lp_run_worker *workers; /* Sorted by host, rank, index, start, worker. */
    size_t n_workers;
    struct lp_text *hosts; /* Distinct, sorted. */
    size_t n_hosts;
    size_t *host_machines; /* Owned: how many had each name at once; NULL: one each. run/machines.h */
    struct lp_run_unreadable *unreadable;
    size_t n_unreadable;
    size_t n_copies;                         /* Of worker files, in all attempts, that are left out; */
    char *copy;                              /* Owned: the path of one. run/copies.h */
    struct lp_run_rank_range *missing_ranks; /* Owned, ascending: of a world of world_size, and nobody's. run/ranks.h */
    size_t n_missing_ranks;
    int64_t world_size;
    struct lp_run_superseded *superseded; /* The other attempts, newest first. */
    size_t n_superseded;
    struct lp_run_caveat *caveats;
    size_t n_caveats;
    struct lp_run_backend *backends; /* Sorted by role, backend, state, reason, worker. */
    size_t n_backends;
    struct lp_run_sampling
        *sampling; /* Owned; NULL: there are no samples, or they were not to be read. run/samples.h */
    struct lp_run_filtered filtered;
    struct lp_run_provenance provenance;
    char *metadata; /* Text of metadata.json if it could be read and is JSON, else NULL. */
};

struct lp_run_options {
    bool no_samples;
    bool no_images;                     /* Read files only: for tests and for directories copied from elsewhere. */
    const struct lp_run_filter *filter; /* Borrowed; NULL: all workers. */
    const char
        *run_id;    /* Borrowed: the attempt, by its id or a glob, of several the newest; NULL: the newest of all. */
    bool only_read; /* Leave what dead workers have left in shared memory there: else it is written to their files. */
    void (*progress)(void *context, size_t done, size_t total); /* May be NULL; called after each file. */
    void *progress_context;
};

enum lp_run_status {
    LP_RUN_OK = 0,
    LP_RUN_MISSING = -1, /* No such directory, or not a directory. */
    LP_RUN_EMPTY = -2,   /* A directory without worker files or images. */
    LP_RUN_NOTHING = -3, /* Worker files, none of them readable. */
    LP_RUN_SYSTEM = -4,  /* Out of memory, or the directory could not be read. */
    LP_RUN_UNKNOWN = -5, /* The filter names what the run does not have, or run_id no attempt. */
    LP_RUN_WRONG = -6    /* The filter is none: ranks that are no numbers. */
};

/* Reads dir. options may be NULL. On LP_RUN_OK *run is to be freed with lp_run_free; otherwise *run is NULL and message
   (message_size bytes, always terminated) holds one line that names the directory and the remedy.
   Thread-safe; prints nothing; never raises a signal on any input. */
int lp_run_load(struct lp_run **run, const char *dir, const struct lp_run_options *options, char *message,
                size_t message_size);
void lp_run_free(struct lp_run *run);

/* Whether only some workers were asked for. */
static inline bool lp_run_is_filtered(const struct lp_run *run)
{
    const struct lp_run_filter *by = &run->filtered.by;
    return by->n_roles + by->n_hosts + by->n_ranks > 0;
}

/* What the thread is in that has been in a phase longest; NULL: none is in one. */
const struct lp_run_open *lp_run_longest_open(const struct lp_run_worker *worker);
/* "SIGKILL"; NULL for one that has no name here. */
const char *lp_run_signal_name(int64_t number);

/* How many machines had the host's name at once. */
static inline size_t lp_run_machines_of(const struct lp_run *run, size_t host)
{
    return run->host_machines ? run->host_machines[host] : 1;
}
/* How many machines it ran on, as far as their names and boots tell. */
size_t lp_run_count_machines(const struct lp_run *run);

/* Whether an attempt ran while the reported one did. */
bool lp_run_is_beside(const struct lp_run *run, const struct lp_run_superseded *other);
/* Whether it did under a run id that nobody gave it, in the same job if there is one: no rerun, but workers whom the run
   id did not reach. */
bool lp_run_did_not_join(const struct lp_run *run, const struct lp_run_superseded *other);

/* Finds a child by name; NULL if there is none. */
const struct lp_run_phase *lp_run_phase_child(const struct lp_run_phase *phase, const char *name, size_t len);
/* The role of that name; NULL if there is none. */
const struct lp_run_role *lp_run_role_find(const struct lp_run *run, const char *name, size_t len);

#endif
