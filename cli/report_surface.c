/* SPDX-License-Identifier: Apache-2.0 */
/* Logs whose settings differ in workers and reads, as those of 'stoker tune' and of a grid do: the
 * wait over both. */
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "surface.h"

/* The value of an option of a run; -1: auto. False: the log does not say it. */
static bool value_of(const stk_report_run *run, const char *name, int64_t *out)
{
    for (uint64_t i = 0; i < run->num_settings; i++) {
        const char *value = run->settings[i].value;
        char *end;
        if (strcmp(run->settings[i].key, name) != 0)
            continue;
        *out = strtoll(value, &end, 10);
        if (strcmp(value, "auto") == 0)
            *out = -1;
        else if (end == value || *end || *out < 0)
            return false;
        return true;
    }
    return false;
}

/* What is known of the settings of a log; `cells` has room for all groups. */
static size_t cells_of(const struct report_view *view, uint64_t file, struct surface_cell *cells)
{
    double most = 0;
    size_t n = 0;

    for (uint64_t i = 0; i < view->all->num_groups; i++) {
        const stk_report_group *g = view->all->groups[i];
        const stk_report_run *run = stk_report_run_at(view->report, g->shown);
        struct surface_cell *c = &cells[n];
        *c = (struct surface_cell){
            .run = true, .allowed = true, .wait_share = run->wait_share, .samples_per_s = g->rate};
        if (g->file != file || !(g->rate > 0) || !(run->wait_share >= 0) ||
            !value_of(run, "num_workers", &c->workers) || !value_of(run, "io_depth", &c->depth) ||
            !value_of(run, "prefetch_factor", &c->ahead) || c->ahead < 0)
            continue;
        most = g->rate > most ? g->rate : most;
        n++;
    }
    for (size_t i = 0; i < n; i++)
        cells[i].best = cells[i].samples_per_s == most;
    return n;
}

/* Of one option alone the comparison of the settings says all. */
static bool is_surface(const struct surface_cell *cells, size_t n)
{
    int64_t values[SURFACE_MOST];

    return surface_workers(cells, n, values) > 1 && surface_depths(cells, n, values) > 1;
}

bool report_has_surface(const struct report_view *view)
{
    struct surface_cell *cells = calloc(view->all->num_groups + 1, sizeof *cells);
    bool has = false;

    for (uint64_t file = 0; cells && file < view->files && !has; file++)
        has = is_surface(cells, cells_of(view, file, cells));
    free(cells);
    return has;
}

void report_surface_page(const struct report_view *view, FILE *out)
{
    struct surface_cell *cells = calloc(view->all->num_groups + 1, sizeof *cells);

    if (!cells || !report_has_surface(view)) {
        free(cells);
        return;
    }
    fputs("<section id=\"surface\" aria-labelledby=\"surface-title\">\n<h2 "
          "id=\"surface-title\">Workers and reads</h2>\n<p class=\"soft\">The share of the time "
          "that the step waits, and samples a second, of the settings that were run. Framed: the "
          "fastest.</p>\n",
          out);
    for (uint64_t file = 0; file < view->files; file++) {
        const size_t n = cells_of(view, file, cells);
        if (is_surface(cells, n))
            surface_put(cells, n, out);
    }
    fputs("</section>\n", out);
    free(cells);
}
