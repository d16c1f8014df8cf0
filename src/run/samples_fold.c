#include "run/samples_fold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define BEFORE_NS (3600 * SECOND_NS) /* Samples this much before a worker's beginning are still taken for its own, */
#define AFTER_NS (86400 * SECOND_NS) /* and this much after its last write: files are written one after the other. */
#define CLOSEST_NS UINT64_C(1000000) /* No two samples of a process are closer. */

/* More than any machine does. Per nanosecond: 10 TB/s, and 65,536 of whatever one core can do once. */
#define BYTES_PER_NS 10000u
#define EVENTS_PER_NS 65536u
#define AT_ONCE UINT64_C(1000000000)
#define MEMORY_MOST (UINT64_C(1) << 50)

/* --- sums --- */

void lp_run_moved_add(struct lp_run_moved *sum, const struct lp_run_moved *moved)
{
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++)
        sum->flow[flow] = lp_run_plus(sum->flow[flow], moved->flow[flow]);
    sum->paired_chars = lp_run_plus(sum->paired_chars, moved->paired_chars);
    sum->paired_bytes = lp_run_plus(sum->paired_bytes, moved->paired_bytes);
    sum->paired = lp_run_plus(sum->paired, moved->paired);
}

void lp_run_intervals_add(struct lp_run_intervals *sum, const struct lp_run_intervals *intervals)
{
    sum->used = lp_run_plus(sum->used, intervals->used);
    sum->used_ns = lp_run_plus(sum->used_ns, intervals->used_ns);
    for (unsigned drop = 0; drop < LP_RUN_DROPS; drop++)
        sum->dropped[drop] = lp_run_plus(sum->dropped[drop], intervals->dropped[drop]);
}

void lp_run_io_add(struct lp_run_io *sum, const struct lp_run_io *io)
{
    lp_run_moved_add(&sum->moved, &io->moved);
    for (unsigned layer = 0; layer < LP_RUN_LAYERS; layer++)
        lp_run_intervals_add(&sum->intervals[layer], &io->intervals[layer]);
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++)
        if (io->peak_per_s[flow] > sum->peak_per_s[flow])
            sum->peak_per_s[flow] = io->peak_per_s[flow];
}

uint64_t lp_run_intervals_dropped(const struct lp_run_intervals *intervals)
{
    uint64_t sum = 0;
    for (unsigned drop = 0; drop < LP_RUN_DROPS; drop++)
        sum = lp_run_plus(sum, intervals->dropped[drop]);
    return sum;
}

/* --- figures of an aggregate --- */

double lp_run_samples_cores(const struct lp_run_samples *samples)
{
    uint64_t wall_ns = samples->cpu_ns.intervals.used_ns;
    return wall_ns >= LP_RUN_CPU_LEAST_NS ? (double)samples->cpu_ns.sum / (double)wall_ns : NAN;
}

static void trend_add(struct lp_run_trend *trend, double x, double y)
{
    if (trend->n++ == 0)
        trend->first_x = x;
    trend->last_x = x;
    double n = (double)trend->n, dx = x - trend->mean_x;
    trend->mean_x += dx / n;
    trend->mean_y += (y - trend->mean_y) / n;
    trend->sxx += dx * (x - trend->mean_x);
    trend->sxy += dx * (y - trend->mean_y);
}

double lp_run_trend_slope(const struct lp_run_trend *trend)
{
    bool enough = trend->n >= LP_RUN_TREND_LEAST_N && trend->last_x - trend->first_x >= LP_RUN_TREND_LEAST_S;
    return enough && trend->sxx > 0 ? trend->sxy / trend->sxx : NAN;
}

static void level_add(struct lp_run_level *level, uint64_t value)
{
    if (value == LP_NOT_MEASURED)
        return;
    if (level->n++ == 0)
        level->first = level->least = level->peak = value;
    level->last = value;
    level->peak = value > level->peak ? value : level->peak;
    level->least = value < level->least ? value : level->least;
}

