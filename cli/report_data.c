/* SPDX-License-Identifier: Apache-2.0 */
/* Runs -> the numbers that the charts of the page are drawn from. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define MICRO 1e6

/* JSON inside a script: no '<' that could end it. */
static void put_string(FILE *out, const char *text)
{
    char *json = NULL;
    size_t size = 0;

    FILE *memory = open_memstream(&json, &size);
    if (memory)
        cli_json_string(memory, text);
    /* Without memory a name is empty. */
    bool good = memory && fclose(memory) == 0 && json;
    for (const char *p = good ? json : "\"\""; *p; p++)
        if (*p == '<' || *p == '>' || *p == '&')
            fprintf(out, "\\u%04x", *p);
        else
            fputc(*p, out);
    free(json);
}

static void put_number(FILE *out, double value)
{
    char text[32];

    if (isfinite(value))
        snprintf(text, sizeof text, "%.6g", value);
    fputs(isfinite(value) ? text : "null", out);
}

/* ---- Bars: varints as base64 ---------------------------------------------------------------- */

/* Three bytes at a time become four letters. */
struct base64 {
    FILE *out;
    uint32_t bits;
    int count;
};

static void put_letters(struct base64 *b, int letters)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (int i = 0; i < 4; i++)
        fputc(i < letters ? alphabet[b->bits >> (18 - 6 * i) & 63] : '=', b->out);
    b->bits = 0;
    b->count = 0;
}

static void put_byte(struct base64 *b, uint8_t byte)
{
    b->bits |= (uint32_t)byte << (16 - 8 * b->count);
    if (++b->count == 3)
        put_letters(b, 4);
}

static void put_varint(struct base64 *b, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        put_byte(b, (uint8_t)(value | 128));
    put_byte(b, (uint8_t)value);
}

/* Microseconds, at most 2^51: twice as much is still exact in a script. */
static uint64_t micros(double seconds)
{
    double value = seconds * MICRO;

    return value > 0 ? (uint64_t)fmin(value + 0.5, 0x1p51) : 0;
}

/* Each bar: start since the last one's, length * 2 + joined; joined ones: how many, how busy. */
static void put_lane(FILE *out, const stk_report_bar *bars, uint64_t n, double first)
{
    struct base64 b = {.out = out};
    uint64_t last = 0;

    fprintf(out, "{\"n\":%" PRIu64 ",\"d\":\"", n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t start = micros(bars[i].start - first);
        bool joined = bars[i].count > 1;
        start = start > last ? start : last;
        put_varint(&b, start - last);
        put_varint(&b, micros((double)bars[i].length) * 2 + joined);
        if (joined) {
            put_varint(&b, bars[i].count);
            put_varint(&b, micros((double)bars[i].busy));
        }
        last = start;
    }
    if (b.count)
        put_letters(&b, b.count + 1);
    fputs("\"}", out);
}

