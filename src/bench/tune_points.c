/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and predictions of a plan -> the points of a grid. */
#include <math.h>

#include "bench/tune.h"

#define HOUR    3600.0
#define MILLION 1e6

static const stk__bench_planned *setting_of(const stk_tune *tune, size_t i)
{
    return &tune->plan->settings[i];
}

/* The run of the setting as given that stands for all; NULL: there is none. */
static const stk__bench_outcome *base_of(const stk_tune *tune)
{
    const stk__bench_planned *s = setting_of(tune, tune->given);

    return stk__bench_measured(s) ? stk__bench_shown(s) : NULL;
}

bool stk__tune_reads(const stk_tune *tune)
{
    const stk__bench_outcome *base = base_of(tune);

    return base && base->sum.requests > 0;
}

/* ---- What is known of one -------------------------------------------------------------------- */

/* What an option that is auto came to: in its own run, or in that of the setting as given. */
static int64_t resolved(const stk_tune *tune, const stk__bench_planned *s, int64_t wanted,
                        int64_t given, size_t member)
{
    const stk__bench_outcome *run = stk__bench_measured(s) ? stk__bench_shown(s) : NULL;

    if (wanted != STK_AUTO)
        return wanted;
    if (!run && given == STK_AUTO)
        run = base_of(tune);
    if (!run)
        return -1;
    int64_t is;
    memcpy(&is, (const char *)&run->judged + member, sizeof is);
    return is;
}

static void put_measured(const stk__bench_planned *s, stk_tune_point *p)
{
    const stk__bench_outcome *run = stk__bench_shown(s);
    const stk_figures *f = &run->sum;

    p->runs = s->good;
    p->samples_per_s = f->samples_per_s;
    p->least = s->least;
    p->most = s->most;
    p->wait = f->wait.mean;
    p->wait_share = stk__bench_over(f->wait.mean, f->wait.mean + run->judged.step_time);
    p->cpu_cores = stk__bench_over(f->cpu_s, f->wall);
    p->peak_bytes = 0;
    for (size_t i = 0; i < s->num_runs; i++)
        p->peak_bytes = STK_MAX(p->peak_bytes, (double)s->runs[i].sum.peak_bytes);
}

/* Figures of a prediction are those of one rank. */
static void put_predicted(const stk_prediction *is, double ranks, stk_tune_point *p)
{
    p->samples_per_s = p->predicted = is->samples_per_s * ranks;
    p->least = is->low * ranks;
    p->most = is->high * ranks;
    p->cpu_cores = is->cpu_cores;
    p->peak_bytes = is->peak_bytes * ranks;
}

static void put_seen(const stk__bench_planned *s, stk__tune_seen *seen)
{
    double sum = 0, squares = 0;

    *seen = (stk__tune_seen){.runs = s->good};
    for (size_t i = 0; i < s->num_runs; i++)
        if (stk__bench_ended_well(&s->runs[i]))
            sum += log(stk__bench_speed(&s->runs[i]));
    for (size_t i = 0; i < s->num_runs && s->good; i++) {
        const double off = log(stk__bench_speed(&s->runs[i])) - sum / (double)s->good;
        if (stk__bench_ended_well(&s->runs[i]))
            squares += off * off;
    }
    seen->squares = squares;
}

static void put_point(const stk_tune *tune, size_t i, double ranks, stk_tune_point *p)
{
    const stk__bench_planned *s = setting_of(tune, i), *given = setting_of(tune, tune->given);
    const stk_prediction *is = s->setting.prediction;

    *p = (stk_tune_point){.struct_size = sizeof *p,
                          .setting = i,
                          .prefetch_factor = s->loader.prefetch_factor,
                          .auto_workers = s->loader.num_workers == STK_AUTO,
                          .auto_depth = s->loader.io_depth == STK_AUTO,
                          .samples_per_s = NAN,
                          .least = NAN,
                          .most = NAN,
                          .wait_share = NAN,
                          .wait = NAN,
                          .cpu_cores = NAN,
                          .peak_bytes = NAN,
                          .cost = NAN,
                          .predicted = NAN};
    p->num_workers = resolved(tune, s, s->loader.num_workers, given->loader.num_workers,
                              offsetof(stk_figures, num_workers));
    p->io_depth = resolved(tune, s, s->loader.io_depth, given->loader.io_depth,
                           offsetof(stk_figures, io_depth));
    if (is)
        put_predicted(is, ranks, p);
    if (stk__bench_measured(s))
        put_measured(s, p);
}

