/* a layer of others -> a node that computes */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_OUTSIDE_H
#define STK_SRC_NN_OUTSIDE_H

#include <stdatomic.h>

#include "nn/graph.h"

/* A layer of others with its arguments; models of one description share it. */
struct stk__outside {
    stk_context *context;
    atomic_uint shares;
    stk_layer_ops ops; /* in full size */
    stk_layer_shape shape;
    void *options;
    char **texts; /* of the options, one for each; NULL where it is none */
};

/* A layer with the arguments of an item. */
stk_status stk__outside_create(stk_context *ctx, const stk_layer_ops *ops, const stk__item *item,
                               stk__outside **out, stk_error *err);
stk__outside *stk__outside_share(stk__outside *outside);
void stk__outside_release(stk__outside *outside);
/* Ask it what it gives for what `from` gives. */
stk_status stk__outside_finish(stk__graph *graph, stk__node *node, const stk__node *from,
                               stk_error *err);

#endif
