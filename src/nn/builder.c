/* SPDX-License-Identifier: Apache-2.0 */
/* The description of a model: a list of nodes that grows. */
#include <stdio.h>

#include "base/config.h"
#include "base/options.h"
#include "base/registry.h"
#include "nn/layers.h"

static const char *const role_names[] = {"weight", "bias", "running_mean", "running_var",
                                         "num_batches_tracked"};

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to describe a model");
}

stk_status stk__graph_add_node(stk__graph *graph, stk__kind kind, const char *name, stk__node **out,
                               stk_error *err)
{
    if (graph->num_nodes == STK__MAX_NODES)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "a model has at most %u layers",
                         STK__MAX_NODES);
    if (strlen(name) >= STK__MAX_NODE_NAME)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                         "the name of a layer has at most %u characters", STK__MAX_NODE_NAME - 1);
    if (stk__graph_find(graph, name) != UINT32_MAX)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "two layers are named '%s': give one another name", name);
    stk__node *nodes = stk__grow(graph->context, graph->nodes, &graph->capacity,
                                 (uint64_t)graph->num_nodes + 1, sizeof *nodes);
    if (!nodes)
        return no_memory(err);
    graph->nodes = nodes;
    stk__node *node = &graph->nodes[graph->num_nodes++];
    *node = (stk__node){.kind = kind,
                        .num_inputs = graph->num_nodes > 1,
                        .inputs = {graph->num_nodes - 2},
                        .first_param = graph->num_params};
    snprintf(node->name, sizeof node->name, "%s", name);
    *out = node;
    return STK_OK;
}

stk_status stk__graph_add_param(stk__graph *graph, uint32_t node, stk__role role, uint32_t rank,
                                const int64_t *shape, stk_error *err)
{
    uint64_t count;

    if (!stk__shape_bytes(shape, rank, sizeof(double), &count) || count > INT64_MAX / 64)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "the %s of layer '%s' is too big",
                         role_names[role], graph->nodes[node].name);
    stk__param *params = stk__grow(graph->context, graph->params, &graph->params_capacity,
                                   (uint64_t)graph->num_params + 1, sizeof *params);
    if (!params)
        return no_memory(err);
    graph->params = params;
    stk__param *param = &graph->params[graph->num_params];
    *param = (stk__param){.node = node, .role = role, .rank = rank};
    param->count = count / sizeof(double);
    param->trainable = role <= STK__BIAS;
    param->gradient = STK__NO_GRADIENT;
    memcpy(param->shape, shape, rank * sizeof *shape);
    param->name = stk__format(graph->context, "%s.%s", graph->nodes[node].name, role_names[role]);
    if (!param->name)
        return no_memory(err);
    graph->num_params++;
    graph->nodes[node].num_params++;
    return STK_OK;
}

