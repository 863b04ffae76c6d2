/* SPDX-License-Identifier: Apache-2.0 */
/* The wait over workers and reads: of a tuner's grid, of settings in logs. */
#include "surface.h"

#include <inttypes.h>
#include <string.h>

#define PERCENT 100
#define DEEPEST 70 /* of the colour, percent: numbers stay legible on it */

static int64_t workers_of(const struct surface_cell *cell)
{
    return cell->workers;
}

static int64_t depth_of(const struct surface_cell *cell)
{
    return cell->depth;
}

static int64_t ahead_of(const struct surface_cell *cell)
{
    return cell->ahead;
}

static size_t values_of(const struct surface_cell *cells, size_t num,
                        int64_t (*value)(const struct surface_cell *), int64_t *out)
{
    size_t n = 0;

    for (size_t i = 0; i < num; i++) {
        const int64_t v = value(&cells[i]);
        size_t at = 0;
        while (at < n && out[at] < v)
            at++;
        if ((at < n && out[at] == v) || n == SURFACE_MOST)
            continue;
        memmove(out + at + 1, out + at, (n - at) * sizeof *out);
        out[at] = v;
        n++;
    }
    return n;
}

size_t surface_workers(const struct surface_cell *cells, size_t n, int64_t out[SURFACE_MOST])
{
    return values_of(cells, n, workers_of, out);
}

size_t surface_depths(const struct surface_cell *cells, size_t n, int64_t out[SURFACE_MOST])
{
    return values_of(cells, n, depth_of, out);
}

const struct surface_cell *surface_find(const struct surface_cell *cells, size_t n, int64_t workers,
                                        int64_t depth, int64_t ahead)
{
    const struct surface_cell *found = NULL;

    for (size_t i = 0; i < n; i++) {
        const struct surface_cell *c = &cells[i];
        if (c->workers == workers && c->depth == depth && c->ahead == ahead &&
            (!found || (found->moves && !c->moves) ||
             (found->moves == c->moves && c->run && !found->run)))
            found = c;
    }
    return found;
}

static void put_value(int64_t value, FILE *out)
{
    if (value < 0)
        fputs("auto", out);
    else
        fprintf(out, "%" PRId64, value);
}

static void put_cell(const struct surface_cell *c, FILE *out)
{
    if (!c) {
        fputs("<td>-</td>", out);
        return;
    }
    fprintf(out,
            "<td class=\"%s\" style=\"--share:%.0f\">%s%.1f %%%s<br><small>%.0f/s</small></td>",
            c->best      ? "best"
            : c->allowed ? ""
                         : "out",
            DEEPEST * c->wait_share, c->run ? "<b>" : "", PERCENT * c->wait_share,
            c->run ? "</b>" : "", c->samples_per_s);
}

static void put_table(const struct surface_cell *cells, size_t n, int64_t ahead, FILE *out)
{
    int64_t workers[SURFACE_MOST], depths[SURFACE_MOST];
    const size_t rows = surface_workers(cells, n, workers),
                 columns = surface_depths(cells, n, depths);

    fprintf(out,
            "<h3>prefetch_factor %" PRId64 "</h3>\n<div class=\"scroll\" tabindex=\"0\" "
            "role=\"region\" aria-label=\"Surface %" PRId64 "\"><table "
            "class=\"heat\"><thead><tr><th>workers</th>",
            ahead, ahead);
    for (size_t c = 0; c < columns; c++) {
        fputs("<th>io_depth ", out);
        put_value(depths[c], out);
        fputs("</th>", out);
    }
    fputs("</tr></thead><tbody>\n", out);
    for (size_t r = 0; r < rows; r++) {
        fputs("<tr><td>", out);
        put_value(workers[r], out);
        fputs("</td>", out);
        for (size_t c = 0; c < columns; c++)
            put_cell(surface_find(cells, n, workers[r], depths[c], ahead), out);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

void surface_put(const struct surface_cell *cells, size_t n, FILE *out)
{
    int64_t ahead[SURFACE_MOST];
    const size_t tables = values_of(cells, n, ahead_of, ahead);

    for (size_t i = 0; i < tables; i++)
        put_table(cells, n, ahead[i], out);
}
