/* docs/where.schema.json tells each key and its type, docs/looking.md what it means. */
#include "report/where.h"

#include <errno.h>

#include "report/json_value.h"

#define FORMAT_NAME "lineprofiler-where"
/* Goes up when a program written for the old version would misread the new one; a new key does not raise it. */
#define FORMAT_VERSION 1

static void text(struct lp_emit *emit, const char *key, const struct lp_stacks_text *value)
{
    if (key)
        lp_emit_key(emit, key);
    lp_emit_text(emit, value->bytes, value->len);
}

static void at_least_0(struct lp_emit *emit, const char *key, int64_t value)
{
    if (value < 0)
        lp_report_json_null(emit, key);
    else
        lp_report_json_signed(emit, key, value);
}

/* ---- workers that live on this machine ------------------------------------------------------ */

static void stacks(struct lp_emit *emit, const struct lp_stacks_thread *thread)
{
    lp_report_json_array(emit, "stacks");
    for (size_t i = 0; i < thread->n_stacks; i++) {
        const struct lp_stacks_stack *stack = &thread->stacks[i];
        lp_report_json_object(emit, NULL);
        lp_report_json_bool(emit, "task", stack->task);
        if (stack->runs == LP_STACKS_NOT_KNOWN)
            lp_report_json_null(emit, "runs");
        else
            lp_report_json_bool(emit, "runs", stack->runs == LP_STACKS_RUNNING);
        lp_report_json_count(emit, "quiet_ns", stack->quiet_ns);
        lp_report_json_bool(emit, "not_measured", stack->skips);
        lp_report_json_array(emit, "frames");
        for (size_t j = 0; j < stack->n_frames; j++) {
            lp_report_json_object(emit, NULL);
            text(emit, "name", &stack->frames[j].name);
            lp_report_json_count(emit, "open_ns", stack->frames[j].open_ns);
            lp_emit_close(emit, '}');
        }
        lp_emit_close(emit, ']');
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

static void last_finished(struct lp_emit *emit, const struct lp_stacks_thread *thread)
{
    if (!thread->finished) {
        lp_report_json_null(emit, "last_finished");
        return;
    }
    lp_report_json_object(emit, "last_finished");
    if (thread->finished_depth == 0) {
        lp_report_json_null(emit, "path");
    } else {
        lp_report_json_array(emit, "path");
        for (size_t i = 0; i < thread->finished_depth; i++)
            text(emit, NULL, &thread->finished_path[i]);
        lp_emit_close(emit, ']');
    }
    lp_report_json_count(emit, "ago_ns", thread->finished_ago_ns);
    lp_emit_close(emit, '}');
}

static void state(struct lp_emit *emit, const struct lp_where_thread *thread)
{
    static const char *const names[] = {
        [LP_WHERE_ON_CPU] = "on_cpu",   [LP_WHERE_PARTLY] = "partly_on_cpu", [LP_WHERE_RUNNABLE] = "runnable",
        [LP_WHERE_WAITING] = "waiting", [LP_WHERE_BLOCKED] = "blocked",      [LP_WHERE_STOPPED] = "stopped",
        [LP_WHERE_ENDED] = "ended",
    };
    char letter[2] = {thread->kernel_state, '\0'};
    lp_report_json_string(emit, "state", names[thread->state]);
    lp_report_json_string(emit, "kernel_state", *letter ? letter : NULL);
    lp_report_json_string(emit, "wait_channel", *thread->wait_channel ? thread->wait_channel : NULL);
    lp_report_json_real(emit, "cpu_share", thread->cpu_share);
}

static void threads(struct lp_emit *emit, const struct lp_where_worker *worker)
{
    lp_report_json_array(emit, "threads");
    for (size_t i = 0; i < worker->n_threads; i++) {
        const struct lp_where_thread *thread = &worker->threads[i];
        lp_emit_newline(emit);
        lp_report_json_object(emit, NULL);
        text(emit, "name", &thread->open.name);
        lp_report_json_count(emit, "tid", thread->open.tid);
        state(emit, thread);
        if (thread->open.quiet_ns == UINT64_MAX)
            lp_report_json_null(emit, "quiet_ns");
        else
            lp_report_json_count(emit, "quiet_ns", thread->open.quiet_ns);
        last_finished(emit, &thread->open);
        stacks(emit, &thread->open);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

static void workers(struct lp_emit *emit, const struct lp_where *where)
{
    lp_report_json_array(emit, "workers");
    for (size_t i = 0; i < where->n_workers; i++) {
        const struct lp_where_worker *worker = &where->workers[i];
        lp_emit_newline(emit);
        lp_report_json_object(emit, NULL);
        text(emit, "worker", &worker->stacks.worker);
        text(emit, "run_id", &worker->stacks.run_id);
        text(emit, "role", &worker->stacks.role);
        lp_report_json_count(emit, "pid", worker->stacks.pid);
        at_least_0(emit, "rank", worker->stacks.rank);
        at_least_0(emit, "index", worker->stacks.index);
        if (worker->stacks.closing)
            lp_report_json_count(emit, "closing_ns", worker->stacks.closing_ns);
        else
            lp_report_json_null(emit, "closing_ns");
        lp_report_json_bool(emit, "private_image", worker->stacks.partial);
        lp_report_json_count(emit, "ended_threads", worker->stacks.n_ended_threads);
        threads(emit, worker);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

/* ---- the others ------------------------------------------------------------------------------- */

static void facts(struct lp_emit *emit, const struct lp_where_other *other)
{
    const struct lp_run_worker *worker = other->worker;
    lp_report_json_text(emit, "worker", &worker->worker);
    lp_report_json_text(emit, "role", &worker->role);
    lp_report_json_text(emit, "host", &worker->host);
    lp_report_json_signed(emit, "pid", worker->pid);
    at_least_0(emit, "rank", worker->rank);
    at_least_0(emit, "index", worker->index);
    lp_report_json_count(emit, "written_realtime_ns", worker->written.realtime_ns);
    if (other->ahead)
        lp_report_json_null(emit, "age_ns");
    else
        lp_report_json_count(emit, "age_ns", other->age_ns);
    lp_report_json_bool(emit, "same_clock", other->same_clock);
}

static void open(struct lp_emit *emit, const struct lp_run_worker *worker)
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

static void elsewhere(struct lp_emit *emit, const struct lp_where *where)
{
    if (where->run_dir_late) {
        lp_report_json_null(emit, "elsewhere");
        return;
    }
    lp_report_json_array(emit, "elsewhere");
    for (size_t i = 0; i < where->n_elsewhere; i++) {
        const struct lp_where_other *other = &where->elsewhere[i];
        lp_emit_newline(emit);
        lp_report_json_object(emit, NULL);
        facts(emit, other);
        open(emit, other->worker);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

static void ended(struct lp_emit *emit, const struct lp_where *where)
{
    if (where->run_dir_late) {
        lp_report_json_null(emit, "ended");
        return;
    }
    lp_report_json_array(emit, "ended");
    for (size_t i = 0; i < where->n_ended; i++) {
        const struct lp_run_worker *worker = where->ended[i].worker;
        lp_emit_newline(emit);
        lp_report_json_object(emit, NULL);
        facts(emit, &where->ended[i]);
        at_least_0(emit, "signal", worker->signal > 0 ? worker->signal : -1);
        at_least_0(emit, "exit_status", worker->exit_status);
        open(emit, worker);
        lp_emit_close(emit, '}');
    }
    lp_emit_close(emit, ']');
}

static void of_files(struct lp_emit *emit, const char *key, const struct lp_where *where, size_t count)
{
    if (where->run_dir_late)
        lp_report_json_null(emit, key);
    else
        lp_report_json_count(emit, key, count);
}

static void run(struct lp_emit *emit, const struct lp_where *where)
{
    lp_report_json_object(emit, "run");
    lp_report_json_text(emit, "run_id", &where->run_id);
    lp_report_json_string(emit, "dir", where->dir);
    lp_report_json_count(emit, "now_realtime_ns", where->now_realtime_ns);
    lp_report_json_bool(emit, "run_dir_answers", !where->run_dir_late);
    of_files(emit, "processes", where, where->n_all);
    of_files(emit, "closed_processes", where, where->n_closed);
    of_files(emit, "unreadable_files", where, where->run ? where->run->n_unreadable : 0);
    lp_emit_close(emit, '}');
}

int lp_report_where_json(const struct lp_where *where, const struct lp_report_where_options *options,
                         struct lp_report_sink *sink)
{
    (void)options;
    struct lp_emit emit;
    lp_emit_init(&emit, sink->put, sink->context);
    lp_report_json_object(&emit, NULL);
    lp_report_json_string(&emit, "format", FORMAT_NAME);
    lp_report_json_count(&emit, "version", FORMAT_VERSION);
    lp_emit_newline(&emit);
    run(&emit, where);
    lp_emit_newline(&emit);
    workers(&emit, where);
    lp_emit_newline(&emit);
    elsewhere(&emit, where);
    lp_emit_newline(&emit);
    ended(&emit, where);
    lp_emit_close(&emit, '}');
    lp_emit_raw(&emit, "\n", 1);
    errno = 0;
    if (lp_emit_end(&emit) != 0)
        lp_report_fail(sink, errno != 0 ? -errno : -EIO);
    return sink->error;
}