uint32_t stk__graph_find(const stk__graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->num_nodes; i++)
        if (strcmp(graph->nodes[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

void stk__graph_release(stk__graph *graph)
{
    for (uint32_t i = 0; i < graph->num_params; i++)
        stk__free(graph->context, graph->params[i].name);
    for (uint32_t i = 0; i < graph->num_nodes; i++)
        stk__outside_release(graph->nodes[i].outside);
    stk__free(graph->context, graph->params);
    stk__free(graph->context, graph->nodes);
    stk__free(graph->context, graph->text);
    stk__context_unref(graph->context);
    *graph = (stk__graph){0};
}

stk_status stk__graph_copy(const stk__graph *from, stk__graph *to, stk_error *err)
{
    *to = (stk__graph){.context = stk__context_ref(from->context),
                       .capacity = from->num_nodes,
                       .params_capacity = from->num_params};
    to->nodes = stk__calloc(to->context, STK_MAX(from->num_nodes, 1u), sizeof *to->nodes);
    to->params = stk__calloc(to->context, STK_MAX(from->num_params, 1u), sizeof *to->params);
    to->text = from->text ? stk__strdup(to->context, from->text) : NULL;
    if (!to->nodes || !to->params || (from->text && !to->text))
        return no_memory(err);
    memcpy(to->nodes, from->nodes, from->num_nodes * sizeof *to->nodes);
    to->num_nodes = from->num_nodes;
    for (uint32_t i = 0; i < to->num_nodes; i++)
        stk__outside_share(to->nodes[i].outside);
    for (; to->num_params < from->num_params; to->num_params++) {
        stk__param *param = &to->params[to->num_params];
        *param = from->params[to->num_params];
        param->name = stk__strdup(to->context, param->name);
        if (!param->name)
            return no_memory(err);
    }
    return STK_OK;
}

stk_status stk_model_builder_create(stk_context *context, const int64_t *shape, uint32_t rank,
                                    stk_model_builder **out, stk_error *err)
{
    uint64_t bytes;
    stk__node *node;

    *out = NULL;
    STK_TRY(stk__context_check(context, err));
    bool good = rank >= 1 && rank <= STK__NODE_RANK;
    for (uint32_t i = 0; good && i < rank; i++)
        good = shape[i] >= 1 && shape[i] <= STK__MAX_SIDE;
    if (good && !stk__shape_bytes(shape, rank, 65536 * sizeof(double), &bytes))
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "a sample of this shape is too big");
    if (!good)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "a sample of a model has 1 to 3 dimensions of at least 1: [features], "
                         "[length, features] or [channels, height, width]");
    stk_model_builder *builder = stk__calloc(context, 1, sizeof *builder);
    if (!builder)
        return no_memory(err);
    builder->graph.context = stk__context_ref(context);
    stk_status status = stk__graph_add_node(&builder->graph, STK__INPUT, "input", &node, err);
    if (status != STK_OK) {
        stk_model_builder_destroy(&builder);
        return status;
    }
    node->rank = rank;
    memcpy(node->shape, shape, rank * sizeof *shape);
    *out = builder;
    return STK_OK;
}

void stk_model_builder_destroy(stk_model_builder **builder)
{
    if (!*builder)
        return;
    if (stk__context_forked((*builder)->graph.context)) {
        *builder = NULL;
        return;
    }
    stk_context *ctx = stk__context_ref((*builder)->graph.context);
    stk__graph_release(&(*builder)->graph);
    stk__free(ctx, *builder);
    stk__context_unref(ctx);
    *builder = NULL;
}

static stk_status unknown_layer(const stk_context *ctx, const char *layer, stk_error *err)
{
    char shown[STK_OPTION_SHOWN], meant[STK_OPTION_MEANT];
    stk__nearest nearest;

    stk__nearest_init(&nearest, layer);
    for (size_t i = 0; stk_driver_at(ctx, STK_DRIVER_LAYER, i); i++)
        stk__nearest_offer(&nearest, stk_driver_at(ctx, STK_DRIVER_LAYER, i)->name);
    stk__option_show(shown, layer);
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN, "there is no layer \"%s\"%s", shown,
                     stk__nearest_said(&nearest, meant));
}

static stk_status unknown_name(const stk__graph *graph, const char *name, stk_error *err)
{
    char shown[STK_OPTION_SHOWN];
    stk__nearest nearest;

    stk__nearest_init(&nearest, name);
    for (uint32_t i = 0; i < graph->num_nodes; i++)
        stk__nearest_offer(&nearest, graph->nodes[i].name);
    stk__option_show(shown, name);
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "no layer is named '%s' so far%s%s%s: the output of an earlier one is meant",
                     shown, nearest.found[0] ? ", but '" : "", nearest.found,
                     nearest.found[0] ? "' is" : "");
}

/* A node of the item's label, with the output that its `from` names. */
static stk_status begin_node(stk__graph *graph, stk__kind kind, const stk__item *item,
                             const char *from, stk__node **out, stk_error *err)
{
    char number[16];

    snprintf(number, sizeof number, "%u", graph->num_nodes - 1);
    STK_TRY(stk__graph_add_node(graph, kind, item->label ? item->label : number, out, err));
    if (!from)
        return STK_OK;
    (*out)->inputs[0] = stk__graph_find(graph, from);
    return (*out)->inputs[0] < graph->num_nodes - 1 ? STK_OK : unknown_name(graph, from, err);
}

