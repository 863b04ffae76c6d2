/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is `auto` in a configuration -> a number. The batch size is the largest whose training fits
 * memory: what the plans of the model and of the loaders say of a size is exact and takes none, so
 * that sizes are tried on plans, and one real step checks what was found.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/config.h"
#include "base/options.h"
#include "recipe/recipe.h"

#define FINDER "batch_size_finder"
#define KEY    "loader.batch_size"

/* An epoch of fewer steps learns little, however much memory there is. */
#define LEAST_STEPS 32
#define MOST_ROWS   (UINT64_C(1) << 24) /* loader.batch_size and that of a model */

enum { MODE_POWER, MODE_BINSEARCH };

#define AT(member) offsetof(stk__recipe_finder, member)

static const stk_option finder_rows[] = {
    {"mode", STK_OPTION_ENUM, AT(mode), "power", 0, 0, "power|binsearch", NULL,
     "power: init_val and its doubles; binsearch: any number."},
    {"init_val", STK_OPTION_UINT, AT(init_val), "1", 1, (double)MOST_ROWS, NULL, "N",
     "The first size that is tried."},
    {"max_trials", STK_OPTION_UINT, AT(max_trials), "25", 1, 64, NULL, "N",
     "How often it may double."},
    {"steps_per_trial", STK_OPTION_UINT, AT(steps_per_trial), "1", 1, 1000, NULL, "N",
     "Real steps of the check."},
    {"batch_arg_name", STK_OPTION_ENUM, AT(batch_arg_name), "batch_size", 0, 0, "batch_size", NULL,
     "What is set."},
};

static const stk_option_table finder_table = {.name = FINDER,
                                              .doc = "Finds the batch size before the training.",
                                              .struct_size = sizeof(stk__recipe_finder),
                                              .options = finder_rows,
                                              .count = STK_COUNT(finder_rows)};

/* ---- What is asked for ----------------------------------------------------------------------- */

/* Lightning's callback says the same as `auto`, in whose words it is saved. */
static stk_status read_finder(const stk__item *item, void *user, stk_error *err)
{
    return stk__item_options(item, &finder_table, NULL, user, err);
}

stk_status stk__recipe_read_auto(stk_config *config, stk__recipe_settings *settings, stk_error *err)
{
    stk__recipe_auto *search = &settings->search;
    stk_loader_options loader;

    stk_options_init(&finder_table, &search->finder, sizeof search->finder);
    STK_TRY(stk__recipe_take_items(config, &stk__recipe_callbacks, FINDER, read_finder,
                                   &search->finder, &search->batch_size, err));
    search->batch_size |= settings->loader.batch_size == (uint64_t)STK_AUTO;
    if (!search->batch_size)
        return STK_OK;
    if (settings->loader.global_batch_size)
        return stk__fail_at(
            err, STK_EINVAL, STK_STAGE_OPTIONS, "loader.global_batch_size", STK_NO_OFFSET,
            "loader.global_batch_size: it is given, and " KEY " is to be found: leave out one");
    stk_loader_options_init(&loader);
    settings->loader.batch_size = loader.batch_size;
    return STK_OK;
}

/* ---- What a size needs ----------------------------------------------------------------------- */

typedef struct search {
    stk_recipe *r;
    stk_model_options model; /* of the plans */
    uint64_t fixed;          /* bytes of what no batch size changes */
    uint64_t room;           /* bytes there are */
    uint64_t first, most;    /* sizes */
    stk_error why;           /* the next larger one is none */
} search;

static stk_status too_large(uint64_t rows, uint64_t bytes, uint64_t room, const char *of,
                            stk_error *err)
{
    char needs[32], has[32];

    return stk__fail(err, STK_EBUDGET, STK_STAGE_OPTIONS, "%" PRIu64 " would need %s of %s%s", rows,
                     stk_size_text((double)bytes, needs), stk_size_text((double)room, has), of);
}

static stk_status loader_bytes(stk_dataset *dataset, const stk_loader_options *options,
                               uint64_t rows, uint64_t *bytes, stk_error *err)
{
    stk_loader_options o = *options;
    stk_loader_description made = {.struct_size = sizeof made};

    if (!dataset)
        return STK_OK;
    o.batch_size = rows;
    STK_TRY(stk_loader_describe(dataset, &o, &made, NULL, 0, err));
    if (made.memory_bytes > made.memory_budget)
        return too_large(rows, made.memory_bytes, made.memory_budget, " (loader.memory_budget)",
                         err);
    *bytes += made.memory_bytes;
    return STK_OK;
}

