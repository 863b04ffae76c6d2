/* SPDX-License-Identifier: Apache-2.0 */
/* Settings in the order of the log, and what each adds to the one before: table, JSON, page. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "table.h"

static double whole(const struct report_view *view)
{
    return view->all->rungs[view->all->num_rungs - 1]->speed / view->all->rungs[0]->speed;
}

static const char *limit_of(const struct report_view *view, const stk_report_rung *rung)
{
    return stk_limit_name(stk_report_run_at(view->report, rung->group->runs[0])->verdict->limit);
}

/* ---- Table ----------------------------------------------------------------------------------- */

void report_ladder_print(const struct report_view *view, FILE *out, size_t width)
{
    const bool trainings = view->all->trainings;
    const char *const heads[][2] = {{"measure", ""},
                                    {trainings ? "total" : "samples", trainings ? "s" : "/s"},
                                    {"factor", "x"},
                                    {"share of the", "speed-up"},
                                    {"limit", "then"}};
    struct cli_table table = {0};

    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cli_table_column(&table, heads[i][0], heads[i][1]);
    for (uint64_t i = 0; i < view->all->num_rungs; i++) {
        const stk_report_rung *rung = view->all->rungs[i];
        struct cli_table_row *row = cli_table_row(&table);
        if (!row)
            break;
        snprintf(row->cells[0], sizeof row->cells[0], "%.60s", rung->name);
        if (trainings)
            snprintf(row->cells[1], sizeof row->cells[1], "%.2f", rung->group->training);
        else
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
    for (uint64_t i = 0; i < view->all->num_rungs; i++) {
        const stk_report_rung *rung = view->all->rungs[i];
        fputs(i ? ",\n{\"name\": " : "\n{\"name\": ", out);
        cli_json_string(out, rung->group->name);
        fputs(", \"measure\": ", out);
        if (view->all->ladder)
            cli_json_string(out, rung->name);
        else
            fputs("null", out);
        fputs(", \"samples_per_s\": ", out);
        cli_json_number(out, view->all->ladder && !view->all->trainings ? rung->speed : NAN);
        fputs(", \"total_seconds\": ", out);
        cli_json_number(out, rung->group->training);
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
    if (view->all->ladder)
        fprintf(out,
                "<section>\n<h2>One measure after the other: %.3gx in all</h2>\n"
                "<p class=\"soft\">%s. Factors multiply, so "
                "shares are of logarithms: they add up to the whole.</p>\n<div id=\"ladder\">"
                "</div>\n",
                whole(view),
                view->all->trainings ? "Seconds of the whole training"
                                     : "Samples a second in the steady state");
    else
        fputs("<h3>One after the other</h3>\n<p class=\"soft\">What each setting adds to the one "
              "before it in the log, by a step with its wait. Shares are of the logarithm of the "
              "factor from the first to the last.</p>\n",
              out);
    fprintf(out,
            "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">%s</th>"
            "<th scope=\"col\">%s</th><th scope=\"col\">%s</th>"
            "<th scope=\"col\">share</th><th scope=\"col\">limit then</th></tr></thead>\n<tbody>\n",
            view->all->ladder ? "measure" : "setting",
            !view->all->ladder     ? "step and wait"
            : view->all->trainings ? "total"
                                   : "samples/s",
            view->all->ladder ? "factor" : "as fast as the one before");
}

void report_ladder_page(const struct report_view *view, FILE *out)
{
    if (view->all->num_rungs == 0)
        return;
    put_head(view, out);
    for (uint64_t i = 0; i < view->all->num_rungs; i++) {
        const stk_report_rung *rung = view->all->rungs[i];
        const uint64_t run = rung->group->runs[0];
        fprintf(out,
                "<tr data-rung=\"%" PRIu64 "\"><td><a href=\"#run-%" PRIu64 "\" data-run=\"%" PRIu64
                "\">",
                i, run, run);
        cli_html_string(out, rung->name);
        fputs("</a></td><td>", out);
        if (view->all->ladder && view->all->trainings)
            report_put_seconds(out, rung->group->training);
        else if (view->all->ladder)
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
    if (view->all->ladder)
        fputs("</section>\n", out);
}

/* ---- Whole trainings ------------------------------------------------------------------------- */

void report_trainings_page(const struct report_view *view, FILE *out)
{
    if (!view->all->trainings)
        return;
    fputs(
        "<section>\n<h2>Whole trainings</h2>\n<p class=\"soft\">Total and speed-up over the first: "
        "of the run of the median time. Loss: the mean of the last epoch; accuracy: of test data, "
        "else of validation data. Memory: most that the process had resident.</p>\n<div "
        "class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">setting</th>"
        "<th scope=\"col\">runs</th><th scope=\"col\">total</th><th scope=\"col\">epochs</th>"
        "<th scope=\"col\">speed-up</th><th scope=\"col\">loss</th><th scope=\"col\">accuracy"
        "</th><th scope=\"col\">memory, MiB</th></tr></thead>\n<tbody>\n",
        out);
    for (uint64_t i = 0; i < view->all->num_groups; i++) {
        const stk_report_group *g = view->all->groups[i];
        const stk_report_run *run = stk_report_run_at(view->report, g->runs[0]);
        fputs("<tr><td>", out);
        cli_html_string(out, g->name);
        fprintf(out, "</td><td>%" PRIu64 "</td><td>", g->count);
        report_put_seconds(out, g->training);
        fprintf(out, "</td><td>%" PRIu64 "</td><td>", run->num_epochs);
        report_put_amount(out, g->speed_up);
        fputs("</td><td>", out);
        report_put_amount(out, run->training_loss);
        fputs("</td><td>", out);
        report_put_share(out, run->accuracy);
        fputs("</td><td>", out);
        report_put_amount(out, run->peak_bytes / (1024.0 * 1024.0));
        fputs("</td></tr>\n", out);
    }
    fputs("</tbody></table></div>\n</section>\n", out);
}
