/* SPDX-License-Identifier: Apache-2.0 */
/* The layers' names, arguments and defaults: those of torch.nn. */
#include "nn/layers.h"

#include <stdio.h>

#define OFFSET(member) offsetof(stk__layer_options, member)
#define SIDE           0, (double)STK__MAX_SIDE

#define KERNEL_OPTION                                                                              \
    {                                                                                              \
        "kernel_size", STK_OPTION_STRING, OFFSET(kernel), NULL, 0, 0, NULL, "N",                   \
            "Height and width of the window: \"3\" or \"3x5\"."                                    \
    }
#define STRIDE_OPTION(initial)                                                                     \
    {                                                                                              \
        "stride", STK_OPTION_STRING, OFFSET(stride), initial, 0, 0, NULL, "N",                     \
            "Steps of the window; of pools, kernel_size unless given."                             \
    }
#define PADDING_OPTION                                                                             \
    {                                                                                              \
        "padding", STK_OPTION_STRING, OFFSET(padding), "0", 0, 0, NULL, "N",                       \
            "Rows and columns added on each side."                                                 \
    }
#define EPS_OPTION                                                                                 \
    {                                                                                              \
        "eps", STK_OPTION_DOUBLE, OFFSET(eps), "1e-5", 1e-12, 1, NULL, NULL,                       \
            "Added to the variance."                                                               \
    }
#define BIAS_OPTION                                                                                \
    {                                                                                              \
        "bias", STK_OPTION_BOOL, OFFSET(bias), "true", 0, 0, NULL, NULL,                           \
            "Whether a bias is added."                                                             \
    }

static const stk_option linear_options[] = {
    {"in_features", STK_OPTION_INT, OFFSET(in), "0", SIDE, NULL, NULL,
     "Features of the input; 0: what comes, else checked."},
    {"out_features", STK_OPTION_INT, OFFSET(out), "0", SIDE, NULL, NULL, "Features of the output."},
    BIAS_OPTION};
static const stk_option conv2d_options[] = {
    {"in_channels", STK_OPTION_INT, OFFSET(in), "0", SIDE, NULL, NULL,
     "Channels of the input; 0: what comes, else checked."},
    {"out_channels", STK_OPTION_INT, OFFSET(out), "0", SIDE, NULL, NULL, "Channels of the output."},
    KERNEL_OPTION,
    STRIDE_OPTION("1"),
    PADDING_OPTION,
    {"dilation", STK_OPTION_STRING, OFFSET(dilation), "1", 0, 0, NULL, "N",
     "Distance of the window's elements."},
    {"groups", STK_OPTION_INT, OFFSET(groups), "1", 1, (double)STK__MAX_SIDE, NULL, NULL,
     "Parts into which the channels are cut, each convolved by itself."},
    BIAS_OPTION};
static const stk_option batch_norm2d_options[] = {
    {"num_features", STK_OPTION_INT, OFFSET(in), "0", SIDE, NULL, NULL,
     "Channels; 0: what comes, else checked."},
    EPS_OPTION,
    {"momentum", STK_OPTION_DOUBLE, OFFSET(momentum), "0.1", 0, 1, NULL, NULL,
     "Share of a batch in the running statistics."},
    {"affine", STK_OPTION_BOOL, OFFSET(bias), "true", 0, 0, NULL, NULL,
     "Whether weight and bias are learnt."}};
static const stk_option layer_norm_options[] = {
    {"normalized_shape", STK_OPTION_STRING, OFFSET(shape), NULL, 0, 0, NULL, "N",
     "The last dimensions, which are normalized; not given: the last one."},
    EPS_OPTION,
    {"elementwise_affine", STK_OPTION_BOOL, OFFSET(bias), "true", 0, 0, NULL, NULL,
     "Whether weight and bias are learnt."}};