static stk_status model_bytes(const search *s, uint64_t rows, uint64_t eval, uint64_t *bytes,
                              stk_error *err)
{
    stk_model_options options = s->model;
    stk_model_plan plan = {.struct_size = sizeof plan};
    stk_model *model = NULL;

    options.batch_size = rows;
    options.eval_batch_size = eval;
    STK_TRY(stk_model_create(s->r->made.builder, &options, &model, err));
    stk_model_get_plan(model, &plan);
    stk_model_destroy(&model);
    *bytes += plan.peak_bytes;
    return STK_OK;
}

/* Whether a training with batches of `rows` fits; STK_EBUDGET says what it needs. */
static stk_status try_rows(const search *s, uint64_t rows, stk_error *err)
{
    const stk_recipe *r = s->r;
    const uint64_t given = r->settings.trainer.options.val_batch_size;
    const uint64_t larger = given ? given : rows, eval = r->sets.val ? larger : 1;
    uint64_t bytes = s->fixed;

    STK_TRY(loader_bytes(r->sets.train, &r->sets.loader, rows, &bytes, err));
    STK_TRY(loader_bytes(r->sets.val, &r->sets.eval, eval, &bytes, err));
    STK_TRY(model_bytes(s, rows, eval, &bytes, err));
    /* Where nothing was validated, the test has room for its rows made next to the training's. */
    if (!r->sets.val && r->sets.test)
        STK_TRY(model_bytes(s, 1, larger, &bytes, err));
    return bytes <= s->room ? STK_OK : too_large(rows, bytes, s->room, "", err);
}

/* What the optimizer keeps, and the copies that a training makes of it and of the weights. */
static stk_status measure_fixed(search *s, stk_error *err)
{
    const stk_model_parts *parts = &s->r->made.parts;
    stk_state_bytes of = {.struct_size = sizeof of};
    stk_model_plan plan = {.struct_size = sizeof plan};
    stk_model_options options = s->model;
    stk_optimizer *optimizer = NULL;
    stk_state_tensor tensor;
    stk_model *model = NULL;

    options.batch_size = options.eval_batch_size = 1;
    STK_TRY(stk_model_create(parts->builder, &options, &model, err));
    stk_model_get_plan(model, &plan);
    of.weights = plan.parameter_bytes;
    of.gradients = plan.gradient_bytes;
    const stk_status status = stk_optimizer_create(model, parts->optimizer, parts->groups,
                                                   parts->num_groups, &optimizer, err);
    for (size_t i = 0; status == STK_OK && stk_optimizer_get_state(optimizer, i, &tensor); i++)
        of.optimizer += tensor.bytes;
    s->fixed = of.optimizer + stk_trainer_copy_bytes(s->r->trainer, &of);
    stk_optimizer_destroy(&optimizer);
    stk_model_destroy(&model);
    return status;
}

/* ---- The search ------------------------------------------------------------------------------ */

/* The largest of first, 2 first, 4 first, ..., by halving: what needs more is larger. */
static stk_status find_power(search *s, uint64_t *rows, stk_error *err)
{
    const uint64_t doubles = s->r->settings.search.finder.max_trials;
    uint64_t low = 0, high = 1;

    STK_TRY(try_rows(s, s->first, err));
    while (high <= doubles && s->first <= s->most >> high)
        high++;
    if (high > doubles)
        stk__fail(&s->why, STK_ELIMIT, STK_STAGE_OPTIONS, "max_trials ends there");
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        stk_error why;
        if (try_rows(s, s->first << middle, &why) == STK_OK) {
            low = middle;
        } else {
            high = middle;
            s->why = why;
        }
    }
    *rows = s->first << low;
    return STK_OK;
}

/* The largest of all numbers below twice that. */
static void find_between(search *s, uint64_t *rows)
{
    uint64_t low = *rows, high = STK_MIN(2 * *rows, s->most + 1);

    while (high > low + 1) {
        const uint64_t middle = low + (high - low) / 2;
        stk_error why;
        if (try_rows(s, middle, &why) == STK_OK) {
            low = middle;
        } else {
            high = middle;
            s->why = why;
        }
    }
    *rows = low;
}

/* Forward, backward and optimizer step of a model of its own. */
static stk_status run_steps(search *s, uint64_t rows, stk_error *err)
{
    const stk_model_options model = s->r->made.model;
    const stk_bench_step *step;

    s->r->made.model.threads = s->model.threads;
    stk_status status = stk_recipe_step(s->r, rows, &step, err);
    for (uint64_t i = 0; i < s->r->settings.search.finder.steps_per_trial && status == STK_OK; i++)
        status = step->run_alone(step->user, err);
    stk__recipe_step_destroy(&s->r->step);
    s->r->made.model = model;
    return status;
}

/* Halve what the machine refuses all the same. */
static stk_status check_rows(search *s, uint64_t *rows, stk_error *err)
{
    stk_error why;

    for (;; *rows /= 2) {
        const stk_status status = run_steps(s, *rows, &why);
        if (status == STK_OK)
            return STK_OK;
        if (stk_status_fault(status) != STK_FAULT_MACHINE || *rows < 2) {
            if (err)
                *err = why;
            return status;
        }
        stk__fail(&s->why, status, STK_STAGE_OPTIONS, "a step of %" PRIu64 " was refused: %.400s",
                  *rows, why.text);
    }
}

