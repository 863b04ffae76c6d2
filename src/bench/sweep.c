/* SPDX-License-Identifier: Apache-2.0 */
/* What the settings of a sweep say together: of each option, what its values gave while all others
 * stayed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/plan.h"

/* The one option that two settings differ in, as the second has it; NULL where there is none, or
 * several. */
static const stk__bench_knob *differs_in_one(const stk_bench_plan *plan, size_t i, size_t k)
{
    const stk__bench_knob *found = NULL;

    for (size_t n = 0; n < plan->num_knobs; n++) {
        const stk__bench_knob *a = &plan->settings[i].knobs[n], *b = &plan->settings[k].knobs[n];
        if (strcmp(a->value, b->value) == 0)
            continue;
        if (found)
            return NULL;
        found = b;
    }
    return found;
}

static bool is_training(const stk__bench_planned *setting)
{
    return stk__bench_shown(setting)->result.training.seconds > 0;
}

/* The rates of setting `k` next to setting `i`. Of a training they are how many times as fast it
 * is, and one that came to something else says nothing of that. */
static bool rate_beside(const stk_bench_plan *plan, size_t i, size_t k, stk_sweep_point *point)
{
    stk_spread times;

    if (!is_training(&plan->settings[k])) {
        stk__bench_rate(&plan->settings[k], point);
        return true;
    }
    stk__bench_pair(plan, k, i, &times);
    point->samples_per_s = times.p50;
    point->least = times.min;
    point->most = times.max;
    return times.n && stk__bench_same_training(plan, i, k);
}

/* Setting `k` as a point next to setting `i`. Rungs and ceilings have no neighbours. */
static bool point_beside(const stk_bench_plan *plan, size_t i, size_t k, stk_sweep_point *point)
{
    const stk__bench_planned *a = &plan->settings[i], *b = &plan->settings[k];

    if (i == k || !stk__bench_measured(b) || a->setting.free_data || a->setting.rung)
        return false;
    const stk__bench_knob *knob = differs_in_one(plan, i, k);
    if (!knob || strlen(knob->name) >= sizeof point->knob ||
        strlen(knob->value) >= sizeof point->value)
        return false;
    memcpy(point->knob, knob->name, strlen(knob->name) + 1);
    memcpy(point->value, knob->value, strlen(knob->value) + 1);
    /* "auto" is what came of it. */
    if (strcmp(point->knob, "num_workers") == 0)
        snprintf(point->value, sizeof point->value, "%" PRId64,
                 stk__bench_shown(b)->judged.num_workers);
    return rate_beside(plan, i, k, point);
}

void stk_bench_plan_judge(const stk_bench_plan *plan, size_t i, stk_verdict *out)
{
    const stk_figures none = {.struct_size = sizeof none};
    const stk__bench_outcome *run = i < plan->count ? stk__bench_shown(&plan->settings[i]) : NULL;
    stk_sweep_point self = {.knob = ""}, *others = NULL;
    size_t used = 0;

    if (run) {
        stk__bench_rate(&plan->settings[i], &self);
        others = stk__calloc(plan->ctx, plan->count, sizeof *others);
    }
    for (size_t k = 0; k < plan->count && others; k++)
        used += point_beside(plan, i, k, &others[used]);
    if (run && is_training(&plan->settings[i]))
        stk__judge_trainings(&run->judged, others, used, out);
    else
        stk__judge_sweep(run ? &run->judged : &none, &self, others, used, out);
    stk__free(plan->ctx, others);
}

/* ---- From which value on more gives no more -------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = strtod(((const stk_sweep_point *)a)->value, NULL),
                 y = strtod(((const stk_sweep_point *)b)->value, NULL);

    return x < y ? -1 : x > y;
}

/* A number that the best setting has in the place of another's. */
static bool own_value(const stk_bench_plan *plan, size_t best, size_t other, stk_sweep_point *point)
{
    char *end;

    if (!stk__bench_measured(&plan->settings[other]) || !point_beside(plan, other, best, point))
        return false;
    (void)strtod(point->value, &end);
    return end != point->value && !*end;
}

/* Whether the point behind `n` others has a value that none of them has: what "auto" became may
 * have been asked for, too. */
static bool is_new(const stk_sweep_point *points, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(points[i].value, points[n].value) == 0)
            return false;
    return true;
}

/* The points of the option that `own` is one of, in the order of their values. */
static size_t take_points(const stk_bench_plan *plan, size_t best, const stk_sweep_point *own,
                          stk_sweep_point *points)
{
    size_t used = 1;

    points[0] = *own;
    for (size_t k = 0; k < plan->count; k++)
        if (point_beside(plan, best, k, &points[used]) &&
            strcmp(points[used].knob, own->knob) == 0 && is_new(points, used))
            used++;
    qsort(points, used, sizeof *points, by_value);
    return used;
}

/* Whether an earlier setting than `i` has named the option of `own` already. */
static bool was_named(const stk_bench_plan *plan, size_t best, size_t i, const stk_sweep_point *own)
{
    stk_sweep_point other;

    for (size_t k = 0; k < i; k++)
        if (own_value(plan, best, k, &other) && strcmp(other.knob, own->knob) == 0)
            return true;
    return false;
}

size_t stk_bench_plan_saturation(const stk_bench_plan *plan, size_t k, stk_sweep_point *points,
                                 size_t room, size_t *from)
{
    stk_bench_summary summary = {.struct_size = sizeof summary};
    stk_sweep_point own, *all;
    size_t used = 0, passed = 0;

    *from = 0;
    stk_bench_plan_summary(plan, &summary);
    if (summary.best == STK_BENCH_NONE || summary.trainings)
        return 0;
    all = stk__calloc(plan->ctx, plan->count + 1, sizeof *all);
    for (size_t i = 0; i < plan->count && all && !used; i++) {
        if (!own_value(plan, summary.best, i, &own) || was_named(plan, summary.best, i, &own) ||
            passed++ < k)
            continue;
        used = take_points(plan, summary.best, &own, all);
        *from = stk__sweep_saturation(all, used);
        memcpy(points, all, STK_MIN(used, room) * sizeof *points);
    }
    stk__free(plan->ctx, all);
    return used;
}
