/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which setting to run next. The one as given is run and recorded, and the whole grid predicted
 * from that. Then the best of all is run, be it predicted or measured, until the best is one that
 * was run: each run corrects what is predicted of its neighbours. The last few are run in turn, so
 * that what drifts on the machine meets all of them, until it is certain which is best. A run is
 * not begun where it would end after the time that there is.
 */
#include "bench/tune.h"

#include <inttypes.h>
#include <math.h>

#include "base/config.h"
#include "base/options.h"
#include "base/sized.h"

/* What is enough of a run, by the phase: one of its kind is looked at to tell it from others that
 * are far off, and runs that are compared are several. */
#define WHOLE    1.0
#define PART     0.5
#define LOOK     0.25
#define OF_GRID  (1.0 / 3) /* of a run for each setting: a tenth of one that is 10 s, of 3 s */
#define MIN_RUNS 10        /* runs' time at least, */
#define MIN_TIME 20        /* and s, as runs need some to start, however short they are */

/* ---- Making ---------------------------------------------------------------------------------- */

/* The first setting with these; `count`: there is none. */
static size_t find_setting(const stk_tune *tune, int64_t workers, bool all)
{
    stk_loader_options usual;

    stk_loader_options_init(&usual);
    for (size_t i = 0; i < tune->count; i++) {
        const stk_loader_options *o = &tune->plan->settings[i].loader;
        if (o->num_workers == workers && !tune->plan->settings[i].setting.free_data &&
            (!all ||
             (o->io_depth == usual.io_depth && o->prefetch_factor == usual.prefetch_factor)))
            return i;
    }
    return tune->count;
}

/* What comes from a program passes the same ranges as text does. */
static stk_status check_options(const stk_tune_options *options, stk_error *err)
{
    stk_tune_options scratch;
    char text[64];

    stk_tune_options_init(&scratch);
    for (size_t i = 0; i < stk__tune_option_table.count; i++) {
        const stk_option *option = &stk__tune_option_table.options[i];
        stk_options_format(option, options, text, sizeof text);
        STK_TRY(stk_options_set(&stk__tune_option_table, &scratch, option->name, text, err));
    }
    return STK_OK;
}

/* The seconds that there are. Settings with auto are there beside those of the grid. */
static double time_of(const stk_tune *tune)
{
    const double run = tune->plan->settings[tune->given].bench.min_seconds;
    double settings = 0;

    if (!isnan(tune->options.max_time))
        return tune->options.max_time;
    for (size_t i = 0; i < tune->count; i++) {
        const stk_loader_options *o = &tune->plan->settings[i].loader;
        settings += o->num_workers != STK_AUTO && o->io_depth != STK_AUTO;
    }
    /* How long a run is that counts batches is not known before. */
    return run > 0 ? STK_MAX(run * STK_MAX(settings * OF_GRID, MIN_RUNS), MIN_TIME) : INFINITY;
}

static stk_status fill(stk_tune *tune, stk_error *err)
{
    const size_t n = tune->plan->count;

    tune->points = stk__calloc(tune->ctx, n, sizeof *tune->points);
    tune->seen = stk__calloc(tune->ctx, n, sizeof *tune->seen);
    tune->bytes = stk__calloc(tune->ctx, n, sizeof *tune->bytes);
    tune->run = stk__calloc(tune->ctx, n, sizeof *tune->run);
    tune->last = stk__calloc(tune->ctx, n, sizeof *tune->last);
    tune->left = stk__calloc(tune->ctx, n, sizeof *tune->left);
    if (!tune->points || !tune->seen || !tune->bytes || !tune->run || !tune->last || !tune->left)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for %zu settings", n);
    tune->count = n;
    tune->defaults = find_setting(tune, STK_AUTO, true);
    tune->baseline = find_setting(tune, 0, false);
    for (size_t i = 0; i < n; i++)
        tune->run[i] = tune->plan->settings[i].num_runs > 0;
    tune->most = time_of(tune);
    return STK_OK;
}

