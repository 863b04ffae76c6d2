/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that read over the network, next to those that are the same but for where data lies. */
#include "bench.h"

#include <string.h>

#include "table.h"

/* A label without its "dataset=...", into `text`. */
static void drop_dataset(const char *label, char *text, size_t size)
{
    const char *at = strstr(label, "dataset=");
    const char *end = at ? at + strcspn(at, " ") : NULL;

    if (at)
        snprintf(text, size, "%.*s%s", (int)(at - label), label, *end ? end + 1 : end);
    else
        snprintf(text, size, "%s", label);
}

static bool is_remote(const struct bench_row *row)
{
    return row->row.judged->network.reads > 0;
}

/* The setting that `remote` is compared with; NULL: there is none. */
static const struct bench_row *local_of(const struct bench_rows *rows,
                                        const struct bench_row *remote)
{
    char wanted[STK_BENCH_LABEL], label[STK_BENCH_LABEL];

    drop_dataset(remote->setting.label, wanted, sizeof wanted);
    for (size_t i = 0; i < rows->n; i++) {
        const struct bench_row *row = &rows->rows[i];
        if (!row->row.ended || row->setting.free_data || is_remote(row))
            continue;
        drop_dataset(row->setting.label, label, sizeof label);
        if (strcmp(label, wanted) == 0 &&
            strcmp(row->setting.dataset, remote->setting.dataset) != 0)
            return row;
    }
    return NULL;
}

void bench_network_print(FILE *out, size_t width, const struct bench_rows *rows)
{
    char text[3 * STK_BENCH_LABEL];

    for (size_t i = 0; i < rows->n; i++) {
        const struct bench_row *row = &rows->rows[i];
        const struct bench_row *local =
            row->row.ended && is_remote(row) ? local_of(rows, row) : NULL;
        const double rate = local ? local->row.figures->samples_per_s : 0;
        if (rate <= 0)
            continue;
        snprintf(text, sizeof text,
                 "Over the network: %s gives %.3g %% of the samples/s of %s; a read takes %.3g ms "
                 "instead of %.3g ms.",
                 row->setting.label, 100 * row->row.figures->samples_per_s / rate,
                 local->setting.label, 1e3 * row->row.judged->read_latency,
                 1e3 * local->row.judged->read_latency);
        cli_paragraph(out, width, 0, text);
    }
}
