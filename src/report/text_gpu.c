/* K7: how busy the devices were, whose work it was, what memory it took. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/text_usage.h"

#define NAME_COLUMNS 26
#define BUSY_END 36
#define OWN_END 47
#define IDLE_END 56
#define MEMORY_END 76
#define ROWS_MAX 12
#define GPUS_MAX 32

static size_t at(const struct lp_report_page *page, size_t column)
{
    return lp_report_text_at(page, column);
}

static double bytes_of(uint64_t bytes)
{
    return bytes == UINT64_MAX ? NAN : (double)bytes;
}

/* --- GPU --- */

static void gpu_row(struct lp_report_page *page, const struct lp_run *run, const struct lp_run_gpu *gpu)
{
    char name[sizeof "GPU " + 12];
    const struct lp_text *host = &run->hosts[gpu->host];
    snprintf(name, sizeof name, "GPU %u", gpu->index);
    if (run->n_hosts > 1) {
        lp_report_page_name(page, host->bytes, host->len, at(page, NAME_COLUMNS) - sizeof name);
        lp_report_page_to(page, page->column + 1);
    }
    lp_report_page_text(page, name);
    lp_report_page_right(page, lp_report_share(gpu->busy_share).text, at(page, BUSY_END));
    lp_report_page_right(page, lp_report_share(gpu->own_share).text, at(page, OWN_END));
    lp_report_page_right(page, lp_report_share(1 - gpu->busy_share).text, at(page, IDLE_END));
    lp_report_page_right(page, lp_report_size(bytes_of(gpu->used_peak_bytes)).text, at(page, MEMORY_END));
    lp_report_page_end(page);
}

static void peak_row(struct lp_report_page *page, const char *name, double bytes)
{
    if (isnan(bytes))
        return;
    lp_report_page_text(page, name);
    lp_report_page_right(page, lp_report_size(bytes).text, at(page, BUSY_END));
    lp_report_page_end(page);
}

static void vram_rows(struct lp_report_page *page, const struct lp_analysis_vram *vram)
{
    peak_row(page, "VRAM allocated (peak)", vram->allocated_peak_bytes);
    peak_row(page, "VRAM reserved (peak)", vram->reserved_peak_bytes);
    if (vram->n_workers < 2)
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "VRAM: of torch's allocator, summed over the peaks of ");
    lp_report_text_note(page, lp_report_text_plural(vram->n_workers, "process", "processes").text);
    lp_report_text_note(page, ", which need not be of one moment");
    lp_report_text_note_end(page);
}

static bool any_own_work(const struct lp_run_sampling *sampling, const struct lp_analysis_vram *vram)
{
    bool any = vram->allocated_peak_bytes > 0;
    for (size_t i = 0; i < sampling->n_gpus; i++)
        any |= sampling->gpus[i].own_share > 0;
    return any;
}

static bool any_device_time(const struct lp_analysis *analysis)
{
    for (size_t i = 0; i < analysis->n_roles; i++)
        for (size_t k = 0; k < analysis->roles[i].n_phases; k++)
            if (analysis->roles[i].phases[k].phase->device_time != NULL)
                return true;
    return false;
}

/* Whoever reads wall times of phases must know in which of them the device's time shows. */
static void asynchronous_note(struct lp_report_page *page)
{
    lp_report_text_note_begin(page);
    lp_report_text_note(page, "GPU async: kernels run after the phase that enqueued them, and their time shows in the "
                              "phase that waits for the device next; phase(gpu=True) measures it where it belongs");
    lp_report_text_note_end(page);
}

static void gpu_notes(struct lp_report_page *page, const struct lp_run_sampling *sampling)
{
    bool unattributed = false;
    for (size_t i = 0; i < sampling->n_gpus; i++)
        unattributed |= isnan(sampling->gpus[i].own_share);
    if (sampling->n_gpus == 0)
        return;
    lp_report_text_note_begin(page);
    lp_report_text_note(page,
                        "% of the time in which the device was sampled; busy: any kernel of anybody ran; this run: "
                        "summed over its processes; memory: most in use by anybody");
    if (unattributed)
        lp_report_text_note(page, "; n/a: the driver attributed no work there to this run");
    lp_report_text_note_end(page);
}

