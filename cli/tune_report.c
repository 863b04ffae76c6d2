/* SPDX-License-Identifier: Apache-2.0 */
/* What a tuner found, for people and for programs. */
#include "tune.h"

#include <inttypes.h>
#include <math.h>

#define MIB (1024.0 * 1024.0)

static stk_tune_point point_of(const struct tune_view *view, size_t i)
{
    stk_tune_point p = {.struct_size = sizeof p};

    stk_tune_point_get(view->tune, i, &p);
    return p;
}

/* What a point is besides one of the grid. */
static const char *role_of(const struct tune_view *view, size_t i)
{
    const stk_tune_answer *a = &view->answer;

    return i == a->best       ? i == a->given ? "as given, best" : "tuned"
           : i == a->given    ? "as given"
           : i == a->defaults ? "defaults"
           : i == a->baseline ? "no workers"
                              : "";
}

/* ---- The table --------------------------------------------------------------------------------
 */

static void put_count(struct cli_table_row *row, int64_t value, bool is_auto)
{
    if (value < 0)
        cli_table_put(row, is_auto ? "auto" : "-");
    else
        cli_table_put(row, is_auto ? "auto: %" PRId64 : "%" PRId64, value);
}

static void put_point(const struct tune_view *view, struct cli_table *table, size_t i)
{
    const stk_tune_point p = point_of(view, i);
    struct cli_table_row *row = cli_table_begin(table, role_of(view, i));

    put_count(row, p.num_workers, p.auto_workers);
    put_count(row, p.io_depth, p.auto_depth);
    cli_table_put(row, "%" PRId64, p.prefetch_factor);
    cli_table_number(row, p.samples_per_s);
    cli_table_range(row, p.least, p.most);
    cli_table_number(row, p.predicted);
    cli_table_put(row, "%.1f", 100 * p.wait_share);
    cli_table_put(row, "%.2f", p.cpu_cores);
    cli_table_number(row, p.peak_bytes / MIB);
    if (view->options->objective == STK_TUNE_COST)
        cli_table_number(row, p.cost);
    cli_table_put(row, "%" PRIu64, p.runs);
}

void tune_table(const struct tune_view *view, struct cli_table *table)
{
    const size_t n = stk_tune_count(view->tune);

    cli_table_column(table, "setting", "");
    cli_table_column(table, "workers", "");
    cli_table_column(table, "io_depth", "");
    cli_table_column(table, "prefetch", "");
    cli_table_column(table, "samples", "/s");
    cli_table_column(table, "of all", "runs");
    cli_table_column(table, "predicted", "/s");
    cli_table_column(table, "wait", "% of time");
    cli_table_column(table, "CPU", "cores");
    cli_table_column(table, "peak", "MiB");
    if (view->options->objective == STK_TUNE_COST)
        cli_table_column(table, "cost", "/million");
    cli_table_column(table, "runs", "");
    for (size_t i = 0; i < n; i++)
        if (point_of(view, i).runs)
            put_point(view, table, i);
}

/* Runs that failed, or are not to be trusted. */
static void print_remarks(const struct tune_view *view, FILE *out, size_t width)
{
    const stk_bench_plan *plan = view->plan->settings;
    stk_bench_summary all = {.struct_size = sizeof all};
    char text[STK_ERROR_TEXT + STK_BENCH_LABEL + 64];
    uint32_t cores = 0;

    for (size_t i = 0; i < stk_bench_plan_count(plan); i++) {
        const char *label = bench_setting(view->plan, i).label;
        stk_bench_row row = {.struct_size = sizeof row};
        stk_bench_plan_row(plan, i, &row);
        if (!row.result)
            continue;
        const stk_status status = row.result->status;
        cores = row.result->cores_online;
        *text = 0;
        if (!row.ended && status < 0 && status != STK_ECANCELED)
            snprintf(text, sizeof text, "Failed: %s: %s", label, row.result->error.text);
        else if (row.ended && row.result->check_failed)
            snprintf(text, sizeof text, "Self-check failed for %s: do not trust its figures.",
                     label);
        if (*text)
            cli_paragraph(out, width, 0, text);
    }
    stk_bench_plan_summary(plan, &all);
    bench_disturbance_print(out, width, &all, cores);
}

/* What was measured, and how long at first. */
static void print_title(const struct tune_view *view, FILE *out)
{
    const stk_bench_setting given = bench_setting(view->plan, 0);

    bench_work_print(view->cli, out, &given);
    if (given.bench->num_epochs)
        fprintf(out, "%" PRIu64 " epoch%s\n\n", given.bench->num_epochs,
                given.bench->num_epochs == 1 ? "" : "s");
    else
        fprintf(out, "at first for %g s and %" PRIu64 " steps\n\n", given.bench->min_seconds,
                given.bench->min_batches);
}

