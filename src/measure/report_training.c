/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of trainings -> the numbers that their charts are drawn from. */
#include <inttypes.h>
#include <math.h>

#include "measure/read.h"

#define OVERLAID_MOST 9 /* so many colours are told apart */

typedef double number_of(const stk_report_point *point);

static double step_of(const stk_report_point *p)
{
    return p->step;
}

static double epoch_of(const stk_report_point *p)
{
    return p->epoch;
}

static double time_of(const stk_report_point *p)
{
    return p->time;
}

static double mean_of(const stk_report_point *p)
{
    return p->mean;
}

static double least_of(const stk_report_point *p)
{
    return p->least;
}

static double most_of(const stk_report_point *p)
{
    return p->most;
}

static double gaps_of(const stk_report_point *p)
{
    return p->gaps;
}

static void put_list(stk__text *out, const char *key, const stk_report_curve *curve,
                     number_of *number)
{
    stk__text_add(out, "\"%s\":[", key);
    for (uint64_t i = 0; i < curve->num_points; i++) {
        stk__text_add(out, "%s", i ? "," : "");
        stk__charts_number(out, number(&curve->points[i]));
    }
    stk__text_add(out, "]");
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Metrics of one line lie at the same places. */
static bool same_places(const stk_report_curve *a, const stk_report_curve *b)
{
    bool all = a->num_points == b->num_points;

    for (uint64_t i = 0; i < a->num_points && all; i++)
        all = same(a->points[i].step, b->points[i].step) &&
              same(a->points[i].epoch, b->points[i].epoch) &&
              same(a->points[i].time, b->points[i].time);
    return all;
}

/* Where its values lie: those of an earlier curve by its number, where they are the same. */
static void put_places(stk__text *out, const stk_report_run *run, uint64_t k)
{
    const stk_report_curve *curve = &run->curves[k];

    for (uint64_t i = 0; i < k; i++)
        if (same_places(&run->curves[i], curve)) {
            stk__text_add(out, "\"at\":%" PRIu64, i);
            return;
        }
    stk__text_add(out, "\"at\":{");
    put_list(out, "step", curve, step_of);
    stk__text_add(out, ",");
    put_list(out, "epoch", curve, epoch_of);
    stk__text_add(out, ",");
    put_list(out, "time", curve, time_of);
    stk__text_add(out, "}");
}

static void put_curve(stk__text *out, const stk_report_run *run, uint64_t k)
{
    const stk_report_curve *curve = &run->curves[k];

    stk__text_add(out, "%s{\"name\":", k ? "," : "");
    stk__charts_string(out, curve->name);
    stk__text_add(out, ",\"values\":%" PRIu64 ",", curve->values);
    put_places(out, run, k);
    stk__text_add(out, ",");
    put_list(out, "mean", curve, mean_of);
    if (curve->values + curve->gaps > curve->num_points) {
        stk__text_add(out, ",");
        put_list(out, "least", curve, least_of);
        stk__text_add(out, ",");
        put_list(out, "most", curve, most_of);
    }
    if (curve->gaps) {
        stk__text_add(out, ",");
        put_list(out, "gaps", curve, gaps_of);
    }
    stk__text_add(out, "}");
}

void stk__charts_curves(stk__text *out, const stk_report_run *run)
{
    stk__text_add(out, "\"curves\":[");
    for (uint64_t k = 0; k < run->num_curves; k++)
        put_curve(out, run, k);
    stk__text_add(out, "]");
}

/* ---- Several runs ---------------------------------------------------------------------------- */

static bool is_shown(const stk_report_comparison *all, uint64_t i)
{
    for (uint64_t k = 0; k < all->num_groups; k++)
        if (all->groups[k]->shown == i)
            return true;
    return false;
}

static bool would_be_overlaid(const stk_report *report, uint64_t i)
{
    const stk_report_comparison *all = stk__comparison_shown(report->comparison);
    const stk_report_run *run = &report->runs[i]->out;

    return all && run->num_curves && run->rank <= 0 && (run->repeat < 0 || is_shown(all, i));
}

bool stk_report_overlaid(const stk_report *report, uint64_t i)
{
    uint64_t before = 0;

    if (i >= report->num_runs || !would_be_overlaid(report, i))
        return false;
    for (uint64_t k = 0; k < i && before < OVERLAID_MOST; k++)
        before += would_be_overlaid(report, k);
    return before < OVERLAID_MOST;
}

void stk__charts_overlaid(stk__text *out, const stk_report *report)
{
    const char *between = "";

    stk__text_add(out, ",\"overlaid\":[");
    for (uint64_t i = 0; i < report->num_runs; i++)
        if (stk_report_overlaid(report, i)) {
            stk__text_add(out, "%s%" PRIu64, between, i);
            between = ",";
        }
    stk__text_add(out, "]");
}
