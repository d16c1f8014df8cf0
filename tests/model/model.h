/*
 * tests/model: a run built by hand, for tests of what comes after reading.
 *
 *     struct model model = {0};
 *     struct lp_run *run = model_run(&model);
 *     struct lp_run_role *role = model_role(&model, "actor");
 *     model_worker(&model, role, "node07");
 *     struct lp_run_phase *step = model_phase(&model, role->tree, "step");
 *     model_entries(&model, step, 75, 12 * MS, 0.25);
 *     ...
 *     model_free(&model);
 *
 * Figures are those of the role: nothing is derived, so that a test can also build what no reader
 * would let through. Build whatever a role, worker or phase needs before the next one of its kind:
 * arrays grow.
 */
#ifndef TESTS_MODEL_H
#define TESTS_MODEL_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "image/hist.h"
#include "run/run.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define S (1000 * MS)
#define M (60 * S)
#define H (60 * M)

struct model_block {
    struct model_block *next;
    max_align_t bytes[];
};

struct model {
    struct model_block *blocks; /* Everything, freed at once. */
    struct lp_run *run;
};

static inline void *model_alloc(struct model *model, size_t size)
{
    struct model_block *block = calloc(1, sizeof *block + size + 1);
    if (block == NULL)
        abort();
    block->next = model->blocks;
    model->blocks = block;
    return block->bytes;
}

static inline void model_free(struct model *model)
{
    while (model->blocks != NULL) {
        struct model_block *next = model->blocks->next;
        free(model->blocks);
        model->blocks = next;
    }
    model->run = NULL;
}

/* One more element behind n of an array. */
static inline void *model_append(struct model *model, const void *items, size_t n, size_t size)
{
    char *grown = model_alloc(model, (n + 1) * size);
    if (n > 0)
        memcpy(grown, items, n * size);
    return grown;
}

static inline struct lp_text model_bytes(struct model *model, const char *bytes, size_t len)
{
    struct lp_text text = {.bytes = model_alloc(model, len), .len = len};
    memcpy(text.bytes, bytes, len);
    return text;
}

static inline struct lp_text model_text(struct model *model, const char *text)
{
    return model_bytes(model, text, strlen(text));
}

static inline char *model_string(struct model *model, const char *text)
{
    return model_text(model, text).bytes;
}

static inline struct lp_run_phase *model_root(struct model *model)
{
    struct lp_run_phase *root = model_alloc(model, sizeof *root);
    root->name = model_text(model, "");
    root->stride_min = root->stride_max = 1;
    root->cpu_known = true;
    return root;
}

static inline struct lp_run *model_run(struct model *model)
{
    model->run = model_alloc(model, sizeof *model->run);
    model->run->dir = model_string(model, "profile");
    model->run->run_id = model_text(model, "20260813T2241-471c94");
    model->run->started_realtime_ns = UINT64_C(1786660860) * S;
    model->run->runtime_ns = 4 * H + 12 * M;
    model->run->written_realtime_ns = model->run->started_realtime_ns + model->run->runtime_ns;
    model->run->tree = model_root(model);
    return model->run;
}

static inline struct lp_run_role *model_role(struct model *model, const char *name)
{
    struct lp_run *run = model->run;
    run->roles = model_append(model, run->roles, run->n_roles, sizeof *run->roles);
    struct lp_run_role *role = &run->roles[run->n_roles++];
    role->name = model_text(model, name);
    role->tree = model_root(model);
    role->imbalance = NAN;
    return role;
}

static inline void model_host(struct model *model, const char *host)
{
    struct lp_run *run = model->run;
    for (size_t i = 0; i < run->n_hosts; i++)
        if (strcmp(run->hosts[i].bytes, host) == 0)
            return;
    run->hosts = model_append(model, run->hosts, run->n_hosts, sizeof *run->hosts);
    run->hosts[run->n_hosts++] = model_text(model, host);
}

static inline struct lp_run_worker *model_worker(struct model *model, struct lp_run_role *role, const char *host)
{
    struct lp_run *run = model->run;
    run->workers = model_append(model, run->workers, run->n_workers, sizeof *run->workers);
    struct lp_run_worker *worker = &run->workers[run->n_workers];
    role->workers = model_append(model, role->workers, role->n_workers, sizeof *role->workers);
    role->workers[role->n_workers++] = run->n_workers++;
    worker->worker = model_text(model, "w_20260813T2241-471c94_4711_0a1b2c3d");
    worker->run_id = run->run_id;
    worker->role = role->name;
    worker->host = model_text(model, host);
    worker->runtime = model_text(model, "CPython 3.12.1");
    worker->library = model_string(model, "0.4.0");
    worker->wall_clock = model_string(model, "tsc");
    worker->cpu_clock = model_string(model, "token");
    worker->path = model_string(model, "workers/node07/w.json");
    worker->pid = 4711;
    worker->parent_pid = 1;
    worker->rank = worker->world_size = worker->index = -1;
    worker->started.realtime_ns = run->started_realtime_ns;
    worker->written.realtime_ns = run->written_realtime_ns;
    worker->snapshot_interval_s = 30;
    worker->flush = 3;
    worker->threads = 1;
    worker->closed = worker->measure_cpu = true;
    model_host(model, host);
    if (role->n_workers == 1)
        role->imbalance = 1;
    return worker;
}

