/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a run: what it is, its epochs and steps, and how it ended. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "bench/run.h"
#include "measure/measure.h"

#define PREDICTION_MEMBERS 1024 /* bytes that those of the event fit */

/* What is expected of the run stands before what comes of it. */
static void log_prediction(const stk__bench_run *run)
{
    char members[PREDICTION_MEMBERS];

    if (!run->setting->prediction || run->setting->rank != 0)
        return;
    stk_prediction_format(run->setting->prediction, members, sizeof members);
    stk_event_log_write(run->log, "prediction", NULL, run->setup_ns, STK_NO_DURATION, members);
}

stk_status stk__bench_run_log_open(stk__bench_run *run)
{
    const stk_bench_setting *setting = run->setting;
    stk__text more = {.ctx = run->bench->ctx};

    if (!setting->log)
        return STK_OK;
    STK_TRY(stk_event_log_open(run->bench->ctx, setting->log, &run->log, &run->result->error));
    run->result->log_written = true;
    stk__text_add(&more, "%s%s\"rank\": %" PRIu64 ", \"world_size\": %" PRIu64,
                  setting->about ? setting->about : "",
                  setting->about && *setting->about ? ", " : "", run->loader_options.rank,
                  run->loader_options.world_size);
    stk__text_add(&more, ", \"repeat\": %" PRIu64, setting->repeat);
    if (!more.failed)
        stk_event_log_write(run->log, "run start", NULL, run->start_ns, STK_NO_DURATION,
                            more.bytes);
    stk__text_release(&more);
    if (more.failed)
        return stk__fail(&run->result->error, STK_ENOMEM, STK_STAGE_MEASURE,
                         "no memory for the log");
    if (setting->log_summary)
        stk__event_log_summarize(run->log);
    log_prediction(run);
    stk_event_log_write(run->log, "setup start", NULL, run->setup_ns, STK_NO_DURATION, NULL);
    return STK_OK;
}

void stk__bench_run_log_epoch(stk__bench_run *run, bool start)
{
    stk_loader_stats stats = {.struct_size = sizeof stats, .waits = run->fed_waits};
    char text[48];

    if (!run->log)
        return;
    uint64_t now = stk__now_ns();
    snprintf(text, sizeof text, "\"epoch\": %" PRIu64, run->epoch);
    stk_event_log_write(run->log, start ? "epoch start" : "epoch end", text, now,
                        start ? STK_NO_DURATION : now - run->epoch_ns, NULL);
    if (start)
        run->epoch_ns = now;
    if (run->loader)
        stk_loader_get_stats(run->loader, &stats);
    if (run->loader || run->feed)
        stk__bench_ledger_epoch(&run->ledger, run->log, &stats, start, run->epoch, now);
}

void stk__bench_run_log_step(stk__bench_run *run, const char *name, uint64_t when_ns,
                             uint64_t duration_ns, double reduced)
{
    stk_loader_stats stats = {.struct_size = sizeof stats};
    char text[48], more[192], seconds[32];

    if (!run->log || run->setting->log_summary)
        return;
    snprintf(text, sizeof text, "\"batch\": %" PRIu64, run->batch);
    int n = snprintf(more, sizeof more, "\"epoch\": %" PRIu64, run->epoch);
    /* Asked within the step: it lengthens no wait. */
    if (run->loader && duration_ns == STK_NO_DURATION) {
        stk_loader_get_stats(run->loader, &stats);
        snprintf(more + n, sizeof more - (size_t)n, ", \"ready\": %" PRIu64, stats.ready);
    }
    /* The thread of the step makes it, so all of it is waited for: as trainings say it. */
    if (run->reduce && duration_ns != STK_NO_DURATION) {
        stk_number_format(reduced, seconds);
        snprintf(more + n, sizeof more - (size_t)n, ", \"comm\": %s, \"comm_wait\": %s", seconds,
                 seconds);
    }
    stk_event_log_write(run->log, name, text, when_ns, duration_ns, more);
}

void stk__bench_run_log_end(stk__bench_run *run)
{
    stk_bench_result *result = run->result;
    stk_error err;

    if (stk__event_trace_close(&run->trace, &err) != STK_OK) {
        result->log_failed = true;
        stk__message(run->bench->ctx, STK_MESSAGE_ERROR, "%s", err.text);
    }
    if (!run->log)
        return;
    stk__bench_ledger_end(&run->ledger, run->log);
    stk__event_log_verdict(run->log, run->figures);
    stk_event_log_write(run->log, "run end", NULL, 0, stk__now_ns() - run->start_ns, NULL);
    if (stk_event_log_close(&run->log, &err) != STK_OK) {
        result->log_failed = true;
        stk__message(run->bench->ctx, STK_MESSAGE_ERROR, "%s", err.text);
    }
}
