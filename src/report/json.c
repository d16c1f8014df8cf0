/* K13: the figures for programs. docs/report-json.md tells each key, docs/report.schema.json its
 * type. */
#include <math.h>
#include <string.h>

#include "report/json_facts.h"
#include "report/json_writer.h"
#include "report/report.h"

#define FORMAT_NAME "lineprofiler-report"
/* Goes up when a program written for the old version would misread the new one; a new key does not
 * raise it. */
#define FORMAT_VERSION 1

static void text(struct lp_report_json *json, const char *key, const struct lp_text *value)
{
    lp_report_json_text(json, key, value->bytes, value->len);
}

static void index_or_null(struct lp_report_json *json, const char *key, size_t index)
{
    if (index == LP_ANALYSIS_NONE)
        lp_report_json_null(json, key);
    else
        lp_report_json_count(json, key, index);
}

/* --- phases --- */

static void path(struct lp_report_json *json, const char *key, const struct lp_analysis_role *role,
                 size_t phase)
{
    unsigned depth = phase == LP_ANALYSIS_NONE ? 0 : role->phases[phase].depth;
    lp_report_json_array(json, key, LP_JSON_INLINE);
    for (unsigned level = 1; level <= depth; level++) {
        size_t at = phase;
        while (role->phases[at].depth > level)
            at = role->phases[at].parent;
        text(json, NULL, &role->phases[at].phase->name);
    }
    lp_report_json_close(json);
}

static void counters(struct lp_report_json *json, const struct lp_run_phase *phase)
{
    lp_report_json_array(json, "counters", LP_JSON_INLINE);
    for (size_t i = 0; i < phase->n_counters; i++) {
        const struct lp_run_counter *counter = &phase->counters[i];
        struct lp_analysis_counter figures = lp_analysis_counter(phase, counter);
        lp_report_json_object(json, NULL, LP_JSON_INLINE);
        text(json, "name", &counter->name);
        lp_report_json_signed(json, "total", counter->sum);
        lp_report_json_real(json, "rate_per_s", figures.rate_per_s);
        lp_report_json_real(json, "each_ns", figures.each_ns);
        lp_report_json_count(json, "calls", counter->calls);
        lp_report_json_signed(json, "min", counter->min);
        lp_report_json_signed(json, "max", counter->max);
        lp_report_json_bool(json, "saturated", counter->saturated);
        lp_report_json_close(json);
    }
    lp_report_json_close(json);
}

static void times(struct lp_report_json *json, const struct lp_analysis_phase *figures)
{
    const struct lp_run_phase *phase = figures->phase;
    lp_report_json_count(json, "calls", phase->calls);
    lp_report_json_count(json, "wall_ns", phase->wall_ns);
    lp_report_json_count(json, "self_ns", figures->self_ns);
    if (phase->cpu_known) {
        lp_report_json_count(json, "cpu_ns", phase->cpu_ns);
        lp_report_json_count(json, "wait_ns", figures->wait_ns);
        lp_report_json_count(json, "wait_base_ns", figures->wait_base_ns);
    } else {
        lp_report_json_null(json, "cpu_ns");
        lp_report_json_null(json, "wait_ns");
        lp_report_json_null(json, "wait_base_ns");
    }
    lp_report_json_count(json, "late_wall_ns", phase->late_wall_ns);
    lp_report_json_count(json, "open_calls", phase->open_calls);
    lp_report_json_count(json, "open_wall_ns", phase->open_wall_ns);
}

static void derived(struct lp_report_json *json, const struct lp_analysis_phase *figures)
{
    lp_report_json_real(json, "share", figures->share);
    lp_report_json_real(json, "parent_share", figures->parent_share);
    lp_report_json_real(json, "self_share", figures->self_share);
    lp_report_json_real(json, "wait_share", figures->wait_share);
    lp_report_json_real(json, "mean_ns", figures->mean_ns);
    lp_report_json_real(json, "p50_ns", figures->p50_ns);
    lp_report_json_real(json, "p95_ns", figures->p95_ns);
    lp_report_json_real(json, "p99_ns", figures->p99_ns);
}

