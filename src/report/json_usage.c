/* What a run used besides time: I/O, devices, memory. docs/report-json.md tells each key. */
#include "report/json_usage.h"

#include <math.h>

#include "analysis/usage.h"

static const char *const flow_keys[LP_RUN_FLOWS] = {
    [LP_READ_CHARS] = "read_chars",
    [LP_WRITE_CHARS] = "write_chars",
    [LP_READ_BYTES] = "read_bytes",
    [LP_WRITE_BYTES] = "write_bytes",
};

static const char *const layer_names[LP_RUN_LAYERS] = {[LP_LAYER_CHARS] = "chars", [LP_LAYER_BYTES] = "bytes"};

static void flows(struct lp_emit *emit, const char *key, const double values[LP_RUN_FLOWS])
{
    if (key)
        lp_report_json_object(emit, key);
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++)
        lp_report_json_real(emit, flow_keys[flow], values[flow]);
    if (key)
        lp_emit_close(emit, '}');
}

static void measured(struct lp_emit *emit, const char *key, uint64_t value)
{
    if (value == UINT64_MAX)
        lp_report_json_null(emit, key);
    else
        lp_report_json_count(emit, key, value);
}

/* --- roles --- */

static void path(struct lp_emit *emit, const struct lp_run_phase *phase)
{
    if (phase->parent == NULL)
        return;
    path(emit, phase->parent);
    lp_report_json_text(emit, NULL, &phase->name);
}

static void sampled(struct lp_emit *emit, const struct lp_run_sampled *row)
{
    static const char *const kinds[] = {
        [LP_SAMPLED_PHASE] = "phase", [LP_SAMPLED_NONE_OPEN] = "none_open", [LP_SAMPLED_UNKNOWN] = "unknown"};
    lp_report_json_object(emit, NULL);
    lp_report_json_string(emit, "kind", kinds[row->kind]);
    lp_report_json_array(emit, "path");
    if (row->phase != NULL)
        path(emit, row->phase);
    lp_emit_close(emit, ']');
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++)
        lp_report_json_count(emit, flow_keys[flow], row->moved.flow[flow]);
    lp_report_json_count(emit, "cached_bytes", lp_run_cached(&row->moved));
    lp_report_json_count(emit, "intervals", row->intervals);
    lp_report_json_count(emit, "intervals_ns", row->intervals_ns);
    lp_report_json_signed(emit, "rss_growth_bytes", row->rss_growth_bytes);
    lp_report_json_count(emit, "gpu_samples", row->busy != NULL ? lp_run_busy_total(row->busy) : 0);
    lp_report_json_real(emit, "gpu_busy_p50", row->busy != NULL ? lp_run_busy_quantile(row->busy, 0.5) : NAN);
    lp_report_json_real(emit, "gpu_busy_p95", row->busy != NULL ? lp_run_busy_quantile(row->busy, 0.95) : NAN);
    measured(emit, "gpu_memory_peak_bytes", row->gpu_peak_bytes);
    measured(emit, "gpu_device_memory_peak_bytes", row->gpu_device_peak_bytes);
    lp_emit_close(emit, '}');
}

static void memory(struct lp_emit *emit, const struct lp_analysis_memory *figures)
{
    if (figures->n_workers == 0) {
        lp_report_json_null(emit, "memory");
        return;
    }
    lp_report_json_object(emit, "memory");
    lp_report_json_count(emit, "processes", figures->n_workers);
    lp_report_json_real(emit, "current_bytes", figures->current_bytes);
    lp_report_json_real(emit, "peak_bytes", figures->peak_bytes);
    lp_report_json_real(emit, "growth_bytes", figures->growth_bytes);
    lp_report_json_real(emit, "trend_bytes_per_h", figures->trend_per_h);
    lp_report_json_count(emit, "trend_processes", figures->n_trends);
    lp_report_json_real(emit, "pss_bytes", figures->pss_bytes);
    lp_report_json_array(emit, "grows_under");
    for (size_t i = 0; i < figures->n_grows; i++)
        lp_report_json_count(emit, NULL, figures->grows[i]);
    lp_emit_close(emit, ']');
    lp_report_json_array(emit, "largest_workers");
    for (size_t i = 0; i < figures->n_largest; i++)
        lp_report_json_count(emit, NULL, figures->largest[i]);
    lp_emit_close(emit, ']');
    lp_emit_close(emit, '}');
}

