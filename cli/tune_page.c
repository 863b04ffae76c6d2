/* SPDX-License-Identifier: Apache-2.0 */
/* What a tuner found as a page: the surface over workers and reads, memory, what is worth its
 * memory. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "report_svg.h"
#include "surface.h"
#include "tune.h"

#define LEFT    72.0 /* of a chart, for labels */
#define DEPTHS  8    /* lines of a chart, each with a colour of its own */
#define LONGEST 256  /* places of a line */

struct page {
    const struct tune_view *view;
    stk_tune_point *points;     /* those with figures, within the grid */
    struct surface_cell *cells; /* the same */
    size_t n;
    const stk_tune_point *best; /* NULL: there is none */
    FILE *out;
};

static const char style[] =
    "figure svg{max-width:100%;height:auto}pre{overflow-x:auto;background:var(--panel);"
    "padding:.7rem;border-radius:.5rem}\n";

/* ---- Points -----------------------------------------------------------------------------------
 */

static int by_bytes(const void *a, const void *b)
{
    const stk_tune_point *p = a, *q = b;

    return (p->peak_bytes > q->peak_bytes) - (p->peak_bytes < q->peak_bytes);
}

static struct surface_cell cell_of(const stk_tune_point *q, uint64_t best)
{
    return (struct surface_cell){.workers = q->num_workers,
                                 .depth = q->io_depth,
                                 .ahead = q->prefetch_factor,
                                 .wait_share = q->wait_share,
                                 .samples_per_s = q->samples_per_s,
                                 .moves = q->auto_workers,
                                 .run = q->runs > 0,
                                 .allowed = q->allowed,
                                 .best = q->setting == best};
}

/* By their memory. */
static bool take_points(struct page *p)
{
    const size_t n = stk_tune_count(p->view->tune);

    p->points = calloc(n + 1, sizeof *p->points);
    p->cells = calloc(n + 1, sizeof *p->cells);
    if (!p->points || !p->cells)
        return false;
    for (size_t i = 0; i < n; i++) {
        stk_tune_point *point = &p->points[p->n];
        point->struct_size = sizeof *point;
        stk_tune_point_get(p->view->tune, i, point);
        p->n += point->samples_per_s > 0 && point->num_workers >= 0 &&
                (!point->auto_workers || point->runs);
    }
    qsort(p->points, p->n, sizeof *p->points, by_bytes);
    for (size_t i = 0; i < p->n; i++) {
        p->cells[i] = cell_of(&p->points[i], p->view->answer.best);
        if (p->cells[i].best)
            p->best = &p->points[i];
    }
    return true;
}

/* The point of a cell with these values; NULL: there is none. */
static const stk_tune_point *find(const struct page *p, int64_t workers, int64_t depth)
{
    const struct surface_cell *cell =
        surface_find(p->cells, p->n, workers, depth, p->best->prefetch_factor);

    return cell ? &p->points[cell - p->cells] : NULL;
}

/* ---- Charts -----------------------------------------------------------------------------------
 */

static void put_chart(struct page *p, const char *title, const char *about,
                      void (*draw)(struct page *p, struct svg *svg))
{
    struct svg svg;

    fputs("<figure>", p->out);
    svg_of_page(true);
    svg_begin(&svg, p->out, title, about, 0, LEFT);
    draw(p, &svg);
    svg_end(&svg);
    svg_of_page(false);
    fputs("</figure>\n", p->out);
}

static double wait_of(const stk_tune_point *q)
{
    return q->wait_share;
}

static double bytes_of(const stk_tune_point *q)
{
    return q->peak_bytes;
}

static double most_of(const struct page *p, double (*figure)(const stk_tune_point *))
{
    double most = 0;

    for (size_t i = 0; i < p->n; i++)
        most = fmax(most, figure(&p->points[i]));
    return most > 0 ? most : 1;
}

/* Over workers, a line for each number of reads, with as many batches ahead as the best has. */
static void draw_over_workers(const struct page *p, struct svg *svg, enum svg_unit unit,
                              const char *title, double (*figure)(const stk_tune_point *))
{
    static const char *const colours[DEPTHS] = {"--c0", "--c1", "--c2", "--c3",
                                                "--c4", "--c5", "--c6", "--c7"};
    int64_t workers[SURFACE_MOST], depths[SURFACE_MOST];
    const size_t num = surface_workers(p->cells, p->n, workers),
                 lines = surface_depths(p->cells, p->n, depths);
    double x[SURFACE_MOST], y[SURFACE_MOST];
    char name[64];

    svg->x = (struct svg_axis){.low = 0,
                               .high = num ? (double)workers[num - 1] : 1,
                               .title = "num_workers",
                               .whole = true};
    svg->y = (struct svg_axis){.low = 0, .high = most_of(p, figure), .unit = unit, .title = title};
    svg->x.high = fmax(svg->x.high, 1);
    svg_axes(svg, true);
    for (size_t k = 0; k < lines && k < DEPTHS; k++) {
        const char *colour = svg_colour(colours[k]);
        size_t used = 0;
        for (size_t i = 0; i < num; i++) {
            const stk_tune_point *q = find(p, workers[i], depths[k]);
            if (!q)
                continue;
            x[used] = (double)workers[i];
            y[used++] = figure(q);
        }
        if (!used)
            continue;
        const struct svg_line line = {.x = x, .y = y, .n = used, .colour = colour, .dots = true};
        svg_put_line(svg, &line);
        snprintf(name, sizeof name, "io_depth %" PRId64, depths[k]);
        svg_put_key(svg, name, colour, NULL);
    }
}

