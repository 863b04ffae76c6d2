/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of trainings as drawings: a chart for each metric. The page has the same rules
 * (report_training.js). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_drawn.h"

#define LINES 256 /* of one chart */
#define KEY   128
#define LEFT  64.0 /* of the area */

enum phase { PHASE_NONE, PHASE_TRAIN, PHASE_VAL, PHASE_TEST };

struct metric {
    char base[STK_REPORT_METRIC];
    enum phase phase;
};

struct curve_line {
    const char *run; /* its name */
    const stk_report_curve *curve;
    size_t number; /* of the run */
    struct metric metric;
    size_t extra; /* so many of its phase are before it */
};

size_t drawn_character(const char *text, size_t from)
{
    while (((unsigned char)text[from] & 0xc0) == 0x80)
        from++;
    return from;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Take an ending off. */
static void drop(char *text, const char *ending)
{
    if (cli_ends_with(text, ending))
        text[strlen(text) - strlen(ending)] = '\0';
}

static struct metric metric_of(const char *name)
{
    static const struct {
        const char *word;
        enum phase phase;
    } phases[] = {{"train", PHASE_TRAIN}, {"training", PHASE_TRAIN}, {"val", PHASE_VAL},
                  {"valid", PHASE_VAL},   {"validation", PHASE_VAL}, {"test", PHASE_TEST}};
    struct metric m = {.phase = PHASE_NONE};
    char plain[STK_REPORT_METRIC];

    const size_t rate = strncmp(name, "learning_rate", 13) == 0 ? 13
                        : strncmp(name, "lr", 2) == 0           ? 2
                                                                : 0;
    if (rate && (name[rate] == '\0' || strchr("-_/. ", name[rate]))) {
        snprintf(m.base, sizeof m.base, "learning rate");
        return m;
    }
    snprintf(plain, sizeof plain, "%s", name);
    char *loader = strstr(plain, "/dataloader_idx_");
    if (loader)
        *loader = '\0';
    drop(plain, " (epoch)");
    drop(plain, strstr(plain, "_epoch") ? "_epoch" : "_step");
    snprintf(m.base, sizeof m.base, "%s", plain);
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        const size_t n = strlen(phases[i].word);
        if (strncmp(plain, phases[i].word, n) == 0 && plain[n] && strchr("-_/. ", plain[n]) &&
            plain[n + 1]) {
            snprintf(m.base, sizeof m.base, "%s", plain + n + 1);
            m.phase = phases[i].phase;
        }
    }
    return m;
}

static const char *title_of(const char *base)
{
    return strcmp(base, "loss") == 0            ? "Loss"
           : strcmp(base, "acc") == 0           ? "Accuracy"
           : strcmp(base, "accuracy") == 0      ? "Accuracy"
           : strcmp(base, "learning rate") == 0 ? "Learning rate"
                                                : base;
}

static const char *colour_of(const struct curve_line *l, bool many)
{
    static const char *const runs[] = {"--r0", "--r1", "--r2", "--r3", "--r4",
                                       "--r5", "--r6", "--r7", "--r8"};
    static const char *const phases[] = {"--c0", "--train", "--val", "--test"};
    static const char *const more[] = {"--c0", "--c1", "--c2", "--c3",
                                       "--c4", "--c5", "--c6", "--c7"};

    if (many)
        return svg_colour(runs[l->number % 9]);
    if (l->metric.phase != PHASE_NONE && l->extra == 0)
        return svg_colour(phases[l->metric.phase]);
    return svg_colour(more[((l->metric.phase != PHASE_NONE ? 2 : 0) + l->extra) % 8]);
}

/* ---- One chart ------------------------------------------------------------------------------- */

static bool has_steps(const struct curve_line *l)
{
    for (uint64_t i = 0; i < l->curve->num_points; i++)
        if (isfinite(l->curve->points[i].step))
            return true;
    return false;
}

static void stretch(struct svg_axis *axis, double value)
{
    if (!isfinite(value))
        return;
    axis->low = fmin(axis->low, value);
    axis->high = fmax(axis->high, value);
}

static void set_axes(struct svg *svg, const struct curve_line *lines, size_t n, bool steps)
{
    svg->x = (struct svg_axis){.low = 0, .high = -INFINITY, .title = steps ? "step" : "epoch"};
    svg->y = (struct svg_axis){.low = INFINITY, .high = -INFINITY};
    for (size_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < lines[i].curve->num_points; k++) {
            const stk_report_point *p = &lines[i].curve->points[k];
            stretch(&svg->x, steps ? p->step : p->epoch);
            stretch(&svg->y, p->least);
            stretch(&svg->y, p->most);
        }
    if (strcmp(lines[0].metric.base, "learning rate") == 0)
        stretch(&svg->y, 0);
    const double edge = 0.04 * (svg->y.high - svg->y.low);
    if (edge > 0)
        svg->y.high += edge;
}

/* Places, means, least and greatest values of a line, `n` each; NULL: no memory. */
static double *arrays_of(const stk_report_curve *curve, bool steps)
{
    const size_t n = (size_t)curve->num_points;
    double *a = malloc(4 * (n + 1) * sizeof *a);

    for (size_t i = 0; a && i < n; i++) {
        const stk_report_point *p = &curve->points[i];
        a[i] = steps ? p->step : p->epoch;
        a[n + i] = p->mean;
        a[2 * n + i] = p->least;
        a[3 * n + i] = p->most;
    }
    return a;
}

