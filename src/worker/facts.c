/* The names of a worker and the part of its document that never changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/emit.h"
#include "process/machine.h"
#include "worker/internal.h"
#include "worker/run_id.h"
#include <lineprofiler.h>

void lp_file_name_from(char *name, size_t size, const char *text)
{
    static const char kept[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(text);
    len = len < size - 1 ? len : size - 1;
    for (size_t i = 0; i < len; i++) {
        name[i] = text[i];
        if (!strchr(kept, text[i]) || (i == 0 && text[i] == '.'))
            name[i] = '_';
    }
    name[len] = '\0';
}

int lp_worker_make_names(struct lp_worker *worker)
{
    char run[LP_RUN_ID_BYTES + 1], host[sizeof worker->identity.host];
    lp_file_name_from(run, sizeof run, worker->run_id);
    lp_file_name_from(host, sizeof host, worker->identity.host);
    snprintf(worker->name, sizeof worker->name, "w_%s_%lld_%08x", run, (long long)worker->identity.pid,
             lp_random_bits());
    free(worker->folder);
    free(worker->path);
    worker->path = NULL;
    if (asprintf(&worker->folder, "%s/workers/%s", worker->run_dir, host) < 0)
        worker->folder = NULL;
    if (!worker->folder || asprintf(&worker->path, "%s/%s.json", worker->folder, worker->name) < 0)
        worker->path = NULL;
    return worker->path ? 0 : -1;
}

static void emit_or_null(struct lp_emit *emit, const char *key, const char *text)
{
    lp_emit_key(emit, key);
    if (text)
        lp_emit_string(emit, text);
    else
        lp_emit_null(emit);
}

static void emit_rank(struct lp_emit *emit, const char *key, int64_t rank)
{
    lp_emit_key(emit, key);
    if (rank >= 0)
        lp_emit_i64(emit, rank);
    else
        lp_emit_null(emit);
}

static void emit_job(struct lp_emit *emit, const struct lp_launch *launch)
{
    lp_emit_key(emit, "job");
    if (!launch->job_system) {
        lp_emit_null(emit);
        return;
    }
    lp_emit_open(emit, '{');
    emit_or_null(emit, "system", launch->job_system);
    emit_or_null(emit, "id", launch->job_id);
    lp_emit_close(emit, '}');
}

static void emit_interval(struct lp_emit *emit, const char *key, uint64_t ns)
{
    lp_emit_key(emit, key);
    if (ns)
        lp_emit_seconds(emit, ns);
    else
        lp_emit_null(emit);
}

static void emit_process(struct lp_emit *emit, const struct lp_worker *worker)
{
    const struct lp_identity *identity = &worker->identity;
    const struct lp_launch *launch = &identity->launch;
    lp_emit_key(emit, "pid");
    lp_emit_i64(emit, identity->pid);
    lp_emit_key(emit, "parent_pid");
    lp_emit_i64(emit, identity->parent_pid);
    emit_or_null(emit, "host", identity->host);
    emit_rank(emit, "rank", launch->rank);
    emit_rank(emit, "world_size", launch->world_size);
    if (worker->has_index) {
        lp_emit_key(emit, "index");
        lp_emit_u64(emit, worker->index);
    }
    emit_or_null(emit, "launcher", launch->launcher);
    emit_job(emit, launch);
    lp_emit_newline(emit);
    emit_or_null(emit, "boot_id", identity->boot_id);
    lp_emit_key(emit, "pid_namespace");
    lp_emit_u64(emit, identity->pid_namespace);
    if (identity->time_namespace) {
        lp_emit_key(emit, "time_namespace");
        lp_emit_u64(emit, identity->time_namespace);
    }
    lp_emit_key(emit, "process_start_ticks");
    lp_emit_u64(emit, identity->process_start_ticks);
    lp_emit_newline(emit);
    emit_or_null(emit, "library", lp_version());
    emit_or_null(emit, "runtime", worker->runtime);
}

static void emit_settings(struct lp_emit *emit, const struct lp_worker *worker)
{
    static const char *const origins[] = {"given", "inherited", "launcher", "generated"};
    emit_or_null(emit, "run_id_origin", origins[worker->run_id_origin]);
    lp_emit_newline(emit);
    lp_emit_key(emit, "settings");
    lp_emit_open(emit, '{');
    lp_emit_key(emit, "measure_cpu");
    lp_emit_bool(emit, worker->recorder.measure_cpu);
    lp_emit_key(emit, "thread_names");
    lp_emit_bool(emit, worker->thread_names);
    lp_emit_key(emit, "measure_pss");
    lp_emit_bool(emit, worker->measure_pss);
    emit_interval(emit, "snapshot_interval_s", worker->snapshot_ns);
    emit_interval(emit, "sample_interval_s", worker->sample_ns);
    lp_emit_close(emit, '}');
}

void lp_emit_command(struct lp_emit *emit, const struct lp_identity *identity)
{
    lp_emit_key(emit, "command");
    lp_emit_open(emit, '[');
    for (size_t i = 0; i < identity->command_len; i += strlen(identity->command + i) + 1)
        lp_emit_string(emit, identity->command + i);
    lp_emit_close(emit, ']');
}

void lp_emit_stamp(struct lp_emit *emit, const char *key, const struct lp_stamp *stamp)
{
    lp_emit_key(emit, key);
    lp_emit_open(emit, '{');
    lp_emit_key(emit, "realtime_ns");
    lp_emit_u64(emit, stamp->realtime_ns);
    lp_emit_key(emit, "monotonic_ns");
    lp_emit_u64(emit, stamp->monotonic_ns);
    lp_emit_key(emit, "boottime_ns");
    lp_emit_u64(emit, stamp->boottime_ns);
    lp_emit_close(emit, '}');
}

/* True if the limit's value is to follow the key. */
static bool emit_limit(struct lp_emit *emit, const char *key, const struct lp_limit *limit)
{
    lp_emit_key(emit, key);
    if (limit->state == LP_LIMIT_NONE)
        lp_emit_string(emit, "none");
    else if (limit->state == LP_LIMIT_UNKNOWN)
        lp_emit_null(emit);
    return limit->state == LP_LIMIT_SET;
}

