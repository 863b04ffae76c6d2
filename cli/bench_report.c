/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

#define MIB (1024.0 * 1024.0)
#define MS  1e3

bool bench_rows_make(const struct bench_plan *plan, size_t begun, const char *log,
                     struct bench_rows *rows)
{
    *rows = (struct bench_rows){.plan = plan, .n = begun, .log = log};
    rows->summary.struct_size = sizeof rows->summary;
    stk_bench_plan_summary(plan->settings, &rows->summary);
    rows->rows = calloc(begun + 1, sizeof *rows->rows);
    for (size_t i = 0; i < begun && rows->rows; i++) {
        struct bench_row *row = &rows->rows[i];
        row->setting = bench_setting(plan, i);
        row->row.struct_size = sizeof row->row;
        row->verdict.struct_size = sizeof row->verdict;
        stk_bench_plan_row(plan->settings, i, &row->row);
        stk_bench_plan_judge(plan->settings, i, &row->verdict);
        rows->repeats |= row->row.runs > 1;
    }
    return rows->rows != NULL;
}

static const struct bench_row *row_of(const struct bench_rows *rows, size_t i)
{
    return i < rows->n ? &rows->rows[i] : NULL;
}

/* ---- Table ---------------------------------------------------------------------------------- */

struct cli_table_row *bench_row_begin(struct cli_table *table, const struct bench_row *from)
{
    const stk_status status = from->row.result->status;
    struct cli_table_row *row = cli_table_begin(table, from->setting.label);

    if (row && !from->row.ended)
        snprintf(row->note, sizeof row->note, "%s",
                 status >= 0 || status == STK_ECANCELED ? "interrupted" : "failed, see below");
    return from->row.ended ? row : NULL;
}

/* 0 is "-", and what would be rounded to 0 is not. */
static void put_bytes(struct cli_table_row *row, double bytes)
{
    if (bytes < 0.005 * MIB)
        cli_table_put(row, bytes > 0 ? "<0.01" : "-");
    else
        cli_table_number(row, bytes / MIB);
}

static void fill(struct cli_table_row *row, const struct bench_row *from, bool repeats)
{
    const stk_figures *f = from->row.figures;

    if (!row)
        return;
    cli_table_number(row, f->samples_per_s);
    if (repeats)
        cli_table_put(row, "%.0f-%.0f", from->row.least, from->row.most);
    cli_table_number(row, MS * f->wait.mean);
    cli_table_number(row, MS * f->wait.p50);
    cli_table_number(row, MS * f->wait.p95);
    cli_table_number(row, MS * f->wait.p99);
    cli_table_number(row, MS * f->wait.max);
    cli_table_number(row, MS * f->first_wait);
    cli_table_put(row, "%.1f", 100 * f->step_share);
    cli_table_number(row, f->epoch_turn > 0 ? MS * f->epoch_turn : NAN);
    cli_table_number(row, f->step_stretch);
    cli_table_number(row, f->cpu_s_per_1000);
    put_bytes(row, (double)f->peak_bytes);
    put_bytes(row, (double)f->bytes_read);
    cli_table_put(row, "%" PRIu64, f->steps);
}

static void print_table(FILE *out, const struct bench_rows *rows)
{
    struct cli_table table = {0};

    cli_table_column(&table, "setting", "");
    cli_table_column(&table, "samples", "/s");
    if (rows->repeats)
        cli_table_column(&table, "of all", "runs");
    cli_table_column(&table, "wait", "mean ms");
    cli_table_column(&table, "p50", "ms");
    cli_table_column(&table, "p95", "ms");
    cli_table_column(&table, "p99", "ms");
    cli_table_column(&table, "max", "ms");
    cli_table_column(&table, "first", "ms");
    cli_table_column(&table, "step", "% of time");
    cli_table_column(&table, "turn", "ms");
    cli_table_column(&table, "stretch", "x");
    cli_table_column(&table, "CPU-s", "/1000");
    cli_table_column(&table, "peak", "MiB");
    cli_table_column(&table, "read", "MiB");
    cli_table_column(&table, "steps", "");
    for (size_t i = 0; i < rows->n; i++)
        fill(bench_row_begin(&table, &rows->rows[i]), &rows->rows[i], rows->repeats);
    cli_table_print(&table, cli_terminal_width(out), out);
    cli_table_free(&table);
}

/* ---- Words ---------------------------------------------------------------------------------- */

