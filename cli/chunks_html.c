/* SPDX-License-Identifier: Apache-2.0 */
/* Figures -> one page that needs nothing else: two charts as SVG, and the tables. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chunks.h"

#define TIMES "\xc3\x97" /* U+00D7 */

/* Units of a chart's viewBox. */
#define WIDTH      460.0
#define HEIGHT     372.0
#define LEFT       92.0
#define RIGHT      16.0
#define TOP        22.0
#define BOTTOM     118.0
#define MAX_TICKS  7  /* of the vertical axis */
#define MAX_LABELS 14 /* of the horizontal one */

/* Blue and orange that are told apart with any colour vision [Okabe, Ito 2008]. */
static const char style[] =
    ":root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#d5dae1;--page:#fff;"
    "--panel:#f6f7f9;--main:#0072b2;--band:#0072b22e;--mark:#b34700}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#a3adba;--line:#3a4350;"
    "--page:#14181e;--panel:#1d232b;--main:#56b4e9;--band:#56b4e938;--mark:#f0a030}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:75rem;padding:1.2rem;background:var(--page);color:var(--ink);"
    "font:1rem/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0}h2{font-size:1.1rem;margin:1.6rem 0 "
    ".5rem}\n"
    "p{max-width:46rem;margin:.5rem 0}.soft{color:var(--soft)}\n"
    ".charts{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),"
    "1fr))}\n"
    "figure{margin:0;padding:.7rem;background:var(--panel);border-radius:.5rem}"
    "figcaption{font-weight:600}\n"
    "svg{display:block;width:100%;height:auto}svg text{fill:var(--ink);font:12.5px system-ui,"
    "sans-serif}svg .soft{fill:var(--soft)}\n"
    "@media(max-width:34rem){svg text{font-size:15px}}\n"
    ".grid{stroke:var(--line)}.area{fill:var(--band)}.edge{fill:none;stroke:var(--main);"
    "stroke-dasharray:4 3}"
    ".curve{fill:none;stroke:var(--main);stroke-width:2.5}.dot{fill:var(--main)}\n"
    ".best{fill:none;stroke:var(--mark);stroke-width:2.5}.rule{stroke:var(--mark);"
    "stroke-dasharray:2 3}svg .word{fill:var(--mark);font-weight:600}\n"
    ".key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;margin:.6rem 0}.key svg{display:inline;"
    "width:2rem;height:.9rem;vertical-align:-.1rem}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.25rem .7rem;text-align:right;white-space:nowrap;border-bottom:1px solid "
    "var(--line)}th:first-child,td:first-child{text-align:left;padding-left:0}\n"
    "th{font-weight:600;vertical-align:bottom}tr.best td{font-weight:600}\n";

/* One chunk shape in the charts. */
struct point {
    const int64_t *chunk;
    const stk_chunks_counts *counts;
    bool best; /* the recommended one */
};

struct page {
    FILE *out;
    const struct chunks_task *task;
    const struct chunks_result *result;
    struct point points[CHUNKS_MAX_SHAPES + 1]; /* by size */
    size_t count;
};

static void put_shape(const struct page *p, const int64_t *sides)
{
    char text[CHUNKS_SHAPE_TEXT];

    chunks_shape_text(text, sides, p->task->question.rank, TIMES);
    fputs(text, p->out);
}

/* ---- Points ---------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const struct point *p = a, *q = b;

    if (p->counts->chunk_bytes != q->counts->chunk_bytes)
        return p->counts->chunk_bytes < q->counts->chunk_bytes ? -1 : 1;
    return p->counts->expected_chunks < q->counts->expected_chunks ? 1 : -1;
}

/* The shapes of the table and the recommended one, each once. */
static void gather(struct page *p)
{
    const struct chunks_task *task = p->task;
    const stk_chunks_cost *best = task->advise ? &p->result->answer.ranked[0] : NULL;
    size_t bytes = task->question.rank * sizeof(int64_t);
    bool there = false;

    for (size_t i = 0; i < task->num_shapes; i++) {
        bool is_best = best && memcmp(best->chunk, task->shapes[i], bytes) == 0;
        there |= is_best;
        p->points[p->count++] = (struct point){task->shapes[i], &p->result->counts[i], is_best};
    }
    if (best && !there)
        p->points[p->count++] = (struct point){best->chunk, &best->counts, true};
    qsort(p->points, p->count, sizeof *p->points, by_size);
}

