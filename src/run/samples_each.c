#include "run/samples_each.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/pending.h"
#include "run/samples_fold.h"
#include "run/samples_load.h"

struct each {
    const struct lp_run_samples_visitor *visitor; /* Borrowed. */
    enum lp_ring_kind kind;
    int dir_fd;
    struct lp_sample_file file;
    const struct lp_run_worker *worker; /* Being read. */
    struct lp_run_axis axis;
    bool any; /* A row of it was read. */
    uint64_t last_sequence;
};

static int by_id(const void *key, const void *element)
{
    uint64_t id = *(const uint64_t *)key;
    const struct lp_run_phase_id *at = element;
    return id < at->id ? -1 : id > at->id;
}

static int visit(struct each *each, const uint64_t *row)
{
    bool of_process = each->kind == LP_RING_PROCESS;
    const struct lp_run_worker *worker = each->worker;
    uint64_t id = row[of_process ? (size_t)LP_P_PHASE : (size_t)LP_G_PHASE];
    const struct lp_run_phase_id *found = NULL;
    if (id != 0 && worker->n_phase_ids)
        found = bsearch(&id, worker->phase_ids, worker->n_phase_ids, sizeof *found, by_id);
    struct lp_run_sample sample = {
        .worker = worker,
        .row = row,
        .epoch_ns = lp_run_axis_at(&each->axis, row[0]),
        .phase = found ? found->phase : NULL,
        .phase_known = id == 0 || found,
    };
    each->any = true;
    each->last_sequence = row[of_process ? (size_t)LP_P_SEQUENCE : (size_t)LP_G_SEQUENCE];
    return each->visitor->sample(each->visitor->context, &sample);
}

static int visit_file(struct each *each)
{
    uint64_t row[LP_P_FIELDS];
    int result = 0;
    while (result == 0 && lp_sample_file_next(&each->file, row))
        result = visit(each, row);
    if (each->file.error)
        each->visitor->fault(each->visitor->context, each->worker, strerrordesc_np(each->file.error));
    else if (each->file.cut)
        each->visitor->fault(each->visitor->context, each->worker, "ends inside a record, which is left out");
    return result;
}

static int open_and_visit(struct each *each)
{
    struct lp_run_fault fault;
    char *path = lp_run_samples_path(each->worker, each->kind);
    if (!path)
        return -1;
    int found = lp_sample_file_open(&each->file, each->dir_fd, path, each->kind, each->worker->worker.bytes, &fault);
    free(path);
    if (found == 0)
        return 0;
    if (found < 0) {
        if (!fault.no_memory)
            each->visitor->fault(each->visitor->context, each->worker, fault.text);
        return fault.no_memory ? -1 : 0;
    }
    int result = visit_file(each);
    lp_sample_file_close(&each->file);
    return result;
}

/* Device rows of one moment share their sequence: what the file has of a moment it has whole. */
static int visit_pending(struct each *each)
{
    uint64_t row[LP_P_FIELDS];
    const struct lp_run_pending *pending = each->worker->pending;
    bool of_process = each->kind == LP_RING_PROCESS;
    size_t n = !pending ? 0 : of_process ? pending->n_process : pending->n_gpu;
    bool filed = each->any;
    uint64_t last = each->last_sequence;
    int result = 0;
    for (size_t i = 0; i < n && result == 0; i++) {
        if (of_process)
            lp_run_pending_process(&pending->process[i], row);
        else
            lp_run_pending_gpu(&pending->gpu[i], row);
        if (!filed || row[of_process ? (size_t)LP_P_SEQUENCE : (size_t)LP_G_SEQUENCE] > last)
            result = visit(each, row);
    }
    return result;
}

int lp_run_samples_each(const struct lp_run *run, enum lp_ring_kind kind, const struct lp_run_samples_visitor *visitor)
{
    struct each each = {.visitor = visitor, .kind = kind, .file = {.fd = -1}};
    int result = 0;
    each.dir_fd = open(run->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; each.dir_fd >= 0 && i < run->n_workers && result == 0; i++) {
        each.worker = &run->workers[i];
        each.axis = lp_run_axis_epoch(each.worker);
        each.any = false;
        result = open_and_visit(&each);
        if (result == 0)
            result = visit_pending(&each);
    }
    lp_sample_file_release(&each.file);
    if (each.dir_fd >= 0)
        close(each.dir_fd);
    return result;
}
