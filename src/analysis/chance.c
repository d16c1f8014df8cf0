#include "analysis/chance.h"

#include <math.h>

#define STEPS 60 /* Of a bisection: more than a double's digits. */

void lp_chance_add(struct lp_chance_law *law, double value, double weight)
{
    if (weight <= 0 || law->n == LP_CHANCE_POINTS)
        return;
    law->value[law->n] = value;
    law->weight[law->n++] = weight;
}

/* --- normal and Student --- */

double lp_chance_normal(double p)
{
    double low = 0, high = 38;
    for (int i = 0; i < STEPS; i++) {
        double middle = (low + high) / 2;
        if (erfc(middle / sqrt(2)) / 2 > p)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method. */
static double beta_fraction(double x, double a, double b)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m < 10000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        for (int half = 0; half < 2; half++) {
            double term = half == 0 ? even : odd;
            d = 1 + term * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + term / c;
            c = fabs(c) < tiny ? tiny : c;
            value *= c * d;
        }
        if (fabs(c * d - 1) < 1e-14)
            break;
    }
    return value;
}

static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* P(T >= t), t > 0. */
static double student_tail(double df, double t)
{
    double a = df / 2, b = 0.5;
    double x = df / (df + t * t), y = t * t / (df + t * t);
    double front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log(y));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(x, a, b) / a / 2;
    return (1 - front * beta_fraction(y, b, a) / b) / 2;
}

double lp_chance_student(double df, double p)
{
    const double most = 1e9;
    if (df > 1e6)
        return lp_chance_normal(p);
    if (student_tail(df, most) > p)
        return INFINITY;
    double low = 1e-9, high = most; /* Bisected by ratio. */
    for (int i = 0; i < STEPS; i++) {
        double middle = sqrt(low * high);
        if (student_tail(df, middle) > p)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* --- the difference of two means --- */

/* The law centred and scaled to a standard deviation of 1. */
struct standard {
    const struct lp_chance_law *law;
    double total, mean, sd;
};

static struct standard standardise(const struct lp_chance_law *law)
{
    struct standard law_of = {.law = law};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < law->n; i++) {
        law_of.total += law->weight[i];
        sum += law->weight[i] * law->value[i];
    }
    law_of.mean = sum / law_of.total;
    for (size_t i = 0; i < law->n; i++)
        squares += law->weight[i] * (law->value[i] - law_of.mean) * (law->value[i] - law_of.mean);
    law_of.sd = sqrt(squares / law_of.total);
    return law_of;
}

double lp_chance_variance(const struct lp_chance_law *law)
{
    double sd = standardise(law).sd;
    return sd * sd;
}

/* Adds count times the cumulant generating function of sign * one draw / count, and its two derivatives, at t. */
static void add_cumulants(const struct standard *law, double count, double sign, double t, double k[3])
{
    double s = sign * t / count, largest = -INFINITY, sums[3] = {0};
    for (size_t i = 0; i < law->law->n; i++)
        largest = fmax(largest, s * (law->law->value[i] - law->mean) / law->sd);
    for (size_t i = 0; i < law->law->n; i++) {
        double x = (law->law->value[i] - law->mean) / law->sd;
        double weight = law->law->weight[i] / law->total * exp(s * x - largest);
        sums[0] += weight;
        sums[1] += weight * x;
        sums[2] += weight * x * x;
    }
    double mean = sums[1] / sums[0];
    k[0] += count * (largest + log(sums[0]));
    k[1] += sign * mean;
    k[2] += fmax(0, sums[2] / sums[0] - mean * mean) / count;
}

/* r*, the normal deviate of P(difference >= K'(t)); NAN where the law has come to its end. */
static double deviate(const struct standard *law, double n, double m, double t, double *difference)
{
    double k[3] = {0};
    add_cumulants(law, n, 1, t, k);
    add_cumulants(law, m, -1, t, k);
    *difference = k[1];
    double w = sqrt(fmax(0, 2 * (t * k[1] - k[0]))), u = t * sqrt(k[2]);
    return w > 0 && u > 0 ? w + log(u / w) / w : NAN;
}

double lp_chance_difference(const struct lp_chance_law *law, double n, double m, double p)
{
    struct standard standard = standardise(law);
    if (!(standard.sd > 0))
        return 0;
    double z = lp_chance_normal(p), difference, low = 0;
    double high = z / sqrt(1 / n + 1 / m);
    double reached = deviate(&standard, n, m, high, &difference);
    for (int i = 0; i < 30 && reached < z; i++) {
        low = high;
        high *= 2;
        reached = deviate(&standard, n, m, high, &difference);
    }
    if (!(reached >= z))
        return INFINITY;
    for (int i = 0; i < STEPS && high - low > 1e-9 * high; i++) {
        double middle = (low + high) / 2;
        if (deviate(&standard, n, m, middle, &difference) >= z)
            high = middle;
        else
            low = middle;
    }
    deviate(&standard, n, m, high, &difference);
    return difference * standard.sd;
}
