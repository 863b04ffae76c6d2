/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice next to what was measured. A sweep has the answer to many a question that the verdict of
 * one setting can only guess at: where it has, it is quoted.
 */
#include "measure/verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LEAST_POINTS 3 /* that tell where a sweep saturates */

bool stk__sweep_alike(const stk_sweep_point *a, const stk_sweep_point *b)
{
    const double less = STK_MIN(a->samples_per_s, b->samples_per_s),
                 more = STK_MAX(a->samples_per_s, b->samples_per_s);

    return less >= STK_JUDGE_ALIKE * more || (a->least <= b->most && b->least <= a->most);
}

static bool is_more(const stk_sweep_point *a, const stk_sweep_point *than)
{
    return a->samples_per_s > than->samples_per_s && !stk__sweep_alike(a, than);
}

/* NaN for what is no number. */
static double number_of(const char *value)
{
    char *end;
    const double number = strtod(value, &end);

    return end == value || *end ? NAN : number;
}

/* The setting's own value; NaN: unknown. */
static double own_value(const stk_figures *f, const char *knob)
{
    if (strcmp(knob, "num_workers") == 0)
        return (double)f->num_workers;
    if (strcmp(knob, "io_depth") == 0)
        return (double)f->io_depth;
    if (strcmp(knob, "prefetch_factor") == 0)
        return (double)f->prefetch;
    if (strcmp(knob, "memory_budget") == 0)
        return (double)f->budget_bytes;
    return NAN;
}

/* Whether `point` has the advised value, or lies on the way from the setting's own to it and
 * beyond. */
static bool answers(const stk__case *v, const stk_sweep_point *point, const stk_verdict *advice)
{
    const double own = own_value(v->f, point->knob), at = number_of(point->value),
                 to = number_of(advice->value);

    if (strcmp(point->value, advice->value) == 0)
        return true;
    return isfinite(own) && ((to > own && at > own) || (to < own && at < own));
}

const stk_sweep_point *stk__sweep_better(const stk__case *v, const char *knob)
{
    const stk_sweep_point *best = NULL;

    for (size_t i = 0; i < v->num_others; i++) {
        const stk_sweep_point *point = &v->others[i];
        if ((!*knob || strcmp(point->knob, knob) == 0) && is_more(point, v->self) &&
            (!best || point->samples_per_s > best->samples_per_s))
            best = point;
    }
    return best;
}

bool stk__sweep_has(const stk__case *v, const char *knob, const char *value)
{
    for (size_t i = 0; i < v->num_others; i++)
        if (strcmp(v->others[i].knob, knob) == 0 && strcmp(v->others[i].value, value) == 0)
            return true;
    return false;
}

static void say_better(const stk__case *v, const stk_sweep_point *best, stk_verdict *out)
{
    stk__verdict_say(out, " Set %s to %s: measured in this sweep, ", best->knob, best->value);
    if (v->trainings)
        stk__verdict_say(out, "%.2fx as fast (whole trainings).", out->gain);
    else
        stk__verdict_say(out, "%.0f samples/s instead of %.0f (%.2fx).", best->samples_per_s,
                         v->self->samples_per_s, out->gain);
}

static void say_no_better(const stk__case *v, const stk_sweep_point *answer, stk_verdict *out)
{
    stk__verdict_say(out, " %s %s would be the next to try, but was measured in this sweep: ",
                     answer->knob, answer->value);
    if (v->trainings)
        stk__verdict_say(out, "no faster (%.2fx, whole trainings).", answer->samples_per_s);
    else
        stk__verdict_say(out, "%.0f samples/s, no more than the %.0f here.", answer->samples_per_s,
                         v->self->samples_per_s);
}

bool stk__sweep_settle(const stk__case *v, stk_verdict *out)
{
    const stk_sweep_point *best = stk__sweep_better(v, out->knob), *answer = NULL;

    if (best) {
        out->gain = best->samples_per_s / STK_MAX(v->self->samples_per_s, 1e-9);
        snprintf(out->knob, sizeof out->knob, "%s", best->knob);
        snprintf(out->value, sizeof out->value, "%s", best->value);
        say_better(v, best, out);
        return true;
    }
    for (size_t i = 0; i < v->num_others; i++) {
        const stk_sweep_point *point = &v->others[i];
        if (strcmp(point->knob, out->knob) == 0 && answers(v, point, out) &&
            (!answer || point->samples_per_s > answer->samples_per_s))
            answer = point;
    }
    if (!answer)
        return false;
    say_no_better(v, answer, out);
    out->knob[0] = out->value[0] = 0;
    out->gain = 1;
    return true;
}

size_t stk__sweep_saturation(const stk_sweep_point *points, size_t n)
{
    size_t from = 0;

    if (n < LEAST_POINTS)
        return n;
    for (size_t i = 1; i < n; i++)
        if (is_more(&points[i], &points[from]))
            from = i;
    return from + 1 < n ? from : n;
}
