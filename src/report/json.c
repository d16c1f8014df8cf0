/* K13: the figures for programs. docs/report-json.md tells each key, docs/report.schema.json its type. */
#include <errno.h>

#include "report/json_facts.h"
#include "report/json_resources.h"
#include "report/json_usage.h"
#include "report/json_value.h"
#include "report/report.h"

#define FORMAT_NAME "lineprofiler-report"
/* Goes up when a program written for the old version would misread the new one; a new key does not raise it. */
#define FORMAT_VERSION 1

static void index_or_null(struct lp_emit *emit, const char *key, size_t index)
{
    if (index == LP_ANALYSIS_NONE)
        lp_report_json_null(emit, key);
    else
        lp_report_json_count(emit, key, index);
}

/* --- phases --- */

static void path(struct lp_emit *emit, const char *key, const struct lp_analysis_role *role, size_t phase)
{
    unsigned depth = phase == LP_ANALYSIS_NONE ? 0 : role->phases[phase].depth;
    lp_report_json_array(emit, key);
    for (unsigned level = 1; level <= depth; level++) {
        size_t at = phase;
        while (role->phases[at].depth > level)
            at = role->phases[at].parent;
        lp_report_json_text(emit, NULL, &role->phases[at].phase->name);
    }
    lp_emit_close(emit, ']');
}

