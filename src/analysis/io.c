#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"
#include "analysis/usage.h"

/* --- exactly --- */

static const char *const counter_names[LP_RUN_FLOWS] = {
    [LP_READ_CHARS] = "io_read_chars",
    [LP_WRITE_CHARS] = "io_write_chars",
    [LP_READ_BYTES] = "io_read_bytes",
    [LP_WRITE_BYTES] = "io_write_bytes",
};

bool lp_analysis_is_io_counter(const struct lp_run_counter *counter, enum lp_run_flow *flow)
{
    for (unsigned i = 0; i < LP_RUN_FLOWS; i++) {
        const char *name = counter_names[i];
        if (counter->name.len != strlen(name) || memcmp(counter->name.bytes, name, counter->name.len) != 0)
            continue;
        *flow = (enum lp_run_flow)i;
        return true;
    }
    return false;
}

/* How much of one is not in the other; what is not known of either is not known. */
static double beyond(double whole, double part)
{
    double rest = whole - part;
    return rest < 0 ? 0 : rest;
}

/* Whether the phase has such counters. */
static bool make_row(struct lp_analysis_io_row *row, const struct lp_run_phase *phase, size_t index)
{
    bool any = false;
    double wall_ns = (double)phase->wall_ns;
    *row = (struct lp_analysis_io_row){.phase = index, .flow = {NAN, NAN, NAN, NAN}};
    for (size_t i = 0; i < phase->n_counters; i++) {
        enum lp_run_flow flow;
        if (!lp_analysis_is_io_counter(&phase->counters[i], &flow))
            continue;
        row->flow[flow] = phase->counters[i].sum > 0 ? (double)phase->counters[i].sum : 0;
        any = true;
    }
    row->cached_bytes = beyond(row->flow[LP_READ_CHARS], row->flow[LP_READ_BYTES]);
    row->rate_per_s = lp_analysis_ratio((row->flow[LP_READ_BYTES] + row->flow[LP_WRITE_BYTES]) * 1e9, wall_ns);
    row->chars_rate_per_s = lp_analysis_ratio((row->flow[LP_READ_CHARS] + row->flow[LP_WRITE_CHARS]) * 1e9, wall_ns);
    return any;
}

static double known(double value)
{
    return isnan(value) ? 0 : value;
}

/* What moved, whatever the layer: for the order alone. */
static double weight_of(const struct lp_analysis_io_row *row)
{
    double chars = known(row->flow[LP_READ_CHARS]) + known(row->flow[LP_WRITE_CHARS]);
    double bytes = known(row->flow[LP_READ_BYTES]) + known(row->flow[LP_WRITE_BYTES]);
    return chars > bytes ? chars : bytes;
}

static int by_row_weight(const void *left, const void *right)
{
    const struct lp_analysis_io_row *a = left, *b = right;
    double x = weight_of(a), y = weight_of(b);
    if (x < y || x > y)
        return x > y ? -1 : 1;
    return a->phase < b->phase ? -1 : a->phase > b->phase;
}

int lp_analysis_io_rows(struct lp_analysis_role_usage *usage, const struct lp_analysis_role *role)
{
    usage->io_rows = calloc(role->n_phases + 1, sizeof *usage->io_rows);
    if (usage->io_rows == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < role->n_phases; i++)
        usage->n_io_rows += make_row(&usage->io_rows[usage->n_io_rows], role->phases[i].phase, i);
    if (usage->n_io_rows > 0)
        qsort(usage->io_rows, usage->n_io_rows, sizeof *usage->io_rows, by_row_weight);
    return 0;
}

/* --- sampled --- */

static void add_totals(struct lp_analysis_io *io, const struct lp_run *run)
{
    const struct lp_run_io *sum = &run->sampling->io;
    double runtime_s = (double)run->runtime_ns / 1e9;
    for (unsigned i = 0; i < LP_RUN_FLOWS; i++) {
        bool is_known = io->known[lp_run_layer_of((enum lp_run_flow)i)];
        io->total[i] = is_known ? (double)sum->moved.flow[i] : NAN;
        io->mean_per_s[i] = lp_analysis_ratio(io->total[i], runtime_s);
        io->peak_per_s[i] = is_known ? sum->peak_per_s[i] : NAN;
    }
    io->cached_bytes = sum->moved.paired > 0 ? (double)lp_run_cached(&sum->moved) : NAN;
}

