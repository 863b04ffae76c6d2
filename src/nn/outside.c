/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of others, by their tables. They add to gradients that this zeroes, so none has to know
 * who else has been there. */
#include "nn/outside.h"

#include "base/options.h"
#include "base/sized.h"
#include "base/table.h"
#include "nn/ops.h"

static const stk__member members[] = {STK__MEMBER(stk_layer_ops, shape),
                                      STK__MEMBER(stk_layer_ops, forward),
                                      STK__MEMBER(stk_layer_ops, backward)};
static const stk__given_table table = {.type = "stk_layer_ops",
                                       .least = sizeof(stk_layer_ops),
                                       .members = members,
                                       .num_members = STK_COUNT(members),
                                       .stage = STK_STAGE_TRAIN};

stk_status stk__layer_kind_check(const void *ops, stk_error *err)
{
    STK_TRY(stk__table_check(&table, ops, err));
    const stk_option_table *options = ((const stk_layer_ops *)ops)->options;
    return options ? stk__options_check(options, err) : STK_OK;
}

/* ---- Making ---- */

static stk_status no_memory(const stk_layer_ops *ops, stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a layer %s", ops->name);
}

/* The texts of the item go: the options get copies. */
static bool keep_texts(stk__outside *self, const stk_option_table *options)
{
    for (size_t i = 0; i < options->count; i++) {
        const char **text = (const char **)((char *)self->options + options->options[i].offset);
        if (options->options[i].type != STK_OPTION_STRING || !*text)
            continue;
        self->texts[i] = stk__strdup(self->context, *text);
        *text = self->texts[i];
        if (!*text)
            return false;
    }
    return true;
}

stk_status stk__outside_create(stk_context *ctx, const stk_layer_ops *ops, const stk__item *item,
                               stk__outside **out, stk_error *err)
{
    const stk_option_table *options = ops->options;

    *out = NULL;
    stk__outside *self = stk__calloc(ctx, 1, sizeof *self);
    if (!self)
        return no_memory(ops, err);
    self->context = stk__context_ref(ctx);
    atomic_init(&self->shares, 1);
    stk__sized_copy(&self->ops, sizeof self->ops, ops);
    stk_status status = STK_OK;
    if (options) {
        self->options = stk__calloc(ctx, 1, options->struct_size);
        self->texts = stk__calloc(ctx, STK_MAX(options->count, (size_t)1), sizeof *self->texts);
        if (!self->options || !self->texts)
            status = no_memory(ops, err);
    }
    if (status == STK_OK)
        status = stk__item_options(item, options, NULL, self->options, err);
    if (status == STK_OK && options && !keep_texts(self, options))
        status = no_memory(ops, err);
    if (status != STK_OK)
        stk__outside_release(self);
    else
        *out = self;
    return status;
}

stk__outside *stk__outside_share(stk__outside *self)
{
    if (self)
        atomic_fetch_add(&self->shares, 1);
    return self;
}

void stk__outside_release(stk__outside *self)
{
    if (!self || atomic_fetch_sub(&self->shares, 1) > 1)
        return;
    stk_context *ctx = self->context;
    for (size_t i = 0; self->texts && i < self->ops.options->count; i++)
        stk__free(ctx, self->texts[i]);
    stk__free(ctx, self->texts);
    stk__free(ctx, self->options);
    stk__free(ctx, self);
    stk__context_unref(ctx);
}

/* ---- Its shape ---- */

static bool is_shape(const int64_t *shape, uint32_t rank, uint32_t most)
{
    for (uint32_t i = 0; i < rank && rank <= most; i++)
        if (shape[i] < 1 || shape[i] > STK__MAX_SIDE)
            return false;
    return rank <= most;
}

/* What a function of the table answers: anything but success and failure is none. */
static stk_status answer(const stk__node *node, const char *function, stk_status status,
                         stk_error *err)
{
    return status <= 0 ? status
                       : stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                                   "layer '%s' (%s): its %s() answers neither success nor failure",
                                   node->name, node->outside->ops.name, function);
}

stk_status stk__outside_finish(stk__graph *graph, stk__node *node, const stk__node *from,
                               stk_error *err)
{
    stk__outside *self = node->outside;
    stk_layer_shape *shape = &self->shape;
    const uint32_t index = graph->num_nodes - 1;

    *shape = (stk_layer_shape){.struct_size = sizeof *shape, .rank = from->rank};
    memcpy(shape->shape, from->shape, from->rank * sizeof *shape->shape);
    STK_TRY(answer(node, "shape", self->ops.shape(self->options, shape, err), err));
    if (shape->rank == 0 || !is_shape(shape->shape, shape->rank, STK__NODE_RANK) ||
        !is_shape(shape->weight.shape, shape->weight.rank, 4) ||
        !is_shape(shape->bias.shape, shape->bias.rank, 4))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "layer '%s' (%s): its shape() gives sizes that no layer can have",
                         node->name, self->ops.name);
    node->rank = shape->rank;
    memcpy(node->shape, shape->shape, shape->rank * sizeof *node->shape);
    node->flops = shape->flops;
    if (shape->weight.rank)
        STK_TRY(stk__graph_add_param(graph, index, STK__WEIGHT, shape->weight.rank,
                                     shape->weight.shape, err));
    return shape->bias.rank ? stk__graph_add_param(graph, index, STK__BIAS, shape->bias.rank,
                                                   shape->bias.shape, err)
                            : STK_OK;
}

/* ---- Passes ---- */

static stk_layer_pass pass_of(stk__plan *plan, const stk__plan_step *step)
{
    const struct stk_model *m = plan->model;
    const stk__node *node = step->node;

    return (stk_layer_pass){.struct_size = sizeof(stk_layer_pass),
                            .dtype = stk__plan_itemsize(plan) == sizeof(double) ? STK_FLOAT64
                                                                                : STK_FLOAT32,
                            .rows = plan->rows,
                            .in = stk__node_count(&m->graph.nodes[node->inputs[0]]),
                            .out = stk__node_count(node),
                            .training = plan->training,
                            .options = node->outside->options,
                            .x = stk__at(plan, step->x[0]),
                            .weight = stk__weight(m, node, STK__WEIGHT),
                            .bias = stk__weight(m, node, STK__BIAS)};
}

static stk_status forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    stk_layer_pass pass = pass_of(plan, step);

    pass.y = stk__at(plan, step->y);
    return answer(step->node, "forward", step->node->outside->ops.forward(&pass, err), err);
}

/* The gradient of a parameter, zeroed where this pass is the first to add to it. */
static void *gradient_of(const struct stk_model *m, const stk__node *node, stk__role role)
{
    void *gradient = stk__gradient(m, node, role);

    if (gradient && !m->has_gradients)
        memset(gradient, 0, (size_t)stk__param_of(m, node, role)->count * m->backend->itemsize);
    return gradient;
}

static stk_status backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const struct stk_model *m = plan->model;
    stk_layer_pass pass = pass_of(plan, step);

    pass.dy = stk__at(plan, step->dy);
    pass.weight_gradient = gradient_of(m, step->node, STK__WEIGHT);
    pass.bias_gradient = gradient_of(m, step->node, STK__BIAS);
    if (step->flow[0] != STK__FLOW_NONE)
        pass.dx = stk__at(plan, step->dx[0]);
    if (step->flow[0] == STK__FLOW_WRITE)
        memset(pass.dx, 0, (size_t)(pass.rows * pass.in * m->backend->itemsize));
    return answer(step->node, "backward", step->node->outside->ops.backward(&pass, err), err);
}

const stk__ops stk__ops_outside = {.forward = forward, .backward = backward};
