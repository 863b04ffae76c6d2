/* SPDX-License-Identifier: Apache-2.0 */
/* Settings in the order of the log: what each adds to the one before. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "table.h"

#define LITTLE 1.05 /* a whole factor below is not divided into shares */

static const stk_report_run *run_of(const struct report_view *view, const struct report_group *g)
{
    return stk_report_run_at(view->report, g->runs[0]);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Samples a second of the run of the median rate, as `stoker bench` shows them; NaN: unknown. */
static double steady(const struct report_view *view, const struct report_group *g)
{
    double *rates = calloc(g->count, sizeof *rates), median = NAN;
    uint64_t n = 0;

    for (uint64_t i = 0; rates && i < g->count; i++) {
        double rate = stk_report_run_at(view->report, g->runs[i])->steady_samples_per_s;
        if (isfinite(rate))
            rates[n++] = rate;
    }
    if (n) {
        qsort(rates, n, sizeof *rates, by_value);
        median = rates[(n - 1) / 2];
    }
    free(rates);
    return median;
}

static void add(struct report_view *view, const struct report_group *g, const char *name,
                double speed)
{
    struct report_rung *rung = &view->rungs[view->num_rungs];
    const struct report_rung *then = view->num_rungs ? rung - 1 : NULL;

    *rung = (struct report_rung){
        .group = g, .speed = speed, .factor = then ? speed / then->speed : NAN, .share = NAN};
    snprintf(rung->name, sizeof rung->name, "%s", name);
    view->num_rungs++;
}

static void add_rungs(struct report_view *view)
{
    for (uint64_t i = 0; i < view->num_groups; i++) {
        const struct report_group *g = &view->groups[i];
        const stk_report_run *run = run_of(view, g);
        double speed = steady(view, g);
        if (run->rung > 0 && isfinite(speed))
            add(view, g, run->measure, speed);
    }
    view->ladder = view->num_rungs > 1;
}

/* Settings that nobody called a ladder may still be read as one. */
static void add_settings(struct report_view *view)
{
    view->num_rungs = 0;
    for (uint64_t i = 0; i < view->num_groups && view->num_groups > 2; i++)
        add(view, &view->groups[i], view->groups[i].name, 1 / view->groups[i].per_step);
}

bool report_ladder_make(struct report_view *view)
{
    view->rungs = calloc(view->num_groups ? view->num_groups : 1, sizeof *view->rungs);
    if (!view->rungs)
        return false;
    if (view->files != 1)
        return true;
    add_rungs(view);
    if (!view->ladder)
        add_settings(view);
    /* Factors multiply, so that shares are of the logarithm of the whole factor: they add up. */
    for (uint64_t i = 1; i < view->num_rungs; i++) {
        double all = log(view->rungs[view->num_rungs - 1].speed / view->rungs[0].speed);
        if (fabs(all) > log(LITTLE))
            view->rungs[i].share = log(view->rungs[i].factor) / all;
    }
    return true;
}

static double whole(const struct report_view *view)
{
    return view->rungs[view->num_rungs - 1].speed / view->rungs[0].speed;
}

static const char *limit_of(const struct report_view *view, const struct report_rung *rung)
{
    return stk_limit_name(run_of(view, rung->group)->verdict->limit);
}

/* ---- Table ----------------------------------------------------------------------------------- */

void report_ladder_print(const struct report_view *view, FILE *out, size_t width)
{
    static const char *const heads[][2] = {{"measure", ""},
                                           {"samples", "/s"},
                                           {"factor", "x"},
                                           {"share of the", "speed-up"},
                                           {"limit", "then"}};
    struct cli_table table = {0};

    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cli_table_column(&table, heads[i][0], heads[i][1]);
    for (uint64_t i = 0; i < view->num_rungs; i++) {
        const struct report_rung *rung = &view->rungs[i];
        struct cli_table_row *row = cli_table_row(&table);
        if (!row)
            break;
        snprintf(row->cells[0], sizeof row->cells[0], "%.60s", rung->name);
        snprintf(row->cells[1], sizeof row->cells[1], "%.0f", rung->speed);
        snprintf(row->cells[2], sizeof row->cells[2], "%.2f", i ? rung->factor : 1);
        snprintf(row->cells[3], sizeof row->cells[3], isfinite(rung->share) ? "%.0f %%" : "-",
                 round(100 * rung->share) + 0.0); /* no "-0" */
        snprintf(row->cells[4], sizeof row->cells[4], "%s", limit_of(view, rung));
    }
    fprintf(out, "\nOne measure after the other, %.2fx in all:\n", whole(view));
    cli_table_print(&table, width, out);
    cli_table_free(&table);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void report_ladder_json(const struct report_view *view, FILE *out)
{
    for (uint64_t i = 0; i < view->num_rungs; i++) {
        const struct report_rung *rung = &view->rungs[i];
        fputs(i ? ",\n{\"name\": " : "\n{\"name\": ", out);
        cli_json_string(out, rung->group->name);
        fputs(", \"measure\": ", out);
        if (view->ladder)
            cli_json_string(out, rung->name);
        else
            fputs("null", out);
        fputs(", \"samples_per_s\": ", out);
        cli_json_number(out, view->ladder ? rung->speed : NAN);
        fputs(", \"seconds_per_step\": ", out);
        cli_json_number(out, rung->group->per_step);
        fputs(", \"factor\": ", out);
        cli_json_number(out, rung->factor);
        fputs(", \"share\": ", out);
        cli_json_number(out, rung->share);
        fprintf(out, ", \"limit\": \"%s\"}", limit_of(view, rung));
    }
}

/* ---- Page ------------------------------------------------------------------------------------ */

static void put_head(const struct report_view *view, FILE *out)
{
    if (view->ladder)
        fprintf(out,
                "<section>\n<h2>One measure after the other: %.3gx in all</h2>\n"
                "<p class=\"soft\">Samples a second in the steady state. Factors multiply, so "
                "shares are of logarithms: they add up to the whole.</p>\n<div id=\"ladder\">"
                "</div>\n",
                whole(view));
    else
        fputs("<h3>One after the other</h3>\n<p class=\"soft\">What each setting adds to the one "
              "before it in the log, by a step with its wait. Shares are of the logarithm of the "
              "factor from the first to the last.</p>\n",
              out);
    fprintf(out,
            "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">%s</th>"
            "<th scope=\"col\">%s</th><th scope=\"col\">%s</th>"
            "<th scope=\"col\">share</th><th scope=\"col\">limit then</th></tr></thead>\n<tbody>\n",
            view->ladder ? "measure" : "setting", view->ladder ? "samples/s" : "step and wait",
            view->ladder ? "factor" : "as fast as the one before");
}

void report_ladder_page(const struct report_view *view, FILE *out)
{
    if (view->num_rungs == 0)
        return;
    put_head(view, out);
    for (uint64_t i = 0; i < view->num_rungs; i++) {
        const struct report_rung *rung = &view->rungs[i];
        const uint64_t run = rung->group->runs[0];
        fprintf(out,
                "<tr data-rung=\"%" PRIu64 "\"><td><a href=\"#run-%" PRIu64 "\" data-run=\"%" PRIu64
                "\">",
                i, run, run);
        cli_html_string(out, rung->name);
        fputs("</a></td><td>", out);
        if (view->ladder)
            report_put_amount(out, rung->speed);
        else
            report_put_seconds(out, rung->group->per_step);
        fputs("</td><td>", out);
        report_put_amount(out, rung->factor);
        fputs("</td><td>", out);
        report_put_share(out, rung->share);
        fprintf(out, "</td><td>%s</td></tr>\n", limit_of(view, rung));
    }
    fputs("</tbody></table></div>\n", out);
    if (view->ladder)
        fputs("</section>\n", out);
}