/* --- time --- */

static int64_t offset_at(const struct lp_run_axis *axis, uint64_t monotonic_ns)
{
    if (monotonic_ns <= axis->from_ns || axis->slope_ns == 0)
        return axis->offset_ns;
    if (monotonic_ns >= axis->to_ns)
        return axis->offset_ns + axis->slope_ns;
    double part = (double)(monotonic_ns - axis->from_ns) / (double)(axis->to_ns - axis->from_ns);
    return axis->offset_ns + (int64_t)(part * (double)axis->slope_ns);
}

/* Stamps are below 2^63, so that neither sum overflows. */
uint64_t lp_run_axis_at(const struct lp_run_axis *axis, uint64_t monotonic_ns)
{
    int64_t at_ns;
    if (monotonic_ns > INT64_MAX ||
        __builtin_add_overflow((int64_t)monotonic_ns, offset_at(axis, monotonic_ns), &at_ns))
        return INT64_MAX;
    return at_ns > 0 ? (uint64_t)at_ns : 0;
}

struct lp_run_axis lp_run_axis_epoch(const struct lp_run_worker *worker)
{
    const struct lp_run_stamp *from = &worker->started, *to = &worker->written;
    int64_t first_ns = (int64_t)from->realtime_ns - (int64_t)from->monotonic_ns;
    int64_t last_ns = (int64_t)to->realtime_ns - (int64_t)to->monotonic_ns;
    struct lp_run_axis axis = {from->monotonic_ns, to->monotonic_ns, first_ns, 0};
    if (to->monotonic_ns > from->monotonic_ns && !__builtin_sub_overflow(last_ns, first_ns, &axis.slope_ns))
        return axis;
    axis.slope_ns = 0;
    return axis;
}

/* An interval by the run's clock. */
struct stretch {
    uint64_t from_ns, to_ns;
};

/* Spreads an amount over the bins that it lies in; what lies outside the run's time is left out. Intervals of one worker do not overlap, so that all of them
   together touch each bin about once. */
static void spread_over(const struct lp_run_timeline *timeline, uint64_t *bins, const struct stretch *stretch,
                        uint64_t amount)
{
    uint64_t bin_ns = timeline->bin_ns, at_ns = stretch->from_ns, left = amount;
    uint64_t bin = at_ns / bin_ns, last = stretch->to_ns / bin_ns;
    double per_ns = stretch->to_ns > at_ns ? (double)amount / (double)(stretch->to_ns - at_ns) : 0;
    for (; bin < last && bin < timeline->n_bins; bin++) {
        uint64_t edge_ns = (bin + 1) * bin_ns;
        uint64_t part = (uint64_t)(per_ns * (double)(edge_ns - at_ns));
        part = part < left ? part : left;
        bins[bin] = lp_run_plus(bins[bin], part);
        left -= part;
        at_ns = edge_ns;
    }
    if (stretch->to_ns > 0 && last < timeline->n_bins)
        bins[last] = lp_run_plus(bins[last], left);
}

/* --- phases --- */

static size_t search(const struct lp_run_samples_fold *fold, uint64_t id)
{
    size_t from = 0, to = fold->n_ids;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (fold->ids[middle].id < id)
            from = middle + 1;
        else
            to = middle;
    }
    return from < fold->n_ids && fold->ids[from].id == id ? from : fold->n_ids + 1;
}

static struct lp_run_sampled *phase_of(struct lp_run_samples_fold *fold, uint64_t id)
{
    if (id != fold->last_id) {
        fold->last_place = id == 0 ? fold->n_ids : search(fold, id);
        fold->last_id = id;
    }
    return &fold->phases[fold->last_place];
}

/* --- rows of the process --- */

/* What lies between the row used last and this one. */
struct interval {
    uint64_t ns;
    uint64_t lost; /* Samples missing between the two. */
    uint64_t gaps;
    struct stretch stretch;
};

