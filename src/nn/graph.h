/* layers as they were described -> nodes in the order of computation */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_GRAPH_H
#define STK_SRC_NN_GRAPH_H

#include <stoker/model.h>

#include "base/base.h"
#include "nn/text.h"

#define STK__MAX_NODES     4096
#define STK__MAX_NODE_NAME 128
#define STK__NODE_RANK     3 /* of a value, without the batch */
#define STK__NO_GRADIENT   UINT64_MAX
#define STK__MAX_SIDE      (INT64_C(1) << 24) /* of anything a layer is asked for */

typedef enum stk__kind {
    STK__INPUT, /* node 0: the batch, brought into the plan's own layout */
    STK__LINEAR,
    STK__CONV2D,
    STK__BATCH_NORM2D,
    STK__LAYER_NORM,
    STK__RELU,
    STK__GELU,
    STK__SILU,
    STK__DROPOUT,
    STK__MAX_POOL2D,
    STK__AVG_POOL2D,
    STK__GLOBAL_AVG_POOL2D,
    STK__FLATTEN,
    STK__ADD,
    STK__OUTSIDE, /* a layer of others */
    STK__OUTPUT,  /* the last node: the result in the caller's layout */
    STK__KIND_COUNT
} stk__kind;

typedef struct stk__outside stk__outside; /* a layer of others (outside.h) */

/* One layer, its arguments resolved and its output's shape known. */
typedef struct stk__node {
    stk__kind kind;
    char name[STK__MAX_NODE_NAME];
    uint32_t inputs[2], num_inputs; /* numbers of nodes */
    uint32_t rank;
    int64_t shape[STK__NODE_RANK]; /* of one row of the output */
    int64_t in, out;               /* features or channels */
    int64_t kernel[2], stride[2], padding[2], dilation[2], groups;
    bool bias;    /* of norms: weight and bias */
    bool tanh;    /* of gelu: the approximation */
    bool padded;  /* of avg_pool2d: padding counts */
    bool fan_out; /* weights begin as torchvision's resnets */
    double eps, momentum, p;
    uint32_t first_param, num_params;
    uint64_t flops;        /* of one row, forward; of products alone, as usual */
    stk__outside *outside; /* of STK__OUTSIDE; a share of it */
} stk__node;

typedef enum stk__role {
    STK__WEIGHT,
    STK__BIAS,
    STK__RUNNING_MEAN,
    STK__RUNNING_VAR,
    STK__NUM_BATCHES
} stk__role;

/* A parameter or a running statistic. */
typedef struct stk__param {
    char *name;
    uint32_t node;
    stk__role role;
    uint32_t rank;
    int64_t shape[4];
    uint64_t count;
    uint64_t offset;   /* bytes, in the weights */
    bool frozen;       /* for good: model.freeze, norms that stay as they are */
    bool trainable;    /* learns now; a running statistic never does */
    bool fixed;        /* a running statistic that training reads and does not change */
    uint64_t gradient; /* bytes, in the gradients; of those that learn or have */
} stk__param;

typedef struct stk__graph {
    stk_context *context;
    stk__node *nodes;
    stk__param *params;
    uint32_t num_nodes, num_params;
    size_t capacity, params_capacity;
    char *text; /* that it was described by; NULL: nothing yet */
} stk__graph;

struct stk_model_builder {
    stk__graph graph;
};

void stk__graph_release(stk__graph *graph);
stk_status stk__graph_copy(const stk__graph *from, stk__graph *to, stk_error *err);
/* Room for one more node, zeroed, its name set; NULL after an error. */
stk_status stk__graph_add_node(stk__graph *graph, stk__kind kind, const char *name, stk__node **out,
                               stk_error *err);
stk_status stk__graph_add_param(stk__graph *graph, uint32_t node, stk__role role, uint32_t rank,
                                const int64_t *shape, stk_error *err);
/* Number of the node of a name; UINT32_MAX when there is none. */
uint32_t stk__graph_find(const stk__graph *graph, const char *name);
/* Elements of one row of a node's output. */
uint64_t stk__node_count(const stk__node *node);
/* "[N, 16, 5, 5]" */
void stk__shape_format(const stk__node *node, char *text, size_t size);
/* Complete a node whose kind, name, inputs and arguments are set: shape, parameters, FLOPs. */
stk_status stk__node_finish(stk__graph *graph, stk__node *node, stk_error *err);
/*
 * The tensor of each parameter, by name and shape: fits[i], which comes zeroed, stays NULL where
 * there is none. `real` is the type of the parameters, into which other floats can be brought, and
 * `remedy` ends the error of a strict match (load.c).
 */
stk_status stk__weights_match(const stk__graph *graph, stk_dtype real,
                              const stk_state_tensor *tensors, size_t n, bool strict,
                              const char *remedy, const stk_state_tensor **fits, size_t *count,
                              stk_error *err);
const char *stk__kind_name(stk__kind kind);
/* "conv2d", or what others call theirs. */
const char *stk__node_kind(const stk__node *node);

#endif
