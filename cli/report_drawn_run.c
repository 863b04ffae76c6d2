/* SPDX-License-Identifier: Apache-2.0 */
/* The charts of any run as drawings: timeline, waits, throughput, ledgers, what was sampled. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_drawn.h"

#define COLUMNS 1000 /* of the timeline */
#define PARTS   64   /* of a ledger */
#define EDGES   60   /* of bars of the timeline */
#define KEYS    4    /* of a line of its legend at least */
#define PLACES  160  /* of a line over time */

/* ---- The timeline ---------------------------------------------------------------------------- */

static const char *row_fill(struct svg *svg, const char *name, uint16_t row)
{
    static const char *const own[][2] = {{"setup", "--setup"},      {"get-batch", "--get"},
                                         {"train", "--train"},      {"epoch", "--epoch"},
                                         {"read", "--c0"},          {"validation", "--val"},
                                         {"sanity check", "--val"}, {"test", "--test"}};
    static const char *const others[] = {"--c2", "--c3", "--c4", "--c5", "--c6", "--c7"};

    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i][0], name) == 0)
            return svg_colour(own[i][1]);
    const int part = report_part(name);
    return part >= 0 ? svg_part_fill(svg, part) : svg_colour(others[row % 6]);
}

/* How busy each column of a row is with a bar. */
static void fill_columns(float busy[COLUMNS], const stk_report_bar *b, double low, double length)
{
    const double per = COLUMNS / length, from = fmax(0, (b->start - low) * per);
    const double to = fmin(COLUMNS, (b->start - low + (double)b->length) * per);
    const double share = b->length > 0 ? (double)(b->busy / b->length) : 1;

    for (size_t i = (size_t)from; i < COLUMNS && (double)i <= to; i++) {
        const double part = fmin((double)i + 1, to) - fmax((double)i, from);
        busy[i] += (float)fmax(part * share, 0.02);
    }
}

/* In tenths, so that neighbours are one piece. */
static float shade_of(float busy)
{
    return busy > 0 ? fmaxf(0.2F, fminf(1, roundf(busy * 10) / 10)) : 0;
}

static void put_row(struct svg *svg, const char *fill, double y, const float busy[COLUMNS])
{
    const double column = (svg->x.high - svg->x.low) / COLUMNS;

    for (size_t i = 0, end; i < COLUMNS; i = end) {
        const float shade = shade_of(busy[i]);
        for (end = i + 1; end < COLUMNS && shade_of(busy[end]) == shade; end++)
            ;
        if (shade > 0)
            svg_put_bar(svg, svg->x.low + (double)i * column, svg->x.low + (double)end * column,
                        y - 0.4, y + 0.4, fill, (double)shade);
    }
}

/* The bars of a run, and what they reach over. */
struct bars {
    const stk_report_bar *bars;
    uint64_t n;
    double low, high;
    size_t rows;
};

static struct bars bars_of(const struct drawn *d, uint64_t number, const stk_report_run *run)
{
    struct bars b = {.high = isfinite(run->total) ? run->total : 0};
    uint64_t all;

    b.bars = stk_report_bars(d->view->report, &all);
    while (all && b.bars->run != number) {
        b.bars++;
        all--;
    }
    for (; b.n < all && b.bars[b.n].run == number; b.n++) {
        const stk_report_bar *bar = &b.bars[b.n];
        b.low = fmin(b.low, bar->start);
        b.high = fmax(b.high, bar->start + (double)bar->length);
        b.rows += b.n == 0 || bar->row != b.bars[b.n - 1].row;
    }
    return b;
}

/* Where a few long bars of the row that ends before bar `end` begin, as those of epochs. */
static void put_edges(struct svg *svg, const struct bars *b, uint64_t end, double y)
{
    uint64_t first = end;

    while (first > 0 && b->bars[first - 1].row == b->bars[end - 1].row)
        first--;
    for (uint64_t i = first + 1; i < end && end - first <= EDGES; i++)
        svg_put_bar(svg, b->bars[i].start, b->bars[i].start, y - 0.4, y + 0.4, svg_colour("--edge"),
                    1);
}

