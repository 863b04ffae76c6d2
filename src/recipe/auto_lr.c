/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.lr: auto -> the callback lr_find, and the rate that it has found in its place. */
#include <math.h>

#include "base/config.h"
#include "base/decimal.h"
#include "base/registry.h"
#include "recipe/recipe.h"

#define FINDER "lr_find"
#define KEY    "optimizer.lr"

bool stk__recipe_lr_is_auto(const stk__recipe_settings *settings)
{
    return isnan(settings->optimizer.options.lr);
}

stk_status stk__recipe_add_lr_find(const stk_recipe *r, stk_error *err)
{
    const stk_driver_head *driver;

    if (!stk__recipe_lr_is_auto(&r->settings) ||
        stk_recipe_has_item(r->config, "callbacks", FINDER))
        return STK_OK;
    STK_TRY(stk_driver_find(r->context, STK_DRIVER_CALLBACK, FINDER, &driver, err));
    return stk_trainer_add_callback(r->trainer, (const stk_callback_ops *)driver, NULL, NULL, err);
}

stk_status stk__recipe_put_lr(stk_recipe *r, stk_trainer *trainer, stk_error *err)
{
    const stk_module_ops *ops = stk_trainer_module_ops(trainer);
    char text[STK__DECIMAL];
    bool there;
    double lr;

    if (!ops->get_option(stk_trainer_moment(trainer)->module, 0, "initial_lr", &lr))
        return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN, KEY ": auto: the module has no rate");
    stk__decimal(lr, text);
    STK_TRY(
        stk__recipe_take_items(r->config, &stk__recipe_callbacks, FINDER, NULL, NULL, &there, err));
    return stk_config_set(r->config, KEY, text, false, err);
}
