/* SPDX-License-Identifier: Apache-2.0 */
/* One measure after the other: what each has in the speed-up. */
#include <math.h>

#include "bench.h"
#include "table.h"

static bool is_rung(const struct bench_row *row)
{
    return row->row.ended && row->setting.rung > 0;
}

void bench_ladder_print(FILE *out, size_t width, const struct bench_rows *rows)
{
    const double all = rows->summary.ladder;
    const bool trainings = rows->summary.trainings;
    struct cli_table table = {0};

    if (isnan(all))
        return;
    fprintf(out, "\nOne measure after the other, %.2fx in all:\n", all);
    cli_table_column(&table, "measure", "");
    cli_table_column(&table, trainings ? "total" : "samples", trainings ? "s" : "/s");
    cli_table_column(&table, "factor", "x");
    cli_table_column(&table, "share of the", "speed-up %");
    if (trainings) {
        cli_table_column(&table, "accuracy", "%");
        cli_table_column(&table, "peak", "MiB");
    }
    cli_table_column(&table, "limit", "then");
    for (size_t i = 0; i < rows->n; i++) {
        const struct bench_row *from = &rows->rows[i];
        struct cli_table_row *row = is_rung(from) ? cli_table_row(&table) : NULL;
        if (!row)
            continue;
        const double share = from->row.share;
        snprintf(row->cells[0], CLI_TABLE_CELL, "%.60s", from->setting.measure);
        if (trainings)
            snprintf(row->cells[1], CLI_TABLE_CELL, "%.2f", from->row.result->training.seconds);
        else
            snprintf(row->cells[1], CLI_TABLE_CELL, "%.0f", from->row.figures->samples_per_s);
        snprintf(row->cells[2], CLI_TABLE_CELL, "%.2f",
                 isfinite(from->row.factor) ? from->row.factor : 1);
        snprintf(row->cells[3], CLI_TABLE_CELL, isfinite(share) ? "%.0f" : "-",
                 round(100 * share) + 0.0); /* no "-0" */
        if (trainings)
            bench_training_cells(from, row->cells[4], row->cells[5]);
        snprintf(row->cells[trainings ? 6 : 4], CLI_TABLE_CELL, "%s",
                 stk_limit_name(from->verdict.limit));
    }
    cli_table_print(&table, width, out);
    cli_table_free(&table);
}
