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
    cli_ladder_columns(&table, "measure", trainings ? "total" : "samples", trainings ? "s" : "/s",
                       trainings);
    for (size_t i = 0; i < rows->n; i++) {
        const struct bench_row *from = &rows->rows[i];
        struct cli_table_row *row =
            is_rung(from) ? cli_table_begin(&table, from->setting.measure) : NULL;
        if (!row)
            continue;
        if (trainings)
            cli_table_number(row, from->row.result->training.seconds);
        else
            cli_table_put(row, "%.0f", from->row.figures->samples_per_s);
        cli_ladder_cells(row, from->row.factor, from->row.share);
        if (trainings)
            cli_training_cells(row, from->row.result->training.accuracy,
                               (double)from->row.result->training.peak_bytes);
        cli_table_put(row, "%s", stk_limit_name(from->verdict.limit));
    }
    cli_table_print(&table, width, out);
    cli_table_free(&table);
}