static void draw_timeline(struct drawn *d, uint64_t number, const stk_report_run *run)
{
    const struct bars b = bars_of(d, number, run);
    struct svg *svg = &d->svg;
    float busy[COLUMNS];
    size_t row = 0;

    if (b.n == 0 || !(b.high > b.low) ||
        !drawn_begin(d, "Timeline", "fainter: at work for a part of the time",
                     140 + 34.0 * (double)b.rows, 110))
        return;
    svg->x = (struct svg_axis){.low = b.low, .high = b.high, .title = "time, s"};
    svg->y = (struct svg_axis){.low = 0, .high = (double)b.rows};
    svg_axes(svg, false);
    for (uint64_t i = 0; i < b.n; row++) {
        const uint16_t which = b.bars[i].row;
        const char *name = run->rows[which] ? run->rows[which] : "";
        const double y = svg->y.high - (double)row - 0.5;
        memset(busy, 0, sizeof busy);
        for (; i < b.n && b.bars[i].row == which; i++)
            fill_columns(busy, &b.bars[i], b.low, b.high - b.low);
        put_row(svg, row_fill(svg, name, which), y, busy);
        put_edges(svg, &b, i, y);
        svg_put_text(svg, svg->left - 8, svg_y(svg, y) + 4, "end", name);
    }
    drawn_end(d);
}

/* ---- Waits ----------------------------------------------------------------------------------- */

static void draw_waits(struct drawn *d, const stk_report_run *run)
{
    const stk_report_histogram *h = &run->histogram;
    struct svg *svg = &d->svg;
    char about[DRAWN_ABOUT], mean[48], most[48];
    uint64_t top = 0;

    for (int i = 0; i < STK_REPORT_BINS; i++)
        top = h->bins[i] > top ? h->bins[i] : top;
    report_seconds(mean, sizeof mean, run->wait.mean);
    report_seconds(most, sizeof most, h->most);
    snprintf(about, sizeof about, "mean %s; %" PRIu64 " longer than shown, up to %s", mean,
             h->beyond, most);
    if (top == 0 || !(h->edge > 0) || !drawn_begin(d, "Waits for a batch", about, 0, 64))
        return;
    svg->x = (struct svg_axis){.high = h->edge, .unit = SVG_SECONDS, .title = "wait"};
    svg->y = (struct svg_axis){.high = (double)top, .title = "steps"};
    svg_axes(svg, true);
    for (int i = 0; i < STK_REPORT_BINS; i++)
        if (h->bins[i])
            svg_put_bar(svg, h->edge * i / STK_REPORT_BINS, h->edge * (i + 1) / STK_REPORT_BINS, 0,
                        (double)h->bins[i], svg_colour("--bar"), 1);
    if (run->wait.mean <= h->edge)
        svg_put_bar(svg, run->wait.mean, run->wait.mean, 0, (double)top, svg_colour("--edge"), 1);
    drawn_end(d);
}

/* ---- Lines over time ------------------------------------------------------------------------- */

/* Some lines over time, of at most STK_REPORT_ROWS series. */
struct over {
    const char *name, *about;
    const char *keys[8], *colours[8];
    double *x, *y; /* PLACES + 1 values of each line */
    size_t n[8], lines;
    enum svg_unit unit;
    double end;
};

static bool over_begin(struct drawn *d, struct over *o)
{
    o->x = calloc((size_t)2 * 8 * 2 * PLACES, sizeof *o->x);
    o->y = o->x ? o->x + (size_t)8 * 2 * PLACES : NULL;
    if (!o->x) {
        cli_error("no memory for the charts in %s", d->folder);
        d->code = CLI_FAILED;
    }
    return o->x != NULL;
}

/* A value that holds from `at` to `to`. */
static void over_add(struct over *o, double at, double to, double value)
{
    const size_t i = o->lines * 2 * PLACES + o->n[o->lines];

    if (o->n[o->lines] + 2 > (size_t)2 * PLACES)
        return;
    o->x[i] = at;
    o->x[i + 1] = fmin(to, o->end);
    o->y[i] = o->y[i + 1] = value;
    o->n[o->lines] += 2;
}

static void over_draw(struct drawn *d, struct over *o)
{
    struct svg *svg = &d->svg;
    size_t some = 0;

    for (size_t k = 0; k < o->lines; k++)
        some += o->n[k];
    if (some && drawn_begin(d, o->name, o->about, 0, 78)) {
        svg->x = (struct svg_axis){.high = o->end, .title = "time, s"};
        svg->y = (struct svg_axis){.unit = o->unit};
        for (size_t k = 0; k < o->lines; k++)
            for (size_t i = 0; i < o->n[k]; i++) {
                const double value = o->y[k * 2 * PLACES + i];
                svg->y.high = fmax(svg->y.high, value);
                svg->y.low = fmin(svg->y.low, value);
            }
        svg_axes(svg, true);
        for (size_t k = 0; k < o->lines; k++) {
            const size_t from = k * 2 * PLACES;
            svg_put_line(svg, &(struct svg_line){.x = o->x + from,
                                                 .y = o->y + from,
                                                 .n = o->n[k],
                                                 .colour = o->colours[k]});
            if (o->lines > 1)
                svg_put_key(svg, o->keys[k], o->colours[k], "none");
        }
        drawn_end(d);
    }
    free(o->x);
}

