/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of several ranks: who is waited for, what collectives cost, steps on one clock. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "report.h"
#include "report_svg.h"

#define RANKS_DRAWN 32
#define ROW         22.0 /* pixels of a rank */

static const stk_report_world *world_at(const struct report_view *view, uint64_t i)
{
    return view->all->worlds[i];
}

/* ---- Table ----------------------------------------------------------------------------------- */

static void put_rank(struct cli_table *table, const stk_report_world *w, const stk_report_rank *r)
{
    char name[48];

    snprintf(name, sizeof name, "%" PRId64 "%s", r->rank,
             w->straggler >= 0 && w->ranks[w->straggler] == r ? " (behind)" : "");
    struct cli_table_row *row = cli_table_begin(table, name);
    if (!row)
        return;
    row->name = NULL;
    row->link = r->run + 1;
    report_cell_seconds(row, r->wait);
    report_cell_seconds(row, r->step);
    report_cell_seconds(row, r->comm);
    report_cell_seconds(row, r->comm_wait);
    report_cell_seconds(row, r->own);
    report_cell_seconds(row, r->behind);
    report_cell_share(row, r->last_share);
    report_cell_seconds(row, r->cost);
    report_cell_seconds(row, r->offset);
    report_cell_seconds(row, r->scatter);
}

static struct cli_table table_of(const stk_report_world *w)
{
    static const char *const heads[][2] = {{"rank", ""},
                                           {"wait", "mean"},
                                           {"step", "mean"},
                                           {"collectives", "in a step"},
                                           {"waited", "in them"},
                                           {"own", "time"},
                                           {"behind", "the median"},
                                           {"ready", "last"},
                                           {"cost", "of a step"},
                                           {"clock", "offset"},
                                           {"clock", "within"}};
    struct cli_table table = {0};

    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cli_table_column(&table, heads[i][0], heads[i][1]);
    for (uint64_t i = 0; i < w->num_ranks; i++)
        put_rank(&table, w, w->ranks[i]);
    return table;
}

