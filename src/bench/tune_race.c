/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of the best settings, made in turn -> which of them to run again, until it is certain. */
#include <math.h>

#include "bench/tune.h"

/* How far apart logarithms of the rates of one setting are: so much until runs tell, */
#define USUAL      0.015
#define USUAL_RUNS 2    /* which counts as so many runs. */
#define SURE       1.28 /* standard errors beyond which one run of ten is */
#define NEAR       0.03 /* a setting that is better by no more than this is as good */
#define BEHIND     0.10 /* one that is so far behind once needs no other run */
#define LEAST_RUNS 2    /* of one that is near: what disturbs one run does not disturb the other */

/* How far apart the logarithms of two runs of one setting are: of all that were run twice. */
static double noise_of(const stk__tune_seen *seen, size_t n)
{
    double squares = USUAL_RUNS * USUAL * USUAL, degrees = USUAL_RUNS;

    for (size_t i = 0; i < n; i++) {
        if (seen[i].runs < 2)
            continue;
        squares += seen[i].squares;
        degrees += (double)(seen[i].runs - 1);
    }
    return sqrt(squares / degrees);
}

typedef struct race {
    const stk_tune_point *points;
    const stk__tune_seen *seen;
    size_t n, best;
    const stk_tune_options *options;
    double noise;
    bool waits; /* the best waits as little as is asked for: rates are no matter beyond that */
} race;

/* Of the logarithm of a rate, after the runs of `i`. */
static double error_of(const race *r, size_t i)
{
    return SURE * r->noise / sqrt((double)r->seen[i].runs);
}

/* How much better than the best `i` is, as a logarithm. */
static double gain_of(const race *r, size_t i)
{
    const stk_tune_point *p = &r->points[i], *best = &r->points[r->best];

    return r->options->objective == STK_TUNE_COST ? log(best->cost / p->cost)
                                                  : log(p->samples_per_s / best->samples_per_s);
}

/* Whether it may be on the other side of max_wait than it was. A rate that is off by a share makes
 * the share of the time that is no wait off by as much. */
static bool may_cross(const race *r, size_t i)
{
    const double wait = r->points[i].wait_share;

    return fabs(wait - r->options->max_wait) <= (1 - wait) * error_of(r, i);
}

/* Whether setting `i` may be what should be chosen in place of the best. */
static bool may_be_best(const race *r, size_t i)
{
    const double error = hypot(error_of(r, i), error_of(r, r->best));

    if (r->waits)
        return r->points[i].num_workers < r->points[r->best].num_workers && may_cross(r, i);
    return gain_of(r, i) + error > NEAR;
}

/* Whether setting `i`, one of those compared, needs no further run. */
static bool is_settled(const race *r, size_t i, bool best_is_settled)
{
    if (i == r->best)
        return best_is_settled && r->seen[i].runs >= LEAST_RUNS;
    if (gain_of(r, i) < -BEHIND && !(r->waits && may_be_best(r, i)))
        return true;
    return r->seen[i].runs >= LEAST_RUNS && !may_be_best(r, i);
}

size_t stk__tune_race(const stk_tune_point *points, const stk__tune_seen *seen, size_t n,
                      const stk_tune_options *options, const bool *only)
{
    race r = {.points = points,
              .seen = seen,
              .n = n,
              .best = stk__tune_best(points, n, options, only),
              .options = options,
              .noise = noise_of(seen, n)};
    uint64_t fewest = options->rounds + 1; /* as many as there may be */
    size_t next = n;

    if (r.best == n)
        return n;
    r.waits = options->objective == STK_TUNE_WAIT && points[r.best].wait_share <= options->max_wait;
    /* A rival that is not settled asks for runs of the best as well. */
    bool settled = !(r.waits && may_cross(&r, r.best));
    for (size_t i = 0; i < n; i++)
        if (only[i] && i != r.best && points[i].allowed && seen[i].runs)
            settled &= is_settled(&r, i, true);
    for (size_t i = 0; i < n; i++) {
        if (!only[i] || !points[i].allowed || !seen[i].runs || is_settled(&r, i, settled))
            continue;
        if (seen[i].runs < fewest) {
            fewest = seen[i].runs;
            next = i;
        }
    }
    return next;
}
