#include "report/json_facts.h"

#include <math.h>

#include "report/json_usage.h"

static void unless_negative(struct lp_emit *emit, const char *key, int64_t value)
{
    if (value < 0)
        lp_report_json_null(emit, key);
    else
        lp_report_json_signed(emit, key, value);
}

static void job(struct lp_emit *emit, const struct lp_run_worker *worker)
{
    if (worker->job_system == NULL) {
        lp_report_json_null(emit, "job");
        return;
    }
    lp_report_json_object(emit, "job");
    lp_report_json_string(emit, "system", worker->job_system);
    lp_report_json_text(emit, "id", &worker->job_id);
    lp_emit_close(emit, '}');
}

static void identity(struct lp_emit *emit, const struct lp_run_worker *worker)
{
    lp_report_json_text(emit, "worker", &worker->worker);
    lp_report_json_text(emit, "role", &worker->role);
    lp_report_json_text(emit, "host", &worker->host);
    lp_report_json_signed(emit, "pid", worker->pid);
    lp_report_json_signed(emit, "parent_pid", worker->parent_pid);
    unless_negative(emit, "rank", worker->rank);
    unless_negative(emit, "world_size", worker->world_size);
    unless_negative(emit, "index", worker->index);
    lp_report_json_string(emit, "launcher", worker->launcher);
    job(emit, worker);
    lp_report_json_text(emit, "runtime", &worker->runtime);
    lp_report_json_string(emit, "library", worker->library);
}

static void end(struct lp_emit *emit, const struct lp_run_worker *worker)
{
    if (!worker->ended) {
        lp_report_json_null(emit, "ended");
        return;
    }
    lp_report_json_object(emit, "ended");
    unless_negative(emit, "signal", worker->signal);
    unless_negative(emit, "exit_status", worker->exit_status);
    lp_emit_close(emit, '}');
}

static void state(struct lp_emit *emit, const struct lp_run_worker *worker)
{
    static const char *const sources[] = {"file", "live_image", "dead_image"};
    lp_report_json_count(emit, "started_realtime_ns", worker->started.realtime_ns);
    lp_report_json_count(emit, "written_realtime_ns", worker->written.realtime_ns);
    lp_report_json_bool(emit, "closed", worker->closed);
    end(emit, worker);
    lp_report_json_bool(emit, "stale", worker->stale);
    lp_report_json_count(emit, "silent_ns", worker->silent_ns);
    lp_report_json_string(emit, "source", sources[worker->source]);
    lp_report_json_string(emit, "path", worker->path);
    lp_report_json_count(emit, "flush", worker->flush);
    lp_report_json_real(emit, "snapshot_interval_s",
                        worker->snapshot_interval_s < 0 ? NAN : worker->snapshot_interval_s);
    lp_report_json_count(emit, "threads", worker->threads);
    lp_report_json_count(emit, "wall_ns", worker->root_wall_ns);
    lp_report_json_bool(emit, "measure_cpu", worker->measure_cpu);
    lp_report_json_bool(emit, "private_image", worker->private_image);
    lp_report_json_string(emit, "wall_clock", worker->wall_clock);
    lp_report_json_string(emit, "cpu_clock", worker->cpu_clock);
}

static void unless_zero(struct lp_emit *emit, const char *key, uint64_t value)
{
    if (value == 0)
        lp_report_json_null(emit, key);
    else
        lp_report_json_count(emit, key, value);
}

static void machine(struct lp_emit *emit, const struct lp_run_machine *machine)
{
    lp_report_json_object(emit, "machine");
    unless_zero(emit, "cores", machine->cores);
    unless_zero(emit, "cores_usable", machine->cores_usable);
    lp_report_json_text(emit, "cores_usable_list", &machine->usable_list);
    if (isinf(machine->cpu_limit_cores))
        lp_report_json_string(emit, "cpu_limit_cores", "none");
    else
        lp_report_json_real(emit, "cpu_limit_cores", machine->cpu_limit_cores);
    unless_zero(emit, "ram_bytes", machine->ram_bytes);
    if (machine->memory_limit_bytes == UINT64_MAX)
        lp_report_json_string(emit, "memory_limit_bytes", "none");
    else
        unless_zero(emit, "memory_limit_bytes", machine->memory_limit_bytes);
    lp_report_json_text(emit, "kernel", &machine->kernel);
    lp_report_json_text(emit, "cpu_model", &machine->cpu_model);
    lp_emit_close(emit, '}');
}