void lp_report_json_role_usage(struct lp_emit *emit, const struct lp_analysis *analysis, size_t role)
{
    const struct lp_analysis_role_usage *usage = &analysis->usage->roles[role];
    const struct lp_run_role *model = analysis->roles[role].role;
    lp_report_json_array(emit, "io_phases");
    for (size_t i = 0; i < usage->n_io_rows; i++) {
        const struct lp_analysis_io_row *row = &usage->io_rows[i];
        lp_report_json_object(emit, NULL);
        lp_report_json_count(emit, "phase", row->phase);
        flows(emit, NULL, row->flow);
        lp_report_json_real(emit, "cached_bytes", row->cached_bytes);
        lp_report_json_real(emit, "bytes_per_s", row->rate_per_s);
        lp_report_json_real(emit, "chars_per_s", row->chars_rate_per_s);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
    memory(emit, &usage->memory);
    lp_report_json_array(emit, "sampled");
    for (size_t i = 0; i < model->n_sampled; i++)
        sampled(emit, &model->sampled[i]);
    lp_emit_close(emit, ']');
}

/* --- the run --- */

static void timeline(struct lp_emit *emit, const struct lp_analysis_io *io)
{
    lp_report_json_object(emit, "timeline");
    lp_report_json_count(emit, "column_ns", io->column_ns);
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++) {
        lp_report_json_array(emit, flow_keys[flow]);
        for (size_t i = 0; i < io->n_columns; i++)
            lp_report_json_real(emit, NULL, io->columns[flow][i]);
        lp_emit_close(emit, ']');
    }
    lp_emit_close(emit, '}');
}

