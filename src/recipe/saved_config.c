/* SPDX-License-Identifier: Apache-2.0 */
/* config.yaml in the folder of a run: the configuration, which trains the same again. */
#include "base/config.h"
#include "base/url.h"
#include "recipe/recipe.h"

typedef struct saved_config {
    stk_callback base; /* first */
    stk_recipe *recipe;
    bool found; /* the checkpoint is of a run whose learning rate was found */
} saved_config;

static void destroy(stk_callback *callback)
{
    stk__free(callback->context, callback);
}

static stk_status put(stk_context *ctx, const stk_config *config, const char *dir, stk_error *err)
{
    stk__text text = {.ctx = ctx};
    char *path = stk__url_below(ctx, dir, "config.yaml");

    stk_status status = path ? stk__config_format(config, &text, err)
                             : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a path");
    if (status == STK_OK)
        status = stk_put_bytes(ctx, path, text.bytes, text.length, NULL, err);
    stk__text_release(&text);
    stk__free(ctx, path);
    return status;
}

/* Before there is a folder. */
static stk_status setup(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                        stk_error *err)
{
    stk_trainer_info info = {.struct_size = sizeof info};

    stk_trainer_get_info(t, &info);
    return at->task == STK_TASK_FIT && info.logs
               ? stk__config_check_characters(((saved_config *)callback)->recipe->config, err)
               : STK_OK;
}

/* "last" is another file the next time: the one that the run goes on from takes its place. */
static stk_status put_ckpt_path(stk_config *config, const char *path, stk_error *err)
{
    static const char key[] = "ckpt_path";

    if (!stk_config_count(config, key))
        return STK_OK;
    return path ? stk_config_set(config, key, path, false, err)
                : stk__config_put(config, key, &(stk__config_place){0}, NULL, 0, 0, err);
}

/* Where nothing is logged the run has no folder. */
static stk_status on_train_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                                 stk_error *err)
{
    const saved_config *self = (const saved_config *)callback;
    const char *dir = stk_trainer_log_dir(t), *root = stk_trainer_get_options(t)->default_root_dir;
    stk_trainer_info info = {.struct_size = sizeof info};

    stk_trainer_get_info(t, &info);
    if (info.rank || strcmp(dir, root) == 0)
        return STK_OK;
    STK_TRY(put_ckpt_path(self->recipe->config, stk_trainer_ckpt_path(t), err));
    return put(callback->context, self->recipe->config, dir, err);
}

/* ---- A learning rate that is found ----------------------------------------------------------- */

static bool searches(const saved_config *self)
{
    return stk__recipe_lr_is_auto(&self->recipe->settings);
}

/* lr_find keeps the rate; here is kept that there is one. */
static stk_status state_dict(stk_callback *callback, stk_saver *to, stk_error *err)
{
    return searches((const saved_config *)callback) ? stk_saver_text(to, "state", "lr found\n", err)
                                                    : STK_OK;
}

static stk_status load_state_dict(stk_callback *callback, const stk_restorer *from, stk_error *err)
{
    ((saved_config *)callback)->found = stk_restorer_text(from, "state") != NULL;
    return STK_OK;
}

/* Behind lr_find: what is saved trains the same without a search. */
static stk_status on_fit_start(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                               stk_error *err)
{
    saved_config *self = (saved_config *)callback;

    if (!searches(self))
        return STK_OK;
    if (stk_trainer_global_step(t) > 0 && !self->found)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "optimizer.lr", STK_NO_OFFSET,
                            "optimizer.lr: auto: a rate is found before the first step, and the "
                            "checkpoint is of a run that was given one: give the number, as in the "
                            "config.yaml of that run");
    return stk__recipe_put_lr(self->recipe, t, err);
}

static stk_status create(stk_context *ctx, const void *recipe, stk_callback **out, stk_error *err);

static const stk_callback_ops ops = {.struct_size = sizeof ops,
                                     .name = "saved_config",
                                     .doc = "writes config.yaml",
                                     .create = create,
                                     .destroy = destroy,
                                     .setup = setup,
                                     .on_train_start = on_train_start,
                                     .on_fit_start = on_fit_start,
                                     .state_dict = state_dict,
                                     .load_state_dict = load_state_dict,
                                     .roles = STK_ROLE_NO_METRICS};

/* In the place of options it is given the recipe. */
static stk_status create(stk_context *ctx, const void *recipe, stk_callback **out, stk_error *err)
{
    saved_config *self = stk__calloc(ctx, 1, sizeof *self);

    *out = (stk_callback *)self;
    if (!self)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for a configuration");
    *self = (saved_config){.base = {&ops, ctx}, .recipe = (stk_recipe *)recipe};
    return STK_OK;
}

stk_status stk__recipe_save_config(stk_recipe *r, stk_error *err)
{
    return stk_trainer_add_callback(r->trainer, &ops, r, NULL, err);
}
