/* SPDX-License-Identifier: Apache-2.0 */
/* What came of the settings of a plan: over ranks, over runs, and next to each other. */
#include <math.h>

#include "base/sized.h"
#include "bench/plan.h"

#define LITTLE 1.05 /* a whole factor below is not divided into shares */

/* ---- Ranks of a run ------------------------------------------------------------------------- */

static void add_figures(stk_figures *sum, const stk_figures *one)
{
    sum->samples_per_s += one->samples_per_s;
    sum->samples += one->samples;
    sum->cpu_s += one->cpu_s;
    sum->peak_bytes += one->peak_bytes;
    sum->bytes_read += one->bytes_read;
    sum->requests += one->requests;
    sum->leak_bytes_per_epoch += one->leak_bytes_per_epoch;
    /* Steps are in step: the slowest rank is what all wait for. */
    sum->wait.mean = STK_MAX(sum->wait.mean, one->wait.mean);
    sum->wait.p50 = STK_MAX(sum->wait.p50, one->wait.p50);
    sum->wait.p95 = STK_MAX(sum->wait.p95, one->wait.p95);
    sum->wait.p99 = STK_MAX(sum->wait.p99, one->wait.p99);
    sum->wait.max = STK_MAX(sum->wait.max, one->wait.max);
    sum->first_wait = STK_MAX(sum->first_wait, one->first_wait);
    sum->epoch_turn = STK_MAX(sum->epoch_turn, one->epoch_turn);
    sum->step_stretch = STK_MAX(sum->step_stretch, one->step_stretch);
    sum->step_share = STK_MIN(sum->step_share, one->step_share);
    sum->allocations_per_step_times_1000 =
        STK_MAX(sum->allocations_per_step_times_1000, one->allocations_per_step_times_1000);
    sum->cpu_s_per_1000 = sum->samples ? 1000 * sum->cpu_s / (double)sum->samples : 0;
}

static void add_result(stk_bench_result *sum, const stk_bench_result *one)
{
    /* A rank that failed by itself says more than one that was stopped for it. */
    if (one->status < 0 &&
        (sum->status >= 0 || sum->status == STK_ECANCELED || sum->status == STK_ESYSTEM)) {
        sum->status = one->status;
        sum->error = one->error;
    }
    sum->events += one->events;
    sum->delivered += one->delivered;
    sum->discarded_most += one->discarded_most;
    sum->bad_samples += one->bad_samples;
    /* Those of the first rank that has some are shown. */
    if (!*sum->bad)
        memcpy(sum->bad, one->bad, sizeof sum->bad);
    sum->stoker_peak_bytes += one->stoker_peak_bytes;
    sum->check_failed |= one->check_failed;
    /* Who comes last waits for nobody. */
    sum->all_reduce = STK_MIN(sum->all_reduce, one->all_reduce);
    sum->all_reduce_most = STK_MAX(sum->all_reduce_most, one->all_reduce_most);
    sum->interrupted |= one->interrupted;
    sum->log_failed |= one->log_failed;
}

/* ---- Runs of a setting ---------------------------------------------------------------------- */

bool stk__bench_ended_well(const stk__bench_outcome *run)
{
    /* A part of a training has a time that compares with none. */
    const bool part = run->result.interrupted && run->result.training.seconds <= 0;

    return run->sum.steps > 0 && (run->result.status == STK_OK || part);
}

double stk__bench_speed(const stk__bench_outcome *run)
{
    const double seconds = run->result.training.seconds;

    return seconds > 0 ? 1 / seconds : run->sum.samples_per_s;
}

/* The run of the median rate is shown; one that failed only where all did. */
static void choose(stk__bench_planned *s)
{
    s->good = 0;
    s->shown = 0;
    for (size_t i = 0; i < s->num_runs; i++) {
        const double rate = stk__bench_speed(&s->runs[i]);
        if (!stk__bench_ended_well(&s->runs[i]))
            continue;
        s->least = s->good ? STK_MIN(s->least, rate) : rate;
        s->most = s->good ? STK_MAX(s->most, rate) : rate;
        s->good++;
    }
    for (size_t i = 0; i < s->num_runs && s->good; i++) {
        size_t below = 0;
        for (size_t k = 0; k < s->num_runs; k++) {
            const double mine = stk__bench_speed(&s->runs[i]),
                         other = stk__bench_speed(&s->runs[k]);
            below +=
                stk__bench_ended_well(&s->runs[k]) && (other < mine || (other == mine && k < i));
        }
        if (stk__bench_ended_well(&s->runs[i]) && below == (s->good - 1) / 2)
            s->shown = i;
    }
}

