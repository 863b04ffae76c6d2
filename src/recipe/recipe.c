/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe: everything that a configuration describes, in the order in which it is found out. */
#include "recipe/recipe.h"

#include "base/config.h"
#include "base/sized.h"

/* What an option asks for and this build does not have is the option's fault. */
static stk_status of_options(stk_status status, stk_error *err)
{
    if (status == STK_ENOTSUP && err)
        err->stage = STK_STAGE_OPTIONS;
    return status;
}

/* What a run goes on from and the code that it loads are none of it. */
static bool is_hparam(const char *key)
{
    return strchr(key, '.') || strcmp(key, "callbacks") == 0 || strcmp(key, "loggers") == 0;
}

/* Every option that was given is a hyper-parameter for the loggers. */
static stk_status add_hparams(stk_recipe *r, stk_error *err)
{
    for (size_t i = 0; i < r->config->count; i++) {
        const stk__entry *entry = &r->config->entries[i];
        stk__text value = {.ctx = r->context};
        if (entry->count == 0 || !is_hparam(entry->key))
            continue;
        for (size_t k = 0; k < entry->count; k++)
            stk__text_add(&value, "%s%s", k ? ", " : "", entry->values[k].text);
        stk_status status =
            value.failed
                ? stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for %s", entry->key)
                : stk_trainer_add_hparam(r->trainer, entry->key, value.bytes, err);
        stk__text_release(&value);
        STK_TRY(status);
    }
    return STK_OK;
}

static stk_status make_trainer(stk_recipe *r, stk_error *err)
{
    const stk_recipe_options *o = &r->options;
    const stk_training_events_options log = {
        .struct_size = sizeof log, .path = o->log, .begin_ns = o->begin_ns};

    STK_TRY(of_options(
        stk_trainer_create(r->context, &r->settings.trainer.options, &r->trainer, err), err));
    if (o->strategy)
        STK_TRY(stk_trainer_set_strategy(r->trainer, o->strategy, err));
    if (o->console)
        stk_trainer_set_console(r->trainer, o->console);
    if (o->tasks & STK_RECIPE_FIT)
        STK_TRY(stk__training_events_watch(r->trainer, &log, &r->log, err));
    STK_TRY(stk__recipe_add_profiler(r, err));
    if (o->prepare)
        STK_TRY(of_options(o->prepare(o->user, r->trainer, err), err));
    STK_TRY(stk__recipe_add_callbacks(r, err));
    STK_TRY(stk__recipe_add_lr_find(r, err));
    return stk__recipe_add_loggers(r, err);
}

/* The configuration as it came out, for the folder of the run and the loggers. */
static stk_status keep_config(stk_recipe *r, stk_error *err)
{
    if (r->options.tasks & STK_RECIPE_FIT)
        STK_TRY(stk__recipe_save_config(r, err));
    return add_hparams(r, err);
}

static stk_status begin_log(stk_recipe *r, stk_error *err)
{
    stk__text locals = {.ctx = r->context};

    if (!r->log || !r->options.log)
        return STK_OK;
    stk__recipe_locals(&r->settings, r->sets.spec, &locals);
    stk_status status =
        locals.failed ? stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for the event log")
                      : stk__training_events_begin(r->log, locals.bytes, r->options.log_about, err);
    stk__text_release(&locals);
    return status;
}

/* The loaders' options and datasets as the trainer takes them. */
static void make_data(stk_recipe *r)
{
    const stk__recipe_sets *sets = &r->sets;

    r->train = (stk_loader_source){
        .struct_size = sizeof r->train, .dataset = sets->train, .options = &sets->loader};
    r->val = (stk_loader_source){
        .struct_size = sizeof r->val, .dataset = sets->val, .options = &sets->eval};
    r->test = (stk_loader_source){
        .struct_size = sizeof r->test, .dataset = sets->test, .options = &sets->eval};
    r->predict = (stk_loader_source){.struct_size = sizeof r->predict,
                                     .dataset = sets->predict ? sets->predict : sets->test,
                                     .options = &sets->eval};
    r->data = (stk_trainer_data){.struct_size = sizeof r->data,
                                 .train = &r->train,
                                 .val = &r->val,
                                 .num_val = sets->val != NULL,
                                 .test = &r->test,
                                 .num_test = sets->test != NULL,
                                 .predict = &r->predict,
                                 .num_predict = r->predict.dataset != NULL};
}

/* A list of metrics is the text of its entries. */
static stk_status join_metrics(stk_recipe *r, stk_error *err)
{
    stk__text text = {.ctx = r->context};
    const char *one;

    for (size_t i = 0; (one = stk_config_get(r->config, "module.metrics", i)); i++)
        stk__text_add(&text, "%s%s", i ? ", " : "", one);
    if (text.failed) {
        stk__text_release(&text);
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for module.metrics");
    }
    r->metrics = text.bytes;
    if (r->metrics)
        r->settings.module.metrics = r->metrics;
    return STK_OK;
}

