/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two kinds of values differ, and by which factor. */
#include "measure/read.h"

#include <math.h>

#define LEVEL      0.95
#define ITERATIONS 500
#define TINY       1e-300

/* ---- Student's t ----------------------------------------------------------------------------- */

/* The continued fraction of the incomplete beta function [DLMF 8.17.22], by Lentz's method. */
static double beta_fraction(double x, double a, double b)
{
    double c = 1, d = 1 - (a + b) * x / (a + 1);

    d = 1 / (fabs(d) < TINY ? TINY : d);
    double h = d;
    for (int m = 1; m < ITERATIONS; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1 + even * d;
        c = 1 + even / c;
        d = 1 / (fabs(d) < TINY ? TINY : d);
        c = fabs(c) < TINY ? TINY : c;
        h *= d * c;
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + odd * d;
        c = 1 + odd / c;
        d = 1 / (fabs(d) < TINY ? TINY : d);
        c = fabs(c) < TINY ? TINY : c;
        h *= d * c;
        if (fabs(d * c - 1) < 1e-15)
            break;
    }
    return h;
}

/* The regularized incomplete beta function I_x(a, b). */
static double beta(double x, double a, double b)
{
    if (x <= 0)
        return 0;
    if (x >= 1)
        return 1;
    int sign;
    double front = exp(lgamma_r(a + b, &sign) - lgamma_r(a, &sign) - lgamma_r(b, &sign) +
                       a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(x, a, b) / a;
    return 1 - front * beta_fraction(1 - x, b, a) / b;
}

static double student_p(double t, double freedom)
{
    return beta(freedom / (freedom + t * t), freedom / 2, 0.5);
}

double stk__student_quantile(double share, double freedom)
{
    double low = 0, high = 1;

    /* Of the upper half; the density is symmetric. */
    double p = 2 * (1 - share);
    while (student_p(high, freedom) > p && high < 1e15)
        high *= 2;
    for (int i = 0; i < 200; i++) {
        double middle = (low + high) / 2;
        if (student_p(middle, freedom) > p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* ---- Ratios ---------------------------------------------------------------------------------- */

typedef struct moments {
    double mean, variance; /* of the logarithms; variance of a sample */
    bool positive;
} moments;

static moments moments_of(const double *values, uint64_t n)
{
    moments m = {0, 0, true};

    for (uint64_t i = 0; i < n; i++) {
        m.positive &= values[i] > 0 && isfinite(values[i]);
        if (!m.positive)
            return m;
        double off = log(values[i]) - m.mean;
        m.mean += off / (double)(i + 1);
        m.variance += off * (log(values[i]) - m.mean);
    }
    m.variance = n > 1 ? m.variance / (double)(n - 1) : 0;
    return m;
}

static double mean_of(const double *values, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += values[i];
    return n ? sum / (double)n : NAN;
}

static void begin(stk_ratio *out, uint64_t n_a, uint64_t n_b)
{
    *out = (stk_ratio){.struct_size = sizeof *out,
                       .ratio = NAN,
                       .low = NAN,
                       .high = NAN,
                       .p = NAN,
                       .freedom = NAN,
                       .n_a = n_a,
                       .n_b = n_b};
}

/* The interval around a ratio, from the variances of the logarithms of both means. */
static void decide(double va, double vb, stk_sureness sureness, stk_ratio *out)
{
    double n_a = (double)out->n_a, n_b = (double)out->n_b, difference = log(out->ratio);

    out->sureness = sureness;
    if (va + vb <= 0) {
        /* All alike: no doubt is left, or none can be put into figures. */
        out->low = out->high = out->ratio;
        out->p = out->ratio == 1 ? 1 : 0;
        out->real = out->ratio != 1;
        return;
    }
    out->freedom = (va + vb) * (va + vb) / (va * va / (n_a - 1) + vb * vb / (n_b - 1));
    double half = stk__student_quantile((1 + LEVEL) / 2, out->freedom) * sqrt(va + vb);
    out->low = exp(difference - half);
    out->high = exp(difference + half);
    out->p = student_p(difference / sqrt(va + vb), out->freedom);
    out->real = out->low > 1 || out->high < 1;
}

void stk__ratio_of(const double *a, uint64_t n_a, const double *b, uint64_t n_b, stk_ratio *out)
{
    begin(out, n_a, n_b);
    if (n_a == 0 || n_b == 0)
        return;
    moments x = moments_of(a, n_a), y = moments_of(b, n_b);
    if (!x.positive || !y.positive) {
        double from = mean_of(a, n_a);
        out->ratio = from > 0 ? mean_of(b, n_b) / from : NAN;
        return;
    }
    out->ratio = exp(y.mean - x.mean);
    if (n_a > 1 && n_b > 1)
        decide(x.variance / (double)n_a, y.variance / (double)n_b, STK_SURE_RUNS, out);
}

/* Variance of the logarithm of the mean of blocks, by the delta method. */
static double block_variance(const stk_report_run *run)
{
    double n = (double)run->num_blocks, mean = mean_of(run->blocks, run->num_blocks), squares = 0;

    for (uint64_t i = 0; i < run->num_blocks; i++)
        squares += (run->blocks[i] - mean) * (run->blocks[i] - mean);
    return mean > 0 ? squares / (n - 1) / n / (mean * mean) : 0;
}

void stk__ratio_within(const stk_report_run *a, const stk_report_run *b, stk_ratio *out)
{
    begin(out, a->num_blocks, b->num_blocks);
    if (!(a->seconds_per_step > 0 && b->seconds_per_step > 0))
        return;
    out->ratio = b->seconds_per_step / a->seconds_per_step;
    if (a->num_blocks > 1 && b->num_blocks > 1)
        decide(block_variance(a), block_variance(b), STK_SURE_WITHIN, out);
}