static bool drop(struct lp_run_intervals *intervals, enum lp_run_drop why, uint64_t n)
{
    intervals->dropped[why] = lp_run_plus(intervals->dropped[why], n);
    return false;
}

/* Whether the growth of a figure is known, and not above most; else says why not. Two figures that are read together are
   asked for together. */
static bool grown(struct lp_run_intervals *intervals, const struct interval *interval, const uint64_t *before,
                  const uint64_t *after, size_t n, bool gap, uint64_t most)
{
    if (interval->lost)
        return drop(intervals, LP_DROP_LOST, interval->lost + 1);
    for (size_t i = 0; i < n; i++)
        if (before[i] == LP_NOT_MEASURED || after[i] == LP_NOT_MEASURED)
            return drop(intervals, LP_DROP_UNREAD, 1);
    if (gap)
        return drop(intervals, LP_DROP_GAP, 1);
    for (size_t i = 0; i < n; i++)
        if (after[i] < before[i])
            return drop(intervals, LP_DROP_BACKWARDS, 1);
    for (size_t i = 0; i < n; i++)
        if (after[i] - before[i] > most)
            return drop(intervals, LP_DROP_ENORMOUS, 1);
    intervals->used++;
    intervals->used_ns += interval->ns;
    return true;
}

static uint64_t most_of(const struct interval *interval, uint64_t per_ns)
{
    uint64_t most;
    return __builtin_mul_overflow(interval->ns, per_ns, &most) ? UINT64_MAX : lp_run_plus(most, AT_ONCE);
}

static void add_growth(struct lp_run_sum *sum, const struct interval *interval, uint64_t before, uint64_t after)
{
    if (grown(&sum->intervals, interval, &before, &after, 1, false, most_of(interval, EVENTS_PER_NS)))
        sum->sum = lp_run_plus(sum->sum, after - before);
}

static void add_flow(struct lp_run_samples_fold *fold, struct lp_run_moved *moved, enum lp_run_flow flow,
                     const struct interval *interval, uint64_t bytes)
{
    if (bytes == 0)
        return;
    struct lp_run_io *io = &fold->samples->io;
    double per_s = (double)bytes / (double)interval->ns * 1e9;
    moved->flow[flow] = bytes;
    io->peak_per_s[flow] = per_s > io->peak_per_s[flow] ? per_s : io->peak_per_s[flow];
    spread_over(&fold->timeline, fold->timeline.bytes[flow], &interval->stretch, bytes);
}

/* Reads and writes of one layer. */
static bool add_layer(struct lp_run_samples_fold *fold, struct lp_run_moved *moved, enum lp_run_layer layer,
                      const struct interval *interval, const uint64_t *row)
{
    size_t field = layer == LP_LAYER_CHARS ? LP_P_READ_CHARS : LP_P_READ_BYTES;
    enum lp_run_flow flow = layer == LP_LAYER_CHARS ? LP_READ_CHARS : LP_READ_BYTES;
    const uint64_t *before = &fold->previous[field], *after = &row[field];
    bool gap = interval->gaps & (layer == LP_LAYER_CHARS ? LP_GAP_CHARS : LP_GAP_BYTES);
    if (!grown(&fold->samples->io.intervals[layer], interval, before, after, 2, gap, most_of(interval, BYTES_PER_NS)))
        return false;
    add_flow(fold, moved, flow, interval, after[0] - before[0]);
    add_flow(fold, moved, flow + 1, interval, after[1] - before[1]);
    return true;
}

