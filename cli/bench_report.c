/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

#define MIB (1024.0 * 1024.0)
#define MS  1e3

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- What the rows say together ------------------------------------------------------------- */

static bool good(const struct bench_row *row)
{
    return row->ended && row->sum.figures.steps > 0;
}

/* What speed-ups are measured against: the first setting without workers, else the first one. */
static const struct bench_row *baseline(const struct bench_row *rows, size_t n)
{
    const struct bench_row *first = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!good(&rows[i]) || rows[i].setting->free_data)
            continue;
        if (rows[i].setting->loader.num_workers == 0)
            return &rows[i];
        first = first ? first : &rows[i];
    }
    return first;
}

static const struct bench_row *extreme(const struct bench_row *rows, size_t n, bool best)
{
    const struct bench_row *found = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!good(&rows[i]) || rows[i].setting->free_data)
            continue;
        double rate = rows[i].sum.figures.samples_per_s;
        if (!found || (best ? rate > found->sum.figures.samples_per_s
                            : rate < found->sum.figures.samples_per_s))
            found = &rows[i];
    }
    return found;
}

/* ---- Table ---------------------------------------------------------------------------------- */

static void put(struct cli_table_row *row, size_t *column, double value)
{
    cli_short_number(row->cells[(*column)++], CLI_TABLE_CELL, value);
}

static void put_bytes(struct cli_table_row *row, size_t *column, double bytes)
{
    put(row, column, bytes / MIB);
}

static void fill(struct cli_table_row *row, const struct bench_row *from, bool repeats)
{
    const stk_figures *f = &from->sum.figures;
    size_t c = 0;

    snprintf(row->cells[c++], CLI_TABLE_CELL, "%.60s", from->setting->label);
    if (!good(from)) {
        snprintf(row->note, sizeof row->note, "%s",
                 from->sum.run.status >= 0 || from->sum.run.status == STK_ECANCELED
                     ? "interrupted"
                     : "failed, see below");
        return;
    }
    put(row, &c, f->samples_per_s);
    if (repeats)
        snprintf(row->cells[c++], CLI_TABLE_CELL, "%.0f-%.0f", from->least, from->most);
    put(row, &c, MS * f->wait.mean);
    put(row, &c, MS * f->wait.p50);
    put(row, &c, MS * f->wait.p95);
    put(row, &c, MS * f->wait.p99);
    put(row, &c, MS * f->wait.max);
    put(row, &c, MS * f->first_wait);
    snprintf(row->cells[c++], CLI_TABLE_CELL, "%.1f", 100 * f->step_share);
    if (f->epoch_turn > 0)
        put(row, &c, MS * f->epoch_turn);
    else
        snprintf(row->cells[c++], CLI_TABLE_CELL, "-");
    put(row, &c, f->step_stretch);
    put(row, &c, f->cpu_s_per_1000);
    put_bytes(row, &c, (double)f->peak_bytes);
    put_bytes(row, &c, (double)f->bytes_read);
    snprintf(row->cells[c++], CLI_TABLE_CELL, "%" PRIu64, f->steps);
}

static void print_table(FILE *out, const struct bench_row *rows, size_t n)
{
    struct cli_table table = {0};
    bool repeats = false;

    for (size_t i = 0; i < n; i++)
        repeats |= rows[i].runs > 1;
    cli_table_column(&table, "setting", "");
    cli_table_column(&table, "samples", "/s");
    if (repeats)
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
    for (size_t i = 0; i < n; i++) {
        struct cli_table_row *row = cli_table_row(&table);
        if (row)
            fill(row, &rows[i], repeats);
    }
    cli_table_print(&table, cli_terminal_width(out), out);
    cli_table_free(&table);
}

/* ---- Words ---------------------------------------------------------------------------------- */

static void print_failures(FILE *out, size_t width, const struct bench_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[STK_ERROR_TEXT + BENCH_LABEL + 32];
        const struct bench_result *sum = &rows[i].sum;
        if (good(&rows[i]) || sum->run.status >= 0 || sum->run.status == STK_ECANCELED)
            continue;
        snprintf(text, sizeof text, "Failed: %s: %s", rows[i].setting->label, sum->run.error.text);
        cli_paragraph(out, width, 0, text);
    }
}

