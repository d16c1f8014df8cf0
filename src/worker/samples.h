/*
 * worker/samples: rows of resource samples, from the image's rings to the samples files beside the worker's file.
 *
 * docs/format.md describes the files. All bits of a field set: not measured. Times are CLOCK_MONOTONIC; what only grows
 * is given as its total so far.
 *
 * A row is appended at the place that the image notes, and the place is noted after: who is killed in between has the same
 * rows written again at the same place, by itself or by whoever adopts the image. Nothing is read back. Async-signal-safe.
 *
 * Must not know: where rows come from.
 */
#ifndef LP_WORKER_SAMPLES_H
#define LP_WORKER_SAMPLES_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "image/ring.h"

#define LP_SAMPLES_HEADER_BYTES 2048u
#define LP_NOT_MEASURED UINT64_MAX
#define LP_NOT_MEASURED_U32 UINT32_MAX
#define LP_NOT_MEASURED_U16 UINT16_MAX

/* Bits of gaps: what is not known of the interval that ends at this row. */
#define LP_GAP_CHARS 1u
#define LP_GAP_BYTES 2u

struct lp_process_row {
    uint64_t monotonic_ns, cpu_ns, rss_bytes;
    uint64_t read_chars, write_chars, read_bytes,
        write_bytes; /* without the profiler's, and what reaped children moved */
    uint64_t minor_faults, major_faults, voluntary_switches, involuntary_switches;
    uint64_t run_delay_ns;                              /* of recorded threads: runnable, but on no core */
    uint64_t cuda_allocated_bytes, cuda_reserved_bytes; /* of torch's allocator */
    uint32_t open_files, phase, sequence;               /* phase: a node's id, of the deepest that is open; 0: none */
    uint16_t threads, gaps;
};

#define LP_GPU_ATTRIBUTED 1u /* in flags: NVML has told at some time what this process uses of the device */

struct lp_gpu_row {
    uint64_t monotonic_ns, device_used_bytes, own_used_bytes;
    uint32_t device, sequence, phase; /* device: NVML's index */
    uint32_t busy_permille, own_busy_permille, flags;
    uint64_t reserved, reserved2;
};

static_assert(sizeof(struct lp_process_row) == 128 && sizeof(struct lp_gpu_row) == 64, "as docs/format.md says");

#define LP_SAMPLES_PENDING 256u /* rows of a kind that can wait, at most */

/* "<worker>.samples", "<worker>.gpu_samples". */
void lp_samples_file_name(char *name, size_t size, const char *worker, enum lp_ring_kind kind);

/* Appends what waits in the view's rings. The place is noted in image; NULL: of a dead worker's view, nowhere. 0, or -1
   with errno set: the rows that could not be written wait on. */
int lp_samples_append(int folder, const char *worker, const struct lp_view *view, struct lp_image *image);

/* Copies the rows of that kind that no file has yet, oldest first, into rows, which has room for LP_SAMPLES_PENDING of
   them; returns how many. They are struct lp_process_row or struct lp_gpu_row. In the view of another process's image some
   may be in its file by now: their sequence tells. */
size_t lp_samples_pending(const struct lp_view *view, enum lp_ring_kind kind, void *rows);

/* Whether the rows that wait leave little room, so that they should be written soon. */
bool lp_samples_are_pressing(const struct lp_image *image);

/* Of a view: rows that were put, and rows among them that no file will have. */
struct lp_samples_told {
    uint64_t taken, lost;
};
struct lp_samples_told lp_samples_told(const struct lp_view *view, enum lp_ring_kind kind);

#endif