static const stk_option gelu_options[] = {{"approximate", STK_OPTION_ENUM, OFFSET(approximate),
                                           "none", 0, 0, "none|tanh", NULL,
                                           "The exact function, or its approximation by tanh."}};
static const stk_option dropout_options[] = {{"p", STK_OPTION_DOUBLE, OFFSET(p), "0.5", 0, 0.999999,
                                              NULL, NULL,
                                              "Probability that an element is zeroed."}};
static const stk_option max_pool2d_options[] = {KERNEL_OPTION, STRIDE_OPTION(NULL), PADDING_OPTION};
static const stk_option avg_pool2d_options[] = {KERNEL_OPTION,
                                                STRIDE_OPTION(NULL),
                                                PADDING_OPTION,
                                                {"count_include_pad", STK_OPTION_BOOL,
                                                 OFFSET(padded), "true", 0, 0, NULL, NULL,
                                                 "Whether padding counts in the mean."}};
static const stk_option add_options[] = {{"other", STK_OPTION_STRING, OFFSET(other), NULL, 0, 0,
                                          NULL, "NAME", "The layer whose output is added."}};

#define LIST(list) .options = list, .count = STK_COUNT(list)
#define NONE       .count = 0
#define LAYER(layer_name, text, list, layer_kind, layer_places, layer_full)                        \
    &(const stk__layer)                                                                            \
    {                                                                                              \
        .struct_size = sizeof(stk__layer), .name = layer_name, .doc = text,                        \
        .options =                                                                                 \
            &(const stk_option_table){                                                             \
                .name = layer_name, .doc = text, .struct_size = sizeof(stk__layer_options), list}, \
        .kind = layer_kind, .places = layer_places, .full = layer_full                             \
    }

const void *const stk__layers[] = {
    LAYER("linear", "x W' + b", LIST(linear_options), STK__LINEAR, "in_features out_features bias",
          2),
    LAYER("conv2d", "Convolution of pictures", LIST(conv2d_options), STK__CONV2D,
          "in_channels out_channels kernel_size stride padding dilation groups bias", 3),
    LAYER("batch_norm2d", "Batch normalization of channels", LIST(batch_norm2d_options),
          STK__BATCH_NORM2D, "num_features eps momentum affine", 0),
    LAYER("layer_norm", "Normalization of each row", LIST(layer_norm_options), STK__LAYER_NORM,
          "normalized_shape eps elementwise_affine", 0),
    LAYER("relu", "max(x, 0)", NONE, STK__RELU, "", 0),
    LAYER("gelu", "x times the normal distribution of x", LIST(gelu_options), STK__GELU,
          "approximate", 0),
    LAYER("silu", "x / (1 + exp(-x))", NONE, STK__SILU, "", 0),
    LAYER("dropout", "Zeroes elements at random in training", LIST(dropout_options), STK__DROPOUT,
          "p", 0),
    LAYER("max_pool2d", "Maximum of a window", LIST(max_pool2d_options), STK__MAX_POOL2D,
          "kernel_size stride padding", 0),
    LAYER("avg_pool2d", "Mean of a window", LIST(avg_pool2d_options), STK__AVG_POOL2D,
          "kernel_size stride padding count_include_pad", 0),
    LAYER("global_avg_pool2d", "Mean of each channel: adaptive_avg_pool2d(1)", NONE,
          STK__GLOBAL_AVG_POOL2D, "", 0),
    LAYER("flatten", "All dimensions of a row in one", NONE, STK__FLATTEN, "", 0),
    LAYER("add", "Sum with the output of an earlier layer", LIST(add_options), STK__ADD, "other",
          0),
    &stk__named[0],
    &stk__named[1],
    &stk__named[2],
    &stk__named[3],
    NULL};

const char *stk__kind_name(stk__kind kind)
{
    for (const void *const *row = stk__layers; *row; row++)
        if (((const stk__layer *)*row)->kind == kind && !((const stk__layer *)*row)->model)
            return ((const stk__layer *)*row)->name;
    return kind == STK__INPUT ? "input" : "output";
}

