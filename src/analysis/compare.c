#include "analysis/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/chance.h"
#include "analysis/internal.h"
#include "run/text.h"

#define LOG_UNIT ((double)LP_HIST_LOG_UNIT)

/* --- one side --- */

static double ended_ns(const struct lp_run_phase *phase)
{
    return (double)lp_analysis_less(phase->wall_ns, phase->open_wall_ns);
}

/* A quantile cannot be more than all entries took, and of a single entry is what that took. */
static double median_of(const struct lp_run_phase *phase)
{
    if (lp_hist_total(&phase->hist) == 0)
        return NAN;
    double median = lp_hist_quantile(&phase->hist, 0.5);
    return phase->calls == 1 || median > ended_ns(phase) ? ended_ns(phase) : median;
}

static void measure(struct lp_compare_side *side)
{
    const struct lp_run_phase *phase = side->phase;
    side->mean_ns = side->p50_ns = NAN;
    if (phase == NULL || phase->calls == 0)
        return;
    side->entries = (double)phase->calls / (double)phase->stride_max;
    side->mean_ns = ended_ns(phase) / (double)phase->calls;
    side->p50_ns = median_of(phase);
}

static double typical_log(const struct lp_run_phase *phase)
{
    return (double)phase->spread.l / (double)phase->calls;
}

/* --- margins --- */

/* What a phase's processes say about its mean: k2 and k3 are sums of the squares and cubes of their parts of all
   entries (of one process both are 1). variance is that of one process's mean around the role's, as far as it does not
   fall with the number of entries. */
struct processes {
    double k2, k3, df, variance;
};

/* cx, xx: sums of c * x and x * x for a quantity x of each process that sums up to all. The sum of squared residuals
   (x - mean * c)^2 has, if the processes' means vary by v around a common one, the expectation
   v * N^2 * (k2 - 2 k3 + k2^2). */
static struct processes processes_of(const struct lp_run_phase *phase, lp_run_square cx, lp_run_square xx, double mean)
{
    const struct lp_run_spread *spread = &phase->spread;
    double n = (double)phase->calls;
    struct processes processes = {.k2 = 1, .k3 = 1};
    if (spread->cc == 0 || n <= 0)
        return processes; /* Nothing known of its processes. */
    processes.k2 = fmin(1, (double)spread->cc / n / n);
    processes.k3 = fmin(1, (double)spread->ccc / n / n / n);
    processes.df = 1 / processes.k2 - 1;
    long double residuals =
        (long double)xx - 2 * (long double)mean * (long double)cx + (long double)mean * mean * (long double)spread->cc;
    double expected = processes.k2 - 2 * processes.k3 + processes.k2 * processes.k2;
    if (processes.df > 0.01 && expected > 0 && residuals > 0)
        processes.variance = (double)residuals / n / n / expected;
    return processes;
}

/* The margin of what processes differ by; 0 if there is nothing to learn it from. A mean has at least the variance that
   its entries give it; what processes vary by beyond that is learnt from both runs together. */
static double process_margin(const struct lp_compare_phase *row, const struct processes *a, const struct processes *b,
                             double entry_variance, double p)
{
    double df = a->df + b->df, of_a = entry_variance / row->a.entries, of_b = entry_variance / row->b.entries;
    if (df < 1)
        return 0;
    double beyond = (a->df * (a->variance - of_a / a->k2) + b->df * (b->variance - of_b / b->k2)) / df;
    double variance = of_a + of_b + fmax(0, beyond) * (a->k2 + b->k2);
    return variance > 0 ? lp_chance_student(df, p) * sqrt(variance) : 0;
}

static double run_margin(double p)
{
    return lp_chance_normal(p) * sqrt(2) * LP_COMPARE_RUN_NOISE;
}

/* How much of the smaller mean's side chance gives to the larger: B above A, or A above B. */
static double entry_margin(const struct lp_chance_law *law, const struct lp_compare_phase *row, bool up, double p)
{
    return up ? lp_chance_difference(law, row->b.entries, row->a.entries, p)
              : lp_chance_difference(law, row->a.entries, row->b.entries, p);
}

/* A bucket's weight in the law of both runs: each entry measured counts once. */
static double bucket_weight(const struct lp_compare_phase *row, unsigned bucket)
{
    double a = (double)lp_hist_bucket(&row->a.phase->hist, bucket) / (double)lp_hist_total(&row->a.phase->hist);
    double b = (double)lp_hist_bucket(&row->b.phase->hist, bucket) / (double)lp_hist_total(&row->b.phase->hist);
    return a * row->a.entries + b * row->b.entries;
}

struct weights {
    double of[LP_HIST_BUCKETS], total;
};

static void weigh(struct weights *weights, const struct lp_compare_phase *row)
{
    weights->total = 0;
    for (unsigned i = 0; i < LP_HIST_BUCKETS; i++) {
        weights->of[i] = bucket_weight(row, i);
        weights->total += weights->of[i];
    }
}

/* --- the mean entry --- */