void tune_print(const struct tune_view *view, FILE *out)
{
    const size_t width = cli_terminal_width(out);
    const stk_tune_answer *a = &view->answer;
    char text[512], reach[64] = "";
    struct cli_table table = {0};

    if (!view->cli->quiet)
        print_title(view, out);
    tune_table(view, &table);
    cli_table_print(&table, width, out);
    cli_table_free(&table);
    fputc('\n', out);
    if (!view->cli->quiet) {
        if (!isnan(a->model_error))
            snprintf(reach, sizeof reach, ", off by %.0f %% in the mean where they were run",
                     100 * a->model_error);
        snprintf(text, sizeof text,
                 "%zu settings in the grid: %" PRIu64 " predicted%s, %" PRIu64 " run, in %" PRIu64
                 " run%s; %.0f s with the predictions.",
                 stk_tune_count(view->tune), a->predicted, reach, a->measured, a->runs,
                 a->runs == 1 ? "" : "s", a->took);
        cli_paragraph(out, width, 0, text);
    }
    print_remarks(view, out, width);
    cli_style(out, CLI_BOLD);
    cli_paragraph(out, width, 0, a->text);
    cli_style(out, CLI_PLAIN);
    if (view->log)
        fprintf(out, "\nLog: %s\n", view->log);
}

/* ---- JSON and CSV -----------------------------------------------------------------------------
 */

/* Below 0: not known. */
static double count_of(int64_t value)
{
    return value < 0 ? (double)NAN : (double)value;
}

static void json_point(const struct tune_view *view, size_t i, FILE *out)
{
    const stk_tune_point p = point_of(view, i);
    const char *name;
    double value;

    fputs("{\"label\": ", out);
    cli_json_string(out, bench_setting(view->plan, p.setting).label);
    cli_json_member_text(out, "role", *role_of(view, i) ? role_of(view, i) : NULL);
    cli_json_member_number(out, "num_workers", count_of(p.num_workers));
    cli_json_member_number(out, "io_depth", count_of(p.io_depth));
    cli_json_member_number(out, "prefetch_factor", count_of(p.prefetch_factor));
    fprintf(out, ", \"runs\": %" PRIu64 ", \"allowed\": %s, \"front\": %s", p.runs,
            p.allowed ? "true" : "false", p.front ? "true" : "false");
    for (size_t k = 0; stk_tune_point_number(&p, k, &name, &value); k++)
        cli_json_member_number(out, name, value);
    fputc('}', out);
}

void tune_json(const struct tune_view *view, FILE *out)
{
    const size_t n = stk_tune_count(view->tune);
    const stk_tune_answer *a = &view->answer;
    const stk_bench_options *bench = bench_setting(view->plan, 0).bench;

    fputs("{\"points\": [\n", out);
    for (size_t i = 0; i < n; i++) {
        json_point(view, i, out);
        fputs(i + 1 < n ? ",\n" : "\n", out);
    }
    fputs("], \"best\": ", out);
    if (a->best == STK_BENCH_NONE)
        fputs("null", out);
    else
        json_point(view, a->best, out);
    fprintf(out, ", \"ended\": %s, \"gain\": %s, \"reached\": %s", a->ended ? "true" : "false",
            a->gain ? "true" : "false", a->reached ? "true" : "false");
    /* A real step takes what it takes. */
    cli_json_member_text(out, "step", bench->step);
    cli_json_member_number(out, "train_step_time", bench->step ? NAN : bench->train_step_time);
    cli_json_member_number(out, "speed_up", a->speed_up);
    cli_json_member_number(out, "saturated_workers",
                           count_of(a->more_workers ? -1 : a->saturated_workers));
    cli_json_member_number(out, "saturated_depth",
                           count_of(a->more_depth ? -1 : a->saturated_depth));
    fprintf(out, ", \"predicted\": %" PRIu64 ", \"measured\": %" PRIu64 ", \"runs\": %" PRIu64,
            a->predicted, a->measured, a->runs);
    fprintf(out, ", \"timed_out\": %s", a->timed_out ? "true" : "false");
    cli_json_member_number(out, "took", a->took);
    cli_json_member_number(out, "model_error", a->model_error);
    cli_json_member_text(out, "verdict", a->text);
    cli_json_member_text(out, "log", view->log);
    fputs("}\n", out);
}

static void csv_number(FILE *out, double value)
{
    char number[32];

    stk_number_format(value, number);
    fprintf(out, ",%s", number);
}

void tune_csv(const struct tune_view *view, FILE *out)
{
    const stk_tune_point none = {.struct_size = sizeof none};
    const size_t n = stk_tune_count(view->tune);
    const char *name;
    double value;

    fputs("label,role,num_workers,io_depth,prefetch_factor,runs,allowed,front", out);
    for (size_t k = 0; stk_tune_point_number(&none, k, &name, &value); k++)
        fprintf(out, ",%s", name);
    fputc('\n', out);
    for (size_t i = 0; i < n; i++) {
        const stk_tune_point p = point_of(view, i);
        cli_csv_string(out, bench_setting(view->plan, p.setting).label);
        fputc(',', out);
        cli_csv_string(out, role_of(view, i));
        csv_number(out, count_of(p.num_workers));
        csv_number(out, count_of(p.io_depth));
        csv_number(out, count_of(p.prefetch_factor));
        fprintf(out, ",%" PRIu64 ",%s,%s", p.runs, p.allowed ? "true" : "false",
                p.front ? "true" : "false");
        for (size_t k = 0; stk_tune_point_number(&p, k, &name, &value); k++)
            csv_number(out, value);
        fputc('\n', out);
    }
}

/* ---- The configuration ------------------------------------------------------------------------
 */

int tune_write(const struct tune_view *view, stk_config_line *line, void *user)
{
    stk_error err;

    const stk_status status = stk_tune_write(view->tune, line, user, &err);
    return status == STK_OK ? CLI_GOOD : cli_fail(view->cli, status, &err);
}
