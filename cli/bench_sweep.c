/* SPDX-License-Identifier: Apache-2.0 */
/* From which value on more of an option gives no more. */
#include <stdlib.h>

#include "bench.h"
#include "table.h"

static void print_option(FILE *out, size_t width, const stk_sweep_point *points, size_t n,
                         size_t from)
{
    char text[512];

    int used = snprintf(text, sizeof text, "No gain from %s %s on:", points[from].knob,
                        points[from].value);
    for (size_t i = from; i < n && (size_t)used < sizeof text; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s %.0f samples/s with %s",
                         i > from ? "," : "", points[i].samples_per_s, points[i].value);
    if ((size_t)used < sizeof text)
        snprintf(text + used, sizeof text - (size_t)used, ".");
    cli_paragraph(out, width, 0, text);
}

void bench_sweep_print(FILE *out, size_t width, const struct bench_rows *rows)
{
    const size_t room = stk_bench_plan_count(rows->plan->settings) + 1;
    stk_sweep_point *points = calloc(room, sizeof *points);
    size_t n, from;

    for (size_t k = 0;
         points && (n = stk_bench_plan_saturation(rows->plan->settings, k, points, room, &from));
         k++)
        if (from < n)
            print_option(out, width, points, n, from);
    free(points);
}
