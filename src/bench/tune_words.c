/* SPDX-License-Identifier: Apache-2.0 */
/* What a tuner has found, in numbers and in words. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/options.h"
#include "base/sized.h"
#include "bench/tune.h"

#define LESS 0.9 /* of the memory: that much less is a gain */

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Whether the best is worth a change of what is given. */
static bool is_gain(const stk_tune *tune, const stk_tune_point *best, const stk_tune_point *given)
{
    const double most = tune->options.max_wait;

    if (!given->allowed) /* it is beyond a limit */
        return true;
    if (tune->options.objective == STK_TUNE_COST)
        return given->cost > best->cost * (1 + STK__TUNE_TIE);
    if (tune->options.objective == STK_TUNE_WAIT && best->wait_share <= most)
        return given->wait_share > most || best->num_workers < given->num_workers ||
               best->peak_bytes < LESS * given->peak_bytes;
    return best->samples_per_s > given->samples_per_s * (1 + STK__TUNE_TIE);
}

static void count_points(const stk_tune *tune, stk_tune_answer *out)
{
    double off = 0;
    uint64_t compared = 0;

    for (size_t i = 0; i < tune->count; i++) {
        const stk_tune_point *p = &tune->points[i];
        out->predicted += p->predicted > 0 && i != tune->given;
        out->measured += p->runs > 0;
        if (p->runs && p->predicted > 0 && i != tune->given) {
            off += fabs(p->predicted / p->samples_per_s - 1);
            compared++;
        }
    }
    out->model_error = compared ? off / (double)compared : NAN;
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Whether runs, and not predictions alone, say that from this value of option `k` on more give no
 * more: with it, and with a greater one. */
static const char *as_predicted(const stk_tune *tune, size_t k, int64_t from)
{
    bool with = false, above = false;

    for (size_t i = 0; i < tune->count; i++) {
        const int64_t value = stk__tune_value(&tune->points[i], k);
        with |= tune->points[i].runs && value == from;
        above |= tune->points[i].runs && value > from;
    }
    return with && above ? "" : " (predicted)";
}

/* The fastest that was run with more workers than any setting within the limits; `count`: none. */
static size_t fastest_beyond(const stk_tune *tune, int64_t workers)
{
    size_t found = tune->count;

    for (size_t i = 0; i < tune->count; i++) {
        const stk_tune_point *p = &tune->points[i];
        if (p->runs && p->num_workers > workers &&
            (found == tune->count || p->samples_per_s > tune->points[found].samples_per_s))
            found = i;
    }
    return found;
}

/* The grid ends before more workers give no more. */
static void add_more_workers(const stk_tune *tune, int64_t workers, stk__text *out)
{
    const size_t beyond = fastest_beyond(tune, workers);
    const char *plural = workers == 1 ? "" : "s";

    if (beyond == tune->count)
        stk__text_add(out, " More than %" PRId64 " worker%s may give still more: none were tried.",
                      workers, plural);
    else
        stk__text_add(out,
                      " Settings with more than %" PRId64 " worker%s are beyond the limits: with "
                      "%" PRId64 " there were %.0f samples/s.",
                      workers, plural, tune->points[beyond].num_workers,
                      tune->points[beyond].samples_per_s);
}

/* What limits the grid: how far more workers and a greater depth help. */
static void add_saturation(const stk_tune *tune, const stk_tune_answer *a, stk__text *out)
{
    if (a->saturated_workers >= 0 && a->more_workers)
        add_more_workers(tune, a->saturated_workers, out);
    else if (a->saturated_workers >= 0)
        stk__text_add(out, " Saturated from %" PRId64 " worker%s on%s.", a->saturated_workers,
                      a->saturated_workers == 1 ? "" : "s",
                      as_predicted(tune, 0, a->saturated_workers));
    if (stk__tune_reads(tune) && a->saturated_depth > 1 && !a->more_depth)
        stk__text_add(out, " More than %" PRId64 " reads at a time give no more%s.",
                      a->saturated_depth, as_predicted(tune, 1, a->saturated_depth));
}

static void add_goal(const stk_tune *tune, const stk_tune_answer *a, stk__text *out)
{
    const stk_tune_point *best = &tune->points[a->best];

    switch (tune->options.objective) {
    case STK_TUNE_SPEED:
        stk__text_add(out, " Of those as fast as it, it takes the least memory.");
        break;
    case STK_TUNE_COST:
        stk__text_add(out, " A million samples cost %.3g.", best->cost);
        break;
    default:
        if (a->reached)
            stk__text_add(out, " No setting with fewer workers waits as little as %.3g %%.",
                          100 * tune->options.max_wait);
        else
            stk__text_add(out,
                          " No setting waits as little as %.3g %% of the time: it is the fastest, "
                          "with the least memory.",
                          100 * tune->options.max_wait);
    }
}

static void add_best(const stk_tune *tune, const stk_tune_answer *a, stk__text *out)
{
    const stk_tune_point *best = &tune->points[a->best];
    char bytes[32];

    stk__text_add(out, "%s: %.0f samples/s, %.2fx of as given; the step waits %.1f %% of the time",
                  tune->plan->settings[a->best].label, best->samples_per_s, a->speed_up,
                  100 * best->wait_share);
    stk__text_add(out, "; %s of memory.", stk_size_text(best->peak_bytes, bytes));
}

/* Whether it ended before anything could be compared with what is given. */
static bool is_alone(const stk_tune_answer *a)
{
    return a->measured == 1 && (a->timed_out || !a->ended);
}

/* Why what is given stays. */
static const char *why_nothing(const stk_tune *tune, const stk_tune_answer *a)
{
    if (is_alone(a))
        return a->ended ? "no other setting was measured before the time was over: raise max_time"
                        : "no other setting was measured before it was stopped";
    if (a->measured > 1)
        return "no other setting that was run is better by more than runs differ";
    return tune->count > 1 ? "no other setting is predicted to be better"
                           : "the grid has no other setting";
}

static void add_nothing(const stk_tune *tune, const stk_tune_answer *a, stk__text *out)
{
    const stk_tune_point *given = &tune->points[a->given];

    stk__text_add(
        out, "%s: as given there are %.0f samples/s and the step waits %.1f %% of the time; %s.",
        is_alone(a) ? "It is not known whether there is anything to gain" : "Nothing to gain",
        given->samples_per_s, 100 * given->wait_share, why_nothing(tune, a));
}

/* Nothing was said of the step, on which all of it depends. */
static void add_assumed(const stk_tune *tune, stk__text *out)
{
    const stk_bench_options *bench = &tune->plan->settings[tune->given].bench;

    if (!bench->step && !bench->published &&
        !stk_config_count(tune->plan->config, "bench.train_step_time"))
        stk__text_add(out,
                      " The step was assumed to take %g ms, as nothing was said of it: give "
                      "train_step_time, or a real one (step).",
                      1e3 * bench->train_step_time);
}

static void put_words(const stk_tune *tune, stk_tune_answer *answer)
{
    stk__text out = {.bytes = answer->text, .room = sizeof answer->text};

    if (answer->best == STK_BENCH_NONE || answer->given == STK_BENCH_NONE) {
        stk__text_add(&out, "No setting is within the limits.");
        return;
    }
    if (answer->gain) {
        add_best(tune, answer, &out);
        add_goal(tune, answer, &out);
    } else {
        add_nothing(tune, answer, &out);
    }
    add_saturation(tune, answer, &out);
    const bool said = is_alone(answer);
    if (!said && !answer->ended)
        stk__text_add(&out, " Not all runs were made: this is the best of those that were.");
    else if (!said && answer->timed_out)
        stk__text_add(&out, " The time was over (max_time) before more could be compared.");
    add_assumed(tune, &out);
}

/* ---- The answer ------------------------------------------------------------------------------ */

static size_t point_or_none(const stk_tune *tune, size_t i)
{
    return i < tune->count && tune->points[i].runs ? i : STK_BENCH_NONE;
}

void stk_tune_answer_get(const stk_tune *tune, stk_tune_answer *out)
{
    stk_tune_answer a = {.struct_size = sizeof a, .speed_up = NAN};
    const size_t best = stk__tune_chosen(tune);

    a.given = point_or_none(tune, tune->given);
    a.defaults = point_or_none(tune, tune->defaults);
    a.baseline = point_or_none(tune, tune->baseline);
    a.best = best < tune->count ? best : STK_BENCH_NONE;
    a.ended = tune->ended;
    a.timed_out = tune->timed_out;
    a.took = tune->spent;
    a.runs = tune->runs;
    a.saturated_workers = stk__tune_saturated(tune->points, tune->count, 0, &a.more_workers);
    a.saturated_depth = stk__tune_saturated(tune->points, tune->count, 1, &a.more_depth);
    count_points(tune, &a);
    if (a.best != STK_BENCH_NONE && a.given != STK_BENCH_NONE) {
        const stk_tune_point *p = &tune->points[a.best], *given = &tune->points[a.given];
        a.gain = is_gain(tune, p, given);
        if (!a.gain && given->allowed)
            a.best = a.given;
        p = &tune->points[a.best];
        a.speed_up = p->samples_per_s / given->samples_per_s;
        a.reached = p->wait_share <= tune->options.max_wait;
    }
    put_words(tune, &a);
    stk__sized_write(out, &a);
}

/* ---- Reasons --------------------------------------------------------------------------------- */

/* Whether two points differ in this option, and in no other of the three. */
static bool differs_in(const stk_tune_point *a, const stk_tune_point *b, size_t own)
{
    for (size_t k = 0; k < STK__TUNE_OWN; k++)
        if ((stk__tune_value(a, k) == stk__tune_value(b, k)) == (k == own))
            return false;
    return true;
}

/* The neighbour next below, or above, in this option; `count`: there is none. */
static size_t neighbour(const stk_tune *tune, size_t best, size_t own, bool above)
{
    const stk_tune_point *p = &tune->points[best];
    const int64_t its = stk__tune_value(p, own);
    size_t found = tune->count;

    for (size_t i = 0; i < tune->count; i++) {
        const stk_tune_point *other = &tune->points[i];
        const int64_t value = stk__tune_value(other, own);
        if (!(other->samples_per_s > 0) || !differs_in(p, other, own) || (value > its) != above)
            continue;
        if (found == tune->count || (above ? value < stk__tune_value(&tune->points[found], own)
                                           : value > stk__tune_value(&tune->points[found], own)))
            found = i;
    }
    return found;
}

static void add_neighbour(const stk_tune *tune, size_t i, size_t own, stk__text *out)
{
    const stk_tune_point *p = &tune->points[i];
    char bytes[32];

    stk__text_add(out, "; with %" PRId64 " %s%.0f", stk__tune_value(p, own),
                  p->runs ? "" : "it would be ", p->samples_per_s);
    if (p->peak_bytes > 0)
        stk__text_add(out, " and %s of memory", stk_size_text(p->peak_bytes, bytes));
    if (!p->runs)
        stk__text_add(out, " (predicted)");
}

int stk_tune_reason(const stk_tune *tune, const char *option, char *text, size_t size)
{
    stk_tune_answer a = {.struct_size = sizeof a};
    stk__text out = {.bytes = text, .room = size};
    char bytes[32];
    size_t own = 0;

    if (size)
        *text = 0;
    while (own < STK__TUNE_OWN && strcmp(option, stk__tune_name(own)) != 0)
        own++;
    if (own == STK__TUNE_OWN)
        return 0;
    stk_tune_answer_get(tune, &a);
    if (a.best == STK_BENCH_NONE)
        return 0;
    const stk_tune_point *best = &tune->points[a.best];
    if (stk_config_count(tune->plan->config, stk__tune_keys[own]) < 2) {
        stk__text_add(&out, "as given: no other value was tried");
        return (int)out.length;
    }
    if (strcmp(option, "io_depth") == 0 && !stk__tune_reads(tune)) {
        stk__text_add(&out, "nothing was read while it was measured: left as given");
        return (int)out.length;
    }
    if (strcmp(option, "prefetch_factor") == 0 && best->num_workers == 0) {
        stk__text_add(&out, "without workers nothing is ahead: left as given");
        return (int)out.length;
    }
    stk__text_add(&out, "%.0f samples/s and %s of memory", best->samples_per_s,
                  stk_size_text(best->peak_bytes, bytes));
    for (int above = 0; above < 2; above++) {
        const size_t i = neighbour(tune, a.best, own, above);
        if (i < tune->count)
            add_neighbour(tune, i, own, &out);
    }
    return (int)out.length;
}
