/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event logs. Input: a byte that says in which pieces the rest is fed; the log. What must hold:
 * read whole or in pieces the counts are the same, every byte is accounted for, nothing is left
 * behind.
 */
#include "fuzz_support.h"
#include "measure/read.h"

#include <math.h>

#include <stoker/report.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of one type, so that no padding is compared. */
struct counts {
    uint64_t status, objects, foreign, dropped, lost, runs, steps;
};

/* A step that all ranks have is one of each; who is waited for is one of them. */
static void look_at_ranks(stk_report *report)
{
    const stk_report_comparison *all = NULL;
    stk_error err;

    FUZZ_CHECK(stk_report_compare(report, &all, &err) == STK_OK);
    for (uint64_t i = 0; i < all->num_worlds; i++) {
        const stk_report_world *w = all->worlds[i];
        FUZZ_CHECK(w->num_ranks > 1 && w->num_ranks <= w->world_size && w->text[0]);
        FUZZ_CHECK(w->slowest < (int64_t)w->num_ranks && w->straggler <= w->slowest);
        FUZZ_CHECK((w->slowest < 0) == (w->steps == 0));
        FUZZ_CHECK(w->num_lined % w->num_ranks == 0);
        for (uint64_t k = 1; k < w->num_ranks; k++)
            FUZZ_CHECK(w->ranks[k - 1]->rank < w->ranks[k]->rank);
    }
}

/* Numbers are within their ranges, or not known. */
static void look_at_grid(const stk_report *report)
{
    FUZZ_CHECK(stk_report_grid_settings(report) <= STK__GRID_MAX);
    for (uint64_t i = 0; i < stk_report_grid_settings(report); i++) {
        const stk_report_grid_setting *g = stk_report_grid_setting_at(report, i);
        FUZZ_CHECK(g->file == 0 && g->num_workers >= -1 && g->io_depth >= -1);
        FUZZ_CHECK(isnan(g->samples_per_s) || (g->samples_per_s >= 0 && g->samples_per_s <= 1e15));
        FUZZ_CHECK(isnan(g->wait_share) || (g->wait_share >= 0 && g->wait_share <= 1));
        FUZZ_CHECK(isnan(g->peak_bytes) || g->peak_bytes >= 0);
    }
}

static void look(stk_report *report, struct counts *out)
{
    const stk_report_file *f = stk_report_file_at(report, 0);
    uint64_t n, sum = 0;

    out->objects = f->objects;
    out->foreign = f->foreign;
    out->dropped = f->dropped_bytes;
    out->lost = f->notebook_lost;
    out->runs = stk_report_runs(report);
    FUZZ_CHECK(f->dropped_bytes <= f->bytes && f->notebook_lost <= f->objects);
    for (uint64_t i = 0; i < out->runs; i++) {
        const stk_report_run *run = stk_report_run_at(report, i);
        out->steps += run->steps;
        const stk_verdict *v = run->verdict;
        FUZZ_CHECK(run->label && v->text[0]);
        FUZZ_CHECK(run->wait.n == 0 || isfinite(run->wait.mean));
        FUZZ_CHECK(v->lost_share >= 0 && v->lost_share <= 1);
        FUZZ_CHECK(v->limit_share >= 0 && v->limit_share <= 1.01);
        FUZZ_CHECK(v->gain >= 0 && isfinite(v->gain));
        FUZZ_CHECK(run->step_mean >= 0 || isnan(run->step_mean));
        for (uint64_t k = 0; k < run->num_settings; k++)
            FUZZ_CHECK(run->settings[k].key && run->settings[k].value);
        for (uint64_t k = 0; k < run->num_counts; k++)
            sum += run->counts[k].count;
        sum += run->other_events;
    }
    FUZZ_CHECK(sum == f->objects);
    look_at_ranks(report);
    look_at_grid(report);
    const stk_report_bar *bars = stk_report_bars(report, &n);
    for (uint64_t i = 0; i < n; i++)
        FUZZ_CHECK(bars[i].row < STK_REPORT_ROWS && bars[i].length >= 0 && bars[i].run < out->runs);
}

static struct counts read_in(stk_context *ctx, const uint8_t *data, size_t size, size_t piece)
{
    struct counts counts = {0};
    stk_report *report = NULL;
    stk_error err;

