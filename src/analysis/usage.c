#include "analysis/usage.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/internal.h"

/* --- memory --- */

double lp_analysis_peak_rss(const struct lp_run_worker *worker)
{
    double peak = worker->peak_rss_bytes != 0 ? (double)worker->peak_rss_bytes : NAN;
    if (worker->samples && worker->samples->rss_bytes.n && !(peak >= (double)worker->samples->rss_bytes.peak))
        peak = (double)worker->samples->rss_bytes.peak;
    return peak;
}

/* Keeps the list by peak, largest first. */
static void note_largest(struct lp_analysis_memory *memory, const struct lp_run *run, size_t worker)
{
    size_t at = memory->n_largest;
    double peak = lp_analysis_peak_rss(&run->workers[worker]);
    while (at > 0 && peak > lp_analysis_peak_rss(&run->workers[memory->largest[at - 1]])) {
        if (at < LP_ANALYSIS_LARGEST_MAX)
            memory->largest[at] = memory->largest[at - 1];
        at--;
    }
    if (at < LP_ANALYSIS_LARGEST_MAX)
        memory->largest[at] = worker;
    memory->n_largest += memory->n_largest < LP_ANALYSIS_LARGEST_MAX;
}

static void add_worker(struct lp_analysis_memory *memory, const struct lp_run_worker *worker)
{
    const struct lp_run_level *rss = &worker->samples->rss_bytes;
    double trend = lp_run_trend_slope(&worker->samples->rss_trend) * 3600;
    memory->n_workers++;
    memory->current_bytes += (double)rss->last;
    memory->peak_bytes += lp_analysis_peak_rss(worker);
    memory->growth_bytes += (double)rss->last - (double)rss->first;
    memory->pss_bytes += worker->pss_bytes != 0 ? (double)worker->pss_bytes : NAN;
    if (isnan(trend))
        return;
    memory->trend_per_h = (memory->n_trends++ > 0 ? memory->trend_per_h : 0) + trend;
}

/* Worth a word: a tenth of all growth, and a megabyte. */
#define GROWS_SHARE 0.1
#define GROWS_BYTES 1e6

static void note_growth(struct lp_analysis_memory *memory, const struct lp_run_role *role, size_t index, double all)
{
    size_t at = memory->n_grows;
    double growth = (double)role->sampled[index].rss_growth_bytes;
    if (growth < GROWS_BYTES || growth < GROWS_SHARE * all)
        return;
    while (at > 0 && growth > (double)role->sampled[memory->grows[at - 1]].rss_growth_bytes) {
        if (at < LP_ANALYSIS_GROWS_MAX)
            memory->grows[at] = memory->grows[at - 1];
        at--;
    }
    if (at < LP_ANALYSIS_GROWS_MAX)
        memory->grows[at] = index;
    memory->n_grows += memory->n_grows < LP_ANALYSIS_GROWS_MAX;
}

void lp_analysis_memory(struct lp_analysis_memory *memory, const struct lp_run *run, const struct lp_run_role *role)
{
    double all = 0;
    memory->trend_per_h = NAN;
    for (size_t i = 0; i < role->n_workers; i++) {
        const struct lp_run_worker *worker = &run->workers[role->workers[i]];
        if (!worker->samples || !worker->samples->rss_bytes.n)
            continue;
        add_worker(memory, worker);
        note_largest(memory, run, role->workers[i]);
    }
    for (size_t i = 0; i < role->n_sampled; i++)
        all += role->sampled[i].rss_growth_bytes > 0 ? (double)role->sampled[i].rss_growth_bytes : 0;
    for (size_t i = 0; i < role->n_sampled; i++)
        note_growth(memory, role, i, all);
}

/* --- devices --- */

static void add_peak(double *sum, const struct lp_run_level *level)
{
    if (level->n)
        *sum = (isnan(*sum) ? 0 : *sum) + (double)level->peak;
}

static void add_vram(struct lp_analysis_vram *vram, const struct lp_run *run)
{
    vram->allocated_peak_bytes = vram->reserved_peak_bytes = NAN;
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_samples *samples = run->workers[i].samples;
        if (!samples || (!samples->cuda_allocated_bytes.n && !samples->cuda_reserved_bytes.n))
            continue;
        vram->n_workers++;
        add_peak(&vram->allocated_peak_bytes, &samples->cuda_allocated_bytes);
        add_peak(&vram->reserved_peak_bytes, &samples->cuda_reserved_bytes);
    }
}

/* Few phases have device samples: put in order as they come. */
static int choose_gpu_phases(struct lp_analysis_role_usage *usage, const struct lp_run_role *role)
{
    usage->gpu_phases = calloc(role->n_sampled + 1, sizeof *usage->gpu_phases);
    if (usage->gpu_phases == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < role->n_sampled; i++) {
        if (!role->sampled[i].busy)
            continue;
        size_t at = usage->n_gpu_phases++;
        uint64_t samples = lp_run_busy_total(role->sampled[i].busy);
        for (; at > 0 && lp_run_busy_total(role->sampled[usage->gpu_phases[at - 1]].busy) < samples; at--)
            usage->gpu_phases[at] = usage->gpu_phases[at - 1];
        usage->gpu_phases[at] = i;
    }
    return 0;
}

/* --- all of it --- */

int lp_analysis_usage_make(struct lp_analysis_usage *usage, const struct lp_analysis *analysis)
{
    const struct lp_run *run = analysis->run;
    usage->roles = calloc(analysis->n_roles + 1, sizeof *usage->roles);
    if (usage->roles == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < analysis->n_roles; i++) {
        struct lp_analysis_role_usage *role = &usage->roles[i];
        lp_analysis_memory(&role->memory, run, analysis->roles[i].role);
        int error = lp_analysis_io_rows(role, &analysis->roles[i]);
        if (!error)
            error = choose_gpu_phases(role, analysis->roles[i].role);
        if (error)
            return error;
    }
    add_vram(&usage->vram, run);
    return lp_analysis_io(&usage->io, run);
}

void lp_analysis_usage_free(struct lp_analysis_usage *usage, size_t n_roles)
{
    for (size_t i = 0; usage->roles && i < n_roles; i++) {
        free(usage->roles[i].io_rows);
        free(usage->roles[i].gpu_phases);
    }
    free(usage->roles);
    free(usage->io.shares);
}
