#include <stdlib.h>
#include <string.h>

#include "run/fold.h"
#include "run/hist.h"
#include "run/pending.h"
#include "run/samples_load.h"

/* The deepest open node of a slot; the one open longest of several. NULL if nothing is open. */
static const struct lp_run_record *deepest_open(const struct lp_run_record *records, size_t n)
{
    const struct lp_run_record *deepest = NULL;
    for (size_t i = 1; i < n; i++) {
        const struct lp_run_record *record = &records[i];
        if (!record->open_calls)
            continue;
        if (!deepest || record->depth > deepest->depth ||
            (record->depth == deepest->depth && record->open_wall_ns > deepest->open_wall_ns))
            deepest = record;
    }
    return deepest;
}

static size_t path_length(const struct lp_run_record *records, const struct lp_run_record *record)
{
    size_t len = record->name.len;
    for (record = &records[record->parent]; record != records; record = &records[record->parent])
        len += record->name.len + 1;
    return len;
}

/* Fills the path from its end. */
static int copy_path(struct lp_text *path, const struct lp_run_record *records, const struct lp_run_record *record)
{
    path->len = path_length(records, record);
    path->bytes = malloc(path->len + 1);
    if (!path->bytes)
        return -1;
    char *at = path->bytes + path->len;
    *at = '\0';
    for (;;) {
        at -= record->name.len;
        memcpy(at, record->name.bytes, record->name.len);
        record = &records[record->parent];
        if (record == records)
            return 0;
        *--at = '/';
    }
}

static int copy_open(struct lp_run_worker *worker, const struct lp_run_document *document)
{
    if (!document->n_slots)
        return 0;
    worker->open = calloc(document->n_slots, sizeof *worker->open);
    if (!worker->open)
        return -1;
    for (size_t i = 0; i < document->n_slots; i++) {
        const struct lp_run_slot *slot = &document->slots[i];
        const struct lp_run_record *records = document->records + slot->nodes;
        const struct lp_run_record *record = deepest_open(records, slot->n_nodes);
        if (!record)
            continue;
        struct lp_run_open *open = &worker->open[worker->n_open++];
        open->open_ns = record->open_wall_ns / record->open_calls;
        if (lp_text_copy(&open->thread, slot->name) < 0 || copy_path(&open->path, records, record) < 0)
            return -1;
    }
    if (!worker->n_open) {
        free(worker->open);
        worker->open = NULL;
    }
    return 0;
}

static int copy_troubles(struct lp_run_worker *worker, const struct lp_run_document *document)
{
    if (!document->n_troubles)
        return 0;
    worker->troubles = calloc(document->n_troubles, sizeof *worker->troubles);
    if (!worker->troubles)
        return -1;
    for (size_t i = 0; i < document->n_troubles; i++) {
        if (!document->troubles[i].count)
            continue;
        struct lp_run_trouble *trouble = &worker->troubles[worker->n_troubles++];
        trouble->count = document->troubles[i].count;
        if (lp_text_copy(&trouble->name, document->troubles[i].name) < 0)
            return -1;
    }
    return 0;
}

static int copy_string(char **string, struct lp_span from)
{
    struct lp_text text;
    if (lp_text_copy(&text, from) < 0)
        return -1;
    *string = text.bytes;
    return 0;
}

static int copy_devices(struct lp_run_worker *worker, const struct lp_run_document *document)
{
    worker->devices = document->n_gpus ? calloc(document->n_gpus, sizeof *worker->devices) : NULL;
    if (document->n_gpus && !worker->devices)
        return -1;
    for (size_t i = 0; i < document->n_gpus; i++) {
        const struct lp_run_gpu_view *from = &document->gpus[i];
        struct lp_run_device *device = &worker->devices[worker->n_devices++];
        device->index = from->index;
        device->memory_bytes = from->memory_bytes;
        if (lp_text_copy(&device->name, from->name) < 0 || lp_text_copy(&device->uuid, from->uuid) < 0 ||
            copy_string(&device->state, from->state) < 0 || copy_string(&device->own, from->own) < 0)
            return -1;
    }
    return 0;
}

static int copy_names(struct lp_run_worker *worker, const struct lp_run_document *document, const char *path)
{
    if (lp_text_copy(&worker->worker, document->worker) < 0 || lp_text_copy(&worker->run_id, document->run_id) < 0 ||
        lp_text_copy(&worker->role, document->role) < 0 || lp_text_copy(&worker->host, document->host) < 0 ||
        lp_text_copy(&worker->job_id, document->job_id) < 0 || lp_text_copy(&worker->runtime, document->runtime) < 0 ||
        lp_text_copy(&worker->machine.usable_list, document->usable_list) < 0 ||
        lp_text_copy(&worker->machine.kernel, document->kernel) < 0 ||
        lp_text_copy(&worker->machine.cpu_model, document->cpu_model) < 0)
        return -1;
    if (copy_string(&worker->job_system, document->job_system) < 0 ||
        copy_string(&worker->launcher, document->launcher) < 0 ||
        copy_string(&worker->boot_id, document->boot_id) < 0 || copy_string(&worker->library, document->library) < 0 ||
        copy_string(&worker->wall_clock, document->wall_clock) < 0 ||
        copy_string(&worker->cpu_clock, document->cpu_clock) < 0)
        return -1;
    worker->path = strdup(path);
    return worker->path ? 0 : -1;
}

