/* values -> count, mean, squares, extremes, bins; parts -> the same of all. Inside src/array only.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_STATS_H
#define STK_SRC_ARRAY_STATS_H

#include <stoker/array.h>

#include "base/base.h"

/*
 * Bins of the width 2^power, each of which begins at a multiple of it: the narrowest that hold all
 * values from `low` to `high`. So they follow from the two alone, a wider range has bins that
 * bins of a narrower one lie in whole, and what was counted is merged without a second look at the
 * values.
 */
typedef struct stk__bins {
    int least; /* power at least: 0 of integers */
    int power;
    double low, high; /* of the values counted; low > high: there are none */
    int64_t first;    /* number of bins[0]: it begins at first * 2^power */
    uint64_t counts[STK_ARRAY_BINS];
} stk__bins;

void stk__bins_init(stk__bins *bins, bool integers);
/* Count values, of which none is NaN; infinite ones lie in no bin. */
void stk__bins_add(stk__bins *bins, const double *x, size_t n);
void stk__bins_merge(stk__bins *bins, const stk__bins *other);

typedef struct stk__value_sums {
    uint64_t count, nan, missing;
    double mean, squares; /* squares: of what differs from the mean */
    double min, max;
    bool has_missing;
    double missing_value;
    stk__bins bins;
} stk__value_sums;

void stk__value_sums_init(stk__value_sums *sums, bool integers, bool has_missing,
                          double missing_value);
/* Add values, which are moved: those that count stand in front then. */
void stk__value_sums_add(stk__value_sums *sums, double *x, size_t n);
/* Add what lies behind: the order decides the last digits of mean and squares. */
void stk__value_sums_merge(stk__value_sums *sums, const stk__value_sums *other);

/* NaN among all elements. (stats.c) */
double stk__array_nan_share(const stk_array_stats *stats);

#endif