static void print_failures(FILE *out, size_t width, const struct bench_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        char text[STK_ERROR_TEXT + STK_BENCH_LABEL + 32];
        const stk_bench_result *sum = rows->rows[i].row.result;
        if (rows->rows[i].row.ended || sum->status >= 0 || sum->status == STK_ECANCELED)
            continue;
        snprintf(text, sizeof text, "Failed: %s: %s", rows->rows[i].setting.label, sum->error.text);
        cli_paragraph(out, width, 0, text);
    }
}

static void print_machine(FILE *out, size_t width, const struct bench_row *row)
{
    const stk_bench_result *sum = row->row.result;
    const stk_figures *f = row->row.figures;
    char text[1024];

    int used =
        snprintf(text, sizeof text, "%u usable core%s: %u for the step%s, %u for workers.",
                 f->usable_cores, f->usable_cores == 1 ? "" : "s", f->compute_cores,
                 row->setting.bench->spin ? "" : " (which only sleeps: --spin makes it compute)",
                 sum->cores_preparation);
    if (f->cached_share >= 0)
        used += snprintf(
            text + used, sizeof text - (size_t)used,
            " Before the first run %.0f %% of the dataset's files were in the page cache%s.",
            100 * f->cached_share,
            f->cached_share > 0.5 ? ": the disk was hardly asked (--drop-cache)" : "");
    if (f->bytes_read == 0 && !row->setting.python)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         " Nothing was read while it was measured: the samples come from memory.");
    if (!row->setting.python)
        snprintf(
            text + used, sizeof text - (size_t)used,
            " After warm-up Stoker allocated %.3f times a step; its peak was %.1f MiB of a budget "
            "of %.0f MiB.",
            (double)f->allocations_per_step_times_1000 / 1000, (double)sum->stoker_peak_bytes / MIB,
            (double)f->budget_bytes / MIB);
    cli_paragraph(out, width, 0, text);
}

/* From this many cores on, other programs are said to disturb. */
#define DISTURBED 0.25

void bench_disturbance_print(FILE *out, size_t width, const stk_bench_summary *all, uint32_t cores)
{
    const double most = all->other_cores;
    char text[256];

    if (most < DISTURBED)
        return;
    snprintf(text, sizeof text,
             "Other programs kept up to %.1f of the %u cores busy meanwhile: %s are theirs, too. "
             "Measure again on an idle machine before you act on this.",
             most, cores, all->trainings ? "times" : "stretch, waits and rates");
    cli_paragraph(out, width, 0, text);
}

static void print_verdict(FILE *out, size_t width, const char *head, const struct bench_row *row)
{
    char text[2048];

    snprintf(text, sizeof text, "%s, %s: %s", head, row->setting.label, row->verdict.text);
    cli_style(out, CLI_BOLD);
    cli_paragraph(out, width, 0, text);
    cli_style(out, CLI_PLAIN);
}

static void print_speed_up(FILE *out, size_t width, const struct bench_row *best,
                           const struct bench_row *base, double gain)
{
    char text[1024], now[32], before[32];

    cli_short_number(now, sizeof now, MS * best->row.figures->wait.mean);
    cli_short_number(before, sizeof before, MS * base->row.figures->wait.mean);
    snprintf(text, sizeof text,
             "%s gives %.2fx the samples/s of %s (%.0f against %.0f; wait + step, steady state, "
             "setup left out), and "
             "a mean wait of %s ms a step instead of %s ms.",
             best->setting.label, gain, base->setting.label, best->row.figures->samples_per_s,
             base->row.figures->samples_per_s, now, before);
    cli_paragraph(out, width, 0, text);
}

/* What must not go unsaid of any row. The verdicts of the best and the worst say it if those leak.
 */
static void print_checks(FILE *out, size_t width, const struct bench_rows *rows,
                         const struct bench_row *best, const struct bench_row *worst)
{
    char text[512];

    for (size_t i = 0; i < rows->n; i++) {
        const stk_bench_result *sum = rows->rows[i].row.result;
        if (rows->rows[i].row.ended && sum->check_failed) {
            snprintf(text, sizeof text,
                     "Self-check failed for %s: %" PRIu64 " get-batch events, but %" PRIu64
                     " samples delivered and at most %" PRIu64
                     " discarded: do not trust its figures.",
                     rows->rows[i].setting.label, sum->events, sum->delivered, sum->discarded_most);
            cli_paragraph(out, width, 0, text);
        }
        if (rows->rows[i].row.ended && rows->rows[i].row.figures->leak_bytes_per_epoch > 0 &&
            &rows->rows[i] != best && &rows->rows[i] != worst) {
            snprintf(
                text, sizeof text, "%s: memory grows by %.1f MiB every epoch without end: a leak.",
                rows->rows[i].setting.label, rows->rows[i].row.figures->leak_bytes_per_epoch / MIB);
            cli_paragraph(out, width, 0, text);
        }
    }
}