static void add_io(struct lp_run_samples_fold *fold, struct lp_run_sampled *phase, const struct interval *interval,
                   const uint64_t *row)
{
    struct lp_run_moved moved = {0};
    bool chars = add_layer(fold, &moved, LP_LAYER_CHARS, interval, row);
    bool bytes = add_layer(fold, &moved, LP_LAYER_BYTES, interval, row);
    if (!chars && !bytes)
        return;
    if (chars && bytes) {
        moved.paired_chars = moved.flow[LP_READ_CHARS];
        moved.paired_bytes = moved.flow[LP_READ_BYTES];
        moved.paired = 1;
    }
    lp_run_moved_add(&fold->samples->io.moved, &moved);
    lp_run_moved_add(&phase->moved, &moved);
    spread_over(&fold->timeline, fold->timeline.known_ns, &interval->stretch, interval->ns);
    phase->intervals++;
    phase->intervals_ns += interval->ns;
}

static void add_cpu(struct lp_run_samples *samples, const struct interval *interval, uint64_t before, uint64_t after)
{
    uint64_t used = samples->cpu_ns.intervals.used;
    add_growth(&samples->cpu_ns, interval, before, after);
    if (samples->cpu_ns.intervals.used == used || interval->ns < LP_RUN_CPU_LEAST_NS)
        return;
    double cores = (double)(after - before) / (double)interval->ns;
    if (!(cores <= samples->cpu_heaviest_cores))
        samples->cpu_heaviest_cores = cores;
}

static void add_memory(struct lp_run_sampled *phase, const struct interval *interval, uint64_t before, uint64_t after)
{
    if (interval->lost || before == LP_NOT_MEASURED || after == LP_NOT_MEASURED)
        return;
    int64_t growth = (int64_t)after - (int64_t)before; /* each is at most 2^50 */
    if (__builtin_add_overflow(phase->rss_growth_bytes, growth, &phase->rss_growth_bytes))
        phase->rss_growth_bytes = growth < 0 ? INT64_MIN : INT64_MAX;
    phase->rss_intervals++;
}

/* A clock that was set back in between makes a moment of it. */
static struct stretch stretch_of(const struct lp_run_samples_fold *fold, uint64_t at_ns)
{
    struct stretch stretch = {lp_run_axis_at(&fold->axis, fold->previous[LP_P_MONOTONIC_NS]),
                              lp_run_axis_at(&fold->axis, at_ns)};
    if (stretch.to_ns < stretch.from_ns)
        stretch.to_ns = stretch.from_ns;
    return stretch;
}

static void add_interval(struct lp_run_samples_fold *fold, const uint64_t *row)
{
    struct lp_run_samples *samples = fold->samples;
    const uint64_t *before = fold->previous;
    struct interval interval = {
        .ns = row[LP_P_MONOTONIC_NS] - before[LP_P_MONOTONIC_NS],
        .lost = row[LP_P_SEQUENCE] - before[LP_P_SEQUENCE] - 1,
        .gaps = row[LP_P_GAPS],
        .stretch = stretch_of(fold, row[LP_P_MONOTONIC_NS]),
    };
    struct lp_run_sampled *phase = phase_of(fold, before[LP_P_PHASE]);
    add_io(fold, phase, &interval, row);
    add_memory(phase, &interval, before[LP_P_RSS_BYTES], row[LP_P_RSS_BYTES]);
    add_cpu(samples, &interval, before[LP_P_CPU_NS], row[LP_P_CPU_NS]);
    add_growth(&samples->minor_faults, &interval, before[LP_P_MINOR_FAULTS], row[LP_P_MINOR_FAULTS]);
    add_growth(&samples->major_faults, &interval, before[LP_P_MAJOR_FAULTS], row[LP_P_MAJOR_FAULTS]);
    add_growth(&samples->voluntary_switches, &interval, before[LP_P_VOLUNTARY_SWITCHES], row[LP_P_VOLUNTARY_SWITCHES]);
    add_growth(&samples->involuntary_switches, &interval, before[LP_P_INVOLUNTARY_SWITCHES],
               row[LP_P_INVOLUNTARY_SWITCHES]);
    add_growth(&samples->run_delay_ns, &interval, before[LP_P_RUN_DELAY_NS], row[LP_P_RUN_DELAY_NS]);
}