stk_status stk_tune_create(stk_context *context, stk_bench_plan *plan,
                           const stk_tune_options *options, stk_tune **out, stk_error *err)
{
    stk_tune_options known;

    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    stk_tune_options_init(&known);
    if (options)
        STK_TRY(stk__sized_read(&known, sizeof known, options, "stk_tune_options",
                                STK_STAGE_OPTIONS, err));
    STK_TRY(check_options(&known, err));
    if (plan->count == 0 || plan->settings[0].setting.rung)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "a plan to be tuned is a grid of settings, and no ladder");
    stk_tune *tune = stk__calloc(context, 1, sizeof *tune);
    if (!tune)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for a tuner");
    *tune = (stk_tune){
        .ctx = stk__context_ref(context), .plan = plan, .options = known, .at = STK_BENCH_NONE};
    const stk_status status = fill(tune, err);
    if (status != STK_OK)
        stk_tune_destroy(&tune);
    *out = tune;
    return status;
}

void stk_tune_destroy(stk_tune **tune)
{
    stk_tune *t = tune ? *tune : NULL;

    if (!t)
        return;
    *tune = NULL;
    if (stk__context_forked(t->ctx))
        return;
    stk_context *ctx = t->ctx;
    stk__free(ctx, t->points);
    stk__free(ctx, t->seen);
    stk__free(ctx, t->bytes);
    stk__free(ctx, t->run);
    stk__free(ctx, t->last);
    stk__free(ctx, t->left);
    stk__free(ctx, t);
    stk__context_unref(ctx);
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* Whether there is time for so many runs more, if each takes as long as those before. */
static bool has_time(stk_tune *tune, uint64_t runs)
{
    const double each = tune->runs > 1 ? (tune->spent - tune->first) / (double)(tune->runs - 1)
                                       : PART * tune->spent;
    const bool has = tune->runs == 0 || tune->spent + (double)runs * each <= tune->most;

    tune->timed_out |= !has;
    return has;
}

static double length_of(const stk_tune *tune, size_t i)
{
    if (tune->runs == 0)
        return WHOLE;
    return tune->phase == STK_TUNE_MEASURE && i == tune->baseline ? LOOK : PART;
}

/* ---- What comes next ------------------------------------------------------------------------- */

/* The settings that are run whatever is predicted; `count`: all of them were. */
static size_t next_known(const stk_tune *tune)
{
    const size_t known[] = {tune->given, tune->defaults, tune->baseline};

    for (size_t i = 0; i < STK_COUNT(known); i++)
        if (known[i] < tune->count && !tune->run[known[i]])
            return known[i];
    return tune->count;
}

/* The setting next above `best` in the options of `which` (bits, in the order of stk__tune_keys),
 * others as there, where it was not run. The model says that it is no better; whether more help is
 * what it knows least. `count`: there is none. */
static size_t next_above(const stk_tune *tune, size_t best, unsigned which)
{
    const stk_tune_point *of = &tune->points[best];
    size_t found = tune->count;

    for (size_t i = 0; i < tune->count; i++) {
        const stk_tune_point *p = &tune->points[i];
        bool is = p->allowed;
        for (size_t k = 0; k < STK__TUNE_OWN; k++)
            is &= which >> k & 1 ? stk__tune_value(p, k) > stk__tune_value(of, k)
                                 : stk__tune_value(p, k) == stk__tune_value(of, k);
        if (is && (found == tune->count || (p->num_workers <= tune->points[found].num_workers &&
                                            p->io_depth <= tune->points[found].io_depth)))
            found = i;
    }
    return found < tune->count && tune->run[found] ? tune->count : found;
}

/* A setting that was not run and is so much faster, as far as its interval goes, that it would be
 * the best. */
static size_t next_hope(const stk_tune *tune, size_t best)
{
    const stk_tune_point *of = &tune->points[best];
    size_t found = tune->count;

    for (size_t i = 0; i < tune->count; i++) {
        const stk_tune_point *p = &tune->points[i];
        if (!tune->run[i] && p->allowed && p->most > of->samples_per_s * (1 + STK__TUNE_TIE) &&
            (found == tune->count || p->samples_per_s > tune->points[found].samples_per_s))
            found = i;
    }
    return found;
}

/* What may be better than the best, which was run: more workers, more reads, more of both, as
 * either may be no use without the other; then what is predicted to be. */
static size_t next_better(const stk_tune *tune, size_t best)
{
    const stk_tune_point *of = &tune->points[best];
    size_t found = tune->count;

    if (tune->options.objective == STK_TUNE_WAIT && of->wait_share <= tune->options.max_wait)
        return tune->count;
    /* A step that does not wait has no use for more of anything. */
    for (unsigned which = 1; which <= 3 && found == tune->count; which++)
        if (of->wait_share > STK__TUNE_TIE)
            found = next_above(tune, best, which);
    return found < tune->count ? found : next_hope(tune, best);
}

/* `count`: the best is known. */
static size_t next_best(stk_tune *tune)
{
    if (tune->verified >= tune->options.verify)
        return tune->count;
    size_t best = stk__tune_best(tune->points, tune->count, &tune->options, NULL);
    if (best < tune->count && tune->run[best])
        best = next_better(tune, best);
    /* The best are to be compared after it. */
    return best < tune->count && has_time(tune, 1 + STK__TUNE_LAST) ? best : tune->count;
}

/* The best that were run, and the one as given, are those to be compared. */
static void choose_last(stk_tune *tune)
{
    memset(tune->last, 0, tune->count * sizeof *tune->last);
    tune->last[tune->given] = true;
    for (size_t n = 1; n < STK__TUNE_LAST; n++) {
        for (size_t i = 0; i < tune->count; i++)
            tune->left[i] = tune->run[i] && !tune->last[i];
        const size_t best = stk__tune_best(tune->points, tune->count, &tune->options, tune->left);
        if (best < tune->count)
            tune->last[best] = true;
    }
}

/* Of those the one to run again; `count`: it is certain which is best, or there is no time. */
static size_t next_last(stk_tune *tune)
{
    const size_t next =
        stk__tune_race(tune->points, tune->seen, tune->count, &tune->options, tune->last);

    return next < tune->count && has_time(tune, 1) ? next : tune->count;
}

/* Once they are compared, one that was not run may be the best again. */
static size_t choose_next(stk_tune *tune)
{
    size_t next = tune->count;

    if (tune->phase == STK_TUNE_MEASURE)
        next = next_known(tune);
    if (next < tune->count && has_time(tune, 1))
        return next;
    next = tune->count;
    if (tune->phase == STK_TUNE_COMPARE)
        next = next_last(tune);
    if (next < tune->count)
        return next;
    next = next_best(tune);
    if (next < tune->count) {
        tune->phase = STK_TUNE_VERIFY;
        tune->verified++;
        return next;
    }
    tune->phase = STK_TUNE_COMPARE;
    choose_last(tune);
    return next_last(tune);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* The budget that max_memory leaves is too small: it is not the budget that is to be raised. */
static stk_status fail_memory(const stk_tune *tune, const stk_error *why, stk_error *err)
{
    const char *remedy = strstr(why->text, "raise memory_budget");
    size_t length = remedy ? (size_t)(remedy - why->text) : strlen(why->text);

    while (length && strchr(":;,. ", why->text[length - 1]))
        length--;
    return stk__fail_at(err, why->status, why->stage, "tune.max_memory", STK_NO_OFFSET,
                        "max_memory is %" PRIu64 " bytes, and memory_budget is kept below it: "
                        "%.*s; raise max_memory, or lower batch_size",
                        tune->options.max_memory, (int)length, why->text);
}

/* The run that was asked for has been made. Without the setting as given nothing is known. */
static stk_status take_run(stk_tune *tune, stk_error *err)
{
    if (tune->at == STK_BENCH_NONE)
        return STK_OK;
    const stk__bench_planned *s = &tune->plan->settings[tune->at];
    if (s->num_runs <= tune->before)
        return stk__fail(err, STK_EINVAL, STK_STAGE_MEASURE,
                         "the run of setting %zu was not added to the plan: stk_bench_plan_add()",
                         tune->at);
    tune->run[tune->at] = true;
    tune->runs++;
    tune->ran += s->runs[s->num_runs - 1].result.setup + s->runs[s->num_runs - 1].sum.wall;
    if (tune->at != tune->given || s->good)
        return STK_OK;
    const stk_bench_result *result = &s->runs[0].result;
    const stk__entry *budget = stk__config_find(tune->plan->config, "loader.memory_budget");
    if (result->status == STK_EBUDGET && budget && budget->place.source == stk__tune_limit)
        return fail_memory(tune, &result->error, err);
    if (err)
        *err = result->error;
    return result->status < 0 ? result->status
                              : stk__fail(err, STK_ECANCELED, STK_STAGE_MEASURE,
                                          "the run came to no figures: it was interrupted");
}

static void take_time(stk_tune *tune)
{
    const uint64_t now = stk__now_ns();

    if (!tune->begun_ns)
        tune->begun_ns = now;
    tune->spent = STK_MAX(stk__seconds(now - tune->begun_ns), tune->ran);
    if (tune->runs <= 1)
        tune->first = tune->spent;
}

stk_status stk_tune_next(stk_tune *tune, const char *log, stk_tune_run *out, stk_error *err)
{
    STK_TRY(stk__context_check(tune->ctx, err));
    STK_TRY(stk__sized_check(out, "stk_tune_run", STK_STAGE_MEASURE, err));
    STK_TRY(take_run(tune, err));
    if (tune->at != STK_BENCH_NONE && !tune->predicted) {
        STK_TRY(stk_bench_plan_predict(tune->plan, log, err));
        tune->predicted = true;
    }
    stk__tune_refresh(tune);
    take_time(tune);
    const size_t next = choose_next(tune);
    tune->ended = next == tune->count;
    tune->at = STK_BENCH_NONE;
    if (tune->ended)
        return STK_EOS;
    tune->at = next;
    tune->before = tune->plan->settings[next].num_runs;
    const stk_tune_run run = {.struct_size = sizeof run,
                              .setting = next,
                              .phase = tune->phase,
                              .number = tune->runs + 1,
                              .length = length_of(tune, next)};
    stk__sized_write(out, &run);
    return STK_OK;
}

size_t stk__tune_chosen(const stk_tune *tune)
{
    return stk__tune_best(tune->points, tune->count, &tune->options,
                          tune->phase == STK_TUNE_COMPARE ? tune->last : tune->run);
}

size_t stk_tune_count(const stk_tune *tune)
{
    return tune->count;
}

void stk_tune_point_get(const stk_tune *tune, size_t i, stk_tune_point *out)
{
    const stk_tune_point none = {.struct_size = sizeof none};

    stk__sized_write(out, i < tune->count ? &tune->points[i] : &none);
}

bool stk_tune_point_number(const stk_tune_point *point, size_t i, const char **name, double *value)
{
    stk_tune_point p = {.struct_size = sizeof p};

    stk__sized_copy(&p, sizeof p, point);
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"samples_per_s", p.samples_per_s},
                   {"least", p.least},
                   {"most", p.most},
                   {"predicted_samples_per_s", p.predicted},
                   {"wait_share", p.wait_share},
                   {"wait_mean", p.wait},
                   {"cpu_cores", p.cpu_cores},
                   {"peak_bytes", p.peak_bytes},
                   {"cost_per_million", p.cost}};
    if (i >= STK_COUNT(numbers))
        return false;
    *name = numbers[i].name;
    *value = numbers[i].value;
    return true;
}
