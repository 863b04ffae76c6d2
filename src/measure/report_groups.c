/* SPDX-License-Identifier: Apache-2.0 */
/* Runs -> settings, one setting against another, and settings as steps of a ladder. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure/ranks.h"

#define MAX_REPEATS 1000
#define SAME        1.005 /* factors below are said to be none */
#define LITTLE      1.05  /* a whole factor below is not divided into shares */
#define NAME        256
#define TEXT        768

typedef struct group {
    stk_report_group shown;
    char name[NAME];
} group;

typedef struct pair {
    stk_report_pair shown;
    stk_ratio per_step, wait, total;
    char text[TEXT];
} pair;

/* All arrays have room for every run. */
struct stk__comparison {
    stk_report_comparison shown;
    const stk_report *report;
    char (*run_names)[NAME];
    const char **names;
    uint64_t *runs; /* of all groups, one group after the other */
    group *groups;
    pair *pairs;
    stk_report_rung *rungs;
    double first_pace, last_pace; /* of the rungs */
    const stk_report_group **shown_groups, **by_wait;
    const stk_report_pair **shown_pairs;
    const stk_report_rung **shown_rungs;
    stk__worlds *worlds;
};

static const stk_report_run *run_at(const stk__comparison *c, uint64_t i)
{
    return stk_report_run_at(c->report, i);
}

