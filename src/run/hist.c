#include "run/hist.h"

#include <stdlib.h>

#define PER_OCTAVE LP_HIST_PER_OCTAVE

int lp_run_hist_add(struct lp_hist *hist, unsigned bucket, uint64_t count, bool *saturated)
{
    uint64_t **octave = &hist->octaves[bucket / PER_OCTAVE];
    if (!*octave && !(*octave = calloc(PER_OCTAVE, sizeof **octave)))
        return -1;
    uint64_t *slot = &(*octave)[bucket % PER_OCTAVE];
    *slot = lp_run_sum(*slot, count, saturated);
    return 0;
}

int lp_run_hist_merge(struct lp_hist *hist, const struct lp_hist *from, bool *saturated)
{
    for (unsigned octave = 0; octave < LP_HIST_OCTAVES; octave++)
        for (unsigned i = 0; from->octaves[octave] && i < PER_OCTAVE; i++)
            if (lp_run_hist_add(hist, octave * PER_OCTAVE + i, from->octaves[octave][i], saturated) < 0)
                return -1;
    return 0;
}

void lp_run_hist_release(struct lp_hist *hist)
{
    for (unsigned octave = 0; octave < LP_HIST_OCTAVES; octave++) {
        free(hist->octaves[octave]);
        hist->octaves[octave] = NULL;
    }
}

uint64_t lp_hist_bucket(const struct lp_hist *hist, unsigned bucket)
{
    if (bucket >= LP_HIST_BUCKETS)
        return 0;
    const uint64_t *octave = hist->octaves[bucket / PER_OCTAVE];
    return octave ? octave[bucket % PER_OCTAVE] : 0;
}

uint64_t lp_hist_total(const struct lp_hist *hist)
{
    uint64_t total = 0;
    bool saturated = false;
    for (unsigned octave = 0; octave < LP_HIST_OCTAVES; octave++)
        for (unsigned i = 0; hist->octaves[octave] && i < PER_OCTAVE; i++)
            total = lp_run_sum(total, hist->octaves[octave][i], &saturated);
    return total;
}

uint64_t lp_hist_bucket_begin(unsigned bucket)
{
    if (bucket < 16)
        return bucket;
    if (bucket > LP_HIST_HIT_MAX)
        return UINT64_MAX;
    return (uint64_t)(PER_OCTAVE + bucket % PER_OCTAVE) << (bucket / PER_OCTAVE - 1);
}

uint64_t lp_hist_bucket_width(unsigned bucket)
{
    if (bucket < 16 || bucket > LP_HIST_HIT_MAX)
        return 1;
    return UINT64_C(1) << (bucket / PER_OCTAVE - 1);
}

unsigned lp_hist_bucket_log(unsigned bucket)
{
    static const unsigned first[] = {0, 0, 256, 406, 512, 594, 662, 719};
    /* Of the middles of an octave's eight buckets: 256 * log2(1 + (i + 0.5) / 8). */
    static const unsigned within[] = {22, 63, 100, 134, 165, 193, 220, 244};
    if (bucket < PER_OCTAVE)
        return first[bucket];
    return (bucket / PER_OCTAVE + 2) * LP_HIST_LOG_UNIT + within[bucket % PER_OCTAVE];
}

/* The duration at that share (0 to 1) of a bucket: its first at 0, its last at 1, so that buckets of 1 ns are exact. */
static double inside_bucket(unsigned bucket, double share)
{
    return (double)lp_hist_bucket_begin(bucket) + (double)(lp_hist_bucket_width(bucket) - 1) * share;
}

double lp_hist_quantile(const struct lp_hist *hist, double q)
{
    double rank = (q > 1 ? 1 : q > 0 ? q : 0) * (double)lp_hist_total(hist);
    double before = 0;
    double value = 0;
    for (unsigned bucket = 0; bucket < LP_HIST_BUCKETS; bucket++) {
        double count = (double)lp_hist_bucket(hist, bucket);
        if (count <= 0)
            continue;
        if (before + count >= rank)
            return inside_bucket(bucket, (rank - before) / count);
        before += count;
        value = inside_bucket(bucket, 1); /* Where rounding of huge counts leaves nothing behind. */
    }
    return value;
}