static void resources_of(struct lp_emit *emit, const struct lp_run_worker *worker)
{
    machine(emit, &worker->machine);
    unless_zero(emit, "peak_rss_bytes", worker->peak_rss_bytes);
    unless_zero(emit, "pss_bytes", worker->pss_bytes);
}

static void troubles(struct lp_emit *emit, const struct lp_run_worker *worker)
{
    lp_report_json_object(emit, "troubles");
    for (size_t i = 0; i < worker->n_troubles; i++) {
        lp_emit_text_key(emit, worker->troubles[i].name.bytes, worker->troubles[i].name.len);
        lp_emit_u64(emit, worker->troubles[i].count);
    }
    lp_emit_close(emit, '}');
}

static void open_phases(struct lp_emit *emit, const struct lp_run_worker *worker)
{
    lp_report_json_array(emit, "open");
    for (size_t i = 0; i < worker->n_open; i++) {
        lp_report_json_object(emit, NULL);
        lp_report_json_text(emit, "thread", &worker->open[i].thread);
        lp_report_json_text(emit, "path", &worker->open[i].path);
        lp_report_json_count(emit, "open_ns", worker->open[i].open_ns);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

static void workers(struct lp_emit *emit, const struct lp_run *run)
{
    lp_report_json_array(emit, "workers");
    for (size_t i = 0; i < run->n_workers; i++) {
        lp_emit_newline(emit);
        lp_report_json_object(emit, NULL);
        identity(emit, &run->workers[i]);
        state(emit, &run->workers[i]);
        resources_of(emit, &run->workers[i]);
        lp_report_json_worker_usage(emit, &run->workers[i]);
        troubles(emit, &run->workers[i]);
        open_phases(emit, &run->workers[i]);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

static void hosts(struct lp_emit *emit, const struct lp_run *run)
{
    lp_report_json_array(emit, "hosts");
    for (size_t i = 0; i < run->n_hosts; i++)
        lp_report_json_text(emit, NULL, &run->hosts[i]);
    lp_emit_close(emit, ']');
}

static void superseded(struct lp_emit *emit, const struct lp_run *run)
{
    lp_report_json_array(emit, "superseded");
    for (size_t i = 0; i < run->n_superseded; i++) {
        lp_report_json_object(emit, NULL);
        lp_report_json_text(emit, "run_id", &run->superseded[i].run_id);
        lp_report_json_count(emit, "processes", run->superseded[i].n_workers);
        lp_report_json_count(emit, "unreadable", run->superseded[i].n_unreadable);
        lp_report_json_count(emit, "started_realtime_ns", run->superseded[i].started_realtime_ns);
        lp_report_json_count(emit, "written_realtime_ns", run->superseded[i].written_realtime_ns);
        lp_report_json_bool(emit, "later", run->superseded[i].later);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

static void pair(struct lp_emit *emit, const char *first_key, const char *first, const char *second_key,
                 const char *second)
{
    lp_emit_newline(emit);
    lp_report_json_object(emit, NULL);
    lp_report_json_string(emit, first_key, first);
    lp_report_json_string(emit, second_key, second);
    lp_emit_close(emit, '}');
}

static void losses(struct lp_emit *emit, const struct lp_run *run)
{
    lp_emit_newline(emit);
    lp_report_json_array(emit, "unreadable");
    for (size_t i = 0; i < run->n_unreadable; i++)
        pair(emit, "path", run->unreadable[i].path, "reason", run->unreadable[i].reason);
    lp_emit_close(emit, ']');
    lp_emit_newline(emit);
    lp_report_json_array(emit, "caveats");
    for (size_t i = 0; i < run->n_caveats; i++)
        pair(emit, "kind", run->caveats[i].kind, "text", run->caveats[i].text);
    lp_emit_close(emit, ']');
}

void lp_report_json_facts(struct lp_emit *emit, const struct lp_run *run)
{
    lp_emit_newline(emit);
    workers(emit, run);
    lp_emit_newline(emit);
    hosts(emit, run);
    lp_emit_newline(emit);
    superseded(emit, run);
    lp_report_json_backends(emit, run);
    losses(emit, run);
}
