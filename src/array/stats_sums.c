/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over values. Means and squares are merged block by block [Chan, Golub, LeVeque 1983], which
 * loses no digits on long arrays.
 */
#include <math.h>

#include "array/stats.h"

void stk__value_sums_init(stk__value_sums *s, bool integers, bool has_missing, double missing_value)
{
    *s = (stk__value_sums){.min = (double)INFINITY,
                           .max = -(double)INFINITY,
                           .has_missing = has_missing,
                           .missing_value = missing_value};
    stk__bins_init(&s->bins, integers);
}

/* Leave out what does not count; the rest moves together. */
static size_t sift(stk__value_sums *s, double *x, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        double v = x[i];
        bool nan = isnan(v), missing = s->has_missing && v == s->missing_value;
        s->nan += nan;
        s->missing += missing;
        x[kept] = v;
        kept += !nan && !missing;
    }
    return kept;
}

static void merge_moments(stk__value_sums *s, uint64_t count, double mean, double squares)
{
    const double delta = mean - s->mean, all = (double)(s->count + count);

    s->mean += delta * (double)count / all;
    s->squares += squares + delta * delta * (double)s->count * (double)count / all;
    s->count += count;
}

void stk__value_sums_add(stk__value_sums *s, double *x, size_t n)
{
    double sum = 0, squares = 0, low = s->min, high = s->max;

    n = sift(s, x, n);
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    s->min = low;
    s->max = high;
    const double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    merge_moments(s, n, mean, squares);
    stk__bins_add(&s->bins, x, n);
}

void stk__value_sums_merge(stk__value_sums *s, const stk__value_sums *other)
{
    s->nan += other->nan;
    s->missing += other->missing;
    if (other->count == 0)
        return;
    s->min = STK_MIN(s->min, other->min);
    s->max = STK_MAX(s->max, other->max);
    merge_moments(s, other->count, other->mean, other->squares);
    stk__bins_merge(&s->bins, &other->bins);
}