static void print_machine(FILE *out, size_t width, const struct bench_row *row)
{
    const struct bench_result *sum = &row->sum;
    const stk_figures *f = &sum->figures;
    char text[1024];

    int used =
        snprintf(text, sizeof text, "%u usable core%s: %u for the step%s, %u for workers.",
                 f->usable_cores, f->usable_cores == 1 ? "" : "s", f->compute_cores,
                 row->setting->bench.spin ? "" : " (which only sleeps: --spin makes it compute)",
                 sum->run.cores_preparation);
    if (f->cached_share >= 0)
        used += snprintf(
            text + used, sizeof text - (size_t)used,
            " Before the first run %.0f %% of the dataset's files were in the page cache%s.",
            100 * f->cached_share,
            f->cached_share > 0.5 ? ": the disk was hardly asked (--drop-cache)" : "");
    snprintf(text + used, sizeof text - (size_t)used,
             " After warm-up Stoker allocated %.3f times a step; its peak was %.1f MiB of a budget "
             "of %.0f MiB.",
             (double)f->allocations_per_step_times_1000 / 1000,
             (double)sum->run.stoker_peak_bytes / MIB, (double)f->budget_bytes / MIB);
    cli_paragraph(out, width, 0, text);
}

/* From this many cores on, other programs are said to disturb. */
#define DISTURBED 0.25

static void print_disturbance(FILE *out, size_t width, const struct bench_row *rows, size_t n)
{
    double most = 0;
    char text[256];

    for (size_t i = 0; i < n; i++)
        if (rows[i].ended && rows[i].sum.figures.usable_cores == rows[i].sum.run.cores_online)
            most = larger(most, rows[i].sum.run.other_cores);
    if (most < DISTURBED)
        return;
    snprintf(text, sizeof text,
             "Other programs kept up to %.1f of the %u cores busy meanwhile: stretch, waits and "
             "rates are theirs, too. "
             "Measure again on an idle machine before you act on this.",
             most, rows[0].sum.run.cores_online);
    cli_paragraph(out, width, 0, text);
}

static void print_verdict(FILE *out, size_t width, const char *head, const struct bench_row *rows,
                          size_t n, const struct bench_row *row)
{
    char text[2048];
    stk_verdict verdict = {.struct_size = sizeof verdict};

    bench_judge(rows, n, (size_t)(row - rows), &verdict);
    snprintf(text, sizeof text, "%s, %s: %s", head, row->setting->label, verdict.text);
    cli_style(out, CLI_BOLD);
    cli_paragraph(out, width, 0, text);
    cli_style(out, CLI_PLAIN);
}

static void print_speed_up(FILE *out, size_t width, const struct bench_row *best,
                           const struct bench_row *base)
{
    double gain = best->sum.figures.samples_per_s / base->sum.figures.samples_per_s;
    char text[1024], now[32], before[32];

    cli_short_number(now, sizeof now, MS * best->sum.figures.wait.mean);
    cli_short_number(before, sizeof before, MS * base->sum.figures.wait.mean);
    snprintf(text, sizeof text,
             "%s gives %.2fx the samples/s of %s (%.0f against %.0f; wait + step, steady state, "
             "setup left out), and "
             "a mean wait of %s ms a step instead of %s ms.",
             best->setting->label, gain, base->setting->label, best->sum.figures.samples_per_s,
             base->sum.figures.samples_per_s, now, before);
    cli_paragraph(out, width, 0, text);
}

/* What must not go unsaid of any row. The verdicts of the best and the worst say it if those leak.
 */
static void print_checks(FILE *out, size_t width, const struct bench_row *rows, size_t n,
                         const struct bench_row *best, const struct bench_row *worst)
{
    char text[512];

    for (size_t i = 0; i < n; i++) {
        const struct bench_result *sum = &rows[i].sum;
        if (rows[i].ended && sum->run.check_failed) {
            snprintf(text, sizeof text,
                     "Self-check failed for %s: %" PRIu64 " get-batch events, but %" PRIu64
                     " samples delivered and at most %" PRIu64
                     " discarded: do not trust its figures.",
                     rows[i].setting->label, sum->run.events, sum->run.delivered,
                     sum->run.discarded_most);
            cli_paragraph(out, width, 0, text);
        }
        if (rows[i].ended && sum->figures.leak_bytes_per_epoch > 0 && &rows[i] != best &&
            &rows[i] != worst) {
            snprintf(text, sizeof text,
                     "%s: memory grows by %.1f MiB every epoch without end: a leak.",
                     rows[i].setting->label, sum->figures.leak_bytes_per_epoch / MIB);
            cli_paragraph(out, width, 0, text);
        }
    }
}

