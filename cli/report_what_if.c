/* SPDX-License-Identifier: Apache-2.0 */
/* stoker report --what-if: what the runs of a log would have come to with other settings. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Predicting ------------------------------------------------------------------------------ */

/* Of one run: with its own settings, so that what the model is off is seen, then with each change.
 */
static stk_status predict_run(struct report_view *view, const stk_what_if *changes, uint64_t run,
                              stk_error *err)
{
    const struct cli *cli = view->cli;

    for (size_t i = 0; i <= cli->num_repeated; i++) {
        struct report_prediction *p = &view->predictions[view->num_predictions];
        *p = (struct report_prediction){.run = run,
                                        .what = i ? cli->repeated[i - 1] : NULL,
                                        .is = {.struct_size = sizeof p->is}};
        stk_status status =
            stk_report_predict(view->report, run, i ? &changes[i - 1] : NULL, &p->is, err);
        if (status != STK_OK)
            return status;
        view->num_predictions++;
    }
    return STK_OK;
}

int report_predict(struct report_view *view, stk_context *context)
{
    struct cli *cli = view->cli;
    const size_t n = cli->num_repeated, runs = (size_t)view->all->num_groups;
    stk_what_if *changes = calloc(n + 1, sizeof *changes);
    stk_status status = STK_OK;
    stk_error err;

    view->predictions = calloc(runs * (n + 1) + 1, sizeof *view->predictions);
    if (!changes || !view->predictions) {
        free(changes);
        cli_error("no memory for the predictions");
        return CLI_FAILED;
    }
    for (size_t i = 0; i < n && status == STK_OK; i++) {
        stk_what_if_init(&changes[i]);
        status = stk_what_if_parse(context, cli->repeated[i], &changes[i], &err);
    }
    for (size_t i = 0; i < runs && status == STK_OK; i++)
        status = predict_run(view, changes, view->all->groups[i]->shown, &err);
    free(changes);
    return status == STK_OK ? CLI_GO_ON : cli_fail(cli, status, &err);
}

/* ---- Showing --------------------------------------------------------------------------------- */

static void put_waits(struct cli_table_row *row, const stk_spread *wait)
{
    report_cell_seconds(row, wait->mean);
    report_cell_seconds(row, wait->p50);
    report_cell_seconds(row, wait->p95);
    report_cell_seconds(row, wait->p99);
}

static void put_measured(const struct report_view *view, struct cli_table *table, uint64_t i)
{
    const stk_report_run *run = stk_report_run_at(view->report, i);
    struct cli_table_row *row = cli_table_begin(table, view->all->names[i]);

    cli_table_put(row, "measured");
    cli_table_number(row, run->steady_samples_per_s > 0 ? run->steady_samples_per_s
                                                        : run->samples_per_s);
    cli_table_put(row, "-");
    cli_table_put(row, "-");
    put_waits(row, &run->wait);
    report_cell_seconds(row, run->step_mean);
}

static void put_prediction(struct cli_table *table, const struct report_prediction *p)
{
    struct cli_table_row *row = cli_table_begin(table, p->what ? p->what : "  as recorded");
    const stk_prediction *is = &p->is;
    char bytes[32];

    cli_table_put(row, is->recorded ? "predicted" : "from means");
    cli_table_number(row, is->samples_per_s);
    cli_table_range(row, is->low, is->high);
    if (is->base_samples_per_s > 0)
        cli_table_put(row, "%.2fx", is->samples_per_s / is->base_samples_per_s);
    else
        cli_table_put(row, "-");
    put_waits(row, &is->wait);
    report_cell_seconds(row, is->step_time);
    cli_table_put(row, "%.2f", is->step_stretch);
    cli_table_put(row, "%.2f", is->cpu_cores);
    cli_table_put(row, "%s", stk_size_text(is->peak_bytes, bytes));
}

static struct cli_table table_of(const struct report_view *view)
{
    static const char *const heads[][2] = {
        {"setting", ""},  {"", ""},      {"samples", "/s"}, {"expected", "/s"}, {"factor", ""},
        {"wait", "mean"}, {"", "p50"},   {"", "p95"},       {"", "p99"},        {"step", "mean"},
        {"stretch", ""},  {"cores", ""}, {"memory", ""}};
    struct cli_table table = {0};

    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cli_table_column(&table, heads[i][0], heads[i][1]);
    for (size_t i = 0; i < view->num_predictions; i++) {
        const struct report_prediction *p = &view->predictions[i];
        if (!p->what)
            put_measured(view, &table, p->run);
        put_prediction(&table, p);
    }
    return table;
}

/* What the figures are, and what they lack where the log is a summary. */
static const char *about(const struct report_view *view)
{
    for (size_t i = 0; i < view->num_predictions; i++)
        if (!view->predictions[i].is.recorded)
            return "What if: simulated from the means of a log that is a summary, so waits are "
                   "more "
                   "even than they will be. Record every sample, read and step by 'stoker bench "
                   "--log FILE' for their distributions. \"as recorded\" is what the model gives "
                   "for the run itself.";
    return "What if: simulated from the recorded times of each sample, read and step. \"as "
           "recorded\" is what the model gives for the run itself; the factor is against it.";
}

void report_what_if_print(const struct report_view *view, FILE *out, size_t width)
{
    struct cli_table table = table_of(view);

    fputc('\n', out);
    cli_paragraph(out, width, 0, about(view));
    cli_table_print(&table, width, out);
    cli_table_free(&table);
}

void report_what_if_page(const struct report_view *view, FILE *out)
{
    struct cli_table table = table_of(view);

    report_put_text(out, "<section>\n<h2>What if</h2>\n<p class=\"soft\">", about(view), "</p>\n");
    report_table_page(&table, "what-if", out);
    fputs("</section>\n", out);
    cli_table_free(&table);
}

void report_what_if_json(const struct report_view *view, FILE *out)
{
    for (size_t i = 0; i < view->num_predictions; i++) {
        const struct report_prediction *p = &view->predictions[i];
        const stk_prediction *is = &p->is;
        fputs(i ? ",\n{\"name\": " : "\n{\"name\": ", out);
        cli_json_string(out, view->all->names[p->run]);
        cli_json_member_text(out, "what_if", p->what ? p->what : "");
        fprintf(out, ", \"recorded\": %s", is->recorded ? "true" : "false");
        cli_json_member_number(out, "samples_per_s", is->samples_per_s);
        cli_json_member_number(out, "low", is->low);
        cli_json_member_number(out, "high", is->high);
        cli_json_member_number(out, "base_samples_per_s", is->base_samples_per_s);
        cli_json_member_number(out, "wait_mean", is->wait.mean);
        cli_json_member_number(out, "wait_p50", is->wait.p50);
        cli_json_member_number(out, "wait_p95", is->wait.p95);
        cli_json_member_number(out, "wait_p99", is->wait.p99);
        cli_json_member_number(out, "step_time", is->step_time);
        cli_json_member_number(out, "step_stretch", is->step_stretch);
        cli_json_member_number(out, "cpu_cores", is->cpu_cores);
        cli_json_member_number(out, "peak_bytes", is->peak_bytes);
        fputc('}', out);
    }
}
