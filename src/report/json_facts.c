#include "report/json_facts.h"

#include <math.h>

static void text(struct lp_report_json *json, const char *key, const struct lp_text *value)
{
    lp_report_json_text(json, key, value->bytes, value->len);
}

static void unless_negative(struct lp_report_json *json, const char *key, int64_t value)
{
    if (value < 0)
        lp_report_json_null(json, key);
    else
        lp_report_json_signed(json, key, value);
}

static void job(struct lp_report_json *json, const struct lp_run_worker *worker)
{
    if (worker->job_system == NULL) {
        lp_report_json_null(json, "job");
        return;
    }
    lp_report_json_object(json, "job", LP_JSON_INLINE);
    lp_report_json_string(json, "system", worker->job_system);
    text(json, "id", &worker->job_id);
    lp_report_json_close(json);
}

static void identity(struct lp_report_json *json, const struct lp_run_worker *worker)
{
    text(json, "worker", &worker->worker);
    text(json, "role", &worker->role);
    text(json, "host", &worker->host);
    lp_report_json_signed(json, "pid", worker->pid);
    lp_report_json_signed(json, "parent_pid", worker->parent_pid);
    unless_negative(json, "rank", worker->rank);
    unless_negative(json, "world_size", worker->world_size);
    lp_report_json_string(json, "launcher", worker->launcher);
    job(json, worker);
    text(json, "runtime", &worker->runtime);
    lp_report_json_string(json, "library", worker->library);
}

static void state(struct lp_report_json *json, const struct lp_run_worker *worker)
{
    static const char *const sources[] = {"file", "live_image", "dead_image"};
    lp_report_json_count(json, "started_realtime_ns", worker->started.realtime_ns);
    lp_report_json_count(json, "written_realtime_ns", worker->written.realtime_ns);
    lp_report_json_bool(json, "closed", worker->closed);
    lp_report_json_bool(json, "stale", worker->stale);
    lp_report_json_string(json, "source", sources[worker->source]);
    lp_report_json_string(json, "path", worker->path);
    lp_report_json_count(json, "flush", worker->flush);
    lp_report_json_real(json, "snapshot_interval_s",
                        worker->snapshot_interval_s < 0 ? NAN : worker->snapshot_interval_s);
    lp_report_json_count(json, "threads", worker->threads);
    lp_report_json_count(json, "wall_ns", worker->root_wall_ns);
    lp_report_json_bool(json, "measure_cpu", worker->measure_cpu);
    lp_report_json_bool(json, "private_image", worker->private_image);
    lp_report_json_string(json, "wall_clock", worker->wall_clock);
    lp_report_json_string(json, "cpu_clock", worker->cpu_clock);
}

static void troubles(struct lp_report_json *json, const struct lp_run_worker *worker)
{
    lp_report_json_object(json, "troubles", LP_JSON_INLINE);
    for (size_t i = 0; i < worker->n_troubles; i++)
        lp_report_json_named_count(json, worker->troubles[i].name.bytes,
                                   worker->troubles[i].name.len, worker->troubles[i].count);
    lp_report_json_close(json);
}

static void open_phases(struct lp_report_json *json, const struct lp_run_worker *worker)
{
    lp_report_json_array(json, "open", LP_JSON_INLINE);
    for (size_t i = 0; i < worker->n_open; i++) {
        lp_report_json_object(json, NULL, LP_JSON_INLINE);
        text(json, "thread", &worker->open[i].thread);
        text(json, "path", &worker->open[i].path);
        lp_report_json_count(json, "open_ns", worker->open[i].open_ns);
        lp_report_json_close(json);
    }
    lp_report_json_close(json);
}

static void workers(struct lp_report_json *json, const struct lp_run *run)
{
    lp_report_json_array(json, "workers", LP_JSON_LINES);
    for (size_t i = 0; i < run->n_workers; i++) {
        lp_report_json_object(json, NULL, LP_JSON_INLINE);
        identity(json, &run->workers[i]);
        state(json, &run->workers[i]);
        troubles(json, &run->workers[i]);
        open_phases(json, &run->workers[i]);
        lp_report_json_close(json);
    }
    lp_report_json_close(json);
}

static void hosts(struct lp_report_json *json, const struct lp_run *run)
{
    lp_report_json_array(json, "hosts", LP_JSON_INLINE);
    for (size_t i = 0; i < run->n_hosts; i++)
        text(json, NULL, &run->hosts[i]);
    lp_report_json_close(json);
}

static void superseded(struct lp_report_json *json, const struct lp_run *run)
{
    lp_report_json_array(json, "superseded", LP_JSON_LINES);
    for (size_t i = 0; i < run->n_superseded; i++) {
        lp_report_json_object(json, NULL, LP_JSON_INLINE);
        text(json, "run_id", &run->superseded[i].run_id);
        lp_report_json_count(json, "processes", run->superseded[i].n_workers);
        lp_report_json_count(json, "started_realtime_ns", run->superseded[i].started_realtime_ns);
        lp_report_json_close(json);
    }
    lp_report_json_close(json);
}

static void pair(struct lp_report_json *json, const char *first_key, const char *first,
                 const char *second_key, const char *second)
{
    lp_report_json_object(json, NULL, LP_JSON_INLINE);
    lp_report_json_string(json, first_key, first);
    lp_report_json_string(json, second_key, second);
    lp_report_json_close(json);
}

static void losses(struct lp_report_json *json, const struct lp_run *run)
{
    lp_report_json_array(json, "unreadable", LP_JSON_LINES);
    for (size_t i = 0; i < run->n_unreadable; i++)
        pair(json, "path", run->unreadable[i].path, "reason", run->unreadable[i].reason);
    lp_report_json_close(json);
    lp_report_json_array(json, "caveats", LP_JSON_LINES);
    for (size_t i = 0; i < run->n_caveats; i++)
        pair(json, "kind", run->caveats[i].kind, "text", run->caveats[i].text);
    lp_report_json_close(json);
}

void lp_report_json_facts(struct lp_report_json *json, const struct lp_run *run)
{
    workers(json, run);
    hosts(json, run);
    superseded(json, run);
    losses(json, run);
}
