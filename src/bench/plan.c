/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration -> the settings that are measured. */
#include "bench/plan.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/config.h"
#include "base/options.h"
#include "base/sized.h"

/* The published benchmark's values, where bench.published is set and the option is not. */
#define PUBLISHED_EPOCHS  2
#define PUBLISHED_BATCHES 3
#define PUBLISHED_SIZE    16
#define PUBLISHED_STEP    0.1
#define PUBLISHED_WARMUP  1

static const stk_option rows[] = {
    {"dataset", STK_OPTION_STRING, offsetof(stk_bench_source, dataset), NULL, 0, 0, NULL, "SPEC",
     "What to read: 'digits:', 'mnist:DIR', 'npy:FILE', ...; a PATH where what it names is "
     "unambiguous."},
};

const stk_option_table stk__bench_source_option_table = {
    .name = "",
    .doc = "The data",
    .struct_size = sizeof(stk_bench_source),
    .options = rows,
    .count = STK_COUNT(rows),
};

static void apply_published(const stk_bench_plan *plan, stk__bench_planned *s)
{
    const stk_option_table *bench = &stk__bench_option_table,
                           *loader = stk_option_table_find("loader");

    if (!stk__bench_given(plan, bench, "num_epochs"))
        s->bench.num_epochs = PUBLISHED_EPOCHS;
    if (!stk__bench_given(plan, bench, "num_batches"))
        s->bench.num_batches = PUBLISHED_BATCHES;
    if (!stk__bench_given(plan, bench, "train_step_time"))
        s->bench.train_step_time = PUBLISHED_STEP;
    if (!stk__bench_given(plan, bench, "warmup"))
        s->bench.warmup = PUBLISHED_WARMUP;
    if (!stk__bench_given(plan, loader, "batch_size"))
        s->loader.batch_size = PUBLISHED_SIZE;
}

/* In a sweep over on_error a bound on bad samples is for the settings that pass them; where none
 * does, the loader refuses it. */
static void drop_idle_bound(const stk_bench_plan *plan, stk__bench_planned *s)
{
    if (stk_config_count(plan->config, "loader.on_error") > 1 &&
        s->loader.on_error == STK_ON_ERROR_FAIL)
        s->loader.max_errors = "auto";
}

static stk_status make_setting(const stk_bench_plan *plan, uint64_t which,
                               const stk_bench_plan_options *how, stk__bench_planned *s,
                               stk_error *err)
{
    const stk_option_table *sources = &stk__bench_source_option_table;
    stk_bench_source source;

    stk_options_init(sources, &source, sizeof source);
    stk_bench_options_init(&s->bench);
    stk_loader_options_init(&s->loader);
    STK_TRY(stk_config_apply(plan->config, sources, which, &source, err));
    STK_TRY(stk_config_apply(plan->config, &stk__bench_option_table, which, &s->bench, err));
    STK_TRY(
        stk_config_apply(plan->config, stk_option_table_find("loader"), which, &s->loader, err));
    drop_idle_bound(plan, s);
    s->setting = (stk_bench_setting){.struct_size = sizeof s->setting,
                                     .dataset = source.dataset,
                                     .loader = &s->loader,
                                     .bench = &s->bench,
                                     .repeat = 1,
                                     .which = which};
    if (how->adjust)
        STK_TRY(how->adjust(how->user, &s->setting, &s->loader, &s->bench, err));
    STK_TRY(stk__bench_take_python(plan, how, s, err));
    if (s->bench.published)
        apply_published(plan, s);
    STK_TRY(stk__bench_take_knobs(plan, s, err));
    stk__bench_name_knobs(plan, s, NULL, s->label);
    if (!s->label[0])
        snprintf(s->label, sizeof s->label, "as given");
    return STK_OK;
}

/* For each batch size there is one ceiling, taken from the first setting that has it. */
static bool needs_ceiling(const stk_bench_plan *plan, size_t i)
{
    const stk__bench_planned *s = &plan->settings[i];

    for (size_t k = 0; k < i; k++)
        if (plan->settings[k].loader.batch_size == s->loader.batch_size &&
            plan->settings[k].bench.ceiling)
            return false;
    return s->bench.ceiling;
}