/* What a rate of pictures that nothing decodes is worth. */
static void print_undecoded(FILE *out, size_t width, const struct bench_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].sum.run.undecoded && good(&rows[i])) {
            cli_paragraph(out, width, 0,
                          "Pictures are not decoded here, only read: --transforms "
                          "'random_resized_crop(224)' for training, or 'resize(256), "
                          "center_crop(224)' for evaluation, measures what a model gets.");
            return;
        }
}

/* A slow store that nobody asked slows nothing; a rung of a ladder that ends that is its point. */
static void print_unasked(FILE *out, size_t width, const struct bench_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (good(&rows[i]) && !rows[i].setting->free_data && !rows[i].setting->rung &&
            !rows[i].sum.figures.requests && strstr(rows[i].setting->dataset, "slow+")) {
            cli_paragraph(out, width, 0,
                          "The slow store was not asked while this was measured: all was read "
                          "before, when the dataset was opened, as gzip files are, ahead of the "
                          "first step, or into a cache. 'stoker convert mnist:DIR OUT' unpacks "
                          "MNIST into files that are read as it goes.");
            return;
        }
}

/* Bad samples of all runs, also of those that failed for them. */
static void print_bad(FILE *out, size_t width, const struct bench_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[sizeof rows[i].sum.run.bad + BENCH_LABEL + 8];
        if (!*rows[i].sum.run.bad)
            continue;
        snprintf(text, sizeof text, "%s: %s", rows[i].setting->label, rows[i].sum.run.bad);
        cli_paragraph(out, width, 0, text);
    }
}

static void print_log(const struct cli *cli, FILE *out, const char *log,
                      const struct bench_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!rows[i].sum.run.log_written)
            continue;
        fprintf(out, "\nLog: %s%s\n", log,
                cli->log ? "" : " (figures and verdicts alone; --log FILE takes every event)");
        return;
    }
}

