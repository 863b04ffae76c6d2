/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict of a run: the logged one, that of logged figures, or what the events alone allow. */
#include "measure/figures.h"
#include "measure/ranks.h"
#include "measure/read.h"
#include "measure/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- What the log says ---------------------------------------------------------------------- */

/* False where the number is none that can have been measured. */
static bool set_figure(stk_figures *f, const stk__figure *row, const stk__json_member *m)
{
    char *at = (char *)f + row->offset;
    int64_t whole;

    if (row->kind == STK__FIGURE_SWITCH) {
        *(bool *)at = m->kind == STK__JSON_TRUE;
        return true;
    }
    if (row->kind == STK__FIGURE_TEXT) {
        if (m->kind == STK__JSON_STRING)
            stk__json_member_text(m, at, STK__FIGURE_TEXT_SIZE);
        return true;
    }
    /* What could not be measured is NaN, or null. */
    if (m->kind == STK__JSON_NULL || (m->kind == STK__JSON_NUMBER && m->text[0] == 'N'))
        return true;
    if (row->kind == STK__FIGURE_REAL)
        return stk__json_member_real(m, (stk__json_range){row->least, row->most}, (double *)at);
    if (!stk__json_member_whole(m, (int64_t)row->most, &whole))
        return false;
    if (row->kind == STK__FIGURE_COUNT)
        *(uint64_t *)at = (uint64_t)whole;
    else if (row->kind == STK__FIGURE_WHOLE)
        *(int64_t *)at = whole;
    else
        *(uint32_t *)at = (uint32_t)whole;
    return true;
}

/* All figures, or none: where one cannot be true the others are not to be believed. */
static void take_figures(stk__run *run, const stk__log_line *line)
{
    stk_figures figures = run->figures;

    for (size_t i = 0; i < stk__num_figures; i++) {
        const stk__json_member *m = stk__line_find(line, stk__figures[i].name);
        if (m && !set_figure(&figures, &stk__figures[i], m))
            return;
    }
    run->figures = figures;
    run->has_figures = true;
}

static void take_text(const stk__log_line *line, const char *key, char *out, size_t size)
{
    const stk__json_member *m = stk__line_find(line, key);

    if (m && (m->kind == STK__JSON_STRING || m->kind == STK__JSON_NUMBER))
        stk__json_member_text(m, out, size);
}

static double take_real(const stk__log_line *line, const char *key, stk__json_range range,
                        double unset)
{
    const stk__json_member *m = stk__line_find(line, key);

    if (m)
        (void)stk__json_member_real(m, range, &unset);
    return unset;
}

/* What a whole training came to; a length of 0 is none. */
static void take_training(stk_report_run *run, const stk__log_line *line)
{
    const stk__json_member *tested = stk__line_find(line, "tested");
    const double seconds = take_real(line, "seconds", STK__RANGE_DURATION, NAN);

    run->training_seconds = seconds > 0 ? seconds : NAN;
    run->training_loss = take_real(line, "loss", STK__RANGE_ANY, NAN);
    run->evaluated_loss = take_real(line, "evaluated_loss", STK__RANGE_ANY, NAN);
    run->tested = tested && tested->kind == STK__JSON_TRUE;
    run->accuracy = take_real(line, "accuracy", STK__RANGE_SHARE, NAN);
    run->peak_bytes = take_real(line, "peak_bytes", STK__RANGE_COUNT, NAN);
}

/* What was expected of the run before it began. */
static void take_prediction(stk__run *run, const stk__log_line *line)
{
    static const stk__json_range rate = {0, 1e15};
    const stk__json_member *recorded = stk__line_find(line, "recorded");
    const double samples_per_s = take_real(line, "samples_per_s", rate, 0);

    if (!(samples_per_s > 0))
        return;
    run->predicted =
        (stk_prediction){.struct_size = sizeof run->predicted,
                         .samples_per_s = samples_per_s,
                         .low = take_real(line, "low", rate, 0),
                         .high = take_real(line, "high", rate, 0),
                         .base_samples_per_s = take_real(line, "base_samples_per_s", rate, 0),
                         .wait = {.mean = take_real(line, "wait_mean", STK__RANGE_DURATION, 0),
                                  .p50 = take_real(line, "wait_p50", STK__RANGE_DURATION, 0),
                                  .p95 = take_real(line, "wait_p95", STK__RANGE_DURATION, 0),
                                  .p99 = take_real(line, "wait_p99", STK__RANGE_DURATION, 0)},
                         .cpu_cores = take_real(line, "cpu_cores", STK__RANGE_FACTOR, 0),
                         .peak_bytes = take_real(line, "peak_bytes", STK__RANGE_COUNT, 0),
                         .step_time = take_real(line, "step_time", STK__RANGE_DURATION, 0),
                         .step_stretch = take_real(line, "step_stretch", STK__RANGE_FACTOR, 1),
                         .recorded = recorded && recorded->kind == STK__JSON_TRUE};
    run->out.predicted = &run->predicted;
}

