/* SPDX-License-Identifier: Apache-2.0 */
/* Points of a grid -> the best of them. */
#include <float.h>
#include <math.h>

#include "bench/tune.h"

/* ---- What is better -------------------------------------------------------------------------- */

static bool is_known(const stk_tune_point *p)
{
    return p->samples_per_s > 0;
}

static bool counts(const stk_tune_point *points, size_t i, const bool *only)
{
    return points[i].allowed && is_known(&points[i]) && (!only || only[i]);
}

/* -1, 0, 1. */
static int order(double a, double b)
{
    return (a > b) - (a < b);
}

/* Which of two takes less. `workers_first`: each is a core, which counts more than memory. */
static bool takes_less(const stk_tune_point *a, const stk_tune_point *b, bool workers_first)
{
    const int workers = order((double)a->num_workers, (double)b->num_workers),
              bytes = order(a->peak_bytes, b->peak_bytes),
              by[] = {workers_first ? workers : bytes, workers_first ? bytes : workers,
                      order((double)a->io_depth, (double)b->io_depth),
                      order((double)a->prefetch_factor, (double)b->prefetch_factor)};

    for (size_t i = 0; i < STK_COUNT(by); i++)
        if (by[i])
            return by[i] < 0;
    return false;
}

static size_t fastest(const stk_tune_point *points, size_t n, const bool *only)
{
    size_t best = n;

    for (size_t i = 0; i < n; i++)
        if (counts(points, i, only) &&
            (best == n || points[i].samples_per_s > points[best].samples_per_s))
            best = i;
    return best;
}

static size_t cheapest(const stk_tune_point *points, size_t n, const bool *only)
{
    size_t best = n;

    for (size_t i = 0; i < n; i++)
        if (counts(points, i, only) && (best == n || points[i].cost < points[best].cost))
            best = i;
    return best;
}

/* Whether a point is as good as the best in what is looked for. */
static bool is_alike(const stk_tune_point *p, const stk_tune_point *best,
                     const stk_tune_options *options, bool waits)
{
    if (waits)
        return p->wait_share <= options->max_wait;
    if (options->objective == STK_TUNE_COST)
        return p->cost <= best->cost * (1 + STK__TUNE_TIE);
    return p->samples_per_s >= best->samples_per_s * (1 - STK__TUNE_TIE);
}

size_t stk__tune_best(const stk_tune_point *points, size_t n, const stk_tune_options *options,
                      const bool *only)
{
    const bool cost = options->objective == STK_TUNE_COST;
    const size_t top = cost ? cheapest(points, n, only) : fastest(points, n, only);
    bool waits = false;
    size_t best = n;

    for (size_t i = 0; i < n && options->objective == STK_TUNE_WAIT; i++)
        waits |= counts(points, i, only) && points[i].wait_share <= options->max_wait;
    for (size_t i = 0; i < n; i++)
        if (counts(points, i, only) && is_alike(&points[i], &points[top], options, waits) &&
            (best == n || takes_less(&points[i], &points[best], waits)))
            best = i;
    return best;
}

/* ---- What runs say of settings that were not run --------------------------------------------- */

#define FAR   0.5  /* a doubling of the depth, against one of the workers */
#define DOUBT 0.25 /* weight of "the model is right" */

static double doublings(int64_t a, int64_t b)
{
    return fabs(log2((double)(a + 1)) - log2((double)(b + 1)));
}

/* How far apart two settings are. */
static double distance(const stk_tune_point *a, const stk_tune_point *b)
{
    return doublings(a->num_workers, b->num_workers) +
           FAR * (doublings(a->io_depth, b->io_depth) +
                  doublings(a->prefetch_factor, b->prefetch_factor));
}

/* The rate is off as neighbours are; what is left of the interval is the part of the model's that
 * no run near speaks of, and how far those near are apart. */