static void add_intervals(struct lp_analysis_io *io, const struct lp_run_io *sum)
{
    for (unsigned layer = 0; layer < LP_RUN_LAYERS; layer++) {
        const struct lp_run_intervals *intervals = &sum->intervals[layer];
        uint64_t dropped = lp_run_intervals_dropped(intervals);
        io->known[layer] = intervals->used > 0;
        if (layer > 0 && dropped <= io->dropped)
            continue;
        io->dropped = dropped;
        io->intervals = lp_analysis_add(dropped, intervals->used);
    }
}

static double in_layer(const struct lp_run_moved *moved, enum lp_run_layer layer)
{
    enum lp_run_flow read = layer == LP_LAYER_CHARS ? LP_READ_CHARS : LP_READ_BYTES;
    return (double)moved->flow[read] + (double)moved->flow[read + 1];
}

static int by_bytes(const void *left, const void *right)
{
    const struct lp_analysis_io_share *a = left, *b = right;
    if (a->bytes < b->bytes || a->bytes > b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->role != b->role)
        return a->role < b->role ? -1 : 1;
    return a->sampled < b->sampled ? -1 : a->sampled > b->sampled; /* of one role: one array */
}

static int add_shares(struct lp_analysis_io *io, const struct lp_run *run)
{
    double unphased = 0;
    size_t n = 0;
    for (size_t i = 0; i < run->n_roles; i++)
        n += run->roles[i].n_sampled;
    io->layer = in_layer(&run->sampling->io.moved, LP_LAYER_BYTES) > 0 ? LP_LAYER_BYTES : LP_LAYER_CHARS;
    io->layer_bytes = in_layer(&run->sampling->io.moved, io->layer);
    io->shares = calloc(n + 1, sizeof *io->shares);
    if (io->shares == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < run->n_roles; i++)
        for (size_t k = 0; k < run->roles[i].n_sampled; k++) {
            const struct lp_run_sampled *sampled = &run->roles[i].sampled[k];
            double bytes = in_layer(&sampled->moved, io->layer);
            unphased += sampled->kind == LP_SAMPLED_NONE_OPEN ? bytes : 0;
            if (bytes > 0)
                io->shares[io->n_shares++] =
                    (struct lp_analysis_io_share){i, sampled, bytes, lp_analysis_ratio(bytes, io->layer_bytes)};
        }
    if (io->n_shares > 0)
        qsort(io->shares, io->n_shares, sizeof *io->shares, by_bytes);
    io->unphased_share = lp_analysis_ratio(unphased, io->layer_bytes);
    return 0;
}

static double column_of(const struct lp_run_timeline *timeline, unsigned flow, size_t from, size_t to)
{
    double bytes = 0;
    bool is_known = false;
    for (size_t bin = from; bin < to && bin < timeline->n_bins; bin++) {
        is_known |= timeline->known_ns[bin] > 0;
        bytes += (double)timeline->bytes[flow][bin];
    }
    return is_known ? bytes : NAN;
}

static void add_columns(struct lp_analysis_io *io, const struct lp_run_timeline *timeline)
{
    size_t each = (timeline->n_bins + LP_ANALYSIS_COLUMNS - 1) / LP_ANALYSIS_COLUMNS;
    if (each == 0)
        return;
    io->column_ns = timeline->bin_ns * each;
    io->n_columns = (timeline->n_bins + each - 1) / each;
    for (unsigned flow = 0; flow < LP_RUN_FLOWS; flow++)
        for (size_t i = 0; i < io->n_columns; i++)
            io->columns[flow][i] = column_of(timeline, flow, i * each, (i + 1) * each);
}

int lp_analysis_io(struct lp_analysis_io *io, const struct lp_run *run)
{
    if (run->sampling == NULL)
        return 0;
    add_intervals(io, &run->sampling->io);
    add_totals(io, run);
    add_columns(io, &run->sampling->timeline);
    return add_shares(io, run);
}