static void put_bars(FILE *out, const stk_report_run *run, const stk_report_bar *bars, uint64_t n,
                     double first)
{
    fputs("\"rows\":[", out);
    for (uint64_t i = 0; i < n;) {
        uint64_t row = bars[i].row;
        fputs(i ? ",{\"name\":" : "{\"name\":", out);
        put_string(out, run->rows[row] ? run->rows[row] : "");
        fputs(",\"lanes\":[", out);
        for (bool next = false; i < n && bars[i].row == row; next = true) {
            uint64_t from = i;
            while (i < n && bars[i].row == row && bars[i].lane == bars[from].lane)
                i++;
            fputs(next ? "," : "", out);
            put_lane(out, bars + from, i - from, first);
        }
        fputs("]}", out);
    }
    fputs("]", out);
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void put_places(FILE *out, const stk_report_series *s)
{
    fputs("\"width\":", out);
    put_number(out, s->width);
    fprintf(out, ",\"n\":%" PRIu32 ",\"sum\":[", s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        fputs(i ? "," : "", out);
        put_number(out, s->sum[i]);
    }
    fputs("],\"count\":[", out);
    for (uint32_t i = 0; i < s->n; i++)
        fprintf(out, "%s%" PRIu32, i ? "," : "", s->count[i]);
    fputs("]", out);
}

static void put_histogram(FILE *out, const stk_report_run *run)
{
    const stk_report_histogram *h = &run->histogram;

    fputs("\"hist\":{\"edge\":", out);
    put_number(out, h->edge);
    fputs(",\"most\":", out);
    put_number(out, h->most);
    fputs(",\"mean\":", out);
    put_number(out, run->wait.n ? run->wait.mean : 0);
    fprintf(out, ",\"beyond\":%" PRIu64 ",\"exact\":%s,\"bins\":[", h->beyond,
            h->exact ? "true" : "false");
    for (int i = 0; i < STK_REPORT_BINS; i++)
        fprintf(out, "%s%" PRIu64, i ? "," : "", h->bins[i]);
    fputs("],\"tail\":[", out);
    for (int i = 0; i < STK_REPORT_TAIL; i++)
        fprintf(out, "%s%" PRIu64, i ? "," : "", h->tail[i]);
    fputs("]}", out);
}

static void put_series(FILE *out, const stk_report_run *run)
{
    fputs("\"series\":[", out);
    for (uint64_t i = 0; i < run->num_series; i++) {
        const stk_report_series *s = &run->series[i];
        fputs(i ? ",{\"group\":" : "{\"group\":", out);
        put_string(out, s->group);
        fputs(",\"name\":", out);
        put_string(out, s->name);
        fprintf(out, ",\"ledger\":%s,", s->ledger ? "true" : "false");
        put_places(out, s);
        fputs("}", out);
    }
    fputs("]", out);
}

static void put_run(const struct report_view *view, FILE *out, uint64_t i,
                    const stk_report_bar *bars, uint64_t n)
{
    const stk_report_run *run = stk_report_run_at(view->report, i);
    double first = 0, last = isfinite(run->total) ? run->total : 0;

    for (uint64_t k = 0; k < n; k++) {
        first = fmin(first, bars[k].start);
        last = fmax(last, bars[k].start + (double)bars[k].length);
    }
    fputs("{\"name\":", out);
    put_string(out, view->all->names[i]);
    fputs(",\"first\":", out);
    put_number(out, first);
    fputs(",\"length\":", out);
    put_number(out, last);
    fputs(",\"batch\":", out);
    put_number(out, run->batch_size);
    fputs(",", out);
    put_bars(out, run, bars, n, first);
    fputs(",", out);
    put_histogram(out, run);
    fputs(",\"steps\":{", out);
    put_places(out, &run->step_places);
    fputs("},\"waits\":{", out);
    put_places(out, &run->wait_places);
    fputs("},", out);
    put_series(out, run);
    fputs("}", out);
}

#define GROUPS_DRAWN 40

static void put_groups(const struct report_view *view, FILE *out)
{
    fputs("{\"groups\":[", out);
    for (uint64_t i = 0; i < view->all->num_groups && i < GROUPS_DRAWN; i++) {
        const stk_report_group *g = view->all->by_wait[i];
        fputs(i ? ",{\"name\":" : "{\"name\":", out);
        put_string(out, g->name);
        fputs(",\"wait\":", out);
        put_number(out, g->wait);
        fputs(",\"per_step\":", out);
        put_number(out, g->per_step);
        fputs("}", out);
    }
    fprintf(out, "],\"groups_left\":%" PRIu64,
            view->all->num_groups > GROUPS_DRAWN ? view->all->num_groups - GROUPS_DRAWN : 0);
}

static void put_rungs(const struct report_view *view, FILE *out)
{
    fprintf(out, ",\"trainings\":%s,\"rungs\":[", view->all->trainings ? "true" : "false");
    for (uint64_t i = 0; i < view->all->num_rungs && view->all->ladder; i++) {
        const stk_report_rung *rung = view->all->rungs[i];
        fputs(i ? ",{\"name\":" : "{\"name\":", out);
        put_string(out, rung->name);
        fputs(",\"speed\":", out);
        put_number(out, rung->speed);
        fputs(",\"factor\":", out);
        put_number(out, rung->factor);
        fputs(",\"share\":", out);
        put_number(out, rung->share);
        fputs("}", out);
    }
    fputs("]", out);
}

void report_write_data(const struct report_view *view, FILE *out)
{
    uint64_t n, at = 0;
    const stk_report_bar *bars = stk_report_bars(view->report, &n);

    put_groups(view, out);
    put_rungs(view, out);
    fputs(",\"runs\":[", out);
    for (uint64_t i = 0; i < view->runs; i++) {
        uint64_t from = at;
        while (at < n && bars[at].run == i)
            at++;
        fputs(i ? ",\n" : "\n", out);
        put_run(view, out, i, bars + from, at - from);
    }
    fputs("]}", out);
}
