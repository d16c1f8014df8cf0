/*
 * A samples file, from bytes to aggregates: whatever the bytes are, the header is refused with a reason or the rows give
 * figures that hold together. Read as a file of a process and as one of devices.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run/samples_fold.h"
#include "run/samples_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_intervals(const struct lp_run_samples *samples, const struct lp_run_intervals *intervals)
{
    check(intervals->used < samples->rows || samples->rows == 0);
    check(intervals->used_ns <= samples->last_ns - samples->first_ns);
}

static void check_level(const struct lp_run_level *level)
{
    check(level->least <= level->first && level->first <= level->peak);
    check(level->least <= level->last && level->last <= level->peak);
}

/* What is of phases adds up to the whole. */
static void check_phases(const struct lp_run_samples_fold *fold)
{
    struct lp_run_moved sum = {0};
    for (size_t i = 0; i < lp_run_samples_fold_phases(fold); i++)
        lp_run_moved_add(&sum, &fold->phases[i].moved);
    check(memcmp(sum.flow, fold->samples->io.moved.flow, sizeof sum.flow) == 0);
}

static void check_samples(const struct lp_run_samples_fold *fold)
{
    const struct lp_run_samples *samples = fold->samples;
    for (unsigned layer = 0; layer < LP_RUN_LAYERS; layer++)
        check_intervals(samples, &samples->io.intervals[layer]);
    check_intervals(samples, &samples->cpu_ns.intervals);
    check_level(&samples->rss_bytes);
    double slope = lp_run_trend_slope(&samples->rss_trend), cores = lp_run_samples_cores(samples);
    check(!isinf(slope) && !isinf(cores) && !(cores < 0));
    for (size_t i = 0; i < samples->n_gpus; i++)
        check(samples->gpus[i].busy_permille_ns <= samples->gpus[i].busy_known_ns * 1000);
    check_phases(fold);
}

static void read_as(int fd, enum lp_ring_kind kind)
{
    static const struct lp_run_ruler ruler = {.bin_ns = 1000000000, .n_bins = 100, .gpu_bin_ns = 1000000000};
    struct lp_sample_file file = {.fd = -1};
    struct lp_run_samples_fold fold = {0};
    struct lp_run_samples *samples = malloc(sizeof *samples);
    struct lp_run_phase phase = {0};
    struct lp_run_phase_id ids[] = {{1, &phase}, {2, &phase}};
    struct lp_run_worker worker = {.started = {0, 1000000000000, 0}, .phase_ids = ids, .n_phase_ids = 2};
    struct lp_run_axis axis = {.offset_ns = -1000000000000};
    struct lp_run_fault fault = {0};
    uint64_t row[LP_P_FIELDS];
    worker.written.monotonic_ns = 2000000000000;
    check(samples && lseek(fd, 0, SEEK_SET) == 0 && lp_run_samples_fold_init(&fold, &ruler) == 0);
    check(lp_run_samples_fold_begin(&fold, &worker, &axis, samples) == 0);
    if (lp_sample_file_begin(&file, fd, kind, NULL, &fault) == 0) {
        while (lp_sample_file_next(&file, row)) {
            if (kind == LP_RING_PROCESS)
                lp_run_samples_fold_process(&fold, row);
            else
                check(lp_run_samples_fold_gpu(&fold, row) == 0);
        }
        check(lp_run_samples_fold_end(&fold) == 0);
        check_samples(&fold);
    } else {
        check(fault.text[0] != '\0');
    }
    lp_run_samples_free(samples);
    lp_run_samples_fold_release(&fold);
    lp_sample_file_release(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("samples", MFD_CLOEXEC);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    read_as(fd, LP_RING_PROCESS);
    read_as(fd, LP_RING_GPU);
    close(fd);
    return 0;
}
