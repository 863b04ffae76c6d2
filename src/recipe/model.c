/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a configuration and the shape of its samples -> the description of a model. */
#include <inttypes.h>
#include <math.h>

#include "recipe/recipe.h"

/* The shape a model is made for: channels come first, wherever they lie in memory. */
static int shape_of(const stk_field *field, bool *hwc, int64_t shape[STK_MAX_RANK])
{
    *hwc = field->picture && field->rank == 3;
    for (uint32_t i = 0; i < field->rank; i++)
        shape[i] = field->shape[i];
    if (*hwc) {
        shape[0] = field->shape[2];
        shape[1] = field->shape[0];
        shape[2] = field->shape[1];
    }
    for (uint32_t i = 0; i < field->rank; i++)
        if (shape[i] < 0)
            return -1;
    return field->layout == STK_FIXED && field->rank > 0 ? (int)field->rank : -1;
}

static stk_status make_builder(stk__recipe_made *made, stk_config *config,
                               const stk__recipe_settings *settings, const stk_field *field,
                               stk_error *err)
{
    int64_t shape[STK_MAX_RANK];
    const char *text;
    bool hwc;

    made->model = settings->model.options;
    if (!settings->model.layers)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "model.layers", STK_NO_OFFSET,
                            "no model: set model.layers, for example to 'mlp(128, 64, 10)'");
    int rank = shape_of(field, &hwc, shape);
    if (rank < 0)
        return stk__fail(err, STK_EINVAL, STK_STAGE_OPTIONS,
                         "the field '%.32s' has samples of many shapes: a model takes one; resize "
                         "or crop them with loader.transforms",
                         field->name);
    if (stk_config_count(config, "model.input_layout") == 0)
        made->model.input_layout = hwc;
    STK_TRY(stk_model_builder_create(made->context, shape, (uint32_t)rank, &made->builder, err));
    for (size_t i = 0; (text = stk_config_get(config, "model.layers", i)); i++)
        STK_TRY(stk_model_builder_add(made->builder, text, err));
    return STK_OK;
}

/* More classes in the data than the model has outputs are said before hours of training, not after.
 */
static stk_status check_classes(const stk__recipe_made *made, const stk__recipe_sets *sets,
                                stk_error *err)
{
    const stk_dataset *dataset = sets->train ? sets->train : sets->test;
    stk_dataset_info data = {.struct_size = sizeof data};
    int64_t shape[STK_MAX_RANK] = {0};

    if (dataset)
        stk_dataset_get_info(dataset, &data);
    uint32_t rank = stk_model_builder_shape(made->builder, shape);
    if (made->model.loss != STK_LOSS_CROSS_ENTROPY || rank != 1 ||
        data.num_classes <= (uint64_t)shape[0])
        return STK_OK;
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "model.layers", STK_NO_OFFSET,
                        "the data has %u classes, but the model gives %" PRId64
                        ": the last of model.layers has to be linear(%u)",
                        data.num_classes, shape[0], data.num_classes);
}

/* ---- Groups of parameters -------------------------------------------------------------------- */

#define MAX_GROUPS 32

static const stk__items_kind group_items = {.stage = STK_STAGE_OPTIONS,
                                            .list = "optimizer.groups",
                                            .item = "group",
                                            .form = "pattern(option=value)",
                                            .most = STK__RECIPE_MAX_ITEMS,
                                            .patterns = true};

typedef struct group_options {
    uint32_t struct_size;
    double lr, weight_decay;
} group_options;

static stk_status add_group(const stk__item *item, void *user, stk_error *err)
{
    static const stk_option rows[] = {
        {"lr", STK_OPTION_DOUBLE, offsetof(group_options, lr), "0", 0, 1e6, NULL, NULL,
         "Learning rate."},
        {"weight_decay", STK_OPTION_DOUBLE, offsetof(group_options, weight_decay), "0", 0, 1e6,
         NULL, NULL, "Decay of the weights."},
    };
    static const stk_option_table table = {"optimizer.groups", "Values of a group",
                                           sizeof(group_options), rows, STK_COUNT(rows)};
    stk__recipe_made *made = user;
    group_options options;

    if (made->num_groups == MAX_GROUPS)
        return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "optimizer.groups", STK_NO_OFFSET,
                            "optimizer.groups: %d are the most", MAX_GROUPS);
    STK_TRY(stk__item_options(item, &table, NULL, &options, err));
    stk_parameter_group *group = &made->groups[made->num_groups++];
    *group = (stk_parameter_group){.pattern = item->name, .lr = NAN, .weight_decay = NAN};
    for (uint32_t i = 0; i < item->count; i++) {
        const char *name = item->arguments[i].name;
        if (name ? strcmp(name, "lr") == 0 : i == 0)
            group->lr = options.lr;
        else
            group->weight_decay = options.weight_decay;
    }
    return STK_OK;
}

/* Until a rate is found there is the default; it is found for all groups. */
static stk_status take_optimizer(stk__recipe_made *made, const stk__recipe_settings *settings,
                                 stk_error *err)
{
    stk_optimizer_options initial;

    made->optimizer = settings->optimizer.options;
    if (!stk__recipe_lr_is_auto(settings))
        return STK_OK;
    stk_optimizer_options_init(&initial);
    made->optimizer.lr = initial.lr;
    for (size_t i = 0; i < made->num_groups; i++)
        if (!isnan(made->groups[i].lr))
            return stk__fail_at(err, STK_EINVAL, STK_STAGE_OPTIONS, "optimizer.lr", STK_NO_OFFSET,
                                "optimizer.lr: auto: it finds one rate for all parameters, and the "
                                "group '%.100s' has one of its own: leave that out, or give a "
                                "number here",
                                made->groups[i].pattern);
    return STK_OK;
}

/* ---- What is trained ------------------------------------------------------------------------- */

stk_status stk__recipe_make(stk__recipe_made *made, stk_config *config,
                            const stk__recipe_settings *settings, const stk__recipe_sets *sets,
                            stk_error *err)
{
    STK_TRY(make_builder(made, config, settings, &sets->field, err));
    STK_TRY(check_classes(made, sets, err));
    made->groups = stk__calloc(made->context, MAX_GROUPS, sizeof *made->groups);
    if (!made->groups)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_OPTIONS,
                         "no memory for the groups of parameters");
    STK_TRY(stk__recipe_items(config, &group_items, add_group, made, err));
    STK_TRY(take_optimizer(made, settings, err));
    made->parts = (stk_model_parts){.struct_size = sizeof made->parts,
                                    .builder = made->builder,
                                    .model = &made->model,
                                    .optimizer = &made->optimizer,
                                    .groups = made->groups,
                                    .num_groups = made->num_groups,
                                    .schedule = &settings->schedule,
                                    .options = &settings->module};
    return stk_model_module_create(made->context, &made->parts, &made->module, err);
}

void stk__recipe_release(stk__recipe_made *made)
{
    if (made->module)
        stk_module_destroy(&made->module);
    stk_model_builder_destroy(&made->builder);
    stk__free(made->context, made->groups);
    made->groups = NULL;
}