/* Places joined until PLACES are left. */
static uint32_t stride_of(const stk_report_series *s)
{
    return (s->n + PLACES - 1) / PLACES;
}

static void draw_rates(struct drawn *d, const stk_report_run *run, bool waits)
{
    const stk_report_series *s = waits ? &run->wait_places : &run->step_places;
    const bool samples = isfinite(run->batch_size);
    struct over o = {.name = waits ? "Waiting" : "Throughput",
                     .about = waits     ? "share of the time that the step waited for its batch"
                              : samples ? "samples a second, as the steps ended"
                                        : "steps a second, as they ended",
                     .colours = {svg_colour("--c0")},
                     .unit = waits ? SVG_SHARE : SVG_NUMBER,
                     .end = run->total};
    const uint32_t by = stride_of(s);

    if (s->n == 0 || !isfinite(o.end) || !over_begin(d, &o))
        return;
    for (uint32_t i = 0; i < s->n; i += by) {
        const double at = i * s->width, to = (i + by) * s->width;
        double sum = 0, count = 0;
        for (uint32_t k = i; k < i + by && k < s->n; k++) {
            sum += s->sum[k];
            count += s->count[k];
        }
        const double long_as = fmax(1e-9, fmin(to, fmax(o.end, at + 1e-9)) - at);
        over_add(&o, at, to,
                 waits ? fmin(1, sum / long_as)
                       : count * (samples ? run->batch_size : 1) / long_as);
    }
    o.lines = 1;
    over_draw(d, &o);
}

static enum svg_unit unit_of(const char *name)
{
    return cli_ends_with(name, "bytes_per_s") || cli_ends_with(name, "_bps") ? SVG_BYTES_PER_S
           : cli_ends_with(name, "bytes")                                    ? SVG_BYTES
           : cli_ends_with(name, "share")                                    ? SVG_SHARE
           : cli_ends_with(name, "_s") || cli_ends_with(name, "seconds")     ? SVG_SECONDS
                                                                             : SVG_NUMBER;
}

/* Those of one group and unit, of which series `first` is the first; else nothing. */
static void draw_group(struct drawn *d, const stk_report_run *run, uint64_t first)
{
    static const char *const colours[] = {"--c0", "--c1", "--c2", "--c3",
                                          "--c4", "--c5", "--c6", "--c7"};
    const stk_report_series *f = &run->series[first];
    struct over o = {
        .name = f->group, .about = "over time", .unit = unit_of(f->name), .end = run->total};

    for (uint64_t i = 0; i < first; i++)
        if (!run->series[i].ledger && strcmp(run->series[i].group, f->group) == 0 &&
            unit_of(run->series[i].name) == o.unit)
            return;
    if (!isfinite(o.end) || !over_begin(d, &o))
        return;
    for (uint64_t k = first; k < run->num_series && o.lines < 8; k++) {
        const stk_report_series *s = &run->series[k];
        if (s->ledger || strcmp(s->group, f->group) != 0 || unit_of(s->name) != o.unit)
            continue;
        const uint32_t by = stride_of(s);
        for (uint32_t i = 0; i < s->n; i += by) {
            double sum = 0, count = 0;
            for (uint32_t p = i; p < i + by && p < s->n; p++) {
                sum += s->sum[p];
                count += s->count[p];
            }
            if (count > 0)
                over_add(&o, i * s->width, (i + by) * s->width, sum / count);
        }
        o.keys[o.lines] = s->name;
        o.colours[o.lines] = svg_colour(colours[o.lines]);
        o.lines++;
    }
    over_draw(d, &o);
}

/* ---- Ledgers --------------------------------------------------------------------------------- */

static double sum_of(const stk_report_series *s)
{
    double sum = 0;

    for (uint32_t i = 0; i < s->n; i++)
        sum += fmax(0, s->sum[i]);
    return sum;
}

static int by_sum(const void *a, const void *b)
{
    const double x = sum_of(*(const stk_report_series *const *)a),
                 y = sum_of(*(const stk_report_series *const *)b);

    return (x < y) - (x > y);
}