const char *stk__node_kind(const stk__node *node)
{
    return node->outside ? node->outside->ops.name : stk__kind_name(node->kind);
}

const stk__layer *stk__layer_own(const void *table)
{
    for (const void *const *row = stk__layers; *row; row++)
        if (*row == table)
            return table;
    return NULL;
}

/* The last dimensions that a layer_norm normalizes. */
static stk_status apply_shape(const stk__layer_options *o, const stk__graph *graph, stk__node *node,
                              stk_error *err)
{
    const stk__node *from = &graph->nodes[node->inputs[0]];
    int64_t wanted[STK__NODE_RANK];
    uint32_t count = 1;
    char who[STK__MAX_NODE_NAME + 32], shape[96];

    if (o->shape) {
        snprintf(who, sizeof who, "layer %s", node->name);
        STK_TRY(stk__whole_read(who, "normalized_shape", o->shape, 1, STK__MAX_SIDE, wanted,
                                STK__NODE_RANK, &count, err));
    }
    node->in = 1;
    for (uint32_t i = 0; i < count && count <= from->rank; i++) {
        int64_t size = from->shape[from->rank - count + i];
        node->in *= size;
        node->kernel[0] = count; /* how many dimensions */
        if (o->shape && wanted[i] != size)
            count = STK__NODE_RANK + 1;
    }
    if (count <= from->rank)
        return STK_OK;
    stk__shape_format(from, shape, sizeof shape);
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "layer '%s' (layer_norm) normalizes \"%s\", but '%s' gives %s", node->name,
                     o->shape ? o->shape : "the last dimension", from->name, shape);
}

static stk_status apply_window(const stk__layer_options *o, stk__node *node, stk_error *err)
{
    if (!o->kernel)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "layer '%s' (%s) needs its kernel_size: say for example %s(%s3)",
                         node->name, stk__kind_name(node->kind), stk__kind_name(node->kind),
                         node->kind == STK__CONV2D ? "32, " : "");
    STK_TRY(stk__pair_read(node->name, "kernel_size", o->kernel, 1, 4096, node->kernel, err));
    STK_TRY(stk__pair_read(node->name, "stride", o->stride ? o->stride : o->kernel, 1, 4096,
                           node->stride, err));
    STK_TRY(stk__pair_read(node->name, "padding", o->padding ? o->padding : "0", 0, 4096,
                           node->padding, err));
    return stk__pair_read(node->name, "dilation", o->dilation ? o->dilation : "1", 1, 4096,
                          node->dilation, err);
}

stk_status stk__layer_apply(const stk__layer_options *o, const stk__graph *graph, stk__node *node,
                            stk_error *err)
{
    node->in = o->in;
    node->out = o->out;
    node->groups = o->groups;
    node->bias = o->bias;
    node->padded = o->padded;
    node->eps = o->eps;
    node->momentum = o->momentum;
    node->p = o->p;
    node->tanh = o->approximate == 1;
    if ((node->kind == STK__LINEAR || node->kind == STK__CONV2D) && o->out < 1)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "layer '%s' (%s) needs its number of outputs: say for example %s",
                         node->name, stk__kind_name(node->kind),
                         node->kind == STK__LINEAR ? "linear(128)" : "conv2d(32, 3)");
    switch (node->kind) {
    case STK__CONV2D:
    case STK__MAX_POOL2D:
    case STK__AVG_POOL2D:
        return apply_window(o, node, err);
    case STK__LAYER_NORM:
        return apply_shape(o, graph, node, err);
    case STK__ADD:
        if (!o->other)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                             "layer '%s' (add) needs the name of the layer to add: add(NAME)",
                             node->name);
        node->inputs[1] = stk__graph_find(graph, o->other);
        node->num_inputs = 2;
        return STK_OK;
    default:
        return STK_OK;
    }
}
