/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event logs. Input: a byte that says in which pieces the rest is fed; the log. What must hold:
 * read whole or in pieces the counts are the same, every byte is accounted for, nothing is left
 * behind.
 */
#include "fuzz_support.h"

#include <math.h>

#include <stoker/report.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct counts {
    stk_status status;
    uint64_t objects, foreign, dropped, lost, runs, steps;
};

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
        FUZZ_CHECK(run->label && run->verdict.text[0]);
        FUZZ_CHECK(run->wait.n == 0 || isfinite(run->wait.mean));
        for (uint64_t k = 0; k < run->num_settings; k++)
            FUZZ_CHECK(run->settings[k].key && run->settings[k].value);
        for (uint64_t k = 0; k < run->num_counts; k++)
            sum += run->counts[k].count;
        sum += run->other_events;
    }
    FUZZ_CHECK(sum == f->objects);
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
    FUZZ_CHECK(stk_report_begin(report, "log", &err) == STK_OK);
    stk_status status = STK_OK;
    for (size_t i = 0; i < size && status == STK_OK; i += piece)
        status = stk_report_feed(report, data + i, size - i < piece ? size - i : piece, &err);
    if (status == STK_OK)
        status = stk_report_end(report, &err);
    FUZZ_CHECK(status == STK_OK || (status == STK_EFORMAT && err.text[0]));
    counts.status = status;
    if (status == STK_OK)
        look(report, &counts);
    stk_report_destroy(&report);
    return counts;
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
