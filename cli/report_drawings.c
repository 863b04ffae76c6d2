/* SPDX-License-Identifier: Apache-2.0 */
/* The charts of the page as files: which there are, and what they are called. What is drawn for a
 * training is in report_drawn_curves.c, what is drawn for any run in report_drawn_run.c. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "report_drawn.h"

#define RUNS_DRAWN 40

/* ---- Files ----------------------------------------------------------------------------------- */

/* Small letters, digits and dashes: what a name of a log may be. */
static void put_slug(char *out, size_t size, const char *name)
{
    size_t n = strlen(out);

    for (; *name && n + 1 < size; name++) {
        const char c = *name >= 'A' && *name <= 'Z' ? (char)(*name + 'a' - 'A') : *name;
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            out[n++] = c;
        else if (n && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n && out[n - 1] == '-')
        n--;
    out[n] = '\0';
}

/* "loss.svg", of one of several runs "run-3-loss.svg", where that is there "run-3-loss-2.svg". */
static bool name_file(struct drawn *d, const char *name)
{
    char slug[DRAWN_NAME] = "";

    if (d->run >= 0)
        snprintf(slug, sizeof slug, "run-%" PRId64 "-", d->run);
    put_slug(slug, sizeof slug - 8, name);
    unsigned same = 1;
    for (size_t i = 0; i < d->files; i++)
        same += strcmp(d->names[i], slug) == 0;
    if (d->files == DRAWN_FILES)
        return false;
    memcpy(d->names[d->files++], slug, sizeof slug);
    const int n = same > 1
                      ? snprintf(d->path, sizeof d->path, "%s/%s-%u.svg", d->folder, slug, same)
                      : snprintf(d->path, sizeof d->path, "%s/%s.svg", d->folder, slug);
    return n > 0 && (size_t)n < sizeof d->path;
}

bool drawn_begin(struct drawn *d, const char *name, const char *about, double height, double left)
{
    if (d->code != CLI_GOOD)
        return false;
    if (!name_file(d, name)) {
        d->left_out++;
        return false;
    }
    d->file = (struct cli){.out_path = d->path, .quiet = true};
    const int code = cli_output_open(&d->file);
    if (code != CLI_GO_ON) {
        d->code = code;
        return false;
    }
    svg_begin(&d->svg, d->file.out, name, about, height, left);
    return true;
}

void drawn_end(struct drawn *d)
{
    svg_end(&d->svg);
    d->code = cli_output_close(&d->file, true);
}

/* ---- Settings and measures ------------------------------------------------------------------- */

/* Rows of bars from the top on: where the middle of row `i` is, as a value of the axis. */
static void row_axis(struct svg *svg, uint64_t rows)
{
    svg->y = (struct svg_axis){.low = 0, .high = (double)rows};
}

static double row_at(const struct svg *svg, uint64_t i)
{
    return svg->y.high - (double)i - 0.5;
}

static void put_row_name(struct svg *svg, uint64_t i, const char *name)
{
    const size_t length = strlen(name), most = 24;
    char text[64];

    /* The end tells settings apart. */
    snprintf(text, sizeof text, "%s%s", length > most ? "\xe2\x80\xa6" : "",
             length > most ? name + drawn_character(name, length - most) : name);
    svg_put_text(svg, svg->left - 8, svg_y(svg, row_at(svg, i)) + 4, "end", text);
}

static void draw_settings(struct drawn *d)
{
    const stk_report_comparison *all = d->view->all;
    const uint64_t rows = all->num_groups < RUNS_DRAWN ? all->num_groups : RUNS_DRAWN;
    struct svg *svg = &d->svg;

    if (all->num_groups < 2 ||
        !drawn_begin(d, "A step and its wait", "seconds a step, the shortest wait first",
                     140 + 26.0 * (double)rows, 180))
        return;
    svg->x = (struct svg_axis){.unit = SVG_SECONDS};
    for (uint64_t i = 0; i < rows; i++)
        if (isfinite(all->by_wait[i]->per_step))
            svg->x.high = fmax(svg->x.high, all->by_wait[i]->per_step);
    row_axis(svg, rows);
    svg_axes(svg, false);
    for (uint64_t i = 0; i < rows; i++) {
        const stk_report_group *g = all->by_wait[i];
        const double wait = isfinite(g->wait) ? g->wait : 0, y = row_at(svg, i);
        put_row_name(svg, i, g->name);
        svg_put_bar(svg, 0, wait, y - 0.35, y + 0.35, svg_colour("--bar"), 1);
        if (g->per_step > wait)
            svg_put_bar(svg, wait, g->per_step, y - 0.35, y + 0.35, svg_colour("--train"), 1);
    }
    svg_put_key(svg, "wait", svg_colour("--bar"), NULL);
    svg_put_key(svg, "step", svg_colour("--train"), NULL);
    drawn_end(d);
}

/* On a logarithmic axis lengths are shares of the speed-up. */
static void draw_measures(struct drawn *d)
{
    const stk_report_comparison *all = d->view->all;
    struct svg *svg = &d->svg;
    double least = INFINITY, most = 0;

    for (uint64_t i = 0; i < all->num_rungs; i++) {
        least = fmin(least, all->rungs[i]->speed);
        most = fmax(most, all->rungs[i]->speed);
    }
    if (!all->ladder || !(least > 0) || !isfinite(most) ||
        !drawn_begin(d, "What each measure adds", "equal factors are equally long; shares add up",
                     140 + 26.0 * (double)all->num_rungs, 200))
        return;
    svg->x = (struct svg_axis){.low = least / 1.5,
                               .high = most * 2.2,
                               .logarithmic = true,
                               .title = all->trainings ? "trainings a second" : "samples a second"};
    row_axis(svg, all->num_rungs);
    svg_axes(svg, false);
    for (uint64_t i = 0; i < all->num_rungs; i++) {
        const stk_report_rung *rung = all->rungs[i];
        const double from = i ? all->rungs[i - 1]->speed : svg->x.low, y = row_at(svg, i);
        char text[96] = "";
        put_row_name(svg, i, rung->name);
        svg_put_bar(svg, fmin(from, rung->speed), fmax(from, rung->speed), y - 0.35, y + 0.35,
                    svg_colour(!isfinite(rung->factor) ? "--c6"
                               : rung->factor < 1      ? "--beyond"
                                                       : "--bar"),
                    1);
        if (isfinite(rung->factor) && isfinite(rung->share))
            snprintf(text, sizeof text, "\xc3\x97%.3g, %.0f %%", rung->factor,
                     round(100 * rung->share) + 0.0);
        else if (isfinite(rung->factor))
            snprintf(text, sizeof text, "\xc3\x97%.3g", rung->factor);
        svg_put_text(svg, svg_x(svg, fmax(from, rung->speed)) + 6, svg_y(svg, y) + 4, "start",
                     text);
    }
    drawn_end(d);
}

static void draw_ranks(struct drawn *d)
{
    for (uint64_t i = 0; i < d->view->all->num_worlds; i++) {
        const stk_report_world *w = d->view->all->worlds[i];
        if (w->num_lined == 0 ||
            !drawn_begin(d, REPORT_LINED_TITLE, REPORT_LINED_ABOUT, report_lined_height(w), 90))
            continue;
        report_lined_draw(&d->svg, w);
        drawn_end(d);
    }
}

/* ---- All ------------------------------------------------------------------------------------- */

static bool is_drawn(const struct drawn *d, uint64_t i)
{
    for (uint64_t k = 0; k < d->view->all->num_groups && k < RUNS_DRAWN; k++)
        if (d->view->all->groups[k]->shown == i)
            return true;
    return false;
}

int report_drawings(const struct report_view *view, const char *folder)
{
    static struct drawn drawn;
    struct drawn *d = &drawn;
    uint64_t runs[DRAWN_RUNS];
    size_t n = 0;

    *d = (struct drawn){.view = view, .folder = folder, .run = -1, .code = CLI_GOOD};
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        cli_error("cannot make the folder %s for the charts: %s; its parent has to be there",
                  folder, strerror(errno));
        return CLI_FAILED;
    }
    for (uint64_t i = 0; i < view->runs && n < DRAWN_RUNS; i++)
        if (stk_report_overlaid(view->report, i))
            runs[n++] = i;
    if (n > 1)
        drawn_curves(d, runs, n);
    draw_settings(d);
    draw_measures(d);
    draw_ranks(d);
    for (uint64_t i = 0; i < view->runs; i++) {
        if (!is_drawn(d, i))
            continue;
        d->run = view->runs > 1 ? (int64_t)i : -1;
        drawn_curves(d, &i, 1);
        drawn_run(d, i);
    }
    if (d->left_out)
        cli_error("%zu charts more than %d are left out of %s: report fewer logs at a time",
                  d->left_out, DRAWN_FILES, folder);
    return d->code;
}
