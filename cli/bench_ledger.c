/* SPDX-License-Identifier: Apache-2.0 */
/* What the waits of a run were for. */
#include "bench.h"

#include "table.h"

/* Parts of less than this share are left out. */
#define LEAST 0.005

/* What a cache gave and saved. */
static void print_tiers(FILE *out, size_t width, const stk_figures *f)
{
    char text[512];

    if (stk_tiers_format(&f->tiers, text, sizeof text) > 0)
        cli_paragraph(out, width, 0, text);
}

void bench_all_reduce_print(FILE *out, size_t width, const struct bench_rows *rows)
{
    char text[STK_BENCH_LABEL + 256], size[32], least[32], most[32];

    for (size_t i = 0; i < rows->n; i++) {
        const struct bench_row *row = &rows->rows[i];
        const stk_bench_result *result = row->row.result;
        const stk_figures *f = row->row.judged;
        if (!row->row.ended || !row->setting.bench->all_reduce || !f->steps)
            continue;
        cli_short_number(least, sizeof least, 1e3 * result->all_reduce);
        cli_short_number(most, sizeof most, 1e3 * result->all_reduce_most);
        snprintf(text, sizeof text,
                 "%s: the all-reduce of %s takes %s ms of a step (%.1f %% of the time) in the "
                 "rank that comes last, %s ms in the one that waits longest for it.",
                 row->setting.label, stk_size_text((double)row->setting.bench->all_reduce, size),
                 least, 100 * result->all_reduce * (double)f->steps / f->wall, most);
        cli_paragraph(out, width, 0, text);
    }
}

void bench_ledger_print(FILE *out, size_t width, const struct bench_row *row)
{
    const stk_figures *f = row->row.judged;
    bool used[STK_WAIT_PARTS] = {false};
    char text[2048];
    stk_verdict verdict = {.struct_size = sizeof verdict};
    double all = 0;

    print_tiers(out, width, f);
    for (int i = 0; i < STK_WAIT_PARTS; i++)
        all += f->waits[i];
    /* The verdict's figure: what of it the loader does not know was waited for outside it. */
    stk_judge(f, &verdict);
    const double waited = verdict.lost_share * f->wall;
    const double outside = waited > all ? waited - all : 0;
    if (all <= 0 || waited < LEAST * f->wall)
        return;
    all += outside;
    int n = snprintf(text, sizeof text, "Of the waits (%.1f %% of the time) were for",
                     100 * verdict.lost_share);
    for (const char *part = " "; n > 0 && (size_t)n < sizeof text; part = ", ") {
        int most = -1;
        for (int i = 0; i < STK_WAIT_PARTS; i++)
            if (!used[i] && (most < 0 || f->waits[i] > f->waits[most]))
                most = i;
        if (most < 0 || f->waits[most] < LEAST * all)
            break;
        used[most] = true;
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s %.1f %%", part,
                      stk_wait_text((stk_wait)most), 100 * f->waits[most] / all);
    }
    if (n > 0 && (size_t)n < sizeof text && outside >= LEAST * all)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "%s the thread of the step itself, outside the loader, %.1f %%",
                      n > 0 && text[n - 1] == '%' ? "," : "", 100 * outside / all);
    if (n > 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, ".");
    cli_paragraph(out, width, 0, text);
}