/* ---- A chart --------------------------------------------------------------------------------- */

enum which { LEAST, EXPECTED, MOST };

struct chart {
    const struct page *page;
    const char *id, *title, *unit;
    bool bytes;
    double low, high; /* powers of two that the vertical axis begins and ends with */
    double step;      /* of them between two ticks */
};

static double value_of(const struct chart *c, size_t i, enum which which)
{
    const stk_chunks_counts *n = c->page->points[i].counts;

    if (c->bytes)
        return which == LEAST      ? (double)n->least_bytes
               : which == EXPECTED ? n->expected_bytes
                                   : (double)n->most_bytes;
    return which == LEAST      ? (double)n->least_chunks
           : which == EXPECTED ? n->expected_chunks
                               : (double)n->most_chunks;
}

static double x_of(const struct chart *c, size_t i)
{
    double room = WIDTH - LEFT - RIGHT, n = (double)c->page->count;

    return LEFT + room * ((double)i + 0.5) / n;
}

static double y_of(const struct chart *c, double value)
{
    double room = HEIGHT - TOP - BOTTOM;

    return TOP + room * (1 - (log2(fmax(value, 1)) - c->low) / (c->high - c->low));
}

static void scale(struct chart *c)
{
    double low = INFINITY, high = 0;

    for (size_t i = 0; i < c->page->count; i++) {
        low = fmin(low, log2(fmax(value_of(c, i, LEAST), 1)));
        high = fmax(high, log2(fmax(value_of(c, i, MOST), 1)));
    }
    c->step = fmax(1, ceil((high - low) / MAX_TICKS));
    c->low = floor(low / c->step) * c->step;
    c->high = fmax(ceil(high / c->step) * c->step, c->low + c->step);
}

static void value_text(const struct chart *c, double value, char text[32])
{
    if (c->bytes)
        stk_size_text(value, text);
    else if (value == floor(value) || value >= 1000)
        chunks_grouped(text, value);
    else
        snprintf(text, 32, "%.2f", value);
}