static bool is_within(const struct lp_run_samples_fold *fold, uint64_t at_ns)
{
    return at_ns >= fold->earliest_ns && at_ns <= fold->latest_ns;
}

/* Whether a row comes after the one before it; else says why not. Lost samples take time, too. */
static bool follows(struct lp_run_samples *samples, uint64_t last_ns, uint64_t last_sequence, uint64_t at_ns,
                    uint64_t sequence)
{
    if (sequence <= last_sequence)
        samples->rows_repeated++;
    else if (at_ns <= last_ns)
        samples->rows_unsorted++;
    else if (sequence - last_sequence - 1 > (at_ns - last_ns) / CLOSEST_NS)
        samples->rows_beyond++;
    else
        return true;
    return false;
}

static void limit(struct lp_run_samples *samples, uint64_t *figure)
{
    if (*figure <= MEMORY_MOST || *figure == LP_NOT_MEASURED)
        return;
    *figure = LP_NOT_MEASURED;
    samples->figures_enormous++;
}

static void add_levels(struct lp_run_samples *samples, const uint64_t *row)
{
    level_add(&samples->rss_bytes, row[LP_P_RSS_BYTES]);
    level_add(&samples->threads, row[LP_P_THREADS]);
    level_add(&samples->open_files, row[LP_P_OPEN_FILES]);
    level_add(&samples->cuda_allocated_bytes, row[LP_P_CUDA_ALLOCATED_BYTES]);
    level_add(&samples->cuda_reserved_bytes, row[LP_P_CUDA_RESERVED_BYTES]);
    if (row[LP_P_RSS_BYTES] != LP_NOT_MEASURED)
        trend_add(&samples->rss_trend, (double)(row[LP_P_MONOTONIC_NS] - samples->first_ns) / (double)SECOND_NS,
                  (double)row[LP_P_RSS_BYTES]);
}

void lp_run_samples_fold_process(struct lp_run_samples_fold *fold, const uint64_t *given)
{
    struct lp_run_samples *samples = fold->samples;
    uint64_t row[LP_P_FIELDS], *previous = fold->previous;
    bool first = samples->rows == 0;
    if (!is_within(fold, given[LP_P_MONOTONIC_NS]) || given[LP_P_SEQUENCE] == LP_NOT_MEASURED) {
        samples->rows_beyond++;
        return;
    }
    if (!first && !follows(samples, previous[LP_P_MONOTONIC_NS], previous[LP_P_SEQUENCE], given[LP_P_MONOTONIC_NS],
                           given[LP_P_SEQUENCE]))
        return;
    memcpy(row, given, sizeof row);
    limit(samples, &row[LP_P_RSS_BYTES]);
    limit(samples, &row[LP_P_CUDA_ALLOCATED_BYTES]);
    limit(samples, &row[LP_P_CUDA_RESERVED_BYTES]);
    if (first)
        samples->first_ns = row[LP_P_MONOTONIC_NS];
    else
        add_interval(fold, row);
    add_levels(samples, row);
    samples->rows++;
    samples->last_ns = row[LP_P_MONOTONIC_NS];
    memcpy(previous, row, sizeof row);
}

/* --- from worker to worker --- */

int lp_run_samples_fold_init(struct lp_run_samples_fold *fold, const struct lp_run_ruler *ruler)
{
    fold->ruler = *ruler;
    fold->timeline.bin_ns = ruler->bin_ns;
    fold->timeline.n_bins = ruler->n_bins;
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++) {
        fold->timeline.bytes[flow] = calloc(ruler->n_bins, sizeof(uint64_t));
        if (!fold->timeline.bytes[flow])
            return -1;
    }
    fold->timeline.known_ns = calloc(ruler->n_bins, sizeof(uint64_t));
    return fold->timeline.known_ns ? 0 : -1;
}