static void counters(struct lp_emit *emit, const struct lp_run_phase *phase)
{
    lp_report_json_array(emit, "counters");
    for (size_t i = 0; i < phase->n_counters; i++) {
        const struct lp_run_counter *counter = &phase->counters[i];
        struct lp_analysis_counter figures = lp_analysis_counter(phase, counter);
        lp_report_json_object(emit, NULL);
        lp_report_json_text(emit, "name", &counter->name);
        lp_report_json_signed(emit, "total", counter->sum);
        lp_report_json_real(emit, "rate_per_s", figures.rate_per_s);
        lp_report_json_real(emit, "each_ns", figures.each_ns);
        lp_report_json_count(emit, "calls", counter->calls);
        lp_report_json_signed(emit, "min", counter->min);
        lp_report_json_signed(emit, "max", counter->max);
        lp_report_json_bool(emit, "saturated", counter->saturated);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

static void count_if(struct lp_emit *emit, const char *key, bool known, uint64_t count)
{
    if (known)
        lp_report_json_count(emit, key, count);
    else
        lp_report_json_null(emit, key);
}

static void times(struct lp_emit *emit, const struct lp_analysis_phase *figures)
{
    const struct lp_run_phase *phase = figures->phase;
    lp_report_json_count(emit, "calls", phase->calls);
    lp_report_json_count(emit, "wall_ns", phase->wall_ns);
    lp_report_json_count(emit, "self_ns", figures->self_ns);
    count_if(emit, "cpu_ns", phase->cpu_known, phase->cpu_ns);
    count_if(emit, "wait_ns", phase->cpu_known, figures->wait_ns);
    count_if(emit, "wait_base_ns", phase->cpu_known, figures->wait_base_ns);
    count_if(emit, "blocked_ns", phase->blocked_known, phase->blocked_ns);
    count_if(emit, "preempted_ns", phase->preempted_known, phase->preempted_ns);
    lp_report_json_count(emit, "late_wall_ns", phase->late_wall_ns);
    lp_report_json_count(emit, "open_calls", phase->open_calls);
    lp_report_json_count(emit, "open_wall_ns", phase->open_wall_ns);
}

static void derived(struct lp_emit *emit, const struct lp_analysis_phase *figures)
{
    lp_report_json_real(emit, "share", figures->share);
    lp_report_json_real(emit, "parent_share", figures->parent_share);
    lp_report_json_real(emit, "self_share", figures->self_share);
    lp_report_json_real(emit, "wait_share", figures->wait_share);
    lp_report_json_real(emit, "blocked_share", figures->blocked_share);
    lp_report_json_real(emit, "preempted_share", figures->preempted_share);
    lp_report_json_real(emit, "mean_ns", figures->mean_ns);
    lp_report_json_real(emit, "p50_ns", figures->p50_ns);
    lp_report_json_real(emit, "p95_ns", figures->p95_ns);
    lp_report_json_real(emit, "p99_ns", figures->p99_ns);
}

static void device_time(struct lp_emit *emit, const struct lp_analysis_phase *figures)
{
    const struct lp_run_device_time *time = figures->phase->device_time;
    count_if(emit, "gpu_calls", time != NULL, time ? time->calls : 0);
    count_if(emit, "gpu_ns", time != NULL, time ? time->ns : 0);
    lp_report_json_real(emit, "gpu_mean_ns", figures->gpu_mean_ns);
    lp_report_json_real(emit, "gpu_p50_ns", figures->gpu_p50_ns);
    lp_report_json_real(emit, "gpu_p99_ns", figures->gpu_p99_ns);
    lp_report_json_bool(emit, "async_work", figures->phase->async_work);
}

static void phases(struct lp_emit *emit, const struct lp_analysis_role *role)
{
    lp_report_json_array(emit, "phases");
    for (size_t i = 0; i < role->n_phases; i++) {
        const struct lp_analysis_phase *figures = &role->phases[i];
        lp_emit_newline(emit);
        lp_report_json_object(emit, NULL);
        path(emit, "path", role, i);
        times(emit, figures);
        derived(emit, figures);
        device_time(emit, figures);
        lp_report_json_count(emit, "workers", figures->phase->workers);
        lp_report_json_bool(emit, "estimated", figures->phase->estimated);
        lp_report_json_bool(emit, "self_estimated", figures->self_estimated);
        lp_report_json_count(emit, "stride_min", figures->phase->stride_min);
        lp_report_json_count(emit, "stride_max", figures->phase->stride_max);
        lp_report_json_bool(emit, "saturated", figures->phase->saturated);
        counters(emit, figures->phase);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

/* --- roles --- */

static void indices(struct lp_emit *emit, const char *key, const size_t *items, size_t n)
{
    lp_report_json_array(emit, key);
    for (size_t i = 0; i < n; i++)
        lp_report_json_count(emit, NULL, items[i]);
    lp_emit_close(emit, ']');
}

static void shares(struct lp_emit *emit, const struct lp_analysis_role *role)
{
    lp_report_json_object(emit, "shares");
    path(emit, "level", role, role->level);
    indices(emit, "phases", role->shares, role->n_shares);
    lp_report_json_count(emit, "small_phases", role->n_small);
    lp_report_json_count(emit, "small_ns", role->small_ns);
    lp_report_json_real(emit, "small_share", role->small_share);
    lp_report_json_bool(emit, "small_estimated", role->small_estimated);
    lp_report_json_count(emit, "other_ns", role->other_ns);
    lp_report_json_real(emit, "other_share", role->other_share);
    lp_report_json_bool(emit, "other_estimated", role->other_estimated);
    lp_emit_close(emit, '}');
}

static void dominant(struct lp_emit *emit, const struct lp_analysis_role *role)
{
    lp_report_json_object(emit, "dominant");
    indices(emit, "phases", role->dominant, role->n_dominant);
    lp_report_json_count(emit, "minor_phases", role->n_minor);
    lp_report_json_count(emit, "minor_self_ns", role->minor_self_ns);
    lp_report_json_real(emit, "minor_self_share", role->minor_self_share);
    lp_report_json_bool(emit, "minor_estimated", role->minor_estimated);
    lp_emit_close(emit, '}');
}

static void pace(struct lp_emit *emit, const struct lp_run *run, const struct lp_analysis_pace *pace)
{
    lp_report_json_object(emit, NULL);
    if (pace->worker == SIZE_MAX) {
        lp_report_json_text(emit, "host", &run->hosts[pace->host]);
        lp_report_json_count(emit, "processes", pace->n_workers);
    } else {
        lp_report_json_count(emit, "worker", pace->worker);
    }
    lp_report_json_count(emit, "phase", pace->phase);
    lp_report_json_real(emit, "mean_self_ns", pace->mean_ns);
    lp_report_json_real(emit, "median_self_ns", pace->median_ns);
    lp_report_json_real(emit, "ratio", pace->ratio);
    lp_report_json_real(emit, "extra_ns", pace->extra_ns);
    lp_report_json_real(emit, "extra_share", pace->extra_share);
    lp_report_json_real(emit, "wait_share", pace->wait_share);
    lp_report_json_real(emit, "median_wait_share", pace->median_wait_share);
    lp_report_json_bool(emit, "notable", pace->notable);
    lp_emit_close(emit, '}');
}

static void paces(struct lp_emit *emit, const char *key, const struct lp_run *run,
                  const struct lp_analysis_paces *paces)
{
    lp_emit_newline(emit);
    lp_report_json_array(emit, key);
    for (size_t i = 0; i < paces->n; i++)
        pace(emit, run, &paces->paces[i]);
    lp_emit_close(emit, ']');
}

static void slowest(struct lp_emit *emit, const struct lp_run *run, const struct lp_analysis_role *role)
{
    lp_report_json_count(emit, "notable_hosts", role->slow_hosts.n_notable);
    lp_report_json_count(emit, "notable_workers", role->slow_workers.n_notable);
    paces(emit, "slowest_hosts", run, &role->slow_hosts);
    paces(emit, "slowest_workers", run, &role->slow_workers);
}

static void roles(struct lp_emit *emit, const struct lp_analysis *analysis)
{
    lp_report_json_array(emit, "roles");
    for (size_t i = 0; i < analysis->n_roles; i++) {
        const struct lp_analysis_role *role = &analysis->roles[i];
        lp_emit_newline(emit);
        lp_report_json_object(emit, NULL);
        lp_report_json_text(emit, "name", &role->role->name);
        lp_report_json_count(emit, "processes", role->role->n_workers);
        lp_report_json_real(emit, "imbalance", role->role->imbalance);
        index_or_null(emit, "busiest_worker", role->busiest);
        lp_report_json_count(emit, "wall_ns", role->wall_ns);
        lp_report_json_real(emit, "mean_process_wall_ns", role->mean_wall_ns);
        lp_emit_newline(emit);
        shares(emit, role);
        lp_emit_newline(emit);
        dominant(emit, role);
        index_or_null(emit, "iterations", role->repeating);
        slowest(emit, analysis->run, role);
        lp_emit_newline(emit);
        counters(emit, role->role->tree);
        lp_emit_newline(emit);
        phases(emit, role);
        lp_emit_newline(emit);
        lp_report_json_role_usage(emit, analysis, i);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

static void provenance(struct lp_emit *emit, const struct lp_run_provenance *provenance)
{
    lp_report_json_object(emit, "provenance");
    lp_report_json_text(emit, "commit", &provenance->commit);
    lp_report_json_text(emit, "branch", &provenance->branch);
    if (!provenance->dirty_known)
        lp_report_json_null(emit, "dirty");
    else
        lp_report_json_bool(emit, "dirty", provenance->dirty);
    lp_report_json_text(emit, "difference_sha256", &provenance->difference_sha256);
    lp_report_json_object(emit, "packages");
    for (size_t i = 0; i < provenance->n_packages; i++) {
        const struct lp_run_package *package = &provenance->packages[i];
        lp_emit_text_key(emit, package->name.bytes, package->name.len);
        if (package->version.bytes)
            lp_emit_text(emit, package->version.bytes, package->version.len);
        else
            lp_emit_null(emit);
    }
    lp_emit_close(emit, '}');
    lp_emit_close(emit, '}');
}

static void strings(struct lp_emit *emit, const char *key, const char *const *values, size_t n)
{
    lp_report_json_array(emit, key);
    for (size_t i = 0; i < n; i++)
        lp_report_json_string(emit, NULL, values[i]);
    lp_emit_close(emit, ']');
}

static void filter(struct lp_emit *emit, const struct lp_run *run)
{
    const struct lp_run_filter *by = &run->filtered.by;
    if (!lp_run_is_filtered(run)) {
        lp_report_json_null(emit, "filter");
        return;
    }
    lp_report_json_object(emit, "filter");
    strings(emit, "roles", by->roles, by->n_roles);
    strings(emit, "hosts", by->hosts, by->n_hosts);
    strings(emit, "ranks", by->ranks, by->n_ranks);
    lp_report_json_count(emit, "of_processes", run->n_workers + run->filtered.n_left_out);
    lp_emit_close(emit, '}');
}

static void run(struct lp_emit *emit, const struct lp_analysis *analysis)
{
    const struct lp_run *model = analysis->run;
    lp_report_json_object(emit, "run");
    lp_report_json_text(emit, "run_id", &model->run_id);
    lp_report_json_string(emit, "dir", model->dir);
    lp_report_json_count(emit, "started_realtime_ns", model->started_realtime_ns);
    lp_report_json_count(emit, "written_realtime_ns", model->written_realtime_ns);
    lp_report_json_count(emit, "runtime_ns", model->runtime_ns);
    lp_report_json_bool(emit, "live", model->live);
    lp_report_json_count(emit, "processes", model->n_workers);
    lp_report_json_count(emit, "lost_processes", analysis->n_lost);
    lp_report_json_bool(emit, "most_lost", analysis->most_lost);
    lp_report_json_count(emit, "not_joined_processes", analysis->n_not_joined);
    filter(emit, model);
    provenance(emit, &model->provenance);
    lp_emit_close(emit, '}');
}

static int write_json(const struct lp_analysis *analysis, const struct lp_report_options *options,
                      struct lp_report_sink *sink)
{
    (void)options;
    struct lp_emit emit;
    lp_emit_init(&emit, sink->put, sink->context);
    lp_report_json_object(&emit, NULL);
    lp_report_json_string(&emit, "format", FORMAT_NAME);
    lp_report_json_count(&emit, "version", FORMAT_VERSION);
    lp_emit_newline(&emit);
    run(&emit, analysis);
    lp_emit_newline(&emit);
    roles(&emit, analysis);
    lp_report_json_resources(&emit, analysis);
    lp_emit_newline(&emit);
    lp_report_json_usage(&emit, analysis);
    lp_report_json_facts(&emit, analysis->run);
    lp_emit_close(&emit, '}');
    lp_emit_raw(&emit, "\n", 1);
    errno = 0;
    if (lp_emit_end(&emit) != 0)
        lp_report_fail(sink, errno != 0 ? -errno : -EIO);
    return sink->error;
}

const struct lp_report_format lp_report_json = {.name = "json", .write = write_json};