static bool put_curve(struct svg *svg, const struct curve_line *l, bool many, bool steps)
{
    static const char *const dashes[] = {NULL, NULL, "7 4", "2 3"};
    const stk_report_curve *c = l->curve;
    const size_t n = (size_t)c->num_points;
    double *a = arrays_of(c, steps);

    if (!a)
        return false;
    struct svg_line line = {.x = a,
                            .y = a + n,
                            .n = n,
                            .colour = colour_of(l, many),
                            .dash = many ? dashes[l->metric.phase] : NULL,
                            .stepped = strcmp(l->metric.base, "learning rate") == 0,
                            .dots = n <= 60 && strcmp(l->metric.base, "learning rate") != 0 &&
                                    (l->metric.phase != PHASE_TRAIN || n < 3)};
    if (c->values > n) {
        struct svg_line low = line;
        low.y = a + 2 * n;
        svg_put_band(svg, &low, a + 3 * n);
    }
    svg_put_line(svg, &line);
    for (size_t i = 0; i < n; i++)
        if (c->points[i].gaps && isfinite(a[i]))
            svg_put_gap(svg, a[i], line.colour);
    free(a);
    return true;
}

static void key_of(const struct curve_line *l, bool many, char text[KEY])
{
    if (many)
        snprintf(text, KEY, "%.60s: %.40s", l->run, l->curve->name);
    else
        snprintf(text, KEY, "%.60s", l->curve->name);
}

/* Lines of the legend beyond the first. */
static double more_rows(const struct curve_line *lines, size_t n, bool many)
{
    double wide = 0, rows = 0;
    char text[KEY];

    for (size_t i = 0; i < n; i++) {
        key_of(&lines[i], many, text);
        const double key = svg_key_width(text);
        if (LEFT + wide + key > SVG_WIDTH && wide > 0) {
            wide = 0;
            rows++;
        }
        wide += key;
    }
    return rows;
}

static void put_keys(struct drawn *d, const struct curve_line *lines, size_t n, bool many)
{
    static const char *const dashes[] = {"none", "none", "7 4", "2 3"};
    char text[KEY];

    for (size_t i = 0; i < n; i++) {
        key_of(&lines[i], many, text);
        svg_put_key(&d->svg, text, colour_of(&lines[i], many),
                    many ? dashes[lines[i].metric.phase] : "none");
    }
}

static void draw_metric(struct drawn *d, const struct curve_line *lines, size_t n, bool many)
{
    char about[DRAWN_ABOUT] = "";
    uint64_t gaps = 0;
    bool steps = true;

    for (size_t i = 0; i < n; i++) {
        gaps += lines[i].curve->gaps;
        steps &= has_steps(&lines[i]);
        const size_t used = strlen(about);
        if (i < 4)
            snprintf(about + used, sizeof about - used, "%s%.60s: last %.6g", i ? "; " : "",
                     lines[i].curve->name, lines[i].curve->last);
    }
    if (gaps)
        snprintf(about + strlen(about), sizeof about - strlen(about), "; \xc3\x97: no number");
    const double rows = SVG_KEY_HEIGHT * more_rows(lines, n, many);
    if (!drawn_begin(d, title_of(lines[0].metric.base), about, SVG_HEIGHT + rows, LEFT))
        return;
    d->svg.bottom -= rows;
    d->svg.key_y -= rows;
    set_axes(&d->svg, lines, n, steps);
    svg_axes(&d->svg, true);
    for (size_t i = 0; i < n; i++)
        if (!put_curve(&d->svg, &lines[i], many, steps))
            d->code = CLI_FAILED;
    if (d->code == CLI_FAILED)
        cli_error("no memory for the chart %s", d->path);
    put_keys(d, lines, n, many);
    const int code = d->code;
    drawn_end(d);
    d->code = code != CLI_GOOD ? code : d->code;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* Every curve of the runs; how many. Without `out` they are counted. */
static size_t lines_of(const struct drawn *d, const uint64_t *runs, size_t n,
                       struct curve_line *out)
{
    size_t total = 0;

    for (size_t i = 0; i < n; i++) {
        const stk_report_run *run = stk_report_run_at(d->view->report, runs[i]);
        for (uint64_t k = 0; k < run->num_curves; k++, total++)
            if (out)
                out[total] = (struct curve_line){.run = d->view->all->names[runs[i]],
                                                 .curve = &run->curves[k],
                                                 .number = i,
                                                 .metric = metric_of(run->curves[k].name)};
    }
    return total;
}

void drawn_curves(struct drawn *d, const uint64_t *runs, size_t n)
{
    const size_t total = lines_of(d, runs, n, NULL);
    struct curve_line *all, *lines;

    all = malloc(2 * total * sizeof *all + 1);
    if (!all) {
        cli_error("no memory for the charts in %s", d->folder);
        d->code = CLI_FAILED;
        return;
    }
    lines = all + total;
    lines_of(d, runs, n, all);
    for (size_t i = 0; i < total; i++) {
        size_t used = 0;
        for (size_t k = 0; k < total && used < LINES; k++) {
            if (strcmp(all[k].metric.base, all[i].metric.base) != 0)
                continue;
            /* It was drawn with one before. */
            if (k < i)
                break;
            lines[used] = all[k];
            for (size_t p = 0; p < used; p++)
                lines[used].extra += lines[p].metric.phase == all[k].metric.phase;
            used++;
        }
        if (used)
            draw_metric(d, lines, used, n > 1);
    }
    free(all);
}
