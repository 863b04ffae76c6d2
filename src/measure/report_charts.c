/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and settings -> the numbers that charts are drawn from, as JSON that a script may hold. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "measure/read.h"

#define MICRO        1e6
#define GROUPS_DRAWN 40

static void put(stk__text *out, const char *bytes)
{
    stk__text_put(out, bytes, strlen(bytes));
}

/* One beyond ASCII, of `n` bytes: in halves where it is beyond 16 bits. */
static void put_character(stk__text *out, const char *bytes, size_t n)
{
    uint32_t code = (uint8_t)bytes[0] & (0x7fu >> n);

    for (size_t i = 1; i < n; i++)
        code = code << 6 | (bytes[i] & 0x3f);
    if (code >= 0x10000)
        stk__text_add(out, "\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)));
    stk__text_add(out, "\\u%04x",
                  (unsigned)(code >= 0x10000 ? 0xdc00 + ((code - 0x10000) & 0x3ff) : code));
}

/* A string of ASCII alone, without what could end a script. */
void stk__charts_string(stk__text *out, const char *string)
{
    size_t left = strlen(string), n;

    put(out, "\"");
    for (; left; string += n, left -= n) {
        n = stk__utf8_character(string, left);
        if (n == 0) {
            n = 1;
            put(out, "\\ufffd");
        } else if (n > 1) {
            put_character(out, string, n);
        } else if (*string == '"' || *string == '\\') {
            stk__text_add(out, "\\%c", *string);
        } else if (*string < 0x20 || *string == 0x7f || strchr("<>&", *string)) {
            stk__text_add(out, "\\u%04x", *string);
        } else {
            stk__text_put(out, string, 1);
        }
    }
    put(out, "\"");
}

void stk__charts_number(stk__text *out, double value)
{
    char text[40];

    if (!isfinite(value)) {
        put(out, "null");
        return;
    }
    snprintf(text, sizeof text, "%.6g", value);
    for (char *p = text; *p; p++) {
        /* The point of a locale may be of several bytes. */
        const char *end = p + strcspn(p, "+-0123456789e");
        stk__text_put(out, end > p ? "." : p, 1);
        p = end > p ? (char *)(uintptr_t)end - 1 : p;
    }
}

/* A member of an object that is not its first. */
static void put_member(stk__text *out, const char *key, double value)
{
    stk__text_add(out, ",\"%s\":", key);
    stk__charts_number(out, value);
}

/* The next object of a list, which begins with a text. */
static void put_first(stk__text *out, bool next, const char *key, const char *value)
{
    stk__text_add(out, "%s{\"%s\":", next ? "," : "", key);
    stk__charts_string(out, value);
}

/* ---- Bars: varints as base64 ---------------------------------------------------------------- */

/* Three bytes at a time become four letters. */
typedef struct base64 {
    stk__text *out;
    uint32_t bits;
    int count;
} base64;

static void put_letters(base64 *b, int letters)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char four[4];

    for (int i = 0; i < 4; i++)
        four[i] = i < letters ? alphabet[b->bits >> (18 - 6 * i) & 63] : '=';
    stk__text_put(b->out, four, sizeof four);
    b->bits = 0;
    b->count = 0;
}

static void put_byte(base64 *b, uint8_t byte)
{
    b->bits |= (uint32_t)byte << (16 - 8 * b->count);
    if (++b->count == 3)
        put_letters(b, 4);
}

static void put_varint(base64 *b, uint64_t value)
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
static void put_lane(stk__text *out, const stk_report_bar *bars, uint64_t n, double first)
{
    base64 b = {.out = out};
    uint64_t last = 0;

    stk__text_add(out, "{\"n\":%" PRIu64 ",\"d\":\"", n);
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
    put(out, "\"}");
}