/* The widest law that the histograms allow: every entry at that end of its bucket which is farther from the mean. */
static void widest_law(struct lp_chance_law *law, const struct weights *weights, double mean_ns)
{
    law->n = 0;
    for (unsigned i = 0; i < LP_HIST_BUCKETS; i++) {
        if (weights->of[i] <= 0)
            continue;
        double begin = (double)lp_hist_bucket_begin(i), last = begin + (double)(lp_hist_bucket_width(i) - 1);
        if (last >= mean_ns)
            lp_chance_add(law, last, weights->of[i] / (begin <= mean_ns ? 2 : 1));
        if (begin <= mean_ns)
            lp_chance_add(law, begin, weights->of[i] / (last >= mean_ns ? 2 : 1));
    }
}

static void test_mean(struct lp_compare_phase *row, const struct weights *weights, double p)
{
    struct lp_chance_law law;
    double a = row->a.mean_ns, b = row->b.mean_ns, larger = fmax(a, b);
    double pooled = (a * row->a.entries + b * row->b.entries) / (row->a.entries + row->b.entries);
    widest_law(&law, weights, pooled);
    const struct lp_run_spread *in_a = &row->a.phase->spread, *in_b = &row->b.phase->spread;
    struct processes at_a = processes_of(row->a.phase, in_a->cw, in_a->ww, a);
    struct processes at_b = processes_of(row->b.phase, in_b->cw, in_b->ww, b);
    at_a.variance *= a > 0 ? larger / a * (larger / a) : 0;
    at_b.variance *= b > 0 ? larger / b * (larger / b) : 0;
    double margin =
        fmax(entry_margin(&law, row, b >= a, p), process_margin(row, &at_a, &at_b, lp_chance_variance(&law), p));
    margin = hypot(margin, run_margin(p) * larger);
    row->mean.margin = margin / a;
    row->mean.real = fabs(b - a) > margin;
}

/* --- the typical entry --- */

/* The second largest weight among two buckets on each side. */
static double around(const struct weights *weights, unsigned bucket)
{
    double largest = 0, second = 0;
    for (unsigned i = bucket >= 2 ? bucket - 2 : 0; i <= bucket + 2 && i < LP_HIST_BUCKETS; i++) {
        double weight = i != bucket ? weights->of[i] : 0;
        second = fmax(second, fmin(weight, largest));
        largest = fmax(largest, weight);
    }
    return second;
}

/* The part of all entries that stands in peaks narrower than three buckets: such a peak can cross the border of its
   bucket as a whole, however little it moved. */
static double in_peaks(const struct weights *weights)
{
    double sum = 0;
    for (unsigned i = 0; i < LP_HIST_BUCKETS; i++)
        sum += fmax(0, weights->of[i] - around(weights, i));
    return weights->total > 0 ? sum / weights->total : 1;
}

static void test_typical(struct lp_compare_phase *row, const struct weights *weights, double p)
{
    struct lp_chance_law law = {0};
    double peaks = in_peaks(weights);
    if (peaks > LP_COMPARE_PEAKS_MAX)
        return;
    for (unsigned i = 0; i < LP_HIST_BUCKETS; i++)
        lp_chance_add(&law, lp_hist_bucket_log(i), weights->of[i]);
    double a = typical_log(row->a.phase), b = typical_log(row->b.phase);
    const struct lp_run_spread *in_a = &row->a.phase->spread, *in_b = &row->b.phase->spread;
    struct processes at_a = processes_of(row->a.phase, in_a->cl, in_a->ll, a);
    struct processes at_b = processes_of(row->b.phase, in_b->cl, in_b->ll, b);
    double margin =
        fmax(entry_margin(&law, row, b >= a, p), process_margin(row, &at_a, &at_b, lp_chance_variance(&law), p));
    margin = hypot(margin, log2(1 + run_margin(p)) * LOG_UNIT);
    margin += peaks * LOG_UNIT / 8; /* A bucket is an eighth of an octave. */
    row->typical.margin = fabs(exp2((b >= a ? margin : -margin) / LOG_UNIT) - 1);
    row->typical.real = fabs(b - a) > margin;
}

/* --- what the medians allow --- */

/* The quantile at rank q, moved by how little a bucket says of where its entries are: not at all of many buckets'
   smooth slope, all of its width if half of the entries share it. */
static double blurred(const struct lp_hist *hist, double q, double sign)
{
    double at = lp_hist_quantile(hist, q);
    unsigned bucket = 0;
    while (bucket + 1 < LP_HIST_BUCKETS && (double)lp_hist_bucket_begin(bucket + 1) <= at)
        bucket++;
    double width = (double)lp_hist_bucket_width(bucket);
    double part = (double)lp_hist_bucket(hist, bucket) / (double)lp_hist_total(hist);
    double moved = at + sign * width * fmin(1, 2 * part);
    return fmax(moved, 0);
}

static bool disagrees(const struct lp_compare_phase *row)
{
    const struct lp_hist *a = &row->a.phase->hist, *b = &row->b.phase->hist;
    double of_a = 1 / sqrt(row->a.entries), of_b = 1 / sqrt(row->b.entries); /* Two standard deviations of a rank. */
    double least = blurred(b, 0.5 - of_b, -1) / blurred(a, 0.5 + of_a, 1);
    double most = blurred(b, 0.5 + of_b, 1) / blurred(a, 0.5 - of_a, -1);
    double ratio = row->b.mean_ns / row->a.mean_ns;
    return ratio < least || ratio > most;
}