static double rate_of(const stk__bench_planned *setting)
{
    const stk__bench_outcome *run = stk__bench_shown(setting);

    return run ? stk__bench_speed(run) : 0;
}

static void note_ceiling(stk__bench_planned *setting, double rate)
{
    for (size_t r = 0; r < setting->num_runs; r++)
        setting->runs[r].sum.ceiling_samples_per_s = setting->runs[r].judged.ceiling_samples_per_s =
            rate;
}

/* The rate of each batch size if data were free, in the figures of all settings that have it. */
static void note_ceilings(stk_bench_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const stk__bench_planned *ceiling = &plan->settings[i];
        if (!ceiling->setting.free_data || !stk__bench_shown(ceiling))
            continue;
        for (size_t k = 0; k < plan->count; k++)
            if (plan->settings[k].loader.batch_size == ceiling->loader.batch_size)
                note_ceiling(&plan->settings[k], rate_of(ceiling));
    }
}

static stk_status begin_run(stk_bench_plan *plan, stk__bench_planned *s, stk_error *err)
{
    void *runs = stk__grow(plan->ctx, s->runs, &s->room, s->num_runs + 1, sizeof *s->runs);
    if (!runs)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the figures");
    s->runs = runs;
    s->runs[s->num_runs++] = (stk__bench_outcome){0};
    return STK_OK;
}

stk_status stk_bench_plan_add(stk_bench_plan *plan, size_t i, uint64_t rank,
                              const stk_bench_result *result, const stk_figures *figures,
                              stk_error *err)
{
    stk_bench_result one = {0};
    stk_figures f = {0};

    STK_TRY(stk__context_check(plan->ctx, err));
    STK_TRY(stk__sized_check(result, "stk_bench_result", STK_STAGE_MEASURE, err));
    STK_TRY(stk__sized_check(figures, "stk_figures", STK_STAGE_MEASURE, err));
    if (i >= plan->count || (rank > 0 && plan->settings[i].num_runs == 0))
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         i >= plan->count ? "the plan has no setting %zu"
                                          : "setting %zu has no run yet: its first rank is 0",
                         i);
    stk__sized_copy(&one, sizeof one, result);
    stk__sized_copy(&f, sizeof f, figures);
    stk__bench_planned *s = &plan->settings[i];
    if (rank == 0)
        STK_TRY(begin_run(plan, s, err));
    stk__bench_outcome *run = &s->runs[s->num_runs - 1];
    if (rank == 0) {
        *run = (stk__bench_outcome){.result = one, .sum = f, .judged = f};
    } else {
        if (f.wait.mean > run->judged.wait.mean)
            run->judged = f;
        add_figures(&run->sum, &f);
        add_result(&run->result, &one);
        run->judged.samples_per_s = run->sum.samples_per_s;
    }
    choose(s);
    note_ceilings(plan);
    return STK_OK;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

const stk__bench_outcome *stk__bench_shown(const stk__bench_planned *setting)
{
    return setting->num_runs ? &setting->runs[setting->shown] : NULL;
}

static bool ended(const stk__bench_planned *setting)
{
    return setting->good > 0;
}

bool stk__bench_measured(const stk__bench_planned *setting)
{
    return ended(setting) && !setting->setting.free_data;
}

void stk__bench_rate(const stk__bench_planned *setting, stk_sweep_point *point)
{
    point->samples_per_s = rate_of(setting);
    point->least = setting->least;
    point->most = setting->most;
}

/* ---- Ladders -------------------------------------------------------------------------------- */

/* How fast a setting is. Of trainings over the baseline, by pairs of runs, as its row has it: so
 * the factors of all rungs come to the speed-up of the last. */
static double pace(const stk_bench_plan *plan, size_t i)
{
    const stk__bench_outcome *run = stk__bench_shown(&plan->settings[i]);
    stk_bench_row row = {.speed_up = NAN};

    if (!run || run->result.training.seconds <= 0)
        return rate_of(&plan->settings[i]);
    stk__bench_pair_runs(plan, i, &row);
    return row.speed_up;
}

static bool is_rung(const stk_bench_plan *plan, size_t i)
{
    return ended(&plan->settings[i]) && plan->settings[i].setting.rung > 0 && pace(plan, i) > 0;
}

/* Factors multiply, so their logarithms are what adds up: that of the whole ladder. NaN: no ladder.
 */
