/* SPDX-License-Identifier: Apache-2.0 */
/* Settings as a ladder, and whole trainings: tables for a terminal and for the page, a list in
 * JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "table.h"

static const stk_report_run *run_of(const struct report_view *view, uint64_t i)
{
    return stk_report_run_at(view->report, i);
}

/* ---- One measure after the other ------------------------------------------------------------ */

static void put_rung(const struct report_view *view, struct cli_table *table,
                     const stk_report_rung *rung)
{
    const stk_report_run *run = run_of(view, rung->group->shown);
    struct cli_table_row *row = cli_table_begin(table, rung->name);

    if (!row)
        return;
    row->link = rung->group->shown + 1;
    if (!view->all->ladder)
        report_cell_seconds(row, rung->group->per_step);
    else
        cli_table_number(row, view->all->trainings ? rung->group->training : rung->speed);
    cli_ladder_cells(row, rung->factor, rung->share);
    if (view->all->trainings)
        cli_training_cells(row, run->accuracy, run->peak_bytes);
    cli_table_put(row, "%s", stk_limit_name(run->verdict->limit));
}

static struct cli_table ladder_of(const struct report_view *view)
{
    const bool ladder = view->all->ladder, trainings = view->all->trainings;
    struct cli_table table = {0};

    cli_ladder_columns(&table, ladder ? "measure" : "setting",
                       trainings ? "total"
                       : ladder  ? "samples"
                                 : "step",
                       trainings ? "s"
                       : ladder  ? "/s"
                                 : "and wait",
                       trainings);
    for (uint64_t i = 0; i < view->all->num_rungs; i++)
        put_rung(view, &table, view->all->rungs[i]);
    return table;
}

void report_ladder_print(const struct report_view *view, FILE *out, size_t width)
{
    struct cli_table table = ladder_of(view);

    fprintf(out, "\nOne measure after the other, %.2fx in all:\n", view->all->whole);
    cli_table_print(&table, width, out);
    cli_table_free(&table);
}

void report_ladder_page(const struct report_view *view, FILE *out)
{
    struct cli_table table = ladder_of(view);

    if (view->all->ladder)
        fprintf(out,
                "<section id=\"measures\" aria-labelledby=\"measures-title\">\n<h2 "
                "id=\"measures-title\">One measure after the other: %.2fx in all</h2>\n"
                "<p class=\"soft\">%s. Factors multiply, so "
                "shares are of logarithms: they add up to the whole.</p>\n<div id=\"ladder\">"
                "</div>\n",
                view->all->whole,
                view->all->trainings ? "Seconds of the whole training"
                                     : "Samples a second in the steady state");
    else if (view->all->num_rungs)
        fputs("<h3>One after the other</h3>\n<p class=\"soft\">How many times as fast each setting "
              "is as the one before it in the log, by a step with its wait. Shares are of the "
              "logarithm of the factor from the first to the last.</p>\n",
              out);
    if (view->all->num_rungs)
        report_table_page(&table, "rungs", out);
    if (view->all->ladder)
        fputs("</section>\n", out);
    cli_table_free(&table);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void report_ladder_json(const struct report_view *view, FILE *out)
{
    for (uint64_t i = 0; i < view->all->num_rungs; i++) {
        const stk_report_rung *rung = view->all->rungs[i];
        fputs(i ? ",\n{\"name\": " : "\n{\"name\": ", out);
        cli_json_string(out, rung->group->name);
        cli_json_member_text(out, "measure", view->all->ladder ? rung->name : NULL);
        cli_json_member_number(out, "samples_per_s",
                               view->all->ladder && !view->all->trainings ? rung->speed : NAN);
        cli_json_member_number(out, "total_seconds", rung->group->training);
        cli_json_member_number(out, "seconds_per_step", rung->group->per_step);
        cli_json_member_number(out, "speed_up", rung->group->speed_up);
        cli_json_member_number(out, "factor", rung->factor);
        cli_json_member_number(out, "share", rung->share);
        fprintf(out, ", \"limit\": \"%s\"}",
                stk_limit_name(run_of(view, rung->group->shown)->verdict->limit));
    }
}

/* ---- Whole trainings ------------------------------------------------------------------------- */

static void put_group(const struct report_view *view, struct cli_table *table,
                      const stk_report_group *g)
{
    struct cli_table_row *row = cli_table_begin(table, g->name);
    const stk_report_run *run = run_of(view, g->shown);

    if (!row)
        return;
    row->link = g->shown + 1;
    cli_table_put(row, "%" PRIu64, g->count);
    cli_table_number(row, g->training);
    cli_table_range(row, g->training_least, g->training_most);
    cli_table_put(row, "%" PRIu64, run->num_epochs);
    cli_table_number(row, run->num_epochs ? run->epochs_total / (double)run->num_epochs : NAN);
    cli_table_put(row, isfinite(g->speed_up) ? "%.2f" : "-", g->speed_up);
    cli_table_put(row, g->pairs ? "%.2f-%.2f" : "-", g->speed_up_least, g->speed_up_most);
    cli_table_put(row, isfinite(run->training_loss) ? "%.6f" : "-", run->training_loss);
    cli_training_cells(row, run->accuracy, run->peak_bytes);
}

/* What its columns are. */
static void describe(const struct report_view *view, char *text, size_t size)
{
    bool tested = false;

    for (uint64_t i = 0; i < view->all->num_groups; i++)
        tested |= run_of(view, view->all->groups[i]->shown)->tested;
    snprintf(text, size,
             "The run of the median time is shown; speed-ups are over the runs of %s in the same "
             "rounds. Loss: the mean of the last epoch. Accuracy: of the %s data. Peak: most "
             "resident memory.",
             view->files > 1
                 ? "the baseline of each log (the first without workers, else the first)"
                 : view->all->groups[0]->baseline->name,
             tested ? "test" : "validation");
}

static struct cli_table trainings_of(const struct report_view *view)
{
    static const char *const heads[][2] = {
        {"setting", ""}, {"runs", ""},      {"total", "s"},    {"of all", "runs"},
        {"epochs", ""},  {"an epoch", "s"}, {"speed-up", "x"}, {"of all", "pairs"},
        {"loss", ""},    {"accuracy", "%"}, {"peak", "MiB"}};
    struct cli_table table = {0};

    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cli_table_column(&table, heads[i][0], heads[i][1]);
    for (uint64_t i = 0; i < view->all->num_groups; i++)
        put_group(view, &table, view->all->groups[i]);
    return table;
}

void report_trainings_print(const struct report_view *view, FILE *out, size_t width)
{
    struct cli_table table = trainings_of(view);
    char text[768];

    describe(view, text, sizeof text);
    cli_table_print(&table, width, out);
    fputc('\n', out);
    if (!view->cli->quiet) {
        cli_paragraph(out, width, 0, text);
        fputc('\n', out);
    }
    cli_table_free(&table);
}

void report_trainings_page(const struct report_view *view, FILE *out)
{
    struct cli_table table = trainings_of(view);
    char text[768];

    describe(view, text, sizeof text);
    report_put_text(out,
                    "<section id=\"trainings\" aria-labelledby=\"trainings-title\">\n<h2 "
                    "id=\"trainings-title\">Whole trainings</h2>\n<p class=\"soft\">",
                    text, "</p>\n");
    report_table_page(&table, "trainings", out);
    fputs("</section>\n", out);
    cli_table_free(&table);
}