/* ---- Limits -----------------------------------------------------------------------------------
 */

/* Whether two settings are one to the loader: without workers nothing is ahead, and where nothing
 * is read there is no depth. A number of workers that moves is none that stays. */
static bool is_twin(const stk_tune_point *a, const stk_tune_point *b, bool reads)
{
    return a->num_workers == b->num_workers && a->auto_workers == b->auto_workers &&
           (!reads || a->io_depth == b->io_depth) &&
           (a->num_workers == 0 || a->prefetch_factor == b->prefetch_factor);
}

/* Of those that are one the measured count, then the first. */
static bool is_doubled(const stk_tune *tune, size_t i, bool reads)
{
    const stk_tune_point *p = &tune->points[i];

    for (size_t k = 0; k < tune->count; k++) {
        const stk_tune_point *other = &tune->points[k];
        if (k == i || setting_of(tune, k)->setting.free_data || !is_twin(p, other, reads) ||
            !(other->samples_per_s > 0))
            continue;
        if (other->runs && p->runs ? k < i : other->runs > p->runs || (!p->runs && k < i))
            return true;
    }
    return false;
}

static bool is_allowed(const stk_tune *tune, size_t i, bool reads)
{
    const stk_tune_options *o = &tune->options;
    const stk_tune_point *p = &tune->points[i];
    const stk__bench_planned *s = setting_of(tune, i);

    if (s->setting.free_data || (s->num_runs && !s->good) || p->num_workers < 0)
        return false;
    /* Workers that move while it runs are not predicted. */
    if (p->auto_workers && !p->runs)
        return false;
    if (o->max_cores != STK_AUTO && p->num_workers > o->max_cores)
        return false;
    if (o->max_memory && p->peak_bytes > (double)o->max_memory)
        return false;
    return !is_doubled(tune, i, reads);
}

/* ---- All of them ------------------------------------------------------------------------------
 */

/* What the model says of the setting that it knows all of. */
static void put_base(stk_tune *tune, double ranks)
{
    for (size_t i = 0; i < tune->count; i++) {
        const stk_prediction *is = setting_of(tune, i)->setting.prediction;
        if (is)
            tune->points[tune->given].predicted = is->base_samples_per_s * ranks;
    }
}

/* Of the setting that all is predicted from the memory is known. */
static void put_bytes(stk_tune *tune, double ranks)
{
    for (size_t i = 0; i < tune->count; i++) {
        const stk_prediction *is = setting_of(tune, i)->setting.prediction;
        tune->bytes[i] = is ? is->peak_bytes * ranks : NAN;
    }
    tune->bytes[tune->given] = tune->points[tune->given].peak_bytes;
}

static double cost_of(const stk_tune *tune, const stk_tune_point *p, const stk_figures *base)
{
    const double cores = (double)p->num_workers * STK_MAX(base->ranks, 1u) +
                         (double)STK_MAX(base->compute_cores, 1u);

    return (tune->options.core_price * cores + tune->options.gpu_price) / HOUR / p->samples_per_s *
           MILLION;
}

void stk__tune_refresh(stk_tune *tune)
{
    const stk__bench_outcome *base = base_of(tune);
    const double ranks = base ? STK_MAX(base->judged.ranks, 1u) : 1;

    for (size_t i = 0; i < tune->count; i++) {
        put_point(tune, i, ranks, &tune->points[i]);
        put_seen(setting_of(tune, i), &tune->seen[i]);
    }
    if (!base)
        return;
    put_base(tune, ranks);
    stk__tune_correct(tune->points, tune->count);
    put_bytes(tune, ranks);
    stk__tune_correct_bytes(tune->points, tune->bytes, tune->count);
    for (size_t i = 0; i < tune->count; i++) {
        stk_tune_point *p = &tune->points[i];
        const stk_prediction *is = setting_of(tune, i)->setting.prediction;
        if (!p->runs && is && p->samples_per_s > 0)
            stk__tune_derive(p, is->step_time,
                             stk__bench_over((double)base->sum.samples, (double)base->sum.steps));
        if (p->samples_per_s > 0)
            p->cost = cost_of(tune, p, &base->judged);
    }
    for (size_t i = 0; i < tune->count; i++)
        tune->points[i].allowed = is_allowed(tune, i, stk__tune_reads(tune));
    stk__tune_front(tune->points, tune->count);
}
