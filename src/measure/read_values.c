/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of values that come one by one and are too many to keep. Durations: all of them
 * while the budget lasts; then counts in buckets of a constant ratio, whose middle is within 1.5 %
 * of every value in it [Masson, Rim, Lee 2019].
 */
#include "measure/read.h"

#include <math.h>
#include <stdlib.h>

#define SKETCH_LEAST 1e-7 /* seconds; less is counted as this */
#define SKETCH_RATIO 1.03

static size_t bucket_of(double value)
{
    if (!(value > SKETCH_LEAST))
        return 0;
    double place = log(value / SKETCH_LEAST) / log(SKETCH_RATIO);
    return place < STK__SKETCH_BUCKETS - 2 ? (size_t)place + 1 : STK__SKETCH_BUCKETS - 1;
}

static double bucket_middle(size_t bucket)
{
    return bucket == 0 ? 0 : SKETCH_LEAST * pow(SKETCH_RATIO, (double)bucket - 0.5);
}

static bool grow(stk_context *ctx, stk__values *v, uint64_t *budget)
{
    uint64_t more = v->room ? v->room : 256;

    if (more > *budget)
        return false;
    double *exact = stk__realloc(ctx, v->exact, (v->room + more) * sizeof *exact);
    if (!exact)
        return false;
    *budget -= more;
    v->exact = exact;
    v->room += more;
    return true;
}

stk_status stk__values_add(stk_context *ctx, stk__values *v, double value, uint64_t *budget)
{
    if (!v->over && v->n == v->room && !grow(ctx, v, budget)) {
        v->sketch = stk__calloc(ctx, STK__SKETCH_BUCKETS, sizeof *v->sketch);
        if (!v->sketch)
            return STK_ENOMEM;
        for (uint64_t i = 0; i < v->n; i++)
            v->sketch[bucket_of(v->exact[i])]++;
        stk__free(ctx, v->exact);
        *budget += v->room;
        v->exact = NULL;
        v->room = 0;
        v->over = true;
    }
    if (v->over)
        v->sketch[bucket_of(value)]++;
    else
        v->exact[v->n] = value;
    v->min = v->n ? STK_MIN(v->min, value) : value;
    v->max = v->n ? STK_MAX(v->max, value) : value;
    v->n++;
    v->sum += value;
    double off = value - v->mean;
    v->mean += off / (double)v->n;
    v->m2 += off * (value - v->mean);
    return STK_OK;
}

void stk__values_release(stk_context *ctx, stk__values *v, uint64_t *budget)
{
    stk__free(ctx, v->exact);
    stk__free(ctx, v->sketch);
    *budget += v->room;
    *v = (stk__values){0};
}

double stk__values_deviation(const stk__values *v)
{
    return v->n ? sqrt(v->m2 / (double)v->n) : 0;
}

static double sketch_at(const stk__values *v, double share)
{
    double place = share * (double)(v->n - 1), seen = 0;

    for (size_t i = 0; i < STK__SKETCH_BUCKETS; i++) {
        seen += v->sketch[i];
        if (seen > place)
            return STK_MAX(v->min, STK_MIN(v->max, bucket_middle(i)));
    }
    return v->max;
}

void stk__values_spread(const stk__values *v, stk_spread *out)
{
    *out = (stk_spread){.n = v->n};
    if (v->n == 0)
        return;
    if (!v->over) {
        /* In place: nothing depends on their order. */
        stk_spread_of(v->exact, v->n, out);
        return;
    }
    *out = (stk_spread){.n = v->n, .mean = v->sum / (double)v->n, .min = v->min, .max = v->max};
    out->sum = v->sum;
    out->p50 = sketch_at(v, 0.50);
    out->p95 = sketch_at(v, 0.95);
    out->p99 = sketch_at(v, 0.99);
}

/* ---- Histogram ------------------------------------------------------------------------------- */

static void bin(stk_report_histogram *h, double value, uint64_t count)
{
    double width = h->edge / STK_REPORT_BINS;

    if (value < 0)
        return;
    if (value > h->edge) {
        double place = (value - h->edge) / (h->most - h->edge) * STK_REPORT_TAIL;
        h->beyond += count;
        h->tail[place < STK_REPORT_TAIL ? (size_t)place : STK_REPORT_TAIL - 1] += count;
        return;
    }
    /* Edges are those of numpy.linspace(0, edge, 100); the last bin holds its right one. */
    size_t i = width > 0 ? (size_t)(value / width) : 0;
    i = STK_MIN(i, STK_REPORT_BINS - 1);
    if (i > 0 && value < (double)i * width)
        i--;
    else if (i + 1 < STK_REPORT_BINS && value >= (double)(i + 1) * width)
        i++;
    h->bins[i] += count;
}

void stk__values_histogram(const stk__values *v, stk_report_histogram *out)
{
    *out = (stk_report_histogram){.exact = !v->over, .most = v->n ? v->max : 0};
    if (v->n == 0)
        return;
    out->edge = STK_MAX(0.0, v->sum / (double)v->n + 3 * stk__values_deviation(v));
    for (uint64_t i = 0; i < v->n && !v->over; i++)
        bin(out, v->exact[i], 1);
    for (size_t i = 0; i < STK__SKETCH_BUCKETS && v->over; i++)
        if (v->sketch[i])
            bin(out, STK_MAX(v->min, STK_MIN(v->max, bucket_middle(i))), v->sketch[i]);
}

/* ---- Places and blocks ---------------------------------------------------------------------- */

void stk__places_add(stk__places *p, double at, double value)
{
    if (!(at > 0))
        at = 0;
    while (at / p->width >= STK__PLACES) {
        for (uint32_t i = 0; i < STK__PLACES; i++) {
            double sum = 2 * i + 1 < STK__PLACES ? p->sum[2 * i] + p->sum[2 * i + 1] : 0;
            uint32_t count = 2 * i + 1 < STK__PLACES ? p->count[2 * i] + p->count[2 * i + 1] : 0;
            p->sum[i] = sum;
            p->count[i] = count;
        }
        p->width *= 2;
        p->n = (p->n + 1) / 2;
    }
    uint32_t i = (uint32_t)(at / p->width);
    p->sum[i] += value;
    p->count[i]++;
    p->n = STK_MAX(p->n, i + 1);
}

void stk__blocks_add(stk__blocks *b, double value)
{
    if (b->n == STK_REPORT_BLOCKS) {
        for (uint64_t i = 0; i < STK_REPORT_BLOCKS / 2; i++)
            b->sum[i] = b->sum[2 * i] + b->sum[2 * i + 1];
        b->n /= 2;
        b->size *= 2;
    }
    if (b->size == 0)
        b->size = 1;
    b->open += value;
    if (++b->filled < b->size)
        return;
    b->sum[b->n++] = b->open;
    b->open = 0;
    b->filled = 0;
}