/* What a rate of pictures that nothing decodes is worth. */
static void print_undecoded(FILE *out, size_t width, const struct bench_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        if (rows->rows[i].row.result->undecoded && rows->rows[i].row.ended) {
            cli_paragraph(out, width, 0,
                          "Pictures are not decoded here, only read: --transforms "
                          "'random_resized_crop(224)' for training, or 'resize(256), "
                          "center_crop(224)' for evaluation, measures what a model gets.");
            return;
        }
}

/* A slow store without a request slows nothing; a rung of a ladder that ends that is its point. */
static void print_unasked(FILE *out, size_t width, const struct bench_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        if (rows->rows[i].row.ended && !rows->rows[i].setting.free_data &&
            !rows->rows[i].setting.rung && !rows->rows[i].row.figures->requests &&
            strstr(rows->rows[i].setting.dataset, "slow+")) {
            cli_paragraph(out, width, 0,
                          "The slow store was not asked while this was measured: all was read "
                          "before, when the dataset was opened, as gzip files are, ahead of the "
                          "first step, or into a cache. 'stoker convert mnist:DIR OUT' unpacks "
                          "MNIST into files that are read as it goes.");
            return;
        }
}

/* Bad samples of all runs, also of those that failed for them. */
static void print_bad(FILE *out, size_t width, const struct bench_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        char text[sizeof rows->rows[i].row.result->bad + STK_BENCH_LABEL + 8];
        if (!*rows->rows[i].row.result->bad)
            continue;
        snprintf(text, sizeof text, "%s: %s", rows->rows[i].setting.label,
                 rows->rows[i].row.result->bad);
        cli_paragraph(out, width, 0, text);
    }
}

static void print_log(const struct cli *cli, FILE *out, const struct bench_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        if (!rows->rows[i].row.result->log_written)
            continue;
        fprintf(out, "\nLog: %s%s\n", rows->log,
                cli->log ? "" : " (figures and verdicts alone; --log FILE takes every event)");
        return;
    }
}

static void print_ceiling(FILE *out, size_t width, const struct bench_row *best)
{
    double ceiling = best->row.judged->ceiling_samples_per_s,
           rate = best->row.figures->samples_per_s;
    char text[512];

    if (ceiling <= 0)
        return;
    int used = snprintf(text, sizeof text,
                        "If data were free there would be %.0f samples/s: %s reaches %.1f %% of "
                        "that.",
                        ceiling, best->setting.label, 100 * rate / ceiling);
    if (rate > ceiling)
        snprintf(text + used, sizeof text - (size_t)used,
                 " More than all is impossible: the steps of the one run took longer than those of "
                 "the other, by what else the machine did. Nothing is lost to data as far as can "
                 "be measured here; --repeat shows by how much runs differ.");
    cli_paragraph(out, width, 0, text);
}

static bool varies(struct cli *cli, const char *key)
{
    return stk_config_count(cli->config, key) > 1;
}

enum bench_step bench_step_of(const char *step, const char **config)
{
    const char *colon = step ? strchr(step, ':') : NULL;
    const bool named = colon && colon[1];

    *config = named ? colon + 1 : NULL;
    if (!step)
        return BENCH_SIMULATED;
    if (strcmp(step, "fit") == 0 || (named && strncmp(step, "fit:", strlen("fit:")) == 0))
        return BENCH_FIT;
    if (named && strncmp(step, "python:", strlen("python:")) == 0)
        return BENCH_PYTHON;
    return named && strncmp(step, "train:", strlen("train:")) == 0 ? BENCH_TRAIN : BENCH_UNKNOWN;
}

void bench_work_print(struct cli *cli, FILE *out, const stk_bench_setting *setting)
{
    const stk_bench_options *bench = setting->bench;
    const char *config;
    const enum bench_step kind = bench_step_of(bench->step, &config);
    char step[32];

    if (!varies(cli, "dataset"))
        fprintf(out, "%s, ", setting->dataset);
    if (!varies(cli, "loader.batch_size"))
        fprintf(out, "batch_size %" PRIu64 ", ", setting->loader->batch_size);
    cli_short_number(step, sizeof step, MS * bench->train_step_time);
    if (varies(cli, "bench.step"))
        config = NULL;
    if (kind == BENCH_FIT) {
        fprintf(out, "whole trainings%s%s", config ? " of " : "", config ? config : "");
    } else if (config) {
        fprintf(out, "the step of %s, ", config);
    } else if (kind == BENCH_SIMULATED && !varies(cli, "bench.train_step_time") &&
               !varies(cli, "bench.spin")) {
        if (bench->train_step_time > 0)
            fprintf(out, "a step of %s ms that %s, ", step, bench->spin ? "computes" : "sleeps");
        else
            fputs("no step, ", out);
    }
}