static void forget_phases(struct lp_run_samples_fold *fold)
{
    for (size_t i = 0; i < fold->phases_room; i++)
        free(fold->phases[i].busy);
    memset(fold->phases, 0, fold->phases_room * sizeof *fold->phases);
}

static int make_phases(struct lp_run_samples_fold *fold)
{
    size_t n = lp_run_samples_fold_phases(fold);
    if (fold->phases)
        forget_phases(fold);
    if (n > fold->phases_room) {
        free(fold->phases);
        fold->phases = calloc(n, sizeof *fold->phases);
        fold->phases_room = fold->phases ? n : 0;
    }
    if (!fold->phases)
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct lp_run_sampled *phase = &fold->phases[i];
        phase->phase = i < fold->n_ids ? fold->ids[i].phase : NULL;
        phase->kind = i < fold->n_ids ? LP_SAMPLED_PHASE : i == fold->n_ids ? LP_SAMPLED_NONE_OPEN : LP_SAMPLED_UNKNOWN;
        phase->gpu_peak_bytes = phase->gpu_device_peak_bytes = LP_NOT_MEASURED;
    }
    return 0;
}

int lp_run_samples_fold_begin(struct lp_run_samples_fold *fold, const struct lp_run_worker *worker,
                              const struct lp_run_axis *axis, struct lp_run_samples *samples)
{
    uint64_t first_ns = worker->started.monotonic_ns;
    *samples = (struct lp_run_samples){.cpu_heaviest_cores = NAN};
    fold->samples = samples;
    fold->axis = *axis;
    fold->ids = worker->phase_ids;
    fold->n_ids = worker->n_phase_ids;
    fold->earliest_ns = first_ns > BEFORE_NS ? first_ns - BEFORE_NS : 0;
    fold->latest_ns = lp_run_plus(worker->written.monotonic_ns, AFTER_NS);
    fold->last_id = 0;
    fold->last_place = fold->n_ids;
    for (size_t i = 0; i < LP_RUN_GPUS_MAX; i++) {
        struct lp_run_gpu_fold *gpu = &fold->gpus[i];
        if (gpu->samples.rows)
            memset(gpu->bins, 0, LP_RUN_GPU_BINS * sizeof *gpu->bins);
        *gpu = (struct lp_run_gpu_fold){.bins = gpu->bins};
    }
    return make_phases(fold);
}

void lp_run_samples_fold_release(struct lp_run_samples_fold *fold)
{
    if (fold->phases)
        forget_phases(fold);
    free(fold->phases);
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++)
        free(fold->timeline.bytes[flow]);
    free(fold->timeline.known_ns);
    for (size_t i = 0; i < LP_RUN_GPUS_MAX; i++)
        free(fold->gpus[i].bins);
    *fold = (struct lp_run_samples_fold){0};
}

/* --- devices --- */

static void spread(struct lp_run_gpu_fold *gpu, uint64_t bin_ns, uint64_t from_ns, uint64_t to_ns, const uint64_t *row)
{
    size_t last = LP_RUN_GPU_BINS - 1;
    size_t begin = from_ns / bin_ns < last ? (size_t)(from_ns / bin_ns) : last;
    for (size_t bin = begin; from_ns < to_ns; bin++) {
        uint64_t edge_ns = bin < last ? (bin + 1) * bin_ns : UINT64_MAX;
        uint64_t ns = (edge_ns < to_ns ? edge_ns : to_ns) - from_ns;
        struct lp_run_gpu_bin *to = &gpu->bins[bin];
        to->covered_ns += ns;
        if (row[LP_G_BUSY_PERMILLE] != LP_NOT_MEASURED) {
            to->busy_permille_ns = lp_run_plus(to->busy_permille_ns, ns * row[LP_G_BUSY_PERMILLE]);
            to->busy_known_ns += ns;
        }
        if (row[LP_G_OWN_BUSY_PERMILLE] != LP_NOT_MEASURED)
            to->own_permille_ns = lp_run_plus(to->own_permille_ns, ns * row[LP_G_OWN_BUSY_PERMILLE]);
        from_ns += ns;
    }
}