static stk_status begin(search *s, stk_recipe *r, stk_error *err)
{
    stk_dataset_info data = {.struct_size = sizeof data};
    stk_cores cores = {.struct_size = sizeof cores};
    const stk__recipe_finder *finder = &r->settings.search.finder;

    stk_dataset_get_info(r->sets.train, &data);
    stk_context_cores(r->context, &cores);
    *s = (search){.r = r, .model = r->made.model, .first = finder->init_val};
    s->model.precision = stk_precision_of(r->settings.trainer.options.precision);
    /* The most that it may compute on: threads have some memory each. */
    if (!s->model.threads)
        s->model.threads = cores.usable;
    /* Lists and logs have the rest. */
    s->room = stk__context_memory_room(r->context);
    s->room -= s->room / 64;
    s->most = STK_MIN(STK_MAX(data.size / LEAST_STEPS, s->first), MOST_ROWS);
    stk__fail(&s->why, STK_ELIMIT, STK_STAGE_OPTIONS,
              "more would leave fewer than %d steps of an epoch of %" PRIu64 " samples",
              LEAST_STEPS, data.size);
    return measure_fixed(s, err);
}

static stk_status find(stk_recipe *r, uint64_t *rows, stk_error *err)
{
    stk_error why;
    search s;

    stk_status status = begin(&s, r, &why);
    if (status == STK_OK)
        status = find_power(&s, rows, &why);
    if (status == STK_OK && r->settings.search.finder.mode == MODE_BINSEARCH)
        find_between(&s, rows);
    if (status == STK_OK)
        status = check_rows(&s, rows, &why);
    if (status != STK_OK)
        return stk__fail_at(err, status, STK_STAGE_OPTIONS, KEY, STK_NO_OFFSET,
                            "batch_size: auto: no batch of %" PRIu64 " can be trained: %.400s",
                            s.first, why.text);
    stk__message(r->context, STK_MESSAGE_INFO, "batch_size: auto is %" PRIu64 ": %.600s", *rows,
                 s.why.text);
    return STK_OK;
}

/* ---- Where it goes --------------------------------------------------------------------------- */

static stk_status set(stk_recipe *r, uint64_t rows, stk_error *err)
{
    char text[32];

    r->settings.loader.batch_size = r->sets.loader.batch_size = r->sets.eval.batch_size = rows;
    snprintf(text, sizeof text, "%" PRIu64, rows);
    return stk_config_set(r->config, KEY, text, false, err);
}

/* The number of the checkpoint that the run goes on from. */
static bool of_checkpoint(const stk_recipe *r, const char *path, uint64_t *rows)
{
    stk_loader_state state;
    stk_error none;

    if (!path || stk_trainer_peek(r->trainer, path, &state, &none) != STK_OK)
        return false;
    *rows = state.global_batch_size;
    return true;
}

static stk_status check(const stk_recipe *r, const stk_trainer_info *info, stk_error *err)
{
    const char *what =
        r->options.tasks & STK_RECIPE_MODEL
            ? "it is found where a training begins; give a number here"
        : r->options.module ? "it is found from the plan of a model of layers, and the module is "
                              "the caller's; give a number"
        : info->world_size > 1
            ? "it is found in one process, and several train together here; give a number"
            : NULL;

    return what ? stk__fail_at(err, info->world_size > 1 ? STK_ENOTSUP : STK_EINVAL,
                               STK_STAGE_OPTIONS, KEY, STK_NO_OFFSET, KEY ": auto: %s", what)
                : STK_OK;
}

stk_status stk__recipe_find_batch_size(stk_recipe *r, stk_error *err)
{
    const bool fit = r->options.tasks & STK_RECIPE_FIT;
    const char *path = r->settings.top.ckpt_path;
    stk_trainer_info info = {.struct_size = sizeof info};
    uint64_t rows = r->settings.loader.batch_size;

    if (!r->settings.search.batch_size)
        return STK_OK;
    stk_trainer_get_info(r->trainer, &info);
    STK_TRY(check(r, &info, err));
    if (of_checkpoint(r, !path && !fit ? "last" : path, &rows))
        stk__message(r->context, STK_MESSAGE_INFO,
                     "batch_size: auto is %" PRIu64 ", as in the checkpoint", rows);
    else if (fit && info.fast_dev_run)
        stk__message(r->context, STK_MESSAGE_WARNING,
                     "Skipping batch size finder since `fast_dev_run` is enabled.");
    else if (fit)
        STK_TRY(find(r, &rows, err));
    return set(r, rows, err);
}
