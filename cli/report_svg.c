/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of charts as SVG 1.1 without styles that a drawing program would not know. Colours are
 * those of the page, taken from its own style. */
#include "report_svg.h"

#include <math.h>
#include <string.h>

#include "report.h"

#define FONT       "font-family=\"system-ui, sans-serif\""
#define INK        "--ink"
#define COLOURS    64  /* more than the page has */
#define TEXT_PIXEL 6.6 /* a character of 12 pixels, about */

/* ---- Colours and labels ---------------------------------------------------------------------- */

/* The value behind a name in the style, the first: that of light ground. */
static void find_colour(const char *name, char *out, size_t size)
{
    const size_t length = strlen(name);
    const char *at = strstr(report_page_style(), name);

    while (at && at[length] != ':')
        at = strstr(at + 1, name);
    if (!at)
        return;
    at += length + 1;
    at += strspn(at, " ");
    snprintf(out, size, "%.*s", (int)strcspn(at, ";"), at);
}

/* Of the charts that are being drawn. */
static struct {
    bool of_page;
    struct {
        const char *name;
        char value[16];
    } found[COLOURS];
} colours;

void svg_of_page(bool on)
{
    memset(&colours, 0, sizeof colours);
    colours.of_page = on;
}

const char *svg_colour(const char *name)
{
    size_t i = 0;

    while (i < COLOURS - 1 && colours.found[i].name && strcmp(colours.found[i].name, name) != 0)
        i++;
    char *value = colours.found[i].value;
    const size_t size = sizeof colours.found[i].value;
    if (!colours.found[i].name) {
        snprintf(value, size, "#8a8f98");
        if (colours.of_page)
            snprintf(value, size, "var(%s)", name);
        else
            find_colour(name, value, size);
        colours.found[i].name = name;
    }
    return value;
}

const char *svg_part_fill(struct svg *svg, int part)
{
    static const char *const plain[] = {"--c0", "--c1", "--c2", "--c3",
                                        "--c4", "--c5", "--c6", "--c7"};
    static const char *const fills[] = {"url(#s0)", "url(#s1)", "url(#s2)", "url(#s3)",
                                        "url(#s4)", "url(#s5)", "url(#s6)", "url(#s7)"};
    const char *own = report_part_own(part);
    const int i = part < 0 ? 6 : part % 8;

    if (own || part < 8)
        return svg_colour(own ? own : plain[i]);
    if (!(svg->striped & 1U << i))
        fprintf(svg->out,
                "<defs><pattern id=\"s%d\" width=\"8\" height=\"8\" "
                "patternUnits=\"userSpaceOnUse\"><path d=\"M0 0h8v8h-8z\" fill=\"%s\"/><path "
                "d=\"M-2 6L6 -2M2 10L10 2\" stroke=\"%s\" stroke-width=\"2\"/></pattern></defs>\n",
                i, svg_colour(plain[i]), svg_colour("--panel"));
    svg->striped |= 1U << i;
    return fills[i];
}

static void label_bytes(char *text, size_t size, double value, const char *tail)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t i = 0;

    for (; fabs(value) >= 1000 && i + 1 < sizeof units / sizeof *units; i++)
        value /= 1024;
    snprintf(text, size, "%.3g %s%s", value, units[i], tail);
}

void svg_label(char *text, size_t size, double value, enum svg_unit unit)
{
    if (value == 0)
        snprintf(text, size, "0");
    else if (unit == SVG_SECONDS)
        report_seconds(text, size, value);
    else if (unit == SVG_BYTES || unit == SVG_BYTES_PER_S)
        label_bytes(text, size, value, unit == SVG_BYTES ? "" : "/s");
    else if (unit == SVG_SHARE)
        snprintf(text, size, "%.3g %%", 100 * value);
    else if (fabs(value) >= 1000 && fabs(value) < 1e7)
        snprintf(text, size, "%.0f", value);
    else
        snprintf(text, size, "%.3g", value);
}

/* ---- Begin and end --------------------------------------------------------------------------- */