/* --- rows --- */

static bool has_hist(const struct lp_compare_side *side)
{
    return lp_hist_total(&side->phase->hist) > 0;
}

static bool can_be_tested(const struct lp_compare_phase *row)
{
    return !row->few && !row->saturated && row->a.mean_ns > 0 && has_hist(&row->a) && has_hist(&row->b);
}

static void describe(struct lp_compare_phase *row)
{
    measure(&row->a);
    measure(&row->b);
    row->mean = row->typical = (struct lp_compare_change){.size = NAN, .margin = NAN};
    row->median_ratio = NAN;
    const struct lp_compare_side *sides[] = {&row->a, &row->b};
    for (size_t i = 0; i < 2; i++) {
        if (sides[i]->phase == NULL)
            continue;
        row->few |= sides[i]->entries < LP_COMPARE_FEW;
        row->estimated |= sides[i]->phase->estimated;
        row->saturated |= sides[i]->phase->saturated || sides[i]->phase->spread.saturated;
    }
    row->verdict = row->a.phase == NULL   ? LP_COMPARE_ONLY_B
                   : row->b.phase == NULL ? LP_COMPARE_ONLY_A
                                          : LP_COMPARE_UNDECIDED;
    if (row->verdict != LP_COMPARE_UNDECIDED || !(row->a.mean_ns > 0))
        return;
    row->mean.size = row->b.mean_ns / row->a.mean_ns - 1;
    row->median_ratio = row->a.p50_ns > 0 ? row->b.p50_ns / row->a.p50_ns : NAN;
    if (!can_be_tested(row))
        return;
    if (row->a.phase->spread.l > 0 && row->b.phase->spread.l > 0)
        row->typical.size = exp2((typical_log(row->b.phase) - typical_log(row->a.phase)) / LOG_UNIT) - 1;
    row->disagrees = disagrees(row);
    row->verdict = LP_COMPARE_SAME;
}

/* The mean decides where it can. */
static void judge(struct lp_compare_phase *row, double p, double fail_over)
{
    struct weights weights;
    weigh(&weights, row);
    test_mean(row, &weights, p);
    if (!isnan(row->typical.size))
        test_typical(row, &weights, p);
    if (row->mean.real)
        row->verdict = row->mean.size > 0 ? LP_COMPARE_SLOWER : LP_COMPARE_FASTER;
    else if (row->typical.real)
        row->verdict = row->typical.size > 0 ? LP_COMPARE_SLOWER : LP_COMPARE_FASTER;
    if (isnan(fail_over) || row->verdict != LP_COMPARE_SLOWER || !(row->mean.size > fail_over))
        return;
    row->over = row->mean.real || row->typical.size > fail_over;
}

static void judge_all(struct lp_compare *compare)
{
    for (size_t i = 0; i < compare->n_phases; i++) {
        struct lp_compare_phase *row = &compare->phases[i];
        describe(row);
        compare->n_both += row->a.phase != NULL && row->b.phase != NULL;
        compare->n_tested += row->verdict == LP_COMPARE_SAME;
    }
    for (size_t i = 0; i < compare->n_phases; i++) {
        struct lp_compare_phase *row = &compare->phases[i];
        if (row->verdict != LP_COMPARE_SAME)
            continue;
        judge(row, LP_COMPARE_ERROR_RATE / 4 / (double)compare->n_tested, compare->fail_over);
        compare->n_slower += row->verdict == LP_COMPARE_SLOWER;
        compare->n_faster += row->verdict == LP_COMPARE_FASTER;
        compare->n_over += row->over;
    }
}

/* --- all --- */

static bool is_same_run(const struct lp_run *a, const struct lp_run *b)
{
    if (lp_text_compare(lp_text_span(&a->run_id), lp_text_span(&b->run_id)) != 0 || a->n_workers != b->n_workers)
        return false;
    for (size_t i = 0; i < a->n_workers; i++)
        if (lp_text_compare(lp_text_span(&a->workers[i].worker), lp_text_span(&b->workers[i].worker)) != 0)
            return false;
    return true;
}

int lp_compare_make(struct lp_compare **out, const struct lp_run *a, const struct lp_run *b, double fail_over)
{
    *out = NULL;
    struct lp_compare *compare = calloc(1, sizeof *compare);
    if (compare == NULL)
        return -ENOMEM;
    *compare = (struct lp_compare){.a = a, .b = b, .fail_over = fail_over, .same_run = is_same_run(a, b)};
    int error = lp_compare_match(compare);
    if (error) {
        lp_compare_free(compare);
        return error;
    }
    judge_all(compare);
    *out = compare;
    return 0;
}

void lp_compare_free(struct lp_compare *compare)
{
    if (compare == NULL)
        return;
    free(compare->roles);
    free(compare->phases);
    free(compare);
}