static const stk_report_run *first_run(const stk__comparison *c, const stk_report_group *g)
{
    return run_at(c, g->runs[0]);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void name_run(stk__comparison *c, uint64_t i)
{
    const stk_report_run *run = run_at(c, i);
    const stk_report_file *file = stk_report_file_at(c->report, run->file);
    const char *slash = strrchr(file->name, '/'), *name = slash ? slash + 1 : file->name;
    char *out = c->run_names[i];

    if (*run->label && stk_report_files(c->report) > 1)
        snprintf(out, NAME, "%.100s: %.120s", name, run->label);
    else if (*run->label)
        snprintf(out, NAME, "%.200s", run->label);
    else if (file->runs > 1)
        snprintf(out, NAME, "%.200s #%" PRIu64, name, i - file->first_run + 1);
    else
        snprintf(out, NAME, "%.200s", name);
    c->names[i] = out;
}

static void name_group(const stk__comparison *c, group *g)
{
    snprintf(g->name, NAME, "%s", c->names[g->shown.runs[0]]);
    /* Repeated runs without a label: the log's name, not that of its first run. */
    char *number = strrchr(g->name, '#');
    if (g->shown.count > 1 && !*first_run(c, &g->shown)->label && number && number > g->name)
        number[-1] = '\0';
    g->shown.name = g->name;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

static bool same_setting(const stk_report_run *a, const stk_report_run *b)
{
    return a->file == b->file && a->published == b->published && same_text(a->label, b->label) &&
           (*a->label || same_text(a->data_params, b->data_params));
}

typedef double figure_fn(const stk_report_run *run);

/* Of several ranks the first counts for all: they take their steps together. */
static bool counts(const stk_report_run *run)
{
    return run->rank <= 0;
}

/* The figures of the runs that have one, sorted. */
static uint64_t sorted(const stk__comparison *c, const stk_report_group *g, figure_fn *figure,
                       double values[MAX_REPEATS])
{
    stk_spread spread;
    uint64_t n = 0;

    for (uint64_t i = 0; i < STK_MIN(g->count, MAX_REPEATS); i++) {
        const double value = figure(run_at(c, g->runs[i]));
        if (isfinite(value))
            values[n++] = value;
    }
    stk_spread_of(values, n, &spread);
    return n;
}

static double figure_training(const stk_report_run *run)
{
    return run->training_seconds;
}

static double figure_rate(const stk_report_run *run)
{
    return run->steady_samples_per_s;
}

static void average(const stk__comparison *c, stk_report_group *g)
{
    const double n = (double)g->count;

    for (uint64_t i = 0; i < g->count; i++) {
        const stk_report_run *run = run_at(c, g->runs[i]);
        g->wait += run->wait.mean / n;
        g->per_step += run->seconds_per_step / n;
        g->total += run->total / n;
        g->rate += (isfinite(run->samples_per_s) ? run->samples_per_s : run->steps_per_s) / n;
        g->busy_share += run->busy_share / n;
    }
}

/* Steady samples a second of the run of the median rate, of two the slower, as `stoker bench` shows
 * them; NaN: no run has any. */
static double median_rate(const stk__comparison *c, const stk_report_group *g)
{
    double values[MAX_REPEATS];
    const uint64_t n = sorted(c, g, figure_rate, values);

    return n ? values[(n - 1) / 2] : (double)NAN;
}

/* Whole trainings: the run of the median rate is shown, of two the slower. */
static void take_trainings(const stk__comparison *c, stk_report_group *g)
{
    double values[MAX_REPEATS];
    const uint64_t n = sorted(c, g, figure_training, values);
    figure_fn *figure = n ? figure_training : figure_rate;
    const double median = n ? values[n / 2] : median_rate(c, g);

    g->training = n ? median : (double)NAN;
    g->training_least = n ? values[0] : (double)NAN;
    g->training_most = n ? values[n - 1] : (double)NAN;
    g->speed_up = g->speed_up_least = g->speed_up_most = NAN;
    g->shown = g->runs[0];
    for (uint64_t i = g->count; i-- > 0;)
        if (figure(run_at(c, g->runs[i])) == median)
            g->shown = g->runs[i];
}

/* What the trainings of a log are compared with; NULL: there are none. */
static const stk_report_group *baseline_of(const stk__comparison *c, uint64_t file)
{
    const stk_report_group *found = NULL;

    for (uint64_t i = 0; i < c->shown.num_groups; i++) {
        const stk_report_group *g = c->shown_groups[i];
        if (g->file != file || !isfinite(g->training))
            continue;
        if (first_run(c, g)->num_workers == 0)
            return g;
        found = found ? found : g;
    }
    return found;
}

/* Of the runs of a round behind the first `before`, as where a bench was made twice, the next one;
 * NULL: there is none. */
static const stk_report_run *in_round(const stk__comparison *c, const stk_report_group *g,
                                      int64_t repeat, uint64_t before)
{
    for (uint64_t i = 0; i < STK_MIN(g->count, MAX_REPEATS); i++)
        if (run_at(c, g->runs[i])->repeat == repeat && before-- == 0)
            return run_at(c, g->runs[i]);
    return NULL;
}

/* Each run over that of the baseline in the same round. */
static void pair_trainings(const stk__comparison *c, stk_report_group *g)
{
    double ratios[MAX_REPEATS];
    stk_spread spread;

    for (uint64_t i = 0; i < STK_MIN(g->count, MAX_REPEATS); i++) {
        const stk_report_run *run = run_at(c, g->runs[i]);
        uint64_t before = 0;
        for (uint64_t k = 0; k < i; k++)
            before += run_at(c, g->runs[k])->repeat == run->repeat;
        const stk_report_run *base = in_round(c, g->baseline, run->repeat, before);
        /* Of trainings a second, so that it is the bench's to the last digit. */
        const double ratio =
            base ? 1 / figure_training(run) / (1 / figure_training(base)) : (double)NAN;
        if (isfinite(ratio))
            ratios[g->pairs++] = ratio;
    }
    stk_spread_of(ratios, g->pairs, &spread);
    if (g->pairs) {
        g->speed_up = spread.p50;
        g->speed_up_least = spread.min;
        g->speed_up_most = spread.max;
    }
}

static void compare_trainings(stk__comparison *c)
{
    for (uint64_t i = 0; i < c->shown.num_groups; i++)
        take_trainings(c, &c->groups[i].shown);
    for (uint64_t i = 0; i < c->shown.num_groups; i++) {
        stk_report_group *g = &c->groups[i].shown;
        g->baseline = baseline_of(c, g->file);
        c->shown.trainings |= g->baseline != NULL;
        if (g->baseline)
            pair_trainings(c, g);
    }
}

/* The group that run `first` begins: it and all later runs of its setting. */
static void add_group(stk__comparison *c, uint64_t first, uint64_t **runs)
{
    const uint64_t n = stk_report_runs(c->report);
    group *g = &c->groups[c->shown.num_groups];
    stk_report_group *shown = &g->shown;

    *shown = (stk_report_group){
        .struct_size = sizeof *shown, .file = run_at(c, first)->file, .runs = *runs};
    for (uint64_t i = first; i < n; i++)
        if (counts(run_at(c, i)) && same_setting(run_at(c, first), run_at(c, i)))
            (*runs)[shown->count++] = i;
    *runs += shown->count;
    name_group(c, g);
    average(c, shown);
    c->shown_groups[c->shown.num_groups] = c->by_wait[c->shown.num_groups] = shown;
    c->shown.num_groups++;
}

static bool is_grouped(const stk__comparison *c, const stk_report_run *run)
{
    for (uint64_t i = 0; i < c->shown.num_groups; i++)
        if (same_setting(first_run(c, c->shown_groups[i]), run))
            return true;
    return false;
}

static int by_wait(const void *a, const void *b)
{
    const stk_report_group *x = *(const stk_report_group *const *)a,
                           *y = *(const stk_report_group *const *)b;

    if (x->wait != y->wait)
        return x->wait < y->wait ? -1 : x->wait > y->wait;
    return x->runs[0] < y->runs[0] ? -1 : 1;
}

static void make_groups(stk__comparison *c)
{
    uint64_t *runs = c->runs;

    for (uint64_t i = 0; i < stk_report_runs(c->report); i++)
        name_run(c, i);
    for (uint64_t i = 0; i < stk_report_runs(c->report); i++)
        if (counts(run_at(c, i)) && !is_grouped(c, run_at(c, i)))
            add_group(c, i, &runs);
    compare_trainings(c);
    if (c->shown.num_groups)
        qsort(c->by_wait, c->shown.num_groups, sizeof(const stk_report_group *), by_wait);
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static double figure_per_step(const stk_report_run *run)
{
    return run->seconds_per_step;
}

static double figure_wait(const stk_report_run *run)
{
    return run->wait.mean;
}

static double figure_total(const stk_report_run *run)
{
    return run->total;
}

static uint64_t take(const stk__comparison *c, const stk_report_group *g, figure_fn *figure,
                     double values[MAX_REPEATS])
{
    const uint64_t n = STK_MIN(g->count, MAX_REPEATS);

    for (uint64_t i = 0; i < n; i++)
        values[i] = figure(run_at(c, g->runs[i]));
    return n;
}

static void compare(const stk__comparison *c, const stk_report_pair *p, figure_fn *figure,
                    stk_ratio *out)
{
    double a[MAX_REPEATS], b[MAX_REPEATS];
    const uint64_t n_a = take(c, p->a, figure, a), n_b = take(c, p->b, figure, b);

    stk__ratio_of(a, n_a, b, n_b, out);
}

/* How sure the ratio is. */
static void describe_doubt(const stk_ratio *r, char *text, size_t size)
{
    const char *difference = r->real ? "is real" : "may be chance";

    if (r->sureness == STK_SURE_RUNS)
        snprintf(text, size,
                 " From %" PRIu64 " and %" PRIu64
                 " runs (Welch's test on logarithms, p = %.2g): the difference %s.",
                 r->n_a, r->n_b, r->p, difference);
    else if (r->sureness == STK_SURE_WITHIN)
        snprintf(text, size,
                 " From one run each: the interval is that of %" PRIu64 " and %" PRIu64
                 " blocks of steps within them (the difference %s there) and says nothing of how "
                 "runs differ; repeat them (--repeat 5).",
                 r->n_a, r->n_b, difference);
    else
        snprintf(text, size, " Too few runs and steps for an interval: repeat them (--repeat 5).");
}

static void describe(pair *p)
{
    const stk_ratio *r = &p->per_step;
    const bool faster = r->ratio < 1;
    const double factor = faster ? 1 / r->ratio : r->ratio, low = faster ? 1 / r->high : r->low,
                 high = faster ? 1 / r->low : r->high;
    const char *from = p->shown.a->name, *to = p->shown.b->name;
    char range[96] = "", than[2 * NAME + 64];

    if (!isfinite(r->ratio)) {
        snprintf(p->text, TEXT, "%s and %s cannot be compared: one of them has no measured step.",
                 to, from);
        return;
    }
    if (isfinite(low))
        snprintf(range, sizeof range, ", 95 %% interval %.3g to %.3g", low, high);
    if (factor < SAME)
        snprintf(than, sizeof than, "%s takes the time of %s", to, from);
    else
        snprintf(than, sizeof than, "%s is %.3gx %s than %s", to, factor,
                 faster ? "faster" : "slower", from);
    const int used = snprintf(p->text, TEXT,
                              "%s by the time of a step with its wait (epochs only%s). The whole "
                              "run with its setup: %.3gx the time; mean wait: %.3gx.",
                              than, range, p->total.ratio, p->wait.ratio);
    if (used > 0 && used < TEXT)
        describe_doubt(r, p->text + used, TEXT - (size_t)used);
}

static void add_pair(stk__comparison *c, const stk_report_group *a, const stk_report_group *b)
{
    pair *p = &c->pairs[c->shown.num_pairs];

    p->shown = (stk_report_pair){.struct_size = sizeof p->shown,
                                 .a = a,
                                 .b = b,
                                 .per_step = &p->per_step,
                                 .wait = &p->wait,
                                 .total = &p->total,
                                 .text = p->text};
    compare(c, &p->shown, figure_per_step, &p->per_step);
    compare(c, &p->shown, figure_wait, &p->wait);
    compare(c, &p->shown, figure_total, &p->total);
    if (a->count == 1 && b->count == 1)
        stk__ratio_within(first_run(c, a), first_run(c, b), &p->per_step);
    describe(p);
    c->shown_pairs[c->shown.num_pairs++] = &p->shown;
}

static uint64_t groups_of_file(const stk__comparison *c, uint64_t file)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < c->shown.num_groups; i++)
        n += c->shown_groups[i]->file == file;
    return n;
}

/* The group of the first log that a group of another is compared with. */
static const stk_report_group *match(const stk__comparison *c, const stk_report_group *b)
{
    const bool single = groups_of_file(c, 0) == 1 && groups_of_file(c, b->file) == 1;
    const char *label = first_run(c, b)->label;

    for (uint64_t i = 0; i < c->shown.num_groups; i++) {
        const stk_report_group *a = c->shown_groups[i];
        if (a->file == 0 && (single || strcmp(first_run(c, a)->label, label) == 0))
            return a;
    }
    return NULL;
}

static void make_pairs(stk__comparison *c)
{
    const bool one_log = stk_report_files(c->report) == 1;

    for (uint64_t i = 1; i < c->shown.num_groups; i++) {
        const stk_report_group *b = c->shown_groups[i];
        if (!one_log && b->file == 0)
            continue;
        const stk_report_group *a = one_log ? c->shown_groups[0] : match(c, b);
        if (a)
            add_pair(c, a, b);
        else
            c->shown.unmatched++;
    }
}

/* ---- Ladders --------------------------------------------------------------------------------- */

/* `pace`: what factors are of. */
static void add_rung(stk__comparison *c, const stk_report_group *g, const char *name, double speed,
                     double pace)
{
    stk_report_comparison *shown = &c->shown;
    stk_report_rung *rung = &c->rungs[shown->num_rungs];

    *rung = (stk_report_rung){
        .struct_size = sizeof *rung, .group = g, .name = name, .speed = speed, .share = NAN};
    rung->factor = shown->num_rungs ? pace / c->last_pace : (double)NAN;
    c->first_pace = shown->num_rungs ? c->first_pace : pace;
    c->last_pace = pace;
    shown->whole = c->last_pace / c->first_pace;
    c->shown_rungs[shown->num_rungs++] = rung;
}

static void make_rungs(stk__comparison *c)
{
    stk_report_comparison *shown = &c->shown;

    if (stk_report_files(c->report) != 1)
        return;
    for (uint64_t i = 0; i < shown->num_groups; i++) {
        const stk_report_group *g = c->shown_groups[i];
        const double speed = shown->trainings ? 1 / g->training : median_rate(c, g),
                     pace = shown->trainings ? g->speed_up : speed;
        if (first_run(c, g)->rung > 0 && isfinite(speed) && isfinite(pace))
            add_rung(c, g, first_run(c, g)->measure, speed, pace);
    }
    shown->ladder = shown->num_rungs > 1;
    /* Settings that were not measured as a ladder may still be read as one. */
    if (!shown->ladder) {
        shown->num_rungs = 0;
        for (uint64_t i = 0; i < shown->num_groups && shown->num_groups > 2; i++)
            add_rung(c, c->shown_groups[i], c->shown_groups[i]->name,
                     1 / c->shown_groups[i]->per_step, 1 / c->shown_groups[i]->per_step);
    }
    /* Factors multiply, so that shares are of the logarithm of the whole factor: they add up. */
    for (uint64_t i = 1; i < shown->num_rungs; i++)
        if (fabs(log(shown->whole)) > log(LITTLE))
            c->rungs[i].share = log(c->rungs[i].factor) / log(shown->whole);
}

/* ---- The whole ------------------------------------------------------------------------------- */

void stk__comparison_destroy(stk_context *ctx, stk__comparison *c)
{
    if (!c)
        return;
    void *const arrays[] = {c->run_names,
                            (void *)c->names,
                            c->runs,
                            c->groups,
                            c->pairs,
                            c->rungs,
                            (void *)c->by_wait,
                            (void *)c->shown_groups,
                            (void *)c->shown_pairs,
                            (void *)c->shown_rungs};

    for (size_t i = 0; i < STK_COUNT(arrays); i++)
        stk__free(ctx, arrays[i]);
    stk__worlds_destroy(ctx, c->worlds);
    stk__free(ctx, c);
}

const stk_report_comparison *stk__comparison_shown(const stk__comparison *c)
{
    return c ? &c->shown : NULL;
}

static stk__comparison *comparison_create(const stk_report *report)
{
    const uint64_t n = STK_MAX(stk_report_runs(report), 1);
    stk_context *ctx = report->ctx;
    stk__comparison *c = stk__calloc(ctx, 1, sizeof *c);

    if (!c)
        return NULL;
    c->report = report;
    c->run_names = stk__calloc(ctx, n, sizeof *c->run_names);
    c->names = stk__calloc(ctx, n, sizeof(const char *));
    c->runs = stk__calloc(ctx, n, sizeof *c->runs);
    c->groups = stk__calloc(ctx, n, sizeof *c->groups);
    c->pairs = stk__calloc(ctx, n, sizeof *c->pairs);
    c->rungs = stk__calloc(ctx, n, sizeof *c->rungs);
    c->shown_groups = stk__calloc(ctx, n, sizeof(const stk_report_group *));
    c->by_wait = stk__calloc(ctx, n, sizeof(const stk_report_group *));
    c->shown_pairs = stk__calloc(ctx, n, sizeof(const stk_report_pair *));
    c->shown_rungs = stk__calloc(ctx, n, sizeof(const stk_report_rung *));
    if (c->run_names && c->names && c->runs && c->groups && c->pairs && c->rungs &&
        c->shown_groups && c->by_wait && c->shown_pairs && c->shown_rungs)
        return c;
    stk__comparison_destroy(ctx, c);
    return NULL;
}

static stk_status fail_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the runs of the logs");
}

stk_status stk_report_compare(stk_report *report, const stk_report_comparison **out, stk_error *err)
{
    *out = NULL;
    STK_TRY(stk__context_check(report->ctx, err));
    stk__comparison_destroy(report->ctx, report->comparison);
    stk__comparison *c = report->comparison = comparison_create(report);
    if (!c)
        return fail_memory(err);
    make_groups(c);
    if (stk__worlds_create(report, c->names, &c->worlds) != STK_OK)
        return fail_memory(err);
    for (uint64_t i = 0; i < STK_MIN(c->shown.num_groups, STK__SIMULATED_VERDICTS); i++)
        stk__run_simulate(report, report->runs[c->shown_groups[i]->shown]);
    make_rungs(c);
    make_pairs(c);
    c->shown.struct_size = sizeof c->shown;
    c->shown.names = c->names;
    c->shown.groups = c->shown_groups;
    c->shown.by_wait = c->by_wait;
    c->shown.pairs = c->shown_pairs;
    c->shown.rungs = c->shown_rungs;
    c->shown.worlds = stk__worlds_shown(c->worlds, &c->shown.num_worlds);
    *out = &c->shown;
    return STK_OK;
}