void svg_begin(struct svg *svg, FILE *out, const char *title, const char *about, double height,
               double left)
{
    *svg = (struct svg){.out = out, .width = SVG_WIDTH, .height = height > 0 ? height : SVG_HEIGHT};
    svg->left = left;
    svg->top = 72;
    svg->right = SVG_WIDTH - 18;
    svg->bottom = svg->height - 62;
    svg->key_x = svg->left;
    svg->key_y = svg->bottom + 50;
    if (!colours.of_page)
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 "
            "0 %.0f %.0f\" role=\"img\">\n",
            svg->width, svg->height, svg->width, svg->height);
    report_put_text(out, "<title>", title, "</title>\n");
    report_put_text(out, "<desc>", about, "</desc>\n");
    fprintf(out, "<rect width=\"100%%\" height=\"100%%\" fill=\"%s\"/>\n", svg_colour("--page"));
    fprintf(out,
            "<text x=\"14\" y=\"26\" " FONT " font-size=\"16\" font-weight=\"600\" fill=\"%s\">",
            svg_colour(INK));
    report_put_text(out, "", title, "</text>\n");
    fprintf(out, "<text x=\"14\" y=\"46\" " FONT " font-size=\"12\" fill=\"%s\"",
            svg_colour("--soft"));
    /* One line: a long one is made as narrow as it has to be. */
    if ((double)strlen(about) * TEXT_PIXEL > svg->width - 28)
        fprintf(out, " textLength=\"%.0f\" lengthAdjust=\"spacingAndGlyphs\"", svg->width - 28);
    report_put_text(out, ">", about, "</text>\n");
}

void svg_end(struct svg *svg)
{
    fputs("</svg>\n", svg->out);
}

void svg_put_text(struct svg *svg, double x, double y, const char *anchor, const char *text)
{
    fprintf(svg->out,
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" " FONT " font-size=\"12\" fill=\"%s\">",
            x, y, anchor, svg_colour(INK));
    report_put_text(svg->out, "", text, "</text>\n");
}

double svg_key_width(const char *text)
{
    return 32 + TEXT_PIXEL * (double)strlen(text);
}

void svg_put_key(struct svg *svg, const char *text, const char *colour, const char *dash)
{
    const double wide = svg_key_width(text);

    if (svg->key_x + wide > svg->width && svg->key_x > svg->left) {
        svg->key_x = svg->left;
        svg->key_y += SVG_KEY_HEIGHT;
    }
    if (dash)
        fprintf(svg->out,
                "<path d=\"M%.1f %.1fh16\" stroke=\"%s\" stroke-width=\"2\" "
                "stroke-dasharray=\"%s\"/>\n",
                svg->key_x, svg->key_y - 4, colour, dash);
    else
        fprintf(svg->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"10\" fill=\"%s\"/>\n",
                svg->key_x, svg->key_y - 9, colour);
    svg_put_text(svg, svg->key_x + 20, svg->key_y, "start", text);
    svg->key_x += wide;
}

/* ---- Axes ------------------------------------------------------------------------------------ */

static double part_of(const struct svg_axis *axis, double value)
{
    if (axis->logarithmic)
        return log(value / axis->low) / log(axis->high / axis->low);
    return (value - axis->low) / (axis->high - axis->low);
}

double svg_x(const struct svg *svg, double value)
{
    return svg->left + part_of(&svg->x, value) * (svg->right - svg->left);
}

double svg_y(const struct svg *svg, double value)
{
    return svg->bottom - part_of(&svg->y, value) * (svg->bottom - svg->top);
}

/* From one line of the grid to the next: 1, 2 or 5 times a power of ten, of bytes of 1024, too. */
static double step_of(const struct svg_axis *axis, double most)
{
    double unit = 1, raw = (axis->high - axis->low) / most;

    while ((axis->unit == SVG_BYTES || axis->unit == SVG_BYTES_PER_S) && axis->high / unit >= 1000)
        unit *= 1024;
    raw /= unit;
    const double power = pow(10, floor(log10(raw)));
    const double factor = raw / power <= 1 ? 1 : raw / power <= 2 ? 2 : raw / power <= 5 ? 5 : 10;
    return axis->whole ? fmax(1, factor * power * unit) : factor * power * unit;
}

static void put_tick(struct svg *svg, bool across, double value)
{
    const struct svg_axis *axis = across ? &svg->x : &svg->y;
    char text[48];

    svg_label(text, sizeof text, fabs(value) < 1e-12 * axis->high ? 0 : value, axis->unit);
    const double at = across ? svg_x(svg, value) : svg_y(svg, value);
    if (across) {
        fprintf(svg->out, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"%s\"/>\n", at, svg->top,
                svg->bottom, svg_colour("--line"));
        svg_put_text(svg, at, svg->bottom + 16, at > svg->right - 12 ? "end" : "middle", text);
    } else {
        fprintf(svg->out, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"%s\"/>\n", svg->left, at,
                svg->right, svg_colour("--line"));
        svg_put_text(svg, svg->left - 6, at + 4, "end", text);
    }
}

