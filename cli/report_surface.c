/* SPDX-License-Identifier: Apache-2.0 */
/* Logs whose settings differ in workers and reads, as those of 'stoker tune' and of a grid do: the
 * wait over both. */
#include <inttypes.h>
#include <math.h>
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

/* The settings of the log that were run; `cells` has room for all groups. */
static size_t cells_of_runs(const struct report_view *view, uint64_t file,
                            struct surface_cell *cells)
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

/* The grid of a tuning, as its page has it: settings with figures, and those that move only where
 * they were run. `cells` has room for all of them. */
static size_t cells_of_grid(const struct report_view *view, uint64_t file,
                            struct surface_cell *cells)
{
    const stk_report_grid_setting *g;
    size_t n = 0;

    for (uint64_t i = 0; (g = stk_report_grid_setting_at(view->report, i)); i++)
        if (g->file == file && g->samples_per_s > 0 && g->wait_share >= 0 && g->num_workers >= 0 &&
            (!g->auto_workers || g->runs))
            cells[n++] = (struct surface_cell){.workers = g->num_workers,
                                               .depth = g->io_depth,
                                               .ahead = g->prefetch_factor,
                                               .wait_share = g->wait_share,
                                               .samples_per_s = g->samples_per_s,
                                               .moves = g->auto_workers,
                                               .run = g->runs > 0,
                                               .allowed = g->allowed,
                                               .best = g->best};
    return n;
}

/* What there is to be drawn of a log. */
struct surface {
    struct surface_cell *cells; /* room for all logs */
    size_t n;                   /* 0: nothing */
    bool grid;                  /* they are a tuning's, predictions among them */
};

static struct surface_cell *room_of(const struct report_view *view)
{
    const uint64_t most = view->all->num_groups + stk_report_grid_settings(view->report);

    return calloc(most + 1, sizeof(struct surface_cell));
}

static void take_surface(const struct report_view *view, uint64_t file, struct surface *out)
{
    int64_t values[SURFACE_MOST];

    out->n = cells_of_grid(view, file, out->cells);
    out->grid = out->n > 0;
    if (out->grid)
        return;
    out->n = cells_of_runs(view, file, out->cells);
    /* Of one option alone the comparison of the settings says all. */
    if (!(surface_workers(out->cells, out->n, values) > 1 &&
          surface_depths(out->cells, out->n, values) > 1))
        out->n = 0;
}

bool report_has_surface(const struct report_view *view)
{
    struct surface s = {.cells = room_of(view)};

    for (uint64_t file = 0; s.cells && file < view->files && !s.n; file++)
        take_surface(view, file, &s);
    free(s.cells);
    return s.n > 0;
}

void report_surface_page(const struct report_view *view, FILE *out)
{
    struct surface s = {.cells = room_of(view)};

    if (!s.cells || !report_has_surface(view)) {
        free(s.cells);
        return;
    }
    fputs("<section id=\"surface\" aria-labelledby=\"surface-title\">\n<h2 "
          "id=\"surface-title\">Workers and reads</h2>\n",
          out);
    for (uint64_t file = 0; file < view->files; file++) {
        take_surface(view, file, &s);
        if (!s.n)
            continue;
        fprintf(out,
                "<p class=\"soft\">The share of the time that the step waits, and samples a "
                "second, of %s</p>\n",
                s.grid ? surface_grid_words : "the settings that were run. Framed: the fastest.");
        surface_put(s.cells, s.n, out);
    }
    fputs("</section>\n", out);
    free(s.cells);
}

/* ---- The grid of a tuning --------------------------------------------------------------------
 */

void report_grid_print(const struct report_view *view, FILE *out, size_t width)
{
    struct surface s = {.cells = room_of(view)};

    for (uint64_t file = 0; s.cells && file < view->files; file++) {
        take_surface(view, file, &s);
        if (!s.grid)
            continue;
        fputc('\n', out);
        cli_paragraph(out, width, 0,
                      "The grid of the tuning: the share of the time that the step waits, and "
                      "samples a second. (In brackets) it is predicted, and corrected by the runs "
                      "of its neighbours; x: beyond a limit, or another setting comes to the same; "
                      ">: what was chosen.");
        surface_print(s.cells, s.n, width, out);
    }
    free(s.cells);
}

static void json_count(FILE *out, const char *name, int64_t value)
{
    cli_json_member_number(out, name, value < 0 ? NAN : (double)value);
}

void report_grid_json(const struct report_view *view, FILE *out)
{
    const stk_report_grid_setting *g;

    for (uint64_t i = 0; (g = stk_report_grid_setting_at(view->report, i)); i++) {
        fputs(i ? ",\n{\"log\": " : "\n{\"log\": ", out);
        cli_json_string(out, stk_report_file_at(view->report, g->file)->name);
        fprintf(out, ", \"setting\": %" PRIu64 ", \"runs\": %" PRIu64, g->setting, g->runs);
        json_count(out, "num_workers", g->num_workers);
        json_count(out, "io_depth", g->io_depth);
        json_count(out, "prefetch_factor", g->prefetch_factor);
        fprintf(out,
                ", \"auto_workers\": %s, \"auto_depth\": %s, \"allowed\": %s, \"front\": %s, "
                "\"best\": %s",
                g->auto_workers ? "true" : "false", g->auto_depth ? "true" : "false",
                g->allowed ? "true" : "false", g->front ? "true" : "false",
                g->best ? "true" : "false");
        cli_json_member_number(out, "samples_per_s", g->samples_per_s);
        cli_json_member_number(out, "least", g->least);
        cli_json_member_number(out, "most", g->most);
        cli_json_member_number(out, "predicted_samples_per_s", g->predicted);
        cli_json_member_number(out, "wait_share", g->wait_share);
        cli_json_member_number(out, "wait_mean", g->wait);
        cli_json_member_number(out, "cpu_cores", g->cpu_cores);
        cli_json_member_number(out, "peak_bytes", g->peak_bytes);
        cli_json_member_number(out, "cost_per_million", g->cost);
        fputc('}', out);
    }
}
