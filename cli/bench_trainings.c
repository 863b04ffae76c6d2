/* SPDX-License-Identifier: Apache-2.0 */
/* Whole trainings next to each other: time, losses, accuracy, memory. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "table.h"

/* Epochs whose losses are in the table; JSON has more. */
#define SHOWN 10

static const stk_bench_training *training_of(const struct bench_row *row)
{
    const stk_bench_result *result = row->row.ended ? row->row.result : NULL;

    return result && result->training.seconds > 0 ? &result->training : NULL;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void fill_training(struct cli_table_row *row, const struct bench_row *from, bool repeats)
{
    const stk_bench_training *t = training_of(from);

    if (!t)
        return;
    cli_table_number(row, t->seconds);
    if (repeats)
        cli_table_range(row, 1 / from->row.most, 1 / from->row.least);
    cli_table_put(row, "%" PRIu64, t->epochs);
    cli_table_number(row, t->epoch_mean);
    cli_table_put(row, "%.2f", from->row.speed_up);
    if (repeats)
        cli_table_put(row, "%.2f-%.2f", from->row.speed_up_least, from->row.speed_up_most);
    cli_training_cells(row, t->accuracy, (double)t->peak_bytes);
}

static void print_times(FILE *out, size_t width, const struct bench_rows *rows)
{
    struct cli_table table = {0};

    cli_table_column(&table, "setting", "");
    cli_table_column(&table, "total", "s");
    if (rows->repeats)
        cli_table_column(&table, "of all", "runs");
    cli_table_column(&table, "epochs", "");
    cli_table_column(&table, "an epoch", "s");
    cli_table_column(&table, "speed-up", "x");
    if (rows->repeats)
        cli_table_column(&table, "of all", "pairs");
    cli_table_column(&table, "accuracy", "%");
    cli_table_column(&table, "peak", "MiB");
    for (size_t i = 0; i < rows->n; i++)
        fill_training(bench_row_begin(&table, &rows->rows[i]), &rows->rows[i], rows->repeats);
    cli_table_print(&table, width, out);
    cli_table_free(&table);
}

static void print_losses(FILE *out, size_t width, const struct bench_rows *rows)
{
    struct cli_table table = {0};
    uint64_t most = 0;
    char head[32];

    for (size_t i = 0; i < rows->n; i++)
        if (training_of(&rows->rows[i]) && training_of(&rows->rows[i])->epochs > most)
            most = training_of(&rows->rows[i])->epochs;
    const uint64_t shown = most < SHOWN ? most : SHOWN;
    fprintf(out, "\nMean training loss of each epoch%s:\n",
            most > shown ? ", of the first ones and of the last (--format json has more)" : "");
    cli_table_column(&table, "setting", "");
    for (uint64_t e = 0; e < shown; e++) {
        snprintf(head, sizeof head, "%" PRIu64, e + 1);
        cli_table_column(&table, "epoch", head);
    }
    if (most > shown)
        cli_table_column(&table, "last", "epoch");
    for (size_t i = 0; i < rows->n; i++) {
        const stk_bench_training *t = training_of(&rows->rows[i]);
        struct cli_table_row *row = t ? bench_row_begin(&table, &rows->rows[i]) : NULL;
        for (uint64_t e = 0; e < shown && t; e++)
            cli_table_put(row, e < t->epochs && isfinite(t->loss[e]) ? "%.6f" : "-", t->loss[e]);
        if (most > shown && t)
            cli_table_put(row, isfinite(t->last_loss) ? "%.6f" : "-", t->last_loss);
    }
    cli_table_print(&table, width, out);
    cli_table_free(&table);
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Labels of the rows with a mark, parted by commas. */
static size_t list(const struct bench_rows *rows, bool uneven, char *text, size_t size)
{
    size_t found = 0, used = 0;

    *text = 0;
    for (size_t i = 0; i < rows->n; i++) {
        const stk_bench_row *row = &rows->rows[i].row;
        if (!(uneven ? row->uneven : row->other_losses))
            continue;
        found++;
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", found > 1 ? ", " : "",
                                     rows->rows[i].setting.label);
    }
    return found;
}

static void print_same(FILE *out, size_t width, const struct bench_rows *rows)
{
    char names[1024], text[1400];

    if (list(rows, true, names, sizeof names)) {
        snprintf(text, sizeof text,
                 "The losses differ between runs of the same setting: %s. Their times are of "
                 "different work.",
                 names);
        cli_paragraph(out, width, 0, text);
    }
    const struct bench_row *base = &rows->rows[rows->summary.baseline];
    if (list(rows, false, names, sizeof names))
        snprintf(text, sizeof text,
                 "Losses other than those of %s: %s. What only prepares data (num_workers, "
                 "pin_memory, ...) never changes them; precision, batch size, accumulation and the "
                 "data do.",
                 base->setting.rung ? "the row before" : base->setting.label, names);
    else
        snprintf(text, sizeof text, "The losses are the same in all rows%s, bit for bit.",
                 rows->repeats ? " and runs" : "");
    cli_paragraph(out, width, 0, text);
}

/* How sure the ratios are. */
static void print_pairs(FILE *out, size_t width, const struct bench_rows *rows)
{
    const stk_bench_row *least = NULL;
    char text[512];

    for (size_t i = 0; i < rows->n; i++)
        if (rows->rows[i].row.pairs && (!least || rows->rows[i].row.pairs < least->pairs))
            least = &rows->rows[i].row;
    if (!least || least->sureness <= 0)
        snprintf(text, sizeof text,
                 "One run of each: a speed-up without a spread says little; --repeat 5 gives one.");
    else
        snprintf(text, sizeof text,
                 "Speed-up: the median over %" PRIu64
                 " pairs of runs, each against the run of %s in the same round, and the least and "
                 "the most of them, between which the true median is with %.0f %%. Where 1.00 is "
                 "between them, no difference was measured.",
                 least->pairs, rows->rows[rows->summary.baseline].setting.label,
                 100 * least->sureness);
    cli_paragraph(out, width, 0, text);
}

static void print_evaluated(FILE *out, size_t width, const struct bench_rows *rows)
{
    bool tested = false;
    char text[256];

    for (size_t i = 0; i < rows->n; i++)
        tested |= training_of(&rows->rows[i]) && training_of(&rows->rows[i])->tested;
    snprintf(text, sizeof text,
             "Total: the training with its validation, without opening data before it%s. Accuracy: "
             "of the %s data. Peak: most resident memory of the process.",
             tested ? " and the test after it" : "", tested ? "test" : "validation");
    cli_paragraph(out, width, 0, text);
}

void bench_trainings_print(FILE *out, size_t width, const struct bench_rows *rows, bool quiet)
{
    print_times(out, width, rows);
    if (rows->summary.baseline >= rows->n)
        return;
    print_losses(out, width, rows);
    fputc('\n', out);
    if (!quiet)
        print_evaluated(out, width, rows);
    print_same(out, width, rows);
    if (rows->n > 1)
        print_pairs(out, width, rows);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_list(FILE *out, const char *name, const double *values, uint64_t n)
{
    fprintf(out, ", \"%s\": [", name);
    for (uint64_t i = 0; i < n; i++) {
        fputs(i ? ", " : "", out);
        cli_json_number(out, values[i]);
    }
    fputc(']', out);
}

void bench_trainings_json(FILE *out, const struct bench_row *row)
{
    const stk_bench_training *t = training_of(row);

    if (!t)
        return;
    const uint64_t kept = t->epochs < STK_BENCH_EPOCHS ? t->epochs : STK_BENCH_EPOCHS;
    json_list(out, "epoch_seconds", t->epoch_seconds, kept);
    json_list(out, "epoch_loss", t->loss, kept);
    fprintf(out, ", \"evaluated_on\": \"%s\", \"same_losses\": %s",
            t->tested ? "test" : "validation",
            row->row.other_losses || row->row.uneven ? "false" : "true");
}
