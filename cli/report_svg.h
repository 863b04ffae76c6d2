/* numbers -> a chart as SVG: what the drawings of `stoker report --figures` share */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CLI_REPORT_SVG_H
#define STK_CLI_REPORT_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SVG_WIDTH      720.0
#define SVG_HEIGHT     380.0 /* with one line of a legend */
#define SVG_KEY_HEIGHT 16.0

/* What a value is, for labels: a plain number, seconds, bytes, bytes a second, a share. */
enum svg_unit { SVG_NUMBER, SVG_SECONDS, SVG_BYTES, SVG_BYTES_PER_S, SVG_SHARE };

struct svg_axis {
    double low, high;
    enum svg_unit unit;
    const char *title; /* NULL: none */
    bool logarithmic;
    bool whole; /* labels are at whole numbers alone */
};

/* A chart that is being written. Its area is in pixels. */
struct svg {
    FILE *out;
    double width, height, left, top, right, bottom;
    struct svg_axis x, y;
    double key_x, key_y; /* where the next entry of the legend goes */
    uint32_t striped;    /* patterns that were written, by their numbers */
};

/* A line from place to place, which breaks where a value is no number. */
struct svg_line {
    const double *x, *y; /* of `n` values */
    size_t n;
    const char *colour; /* as svg_colour() gives it */
    const char *dash;   /* "7 4"; NULL: solid */
    bool stepped;       /* a value holds until the next */
    bool dots;
};

/* From now on charts are parts of a page, whose colours they have, light or dark; or files again.
 */
void svg_of_page(bool on);
/* A colour of the page by its name, a literal, "--train", as it is on light ground; grey where
 * there is none; in a page "var(--train)". Lives until svg_of_page(). */
const char *svg_colour(const char *name);
/* The fill of a part of a ledger by its number (report_part()): beyond the colours with stripes, as
 * on the page. */
const char *svg_part_fill(struct svg *svg, int part);
/* "1.38 s", "12.5 %", "3.2 MiB". */
void svg_label(char *text, size_t size, double value, enum svg_unit unit);

/* Begin: the ground, the title and what it shows in words. `height` 0: the usual. `left` is the
 * room for labels there. */
void svg_begin(struct svg *svg, FILE *out, const char *title, const char *about, double height,
               double left);
void svg_end(struct svg *svg);
/* Grid, labels and titles of both axes; without `y` only those of x. */
void svg_axes(struct svg *svg, bool y);
double svg_x(const struct svg *svg, double value);
double svg_y(const struct svg *svg, double value);
void svg_put_line(struct svg *svg, const struct svg_line *line);
/* What lies between two lines of the same places. */
void svg_put_band(struct svg *svg, const struct svg_line *low, const double *high);
/* A bar between values. */
void svg_put_bar(struct svg *svg, double x0, double x1, double y0, double y1, const char *colour,
                 double opacity);
/* A cross above the axis, where a value is no number. */
void svg_put_gap(struct svg *svg, double x, const char *colour);
/* A text at pixels; `anchor` is "start", "middle" or "end". */
void svg_put_text(struct svg *svg, double x, double y, const char *anchor, const char *text);
/* Pixels that an entry of the legend takes with the gap behind it. */
double svg_key_width(const char *text);
/* An entry of the legend below the chart: a square, or a line where `dash` is not NULL. */
void svg_put_key(struct svg *svg, const char *text, const char *colour, const char *dash);

#endif