static void phases(struct lp_report_json *json, const struct lp_analysis_role *role)
{
    lp_report_json_array(json, "phases", LP_JSON_LINES);
    for (size_t i = 0; i < role->n_phases; i++) {
        const struct lp_analysis_phase *figures = &role->phases[i];
        lp_report_json_object(json, NULL, LP_JSON_INLINE);
        path(json, "path", role, i);
        times(json, figures);
        derived(json, figures);
        lp_report_json_count(json, "workers", figures->phase->workers);
        lp_report_json_bool(json, "estimated", figures->phase->estimated);
        lp_report_json_bool(json, "self_estimated", figures->self_estimated);
        lp_report_json_count(json, "stride_min", figures->phase->stride_min);
        lp_report_json_count(json, "stride_max", figures->phase->stride_max);
        lp_report_json_bool(json, "saturated", figures->phase->saturated);
        counters(json, figures->phase);
        lp_report_json_close(json);
    }
    lp_report_json_close(json);
}

/* --- roles --- */

static void indices(struct lp_report_json *json, const char *key, const size_t *items, size_t n)
{
    lp_report_json_array(json, key, LP_JSON_INLINE);
    for (size_t i = 0; i < n; i++)
        lp_report_json_count(json, NULL, items[i]);
    lp_report_json_close(json);
}

static void shares(struct lp_report_json *json, const struct lp_analysis_role *role)
{
    lp_report_json_object(json, "shares", LP_JSON_INLINE);
    path(json, "level", role, role->level);
    indices(json, "phases", role->shares, role->n_shares);
    lp_report_json_count(json, "small_phases", role->n_small);
    lp_report_json_count(json, "small_ns", role->small_ns);
    lp_report_json_real(json, "small_share", role->small_share);
    lp_report_json_count(json, "other_ns", role->other_ns);
    lp_report_json_real(json, "other_share", role->other_share);
    lp_report_json_bool(json, "other_estimated", role->other_estimated);
    lp_report_json_close(json);
}

static void dominant(struct lp_report_json *json, const struct lp_analysis_role *role)
{
    lp_report_json_object(json, "dominant", LP_JSON_INLINE);
    indices(json, "phases", role->dominant, role->n_dominant);
    lp_report_json_count(json, "minor_phases", role->n_minor);
    lp_report_json_count(json, "minor_self_ns", role->minor_self_ns);
    lp_report_json_real(json, "minor_self_share", role->minor_self_share);
    lp_report_json_close(json);
}

static void roles(struct lp_report_json *json, const struct lp_analysis *analysis)
{
    lp_report_json_array(json, "roles", LP_JSON_LINES);
    for (size_t i = 0; i < analysis->n_roles; i++) {
        const struct lp_analysis_role *role = &analysis->roles[i];
        lp_report_json_object(json, NULL, LP_JSON_LINES);
        text(json, "name", &role->role->name);
        lp_report_json_count(json, "processes", role->role->n_workers);
        lp_report_json_real(json, "imbalance", role->role->imbalance);
        index_or_null(json, "busiest_worker", role->busiest);
        lp_report_json_count(json, "wall_ns", role->wall_ns);
        lp_report_json_real(json, "mean_process_wall_ns", role->mean_wall_ns);
        shares(json, role);
        dominant(json, role);
        index_or_null(json, "iterations", role->repeating);
        counters(json, role->role->tree);
        phases(json, role);
        lp_report_json_close(json);
    }
    lp_report_json_close(json);
}

static void run(struct lp_report_json *json, const struct lp_analysis *analysis)
{
    const struct lp_run *model = analysis->run;
    lp_report_json_object(json, "run", LP_JSON_INLINE);
    text(json, "run_id", &model->run_id);
    lp_report_json_string(json, "dir", model->dir);
    lp_report_json_count(json, "started_realtime_ns", model->started_realtime_ns);
    lp_report_json_count(json, "written_realtime_ns", model->written_realtime_ns);
    lp_report_json_count(json, "runtime_ns", model->runtime_ns);
    lp_report_json_bool(json, "live", model->live);
    lp_report_json_count(json, "processes", model->n_workers);
    lp_report_json_count(json, "lost_processes", analysis->n_lost);
    lp_report_json_bool(json, "most_lost", analysis->most_lost);
    lp_report_json_close(json);
}

static int write_json(const struct lp_analysis *analysis, const struct lp_report_options *options,
                      struct lp_report_sink *sink)
{
    (void)options;
    struct lp_report_json json;
    lp_report_json_init(&json, sink);
    lp_report_json_object(&json, NULL, LP_JSON_LINES);
    lp_report_json_string(&json, "format", FORMAT_NAME);
    lp_report_json_count(&json, "version", FORMAT_VERSION);
    run(&json, analysis);
    roles(&json, analysis);
    lp_report_json_facts(&json, analysis->run);
    lp_report_json_close(&json);
    lp_report_json_release(&json);
    return sink->error;
}

const struct lp_report_format lp_report_json = {.name = "json", .write = write_json};