static inline struct lp_run_phase *model_phase_bytes(struct model *model, struct lp_run_phase *parent, const char *name,
                                                     size_t len)
{
    struct lp_run_phase *phase = model_root(model);
    phase->name = model_bytes(model, name, len);
    phase->parent = parent;
    phase->workers = 1;
    parent->children = model_append(model, parent->children, parent->n_children, sizeof *parent->children);
    parent->children[parent->n_children++] = phase;
    return phase;
}

static inline struct lp_run_phase *model_phase(struct model *model, struct lp_run_phase *parent, const char *name)
{
    return model_phase_bytes(model, parent, name, strlen(name));
}

static inline void model_hist(struct model *model, struct lp_hist *hist, uint64_t ns, uint64_t n)
{
    unsigned bucket = lp_hist_bucket_of(ns);
    if (hist->octaves[bucket / 8] == NULL)
        hist->octaves[bucket / 8] = model_alloc(model, 8 * sizeof(uint64_t));
    hist->octaves[bucket / 8][bucket % 8] += n;
}

/* Entries of another process, as the merge adds them up: for tests of what processes differ by. */
static inline void model_process(struct model *model, struct lp_run_phase *phase, uint64_t n, uint64_t each)
{
    struct lp_run_spread *spread = &phase->spread;
    uint64_t log = n * lp_hist_bucket_log(lp_hist_bucket_of(each));
    lp_run_square c = n, w = n * each, l = log;
    phase->workers += phase->calls > 0;
    phase->calls += n;
    phase->wall_ns += n * each;
    model_hist(model, &phase->hist, each, n);
    spread->l += log;
    spread->cc += c * c;
    spread->ccc += c * c * c;
    spread->cw += c * w;
    spread->ww += w * w;
    spread->cl += c * l;
    spread->ll += l * l;
}

/* n more entries of `each` ns, waiting that part of the time; the parent's child time grows with it. */
static inline void model_entries(struct model *model, struct lp_run_phase *phase, uint64_t n, uint64_t each,
                                 double wait)
{
    phase->calls += n;
    phase->wall_ns += n * each;
    phase->cpu_ns += (uint64_t)((double)(n * each) * (1 - wait) + 0.5);
    if (phase->parent != NULL)
        phase->parent->child_wall_ns += n * each;
    model_hist(model, &phase->hist, each, n);
}

/* Device time of n entries of the phase. */
static inline void model_device_time(struct model *model, struct lp_run_phase *phase, uint64_t n, uint64_t each)
{
    if (phase->device_time == NULL)
        phase->device_time = model_alloc(model, sizeof *phase->device_time);
    phase->device_time->calls += n;
    phase->device_time->ns += n * each;
    model_hist(model, &phase->device_time->hist, each, n);
}

static inline struct lp_run_counter *model_counter(struct model *model, struct lp_run_phase *phase, const char *name,
                                                   int64_t sum, uint64_t calls)
{
    phase->counters = model_append(model, phase->counters, phase->n_counters, sizeof *phase->counters);
    struct lp_run_counter *counter = &phase->counters[phase->n_counters++];
    counter->name = model_text(model, name);
    counter->sum = sum;
    counter->calls = calls;
    counter->min = counter->max = calls > 0 ? sum / (int64_t)calls : 0;
    return counter;
}

static inline void model_sampled(struct lp_run_phase *phase, uint64_t stride_min, uint64_t stride_max)
{
    phase->estimated = true;
    phase->stride_min = stride_min;
    phase->stride_max = stride_max;
}

static inline void model_caveat(struct model *model, const char *kind, const char *text)
{
    struct lp_run *run = model->run;
    run->caveats = model_append(model, run->caveats, run->n_caveats, sizeof *run->caveats);
    run->caveats[run->n_caveats].kind = kind;
    run->caveats[run->n_caveats++].text = model_string(model, text);
}

/* Another attempt; generated: one of its workers made the run id. It was last written when the run itself was. */
static inline void model_superseded(struct model *model, const char *run_id, size_t n_workers, bool generated)
{
    struct lp_run *run = model->run;
    run->superseded = model_append(model, run->superseded, run->n_superseded, sizeof *run->superseded);
    run->superseded[run->n_superseded++] = (struct lp_run_superseded){.run_id = model_text(model, run_id),
                                                                      .n_workers = n_workers,
                                                                      .started_realtime_ns = run->started_realtime_ns,
                                                                      .written_realtime_ns = run->written_realtime_ns,
                                                                      .generated = generated,
                                                                      .own_id_until_ns = run->written_realtime_ns};
}

static inline void model_unreadable(struct model *model, const char *path, const char *reason)
{
    struct lp_run *run = model->run;
    run->unreadable = model_append(model, run->unreadable, run->n_unreadable, sizeof *run->unreadable);
    run->unreadable[run->n_unreadable].path = model_string(model, path);
    run->unreadable[run->n_unreadable++].reason = model_string(model, reason);
}

#endif
