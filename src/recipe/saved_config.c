/* SPDX-License-Identifier: Apache-2.0 */
/* config.yaml in the folder of a run: the configuration, which trains the same again. */
#include "base/config.h"
#include "base/url.h"
#include "recipe/recipe.h"

typedef struct saved_config {
    stk_callback base; /* first */
    stk__text text;
} saved_config;

static void destroy(stk_callback *callback)
{
    stk_context *ctx = callback->context;

    stk__text_release(&((saved_config *)callback)->text);
    stk__free(ctx, callback);
}

static stk_status create(stk_context *ctx, const void *config, stk_callback **out, stk_error *err);

/* Where nothing is logged the run has no folder. */
static stk_status setup(stk_callback *callback, stk_trainer *t, const stk_moment *at,
                        stk_error *err)
{
    const saved_config *self = (const saved_config *)callback;
    const char *dir = stk_trainer_log_dir(t), *root = stk_trainer_get_options(t)->default_root_dir;
    stk_trainer_info info = {.struct_size = sizeof info};

    stk_trainer_get_info(t, &info);
    if (at->task != STK_TASK_FIT || info.rank || strcmp(dir, root) == 0)
        return STK_OK;
    char *path = stk__url_below(callback->context, dir, "config.yaml");
    if (!path)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a path");
    stk_status status =
        stk_put_bytes(callback->context, path, self->text.bytes, self->text.length, NULL, err);
    stk__free(callback->context, path);
    return status;
}

static const stk_callback_ops ops = {.struct_size = sizeof ops,
                                     .name = "saved_config",
                                     .doc = "writes config.yaml",
                                     .create = create,
                                     .destroy = destroy,
                                     .setup = setup,
                                     .roles = STK_ROLE_NO_METRICS};

/* In the place of options it is given the configuration. */
static stk_status create(stk_context *ctx, const void *config, stk_callback **out, stk_error *err)
{
    saved_config *self = stk__calloc(ctx, 1, sizeof *self);

    *out = (stk_callback *)self;
    if (!self)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS, "no memory for a configuration");
    *self = (saved_config){.base = {&ops, ctx}, .text = {.ctx = ctx}};
    stk_status status = stk__config_format(config, &self->text, err);
    if (status == STK_OK)
        return STK_OK;
    destroy(&self->base);
    *out = NULL;
    return status;
}

stk_status stk__recipe_save_config(const stk_config *config, stk_trainer *trainer, stk_error *err)
{
    return stk_trainer_add_callback(trainer, &ops, config, NULL, err);
}
