#include "run/pending.h"

#include <stdlib.h>
#include <string.h>

#include "run/sample_rows.h"

static struct lp_run_pending *make(const struct lp_process_row *process, size_t n_process, const struct lp_gpu_row *gpu,
                                   size_t n_gpu)
{
    struct lp_run_pending *made = malloc(sizeof *made + n_process * sizeof *process + n_gpu * sizeof *gpu);
    if (!made)
        return NULL;
    made->n_process = n_process;
    made->n_gpu = n_gpu;
    made->gpu = (struct lp_gpu_row *)(void *)(made->process + n_process);
    if (n_process)
        memcpy(made->process, process, n_process * sizeof *process);
    if (n_gpu)
        memcpy(made->gpu, gpu, n_gpu * sizeof *gpu);
    return made;
}

struct lp_run_pending *lp_run_pending_copy(const struct lp_run_pending *pending)
{
    return make(pending->process, pending->n_process, pending->gpu, pending->n_gpu);
}

static int take(struct lp_run_pending **pending, const struct lp_view *view, struct lp_process_row *process,
                struct lp_gpu_row *gpu)
{
    size_t n_process = lp_samples_pending(view, LP_RING_PROCESS, process);
    size_t n_gpu = lp_samples_pending(view, LP_RING_GPU, gpu);
    if (!n_process && !n_gpu)
        return 0;
    *pending = make(process, n_process, gpu, n_gpu);
    return *pending ? 0 : -1;
}

int lp_run_pending_take(struct lp_run_pending **pending, const struct lp_view *view)
{
    struct lp_process_row *process = calloc(LP_SAMPLES_PENDING, sizeof *process);
    struct lp_gpu_row *gpu = calloc(LP_SAMPLES_PENDING, sizeof *gpu);
    *pending = NULL;
    int result = process && gpu ? take(pending, view, process, gpu) : -1;
    free(process);
    free(gpu);
    return result;
}

static uint64_t of_u4(uint32_t figure)
{
    return figure == LP_NOT_MEASURED_U32 ? LP_NOT_MEASURED : figure;
}

static uint64_t of_u2(uint16_t figure)
{
    return figure == LP_NOT_MEASURED_U16 ? LP_NOT_MEASURED : figure;
}

void lp_run_pending_process(const struct lp_process_row *from, uint64_t *row)
{
    row[LP_P_MONOTONIC_NS] = from->monotonic_ns;
    row[LP_P_CPU_NS] = from->cpu_ns;
    row[LP_P_RSS_BYTES] = from->rss_bytes;
    row[LP_P_READ_CHARS] = from->read_chars;
    row[LP_P_WRITE_CHARS] = from->write_chars;
    row[LP_P_READ_BYTES] = from->read_bytes;
    row[LP_P_WRITE_BYTES] = from->write_bytes;
    row[LP_P_MINOR_FAULTS] = from->minor_faults;
    row[LP_P_MAJOR_FAULTS] = from->major_faults;
    row[LP_P_VOLUNTARY_SWITCHES] = from->voluntary_switches;
    row[LP_P_INVOLUNTARY_SWITCHES] = from->involuntary_switches;
    row[LP_P_RUN_DELAY_NS] = from->run_delay_ns;
    row[LP_P_CUDA_ALLOCATED_BYTES] = from->cuda_allocated_bytes;
    row[LP_P_CUDA_RESERVED_BYTES] = from->cuda_reserved_bytes;
    row[LP_P_OPEN_FILES] = of_u4(from->open_files);
    row[LP_P_PHASE] = of_u4(from->phase);
    row[LP_P_SEQUENCE] = of_u4(from->sequence);
    row[LP_P_THREADS] = of_u2(from->threads);
    row[LP_P_GAPS] = of_u2(from->gaps);
}

void lp_run_pending_gpu(const struct lp_gpu_row *from, uint64_t *row)
{
    row[LP_G_MONOTONIC_NS] = from->monotonic_ns;
    row[LP_G_DEVICE_USED_BYTES] = from->device_used_bytes;
    row[LP_G_OWN_USED_BYTES] = from->own_used_bytes;
    row[LP_G_DEVICE] = of_u4(from->device);
    row[LP_G_SEQUENCE] = of_u4(from->sequence);
    row[LP_G_PHASE] = of_u4(from->phase);
    row[LP_G_BUSY_PERMILLE] = of_u4(from->busy_permille);
    row[LP_G_OWN_BUSY_PERMILLE] = of_u4(from->own_busy_permille);
    row[LP_G_FLAGS] = of_u4(from->flags);
}