void report_ranks_print(const struct report_view *view, FILE *out, size_t width)
{
    for (uint64_t i = 0; i < view->all->num_worlds; i++) {
        const stk_report_world *w = world_at(view, i);
        struct cli_table table = table_of(w);
        fprintf(out, "\nRanks of %s:\n", w->name);
        cli_table_print(&table, width, out);
        cli_table_free(&table);
        cli_paragraph(out, width, 0, w->text);
        cli_paragraph(out, width, 0, w->clocks);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_rank(const struct report_view *view, const stk_report_rank *r, FILE *out)
{
    fprintf(out, "{\"rank\": %" PRId64, r->rank);
    cli_json_member_text(out, "name", view->all->names[r->run]);
    cli_json_member_number(out, "wait", r->wait);
    cli_json_member_number(out, "step", r->step);
    cli_json_member_number(out, "comm", r->comm);
    cli_json_member_number(out, "comm_wait", r->comm_wait);
    cli_json_member_number(out, "own", r->own);
    cli_json_member_number(out, "behind", r->behind);
    cli_json_member_number(out, "last_share", r->last_share);
    cli_json_member_number(out, "cost", r->cost);
    cli_json_member_number(out, "clock_offset", r->offset);
    cli_json_member_number(out, "clock_drift", r->drift);
    cli_json_member_number(out, "clock_scatter", r->scatter);
    fputc('}', out);
}

static void json_lined(const stk_report_world *w, FILE *out)
{
    fputs(", \"lined_up\": [", out);
    for (uint64_t i = 0; i < w->num_lined; i++) {
        const stk_report_lined *l = &w->lined[i];
        fprintf(out, "%s{\"rank\": %" PRId64 ", \"epoch\": %" PRId64 ", \"batch\": %" PRId64,
                i ? ",\n" : "\n", w->ranks[l->rank]->rank, l->epoch, l->batch);
        cli_json_member_number(out, "asked", l->asked);
        cli_json_member_number(out, "begin", l->begin);
        cli_json_member_number(out, "end", l->end);
        cli_json_member_number(out, "comm_wait", l->comm_wait);
        fputc('}', out);
    }
    fputc(']', out);
}

static void json_place(const stk_report_world *w, const char *name, int64_t place, FILE *out)
{
    fprintf(out, ", \"%s\": %" PRId64, name, place < 0 ? -1 : w->ranks[place]->rank);
}

void report_ranks_json(const struct report_view *view, FILE *out)
{
    for (uint64_t i = 0; i < view->all->num_worlds; i++) {
        const stk_report_world *w = world_at(view, i);
        fputs(i ? ",\n{\"name\": " : "\n{\"name\": ", out);
        cli_json_string(out, w->name);
        fprintf(out, ", \"world_size\": %" PRIu64 ", \"steps\": %" PRIu64 ", \"meets\": %s",
                w->world_size, w->steps, w->meets ? "true" : "false");
        cli_json_member_number(out, "cycle", w->cycle);
        cli_json_member_number(out, "skew_mean", w->skew.mean);
        cli_json_member_number(out, "skew_p50", w->skew.p50);
        cli_json_member_number(out, "skew_p95", w->skew.p95);
        cli_json_member_number(out, "skew_max", w->skew.max);
        cli_json_member_number(out, "lost_share", w->lost_share);
        cli_json_member_number(out, "comm_share", w->comm_share);
        cli_json_member_number(out, "comm_overlap", w->comm_overlap);
        cli_json_member_number(out, "comm_alone", w->comm_alone);
        json_place(w, "slowest", w->slowest, out);
        json_place(w, "straggler", w->straggler, out);
        cli_json_member_text(out, "cause", stk_straggling_name(w->cause));
        cli_json_member_text(out, "text", w->text);
        cli_json_member_text(out, "clocks", w->clocks);
        fputs(", \"ranks\": [", out);
        for (uint64_t k = 0; k < w->num_ranks; k++) {
            fputs(k ? ",\n" : "\n", out);
            json_rank(view, w->ranks[k], out);
        }
        fputc(']', out);
        json_lined(w, out);
        fputc('}', out);
    }
}

/* ---- Steps on one clock ---------------------------------------------------------------------- */

/* The ranks that are drawn: all, or those of the longest own time. True: `place` is one. */
static bool is_drawn(const stk_report_world *w, uint64_t place)
{
    uint64_t longer = 0;

    for (uint64_t i = 0; i < w->num_ranks; i++)
        longer += w->ranks[i]->own > w->ranks[place]->own ||
                  (w->ranks[i]->own == w->ranks[place]->own && i < place);
    return longer < RANKS_DRAWN;
}

static double rows_of(const stk_report_world *w)
{
    return (double)(w->num_ranks < RANKS_DRAWN ? w->num_ranks : RANKS_DRAWN);
}

/* From the first rank that asks for its batch to the last that ends, of the step whose ranks begin
 * at `first` of `lined`. */
struct span {
    double from, to;
};

static struct span span_of(const stk_report_world *w, uint64_t first)
{
    struct span span = {INFINITY, -INFINITY};

    for (uint64_t i = first; i < first + w->num_ranks; i++) {
        span.from = fmin(span.from, w->lined[i].asked);
        span.to = fmax(span.to, w->lined[i].end);
    }
    return span;
}

/* Of one rank. Steps that were left out of the logs' records lie between: each begins where the one
 * before ends. */
static void put_steps(struct svg *svg, const stk_report_world *w, uint64_t place, double y)
{
    double at = 0;

    for (uint64_t k = 0; k < w->num_lined; k += w->num_ranks) {
        const stk_report_lined *l = &w->lined[k + place];
        const struct span span = span_of(w, k);
        const double by = at - span.from,
                     comm = isfinite(l->comm_wait) ? fmin(l->comm_wait, l->end - l->begin) : 0;
        svg_put_bar(svg, l->asked + by, l->begin + by, y - 0.3, y + 0.3, svg_colour("--bar"), 1);
        svg_put_bar(svg, l->begin + by, l->end - comm + by, y - 0.3, y + 0.3, svg_colour("--train"),
                    1);
        svg_put_bar(svg, l->end - comm + by, l->end + by, y - 0.3, y + 0.3, svg_colour("--c6"), 1);
        at += span.to - span.from;
    }
}

static double length_of(const stk_report_world *w)
{
    double length = 0;

    for (uint64_t k = 0; k < w->num_lined; k += w->num_ranks) {
        const struct span span = span_of(w, k);
        length += span.to - span.from;
    }
    return length;
}

double report_lined_height(const stk_report_world *w)
{
    return 134 + ROW * rows_of(w);
}

void report_lined_draw(struct svg *svg, const stk_report_world *w)
{
    char text[48];

    svg->x = (struct svg_axis){.unit = SVG_SECONDS, .high = length_of(w)};
    svg->y = (struct svg_axis){.high = rows_of(w)};
    svg_axes(svg, false);
    double y = svg->y.high - 0.5;
    for (uint64_t i = 0; i < w->num_ranks; i++) {
        if (!is_drawn(w, i))
            continue;
        snprintf(text, sizeof text, "rank %" PRId64, w->ranks[i]->rank);
        svg_put_text(svg, svg->left - 8, svg_y(svg, y) + 4, "end", text);
        put_steps(svg, w, i, y--);
    }
    svg_put_key(svg, "wait for a batch", svg_colour("--bar"), NULL);
    svg_put_key(svg, "step", svg_colour("--train"), NULL);
    svg_put_key(svg, "waited in collectives", svg_colour("--c6"), NULL);
}

/* ---- Page ------------------------------------------------------------------------------------ */

static void put_chart(const stk_report_world *w, FILE *out)
{
    struct svg svg;

    if (w->num_lined == 0)
        return;
    fputs("<figure class=\"wide\"><div class=\"scroll\">", out);
    svg_of_page(true);
    svg_begin(&svg, out, REPORT_LINED_TITLE, REPORT_LINED_ABOUT, report_lined_height(w), 90);
    report_lined_draw(&svg, w);
    svg_end(&svg);
    svg_of_page(false);
    fputs("</div></figure>\n", out);
}

void report_ranks_page(const struct report_view *view, FILE *out)
{
    for (uint64_t i = 0; i < view->all->num_worlds; i++) {
        const stk_report_world *w = world_at(view, i);
        struct cli_table table = table_of(w);
        fputs(i ? "<section>\n<h2>Ranks of " : "<section id=\"ranks\">\n<h2>Ranks of ", out);
        report_put_text(out, "<bdi>", w->name, "</bdi></h2>\n");
        report_put_text(out, "<p class=\"verdict\">", w->text, "</p>\n");
        report_table_page(&table, "ranks", out);
        put_chart(w, out);
        report_put_text(out, "<p class=\"soft\">", w->clocks, "</p>\n</section>\n");
        cli_table_free(&table);
    }
}
