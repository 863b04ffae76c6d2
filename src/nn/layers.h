/* arguments of a layer -> a node */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_LAYERS_H
#define STK_SRC_NN_LAYERS_H

#include "nn/nn.h"
#include "nn/outside.h"

/* The arguments of all layers; each table shows those of one. */
typedef struct stk__layer_options {
    uint32_t struct_size;
    int64_t in, out;
    const char *kernel, *stride, *padding, *dilation;
    int64_t groups;
    bool bias, padded;
    double eps, momentum, p;
    int32_t approximate;
    const char *shape;
    const char *other;
} stk__layer_options;

/* Begins as stk_layer_ops does, for those who list what there is. */
typedef struct stk__layer {
    uint32_t struct_size;
    const char *name, *doc;
    const stk_option_table *options; /* of the same name */
    bool model;                      /* a known model: no layer, but text of layers (named.c) */
    stk__kind kind;
    const char *places; /* arguments by place, parted by spaces */
    uint32_t full;      /* the number by place from which the first is given, too */
} stk__layer;

/* Known models, each on its own: what came of adding the layers of one. */
#define STK__NAMED 4
extern const stk__layer stk__named[STK__NAMED];
stk_status stk__named_add(stk_model_builder *builder, const stk__layer *model, stk__item *item,
                          stk_error *err);

/* The layer of a driver's table; NULL: it is one of others. */
const stk__layer *stk__layer_own(const void *table);
/* Set the arguments of a node whose inputs are set. */
stk_status stk__layer_apply(const stk__layer_options *options, const stk__graph *graph,
                            stk__node *node, stk_error *err);

#endif
