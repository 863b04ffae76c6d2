/* SPDX-License-Identifier: Apache-2.0 */
/* The stores that have a name, and the paragraph that says why. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <stoker/options.h>

#include "array/chunks_advise.h"

#define GB 1e9
#define MB 1e6
#define MS 1e-3
#define US 1e-6

/*
 * The one place of these figures; docs/chunks.md shows them. Latency of the disk: half a turn at
 * 7,200 a minute is 4.17 ms, a seek 4 to 12 ms. S3: first byte 100 to 200 ms, 85 to 90 MB/s for
 * each request [Amazon S3 performance guidelines]; 32 requests in flight [TensorStore]; 0.0004
 * dollars for 1,000 GET requests [Amazon S3 prices, Standard, us-east-1]. All else is assumed.
 * The first is the default.
 */
static const stk_chunks_store stores[] = {
    {32,
     {60 * US, 100 * US, 250 * US},
     {0.5 * GB, 3 * GB, 7 * GB},
     0,
     "ssd",
     "assumed: SATA to NVMe, read at random"},
    {1,
     {8 * MS, 12 * MS, 16 * MS},
     {100 * MB, 200 * MB, 250 * MB},
     0,
     "disk",
     "one arm at 7,200 turns a minute: half a turn is 4.17 ms; seek and bandwidth are assumed"},
    {8,
     {0.3 * MS, 1 * MS, 5 * MS},
     {110 * MB, 500 * MB, 1.1 * GB},
     0,
     "nfs",
     "assumed: 1 to 10 Gbit/s Ethernet, a server with its data in memory or on SSD"},
    {32,
     {20 * MS, 100 * MS, 200 * MS},
     {0.3 * GB, 1 * GB, 2.7 * GB},
     0.4,
     "s3",
     "first byte after 100 to 200 ms, 85 MB/s for each of 32 requests (Amazon's guidelines), "
     "0.0004 "
     "dollars for 1,000 requests (Standard, us-east-1); the lower ends and 1 GB/s are assumed"},
};

const stk_chunks_store *stk_chunks_stores(size_t *count)
{
    *count = STK_COUNT(stores);
    return stores;
}

stk_status stk_chunks_store_find(const char *name, const stk_chunks_store **out, stk_error *err)
{
    const char *names[STK_COUNT(stores)];
    char known[64] = "";
    size_t used = 0;

    for (size_t i = 0; i < STK_COUNT(stores); i++) {
        names[i] = stores[i].name;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 stores[i].name);
        *out = &stores[i];
        if (strcmp(stores[i].name, name) == 0)
            return STK_OK;
    }
    *out = NULL;
    const char *nearest = stk_nearest_name(name, names, STK_COUNT(stores));
    return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                     "there is no store '%.60s'; there are %s%s%s%s", name, known,
                     nearest ? "; did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?" : "");
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* A text being written; what does not fit is cut. */
typedef struct words {
    char *text;
    size_t size, used;
} words;

static void say(words *w, const char *format, ...) STK_PRINTF(2, 3);

static void say(words *w, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int length = vsnprintf(w->text + w->used, w->size - w->used, format, args);
    va_end(args);
    if (length > 0)
        w->used = STK_MIN(w->used + (size_t)length, w->size - 1);
}

/* Three significant digits, or all before the point. */
static void say_number(words *w, double value)
{
    if (value < 99.95)
        say(w, "%.3g", value);
    else
        say(w, "%.0f", value);
}

static void say_unit(words *w, double value, const char *const *units, size_t count, double step)
{
    size_t i = 0;

    while (i + 1 < count && value >= step * 0.9995)
        value /= step, i++;
    say_number(w, value);
    say(w, " %s", units[i]);
}

static void say_bytes(words *w, double bytes)
{
    char text[32];

    say(w, "%s", stk_size_text(bytes, text));
}

static void say_seconds(words *w, double seconds)
{
    static const char *const units[] = {"ns", "\xc2\xb5s", "ms", "s"};

    say_unit(w, seconds * 1e9, units, STK_COUNT(units), 1000);
}

static void say_rate(words *w, double rate)
{
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};

    say_unit(w, rate, units, STK_COUNT(units), 1000);
}

static void say_shape(words *w, const int64_t *shape, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        say(w, "%s%lld", i ? "\xc3\x97" : "", (long long)shape[i]);
}

/* "1.3 times the requests", "the same requests". */
static void say_times(words *w, double factor, const char *what)
{
    if (fabs(factor - 1) < 0.005)
        say(w, "the same %s", what);
    else
        say_number(w, factor), say(w, " times the %s", what);
}

/* ---- The paragraph --------------------------------------------------------------------------- */