static void put_corrected(stk_tune_point *p, double off, double left, double apart)
{
    const double below = p->least > 0 ? log(p->predicted / p->least) : INFINITY,
                 above = p->most > 0 ? log(p->most / p->predicted) : INFINITY;

    p->samples_per_s = p->predicted * exp(off);
    p->least = p->samples_per_s * exp(-(sqrt(left) * STK_MAX(below, 0.0) + apart));
    p->most = p->samples_per_s * exp(sqrt(left) * STK_MAX(above, 0.0) + apart);
}

void stk__tune_correct(stk_tune_point *points, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        stk_tune_point *p = &points[i];
        double sum = 0, squares = 0, weights = DOUBT;
        if (p->runs || !(p->predicted > 0))
            continue;
        for (size_t k = 0; k < n; k++) {
            const stk_tune_point *m = &points[k];
            if (!m->runs || !(m->predicted > 0) || !(m->samples_per_s > 0))
                continue;
            const double weight = exp(-distance(p, m)), off = log(m->samples_per_s / m->predicted);
            sum += weight * off;
            squares += weight * off * off;
            weights += weight;
        }
        const double near = STK_MAX(weights - DOUBT, DBL_MIN), mean = sum / near;
        put_corrected(p, sum / weights, DOUBT / weights,
                      sqrt(STK_MAX(squares / near - mean * mean, 0.0)));
    }
}

void stk__tune_correct_bytes(stk_tune_point *points, const double *predicted, size_t n)
{
    double runs = 0, workers = 0, off = 0, square = 0, product = 0;

    for (size_t i = 0; i < n; i++) {
        const double w = (double)points[i].num_workers, is = points[i].peak_bytes - predicted[i];
        if (!points[i].runs || isnan(is) || w < 0)
            continue;
        runs++;
        workers += w;
        off += is;
        square += w * w;
        product += w * is;
    }
    if (!(runs > 0))
        return;
    const double spread = square - workers * workers / runs,
                 each = spread > 0 ? (product - workers * off / runs) / spread : 0,
                 by = STK_MAX(each, 0.0), all = (off - by * workers) / runs;
    for (size_t i = 0; i < n; i++)
        if (!points[i].runs && !isnan(predicted[i]) && points[i].num_workers >= 0)
            points[i].peak_bytes =
                STK_MAX(predicted[i] + all + by * (double)points[i].num_workers, 0.0);
}

void stk__tune_derive(stk_tune_point *point, double step_time, double samples)
{
    const double seconds = samples / point->samples_per_s;

    point->wait = STK_MAX(seconds - step_time, 0.0);
    point->wait_share = point->wait / seconds;
}

/* ---- What the grid says -----------------------------------------------------------------------
 */

void stk__tune_front(stk_tune_point *points, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        points[i].front = counts(points, i, NULL);
        for (size_t k = 0; k < n && points[i].front; k++) {
            if (k == i || !counts(points, k, NULL))
                continue;
            const int rate = order(points[k].samples_per_s, points[i].samples_per_s),
                      bytes = order(points[k].peak_bytes, points[i].peak_bytes);
            /* Of equal ones the first stays. */
            points[i].front = rate < 0 || bytes > 0 || (!rate && !bytes && k > i);
        }
    }
}

int64_t stk__tune_saturated(const stk_tune_point *points, size_t n, int k, bool *more)
{
    const size_t top = fastest(points, n, NULL);
    int64_t least = -1, most = -1;

    *more = false;
    for (size_t i = 0; i < n && top < n; i++) {
        const int64_t value = stk__tune_value(&points[i], (size_t)k);
        if (value < 0 || !counts(points, i, NULL))
            continue;
        most = STK_MAX(most, value);
        if (points[i].samples_per_s >= points[top].samples_per_s * (1 - STK__TUNE_TIE) &&
            (least < 0 || value < least))
            least = value;
    }
    /* A step that does not wait gains nothing of more. */
    *more = least >= 0 && least == most && points[top].wait_share > STK__TUNE_TIE;
    return least;
}