static void draw_axes(const struct chart *c)
{
    size_t every = (c->page->count + MAX_LABELS - 1) / MAX_LABELS;
    FILE *out = c->page->out;
    char text[32];

    for (double power = c->low; power <= c->high; power += c->step) {
        double y = y_of(c, exp2(power));
        value_text(c, exp2(power), text);
        fprintf(out,
                "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text class=\"soft\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, text);
    }
    for (size_t i = 0; i < c->page->count; i++) {
        double x = x_of(c, i) + 5, y = HEIGHT - BOTTOM + 16;
        if (i % every && !c->page->points[i].best)
            continue;
        fprintf(out,
                "<text class=\"%s\" text-anchor=\"end\" transform=\"translate(%.1f %.1f) "
                "rotate(-40)\">",
                c->page->points[i].best ? "word" : "soft", x, y);
        put_shape(c->page, c->page->points[i].chunk);
        fputs("</text>\n", out);
    }
    fprintf(out,
            "<text text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">chunk shape, by size</text>\n"
            "<text text-anchor=\"middle\" transform=\"translate(13 %.1f) rotate(-90)\">%s</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, TOP + (HEIGHT - TOP - BOTTOM) / 2, c->unit);
}

/* The points of one series as "x,y x,y", forwards or backwards. */
static void put_path(const struct chart *c, enum which which, bool back)
{
    size_t n = c->page->count;

    for (size_t k = 0; k < n; k++) {
        size_t i = back ? n - 1 - k : k;
        fprintf(c->page->out, "%.1f,%.1f ", x_of(c, i), y_of(c, value_of(c, i, which)));
    }
}

static void draw_series(const struct chart *c)
{
    FILE *out = c->page->out;

    fputs("<polygon class=\"area\" points=\"", out);
    put_path(c, MOST, false);
    put_path(c, LEAST, true);
    fputs("\"/>\n<polyline class=\"edge\" points=\"", out);
    put_path(c, MOST, false);
    fputs("\"/>\n<polyline class=\"edge\" points=\"", out);
    put_path(c, LEAST, false);
    fputs("\"/>\n<polyline class=\"curve\" points=\"", out);
    put_path(c, EXPECTED, false);
    fputs("\"/>\n", out);
}

static void draw_points(const struct chart *c)
{
    FILE *out = c->page->out;
    char least[32], expected[32], most[32];

    for (size_t i = 0; i < c->page->count; i++) {
        double x = x_of(c, i), y = y_of(c, value_of(c, i, EXPECTED));
        value_text(c, value_of(c, i, LEAST), least);
        value_text(c, value_of(c, i, EXPECTED), expected);
        value_text(c, value_of(c, i, MOST), most);
        if (c->page->points[i].best)
            fprintf(out,
                    "<line class=\"rule\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                    "<circle class=\"best\" cx=\"%.1f\" cy=\"%.1f\" r=\"7\"/>"
                    "<text class=\"word\" text-anchor=\"%s\" x=\"%.1f\" y=\"14\">recommended"
                    "</text>\n",
                    x, x, TOP, HEIGHT - BOTTOM, x, y, x < WIDTH * 0.75 ? "middle" : "end",
                    x < WIDTH * 0.75 ? fmax(x, LEFT + 30) : WIDTH - 4);
        fprintf(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>", x, y);
        put_shape(c->page, c->page->points[i].chunk);
        fprintf(out, ": expected %s, from %s to %s</title></circle>\n", expected, least, most);
    }
}

static void draw(struct chart *c)
{
    FILE *out = c->page->out;

    scale(c);
    fprintf(out,
            "<figure><figcaption>%s</figcaption>\n<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
            "aria-labelledby=\"%s\"><title id=\"%s\">%s against the chunk shape, logarithmic; the "
            "figures are in the table below</title>\n",
            c->title, WIDTH, HEIGHT, c->id, c->id, c->title);
    draw_axes(c);
    draw_series(c);
    draw_points(c);
    fputs("</svg></figure>\n", out);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void put_cell(FILE *out, double value)
{
    char text[32];

    chunks_grouped(text, value);
    fprintf(out, "<td>%s</td>", text);
}

static void put_counts(const struct page *p)
{
    FILE *out = p->out;

    fputs("<h2>Each chunk shape</h2>\n<div class=\"scroll\"><table><thead><tr><th>chunk</th>"
          "<th>min chunks</th><th>max chunks</th><th>min bytes</th><th>max bytes</th>"
          "<th>expected chunks</th><th>expected bytes</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < p->count; i++) {
        const stk_chunks_counts *c = p->points[i].counts;
        fprintf(out, "<tr%s><td>", p->points[i].best ? " class=\"best\"" : "");
        put_shape(p, p->points[i].chunk);
        fputs(p->points[i].best ? "<br><small>recommended</small></td>" : "</td>", out);
        put_cell(out, (double)c->least_chunks);
        put_cell(out, (double)c->most_chunks);
        put_cell(out, (double)c->least_bytes);
        put_cell(out, (double)c->most_bytes);
        if (c->expected_chunks < 1000)
            fprintf(out, "<td>%.2f</td>", c->expected_chunks);
        else
            put_cell(out, c->expected_chunks);
        put_cell(out, c->expected_bytes);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static void put_cost(const struct page *p, const char *place, const stk_chunks_cost *c)
{
    char size[32], bytes[32], typical[32], fast[32], slow[32], memory[32];

    stk_size_text((double)c->counts.chunk_bytes, size);
    stk_size_text(c->bytes, bytes);
    stk_size_text(c->memory, memory);
    chunks_seconds_text(typical, c->seconds[STK_CHUNKS_TYPICAL]);
    chunks_seconds_text(fast, c->seconds[STK_CHUNKS_FAST]);
    chunks_seconds_text(slow, c->seconds[STK_CHUNKS_SLOW]);
    fprintf(p->out, "<tr><td>%s</td><td>", place);
    put_shape(p, c->chunk);
    fprintf(p->out,
            "</td><td>%s</td><td>%.3g</td><td>%s</td><td>%s</td><td>%s to %s</td><td>%.1f&nbsp;%%"
            "</td><td>%s</td></tr>\n",
            size, c->requests, bytes, typical, fast, slow, 100 * c->regret, memory);
}

static void put_advice(const struct page *p)
{
    const stk_chunks_answer *answer = &p->result->answer;
    char place[16];

    fputs("<h2>What the recommendation is chosen from</h2>\n<div class=\"scroll\"><table><thead>"
          "<tr><th>place</th><th>chunk</th><th>of size</th><th>requests<br>a window</th>"
          "<th>bytes<br>a window</th><th>time<br>a window</th><th>over the<br>store's range</th>"
          "<th>loses<br>at most</th><th>memory,<br>decoded</th></tr></thead>\n<tbody>\n",
          p->out);
    for (uint32_t i = 0; i < answer->num_ranked && i < p->task->top; i++) {
        snprintf(place, sizeof place, "%" PRIu32, i + 1);
        put_cost(p, place, &answer->ranked[i]);
    }
    for (size_t i = 0; i < p->task->num_shapes && p->task->listed; i++)
        put_cost(p, "given", &p->result->costs[i]);
    fputs("</tbody></table></div>\n", p->out);
}

/* ---- The page -------------------------------------------------------------------------------- */

static void put_head(const struct page *p)
{
    const stk_chunks_question *q = &p->task->question;
    char words[CHUNKS_CONCLUSION];
    FILE *out = p->out;
    bool ends = false, strided = false;

    for (uint32_t i = 0; i < q->rank; i++) {
        ends |= q->extent[i] != 0;
        strided |= q->stride[i] != 1;
    }
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>Chunks "
          "for windows of ",
          out);
    put_shape(p, q->window);
    fprintf(out, "</title>\n<style>\n%s</style></head>\n<body>\n<h1>Chunks for windows of ", style);
    put_shape(p, q->window);
    fputs("</h1>\n<p class=\"soft\">", out);
    cli_html_string(out, p->task->element);
    fputs(" an element", out);
    if (q->ratio != 1)
        fprintf(out, "; codec ratio %g", q->ratio);
    if (strided)
        fputs("; windows begin at multiples of ", out), put_shape(p, q->stride);
    if (ends)
        fputs("; array of ", out), put_shape(p, q->extent);
    fputs(". Chunks are fetched whole; every place where a window can begin counts alike.</p>\n",
          out);
    if (p->task->advise) {
        fputs("<p>", out);
        if (p->task->measure)
            chunks_conclude(p->task, p->result, words, sizeof words);
        cli_html_string(out, p->task->measure ? words : p->result->answer.text);
        fputs("</p>\n", out);
    }
}

static void write_page(struct page *p)
{
    struct chart bytes = {.page = p,
                          .id = "b",
                          .title = "Bytes for one window",
                          .unit = "bytes fetched, log scale",
                          .bytes = true};
    struct chart chunks = {.page = p,
                           .id = "c",
                           .title = "Chunks for one window",
                           .unit = "chunks touched, log scale"};

    gather(p);
    put_head(p);
    fputs("<div class=\"key\"><span><svg viewBox=\"0 0 32 14\" aria-hidden=\"true\"><line "
          "class=\"curve\" x1=\"0\" x2=\"32\" y1=\"7\" y2=\"7\"/><circle class=\"dot\" cx=\"16\" "
          "cy=\"7\" r=\"4\"/></svg> expected</span><span><svg viewBox=\"0 0 32 14\" "
          "aria-hidden=\"true\"><rect class=\"area\" width=\"32\" height=\"14\"/><path "
          "class=\"edge\" d=\"M0 1h32M0 13h32\"/></svg> from least to most</span></div>\n"
          "<div class=\"charts\">\n",
          p->out);
    draw(&bytes);
    draw(&chunks);
    fputs("</div>\n", p->out);
    put_counts(p);
    if (p->task->advise)
        put_advice(p);
    fprintf(p->out, "<p class=\"soft\">stoker %s</p>\n</body></html>\n", stk_version());
}

int chunks_write_page(const struct cli *cli, const struct chunks_task *task,
                      const struct chunks_result *result)
{
    struct cli file = {.out_path = task->html, .quiet = cli->quiet};
    struct page page = {.task = task, .result = result};

    int code = cli_output_open(&file);
    if (code != CLI_GO_ON)
        return code;
    page.out = file.out;
    write_page(&page);
    return cli_output_close(&file, true);
}