static void say_shares(words *w, const stk_chunks_cost *c)
{
    double all = c->seconds[STK_CHUNKS_TYPICAL] / 100;

    if (c->requests < 0.1)
        say(w, "one request for %.0f windows", 1 / c->requests);
    else
        say_number(w, c->requests), say(w, " requests");
    say(w, " (%.0f %% of the time), ", c->wait_seconds / all);
    say_bytes(w, c->bytes);
    say(w, " to fetch (%.0f %%)", c->transfer_seconds / all);
    if (c->decode_seconds > 0)
        say(w, " and to decode (%.0f %%)", c->decode_seconds / all);
    say(w, ", and ");
    say_bytes(w, (double)c->counts.window_bytes);
    say(w, " to copy (%.0f %%). ", c->copy_seconds / all);
}

static void say_regret(words *w, const stk_chunks_store *s, const stk_chunks_cost *c)
{
    bool range = s->latency.low < s->latency.high || s->bandwidth.low < s->bandwidth.high;

    if (range) {
        say(w, "Wherever the store lies between ");
        say_seconds(w, s->latency.low);
        say(w, " and ");
        say_seconds(w, s->latency.high);
        say(w, " of latency and ");
        say_rate(w, s->bandwidth.low);
        say(w, " and ");
        say_rate(w, s->bandwidth.high);
        say(w, " of bandwidth, ");
    }
    if (c->regret < 0.0005)
        say(w, "%so candidate is faster. ", range ? "n" : "N");
    else
        say(w, "%s loses at most %.1f %% against the best candidate%s. ", range ? "it" : "It",
            100 * c->regret, range ? " there" : "");
}

/* Windows that begin in one chunk, on average over whole chunks. */
static double windows_of_block(const stk_chunks_question *q, const stk_chunks_cost *c)
{
    double windows = 1;

    for (uint32_t i = 0; i < q->rank; i++) {
        stk__chunks_axis axis;
        stk__chunks_axis_count(q->window[i], c->chunk[i], q->extent[i], q->stride[i], &axis);
        windows *= (double)axis.positions / (double)axis.blocks;
    }
    return windows;
}

static void say_memory(words *w, const stk_chunks_question *q, const stk_chunks_cost *c)
{
    if (q->access == STK_CHUNKS_BLOCK)
        say(w, "A shuffle buffer of %llu blocks of ", (unsigned long long)q->shuffle_buffer),
            say_number(w, windows_of_block(q, c)), say(w, " windows holds ");
    else if (q->access == STK_CHUNKS_SEQUENTIAL)
        say(w, "The chunks kept for the windows to come are ");
    else
        say(w, "The chunks of one window are at most ");
    say_bytes(w, c->memory);
    say(w, " of the ");
    say_bytes(w, (double)q->memory_budget);
    say(w, " allowed, decoded. ");
}

static void say_runner_up(words *w, uint32_t rank, const stk_chunks_cost *best,
                          const stk_chunks_cost *next)
{
    double slower = next->seconds[STK_CHUNKS_TYPICAL] / best->seconds[STK_CHUNKS_TYPICAL] - 1;

    say(w, "The runner-up, ");
    say_shape(w, next->chunk, rank);
    say(w, ", has ");
    say_times(w, next->requests / best->requests, "requests");
    say(w, ", ");
    say_times(w, next->bytes / best->bytes, "bytes");
    say(w, " and ");
    say_times(w, next->memory / best->memory, "memory");
    if (fabs(slower) < 0.0005)
        say(w, "; it is as fast in the typical case");
    else
        say(w, "; it is %.1f %% %s in the typical case", 100 * fabs(slower),
            slower > 0 ? "slower" : "faster");
    if (next->regret < 0.0005)
        say(w, " and never loses.");
    else
        say(w, " and loses at most %.1f %%.", 100 * next->regret);
}

void stk__chunks_explain(const stk_chunks_question *q, stk_chunks_answer *answer)
{
    static const char *const access[] = {"random windows", "windows in sequence",
                                         "windows by block shuffle"};
    const stk_chunks_cost *best = &answer->ranked[0];
    words w = {.text = answer->text, .size = sizeof answer->text};

    say(&w, "Chunks of ");
    say_shape(&w, best->chunk, q->rank);
    say(&w, " (");
    say_bytes(&w, (double)best->counts.chunk_bytes);
    say(&w, ") suit %s of ", access[q->access]);
    say_shape(&w, q->window, q->rank);
    say(&w, " from %s best: a window takes ", q->store.name ? q->store.name : "this store");
    say_seconds(&w, best->seconds[STK_CHUNKS_TYPICAL]);
    say(&w, ", with ");
    say_shares(&w, best);
    say_regret(&w, &q->store, best);
    say_memory(&w, q, best);
    if (best->dollars >= 0.005) {
        say(&w, "The requests of a million windows cost ");
        say_number(&w, best->dollars);
        say(&w, " dollars. ");
    }
    if (answer->num_ranked > 1)
        say_runner_up(&w, q->rank, best, &answer->ranked[1]);
}
