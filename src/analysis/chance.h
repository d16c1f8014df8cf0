/*
 * analysis/chance: how far two means lie apart by chance alone.
 *
 * Owns three tails: of the normal distribution, of Student's, and of the difference between the means of two samples
 * drawn from one and the same law. The last is what compares two runs: a law made from both histograms together says
 * what one entry may take, whatever its shape - skewed, of several modes, with rare stalls - and its cumulant generating
 * function K what the difference of two means may come to. P(difference >= d) is read off K by the saddlepoint
 * approximation (Barndorff-Nielsen's r*), whose error is relative: far out in the tail, where a whole table of phases is
 * decided, a normal approximation is wrong by orders of magnitude for skewed durations, this one by a few percent.
 *
 * Costs: some forty sums over the points of the law for one critical value.
 *
 * Must not know: runs, phases, units.
 */
#ifndef LP_ANALYSIS_CHANCE_H
#define LP_ANALYSIS_CHANCE_H

#include <stddef.h>

#define LP_CHANCE_POINTS 516

/* A discrete law: value i has weight i. Weights need not add up to 1. */
struct lp_chance_law {
    size_t n;
    double value[LP_CHANCE_POINTS], weight[LP_CHANCE_POINTS];
};

void lp_chance_add(struct lp_chance_law *law, double value, double weight);
double lp_chance_variance(const struct lp_chance_law *law);

/* The x with P(X >= x) = p, 0 < p <= 0.5; INFINITY where it is beyond all reason. df > 0 need not be whole. */
double lp_chance_normal(double p);
double lp_chance_student(double df, double p);

/* The d with P(mean of n - mean of m >= d) = p, both of them independent draws from the law; INFINITY if the law has no
   such d: samples too small to be sure of anything at that p. */
double lp_chance_difference(const struct lp_chance_law *law, double n, double m, double p);

#endif
