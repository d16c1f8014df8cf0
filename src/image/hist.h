/*
 * image/hist: the bucket formula of duration histograms (docs/format.md): log-linear, eight buckets an octave, exact
 * below 16 ns. Writer and readers share this and nothing else.
 */
#ifndef LP_IMAGE_HIST_H
#define LP_IMAGE_HIST_H

#include <stdint.h>

#define LP_HIST_SUB_BITS 3u
#define LP_HIST_PER_OCTAVE (1u << LP_HIST_SUB_BITS)
#define LP_HIST_USED_OCTAVES 62u /* octaves that a 64-bit duration can hit, of the 64 that the format allots */

static inline unsigned lp_hist_bucket_of(uint64_t ns)
{
    if (ns < 2 * LP_HIST_PER_OCTAVE)
        return (unsigned)ns;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(ns);
    return (exponent - 2u) * LP_HIST_PER_OCTAVE +
           (unsigned)((ns >> (exponent - LP_HIST_SUB_BITS)) & (LP_HIST_PER_OCTAVE - 1u));
}

#endif
