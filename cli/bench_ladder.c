/* SPDX-License-Identifier: Apache-2.0 */
/* One measure after the other: what each has in the speed-up. */
#include <inttypes.h>
#include <math.h>

#include "bench.h"
#include "table.h"

#define LITTLE 1.05 /* a whole factor below is not divided into shares */

static bool counts(const struct bench_row *row)
{
    return row->ended && row->setting->rung > 0 && row->sum.figures.samples_per_s > 0;
}

static double rate_of(const struct bench_row *row)
{
    return row->sum.figures.samples_per_s;
}

/* The rung before row `i` that was measured; NULL: it is the first. */
static const struct bench_row *before(const struct bench_row *rows, size_t i)
{
    while (i-- > 0)
        if (counts(&rows[i]))
            return &rows[i];
    return NULL;
}

/* Factors multiply, so their logarithms are what adds up: that of the whole ladder. NaN: no ladder.
 */
static double whole(const struct bench_row *rows, size_t n)
{
    const struct bench_row *first = NULL, *last = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!counts(&rows[i]))
            continue;
        first = first ? first : &rows[i];
        last = &rows[i];
    }
    return first == last ? NAN : log(rate_of(last) / rate_of(first));
}

static double share_of(double factor, double all)
{
    return fabs(all) > log(LITTLE) ? log(factor) / all : NAN;
}

void bench_ladder_json(FILE *out, const struct bench_row *rows, size_t n, size_t i)
{
    const struct bench_row *row = &rows[i], *then = before(rows, i);

    if (!counts(row))
        return;
    const double factor = then ? rate_of(row) / rate_of(then) : NAN;
    fprintf(out, ", \"rung\": %" PRIu64 ", \"measure\": ", row->setting->rung);
    cli_json_string(out, row->setting->measure);
    fputs(", \"factor\": ", out);
    cli_json_number(out, factor);
    fputs(", \"share\": ", out);
    cli_json_number(out, share_of(factor, whole(rows, n)));
}

void bench_ladder_print(FILE *out, size_t width, const struct bench_row *rows, size_t n)
{
    const double all = whole(rows, n);
    struct cli_table table = {0};

    if (isnan(all))
        return;
    fprintf(out, "\nOne measure after the other, %.2fx in all:\n", exp(all));
    cli_table_column(&table, "measure", "");
    cli_table_column(&table, "samples", "/s");
    cli_table_column(&table, "factor", "x");
    cli_table_column(&table, "share of the", "speed-up %");
    cli_table_column(&table, "limit", "then");
    for (size_t i = 0; i < n; i++) {
        const struct bench_row *then = before(rows, i);
        struct cli_table_row *row = counts(&rows[i]) ? cli_table_row(&table) : NULL;
        stk_verdict verdict = {.struct_size = sizeof verdict};
        if (!row)
            continue;
        const double factor = then ? rate_of(&rows[i]) / rate_of(then) : 1;
        snprintf(row->cells[0], CLI_TABLE_CELL, "%.60s", rows[i].setting->measure);
        snprintf(row->cells[1], CLI_TABLE_CELL, "%.0f", rate_of(&rows[i]));
        snprintf(row->cells[2], CLI_TABLE_CELL, "%.2f", factor);
        const double share = then ? share_of(factor, all) : NAN;
        snprintf(row->cells[3], CLI_TABLE_CELL, isfinite(share) ? "%.0f" : "-",
                 round(100 * share) + 0.0); /* no "-0" */
        bench_judge(rows, n, i, &verdict);
        snprintf(row->cells[4], CLI_TABLE_CELL, "%s", stk_limit_name(verdict.limit));
    }
    cli_table_print(&table, width, out);
    cli_table_free(&table);
}