static stk_status add_ceilings(stk_bench_plan *plan, stk_error *err)
{
    const size_t settings = plan->count;

    for (size_t i = 0; i < settings; i++) {
        if (!needs_ceiling(plan, i))
            continue;
        stk__bench_planned *s = &plan->settings[plan->count++];
        *s = plan->settings[i];
        s->knobs = NULL;
        s->setting.free_data = true;
        s->setting.rung = 0;
        s->setting.loader = &s->loader;
        s->setting.bench = &s->bench;
        s->setting.python = s->setting.python ? &s->python : NULL;
        snprintf(s->label, sizeof s->label, "ceiling: data free (batch_size %" PRIu64 ")",
                 s->loader.batch_size);
        STK_TRY(stk__bench_take_knobs(plan, s, err));
    }
    return STK_OK;
}

/* What each rung of a ladder adds to the one before; with its number that is name enough. */
static void name_rungs(stk_bench_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        stk__bench_planned *s = &plan->settings[i];
        s->setting.rung = i + 1;
        snprintf(s->measure, sizeof s->measure, "at first");
        if (i > 0)
            stk__bench_name_knobs(plan, s, s - 1, s->measure);
        snprintf(s->label, sizeof s->label, "%" PRIu64 ". %.*s", s->setting.rung,
                 STK_BENCH_LABEL - 24, s->measure);
    }
}

static stk_status fill(stk_bench_plan *plan, const stk_bench_plan_options *how, stk_error *err)
{
    stk_bench_options first;

    stk_bench_options_init(&first);
    STK_TRY(stk_config_apply(plan->config, &stk__bench_option_table, 0, &first, err));
    const uint64_t n =
        first.ladder ? stk__config_rungs(plan->config) : stk_config_combinations(plan->config);
    if (n > STK_BENCH_MAX_SETTINGS)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "%" PRIu64 " settings: %d at most; give fewer values", n,
                         STK_BENCH_MAX_SETTINGS);
    plan->num_knobs = stk__bench_count_knobs(plan);
    plan->settings = stk__calloc(plan->ctx, 2 * n, sizeof *plan->settings);
    if (!plan->settings)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for %" PRIu64 " settings",
                         n);
    for (uint64_t i = 0; i < n; i++)
        STK_TRY(make_setting(plan, first.ladder ? stk__config_rung(plan->config, i) : i, how,
                             &plan->settings[plan->count++], err));
    if (first.ladder)
        name_rungs(plan);
    STK_TRY(add_ceilings(plan, err));
    for (size_t i = 0; i < plan->count; i++) {
        stk__bench_planned *s = &plan->settings[i];
        s->setting.number = i + 1;
        s->setting.label = s->label;
        s->setting.measure = s->measure;
        STK_TRY(stk__secret_refuse(s->setting.dataset ? s->setting.dataset : "", err));
        STK_TRY(stk__bench_describe(plan, s, err));
    }
    return STK_OK;
}

stk_status stk_bench_plan_create(stk_context *context, stk_config *config,
                                 const stk_bench_plan_options *options, stk_bench_plan **out,
                                 stk_error *err)
{
    stk_bench_plan_options how = {.struct_size = sizeof how};

    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    STK_TRY(stk__config_no_secrets(config, err));
    if (options)
        STK_TRY(stk__sized_read(&how, sizeof how, options, "stk_bench_plan_options",
                                STK_STAGE_OPTIONS, err));
    stk_bench_plan *plan = stk__calloc(context, 1, sizeof *plan);
    if (!plan)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_MEASURE, "no memory for the settings");
    plan->ctx = stk__context_ref(context);
    plan->config = config;
    stk_status status = fill(plan, &how, err);
    if (status != STK_OK)
        stk_bench_plan_destroy(&plan);
    *out = plan;
    return status;
}

void stk_bench_plan_destroy(stk_bench_plan **plan)
{
    stk_bench_plan *p = plan ? *plan : NULL;

    if (!p)
        return;
    *plan = NULL;
    if (stk__context_forked(p->ctx))
        return;
    stk_context *ctx = p->ctx;
    for (size_t i = 0; i < p->count; i++) {
        stk__free(ctx, p->settings[i].options_json);
        stk__free(ctx, p->settings[i].about);
        stk__free(ctx, p->settings[i].knobs);
        stk__free(ctx, p->settings[i].runs);
    }
    stk__free(ctx, p->settings);
    stk__free(ctx, p);
    stk__context_unref(ctx);
}

size_t stk_bench_plan_count(const stk_bench_plan *plan)
{
    return plan->count;
}

void stk_bench_plan_get(const stk_bench_plan *plan, size_t i, stk_bench_setting *out)
{
    const stk_bench_setting none = {.struct_size = sizeof none};

    stk__sized_write(out, i < plan->count ? &plan->settings[i].setting : &none);
}