#define WINDOW_NS SECOND_NS          /* That a first sample stands for. */
#define WINDOW_MOST (60 * SECOND_NS) /* No sample stands for more. */

/* The time that a sample stands for: since the one before it. */
static uint64_t window_of(const struct lp_run_samples_fold *fold, const struct lp_run_gpu_fold *gpu, uint64_t at_ns)
{
    uint64_t since_ns = gpu->samples.rows ? at_ns - gpu->last_ns : at_ns - fold->earliest_ns;
    uint64_t most_ns = gpu->samples.rows ? WINDOW_MOST : WINDOW_NS;
    return since_ns < most_ns ? since_ns : most_ns;
}

static void add_shares(struct lp_run_gpu_samples *samples, const uint64_t *row, uint64_t ns)
{
    if (row[LP_G_BUSY_PERMILLE] != LP_NOT_MEASURED) {
        samples->busy_permille_ns = lp_run_plus(samples->busy_permille_ns, ns * row[LP_G_BUSY_PERMILLE]);
        samples->busy_known_ns += ns;
    }
    if (row[LP_G_OWN_BUSY_PERMILLE] != LP_NOT_MEASURED) {
        samples->own_permille_ns = lp_run_plus(samples->own_permille_ns, ns * row[LP_G_OWN_BUSY_PERMILLE]);
        samples->own_known_ns += ns;
    }
}

static uint64_t higher(uint64_t peak, uint64_t value)
{
    return value == LP_NOT_MEASURED || (peak != LP_NOT_MEASURED && peak >= value) ? peak : value;
}

/* A device on which this process holds nothing and has run nothing says nothing about its phases; where neither can be
   known, it may. */
static bool is_ours(const struct lp_run_gpu_samples *samples, const uint64_t *row)
{
    return row[LP_G_OWN_USED_BYTES] != 0 || samples->attributed;
}

static int add_to_phase(struct lp_run_sampled *phase, const uint64_t *row)
{
    phase->gpu_peak_bytes = higher(phase->gpu_peak_bytes, row[LP_G_OWN_USED_BYTES]);
    phase->gpu_device_peak_bytes = higher(phase->gpu_device_peak_bytes, row[LP_G_DEVICE_USED_BYTES]);
    if (row[LP_G_BUSY_PERMILLE] == LP_NOT_MEASURED)
        return 0;
    if (!phase->busy && !(phase->busy = calloc(1, sizeof *phase->busy)))
        return -1;
    phase->busy->percent[(row[LP_G_BUSY_PERMILLE] + 5) / 10]++;
    return 0;
}

static void limit_share(struct lp_run_samples *samples, uint64_t *permille)
{
    if (*permille <= 1000 || *permille == LP_NOT_MEASURED)
        return;
    *permille = LP_NOT_MEASURED;
    samples->figures_enormous++;
}

static int use_gpu_row(struct lp_run_samples_fold *fold, struct lp_run_gpu_fold *gpu, uint64_t *row)
{
    uint64_t at_ns = row[LP_G_MONOTONIC_NS], ns = window_of(fold, gpu, at_ns);
    if (!gpu->bins && !(gpu->bins = calloc(LP_RUN_GPU_BINS, sizeof *gpu->bins)))
        return -1;
    limit(fold->samples, &row[LP_G_DEVICE_USED_BYTES]);
    limit(fold->samples, &row[LP_G_OWN_USED_BYTES]);
    limit_share(fold->samples, &row[LP_G_BUSY_PERMILLE]);
    limit_share(fold->samples, &row[LP_G_OWN_BUSY_PERMILLE]);
    gpu->samples.index = (uint32_t)row[LP_G_DEVICE];
    gpu->samples.attributed |= row[LP_G_FLAGS] != LP_NOT_MEASURED && (row[LP_G_FLAGS] & LP_GPU_ATTRIBUTED);
    gpu->samples.rows++;
    gpu->last_ns = at_ns;
    gpu->last_sequence = row[LP_G_SEQUENCE];
    add_shares(&gpu->samples, row, ns);
    spread(gpu, fold->ruler.gpu_bin_ns, lp_run_axis_at(&fold->axis, at_ns - ns), lp_run_axis_at(&fold->axis, at_ns),
           row);
    level_add(&gpu->samples.used_bytes, row[LP_G_DEVICE_USED_BYTES]);
    level_add(&gpu->samples.own_used_bytes, row[LP_G_OWN_USED_BYTES]);
    return is_ours(&gpu->samples, row) ? add_to_phase(phase_of(fold, row[LP_G_PHASE]), row) : 0;
}