static void shares(struct lp_emit *emit, const struct lp_run *run, const struct lp_analysis_io *io)
{
    lp_report_json_array(emit, "shares");
    for (size_t i = 0; i < io->n_shares; i++) {
        const struct lp_analysis_io_share *share = &io->shares[i];
        lp_report_json_object(emit, NULL);
        lp_report_json_count(emit, "role", share->role);
        lp_report_json_count(emit, "sampled", (size_t)(share->sampled - run->roles[share->role].sampled));
        lp_report_json_real(emit, "bytes", share->bytes);
        lp_report_json_real(emit, "share", share->share);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

static void io_of_run(struct lp_emit *emit, const struct lp_run *run, const struct lp_analysis_io *io)
{
    if (io->intervals == 0) {
        lp_report_json_null(emit, "io");
        return;
    }
    lp_report_json_object(emit, "io");
    flows(emit, NULL, io->total);
    lp_report_json_real(emit, "cached_bytes", io->cached_bytes);
    flows(emit, "mean_per_s", io->mean_per_s);
    flows(emit, "peak_per_s", io->peak_per_s);
    lp_report_json_count(emit, "intervals", io->intervals);
    lp_report_json_count(emit, "dropped_intervals", io->dropped);
    lp_report_json_string(emit, "layer", layer_names[io->layer]);
    lp_report_json_real(emit, "layer_bytes", io->layer_bytes);
    lp_report_json_real(emit, "unphased_share", io->unphased_share);
    shares(emit, run, io);
    timeline(emit, io);
    lp_emit_close(emit, '}');
}

static void gpu(struct lp_emit *emit, const struct lp_run *run, const struct lp_run_gpu *device)
{
    lp_report_json_object(emit, NULL);
    lp_report_json_text(emit, "host", &run->hosts[device->host]);
    lp_report_json_count(emit, "index", device->index);
    lp_report_json_real(emit, "busy_share", device->busy_share);
    lp_report_json_real(emit, "own_share", device->own_share);
    measured(emit, "used_peak_bytes", device->used_peak_bytes);
    measured(emit, "own_peak_bytes", device->own_peak_bytes);
    lp_report_json_count(emit, "processes", device->n_workers);
    lp_emit_close(emit, '}');
}

void lp_report_json_usage(struct lp_emit *emit, const struct lp_analysis *analysis)
{
    const struct lp_run_sampling *sampling = analysis->run->sampling;
    const struct lp_analysis_vram *vram = &analysis->usage->vram;
    io_of_run(emit, analysis->run, &analysis->usage->io);
    lp_emit_newline(emit);
    lp_report_json_array(emit, "gpus");
    for (size_t i = 0; sampling != NULL && i < sampling->n_gpus; i++)
        gpu(emit, analysis->run, &sampling->gpus[i]);
    lp_emit_close(emit, ']');
    lp_report_json_object(emit, "vram");
    lp_report_json_count(emit, "processes", vram->n_workers);
    lp_report_json_real(emit, "allocated_peak_bytes", vram->allocated_peak_bytes);
    lp_report_json_real(emit, "reserved_peak_bytes", vram->reserved_peak_bytes);
    lp_emit_close(emit, '}');
}

/* --- workers --- */

static void intervals(struct lp_emit *emit, const char *key, const struct lp_run_intervals *figures)
{
    static const char *const drops[LP_RUN_DROPS] = {[LP_DROP_UNREAD] = "unread",
                                                    [LP_DROP_GAP] = "gap",
                                                    [LP_DROP_LOST] = "lost",
                                                    [LP_DROP_BACKWARDS] = "backwards",
                                                    [LP_DROP_ENORMOUS] = "enormous"};
    lp_report_json_object(emit, key);
    lp_report_json_count(emit, "used", figures->used);
    lp_report_json_count(emit, "used_ns", figures->used_ns);
    for (unsigned drop = 0; drop < LP_RUN_DROPS; drop++)
        lp_report_json_count(emit, drops[drop], figures->dropped[drop]);
    lp_emit_close(emit, '}');
}

static void io_of_worker(struct lp_emit *emit, const struct lp_run_io *io)
{
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++)
        if (io->intervals[lp_run_layer_of((enum lp_run_flow)flow)].used > 0)
            lp_report_json_count(emit, flow_keys[flow], io->moved.flow[flow]);
        else
            lp_report_json_null(emit, flow_keys[flow]);
    intervals(emit, "chars_intervals", &io->intervals[LP_LAYER_CHARS]);
    intervals(emit, "bytes_intervals", &io->intervals[LP_LAYER_BYTES]);
}

static void sum(struct lp_emit *emit, const char *key, const struct lp_run_sum *figures)
{
    measured(emit, key, figures->intervals.used > 0 ? figures->sum : UINT64_MAX);
}

static void level(struct lp_emit *emit, const char *key, const struct lp_run_level *figures)
{
    if (figures->n == 0) {
        lp_report_json_null(emit, key);
        return;
    }
    lp_report_json_object(emit, key);
    lp_report_json_count(emit, "first", figures->first);
    lp_report_json_count(emit, "last", figures->last);
    lp_report_json_count(emit, "least", figures->least);
    lp_report_json_count(emit, "peak", figures->peak);
    lp_emit_close(emit, '}');
}

void lp_report_json_worker_usage(struct lp_emit *emit, const struct lp_run_worker *worker)
{
    const struct lp_run_samples *samples = worker->samples;
    if (samples == NULL) {
        lp_report_json_null(emit, "samples");
        return;
    }
    lp_report_json_object(emit, "samples");
    lp_report_json_count(emit, "rows", samples->rows);
    io_of_worker(emit, &samples->io);
    lp_report_json_real(emit, "mean_cores", lp_run_samples_cores(samples));
    lp_report_json_real(emit, "heaviest_cores", samples->cpu_heaviest_cores);
    sum(emit, "minor_faults", &samples->minor_faults);
    sum(emit, "major_faults", &samples->major_faults);
    sum(emit, "voluntary_switches", &samples->voluntary_switches);
    sum(emit, "involuntary_switches", &samples->involuntary_switches);
    sum(emit, "run_delay_ns", &samples->run_delay_ns);
    level(emit, "threads", &samples->threads);
    level(emit, "open_files", &samples->open_files);
    level(emit, "rss_bytes", &samples->rss_bytes);
    lp_report_json_real(emit, "rss_trend_bytes_per_h", lp_run_trend_slope(&samples->rss_trend) * 3600);
    level(emit, "cuda_allocated_bytes", &samples->cuda_allocated_bytes);
    level(emit, "cuda_reserved_bytes", &samples->cuda_reserved_bytes);
    lp_emit_close(emit, '}');
}
