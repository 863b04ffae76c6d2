/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of trainings: where their curves are drawn, and their numbers as tables and JSON. */
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define COLUMNS 8 /* metrics of the table of several runs */

/* ---- One run --------------------------------------------------------------------------------- */

static void put_value(struct cli_table_row *row, double value)
{
    cli_table_put(row, isfinite(value) ? "%.7g" : "-", value);
}

static void put_curve(struct cli_table *table, const stk_report_curve *c)
{
    struct cli_table_row *row = cli_table_begin(table, c->name);

    cli_table_put(row, "%" PRIu64, c->values + c->gaps);
    put_value(row, c->last);
    put_value(row, c->least);
    cli_table_put(row, isfinite(c->least_step) ? "%.0f" : "-", c->least_step);
    put_value(row, c->most);
    cli_table_put(row, isfinite(c->most_step) ? "%.0f" : "-", c->most_step);
    cli_table_put(row, "%" PRIu64, c->gaps);
}

void report_metrics_page(const stk_report_run *run, FILE *out)
{
    static const char *const heads[] = {"metric",  "values", "last",    "least",
                                        "at step", "most",   "at step", "no numbers"};
    struct cli_table table = {0};

    if (run->num_curves == 0)
        return;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cli_table_column(&table, heads[i], "");
    for (uint64_t i = 0; i < run->num_curves; i++)
        put_curve(&table, &run->curves[i]);
    fputs("<details open><summary>Metrics</summary>", out);
    report_table_page(&table, "metrics", out);
    cli_table_free(&table);
    fputs("</details>\n", out);
}

/* ---- Several --------------------------------------------------------------------------------- */

static const stk_report_curve *curve_of(const stk_report_run *run, const char *name)
{
    for (uint64_t i = 0; i < run->num_curves; i++)
        if (strcmp(run->curves[i].name, name) == 0)
            return &run->curves[i];
    return NULL;
}

/* Names of the metrics that the first runs have; how many. */
static size_t metrics_of(const struct report_view *view, const char *names[COLUMNS])
{
    size_t n = 0;

    for (uint64_t i = 0; i < view->runs; i++) {
        const stk_report_run *run = stk_report_run_at(view->report, i);
        for (uint64_t k = 0; k < run->num_curves && stk_report_overlaid(view->report, i); k++) {
            bool known = false;
            for (size_t m = 0; m < n; m++)
                known |= strcmp(names[m], run->curves[k].name) == 0;
            if (!known && n < COLUMNS)
                names[n++] = run->curves[k].name;
        }
    }
    return n;
}

uint64_t report_overlaid(const struct report_view *view)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < view->runs; i++)
        n += stk_report_overlaid(view->report, i);
    return n;
}

/* The last value of each metric of each run; heads are of the log and have no meaning here. */
static void put_last(const struct report_view *view, FILE *out)
{
    const char *names[COLUMNS];
    const size_t n = metrics_of(view, names);
    struct cli_table table = {0};

    cli_table_column(&table, "run", "");
    for (size_t m = 0; m < n; m++)
        cli_table_column(&table, names[m], "");
    for (uint64_t i = 0; i < view->runs; i++) {
        if (!stk_report_overlaid(view->report, i))
            continue;
        struct cli_table_row *row = cli_table_begin(&table, view->all->names[i]);
        if (row)
            row->link = i + 1;
        for (size_t m = 0; m < n; m++) {
            const stk_report_curve *c = curve_of(stk_report_run_at(view->report, i), names[m]);
            put_value(row, c ? c->last : NAN);
        }
    }
    fputs("<h3>Last values</h3>\n", out);
    report_table_page(&table, "last-values", out);
    cli_table_free(&table);
}

void report_curves_page(const struct report_view *view, FILE *out)
{
    if (report_overlaid(view) < 2)
        return;
    fputs(
        "<section id=\"curves\" aria-labelledby=\"curves-title\">\n<h2 id=\"curves-title\">Curves "
        "of the trainings</h2>\n<p class=\"soft\">Each run has one colour in all of these charts; "
        "of repeated runs the one in the middle is shown.</p>\n<div id=\"overlaid\"></div>\n",
        out);
    put_last(view, out);
    fputs("</section>\n", out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void report_metrics_json(const stk_report_run *run, FILE *out)
{
    fputs(", \"metrics\": {", out);
    for (uint64_t i = 0; i < run->num_curves; i++) {
        const stk_report_curve *c = &run->curves[i];
        fputs(i ? ", " : "", out);
        cli_json_string(out, c->name);
        fprintf(out, ": {\"values\": %" PRIu64 ", \"no_numbers\": %" PRIu64, c->values + c->gaps,
                c->gaps);
        cli_json_member_number(out, "last", c->last);
        cli_json_member_number(out, "least", c->least);
        cli_json_member_number(out, "least_step", c->least_step);
        cli_json_member_number(out, "most", c->most);
        cli_json_member_number(out, "most_step", c->most_step);
        fputc('}', out);
    }
    fputc('}', out);
}

/* ---- Contents -------------------------------------------------------------------------------- */

#define RUNS_LISTED 12

static void put_entry(FILE *out, const char *id, const char *text)
{
    fprintf(out, "<li><a href=\"#%s\">%s</a></li>\n", id, text);
}

void report_contents_page(const struct report_view *view, FILE *out)
{
    fputs("<nav class=\"contents\" aria-label=\"Contents\"><ul>\n", out);
    if (view->all->trainings)
        put_entry(out, "trainings", "Whole trainings");
    if (report_overlaid(view) > 1)
        put_entry(out, "curves", "Curves of the trainings");
    if (view->all->ladder)
        put_entry(out, "measures", "One measure after the other");
    if (view->all->num_worlds)
        put_entry(out, "ranks", "Ranks");
    if (view->num_scaled)
        put_entry(out, "scale", "Many ranks");
    if (report_has_surface(view))
        put_entry(out, "surface", "Workers and reads");
    if (view->all->num_groups > 1)
        put_entry(out, "settings", "Settings by their wait");
    for (uint64_t i = 0; i < view->all->num_groups && i < RUNS_LISTED; i++) {
        const uint64_t run = view->all->groups[i]->shown;
        fprintf(out, "<li><a href=\"#run-%" PRIu64 "\" data-run=\"%" PRIu64 "\"><bdi>", run, run);
        cli_html_string(out, view->all->names[run]);
        fputs("</bdi></a></li>\n", out);
    }
    put_entry(out, "words", "What the words mean");
    fputs("</ul></nav>\n", out);
}