static double whole(const stk_bench_plan *plan)
{
    size_t first = STK_BENCH_NONE, last = STK_BENCH_NONE;

    for (size_t i = 0; i < plan->count; i++) {
        if (!is_rung(plan, i))
            continue;
        first = first == STK_BENCH_NONE ? i : first;
        last = i;
    }
    return first == last ? (double)NAN : log(pace(plan, last) / pace(plan, first));
}

/* What row `i` gave over the rung before that was measured, and its share of the whole. */
static void climb(const stk_bench_plan *plan, size_t i, stk_bench_row *row)
{
    const double all = whole(plan);
    size_t k = i;

    row->factor = row->share = NAN;
    if (!is_rung(plan, i))
        return;
    while (k > 0 && !is_rung(plan, k - 1))
        k--;
    if (k == 0)
        return;
    row->factor = pace(plan, i) / pace(plan, k - 1);
    if (fabs(all) > log(LITTLE))
        row->share = log(row->factor) / all;
}

void stk_bench_plan_row(const stk_bench_plan *plan, size_t i, stk_bench_row *out)
{
    stk_bench_row row = {.struct_size = sizeof row,
                         .factor = NAN,
                         .share = NAN,
                         .speed_up = NAN,
                         .speed_up_least = NAN,
                         .speed_up_most = NAN};

    if (i < plan->count) {
        const stk__bench_planned *s = &plan->settings[i];
        const stk__bench_outcome *run = stk__bench_shown(s);
        row.ended = ended(s);
        row.runs = s->good;
        row.result = run ? &run->result : NULL;
        row.figures = run ? &run->sum : NULL;
        row.judged = run ? &run->judged : NULL;
        row.least = s->least;
        row.most = s->most;
        climb(plan, i, &row);
        stk__bench_pair_runs(plan, i, &row);
        stk__bench_compare_losses(plan, i, &row);
    }
    stk__sized_write(out, &row);
}

/* ---- The rows together ---------------------------------------------------------------------- */

size_t stk__bench_baseline(const stk_bench_plan *plan)
{
    size_t first = STK_BENCH_NONE;

    for (size_t i = 0; i < plan->count; i++) {
        if (!stk__bench_measured(&plan->settings[i]))
            continue;
        if (plan->settings[i].loader.num_workers == 0)
            return i;
        first = first == STK_BENCH_NONE ? i : first;
    }
    return first;
}

static size_t extreme(const stk_bench_plan *plan, bool best)
{
    size_t found = STK_BENCH_NONE;

    for (size_t i = 0; i < plan->count; i++) {
        if (!stk__bench_measured(&plan->settings[i]))
            continue;
        const double rate = rate_of(&plan->settings[i]),
                     so_far = found == STK_BENCH_NONE ? 0 : rate_of(&plan->settings[found]);
        if (found == STK_BENCH_NONE || (best ? rate > so_far : rate < so_far))
            found = i;
    }
    return found;
}

static bool alike(const stk_bench_plan *plan, size_t a, size_t b)
{
    stk_sweep_point first = {.knob = ""}, second = {.knob = ""};

    stk__bench_rate(&plan->settings[a], &first);
    stk__bench_rate(&plan->settings[b], &second);
    return stk__sweep_alike(&first, &second);
}

void stk_bench_plan_summary(const stk_bench_plan *plan, stk_bench_summary *out)
{
    stk_bench_summary s = {.struct_size = sizeof s,
                           .best = extreme(plan, true),
                           .worst = extreme(plan, false),
                           .baseline = stk__bench_baseline(plan),
                           .ladder = exp(whole(plan))};

    for (size_t i = 0; i < plan->count; i++) {
        const stk__bench_outcome *run = stk__bench_shown(&plan->settings[i]);
        if (!ended(&plan->settings[i]))
            continue;
        s.num_broken += run->result.check_failed;
        s.trainings |= run->result.training.seconds > 0;
        /* Which cores others keep busy is not known where only some are this process's. */
        if (run->sum.usable_cores == run->result.cores_online)
            s.other_cores = STK_MAX(s.other_cores, run->result.other_cores);
    }
    if (s.best != STK_BENCH_NONE) {
        s.alike = s.best != s.worst && alike(plan, s.best, s.worst);
        s.faster = s.best != s.baseline && !alike(plan, s.best, s.baseline);
        s.speed_up = rate_of(&plan->settings[s.best]) / rate_of(&plan->settings[s.baseline]);
    }
    stk__sized_write(out, &s);
}
