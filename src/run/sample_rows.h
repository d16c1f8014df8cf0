/*
 * sample_rows: one samples file as a stream of rows.
 *
 * Owns: what docs/format.md says of a samples file: its header, and how a record becomes numbers. A row is an array of
 * 64-bit figures in an order of ours, whatever the order and width in the file; what a record says is not measured, and
 * what its header does not name, is LP_NOT_MEASURED.
 *
 * A file may have been put there by anybody, and may grow while it is read: regular files only, bounded sizes, nothing is
 * mapped. A record that the file's end cuts is left out and told.
 *
 * Costs: one buffer of LP_SAMPLE_BUFFER bytes, used again from file to file; some 20 ns a record.
 *
 * Must not know: what the figures mean together (samples_fold.h), where a file belongs.
 */
#ifndef LP_RUN_SAMPLE_ROWS_H
#define LP_RUN_SAMPLE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/fault.h"
#include "worker/samples.h"

#define LP_SAMPLES_VERSION 1
#define LP_SAMPLE_BUFFER (256u * 1024)
#define LP_SAMPLE_HEADER_MAX 65536u
#define LP_SAMPLE_RECORD_MAX 65536u
#define LP_SAMPLE_FIELDS_MAX 512u
#define LP_SAMPLE_FILE_MAX (UINT64_C(16) << 30) /* Bytes: four years at one sample a second. */

enum lp_process_field {
    LP_P_MONOTONIC_NS,
    LP_P_CPU_NS,
    LP_P_RSS_BYTES,
    LP_P_READ_CHARS,
    LP_P_WRITE_CHARS,
    LP_P_READ_BYTES,
    LP_P_WRITE_BYTES,
    LP_P_MINOR_FAULTS,
    LP_P_MAJOR_FAULTS,
    LP_P_VOLUNTARY_SWITCHES,
    LP_P_INVOLUNTARY_SWITCHES,
    LP_P_RUN_DELAY_NS,
    LP_P_CUDA_ALLOCATED_BYTES,
    LP_P_CUDA_RESERVED_BYTES,
    LP_P_OPEN_FILES,
    LP_P_PHASE,
    LP_P_SEQUENCE,
    LP_P_THREADS,
    LP_P_GAPS,
    LP_P_FIELDS
};

enum lp_gpu_field {
    LP_G_MONOTONIC_NS,
    LP_G_DEVICE_USED_BYTES,
    LP_G_OWN_USED_BYTES,
    LP_G_DEVICE,
    LP_G_SEQUENCE,
    LP_G_PHASE,
    LP_G_BUSY_PERMILLE,
    LP_G_OWN_BUSY_PERMILLE,
    LP_G_FLAGS,
    LP_G_FIELDS
};

/* Names of the fields in the file, in the order of the enums; *n is their number. */
const char *const *lp_sample_field_names(enum lp_ring_kind kind, size_t *n);

/* Where a figure stands in a record. */
struct lp_sample_place {
    uint32_t offset;
    uint32_t width; /* 8, 4 or 2 bytes; 0: the file does not have it. */
};

struct lp_sample_file {
    enum lp_ring_kind kind;
    int fd;
    size_t record_bytes;
    struct lp_sample_place places[LP_P_FIELDS]; /* Long enough for either kind. */
    unsigned char *buffer;                      /* Owned. */
    size_t at, len;                             /* Unread bytes in it. */
    bool ended;                                 /* Nothing more is to be had from fd. */
    bool cut;                                   /* It ended inside a record. */
    int error;                                  /* errno of a read that failed; 0: none did. */
};

/* *file must be zeroed before its first use. Opens path below dir_fd and reads its header. worker, if not NULL, is the name
   that it has to give. Returns 1, or 0 if there is no such file, or -1 with a fault (no_memory included). */
int lp_sample_file_open(struct lp_sample_file *file, int dir_fd, const char *path, enum lp_ring_kind kind,
                        const char *worker, struct lp_run_fault *fault);
/* Reads a stream that is open already; fd stays the caller's. */
int lp_sample_file_begin(struct lp_sample_file *file, int fd, enum lp_ring_kind kind, const char *worker,
                         struct lp_run_fault *fault);

/* The next row, as many figures as its kind has fields. False at the end, or where reading fails (file->error). */
bool lp_sample_file_next(struct lp_sample_file *file, uint64_t *row);

void lp_sample_file_close(struct lp_sample_file *file);
void lp_sample_file_release(struct lp_sample_file *file);

#endif
