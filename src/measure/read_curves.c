/* SPDX-License-Identifier: Apache-2.0 */
/* "metrics" events -> curves: every value while they are few, then neighbours put together, with
 * the least and the greatest of each. */
#include "measure/read.h"

#include <math.h>

/* ---- Points ---------------------------------------------------------------------------------- */

static stk_report_point joined(const stk_report_point *a, const stk_report_point *b)
{
    const double n = a->values, m = b->values;
    stk_report_point out = *b; /* where it ends */

    out.values = a->values + b->values;
    out.gaps = a->gaps + b->gaps;
    if (a->values == 0 || b->values == 0) {
        const stk_report_point *some = a->values ? a : b;
        out.mean = some->mean;
        out.least = some->least;
        out.most = some->most;
        return out;
    }
    out.mean = a->mean * (n / (n + m)) + b->mean * (m / (n + m));
    out.least = fmin(a->least, b->least);
    out.most = fmax(a->most, b->most);
    return out;
}

static void join_neighbours(stk__curve *curve)
{
    const uint64_t n = curve->out.num_points;

    for (uint64_t i = 0; i < n; i += 2)
        curve->points[i / 2] =
            i + 1 < n ? joined(&curve->points[i], &curve->points[i + 1]) : curve->points[i];
    curve->out.num_points = (n + 1) / 2;
    curve->each *= 2;
}

/* What a caller wants of all values. */
static void add_extremes(stk_report_curve *out, const stk_report_point *point)
{
    out->values += point->values;
    out->gaps += point->gaps;
    out->last = point->mean;
    if (point->values == 0)
        return;
    if (!(out->least <= point->least)) {
        out->least = point->least;
        out->least_step = point->step;
    }
    if (!(out->most >= point->most)) {
        out->most = point->most;
        out->most_step = point->step;
    }
}

static stk_status add_point(stk_context *ctx, stk__curve *curve, const stk_report_point *point)
{
    stk_report_curve *out = &curve->out;

    add_extremes(out, point);
    stk_report_point *last = out->num_points ? &curve->points[out->num_points - 1] : NULL;
    if (last && last->values + last->gaps < curve->each) {
        *last = joined(last, point);
        return STK_OK;
    }
    /* Their number is even, so that all are full then. */
    if (out->num_points == STK__POINTS_MAX)
        join_neighbours(curve);
    stk_report_point *points =
        stk__grow(ctx, curve->points, &curve->room, out->num_points + 1, sizeof *points);
    if (!points)
        return STK_ENOMEM;
    out->points = curve->points = points;
    points[out->num_points++] = *point;
    return STK_OK;
}

/* ---- Curves ---------------------------------------------------------------------------------- */

static stk_status find(stk_report *report, stk__run *run, const char *name, stk__curve **out)
{
    for (uint64_t i = 0; i < run->out.num_curves; i++) {
        *out = run->curves[i];
        if (strcmp((*out)->out.name, name) == 0)
            return STK_OK;
    }
    *out = NULL;
    if (run->out.num_curves == STK__CURVES_MAX || report->curves_left == 0) {
        run->out.curves_left_out++;
        return STK_OK;
    }
    if (!run->curves)
        run->curves = stk__calloc(report->ctx, STK__CURVES_MAX, sizeof *run->curves);
    stk__curve *curve = run->curves ? stk__calloc(report->ctx, 1, sizeof *curve) : NULL;
    if (!curve)
        return STK_ENOMEM;
    memcpy(curve->out.name, name, strlen(name) + 1);
    curve->out.struct_size = sizeof curve->out;
    curve->out.last = curve->out.least = curve->out.most = NAN;
    curve->out.least_step = curve->out.most_step = NAN;
    curve->each = 1;
    run->curves[run->out.num_curves++] = curve;
    report->curves_left--;
    *out = curve;
    return STK_OK;
}

void stk__curves_free(stk_report *report, stk__run *run)
{
    for (uint64_t i = 0; i < run->out.num_curves; i++) {
        stk__free(report->ctx, run->curves[i]->points);
        stk__free(report->ctx, run->curves[i]);
    }
    report->curves_left += run->out.num_curves;
    stk__free(report->ctx, run->curves);
    stk__free(report->ctx, run->curves_out);
}

stk_status stk__run_curve(stk_report *report, stk__run *run, const char *name,
                          const stk__json_member *value, const stk_report_point *at)
{
    stk_report_point point = *at;
    stk__curve *curve;

    point.mean = NAN;
    /* A number that is none, or absurd, is a gap. */
    const bool some = value && stk__json_member_real(value, STK__RANGE_ANY, &point.mean);
    point.least = point.most = point.mean;
    point.values = some;
    point.gaps = !some;
    STK_TRY(find(report, run, name, &curve));
    return curve ? add_point(report->ctx, curve, &point) : STK_OK;
}

static double number_of(const stk__log_line *line, const char *key)
{
    const stk__json_member *m = stk__line_find(line, key);
    double value = NAN;

    if (m)
        (void)stk__json_member_real(m, STK__RANGE_COUNT, &value);
    return value;
}

stk_status stk__run_metrics(stk_report *report, stk__run *run, const stk__log_line *line,
                            double time)
{
    const stk__json_member *metrics = stk__line_find(line, "metrics");
    stk__json_member members[STK__SCAN_MEMBERS];
    stk_report_point at = {
        .step = number_of(line, "step"), .epoch = number_of(line, "epochs"), .time = time};
    char name[STK_REPORT_METRIC];
    const char *stop;
    size_t n;

    if (isnan(at.epoch) && line->epoch >= 0)
        at.epoch = (double)line->epoch;
    if (!metrics || metrics->kind != STK__JSON_OBJECT ||
        stk__json_scan(metrics->text, metrics->text + metrics->length, members, STK_COUNT(members),
                       &n, &stop) != STK__JSON_DONE)
        return STK_OK;
    for (size_t i = 0; i < STK_MIN(n, STK_COUNT(members)); i++) {
        stk__json_member key = {
            .text = members[i].key, .length = members[i].key_length, .kind = STK__JSON_STRING};
        if (members[i].kind != STK__JSON_NUMBER && members[i].kind != STK__JSON_NULL)
            continue;
        stk__json_member_text(&key, name, sizeof name);
        STK_TRY(stk__run_curve(report, run, name, &members[i], &at));
    }
    return STK_OK;
}

stk_status stk__curves_show(stk_report *report, stk__run *run)
{
    stk_report_run *out = &run->out;

    if (out->num_curves && !run->curves_out) {
        run->curves_out = stk__calloc(report->ctx, out->num_curves, sizeof *run->curves_out);
        if (!run->curves_out)
            return STK_ENOMEM;
    }
    for (uint64_t i = 0; i < out->num_curves; i++)
        run->curves_out[i] = run->curves[i]->out;
    out->curves = run->curves_out;
    return STK_OK;
}
