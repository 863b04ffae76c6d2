/* SPDX-License-Identifier: Apache-2.0 */
/* The wait over workers and reads: of a tuner's grid, of settings in logs. */
#include "surface.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PERCENT 100
#define DEEPEST 70 /* of the colour, percent: numbers stay legible on it */

const char surface_grid_words[] =
    "all settings of the grid. Bold: it was run; else predicted, and corrected by the runs of its "
    "neighbours. Struck out: beyond a limit, or another setting comes to the same. Framed: what "
    "was chosen.";

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

/* Where tables go: a page, or a terminal of so many columns. */
struct target {
    FILE *out;
    size_t width;
};

static void put_table(const struct surface_cell *cells, size_t n, const struct target *to)
{
    const int64_t ahead = cells->ahead;
    FILE *out = to->out;
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

/* A table of the cells of each number of batches ahead. */
static void each_table(const struct surface_cell *cells, size_t n, const struct target *to,
                       void (*put)(const struct surface_cell *cells, size_t n,
                                   const struct target *to))
{
    struct surface_cell *part = calloc(n + 1, sizeof *part);
    int64_t ahead[SURFACE_MOST];
    const size_t tables = values_of(cells, n, ahead_of, ahead);

    for (size_t i = 0; part && i < tables; i++) {
        size_t own = 0;
        for (size_t k = 0; k < n; k++)
            if (cells[k].ahead == ahead[i])
                part[own++] = cells[k];
        put(part, own, to);
    }
    free(part);
}

void surface_put(const struct surface_cell *cells, size_t n, FILE *out)
{
    each_table(cells, n, &(struct target){.out = out}, put_table);
}

/* ---- On a terminal --------------------------------------------------------------------------- */

static void print_cell(const struct surface_cell *c, struct cli_table_row *row)
{
    if (!c)
        cli_table_put(row, "-");
    else
        cli_table_put(row, "%s%s%.1f %% %.0f/s%s%s", c->best ? "> " : "", c->run ? "" : "(",
                      PERCENT * c->wait_share, c->samples_per_s, c->run ? "" : ")",
                      c->allowed ? "" : " x");
}

static void print_table(const struct surface_cell *cells, size_t n, const struct target *to)
{
    int64_t workers[SURFACE_MOST], depths[SURFACE_MOST];
    const size_t rows = surface_workers(cells, n, workers),
                 columns = surface_depths(cells, n, depths);
    struct cli_table table = {0};
    char text[32];

    snprintf(text, sizeof text, "prefetch_factor %" PRId64, cells->ahead);
    cli_table_column(&table, text, "num_workers");
    for (size_t c = 0; c < columns; c++) {
        snprintf(text, sizeof text, depths[c] < 0 ? "auto" : "%" PRId64, depths[c]);
        cli_table_column(&table, c ? "" : "io_depth", text);
    }
    for (size_t r = 0; r < rows; r++) {
        struct cli_table_row *row = cli_table_row(&table);
        cli_table_put(row, workers[r] < 0 ? "auto" : "%" PRId64, workers[r]);
        for (size_t c = 0; c < columns; c++)
            print_cell(surface_find(cells, n, workers[r], depths[c], cells->ahead), row);
    }
    cli_table_print(&table, to->width, to->out);
    cli_table_free(&table);
}

void surface_print(const struct surface_cell *cells, size_t n, size_t width, FILE *out)
{
    each_table(cells, n, &(struct target){.out = out, .width = width}, print_table);
}