void lp_report_text_gpu(struct lp_report_page *page, const struct lp_analysis *analysis)
{
    const struct lp_run_sampling *sampling = analysis->run->sampling;
    const struct lp_analysis_vram *vram = &analysis->usage->vram;
    if (sampling == NULL || (sampling->n_gpus == 0 && vram->n_workers == 0))
        return;
    lp_report_text_title(page, "GPU", "");
    if (sampling->n_gpus > 0) {
        lp_report_page_right(page, "busy", at(page, BUSY_END));
        lp_report_page_right(page, "this run", at(page, OWN_END));
        lp_report_page_right(page, "idle", at(page, IDLE_END));
        lp_report_page_right(page, "memory (peak)", at(page, MEMORY_END));
    }
    lp_report_page_end(page);
    lp_report_page_rule(page);
    for (size_t i = 0; i < sampling->n_gpus && i < GPUS_MAX; i++)
        gpu_row(page, analysis->run, &sampling->gpus[i]);
    if (sampling->n_gpus > GPUS_MAX) {
        lp_report_text_note_begin(page);
        lp_report_text_note(page, "and ");
        lp_report_text_note(page, lp_report_text_plural(sampling->n_gpus - GPUS_MAX, "more GPU", "more GPUs").text);
        lp_report_text_note_end(page);
    }
    vram_rows(page, vram);
    gpu_notes(page, sampling);
    if (any_own_work(sampling, vram) && !any_device_time(analysis))
        asynchronous_note(page);
}

/* --- GPU BY PHASE --- */

static void phase_row(struct lp_report_page *page, const struct lp_run_sampled *sampled)
{
    bool own = sampled->gpu_peak_bytes != UINT64_MAX;
    lp_report_page_to(page, 2);
    lp_report_text_sampled(page, sampled, at(page, NAME_COLUMNS) - 2);
    lp_report_page_right(page, lp_report_percent(lp_run_busy_quantile(sampled->busy, 0.5)).text, at(page, BUSY_END));
    lp_report_page_right(page, lp_report_percent(lp_run_busy_quantile(sampled->busy, 0.95)).text, at(page, OWN_END));
    lp_report_page_right(page, lp_report_count(lp_run_busy_total(sampled->busy)).text, at(page, IDLE_END));
    lp_report_page_right(page,
                         lp_report_size(bytes_of(own ? sampled->gpu_peak_bytes : sampled->gpu_device_peak_bytes)).text,
                         at(page, MEMORY_END));
    if (!own && sampled->gpu_device_peak_bytes != UINT64_MAX)
        lp_report_page_text(page, "*");
    lp_report_page_end(page);
}

void lp_report_text_gpu_by_phase(struct lp_report_page *page, const struct lp_analysis *analysis,
                                 const struct lp_analysis_role *role)
{
    const struct lp_analysis_role_usage *usage = &analysis->usage->roles[role - analysis->roles];
    bool others = false;
    if (usage->n_gpu_phases == 0)
        return;
    lp_report_text_title(page, "GPU BY PHASE", "");
    lp_report_page_right(page, "busy p50", at(page, BUSY_END));
    lp_report_page_right(page, "busy p95", at(page, OWN_END));
    lp_report_page_right(page, "samples", at(page, IDLE_END));
    lp_report_page_right(page, "memory (peak)", at(page, MEMORY_END));
    lp_report_page_end(page);
    lp_report_page_rule(page);
    for (size_t i = 0; i < usage->n_gpu_phases && i < ROWS_MAX; i++) {
        const struct lp_run_sampled *sampled = &role->role->sampled[usage->gpu_phases[i]];
        others |= sampled->gpu_peak_bytes == UINT64_MAX && sampled->gpu_device_peak_bytes != UINT64_MAX;
        phase_row(page, sampled);
    }
    lp_report_text_note_begin(page);
    if (usage->n_gpu_phases > ROWS_MAX) {
        lp_report_text_note(page, "and ");
        lp_report_text_note(
            page, lp_report_text_plural(usage->n_gpu_phases - ROWS_MAX, "more phase; ", "more phases; ").text);
    }
    lp_report_text_note(page,
                        "busy % of a device (any kernel of anybody) in samples taken while the phase was the deepest "
                        "one open; what it enqueues may run later, in another phase's samples");
    if (others)
        lp_report_text_note(page, "; *: in use by anybody, since the driver does not tell this run's");
    lp_report_text_note_end(page);
}