static void add_root(struct lp_run_worker *worker, const struct lp_run_record *record)
{
    struct lp_run_figures figures = lp_run_fold_record(record);
    bool saturated = false;
    worker->root_wall_ns = lp_run_sum(worker->root_wall_ns, figures.wall_ns, &saturated);
    worker->root_cpu_ns = lp_run_sum(worker->root_cpu_ns, figures.cpu_ns, &saturated);
    worker->root_nocpu_wall_ns = lp_run_sum(worker->root_nocpu_wall_ns, figures.nocpu_wall_ns, &saturated);
    worker->root_cpu_known |= figures.cpu_seen;
    worker->root_estimated |= record->stride > 1;
}

/* Time of a thread's phases beyond the ends of all around them: what they have of it, less what they cover of others. Not
   to be had from estimates. */
static uint64_t beyond_roots_ns(const struct lp_run_record *records, size_t n_records)
{
    uint64_t inner_ns = 0, covered_ns = 0;
    bool late = false, estimated = false, saturated = false;
    for (size_t i = 1; i < n_records; i++) {
        struct lp_run_figures figures = lp_run_fold_record(&records[i]);
        late |= figures.late_wall_ns > 0;
        estimated |= records[i].stride > 1;
        inner_ns = lp_run_sum(inner_ns, records[i].parent == 0 ? 0 : figures.wall_ns, &saturated);
        covered_ns = lp_run_sum(covered_ns, figures.child_wall_ns, &saturated);
    }
    return late && !estimated && !saturated && inner_ns > covered_ns ? inner_ns - covered_ns : 0;
}

static void add_up(struct lp_run_worker *worker, const struct lp_run_document *document)
{
    bool saturated = false;
    for (size_t i = 0; i < document->n_slots; i++) {
        const struct lp_run_slot *slot = &document->slots[i];
        const struct lp_run_record *records = document->records + slot->nodes;
        for (size_t j = 1; j < slot->n_nodes; j++) {
            worker->calls = lp_run_sum(worker->calls, records[j].calls, &saturated);
            worker->calls_estimated |= records[j].stride > 1;
            if (records[j].parent == 0)
                add_root(worker, &records[j]);
        }
        uint64_t beyond_ns = beyond_roots_ns(records, slot->n_nodes);
        worker->root_wall_ns = lp_run_sum(worker->root_wall_ns, beyond_ns, &saturated);
        worker->root_nocpu_wall_ns = lp_run_sum(worker->root_nocpu_wall_ns, beyond_ns, &saturated);
    }
}

int lp_run_fold_worker(struct lp_run_worker *worker, const struct lp_run_document *document, const char *path,
                       enum lp_run_source source)
{
    *worker = (struct lp_run_worker){
        .pid = (int64_t)document->pid,
        .parent_pid = (int64_t)document->parent_pid,
        .rank = document->rank,
        .world_size = document->world_size,
        .index = document->index,
        .started = document->started,
        .written = document->written,
        .folder_clock = document->folder_clock,
        .snapshot_interval_s = document->snapshot_interval_s,
        .flush = document->flush,
        .machine = document->machine,
        .peak_rss_bytes = document->peak_rss_bytes,
        .pss_bytes = document->pss_bytes,
        .threads = document->n_slots,
        .pid_namespace = document->pid_namespace,
        .time_namespace = document->time_namespace,
        .process_start_ticks = document->process_start_ticks,
        .closed = document->closed,
        .ended = document->ended,
        .signal = document->signal,
        .exit_status = document->exit_status,
        .measure_cpu = document->measure_cpu,
        .private_image = document->private_image,
        .samples_taken = document->samples_taken,
        .samples_lost = document->samples_lost,
        .run_id_generated = document->run_id_generated,
        .source = source,
    };
    if (document->pending && !(worker->pending = lp_run_pending_copy(document->pending)))
        return -1;
    add_up(worker, document);
    if (copy_names(worker, document, path) < 0 || copy_troubles(worker, document) < 0 ||
        copy_devices(worker, document) < 0)
        return -1;
    return copy_open(worker, document);
}

void lp_run_worker_release(struct lp_run_worker *worker)
{
    lp_text_release(&worker->worker);
    lp_text_release(&worker->run_id);
    lp_text_release(&worker->role);
    lp_text_release(&worker->host);
    lp_text_release(&worker->job_id);
    lp_text_release(&worker->runtime);
    lp_text_release(&worker->machine.usable_list);
    lp_text_release(&worker->machine.kernel);
    lp_text_release(&worker->machine.cpu_model);
    free(worker->job_system);
    free(worker->launcher);
    free(worker->boot_id);
    free(worker->library);
    free(worker->wall_clock);
    free(worker->cpu_clock);
    free(worker->path);
    for (size_t i = 0; i < worker->n_troubles; i++)
        lp_text_release(&worker->troubles[i].name);
    for (size_t i = 0; i < worker->n_open; i++) {
        lp_text_release(&worker->open[i].thread);
        lp_text_release(&worker->open[i].path);
    }
    for (size_t i = 0; i < worker->n_devices; i++) {
        lp_text_release(&worker->devices[i].name);
        lp_text_release(&worker->devices[i].uuid);
        free(worker->devices[i].state);
        free(worker->devices[i].own);
    }
    free(worker->devices);
    free(worker->troubles);
    free(worker->open);
    free(worker->phase_ids);
    free(worker->paces);
    free(worker->pending);
    lp_run_samples_free(worker->samples);
    *worker = (struct lp_run_worker){0};
}
