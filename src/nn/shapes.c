/* SPDX-License-Identifier: Apache-2.0 */
/* What each layer gives for what it takes: shapes, parameters, work. */
#include <stdio.h>

#include "nn/outside.h"

uint64_t stk__node_count(const stk__node *node)
{
    uint64_t count = 1;

    for (uint32_t i = 0; i < node->rank; i++)
        count *= (uint64_t)node->shape[i];
    return count;
}

void stk__shape_format(const stk__node *node, char *text, size_t size)
{
    stk__text out = {.bytes = text, .room = size};

    stk__text_add_shape(&out, node->shape, node->rank, true);
}

static stk_status mismatch(const stk__node *node, const stk__node *from, const char *takes,
                           const char *remedy, stk_error *err)
{
    char shape[96];

    stk__shape_format(from, shape, sizeof shape);
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "layer '%s' (%s) takes %s, but '%s' gives %s%s", node->name,
                     stk__kind_name(node->kind), takes, from->name, shape, remedy);
}

/* Compare the size asked for (0: any) with what comes. */
static stk_status take_size(stk__node *node, const stk__node *from, int64_t comes,
                            const char *format, stk_error *err)
{
    char takes[96];

    if (node->in == 0)
        node->in = comes;
    if (node->in == comes)
        return STK_OK;
    snprintf(takes, sizeof takes, format, (long long)node->in);
    return mismatch(node, from, takes, ": correct one of the two, or leave the input's size out",
                    err);
}

static stk_status finish_linear(stk__graph *g, stk__node *node, const stk__node *from,
                                stk_error *err)
{
    uint32_t index = g->num_nodes - 1;

    if (from->rank == 3)
        return mismatch(node, from, "rows of features", ": put flatten between them", err);
    STK_TRY(take_size(node, from, from->shape[from->rank - 1],
                      from->rank == 1 ? "[N, %lld]" : "[N, ..., %lld]", err));
    node->rank = from->rank;
    memcpy(node->shape, from->shape, sizeof node->shape);
    node->shape[node->rank - 1] = node->out;
    const int64_t shape[2] = {node->out, node->in};
    node->flops = 2 * stk__node_count(node) * (uint64_t)node->in;
    STK_TRY(stk__graph_add_param(g, index, STK__WEIGHT, 2, shape, err));
    return node->bias ? stk__graph_add_param(g, index, STK__BIAS, 1, shape, err) : STK_OK;
}

/* Sides of a window's output. */
static stk_status finish_window(stk__node *node, const stk__node *from, stk_error *err)
{
    for (int i = 0; i < 2; i++) {
        int64_t reach = node->dilation[i] * (node->kernel[i] - 1) + 1;
        int64_t side = from->shape[1 + i] + 2 * node->padding[i] - reach;
        if (side < 0)
            return mismatch(node, from, "pictures not smaller than its window",
                            ": a smaller kernel_size or more padding would fit", err);
        if (node->kind != STK__CONV2D && node->padding[i] * 2 > node->kernel[i])
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                             "layer '%s' (%s): padding is at most half of kernel_size", node->name,
                             stk__kind_name(node->kind));
        node->shape[1 + i] = side / node->stride[i] + 1;
    }
    return STK_OK;
}

static stk_status finish_conv2d(stk__graph *g, stk__node *node, const stk__node *from,
                                stk_error *err)
{
    uint32_t index = g->num_nodes - 1;

    STK_TRY(take_size(node, from, from->shape[0], "[N, %lld, height, width]", err));
    if (node->in % node->groups || node->out % node->groups)
        return stk__fail(
            err, STK_EINVAL, STK_STAGE_TRAIN,
            "layer '%s' (conv2d): %lld groups do not divide %lld input and %lld output "
            "channels",
            node->name, (long long)node->groups, (long long)node->in, (long long)node->out);
    node->rank = 3;
    node->shape[0] = node->out;
    STK_TRY(finish_window(node, from, err));
    int64_t shape[4] = {node->out, node->in / node->groups, node->kernel[0], node->kernel[1]};
    node->flops = 2 * stk__node_count(node) * (uint64_t)(shape[1] * shape[2] * shape[3]);
    STK_TRY(stk__graph_add_param(g, index, STK__WEIGHT, 4, shape, err));
    return node->bias ? stk__graph_add_param(g, index, STK__BIAS, 1, shape, err) : STK_OK;
}