static stk_status add_own(stk__graph *graph, const stk__layer *layer, stk__item *item,
                          stk__node **out, stk_error *err)
{
    stk__layer_options options;
    const char *from = stk__layer_from(item);

    STK_TRY(
        stk__layer_options_read(item, layer->options, layer->places, layer->full, &options, err));
    STK_TRY(begin_node(graph, layer->kind, item, from, out, err));
    STK_TRY(stk__layer_apply(&options, graph, *out, err));
    return (*out)->num_inputs < 2 || (*out)->inputs[1] < graph->num_nodes - 1
               ? STK_OK
               : unknown_name(graph, options.other, err);
}

static stk_status add_outside(stk__graph *graph, const stk_layer_ops *ops, stk__item *item,
                              stk__node **out, stk_error *err)
{
    stk__outside *outside;
    const char *from = stk__layer_from(item);

    STK_TRY(stk__outside_create(graph->context, ops, item, &outside, err));
    const uint32_t before = graph->num_nodes;
    stk_status status = begin_node(graph, STK__OUTSIDE, item, from, out, err);
    if (graph->num_nodes > before)
        (*out)->outside = outside;
    else
        stk__outside_release(outside);
    return status;
}

static stk_status add_item(stk_model_builder *builder, stk__item *item, stk_error *err)
{
    stk__graph *graph = &builder->graph;
    const void *driver =
        stk__driver_find(graph->context, STK_DRIVER_LAYER, item->name, strlen(item->name));
    stk__node *node;
    uint64_t bytes;

    if (!driver)
        return unknown_layer(graph->context, item->name, err);
    const stk__layer *own = stk__layer_own(driver);
    if (own && own->model)
        return stk__named_add(builder, own, item, err);
    STK_TRY(own ? add_own(graph, own, item, &node, err)
                : add_outside(graph, driver, item, &node, err));
    STK_TRY(stk__node_finish(graph, node, err));
    if (!stk__shape_bytes(node->shape, node->rank, 65536 * sizeof(double), &bytes))
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "the output of layer '%s' is too big",
                         node->name);
    return STK_OK;
}

/* Take back what was added beyond these numbers. */
static void shrink(stk__graph *graph, uint32_t nodes, uint32_t params)
{
    while (graph->num_params > params)
        stk__free(graph->context, graph->params[--graph->num_params].name);
    while (graph->num_nodes > nodes)
        stk__outside_release(graph->nodes[--graph->num_nodes].outside);
}

/* What was added reads as one text. */
static stk_status keep_text(stk__graph *graph, const char *text, stk_error *err)
{
    char *whole = graph->text ? stk__format(graph->context, "%s, %s", graph->text, text)
                              : stk__strdup(graph->context, text);

    if (!whole)
        return no_memory(err);
    stk__free(graph->context, graph->text);
    graph->text = whole;
    return STK_OK;
}

stk_status stk_model_builder_add(stk_model_builder *builder, const char *text, stk_error *err)
{
    STK_TRY(stk__context_check(builder->graph.context, err));
    stk__graph *graph = &builder->graph;
    uint32_t nodes = graph->num_nodes, params = graph->num_params;
    stk__items items;

    STK_TRY(stk__items_parse(graph->context, &stk__layer_items, text, &items, err));
    stk_status status = STK_OK;
    for (uint32_t i = 0; i < items.count && status == STK_OK; i++)
        status = add_item(builder, &items.items[i], err);
    if (status == STK_OK && items.count > 0)
        status = keep_text(graph, text, err);
    stk__items_release(graph->context, &items);
    if (status != STK_OK)
        shrink(graph, nodes, params);
    return status;
}

uint32_t stk_model_builder_shape(const stk_model_builder *builder, int64_t shape[STK_MAX_RANK])
{
    const stk__node *last = &builder->graph.nodes[builder->graph.num_nodes - 1];

    memcpy(shape, last->shape, last->rank * sizeof *shape);
    return last->rank;
}
