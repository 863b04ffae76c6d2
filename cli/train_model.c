/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a configuration and the shape of its samples -> the description of a model. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

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

int train_builder_make(struct cli *cli, stk_context *context, const stk_config *config,
                       const struct train_config *options, const stk_field *field,
                       stk_model_options *model, stk_model_builder **out)
{
    int64_t shape[STK_MAX_RANK];
    const char *text;
    bool hwc;
    stk_error err;

    *out = NULL;
    *model = options->model.options;
    if (!options->model.layers) {
        cli_error("no model: set model.layers, or --layers 'mlp(128, 64, 10)'");
        return CLI_USAGE;
    }
    int rank = shape_of(field, &hwc, shape);
    if (rank < 0) {
        cli_error("the field '%.32s' has samples of many shapes: a model takes one; resize or crop "
                  "them with loader.transforms",
                  field->name);
        return CLI_USAGE;
    }
    if (stk_config_count(config, "model.input_layout") == 0)
        model->input_layout = hwc;
    stk_status status = stk_model_builder_create(context, shape, (uint32_t)rank, out, &err);
    for (size_t i = 0; status == STK_OK && (text = stk_config_get(config, "model.layers", i)); i++)
        status = stk_model_builder_add(*out, text, &err);
    if (status == STK_OK)
        return CLI_GO_ON;
    int code = cli_fail(cli, status, &err);
    stk_model_builder_destroy(out);
    return code;
}

/* More classes in the data than the model has outputs are said before hours of training, not after.
 * CLI_GO_ON, or the exit code. */
static int check_classes(const struct train_sets *sets, const stk_model_options *model,
                         const stk_model_builder *builder)
{
    const stk_dataset *data = sets->train ? sets->train : sets->test;
    int64_t shape[STK_MAX_RANK] = {0};

    uint32_t rank = stk_model_builder_shape(builder, shape);
    if (model->loss != STK_LOSS_CROSS_ENTROPY || rank != 1 || !data ||
        data->num_classes <= (uint64_t)shape[0])
        return CLI_GO_ON;
    cli_error("the data has %u classes, but the model gives %" PRId64
              ": the last of model.layers has to be linear(%u)",
              data->num_classes, shape[0], data->num_classes);
    return CLI_USAGE;
}

/* ---- Groups of parameters -------------------------------------------------------------------- */

#define MAX_GROUPS 32

struct group_options {
    uint32_t struct_size;
    double lr, weight_decay;
};

static int add_group(struct cli *cli, const struct train_item *item, void *user)
{
    static const stk_option rows[] = {
        {"lr", STK_OPTION_DOUBLE, offsetof(struct group_options, lr), "0", 0, 1e6, NULL, NULL,
         "Learning rate."},
        {"weight_decay", STK_OPTION_DOUBLE, offsetof(struct group_options, weight_decay), "0", 0,
         1e6, NULL, NULL, "Decay of the weights."},
    };
    static const stk_option_table table = {"optimizer.groups", "Values of a group",
                                           sizeof(struct group_options), rows, 2};
    struct train_groups *groups = user;
    struct group_options options;
    stk_error err;

    if (groups->count == MAX_GROUPS) {
        cli_error("optimizer.groups: %d are the most", MAX_GROUPS);
        return CLI_USAGE;
    }
    stk_status status = train_item_options(item, &table, &options, &err);
    if (status != STK_OK)
        return cli_fail(cli, status, &err);
    stk_parameter_group *group = &groups->groups[groups->count++];
    *group = (stk_parameter_group){.pattern = item->name, .lr = NAN, .weight_decay = NAN};
    for (size_t i = 0; i < item->count; i++) {
        const char *name = item->arguments[i].name;
        if (name ? strcmp(name, "lr") == 0 : i == 0)
            group->lr = options.lr;
        else
            group->weight_decay = options.weight_decay;
    }
    return CLI_GO_ON;
}

int train_groups_read(struct cli *cli, const stk_config *config, struct train_groups *out)
{
    *out = (struct train_groups){.groups = calloc(MAX_GROUPS, sizeof *out->groups)};
    if (!out->groups) {
        cli_error("no memory for the groups of parameters");
        return CLI_FAILED;
    }
    return train_items(cli, config, "optimizer.groups", add_group, out);
}

void train_groups_free(struct train_groups *groups)
{
    free(groups->groups);
    *groups = (struct train_groups){0};
}

/* ---- What is trained ------------------------------------------------------------------------- */

int train_fail(struct cli *cli, stk_status status, const stk_error *err)
{
    int code = cli_fail(cli, status, err);

    return status == STK_ENOTSUP ? CLI_USAGE : code;
}

int train_make(struct cli *cli, stk_context *context, struct train_config *config,
               const struct train_sets *sets, struct train_made *out)
{
    stk_error err;

    int code = train_builder_make(cli, context, cli->config, config, &sets->field, &out->model,
                                  &out->builder);
    if (code == CLI_GO_ON)
        code = check_classes(sets, &out->model, out->builder);
    if (code == CLI_GO_ON)
        code = train_groups_read(cli, cli->config, &out->groups);
    if (code != CLI_GO_ON)
        return code;
    const stk_model_recipe recipe = {.struct_size = sizeof recipe,
                                     .builder = out->builder,
                                     .model = &out->model,
                                     .optimizer = &config->optimizer.options,
                                     .groups = out->groups.groups,
                                     .num_groups = out->groups.count,
                                     .schedule = &config->schedule,
                                     .options = &config->module};
    stk_status status = stk_model_module_create(context, &recipe, &out->module, &err);
    return status == STK_OK ? CLI_GO_ON : train_fail(cli, status, &err);
}

void train_release(struct train_made *made)
{
    if (made->module)
        stk_module_destroy(&made->module);
    stk_model_builder_destroy(&made->builder);
    train_groups_free(&made->groups);
}
