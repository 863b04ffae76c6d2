/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a log as a recording that other settings are predicted from. */
#include "measure/measure.h"
#include "measure/read.h"

/* Steps of an epoch that has ended, the most of all; 0: none has. */
static uint64_t epoch_steps(const stk_report_run *run)
{
    uint64_t most = 0;

    for (uint64_t i = 0; i < run->num_epochs; i++)
        if (run->epochs[i].duration >= 0)
            most = STK_MAX(most, run->epochs[i].steps);
    return run->num_epochs > 1 || run->ended ? most : 0;
}

/* Whether the rest of each epoch was thrown away, with all that was ahead. */
static bool cuts_epochs(const stk_report_run *run)
{
    const char *batches = stk__report_setting_of(run, "num_batches");

    return batches && *batches >= '1' && *batches <= '9';
}

static void recording_of(const stk__run *run, stk_recording *out)
{
    const stk__recorded *records = &run->records;

    *out = (stk_recording){.struct_size = sizeof *out,
                           .figures = &run->figures,
                           .prepare = records->prepare,
                           .num_prepare = records->num_prepare,
                           .reads = records->reads,
                           .num_reads = records->num_reads,
                           .steps = records->steps,
                           .num_steps = records->num_steps,
                           .epoch_steps = epoch_steps(&run->out),
                           .turns = !run->figures.persistent_workers || cuts_epochs(&run->out),
                           /* Only loaders of the library have a budget. */
                           .whole_batches = run->figures.budget_bytes == 0};
}

void stk__run_simulate(stk_report *report, stk__run *run)
{
    stk_verdict verdict = {.struct_size = sizeof verdict};
    const stk_verdict *known = &run->verdict;
    stk_recording recording;

    if (!run->has_figures || !run->figures.steps || !run->records.num_prepare || !known->knob[0])
        return;
    recording_of(run, &recording);
    stk_judge_recording(report->ctx, &recording, &verdict);
    /* What a program said of its own run stays, unless this says the same, or that it does not
     * help. */
    const bool same =
        strcmp(verdict.knob, known->knob) == 0 && strcmp(verdict.value, known->value) == 0;
    if (verdict.limit == known->limit && (same || !verdict.knob[0]))
        run->verdict = verdict;
}

stk_status stk__report_recording(const stk_report *report, uint64_t i, stk_recording *out,
                                 stk_error *err)
{
    STK_TRY(stk__context_check(report->ctx, err));
    if (i >= report->num_runs)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "there is no run %llu to predict from: the logs have %llu",
                         (unsigned long long)i, (unsigned long long)report->num_runs);
    const stk__run *run = report->runs[i];
    if (!run->has_figures)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "%s%s%.100s has no figures to predict from: record the run by 'stoker "
                         "bench --log FILE' or 'stoker train --log FILE', and let it end",
                         report->files[run->out.file].name, *run->out.label ? ": " : "",
                         run->out.label);
    recording_of(run, out);
    return STK_OK;
}

stk_status stk_report_predict(const stk_report *report, uint64_t i, const stk_what_if *what_if,
                              stk_prediction *out, stk_error *err)
{
    stk_recording recording;

    STK_TRY(stk__report_recording(report, i, &recording, err));
    return stk_predict(report->ctx, &recording, what_if, out, err);
}

stk_status stk_report_scale(const stk_report *report, uint64_t i, const stk_what_if *what_if,
                            const stk_scale *scale, stk_scaled *out, stk_error *err)
{
    stk_recording recording;

    STK_TRY(stk__report_recording(report, i, &recording, err));
    return stk_predict_scale(report->ctx, &recording, what_if, scale, out, err);
}