static void put_bars(stk__text *out, const stk_report_run *run, const stk_report_bar *bars,
                     uint64_t n, double first)
{
    put(out, "\"rows\":[");
    for (uint64_t i = 0; i < n;) {
        uint64_t row = bars[i].row;
        put_first(out, i > 0, "name", run->rows[row] ? run->rows[row] : "");
        put(out, ",\"lanes\":[");
        for (bool next = false; i < n && bars[i].row == row; next = true) {
            uint64_t from = i;
            while (i < n && bars[i].row == row && bars[i].lane == bars[from].lane)
                i++;
            put(out, next ? "," : "");
            put_lane(out, bars + from, i - from, first);
        }
        put(out, "]}");
    }
    put(out, "]");
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void put_places(stk__text *out, const stk_report_series *s)
{
    put(out, "\"width\":");
    stk__charts_number(out, s->width);
    stk__text_add(out, ",\"n\":%" PRIu32 ",\"sum\":[", s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        put(out, i ? "," : "");
        stk__charts_number(out, s->sum[i]);
    }
    put(out, "],\"count\":[");
    for (uint32_t i = 0; i < s->n; i++)
        stk__text_add(out, "%s%" PRIu32, i ? "," : "", s->count[i]);
    put(out, "]");
}

static void put_histogram(stk__text *out, const stk_report_run *run)
{
    const stk_report_histogram *h = &run->histogram;

    put(out, "\"hist\":{\"edge\":");
    stk__charts_number(out, h->edge);
    put_member(out, "most", h->most);
    put_member(out, "mean", run->wait.n ? run->wait.mean : 0);
    stk__text_add(out, ",\"beyond\":%" PRIu64 ",\"exact\":%s,\"bins\":[", h->beyond,
                  h->exact ? "true" : "false");
    for (int i = 0; i < STK_REPORT_BINS; i++)
        stk__text_add(out, "%s%" PRIu64, i ? "," : "", h->bins[i]);
    put(out, "],\"tail\":[");
    for (int i = 0; i < STK_REPORT_TAIL; i++)
        stk__text_add(out, "%s%" PRIu64, i ? "," : "", h->tail[i]);
    put(out, "]}");
}

static void put_series(stk__text *out, const stk_report_run *run)
{
    put(out, "\"series\":[");
    for (uint64_t i = 0; i < run->num_series; i++) {
        const stk_report_series *s = &run->series[i];
        put_first(out, i > 0, "group", s->group);
        put(out, ",\"name\":");
        stk__charts_string(out, s->name);
        stk__text_add(out, ",\"ledger\":%s,", s->ledger ? "true" : "false");
        put_places(out, s);
        put(out, "}");
    }
    put(out, "]");
}

static void put_run(const stk_report_run *run, const char *name, stk__text *out,
                    const stk_report_bar *bars, uint64_t n)
{
    double first = 0, last = isfinite(run->total) ? run->total : 0;

    for (uint64_t k = 0; k < n; k++) {
        first = fmin(first, bars[k].start);
        last = fmax(last, bars[k].start + (double)bars[k].length);
    }
    put(out, "{\"name\":");
    stk__charts_string(out, name);
    put_member(out, "first", first);
    put_member(out, "length", last);
    put_member(out, "batch", run->batch_size);
    put(out, ",");
    put_bars(out, run, bars, n, first);
    put(out, ",");
    put_histogram(out, run);
    put(out, ",\"steps\":{");
    put_places(out, &run->step_places);
    put(out, "},\"waits\":{");
    put_places(out, &run->wait_places);
    put(out, "},");
    put_series(out, run);
    put(out, ",");
    stk__charts_curves(out, run);
    put(out, "}");
}

static void put_groups(const stk_report_comparison *all, stk__text *out)
{
    put(out, "{\"groups\":[");
    for (uint64_t i = 0; i < all->num_groups && i < GROUPS_DRAWN; i++) {
        const stk_report_group *g = all->by_wait[i];
        put_first(out, i > 0, "name", g->name);
        put_member(out, "wait", g->wait);
        put_member(out, "per_step", g->per_step);
        put(out, "}");
    }
    stk__text_add(out, "],\"groups_left\":%" PRIu64,
                  all->num_groups > GROUPS_DRAWN ? all->num_groups - GROUPS_DRAWN : 0);
}

static void put_rungs(const stk_report_comparison *all, stk__text *out)
{
    stk__text_add(out, ",\"trainings\":%s,\"rungs\":[", all->trainings ? "true" : "false");
    for (uint64_t i = 0; i < all->num_rungs && all->ladder; i++) {
        const stk_report_rung *rung = all->rungs[i];
        put_first(out, i > 0, "name", rung->name);
        put_member(out, "speed", rung->speed);
        put_member(out, "factor", rung->factor);
        put_member(out, "share", rung->share);
        put(out, "}");
    }
    put(out, "]");
}

stk_status stk_report_charts(stk_report *report, const char **json, size_t *length, stk_error *err)
{
    const stk_report_comparison *all = stk__comparison_shown(report->comparison);
    stk__text *out = &report->charts;
    uint64_t n, at = 0;

    *json = NULL;
    *length = 0;
    STK_TRY(stk__context_check(report->ctx, err));
    if (!all)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "compare the settings of the logs before their charts are made");
    const stk_report_bar *bars = stk_report_bars(report, &n);
    stk__text_release(out);
    *out = (stk__text){.ctx = report->ctx};
    put_groups(all, out);
    put_rungs(all, out);
    stk__charts_overlaid(out, report);
    put(out, ",\"runs\":[");
    for (uint64_t i = 0; i < report->num_runs; i++) {
        uint64_t from = at;
        while (at < n && bars[at].run == i)
            at++;
        put(out, i ? ",\n" : "\n");
        /* A log without batches has no bars at all. */
        put_run(&report->runs[i]->out, all->names[i], out, n ? bars + from : NULL, at - from);
    }
    put(out, "]}");
    if (out->failed)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the charts");
    *json = out->bytes;
    *length = out->length;
    return STK_OK;
}