/* What all rows have in common: the title of the table. */
static void print_title(struct cli *cli, FILE *out, const stk_bench_setting *setting)
{
    const stk_bench_options *bench = setting->bench;
    const char *config;

    bench_work_print(cli, out, setting);
    if (bench_step_of(bench->step, &config) == BENCH_FIT) {
        fputs("\n\n", out);
        return;
    }
    if (bench->num_epochs)
        fprintf(out, "%" PRIu64 " epoch%s", bench->num_epochs, bench->num_epochs == 1 ? "" : "s");
    else
        fprintf(out, "at least %g s and %" PRIu64 " steps", bench->min_seconds, bench->min_batches);
    /* It ends a run before the others do. */
    if (bench->max_seconds > 0 && stk_config_count(cli->config, "bench.max_seconds"))
        fprintf(out, ", at most %g s", bench->max_seconds);
    if (bench->num_batches)
        fprintf(out, " of %" PRIu64 " batches", bench->num_batches);
    if (bench->ranks > 1)
        fprintf(out, ", %" PRIu64 " ranks%s (rates and memory summed, waits of the slowest)",
                bench->ranks, bench->all_reduce ? " by mpirun" : "");
    fputs("\n\n", out);
}

static void print_words(struct cli *cli, FILE *out, const struct bench_rows *rows)
{
    const stk_bench_summary *all = &rows->summary;
    const struct bench_row *best = row_of(rows, all->best), *worst = row_of(rows, all->worst),
                           *base = row_of(rows, all->baseline);
    size_t width = cli_terminal_width(out);

    fputc('\n', out);
    print_failures(out, width, rows);
    if (best) {
        if (!cli->quiet)
            print_machine(out, width, best);
        bench_disturbance_print(out, width, &rows->summary, rows->rows[0].row.result->cores_online);
        print_checks(out, width, rows, best, worst);
        if (!cli->quiet)
            fputc('\n', out);
        if (all->faster)
            print_speed_up(out, width, best, base, all->speed_up);
        print_verdict(out, width,
                      all->alike      ? "All about alike; the best"
                      : best != worst ? "Best"
                                      : "Verdict",
                      best);
        bench_ledger_print(out, width, best);
        if (worst != best && !all->alike) {
            print_verdict(out, width, "Worst", worst);
            bench_ledger_print(out, width, worst);
        }
        bench_all_reduce_print(out, width, rows);
        bench_network_print(out, width, rows);
        bench_sweep_print(out, width, rows);
        print_ceiling(out, width, best);
        bench_ladder_print(out, width, rows);
        bench_cost_print(out, best);
    }
    print_undecoded(out, width, rows);
    print_unasked(out, width, rows);
    print_bad(out, width, rows);
    print_log(cli, out, rows);
}

/* Of whole trainings: waits, steps and cores are the loader's and the trainer's own matter. */
static void print_trainings(struct cli *cli, FILE *out, const struct bench_rows *rows)
{
    const size_t width = cli_terminal_width(out);
    const struct bench_row *best = row_of(rows, rows->summary.best),
                           *base = row_of(rows, rows->summary.baseline);

    bench_trainings_print(out, width, rows, cli->quiet);
    print_failures(out, width, rows);
    bench_disturbance_print(out, width, &rows->summary, rows->rows[0].row.result->cores_online);
    if (base)
        print_verdict(out, width, "Baseline", base);
    if (best && best != base)
        print_verdict(out, width, "Fastest", best);
    bench_ladder_print(out, width, rows);
    print_bad(out, width, rows);
    print_log(cli, out, rows);
}

void bench_report(struct cli *cli, FILE *out, const struct bench_rows *rows)
{
    if (rows->n == 0)
        return;
    if (cli->format == CLI_JSON) {
        bench_json(out, rows);
    } else if (cli->format == CLI_CSV) {
        bench_csv(out, rows);
    } else {
        if (!cli->quiet)
            print_title(cli, out, &rows->rows[0].setting);
        if (rows->summary.trainings) {
            print_trainings(cli, out, rows);
        } else {
            print_table(out, rows);
            print_words(cli, out, rows);
        }
    }
}
