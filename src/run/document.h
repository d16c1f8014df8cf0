/*
 * document: one worker's JSON document, checked in full and laid out flat.
 *
 * Owns: what docs/format.md says about a single worker. Parsing either succeeds, and then every figure in the struct
 * can be used without further thought, or leaves a fault that says what is wrong where; nothing is ever half accepted.
 *
 * What is refused: whatever is of the wrong type, negative, beyond 2^63 - 1 or unknown where the format closes a list;
 * a tree that is none; and, in a closed worker, figures that contradict each other. The figures of a running one may
 * differ by the entries in flight while its state was copied, so there a small contradiction is not looked for; fold.h
 * evens it out. Unknown keys are ignored.
 *
 * One document is meant to be parsed into again and again: its arrays keep their room, so that reading ten thousand
 * files allocates little beyond what Jansson does.
 *
 * Must not know: where the bytes came from, other workers.
 */
#ifndef LP_RUN_DOCUMENT_H
#define LP_RUN_DOCUMENT_H

#include <jansson.h>

#include "run/fault.h"
#include "run/tree.h"

#define LP_RUN_FORMAT_VERSION 1
#define LP_RUN_DEPTH_MAX 128          /* Phases below the root; writers stop at 32. */
#define LP_RUN_NAME_MAX (1024 * 1024) /* Bytes of a name. */

struct lp_run_bucket {
    unsigned bucket;
    uint64_t count;
};

/* A node as the file gives it; the keys of docs/format.md. */
struct lp_run_record {
    size_t parent; /* Index in the slot; 0 on the root, which is its own. */
    struct lp_span name;
    unsigned depth;
    uint64_t calls, wall_ns, cpu_ns, nocpu_wall_ns, child_wall_ns, late_wall_ns;
    uint64_t open_calls, open_wall_ns, open_child_wall_ns, open_late_wall_ns, open_cpu_ns;
    uint64_t blocked_ns, preempted_ns, open_blocked_ns, open_preempted_ns;
    uint64_t stride;
    uint64_t id;                     /* By which samples name it; 0: none does. */
    bool no_cpu, no_open_cpu;        /* cpu_ns, open_cpu_ns are null. */
    bool has_blocked, has_preempted; /* Without the key they were not measured. */
    uint64_t gpu_calls, gpu_ns;
    bool has_gpu;                /* Device time was asked for. */
    bool async_work;             /* Its wall time is that of submission. */
    bool sampled_below;          /* Some child has a stride. */
    size_t hist, n_hist;         /* In document.buckets. */
    size_t gpu_hist, n_gpu_hist; /* Likewise. */
    size_t counters, n_counters; /* In document.tallies. */
};

struct lp_run_slot {
    struct lp_span name;
    size_t nodes, n_nodes; /* In document.records. */
};

struct lp_run_trouble_view {
    struct lp_span name;
    uint64_t count;
};

struct lp_run_gpu_view {
    uint64_t index, memory_bytes; /* memory_bytes: UINT64_MAX: not known */
    struct lp_span name, uuid;    /* bytes is NULL where it is not known. */
    struct lp_span state, own;
};

/* Views are borrowed from the document and end with the next parse. */
struct lp_run_document {
    struct lp_span worker, run_id, role, host, job_id, runtime;
    struct lp_span job_system, launcher, boot_id, library, wall_clock, cpu_clock;
    uint64_t pid, parent_pid, pid_namespace, time_namespace, process_start_ticks;
    int64_t rank, world_size, index; /* -1: none */
    struct lp_run_stamp started, written;
    struct lp_run_folder_clock folder_clock;
    double snapshot_interval_s;           /* -1: none */
    uint64_t samples_taken, samples_lost; /* UINT64_MAX: not said. */
    uint64_t flush;
    bool ended;                  /* Its process is gone, and it did not close. */
    int64_t signal, exit_status; /* How, if ended; -1: not known, or otherwise. */
    bool closed, measure_cpu, thread_names, private_image, run_id_generated, run_id_of_launch;
    struct lp_run_machine machine; /* Its texts are the three below. */
    struct lp_span usable_list, kernel, cpu_model;
    uint64_t peak_rss_bytes, pss_bytes; /* 0: not measured */
    bool short_of_memory;               /* Its troubles say so: histograms may lack entries. */

    const struct lp_run_pending *pending; /* Borrowed; NULL after parsing. Samples that came with it. */

    struct lp_run_slot *slots; /* Owned, as all arrays here. */
    size_t n_slots, slots_room;
    struct lp_run_record *records;
    size_t n_records, records_room;
    struct lp_run_bucket *buckets;
    size_t n_buckets, buckets_room;
    struct lp_run_tally *tallies;
    size_t n_tallies, tallies_room;
    struct lp_run_trouble_view *troubles;
    size_t n_troubles, troubles_room;
    struct lp_run_gpu_view *gpus;
    size_t n_gpus, gpus_room;

    json_t *json; /* Owned: what most views point into. */
    char *names;  /* Owned: names that had to be decoded; room for the whole document. */
    size_t names_used, names_room;
};

/* *document must be zeroed before its first use. 0, or -1 with a fault; the views of a refused document are void. */
int lp_run_document_parse(struct lp_run_document *document, const char *bytes, size_t len, struct lp_run_fault *fault);
void lp_run_document_release(struct lp_run_document *document);

/* The last nodes of the array, of one slot: the half of the parser that is in document_nodes.c. */
int lp_run_document_nodes(struct lp_run_document *document, struct lp_run_slot *slot, const json_t *nodes,
                          struct lp_run_fault *fault);

/* The machine and the memory: the part that is in document_machine.c. */
int lp_run_document_machine(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault);

/* The devices: the part that is in document_gpus.c. */
int lp_run_document_gpus(struct lp_run_document *document, const json_t *json, struct lp_run_fault *fault);

/* Decodes a string marked *text* in docs/format.md. */
int lp_run_document_text(struct lp_run_document *document, struct lp_span encoded, struct lp_span *text,
                         struct lp_run_fault *fault);

#endif