static stk_status finish_batch_norm2d(stk__graph *g, stk__node *node, const stk__node *from,
                                      stk_error *err)
{
    uint32_t index = g->num_nodes - 1;

    STK_TRY(take_size(node, from, from->shape[0], "[N, %lld, height, width]", err));
    const int64_t shape[1] = {node->in};
    if (node->bias) {
        STK_TRY(stk__graph_add_param(g, index, STK__WEIGHT, 1, shape, err));
        STK_TRY(stk__graph_add_param(g, index, STK__BIAS, 1, shape, err));
    }
    STK_TRY(stk__graph_add_param(g, index, STK__RUNNING_MEAN, 1, shape, err));
    STK_TRY(stk__graph_add_param(g, index, STK__RUNNING_VAR, 1, shape, err));
    return stk__graph_add_param(g, index, STK__NUM_BATCHES, 0, shape, err);
}

static stk_status finish_layer_norm(stk__graph *g, stk__node *node, const stk__node *from,
                                    stk_error *err)
{
    uint32_t index = g->num_nodes - 1, dims = (uint32_t)node->kernel[0];

    if (from->rank == 3)
        return mismatch(node, from, "rows of features", ": put flatten between them", err);
    if (!node->bias)
        return STK_OK;
    const int64_t *shape = node->shape + node->rank - dims;
    STK_TRY(stk__graph_add_param(g, index, STK__WEIGHT, dims, shape, err));
    return stk__graph_add_param(g, index, STK__BIAS, dims, shape, err);
}

static stk_status finish_add(const stk__graph *g, stk__node *node, const stk__node *from,
                             stk_error *err)
{
    const stk__node *other = &g->nodes[node->inputs[1]];
    char shape[96], takes[STK__MAX_NODE_NAME + 128];

    if (from->rank == other->rank &&
        memcmp(from->shape, other->shape, from->rank * sizeof *from->shape) == 0)
        return STK_OK;
    stk__shape_format(other, shape, sizeof shape);
    snprintf(takes, sizeof takes, "two of one shape and '%s' gives %s", other->name, shape);
    return mismatch(node, from, takes, "", err);
}

stk_status stk__node_finish(stk__graph *g, stk__node *node, stk_error *err)
{
    const stk__node *from = &g->nodes[node->inputs[0]];
    bool picture = node->kind == STK__CONV2D || node->kind == STK__BATCH_NORM2D ||
                   node->kind == STK__MAX_POOL2D || node->kind == STK__AVG_POOL2D ||
                   node->kind == STK__GLOBAL_AVG_POOL2D;

    if (picture && from->rank != 3)
        return mismatch(node, from, "pictures, [N, channels, height, width]", "", err);
    node->rank = from->rank;
    memcpy(node->shape, from->shape, sizeof node->shape);
    node->first_param = g->num_params;
    switch (node->kind) {
    case STK__LINEAR:
        return finish_linear(g, node, from, err);
    case STK__CONV2D:
        return finish_conv2d(g, node, from, err);
    case STK__BATCH_NORM2D:
        return finish_batch_norm2d(g, node, from, err);
    case STK__LAYER_NORM:
        return finish_layer_norm(g, node, from, err);
    case STK__MAX_POOL2D:
    case STK__AVG_POOL2D:
        return finish_window(node, from, err);
    case STK__GLOBAL_AVG_POOL2D:
        node->shape[1] = node->shape[2] = 1;
        return STK_OK;
    case STK__FLATTEN:
        node->shape[0] = (int64_t)stk__node_count(from);
        node->rank = 1;
        return STK_OK;
    case STK__ADD:
        return finish_add(g, node, from, err);
    case STK__OUTSIDE:
        return stk__outside_finish(g, node, from, err);
    default:
        return STK_OK;
    }
}
