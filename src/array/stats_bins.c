/* SPDX-License-Identifier: Apache-2.0 */
/* Values -> counts in bins that widen, exactly, as the range of the values grows. */
#include <math.h>

#include "array/stats.h"

#define LEAST_POWER (-1022) /* a narrower bin has no reciprocal */
#define DIGITS      53      /* of a double: numbers of bins are whole in it */

void stk__bins_init(stk__bins *bins, bool integers)
{
    *bins = (stk__bins){
        .least = integers ? 0 : LEAST_POWER, .low = (double)INFINITY, .high = -(double)INFINITY};
}

static bool is_empty(const stk__bins *bins)
{
    return bins->low > bins->high;
}

/* The narrowest bins for a range. */
static int power_for(const stk__bins *bins, double low, double high)
{
    const double half = high / 2 - low / 2; /* which cannot overflow */
    const double most = fmax(fabs(low), fabs(high));
    int power = bins->least, exponent;

    (void)frexp(most, &exponent);
    if (most > 0)
        power = STK_MAX(power, exponent - DIGITS);
    /* Narrower than these, there would be more than twice as many as there are. */
    if (half > 0)
        power = STK_MAX(power, ilogb(half) + 1 - ilogb(2.0 * STK_ARRAY_BINS));
    while (floor(ldexp(high, -power)) - floor(ldexp(low, -power)) >= STK_ARRAY_BINS)
        power++;
    return power;
}

/* What is in one bin goes to the one that it lies in. */
static void widen(stk__bins *bins, double low, double high)
{
    const int power = power_for(bins, low, high), step = STK_MIN(power - bins->power, 62);
    const int64_t first = (int64_t)floor(ldexp(low, -power));
    uint64_t counts[STK_ARRAY_BINS] = {0};

    for (int i = 0; i < STK_ARRAY_BINS && !is_empty(bins); i++)
        if (bins->counts[i])
            counts[((bins->first + i) >> step) - first] += bins->counts[i];
    memcpy(bins->counts, counts, sizeof counts);
    bins->power = power;
    bins->first = first;
    bins->low = low;
    bins->high = high;
}

/* The least and the greatest finite value; false: there are no others. */
static bool find_range(const double *x, size_t n, double *low, double *high)
{
    bool all = true;

    for (size_t i = 0; i < n; i++) {
        const bool finite = fabs(x[i]) < (double)INFINITY;
        *low = finite && x[i] < *low ? x[i] : *low;
        *high = finite && x[i] > *high ? x[i] : *high;
        all &= finite;
    }
    return all;
}

void stk__bins_add(stk__bins *bins, const double *x, size_t n)
{
    double low = bins->low, high = bins->high;
    const bool all = find_range(x, n, &low, &high);

    if (low > high)
        return;
    if (low < bins->low || high > bins->high)
        widen(bins, low, high);
    /* Scaling by a power of two rounds nothing. */
    const double scale = ldexp(1, -bins->power);
    for (size_t i = 0; i < n; i++) {
        if (!all && isinf(x[i]))
            continue;
        const double place = x[i] * scale;
        int64_t number = (int64_t)place;
        number -= (double)number > place; /* downwards */
        bins->counts[number - bins->first]++;
    }
}

void stk__bins_merge(stk__bins *bins, const stk__bins *other)
{
    stk__bins more = *other;

    if (is_empty(other))
        return;
    const double low = fmin(bins->low, more.low), high = fmax(bins->high, more.high);
    widen(bins, low, high);
    widen(&more, low, high);
    for (int i = 0; i < STK_ARRAY_BINS; i++)
        bins->counts[i] += more.counts[i];
}
