#include "run/samples_sum.h"

#include <math.h>
#include <stdlib.h>

#include "run/room.h"

/* --- phases --- */

static const char kinds[] = {[LP_SAMPLED_PHASE] = 'p', [LP_SAMPLED_NONE_OPEN] = 'n', [LP_SAMPLED_UNKNOWN] = 'u'};

static struct lp_run_sampled *find_phase(const struct lp_run_samples_sum *sum, const struct lp_run_role *role,
                                         enum lp_run_sampled_kind kind, const struct lp_run_phase *phase)
{
    const void *owner = kind == LP_SAMPLED_PHASE ? (const void *)phase : (const void *)role;
    return lp_run_table_find(&sum->table, owner, (struct lp_span){&kinds[kind], 1});
}

static struct lp_run_sampled *phase_for(struct lp_run_samples_sum *sum, const struct lp_run_role *role,
                                        const struct lp_run_sampled *like)
{
    struct lp_run_sampled *found = find_phase(sum, role, like->kind, like->phase);
    const void *owner = like->kind == LP_SAMPLED_PHASE ? (const void *)like->phase : (const void *)role;
    if (found)
        return found;
    if (lp_run_room(&sum->phases, &sum->phases_room, sum->n_phases, sizeof(struct lp_run_sampled *)) < 0 ||
        !(found = calloc(1, sizeof *found)))
        return NULL;
    sum->phases[sum->n_phases++] = found;
    *found = (struct lp_run_sampled){.kind = like->kind,
                                     .phase = like->phase,
                                     .gpu_peak_bytes = LP_NOT_MEASURED,
                                     .gpu_device_peak_bytes = LP_NOT_MEASURED};
    return lp_run_table_add(&sum->table, owner, (struct lp_span){&kinds[like->kind], 1}, found) < 0 ? NULL : found;
}

static uint64_t higher(uint64_t peak, uint64_t value)
{
    return value == LP_NOT_MEASURED || (peak != LP_NOT_MEASURED && peak >= value) ? peak : value;
}

static int add_busy(struct lp_run_sampled *sum, const struct lp_run_busy *busy)
{
    if (!busy)
        return 0;
    if (!sum->busy && !(sum->busy = calloc(1, sizeof *sum->busy)))
        return -1;
    for (size_t i = 0; i <= 100; i++)
        sum->busy->percent[i] = lp_run_plus(sum->busy->percent[i], busy->percent[i]);
    return 0;
}

static int add_phase(struct lp_run_samples_sum *sum, const struct lp_run_role *role, const struct lp_run_sampled *phase)
{
    bool nothing = !phase->intervals && !phase->rss_intervals && !phase->busy &&
                   phase->gpu_peak_bytes == LP_NOT_MEASURED && phase->gpu_device_peak_bytes == LP_NOT_MEASURED;
    if (nothing)
        return 0;
    struct lp_run_sampled *to = phase_for(sum, role, phase);
    if (!to)
        return -1;
    lp_run_moved_add(&to->moved, &phase->moved);
    to->intervals = lp_run_plus(to->intervals, phase->intervals);
    to->intervals_ns = lp_run_plus(to->intervals_ns, phase->intervals_ns);
    to->rss_intervals = lp_run_plus(to->rss_intervals, phase->rss_intervals);
    if (__builtin_add_overflow(to->rss_growth_bytes, phase->rss_growth_bytes, &to->rss_growth_bytes))
        to->rss_growth_bytes = phase->rss_growth_bytes < 0 ? INT64_MIN : INT64_MAX;
    to->gpu_peak_bytes = higher(to->gpu_peak_bytes, phase->gpu_peak_bytes);
    to->gpu_device_peak_bytes = higher(to->gpu_device_peak_bytes, phase->gpu_device_peak_bytes);
    return add_busy(to, phase->busy);
}

/* --- devices --- */