    FUZZ_CHECK(stk_report_create(ctx, &report, &err) == STK_OK);
    FUZZ_CHECK(stk__report_begin(report, "log", &err) == STK_OK);
    stk_status status = STK_OK;
    for (size_t i = 0; i < size && status == STK_OK; i += piece)
        status = stk__report_feed(report, data + i, size - i < piece ? size - i : piece, &err);
    if (status == STK_OK)
        status = stk__report_end(report, &err);
    FUZZ_CHECK(status == STK_OK || (status == STK_EFORMAT && err.text[0]));
    counts.status = (uint64_t)status;
    if (status == STK_OK)
        look(report, &counts);
    stk_report_destroy(&report);
    return counts;
}

/* ---- Lines that stay lines ------------------------------------------------------------------- */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* The value behind a random `": `: from *at, *length bytes up to what ends it. */
static bool random_value(const uint8_t *data, size_t size, unsigned *seed, size_t *at,
                         size_t *length)
{
    size_t i = 1 + draw(seed, (unsigned)size);

    while (i + 2 < size && memcmp(data + i, "\": ", 3) != 0)
        i++;
    if (i + 3 >= size)
        return false;
    *at = i + 3;
    for (i = *at; i < size && !strchr(",}]\n", data[i]); i++)
        continue;
    *length = i - *at;
    return true;
}

/* Another value in the place of one, so that what is a log stays one. */
static size_t change_value(uint8_t *data, size_t size, size_t max_size, unsigned *seed)
{
    static const char *const values[] = {
        "0",   "1",    "-1",        "1e308", "-1e308",          "1e10",       "9007199254740993",
        "NaN", "null", "-Infinity", "0.001", "1e-300",          "\"worker\"", "\"storage latency\"",
        "{}",  "[1]",  "true",      "1e9",   "\"num_workers\"", "4294967296"};
    static const char *const events[] = {
        "\"run start\"", "\"run end\"",      "\"epoch start\"",   "\"epoch end\"",
        "\"ledger\"",    "\"figures\"",      "\"verdict\"",       "\"training start\"",
        "\"read\"",      "\"training end\"", "\"get-batch end\"", "\"thinned\""};
    size_t at, length;

    if (!random_value(data, size, seed, &at, &length))
        return 0;
    const bool event = data[at] == '"' && draw(seed, 2);
    const char *value = event ? events[draw(seed, sizeof events / sizeof *events)]
                              : values[draw(seed, sizeof values / sizeof *values)];
    const size_t put = strlen(value);
    if (size - length + put > max_size)
        return 0;
    memmove(data + at + put, data + at + length, size - at - length);
    memcpy(data + at, value, put);
    return size - length + put;
}

/* A line once more, behind itself or at the end. */
static size_t copy_line(uint8_t *data, size_t size, size_t max_size, unsigned *seed)
{
    size_t begin = 1 + draw(seed, (unsigned)size), end;

    while (begin > 1 && begin <= size && data[begin - 1] != '\n')
        begin--;
    for (end = begin; end < size && data[end] != '\n'; end++)
        continue;
    end += end < size;
    const size_t length = end > begin ? end - begin : 0, to = draw(seed, 2) ? end : size;
    if (!length || size + length > max_size)
        return 0;
    memmove(data + to + length, data + to, size - to);
    memmove(data + to, data + begin, length);
    return size + length;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const unsigned kind = draw(&seed, 8);
    size_t done = 0;

    if (size > 8 && kind < 5)
        done = change_value(data, size, max_size, &seed);
    else if (size > 8 && kind < 7)
        done = copy_line(data, size, max_size, &seed);
    return done || !LLVMFuzzerMutate ? (done ? done : size)
                                     : LLVMFuzzerMutate(data, size, max_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    stk_context *ctx = fuzz_context();
    uint64_t held = fuzz_held(ctx);
    struct counts whole = read_in(ctx, data + 1, size - 1, size);
    struct counts parts = read_in(ctx, data + 1, size - 1, (size_t)data[0] + 1);
    FUZZ_CHECK(memcmp(&whole, &parts, sizeof whole) == 0);
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
    return 0;
}