static void put_part_name(char *text, size_t size, const char *name)
{
    snprintf(text, size, "%s", name);
    for (char *c = text; *c; c++)
        *c = *c == '_' ? ' ' : *c;
}

/* A bar for each place, the greatest part at the bottom. */
static void put_parts(struct svg *svg, const stk_report_series *const *parts, size_t n,
                      const double *tops, uint32_t places)
{
    char name[STK_REPORT_NAME];

    svg->x = (struct svg_axis){
        .high = places * parts[0]->width, .title = places > 1 ? "epoch" : NULL, .whole = true};
    svg->y = (struct svg_axis){.unit = SVG_SECONDS};
    for (uint32_t i = 0; i < places; i++)
        svg->y.high = fmax(svg->y.high, 1.04 * tops[i]);
    svg_axes(svg, true);
    for (uint32_t i = 0; i < places; i++) {
        double from = 0;
        for (size_t k = 0; k < n; k++) {
            const double value = i < parts[k]->n ? fmax(0, parts[k]->sum[i]) : 0,
                         at = i * parts[0]->width, edge = 0.08 * parts[0]->width;
            put_part_name(name, sizeof name, parts[k]->name);
            if (value > 0)
                svg_put_bar(svg, at + edge, at + parts[0]->width - edge, from, from + value,
                            svg_part_fill(svg, report_part(name)), 1);
            from += value;
        }
    }
    for (size_t k = 0; k < n; k++) {
        put_part_name(name, sizeof name, parts[k]->name);
        svg_put_key(svg, name, svg_part_fill(svg, report_part(name)), NULL);
    }
}

/* The ledger of a group: "ledger.parts", "ledger.wait". */
static void draw_ledger(struct drawn *d, const stk_report_run *run, const char *group,
                        const char *name)
{
    const stk_report_series *parts[PARTS];
    char about[DRAWN_ABOUT] = "", said[48];
    uint32_t places = 0;
    double all = 0;
    size_t n = 0;

    for (uint64_t i = 0; i < run->num_series && n < PARTS; i++) {
        const stk_report_series *s = &run->series[i];
        if (!s->ledger || strcmp(s->group, group) != 0 || !(sum_of(s) > 0))
            continue;
        parts[n++] = s;
        all += sum_of(s);
        places = s->n > places ? s->n : places;
    }
    if (n == 0)
        return;
    qsort(parts, n, sizeof *parts, by_sum);
    report_seconds(said, sizeof said, all);
    snprintf(about, sizeof about, "%s in all", said);
    for (size_t k = 0; k < n && k < 3; k++) {
        const size_t used = strlen(about);
        put_part_name(said, sizeof said, parts[k]->name);
        snprintf(about + used, sizeof about - used, "%s%s %.1f %%", k ? ", " : ": ", said,
                 100 * sum_of(parts[k]) / all);
    }
    double *tops = calloc(places, sizeof *tops);
    for (size_t k = 0; k < n && tops; k++)
        for (uint32_t i = 0; i < parts[k]->n; i++)
            tops[i] += fmax(0, parts[k]->sum[i]);
    const double rows = SVG_KEY_HEIGHT * (double)((n - 1) / KEYS);
    if (tops && drawn_begin(d, name, about, SVG_HEIGHT + rows, 78)) {
        d->svg.bottom -= rows;
        d->svg.key_y -= rows;
        put_parts(&d->svg, parts, n, tops, places);
        drawn_end(d);
    }
    free(tops);
}

static bool has_group(const stk_report_run *run, const char *group)
{
    for (uint64_t i = 0; i < run->num_series; i++)
        if (run->series[i].ledger && strcmp(run->series[i].group, group) == 0 &&
            sum_of(&run->series[i]) > 0)
            return true;
    return false;
}

void drawn_run(struct drawn *d, uint64_t i)
{
    const stk_report_run *run = stk_report_run_at(d->view->report, i);

    draw_timeline(d, i, run);
    draw_waits(d, run);
    draw_rates(d, run, false);
    draw_rates(d, run, true);
    draw_ledger(d, run, has_group(run, "ledger.parts") ? "ledger.parts" : "ledger total.parts",
                "Where the time went");
    draw_ledger(d, run, has_group(run, "ledger.wait") ? "ledger.wait" : "ledger total.wait",
                "What the waits were for");
    for (uint64_t k = 0; k < run->num_series; k++)
        if (!run->series[k].ledger)
            draw_group(d, run, k);
}