int lp_run_samples_fold_gpu(struct lp_run_samples_fold *fold, const uint64_t *given)
{
    struct lp_run_samples *samples = fold->samples;
    uint64_t row[LP_G_FIELDS];
    if (!is_within(fold, given[LP_G_MONOTONIC_NS]) || given[LP_G_SEQUENCE] == LP_NOT_MEASURED ||
        given[LP_G_DEVICE] >= LP_RUN_GPUS_MAX) {
        samples->rows_beyond++;
        return 0;
    }
    struct lp_run_gpu_fold *gpu = &fold->gpus[given[LP_G_DEVICE]];
    if (gpu->samples.rows &&
        !follows(samples, gpu->last_ns, gpu->last_sequence, given[LP_G_MONOTONIC_NS], given[LP_G_SEQUENCE]))
        return 0;
    memcpy(row, given, sizeof row);
    return use_gpu_row(fold, gpu, row);
}

int lp_run_samples_fold_end(struct lp_run_samples_fold *fold)
{
    struct lp_run_samples *samples = fold->samples;
    for (size_t i = 0; i < LP_RUN_GPUS_MAX; i++)
        samples->n_gpus += fold->gpus[i].samples.rows > 0;
    if (!samples->n_gpus)
        return 0;
    samples->gpus = calloc(samples->n_gpus, sizeof *samples->gpus);
    if (!samples->gpus)
        return -1;
    size_t n = 0;
    for (size_t i = 0; i < LP_RUN_GPUS_MAX; i++)
        if (fold->gpus[i].samples.rows)
            samples->gpus[n++] = fold->gpus[i].samples;
    return 0;
}

bool lp_run_samples_fold_has_process(const struct lp_run_samples_fold *fold, const uint64_t *row)
{
    return fold->samples->rows > 0 && row[LP_P_SEQUENCE] <= fold->previous[LP_P_SEQUENCE];
}

bool lp_run_samples_fold_has_gpu(const struct lp_run_samples_fold *fold, const uint64_t *row)
{
    if (row[LP_G_DEVICE] >= LP_RUN_GPUS_MAX)
        return false;
    const struct lp_run_gpu_fold *gpu = &fold->gpus[row[LP_G_DEVICE]];
    return gpu->samples.rows > 0 && row[LP_G_SEQUENCE] <= gpu->last_sequence;
}

/* --- busy shares --- */

uint64_t lp_run_busy_total(const struct lp_run_busy *busy)
{
    uint64_t total = 0;
    for (size_t i = 0; i <= 100; i++)
        total = lp_run_plus(total, busy->percent[i]);
    return total;
}

double lp_run_busy_quantile(const struct lp_run_busy *busy, double q)
{
    uint64_t total = lp_run_busy_total(busy), seen = 0;
    if (!total)
        return NAN;
    uint64_t wanted = (uint64_t)(q * (double)(total - 1)) + 1;
    for (unsigned i = 0; i <= 100; i++) {
        seen = lp_run_plus(seen, busy->percent[i]);
        if (seen >= wanted)
            return (double)i / 100;
    }
    return 1;
}
