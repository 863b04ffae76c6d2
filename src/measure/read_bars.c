/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bars of the Gantt chart in bounded memory. When there are too many, those of a lane with the
 * smallest gaps between become one: the picture loses what is too small to see first.
 */
#include "measure/read.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const stk_report_bar *x = a, *y = b;

    if (x->run != y->run)
        return x->run < y->run ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

static bool same_lane(const stk_report_bar *a, const stk_report_bar *b)
{
    return a->run == b->run && a->row == b->row && a->lane == b->lane;
}

static float gap(const stk_report_bar *a, const stk_report_bar *b)
{
    return (float)(b->start - (a->start + (double)a->length));
}

static void join(stk_report_bar *a, const stk_report_bar *b)
{
    double end = STK_MAX(a->start + (double)a->length, b->start + (double)b->length);

    a->length = (float)(end - a->start);
    a->busy = STK_MIN(a->length, a->busy + b->busy);
    a->count += b->count;
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* The gap of which a quarter of `wanted` are no larger; a sample of the gaps is enough. */
#define GAPS 4096

static float gap_at(const stk__bars *b, double share)
{
    float gaps[GAPS];
    size_t n = 0, step = b->n / GAPS + 1;

    for (size_t i = 1; i < b->n && n < GAPS; i += step)
        gaps[n++] =
            same_lane(&b->bars[i - 1], &b->bars[i]) ? gap(&b->bars[i - 1], &b->bars[i]) : INFINITY;
    if (n == 0)
        return INFINITY;
    qsort(gaps, n, sizeof *gaps, compare_floats);
    return gaps[STK_MIN(n - 1, (size_t)(share * (double)n))];
}

/* Setups and epochs are few and what one looks for. */
static bool is_kept(const stk_report_bar *bar)
{
    return bar->row == 0 || bar->row == 3;
}

static void thin(stk__bars *b, float reach, bool all)
{
    size_t n = 0;

    for (size_t i = 0; i < b->n; i++) {
        stk_report_bar *last = n ? &b->bars[n - 1] : NULL;
        if (last && same_lane(last, &b->bars[i]) && gap(last, &b->bars[i]) <= reach &&
            (all || !is_kept(last)))
            join(last, &b->bars[i]);
        else
            b->bars[n++] = b->bars[i];
    }
    b->n = n;
    b->reach = STK_MAX(b->reach, reach);
}

void stk__bars_finish(stk__bars *b, size_t most)
{
    if (!b->sorted && b->n)
        qsort(b->bars, b->n, sizeof *b->bars, compare);
    b->sorted = true;
    for (int round = 0; b->n > most; round++) {
        double share = 1 - 0.75 * (double)most / (double)b->n;
        /* Lanes of their own cannot be joined; there are at most so many. */
        if (round > 20)
            b->n = most;
        else
            thin(b, gap_at(b, round > 2 ? STK_MIN(1.0, share + 0.1 * round) : share), round > 2);
    }
}

stk_status stk__bars_add(stk_context *ctx, stk__bars *b, const stk_report_bar *bar)
{
    if (b->n == b->room && b->room < 2 * STK__BARS_KEPT) {
        stk_report_bar *bars = stk__grow(ctx, b->bars, &b->room, b->n + 1, sizeof *bars);
        if (!bars)
            return STK_ENOMEM;
        b->bars = bars;
    } else if (b->n == b->room) {
        stk__bars_finish(b, STK__BARS_KEPT);
    }
    b->bars[b->n++] = *bar;
    b->sorted = false;
    return STK_OK;
}