static void put_ticks(struct svg *svg, bool across)
{
    const struct svg_axis *axis = across ? &svg->x : &svg->y;

    if (axis->logarithmic) {
        const double wide = axis->high / axis->low;
        for (double power = pow(10, floor(log10(axis->low))); power <= axis->high; power *= 10)
            for (int factor = 1; factor <= 5; factor += factor == 1 ? 1 : 3)
                if (power * factor >= axis->low && power * factor <= axis->high &&
                    (factor == 1 || wide < 1000))
                    put_tick(svg, across, power * factor);
        return;
    }
    const double step = step_of(axis, across ? 8 : 6);
    const double first = ceil(axis->low / step - 1e-9);
    for (int i = 0; i < 40 && (first + i) * step <= axis->high * (1 + 1e-9); i++)
        put_tick(svg, across, (first + i) * step);
}

/* An axis has some length. */
static void widen(struct svg_axis *axis)
{
    if (!isfinite(axis->low) || !isfinite(axis->high)) {
        axis->low = 0;
        axis->high = 1;
    }
    if (axis->logarithmic)
        axis->low = fmax(axis->low, 1e-300);
    if (!(axis->high > axis->low))
        axis->high = axis->low + (axis->low != 0 ? fabs(axis->low) : 1);
}

void svg_axes(struct svg *svg, bool y)
{
    widen(&svg->x);
    widen(&svg->y);
    put_ticks(svg, true);
    if (y)
        put_ticks(svg, false);
    fprintf(svg->out, "<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"%s\"/>\n", svg->left,
            svg->top, svg->bottom, svg->right, svg_colour("--soft"));
    if (svg->x.title)
        svg_put_text(svg, svg->right, svg->bottom + 32, "end", svg->x.title);
    if (svg->y.title && y)
        svg_put_text(svg, 14, svg->top - 4, "start", svg->y.title);
}

/* ---- What is drawn --------------------------------------------------------------------------- */

static bool is_drawn(const struct svg_line *line, size_t i)
{
    return isfinite(line->x[i]) && isfinite(line->y[i]);
}

void svg_put_line(struct svg *svg, const struct svg_line *line)
{
    bool drawn = false;

    fputs("<path d=\"", svg->out);
    for (size_t i = 0; i < line->n; i++) {
        const bool here = is_drawn(line, i);
        if (here && drawn && line->stepped)
            fprintf(svg->out, "H%.1f", svg_x(svg, line->x[i]));
        if (here)
            fprintf(svg->out, "%c%.1f %.1f", drawn ? 'L' : 'M', svg_x(svg, line->x[i]),
                    svg_y(svg, line->y[i]));
        drawn = here;
    }
    fprintf(svg->out, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"", line->colour);
    if (line->dash)
        fprintf(svg->out, " stroke-dasharray=\"%s\"", line->dash);
    fputs("/>\n", svg->out);
    for (size_t i = 0; i < line->n && line->dots; i++)
        if (is_drawn(line, i))
            fprintf(svg->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                    svg_x(svg, line->x[i]), svg_y(svg, line->y[i]), line->colour);
}

void svg_put_band(struct svg *svg, const struct svg_line *low, const double *high)
{
    const double least = 0.5;

    for (size_t i = 0; i < low->n; i++) {
        if (!is_drawn(low, i) || !isfinite(high[i]))
            continue;
        /* From the middle to the place before to that to the place behind. */
        const double x = svg_x(svg, low->x[i]);
        const double from = i ? (svg_x(svg, low->x[i - 1]) + x) / 2 : x - least;
        const double to = i + 1 < low->n ? (svg_x(svg, low->x[i + 1]) + x) / 2 : x + least;
        const double top = svg_y(svg, high[i]), bottom = svg_y(svg, low->y[i]);
        if (isfinite(from) && isfinite(to))
            fprintf(svg->out,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" "
                    "fill-opacity=\"0.25\"/>\n",
                    from, top, fmax(least, to - from), fmax(least, bottom - top), low->colour);
    }
}

void svg_put_bar(struct svg *svg, double x0, double x1, double y0, double y1, const char *colour,
                 double opacity)
{
    const double left = svg_x(svg, x0), right = svg_x(svg, x1), top = svg_y(svg, y1),
                 bottom = svg_y(svg, y0);

    fprintf(svg->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"",
            left, top, fmax(0.3, right - left), fmax(0.3, bottom - top), colour);
    if (opacity < 1)
        fprintf(svg->out, " fill-opacity=\"%.2f\"", opacity);
    fputs("/>\n", svg->out);
}

void svg_put_gap(struct svg *svg, double x, const char *colour)
{
    fprintf(svg->out, "<path d=\"M%.1f %.1fl8 8m0 -8l-8 8\" stroke=\"%s\" stroke-width=\"1.5\"/>\n",
            svg_x(svg, x) - 4, svg->bottom - 10, colour);
}
