/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/measure.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void stk__doubles_sort(double *values, uint64_t n)
{
    qsort(values, n, sizeof *values, compare);
}

/* The value at the share `q` of the sorted values, between neighbours in proportion. */
static double percentile(const double *sorted, uint64_t n, double q)
{
    double place = q * (double)(n - 1);
    uint64_t below = (uint64_t)place;

    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

void stk_spread_of(double *values, uint64_t n, stk_spread *out)
{
    *out = (stk_spread){.n = n};
    if (n == 0)
        return;
    stk__doubles_sort(values, n);
    for (uint64_t i = 0; i < n; i++)
        out->sum += values[i];
    out->mean = out->sum / (double)n;
    out->min = values[0];
    out->max = values[n - 1];
    out->p50 = percentile(values, n, 0.50);
    out->p95 = percentile(values, n, 0.95);
    out->p99 = percentile(values, n, 0.99);
}

#define SLOPE_POINTS  48 /* of more, as many evenly spread ones are taken */
#define SLOPE_LEAST   5
#define SLOPE_BYTES   (64.0 * 1024)
#define SLOPE_UPWARDS 0.75 /* share of the steps that must go up */
#define SLOPE_LATER   0.5  /* the later half's slope over the earlier half's */

static double slope_between(const uint64_t *x, const uint64_t *y, uint64_t from, uint64_t to)
{
    return x[to] > x[from] ? ((double)y[to] - (double)y[from]) / (double)(x[to] - x[from]) : 0;
}

double stk__memory_slope(const uint64_t *epochs, const uint64_t *bytes, uint64_t n)
{
    double slopes[SLOPE_POINTS * (SLOPE_POINTS - 1) / 2];
    uint64_t x[SLOPE_POINTS], y[SLOPE_POINTS];
    uint64_t points = STK_MIN(n, SLOPE_POINTS);
    uint64_t upwards = 0, pairs = 0;

    if (n < SLOPE_LEAST)
        return 0;
    for (uint64_t i = 0; i < points; i++) {
        uint64_t from = i * (n - 1) / (points - 1);
        x[i] = epochs[from];
        y[i] = bytes[from];
    }
    for (uint64_t i = 1; i < points; i++) {
        if (y[i] < y[i - 1])
            return 0;
        upwards += y[i] > y[i - 1];
    }
    if ((double)upwards < SLOPE_UPWARDS * (double)(points - 1))
        return 0;
    uint64_t middle = points / 2;
    if (slope_between(x, y, middle, points - 1) < SLOPE_LATER * slope_between(x, y, 0, middle))
        return 0;
    for (uint64_t i = 0; i < points; i++)
        for (uint64_t j = i + 1; j < points; j++)
            slopes[pairs++] = slope_between(x, y, i, j);
    stk_spread spread;
    stk_spread_of(slopes, pairs, &spread);
    return spread.p50 >= SLOPE_BYTES ? spread.p50 : 0;
}