static void draw_wait(struct page *p, struct svg *svg)
{
    draw_over_workers(p, svg, SVG_SHARE, "time that the step waits", wait_of);
}

static void draw_memory(struct page *p, struct svg *svg)
{
    draw_over_workers(p, svg, SVG_BYTES, "memory", bytes_of);
}

/* All settings, and those that no other is faster than with as little memory. */
static void draw_front(struct page *p, struct svg *svg)
{
    double x[LONGEST], y[LONGEST];
    size_t used = 0;

    svg->x = (struct svg_axis){
        .low = 0, .high = most_of(p, bytes_of), .unit = SVG_BYTES, .title = "memory"};
    svg->y = (struct svg_axis){.low = 0, .title = "samples/s"};
    for (size_t i = 0; i < p->n; i++)
        svg->y.high = fmax(svg->y.high, p->points[i].samples_per_s);
    svg_axes(svg, true);
    for (size_t i = 0; i < p->n; i++) {
        const stk_tune_point *q = &p->points[i];
        const struct svg_line dot = {.x = &q->peak_bytes,
                                     .y = &q->samples_per_s,
                                     .n = 1,
                                     .dots = true,
                                     .colour = svg_colour(q->runs ? "--train" : "--c6")};
        svg_put_line(svg, &dot);
        if (q->front && used < LONGEST) {
            x[used] = q->peak_bytes;
            y[used++] = q->samples_per_s;
        }
    }
    const struct svg_line front = {
        .x = x, .y = y, .n = used, .stepped = true, .colour = svg_colour("--c0")};
    svg_put_line(svg, &front);
    svg_put_key(svg, "run", svg_colour("--train"), NULL);
    svg_put_key(svg, "predicted", svg_colour("--c6"), NULL);
    svg_put_key(svg, "not beaten with as little memory", svg_colour("--c0"), "");
}

/* ---- Tables -----------------------------------------------------------------------------------
 */

static void put_surfaces(const struct page *p)
{
    fprintf(p->out,
            "<section><h2>All settings of the grid</h2>\n<p class=\"soft\">The share of the time "
            "that the step waits, and samples a second, of %s</p>\n",
            surface_grid_words);
    surface_put(p->cells, p->n, p->out);
    fputs("</section>\n", p->out);
}

/* ---- The page ---------------------------------------------------------------------------------
 */

/* Data and step, as the table has them. */
static void put_work(const struct page *p, const stk_bench_setting *setting)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);

    if (!memory)
        return;
    bench_work_print(p->view->cli, memory, setting);
    if (fclose(memory) == 0 && length > 2) {
        text[length - 2] = 0; /* ", " */
        report_put_text(p->out, "<p class=\"soft\">Measured: ", text, "</p>\n");
    }
    free(text);
}

static void put_head(const struct page *p)
{
    const stk_bench_setting setting = bench_setting(p->view->plan, 0);
    stk_machine machine = {.struct_size = sizeof machine};
    char text[1024];

    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
          "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n",
          p->out);
    report_put_text(p->out, "<title>Settings for ", setting.dataset, "</title>\n<style>\n");
    fprintf(p->out, "%s%s</style></head>\n<body><main>\n", report_page_style(), style);
    report_put_text(p->out, "<h1>Settings for ", setting.dataset, "</h1>\n");
    report_put_text(p->out, "<p class=\"verdict\">", p->view->answer.text, "</p>\n");
    put_work(p, &setting);
    stk_machine_get(p->view->cli->config_context, NULL, &machine);
    stk_machine_summary(&machine, text, sizeof text);
    report_put_text(p->out, "<p class=\"soft\">Machine: ", text, "</p>\n");
}

static void put_measured(const struct page *p)
{
    struct cli_table table = {0};

    tune_table(p->view, &table);
    fputs("<section><h2>What was run</h2>\n", p->out);
    report_table_page(&table, "run", p->out);
    fputs("</section>\n", p->out);
    cli_table_free(&table);
}

static void put_line(void *out, const char *line)
{
    report_put_text(out, "", line, "\n");
}

static void write_page(struct page *p)
{
    put_head(p);
    put_measured(p);
    if (p->best) {
        fputs("<section><h2>The surface</h2>\n", p->out);
        put_chart(p, "Wait", "with as many batches ahead as the chosen setting has", draw_wait);
        put_chart(p, "Memory", "with as many batches ahead as the chosen setting has", draw_memory);
        fputs("</section>\n", p->out);
    }
    put_surfaces(p);
    if (p->best) {
        fputs("<section><h2>Configuration</h2>\n<pre>", p->out);
        (void)tune_write(p->view, put_line, p->out);
        fputs("</pre></section>\n", p->out);
    }
    /* Last, as it puts the points in another order. */
    fputs("<section><h2>What memory buys</h2>\n", p->out);
    put_chart(p, "Samples a second over memory", "each dot is a setting within the grid",
              draw_front);
    fprintf(p->out,
            "</section>\n<p class=\"soft\">Made by stoker %s tune. This page needs nothing but "
            "itself.</p>\n</main></body></html>\n",
            stk_version());
}

int tune_write_page(const struct tune_view *view, const char *path)
{
    struct cli file = {.out_path = path, .quiet = view->cli->quiet};
    struct page page = {.view = view};

    int code = cli_output_open(&file);
    if (code != CLI_GO_ON)
        return code;
    page.out = file.out;
    const bool good = take_points(&page);
    if (good)
        write_page(&page);
    else
        cli_error("no memory for the page %s", path);
    free(page.points);
    free(page.cells);
    code = cli_output_close(&file, good);
    return good ? code : CLI_FAILED;
}
