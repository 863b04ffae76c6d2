/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the time of a read is latency, and how much the transfer of bytes. */
#include "store/trend.h"

#include <math.h>

#include "base/base.h"

/* So many reads, and a slope of so many standard errors, before bytes explain anything. */
#define FIT_READS  6.0
#define FIT_ERRORS 3.0
#define FIT_WEIGHT 32.0 /* most of a point */
#define FIT_OCTAVE 4    /* points for each doubling of the bytes */

static void add_to(stk__sums *s, double w, double bytes, double ns)
{
    const double by = bytes - s->bytes, in = ns - s->ns;

    s->n += w;
    s->bytes += by * w / s->n;
    s->ns += in * w / s->n;
    s->bytes2 += w * by * (bytes - s->bytes);
    s->bytes_ns += w * by * (ns - s->ns);
    s->ns2 += w * in * (ns - s->ns);
}

static double slope_of(const stk__sums *s)
{
    if (s->n < FIT_READS || s->bytes2 <= 0 || s->bytes_ns <= 0)
        return 0;
    const double slope = s->bytes_ns / s->bytes2;
    const double rest = STK_MAX(s->ns2 - slope * s->bytes_ns, 0.0) / (s->n - 2);
    if (slope * slope * s->bytes2 < FIT_ERRORS * FIT_ERRORS * rest)
        return 0;
    return STK_MIN(slope, s->ns / STK_MAX(s->bytes, 1.0));
}

static double slope_of_points(const stk__trend *f)
{
    stk__sums sums = {0};

    for (int i = 0; i < STK__TREND_POINTS; i++) {
        const double w = STK_MIN(f->points[i].n, FIT_WEIGHT);
        if (w == 0)
            continue;
        add_to(&sums, w, f->points[i].bytes, f->points[i].ns);
        sums.ns2 += f->points[i].ns2 * w / f->points[i].n;
    }
    return slope_of(&sums);
}

void stk__trend_add(stk__trend *f, double bytes, double ns)
{
    const int octave = (int)(log2(STK_MAX(bytes, 1.0)) * FIT_OCTAVE);
    const size_t point = (size_t)STK_MIN(octave, STK__TREND_POINTS - 1);
    const double in = ns - f->points[point].ns;

    add_to(&f->all, 1, bytes, ns);
    f->points[point].n++;
    f->points[point].bytes += (bytes - f->points[point].bytes) / f->points[point].n;
    f->points[point].ns += in / f->points[point].n;
    f->points[point].ns2 += in * (ns - f->points[point].ns);
    if (++f->reads < f->next_fit)
        return;
    f->slope = STK_MAX(slope_of(&f->all), slope_of_points(f));
    f->next_fit = f->reads + f->reads / 8;
}