static void print_ceiling(FILE *out, size_t width, const struct bench_row *best)
{
    double ceiling = best->judged.ceiling_samples_per_s, rate = best->sum.figures.samples_per_s;
    char text[512];

    if (ceiling <= 0)
        return;
    int used = snprintf(text, sizeof text,
                        "If data were free there would be %.0f samples/s: %s reaches %.1f %% of "
                        "that.",
                        ceiling, best->setting->label, 100 * rate / ceiling);
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

/* What all rows have in common: the title of the table. */
static void print_title(struct cli *cli, FILE *out, const struct bench_setting *setting)
{
    const stk_bench_options *bench = &setting->bench;
    char step[32];

    if (!varies(cli, "dataset"))
        fprintf(out, "%s, ", setting->dataset);
    if (!varies(cli, "loader.batch_size"))
        fprintf(out, "batch_size %" PRIu64 ", ", setting->loader.batch_size);
    cli_short_number(step, sizeof step, MS * bench->train_step_time);
    if (bench->step) {
        fprintf(out, "the step of %s, ", bench->step);
    } else if (!varies(cli, "bench.train_step_time") && !varies(cli, "bench.spin")) {
        if (bench->train_step_time > 0)
            fprintf(out, "a step of %s ms that %s, ", step, bench->spin ? "computes" : "sleeps");
        else
            fputs("no step, ", out);
    }
    if (bench->num_epochs)
        fprintf(out, "%" PRIu64 " epoch%s", bench->num_epochs, bench->num_epochs == 1 ? "" : "s");
    else
        fprintf(out, "at least %g s and %" PRIu64 " steps", bench->min_seconds, bench->min_batches);
    if (bench->num_batches)
        fprintf(out, " of %" PRIu64 " batches", bench->num_batches);
    if (bench->ranks > 1)
        fprintf(out, ", %" PRIu64 " ranks (rates and memory summed, waits of the slowest)",
                bench->ranks);
    fputs("\n\n", out);
}

static void print_words(struct cli *cli, FILE *out, const char *log, const struct bench_row *rows,
                        size_t n)
{
    const struct bench_row *best = extreme(rows, n, true), *worst = extreme(rows, n, false);
    const struct bench_row *base = baseline(rows, n);
    size_t width = cli_terminal_width(out);

    fputc('\n', out);
    print_failures(out, width, rows, n);
    if (best) {
        bool alike = best != worst && bench_alike(best, worst);
        if (!cli->quiet)
            print_machine(out, width, best);
        print_disturbance(out, width, rows, n);
        print_checks(out, width, rows, n, best, worst);
        if (!cli->quiet)
            fputc('\n', out);
        if (best != base && !bench_alike(best, base))
            print_speed_up(out, width, best, base);
        print_verdict(out, width,
                      alike           ? "All about alike; the best"
                      : best != worst ? "Best"
                                      : "Verdict",
                      rows, n, best);
        bench_ledger_print(out, width, best);
        if (worst != best && !alike)
            print_verdict(out, width, "Worst", rows, n, worst);
        if (worst != best && !alike)
            bench_ledger_print(out, width, worst);
        bench_sweep_print(out, width, rows, n, best);
        print_ceiling(out, width, best);
        bench_ladder_print(out, width, rows, n);
        bench_cost_print(out, best);
    }
    print_undecoded(out, width, rows, n);
    print_unasked(out, width, rows, n);
    print_bad(out, width, rows, n);
    print_log(cli, out, log, rows, n);
}

/* ---- JSON and CSV --------------------------------------------------------------------------- */

/* One figure of a row by its name, in base units. */
struct figure {
    const char *name;
    double value;
};

#define FIGURES 64

static size_t list_figures(const struct bench_row *row, struct figure *list)
{
    const struct bench_result *r = &row->sum;
    const stk_figures *f = &r->figures;
    const struct figure all[] = {
        {"samples_per_s", f->samples_per_s},
        {"samples_per_s_least", row->least},
        {"samples_per_s_most", row->most},
        {"runs", (double)row->runs},
        {"wait_mean", f->wait.mean},
        {"wait_p50", f->wait.p50},
        {"wait_p95", f->wait.p95},
        {"wait_p99", f->wait.p99},
        {"wait_max", f->wait.max},
        {"first_wait", f->first_wait},
        {"step_share", f->step_share},
        {"epoch_turn", f->epoch_turn},
        {"step_stretch", f->step_stretch},
        {"step_time", f->step_time},
        {"cpu_s_per_1000", f->cpu_s_per_1000},
        {"peak_bytes", (double)f->peak_bytes},
        {"budget_bytes", (double)f->budget_bytes},
        {"stoker_peak_bytes", (double)r->run.stoker_peak_bytes},
        {"leak_bytes_per_epoch", f->leak_bytes_per_epoch},
        {"allocations_per_step", (double)f->allocations_per_step_times_1000 / 1000},
        {"bytes_read", (double)f->bytes_read},
        {"requests", (double)f->requests},
        {"cached_share", f->cached_share},
        {"samples", (double)f->samples},
        {"steps", (double)f->steps},
        {"wall", f->wall},
        {"setup", r->run.setup},
        {"ceiling_samples_per_s", f->ceiling_samples_per_s},
        {"other_cores", r->run.other_cores},
        {"events", (double)r->run.events},
        {"delivered", (double)r->run.delivered},
        {"bad_samples", (double)r->run.bad_samples},
        {"pictures", (double)f->pictures},
        {"decode_seconds", f->decode_seconds},
        {"resize_seconds", f->resize_seconds},
        {"prepare_seconds", f->prepare_busy},
        {"entropy_share", f->entropy_share},
        {"read_transfer_share", f->read_transfer_share},
        {"bytes_needed", (double)f->bytes_needed},
#define WAIT(NAME, name, text) {"wait_" #name, row->judged.waits[STK_WAIT_##NAME]},
        STK_WAIT_LIST(WAIT)
#undef WAIT
    };
    size_t n = sizeof all / sizeof *all;

    _Static_assert(sizeof all / sizeof *all <= FIGURES, "room for all figures");
    memcpy(list, all, sizeof all);
    return n;
}

static void json_member(FILE *out, const char *name, const char *text)
{
    fprintf(out, ", \"%s\": ", name);
    if (text && *text)
        cli_json_string(out, text);
    else
        fputs("null", out);
}

static void json_row(FILE *out, const char *log, const struct bench_row *rows, size_t n, size_t i)
{
    const struct bench_row *row = &rows[i];
    struct figure list[FIGURES];
    stk_verdict verdict = {.struct_size = sizeof verdict};

    fputs("{\"label\": ", out);
    cli_json_string(out, row->setting->label);
    fprintf(out, ", \"status\": \"%s\"", stk_status_name(row->sum.run.status));
    json_member(out, "error", row->sum.run.status < 0 ? row->sum.run.error.text : NULL);
    fprintf(out, ", \"check\": \"%s\", \"options\": %s",
            row->sum.run.check_failed ? "failed" : "good", row->setting->locals);
    size_t figures = good(row) ? list_figures(row, list) : 0;
    for (size_t k = 0; k < figures; k++) {
        fprintf(out, ", \"%s\": ", list[k].name);
        cli_json_number(out, list[k].value);
    }
    bench_ladder_json(out, rows, n, i);
    if (good(row)) {
        bench_judge(rows, n, i, &verdict);
        json_member(out, "limit", stk_limit_name(verdict.limit));
        json_member(out, "knob", verdict.knob);
        json_member(out, "value", verdict.value);
        fputs(", \"gain\": ", out);
        cli_json_number(out, verdict.gain);
        fputs(", \"lost_share\": ", out);
        cli_json_number(out, verdict.lost_share);
        fputs(", \"limit_share\": ", out);
        cli_json_number(out, verdict.limit_share);
        json_member(out, "verdict", verdict.text);
    }
    json_member(out, "bad", row->sum.run.bad);
    json_member(out, "log", row->sum.run.log_written ? log : NULL);
    fputc('}', out);
}

static void print_json(FILE *out, const char *log, const struct bench_row *rows, size_t n)
{
    const struct bench_row *best = extreme(rows, n, true), *base = baseline(rows, n);

    fputs("{\"settings\": [\n", out);
    for (size_t i = 0; i < n; i++) {
        json_row(out, log, rows, n, i);
        fputs(i + 1 < n ? ",\n" : "\n", out);
    }
    fputs("]", out);
    json_member(out, "best", best ? best->setting->label : NULL);
    json_member(out, "baseline", base ? base->setting->label : NULL);
    if (best) {
        fputs(", \"speed_up_samples_per_s_without_setup\": ", out);
        cli_json_number(out, best->sum.figures.samples_per_s / base->sum.figures.samples_per_s);
    }
    fputs("}\n", out);
}

static void print_csv(FILE *out, const struct bench_row *rows, size_t n)
{
    struct figure list[FIGURES];
    size_t figures = list_figures(&rows[0], list);

    fputs("label,status", out);
    for (size_t k = 0; k < figures; k++)
        fprintf(out, ",%s", list[k].name);
    fputs(",limit,verdict\n", out);
    for (size_t i = 0; i < n; i++) {
        stk_verdict verdict = {.limit = STK_LIMIT_UNKNOWN};
        cli_csv_string(out, rows[i].setting->label);
        fprintf(out, ",%s", stk_status_name(rows[i].sum.run.status));
        list_figures(&rows[i], list);
        for (size_t k = 0; k < figures; k++) {
            char number[32] = "";
            if (good(&rows[i]))
                stk_number_format(list[k].value, number);
            fprintf(out, ",%s", number);
        }
        if (good(&rows[i]))
            bench_judge(rows, n, i, &verdict);
        fprintf(out, ",%s,", good(&rows[i]) ? stk_limit_name(verdict.limit) : "");
        cli_csv_string(out, good(&rows[i]) ? verdict.text : rows[i].sum.run.error.text);
        fputc('\n', out);
    }
}

void bench_report(struct cli *cli, FILE *out, const char *log, const struct bench_row *rows,
                  size_t n)
{
    if (n == 0)
        return;
    if (cli->format == CLI_JSON) {
        print_json(out, log, rows, n);
    } else if (cli->format == CLI_CSV) {
        print_csv(out, rows, n);
    } else {
        if (!cli->quiet)
            print_title(cli, out, rows[0].setting);
        print_table(out, rows, n);
        print_words(cli, out, log, rows, n);
    }
}