static void emit_machine(struct lp_emit *emit)
{
    struct lp_machine machine;
    lp_machine_read(&machine, "");
    lp_emit_key(emit, "machine");
    lp_emit_open(emit, '{');
    lp_emit_u64_or_null(emit, "cores", machine.cores);
    lp_emit_u64_or_null(emit, "cores_usable", machine.cores_usable);
    lp_emit_string_or_null(emit, "cores_usable_list", machine.usable_list);
    if (emit_limit(emit, "cpu_limit_cores", &machine.limits.cpu_nanocores))
        lp_emit_seconds(emit, machine.limits.cpu_nanocores.value);
    lp_emit_u64_or_null(emit, "ram_bytes", machine.ram_bytes);
    if (emit_limit(emit, "memory_limit_bytes", &machine.limits.memory_bytes))
        lp_emit_u64(emit, machine.limits.memory_bytes.value);
    lp_emit_string_or_null(emit, "kernel", machine.kernel);
    lp_emit_string_or_null(emit, "cpu_model", machine.cpu_model);
    lp_emit_close(emit, '}');
}

static void emit_facts(struct lp_emit *emit, const struct lp_worker *worker)
{
    emit_or_null(emit, "worker", worker->name);
    emit_or_null(emit, "run_id", worker->run_id);
    lp_emit_key(emit, "role");
    lp_emit_text(emit, worker->role, worker->role_len);
    emit_process(emit, worker);
    lp_emit_command(emit, &worker->identity);
    lp_emit_newline(emit);
    emit_machine(emit);
    emit_settings(emit, worker);
    lp_emit_stamp(emit, "started", &worker->started);
}

static lp_ref put_name(struct lp_worker *worker, const char *bytes, size_t len)
{
    struct lp_image *image = &worker->recorder.image;
    lp_ref ref = len <= LP_NAME_LIMIT ? lp_image_alloc(image, sizeof(struct lp_name) + len) : 0;
    if (!ref)
        return 0;
    struct lp_name *name = lp_image_at(image, ref);
    name->len = (uint32_t)len;
    memcpy(name->bytes, bytes, len);
    return ref;
}

static int put_facts_text(struct lp_worker *worker)
{
    struct lp_header *header = lp_image_header(&worker->recorder.image);
    struct lp_emit emit;
    struct lp_buffer facts = {0};
    lp_emit_init(&emit, lp_buffer_put, &facts);
    emit_facts(&emit, worker);
    if (lp_emit_end(&emit) == 0)
        header->facts = put_name(worker, facts.bytes, facts.len);
    free(facts.bytes);
    return header->facts ? 0 : -1;
}

static int put_names(struct lp_worker *worker)
{
    struct lp_header *header = lp_image_header(&worker->recorder.image);
    const char *folder = worker->folder + strlen(worker->run_dir) + 1;
    header->run_dir = put_name(worker, worker->run_dir, strlen(worker->run_dir));
    header->folder = put_name(worker, folder, strlen(folder));
    header->worker = put_name(worker, worker->name, strlen(worker->name));
    header->run_id = put_name(worker, worker->run_id, strlen(worker->run_id));
    header->role = worker->role_len ? put_name(worker, worker->role, worker->role_len) : 0;
    return header->run_dir && header->folder && header->worker && header->run_id ? 0 : -1;
}

int lp_worker_put_facts(struct lp_worker *worker)
{
    struct lp_header *header = lp_image_header(&worker->recorder.image);
    const struct lp_identity *identity = &worker->identity;
    header->pid = (uint64_t)identity->pid;
    header->parent_pid = (uint64_t)identity->parent_pid;
    header->pid_namespace = identity->pid_namespace;
    header->time_namespace = identity->time_namespace;
    header->process_start_ticks = identity->process_start_ticks;
    memcpy(header->boot_id, identity->boot_id, sizeof header->boot_id);
    header->started = worker->started;
    header->rank = identity->launch.rank;
    header->index = worker->has_index ? (int64_t)worker->index : -1;
    atomic_store(&header->run_dir_device, worker->run_dir_device);
    atomic_store(&header->run_dir_inode, worker->run_dir_inode);
    atomic_store(&header->run_dir_id, worker->run_dir_id);
    header->snapshot_ns = worker->snapshot_ns;
    header->measure_cpu = worker->recorder.measure_cpu;
    lp_image_beat(&worker->recorder.image, &worker->started);
    return put_facts_text(worker) == 0 ? put_names(worker) : -1;
}
