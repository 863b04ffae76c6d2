/* SPDX-License-Identifier: Apache-2.0 */
/* One measure after the other: what each has in the speed-up. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "bench.h"
#include "table.h"

/* The options of `now` that `then` has otherwise: "io_depth=16". Labels are options parted by
 * spaces. */
static void changed(const char *then, const char *now, char *out, size_t size)
{
    size_t used = 0;

    *out = 0;
    while (*now) {
        const size_t length = strcspn(now, " ");
        bool found = false;
        for (const char *at = then; *at && !found;) {
            const size_t n = strcspn(at, " ");
            found = n == length && strncmp(at, now, n) == 0;
            at += n + (at[n] == ' ');
        }
        if (!found && used + length + 2 < size)
            used += (size_t)snprintf(out + used, size - used, "%s%.*s", used ? " " : "",
                                     (int)length, now);
        now += length + (now[length] == ' ');
    }
}

static bool counts(const struct bench_row *row)
{
    return row->ended && !row->setting->free_data && row->sum.figures.samples_per_s > 0;
}

void bench_ladder_print(FILE *out, size_t width, const struct bench_row *rows, size_t n)
{
    const struct bench_row *first = NULL, *last = NULL;
    struct cli_table table = {0};

    for (size_t i = 0; i < n; i++) {
        if (!counts(&rows[i]) || !rows[i].setting->bench.ladder)
            continue;
        first = first ? first : &rows[i];
        last = &rows[i];
    }
    if (first == last)
        return;
    /* Factors multiply, so their logarithms are what adds up. */
    const double all = log(last->sum.figures.samples_per_s / first->sum.figures.samples_per_s);
    fprintf(out, "\nOne measure after the other, %.2fx in all:\n", exp(all));
    cli_table_column(&table, "measure", "");
    cli_table_column(&table, "samples", "/s");
    cli_table_column(&table, "factor", "x");
    cli_table_column(&table, "share of the", "speed-up %");
    cli_table_column(&table, "limit", "then");
    const struct bench_row *then = NULL;
    for (size_t i = 0; i < n; i++) {
        struct cli_table_row *row = counts(&rows[i]) ? cli_table_row(&table) : NULL;
        stk_verdict verdict;
        if (!row)
            continue;
        const double rate = rows[i].sum.figures.samples_per_s,
                     factor = then ? rate / then->sum.figures.samples_per_s : 1;
        if (then)
            changed(then->setting->label, rows[i].setting->label, row->cells[0], CLI_TABLE_CELL);
        else
            snprintf(row->cells[0], CLI_TABLE_CELL, "at first");
        snprintf(row->cells[1], CLI_TABLE_CELL, "%.0f", rate);
        snprintf(row->cells[2], CLI_TABLE_CELL, "%.2f", factor);
        if (then && fabs(all) > 1e-3)
            snprintf(row->cells[3], CLI_TABLE_CELL, "%.0f", 100 * log(factor) / all);
        else
            snprintf(row->cells[3], CLI_TABLE_CELL, "-");
        stk_judge(&rows[i].judged, &verdict);
        snprintf(row->cells[4], CLI_TABLE_CELL, "%s", stk_limit_name(verdict.limit));
        then = &rows[i];
    }
    cli_table_print(&table, width, out);
    cli_table_free(&table);
}