void stk__run_logged(stk__run *run, const stk__log_line *line)
{
    stk_verdict *v = &run->verdict;
    char limit[32] = "";

    if (strcmp(line->name, "trained") == 0) {
        take_training(&run->out, line);
        return;
    }
    if (strcmp(line->name, "prediction") == 0) {
        take_prediction(run, line);
        return;
    }
    if (strcmp(line->name, "figures") == 0) {
        take_figures(run, line);
        return;
    }
    *v = (stk_verdict){
        .struct_size = sizeof *v, .limit = STK_LIMIT_UNKNOWN, .second = STK_LIMIT_UNKNOWN};
    take_text(line, "limit", limit, sizeof limit);
    for (int i = 0; i < STK_LIMIT_UNKNOWN; i++)
        if (strcmp(limit, stk_limit_name((stk_limit)i)) == 0)
            v->limit = (stk_limit)i;
    take_text(line, "knob", v->knob, sizeof v->knob);
    take_text(line, "value", v->value, sizeof v->value);
    take_text(line, "text", v->text, sizeof v->text);
    v->lost_share = take_real(line, "lost_share", STK__RANGE_SHARE, 0);
    v->gain = take_real(line, "gain", STK__RANGE_FACTOR, 1);
    v->gain_low = take_real(line, "gain_low", STK__RANGE_FACTOR, 0);
    v->gain_high = take_real(line, "gain_high", STK__RANGE_FACTOR, 0);
    v->limit_share = take_real(line, "limit_share", STK__RANGE_SHARE, 0);
    run->out.verdict_logged = v->text[0] != 0;
}

/* ---- What the events alone allow ------------------------------------------------------------- */

static void judge_one_core(const stk_report_run *run, stk_verdict *v, double most)
{
    v->limit = STK_LIMIT_ONE_CORE;
    v->gain = most;
    snprintf(v->knob, sizeof v->knob, "num_workers");
    stk__verdict_say(
        v,
        "One core does all the work: without workers each batch is read and prepared in the "
        "thread of the step, which waits %.1f %% of the time (%.4g ms for a step of %.4g ms). "
        "Set num_workers to the usable cores less one or two: at most %.1fx the steps a second, "
        "setup left out.",
        100 * v->lost_share, MS * run->wait.mean, MS * run->step_mean, most);
}

static void judge_workers(const stk_report_run *run, stk_verdict *v, double most)
{
    double seen = (double)run->get_batches;
    double work = run->get_busy * (seen > 0 ? (seen + (double)run->get_dropped) / seen : 1);
    double busy = work / (run->num_workers * STK_MAX(run->epochs_total, 1e-9));

    if (busy >= STK_JUDGE_BUSY) {
        v->limit = STK_LIMIT_WORKERS;
        v->gain = STK_MIN(2.0, most);
        stk__verdict_advise(v, "num_workers", 2 * run->num_workers);
        stk__verdict_say(
            v,
            "All %.0f workers are busy %.0f %% of the time, and the step still waits %.1f %%. "
            "Whether they compute or wait for storage this log does not say: where cores are left "
            "over, or storage is what they wait for, set num_workers to %.0f; else make the work "
            "of a sample cheaper. No wait at all would be %.2fx the steps a second.",
            run->num_workers, 100 * STK_MIN(busy, 1.0), 100 * v->lost_share, 2 * run->num_workers,
            most);
        return;
    }
    if (run->reads && !run->published && busy < 1 - STK_JUDGE_READ && run->read_seconds > work) {
        v->limit = STK_LIMIT_STORAGE;
        v->gain = most;
        snprintf(v->knob, sizeof v->knob, "io_depth");
        stk__verdict_say(
            v,
            "Storage is the limit: the workers prepare samples %.0f %% of the time, and %.1f "
            "reads of %.4g ms were in flight. The step waits %.1f %%. More io_depth helps where "
            "the store can do more at once; no wait at all would be %.2fx the steps a second.",
            100 * busy, run->read_seconds / STK_MAX(run->epochs_total, 1e-9),
            MS * run->read_seconds / (double)run->reads, 100 * v->lost_share, most);
        return;
    }
    v->limit = STK_LIMIT_UNKNOWN;
    stk__verdict_say(
        v,
        "No single limit shows in the events: the step waits %.1f %% of the time while the %.0f "
        "workers are busy %.0f %%. No wait at all would be %.2fx the steps a second.",
        100 * v->lost_share, run->num_workers, 100 * busy, most);
}

