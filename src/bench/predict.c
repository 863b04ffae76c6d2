/* SPDX-License-Identifier: Apache-2.0 */
/* What the settings of a plan will come to, from the first of them that was measured. */
#include <stoker/report.h>

#include "bench/plan.h"

/* What setting `b` has otherwise than `a`; false: more than can be predicted. */
static bool change_of(const stk_bench_plan *plan, const stk__bench_planned *a,
                      const stk__bench_planned *b, stk_what_if *what)
{
    const stk_option_table *table = &stk__what_if_option_table;

    stk_what_if_init(what);
    for (size_t i = 0; i < plan->num_knobs; i++) {
        const stk__bench_knob *from = &a->knobs[i], *to = &b->knobs[i];
        if (strcmp(from->value, to->value) == 0)
            continue;
        /* What "auto" and a budget of 0 will come to is not known before; nor is what a cache that
         * was there has hidden. */
        if (strcmp(to->value, "auto") == 0 ||
            (strcmp(to->name, "memory_budget") == 0 && to->value[0] == '0') ||
            (strcmp(to->name, "cache") == 0 && strcmp(from->value, "none") != 0) ||
            !stk_options_find(table, to->name) ||
            stk_options_set(table, what, to->name, to->value, NULL) != STK_OK)
            return false;
    }
    /* Without workers nothing was ahead: the option says what will be. */
    what->prefetch_factor = b->loader.prefetch_factor;
    return true;
}

/* The last run of a log that is of setting `number`; UINT64_MAX: there is none. */
static uint64_t run_of(const stk_report *report, uint64_t number)
{
    uint64_t found = UINT64_MAX;

    for (uint64_t i = 0; i < stk_report_runs(report); i++) {
        const stk_report_run *run = stk_report_run_at(report, i);
        if (run->setting == (int64_t)number && run->rank <= 0)
            found = i;
    }
    return found;
}

/* What a run that was measured is predicted from: its log, or its figures alone. */
typedef struct source {
    stk_report *report; /* NULL: figures */
    stk_figures figures;
    stk__predictor *predictor;
} source;

static void close_source(source *from)
{
    stk__predictor_destroy(&from->predictor);
    stk_report_destroy(&from->report);
}

/* Neither the ceiling, nor a rung, nor a whole training. */
static bool can_be(const stk__bench_planned *s)
{
    const char *step = s->bench.step;

    return !s->setting.free_data && !s->setting.rung && !(step && strncmp(step, "fit", 3) == 0);
}

/* The recording in the log of the run, where that can be read and has it. */
static stk_status read_log(const stk_bench_plan *plan, uint64_t number, const char *log,
                           source *from, stk_recording *out, stk_error *err)
{
    STK_TRY(stk_report_create(plan->ctx, &from->report, err));
    const stk_status status = stk_report_read(from->report, log, err);
    const uint64_t run = run_of(from->report, number);
    if (status == STK_OK && run != UINT64_MAX)
        return stk__report_recording(from->report, run, out, err);
    return status == STK_ENOMEM ? status : STK_OK;
}

static stk_status open_source(const stk_bench_plan *plan, const stk__bench_planned *measured,
                              const char *log, source *out, stk_error *err)
{
    const stk__bench_outcome *run = stk__bench_shown(measured);

    *out = (source){.figures = run->judged};
    out->figures.samples_per_s /= STK_MAX(run->judged.ranks, 1);
    stk_recording recording = {.struct_size = sizeof recording,
                               .figures = &out->figures,
                               .whole_batches = out->figures.budget_bytes == 0};
    if (log)
        STK_TRY(read_log(plan, measured->setting.number, log, out, &recording, err));
    /* Without an all-reduce ranks go by themselves. */
    return stk__predictor_create(plan->ctx, &recording, measured->bench.all_reduce == 0,
                                 &out->predictor, err);
}

stk_status stk_bench_plan_predict(stk_bench_plan *plan, const char *log, stk_error *err)
{
    const stk__bench_planned *measured = NULL;
    stk_what_if what;
    source from;

    STK_TRY(stk__context_check(plan->ctx, err));
    for (size_t i = 0; i < plan->count && !measured; i++)
        if (stk__bench_measured(&plan->settings[i]) && can_be(&plan->settings[i]))
            measured = &plan->settings[i];
    if (!measured)
        return STK_OK;
    stk_status status = open_source(plan, measured, log, &from, err);
    for (size_t i = 0; i < plan->count && from.predictor && status != STK_ENOMEM; i++) {
        stk__bench_planned *s = &plan->settings[i];
        if (s->num_runs || !can_be(s) || !change_of(plan, measured, s, &what))
            continue;
        s->prediction = (stk_prediction){.struct_size = sizeof s->prediction};
        status = stk__predictor_ask(from.predictor, &what, &s->prediction, err);
        s->setting.prediction = status == STK_OK ? &s->prediction : NULL;
    }
    close_source(&from);
    return status == STK_ENOMEM ? status : STK_OK;
}