static size_t host_of(const struct lp_run *run, const struct lp_run_worker *worker)
{
    size_t from = 0, to = run->n_hosts - 1;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (lp_text_compare(lp_text_span(&run->hosts[middle]), lp_text_span(&worker->host)) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static struct lp_run_gpu_sum *gpu_for(struct lp_run_samples_sum *sum, const struct lp_run *run, size_t host,
                                      uint32_t index)
{
    const void *owner = &run->hosts[host];
    struct lp_span name = {(const char *)&index, sizeof index};
    struct lp_run_gpu_sum *found = lp_run_table_find(&sum->table, owner, name);
    if (found)
        return found;
    if (lp_run_room(&sum->gpus, &sum->gpus_room, sum->n_gpus, sizeof(struct lp_run_gpu_sum *)) < 0 ||
        !(found = calloc(1, sizeof *found)))
        return NULL;
    sum->gpus[sum->n_gpus++] = found;
    found->gpu = (struct lp_run_gpu){
        .host = host, .index = index, .used_peak_bytes = LP_NOT_MEASURED, .own_peak_bytes = LP_NOT_MEASURED};
    name.bytes = (const char *)&found->gpu.index;
    return lp_run_table_add(&sum->table, owner, name, found) < 0 ? NULL : found;
}

static void add_bins(struct lp_run_gpu_bin *sum, const struct lp_run_gpu_bin *bins)
{
    for (size_t i = 0; i < LP_RUN_GPU_BINS; i++) {
        sum[i].busy_permille_ns = lp_run_plus(sum[i].busy_permille_ns, bins[i].busy_permille_ns);
        sum[i].busy_known_ns = lp_run_plus(sum[i].busy_known_ns, bins[i].busy_known_ns);
        sum[i].own_permille_ns = lp_run_plus(sum[i].own_permille_ns, bins[i].own_permille_ns);
        sum[i].covered_ns = bins[i].covered_ns > sum[i].covered_ns ? bins[i].covered_ns : sum[i].covered_ns;
    }
}

static int add_gpu(struct lp_run_samples_sum *sum, const struct lp_run *run, size_t host,
                   const struct lp_run_gpu_fold *fold)
{
    const struct lp_run_gpu_samples *samples = &fold->samples;
    struct lp_run_gpu_sum *to = gpu_for(sum, run, host, samples->index);
    if (!to)
        return -1;
    to->gpu.n_workers++;
    to->gpu.attributed |= samples->attributed;
    if (samples->used_bytes.n)
        to->gpu.used_peak_bytes = higher(to->gpu.used_peak_bytes, samples->used_bytes.peak);
    if (samples->own_used_bytes.n)
        to->gpu.own_peak_bytes = to->gpu.own_peak_bytes == LP_NOT_MEASURED
                                     ? samples->own_used_bytes.peak
                                     : lp_run_plus(to->gpu.own_peak_bytes, samples->own_used_bytes.peak);
    add_bins(to->bins, fold->bins);
    return 0;
}

/* Bins count by the time that was seen of them, whatever the number of workers that saw it. */
static void finish_gpu(struct lp_run_gpu_sum *sum)
{
    double busy_ns = 0, busy_known_ns = 0, own_ns = 0, covered_ns = 0;
    for (size_t i = 0; i < LP_RUN_GPU_BINS; i++) {
        const struct lp_run_gpu_bin *bin = &sum->bins[i];
        covered_ns += (double)bin->covered_ns;
        own_ns += (double)bin->own_permille_ns / 1000;
        if (!bin->busy_known_ns)
            continue;
        busy_known_ns += (double)bin->covered_ns;
        busy_ns += (double)bin->covered_ns * ((double)bin->busy_permille_ns / 1000 / (double)bin->busy_known_ns);
    }
    sum->gpu.busy_share = busy_known_ns > 0 ? busy_ns / busy_known_ns : NAN;
    sum->gpu.own_share = sum->gpu.attributed && covered_ns > 0 ? own_ns / covered_ns : NAN;
}

int lp_run_samples_sum_worker(struct lp_run_samples_sum *sum, const struct lp_run *run, size_t index,
                              const struct lp_run_samples_fold *fold)
{
    const struct lp_run_worker *worker = &run->workers[index];
    const struct lp_run_role *role = lp_run_role_find(run, worker->role.bytes, worker->role.len);
    for (size_t i = 0; i < lp_run_samples_fold_phases(fold); i++)
        if (add_phase(sum, role, &fold->phases[i]) < 0)
            return -1;
    if (!worker->samples->n_gpus)
        return 0;
    size_t host = host_of(run, worker);
    for (size_t i = 0; i < LP_RUN_GPUS_MAX; i++)
        if (fold->gpus[i].samples.rows && add_gpu(sum, run, host, &fold->gpus[i]) < 0)
            return -1;
    return 0;
}

/* --- the run --- */

void lp_run_samples_sum_timeline(struct lp_run_samples_sum *sum, struct lp_run_timeline *timeline)
{
    if (!sum->timeline.n_bins) {
        sum->timeline = *timeline;
        *timeline = (struct lp_run_timeline){0};
        return;
    }
    for (size_t i = 0; i < timeline->n_bins; i++) {
        for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++)
            sum->timeline.bytes[flow][i] = lp_run_plus(sum->timeline.bytes[flow][i], timeline->bytes[flow][i]);
        sum->timeline.known_ns[i] = lp_run_plus(sum->timeline.known_ns[i], timeline->known_ns[i]);
    }
}

static int put(struct lp_run_role *role, size_t *room, struct lp_run_sampled *found)
{
    if (!found)
        return 0;
    if (lp_run_room(&role->sampled, room, role->n_sampled, sizeof *found) < 0)
        return -1;
    role->sampled[role->n_sampled++] = *found;
    found->busy = NULL;
    return 0;
}

static int put_below(struct lp_run_samples_sum *sum, struct lp_run_role *role, size_t *room,
                     const struct lp_run_phase *phase)
{
    if (put(role, room, find_phase(sum, role, LP_SAMPLED_PHASE, phase)) < 0)
        return -1;
    for (size_t i = 0; i < phase->n_children; i++)
        if (put_below(sum, role, room, phase->children[i]) < 0)
            return -1;
    return 0;
}

static int finish_roles(struct lp_run_samples_sum *sum, struct lp_run *run)
{
    for (size_t i = 0; i < run->n_roles; i++) {
        struct lp_run_role *role = &run->roles[i];
        size_t room = 0;
        if (put_below(sum, role, &room, role->tree) < 0 ||
            put(role, &room, find_phase(sum, role, LP_SAMPLED_NONE_OPEN, NULL)) < 0 ||
            put(role, &room, find_phase(sum, role, LP_SAMPLED_UNKNOWN, NULL)) < 0)
            return -1;
    }
    return 0;
}

static int by_device(const void *a, const void *b)
{
    const struct lp_run_gpu *left = &(*(struct lp_run_gpu_sum *const *)a)->gpu;
    const struct lp_run_gpu *right = &(*(struct lp_run_gpu_sum *const *)b)->gpu;
    if (left->host != right->host)
        return left->host < right->host ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static int finish_gpus(struct lp_run_samples_sum *sum, struct lp_run_sampling *sampling)
{
    if (!sum->n_gpus)
        return 0;
    qsort(sum->gpus, sum->n_gpus, sizeof(struct lp_run_gpu_sum *), by_device);
    sampling->gpus = calloc(sum->n_gpus, sizeof *sampling->gpus);
    if (!sampling->gpus)
        return -1;
    for (size_t i = 0; i < sum->n_gpus; i++) {
        finish_gpu(sum->gpus[i]);
        sampling->gpus[sampling->n_gpus++] = sum->gpus[i]->gpu;
    }
    return 0;
}

/* Both are rates that were there: of one process in its fastest interval, of all together in the fastest bin. */
static void raise_peaks(struct lp_run_sampling *sampling)
{
    const struct lp_run_timeline *timeline = &sampling->timeline;
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++) {
        uint64_t most = 0;
        for (size_t i = 0; i < timeline->n_bins; i++)
            most = timeline->bytes[flow][i] > most ? timeline->bytes[flow][i] : most;
        double per_s = (double)most / (double)timeline->bin_ns * 1e9;
        if (per_s > sampling->io.peak_per_s[flow])
            sampling->io.peak_per_s[flow] = per_s;
    }
}

static void add_workers(const struct lp_run *run, struct lp_run_sampling *sampling)
{
    for (size_t i = 0; i < run->n_workers; i++) {
        const struct lp_run_samples *samples = run->workers[i].samples;
        if (!samples)
            continue;
        sampling->n_workers++;
        lp_run_io_add(&sampling->io, &samples->io);
    }
}

int lp_run_samples_sum_finish(struct lp_run_samples_sum *sum, struct lp_run *run)
{
    struct lp_run_sampling *sampling = calloc(1, sizeof *sampling);
    if (!sampling)
        return -1;
    run->sampling = sampling;
    add_workers(run, sampling);
    if (!sampling->n_workers) {
        free(sampling);
        run->sampling = NULL;
        return 0;
    }
    sampling->timeline = sum->timeline;
    sum->timeline = (struct lp_run_timeline){0};
    raise_peaks(sampling);
    return finish_gpus(sum, sampling) < 0 ? -1 : finish_roles(sum, run);
}

void lp_run_samples_sum_release(struct lp_run_samples_sum *sum)
{
    for (size_t i = 0; i < sum->n_phases; i++) {
        free(sum->phases[i]->busy);
        free(sum->phases[i]);
    }
    for (size_t i = 0; i < sum->n_gpus; i++)
        free(sum->gpus[i]);
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++)
        free(sum->timeline.bytes[flow]);
    free(sum->timeline.known_ns);
    free(sum->phases);
    free(sum->gpus);
    lp_run_table_release(&sum->table);
    *sum = (struct lp_run_samples_sum){0};
}