static stk_status make_all(stk_recipe *r, stk_error *err)
{
    const stk_option_table *table;

    STK_TRY(stk__config_no_secrets(r->config, err));
    STK_TRY(stk__recipe_read(r->config, &r->settings, err));
    STK_TRY(join_metrics(r, err));
    if (r->options.home)
        STK_TRY(stk__recipe_home(r->config, r->options.home, &r->settings.data, err));
    for (size_t i = 0; r->options.module && (table = stk__recipe_model_table(i)); i++)
        STK_TRY(stk__recipe_refuse(r->config, table, "the module", err));
    /* What is wrong with the trainer's options is said before any data is looked at. */
    STK_TRY(make_trainer(r, err));
    const stk__entry *dataset = stk__config_find(r->config, "data.dataset");
    r->sets.given_apart = dataset && dataset->count && !dataset->values[0].place.source;
    STK_TRY(stk__recipe_open(&r->sets, &r->settings, r->options.tasks, err));
    if (r->sets.target)
        r->settings.module.target = r->sets.target;
    /* A log begins with the options of the run: with a batch size that is found, behind that. */
    const bool searches = r->settings.search.batch_size;
    if (!searches)
        STK_TRY(begin_log(r, err));
    if (!r->options.module)
        STK_TRY(
            of_options(stk__recipe_make(&r->made, r->config, &r->settings, &r->sets, err), err));
    STK_TRY(stk__recipe_find_batch_size(r, err));
    STK_TRY(keep_config(r, err));
    if (searches)
        STK_TRY(begin_log(r, err));
    make_data(r);
    return STK_OK;
}

stk_status stk_recipe_create(stk_context *context, stk_config *config,
                             const stk_recipe_options *options, stk_recipe **out, stk_error *err)
{
    stk_recipe_options o = {.struct_size = sizeof o};

    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    if (options)
        STK_TRY(
            stk__sized_read(&o, sizeof o, options, "stk_recipe_options", STK_STAGE_OPTIONS, err));
    stk_recipe *r = stk__calloc(context, 1, sizeof *r);
    if (!r)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for a training");
    r->context = stk__context_ref(context);
    r->config = config;
    r->options = o;
    if (!r->options.tasks)
        r->options.tasks = STK_RECIPE_FIT | STK_RECIPE_TEST;
    r->sets.context = r->made.context = context;
    r->sets.given = &r->options;
    stk_status status = make_all(r, err);
    r->options.console = NULL; /* the trainer has its own */
    r->options.home = r->options.machine_dir = NULL;
    if (status != STK_OK)
        stk_recipe_destroy(&r);
    *out = r;
    return status;
}

void stk_recipe_destroy(stk_recipe **recipe)
{
    stk_recipe *r = recipe ? *recipe : NULL;

    if (!r)
        return;
    *recipe = NULL;
    stk_context *context = r->context;
    if (stk__context_forked(context))
        return;
    stk__recipe_step_destroy(&r->step);
    stk_profile_close(&r->profile, NULL);
    stk_trainer_destroy(&r->trainer);
    stk__recipe_release(&r->made);
    stk__recipe_close(&r->sets);
    stk_training_events_destroy(&r->log);
    stk__free(context, r->metrics);
    stk__free(context, r);
    stk__context_unref(context);
}

/* One thread waits for no other. */
static const char *environment(const stk_recipe *r)
{
    stk_cores cores = {.struct_size = sizeof cores};

    if (r->options.module)
        return NULL;
    stk_context_cores(r->context, &cores);
    return cores.compute > 1 ? STK__COMPUTE_ENVIRONMENT : NULL;
}

void stk_recipe_get_parts(const stk_recipe *r, stk_recipe_parts *out)
{
    const stk__recipe_sets *sets = &r->sets;
    const stk_recipe_options *given = &r->options;
    const stk_recipe_parts parts = {
        .struct_size = sizeof parts,
        .trainer = r->trainer,
        .module = given->module ? given->module : r->made.module,
        .data = &r->data,
        .ckpt_path = r->settings.top.ckpt_path,
        .dataset = sets->spec[0] ? sets->spec : NULL,
        .val_dataset = !sets->val || given->val ? NULL
                       : r->settings.data.val   ? r->settings.data.val
                                                : sets->spec,
        .test_dataset = sets->test_spec[0] ? sets->test_spec : NULL,
        .model = given->module ? NULL : &r->made.parts,
        .input = given->module ? NULL : &sets->field,
        .log = r->log,
        .environment = environment(r),
    };

    stk__sized_write(out, &parts);
}