static void judge_events(const stk_report_run *run, stk_verdict *v)
{
    double lost = isfinite(run->wait_share) ? STK_MAX(0.0, run->wait_share) : 0;

    *v = (stk_verdict){.struct_size = sizeof *v, .limit = STK_LIMIT_UNKNOWN, .gain = 1};
    v->lost_share = lost;
    double most = 1 / STK_MAX(1 - lost, 1e-6);
    if (run->steps == 0 || run->wait.n == 0) {
        stk__verdict_say(v, "Nothing to judge: the log holds %s.",
                         run->steps ? "one training step" : "no training step");
    } else if (lost < STK_JUDGE_WAIT) {
        v->limit = STK_LIMIT_STEP;
        stk__verdict_say(
            v,
            "The step is the limit: it ran %.1f %% of the time and waited %.1f %%. No setting of "
            "the loader can give more than %.2fx.",
            100 * (1 - lost), 100 * lost, most);
    } else if (run->num_workers == 0) {
        judge_one_core(run, v, most);
    } else if (run->num_workers > 0) {
        judge_workers(run, v, most);
    } else {
        stk__verdict_say(
            v,
            "The step waits %.1f %% of the time (%.4g ms for a step of %.4g ms). How many workers "
            "there were the log does not say. No wait at all would be %.2fx the steps a second.",
            100 * lost, MS * run->wait.mean, MS * run->step_mean, most);
    }
}

/* ---- What its ledger allows ------------------------------------------------------------------ */

bool stk__run_waits(const stk__run *run, double waits[STK_WAIT_PARTS])
{
    bool any = false;

    for (uint64_t i = 0; i < run->out.num_series; i++) {
        const stk__series *s = run->series[i];
        int part = 0;
        if (strcmp(s->out.group, "ledger.wait") != 0)
            continue;
        while (part < STK_WAIT_PARTS && strcmp(s->out.name, stk__wait_name((stk_wait)part)) != 0)
            part++;
        for (uint32_t k = 0; k < s->places.n && part < STK_WAIT_PARTS; k++)
            waits[part] += s->places.sum[k];
        any |= part < STK_WAIT_PARTS;
    }
    return any;
}

static int64_t setting(const stk_report_run *run, const char *name)
{
    const char *text = stk__report_setting_of(run, name);
    int64_t value = 0;

    if (text) {
        const stk__json_member m = {.text = text, .length = strlen(text), .kind = STK__JSON_NUMBER};
        (void)stk__json_member_whole(&m, STK__WHOLE_MAX, &value);
    }
    return value;
}

/* A log that was cut short lacks its figures, but not the ledger of its epochs. How many cores
 * there were it does not say: preparation is judged by the events. */
static bool judge_ledger(const stk__run *run, stk_verdict *v)
{
    const stk_report_run *r = &run->out;
    stk_figures f = {.struct_size = sizeof f, .ranks = 1, .step_stretch = 1, .cached_share = -1};
    double others = 0, work = 0;

    if (r->steps == 0 || r->wait.n == 0 || !(r->num_workers > 0) || !(r->step_mean >= 0) ||
        !stk__run_waits(run, f.waits))
        return false;
    for (int i = 0; i < STK_WAIT_PARTS; i++) {
        const bool works = i == STK_WAIT_WORKER || i == STK_WAIT_DECODE ||
                           i == STK_WAIT_DECODE_ENTROPY || i == STK_WAIT_TRANSFORM ||
                           i == STK_WAIT_COLLATE;
        *(works ? &work : &others) += i == STK_WAIT_OTHER ? 0 : f.waits[i];
    }
    if (work >= others)
        return false;
    f.steps = r->steps;
    f.wait = r->wait;
    f.step_time = r->step_mean;
    f.wall = STK_MAX(r->epochs_total, (double)r->steps * (r->step_mean + r->wait.mean));
    f.samples_per_s = isfinite(r->samples_per_s) ? r->samples_per_s : 0;
    f.num_workers = (int64_t)r->num_workers;
    f.io_depth = setting(r, "io_depth");
    f.prefetch = setting(r, "prefetch_factor");
    f.budget_bytes = (uint64_t)setting(r, "memory_budget");
    f.requests = r->reads;
    f.bytes_read = r->read_bytes;
    f.read_seconds = r->read_seconds;
    f.read_latency = r->reads ? r->read_seconds / (double)r->reads : 0;
    stk_judge(&f, v);
    stk__verdict_say(v, " The log ends before its figures; this is what its ledger allows.");
    return true;
}

/* A log that leaves out its steps, as `bench` writes one unasked, has their figures. */
void stk__run_summary(stk__run *run)
{
    const stk_figures *f = &run->figures;
    stk_report_run *out = &run->out;

    stk_tiers_format(&f->tiers, run->tiers, sizeof run->tiers);
    if (!run->has_figures || out->steps || !f->steps)
        return;
    out->steps = f->steps;
    out->wait = f->wait;
    out->wait.n = f->steps;
    out->step_mean = f->step_time;
    out->busy_share = f->step_share;
    out->wait_share = STK_MAX(0.0, 1 - f->step_share);
    out->samples_per_s = f->samples_per_s;
}

void stk__run_judge(stk__run *run)
{
    if (run->has_figures && run->figures.steps) {
        stk_judge(&run->figures, &run->verdict);
        run->out.verdict_logged = true;
    } else if (!judge_ledger(run, &run->verdict)) {
        judge_events(&run->out, &run->verdict);
    }
}
