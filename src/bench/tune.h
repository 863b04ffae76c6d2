/* A plan whose best setting is looked for: what the files tune*.c share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BENCH_TUNE_H
#define STK_SRC_BENCH_TUNE_H

#include <stoker/tune.h>

#include "bench/plan.h"

#define STK__TUNE_TIE  0.02 /* rates that differ by less are alike */
#define STK__TUNE_LAST 3    /* settings that are compared at the end, at most */

/* ---- Choosing (tune_choose.c), pure -----------------------------------------------------------
 */

/* The best of points that are `allowed` and have a rate: `only` NULL, or only[i] true. The rule:
 *   wait   of those within max_wait the fewest workers, then the least memory; where there is none,
 *   speed  of those within STK__TUNE_TIE of the greatest rate the least memory
 *   cost   of those within STK__TUNE_TIE of the least cost the least memory
 * then the fewest workers, the least depth, the least ahead. `n`: there is none. */
size_t stk__tune_best(const stk_tune_point *points, size_t n, const stk_tune_options *options,
                      const bool *only);
/* Rates that were predicted, and not measured, become what they are where neighbours that were
 * measured are off as they are, and their intervals as wide as runs near leave them; `predicted`
 * stays. Once for each time that least and most are those of the prediction. */
void stk__tune_correct(stk_tune_point *points, size_t n);
/* Memory that was predicted, and not measured, becomes what it is where the settings that were run
 * are off as they are, by so much for each worker. `predicted`: bytes of all points; NaN: none. */
void stk__tune_correct_bytes(stk_tune_point *points, const double *predicted, size_t n);
/* What follows from the rate, for a step of `step_time` and `samples` of all ranks. */
void stk__tune_derive(stk_tune_point *point, double step_time, double samples);
/* Mark those that no other is better than. */
void stk__tune_front(stk_tune_point *points, size_t n);
/* Of option `k` (0: num_workers, 1: io_depth) the least value from which on the rate grows no more,
 * others at their best; -1: unknown. *more: it is the greatest there is. */
int64_t stk__tune_saturated(const stk_tune_point *points, size_t n, int k, bool *more);

/* ---- Whether it is certain (tune_race.c), pure ------------------------------------------------
 */

/* Runs of a point that ended well; squares: of what the logarithms of their rates are off the
 * mean of these. */
typedef struct stk__tune_seen {
    uint64_t runs;
    double squares;
} stk__tune_seen;

/* Of the settings that are compared (`only`) the one to run again, those with the fewest runs
 * first, so that they go in turn; `n`: it is certain which is best, as far as that matters, or
 * those that could still be had all their rounds. */
size_t stk__tune_race(const stk_tune_point *points, const stk__tune_seen *seen, size_t n,
                      const stk_tune_options *options, const bool *only);

/* ---- The tuner --------------------------------------------------------------------------------
 */

struct stk_tune {
    stk_context *ctx;
    stk_bench_plan *plan;
    stk_tune_options options;
    stk_tune_point *points; /* of the settings, in their order */
    stk__tune_seen *seen;   /* of the points */
    double *bytes;          /* of the points, as predicted; NaN: they are not */
    size_t count, given, defaults, baseline;
    bool *run;  /* of the points: those that were run, be it in vain */
    bool *last; /* likewise: those that are compared in the end */
    bool *left; /* likewise: those that are still to be chosen from */
    stk_tune_phase phase;
    bool predicted, ended, timed_out;
    size_t at;     /* the point that runs; STK_BENCH_NONE: none yet */
    size_t before; /* runs that it had */
    uint64_t runs, verified;
    uint64_t begun_ns; /* when the first run was asked for; 0: it was not */
    double ran;        /* s of all runs, as they say */
    double spent;      /* s since begun_ns, or `ran` where that is more; */
    double first;      /* of these for the first run, with the predictions that come of it */
    double most;       /* s that there are; INFINITY: no bound */
};

/* What runs and predictions say of all points (tune_points.c). */
void stk__tune_refresh(stk_tune *tune);
/* Whether the setting as given read anything: else the depth is no matter. */
bool stk__tune_reads(const stk_tune *tune);
/* The best of what was run; `count`: there is none. */
size_t stk__tune_chosen(const stk_tune *tune);

/* ---- What is looked for (tune_grid.c) -------------------------------------------------------- */

/* 0 num_workers, 1 io_depth, 2 prefetch_factor. */
#define STK__TUNE_OWN 3
extern const char *const stk__tune_keys[STK__TUNE_OWN]; /* "loader.num_workers", ... */

/* Sources of values that are in no file: those of short runs, which are of no use to one, and
 * memory_budget where max_memory bounds it. */
extern const char stk__tune_short[], stk__tune_limit[];

static inline const char *stk__tune_name(size_t k)
{
    return stk__tune_keys[k] + sizeof "loader." - 1;
}

static inline int64_t stk__tune_value(const stk_tune_point *p, size_t k)
{
    return k == 0 ? p->num_workers : k == 1 ? p->io_depth : p->prefetch_factor;
}

#endif
