/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a batch size and mode: which layers are done together, where every value and gradient
 * lies, and when. All lie in one arena; two may share bytes where they are never needed at the same
 * time.
 */
#include "nn/model.h"

/* Of each node, while a plan is made. */
typedef struct note {
    uint32_t consumers, last_consumer;
    bool single;    /* its one consumer alone reads its memory */
    bool wanted;    /* its gradient is */
    bool exclusive; /* the memory of its gradient may be changed by its own backward pass */
    uint32_t gradient;
} note;

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to plan a model");
}

stk_status stk__plan_buffer(stk__plan *plan, uint64_t count, uint64_t itemsize, uint32_t first,
                            uint32_t last, uint32_t *out, stk_error *err)
{
    stk_context *ctx = plan->model->graph.context;
    uint64_t bytes;

    if (!stk__mul_size(count, itemsize, &bytes) || bytes > INT64_MAX / 2)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN,
                         "a buffer of the model is too big: use a smaller batch_size");
    stk__buffer *grown = stk__grow(ctx, plan->buffers, &plan->buffers_capacity,
                                   (uint64_t)plan->num_buffers + 1, sizeof *grown);
    if (!grown)
        return no_memory(err);
    plan->buffers = grown;
    plan->buffers[plan->num_buffers] = (stk__buffer){
        .bytes = stk__round_up(STK_MAX(bytes, 1u), STK_CACHE_LINE), .first = first, .last = last};
    *out = plan->num_buffers++;
    return STK_OK;
}

static uint32_t node_count(const stk__plan *plan)
{
    return plan->model->graph.num_nodes;
}

uint32_t stk__plan_time(const stk__plan *plan, const stk__plan_step *step, bool backward)
{
    uint32_t i = (uint32_t)(step - plan->steps);

    return backward ? 2 * node_count(plan) - i : i;
}

/* Keep a buffer until a time. */
static void touch(stk__plan *plan, uint32_t buffer, uint32_t time)
{
    if (buffer >= STK__EXTERNAL)
        return;
    stk__buffer *b = &plan->buffers[buffer];
    b->last = STK_MAX(b->last, time);
    b->first = STK_MIN(b->first, time);
}

/* Whether a picture is the same bytes in both layouts. */
static bool flat(const stk__node *node)
{
    return node->rank < 3 || node->shape[0] == 1 || node->shape[1] * node->shape[2] == 1;
}

/* Whether a node's output is its input, seen otherwise. */
static bool is_view(const stk__plan *plan, const stk__node *node, const stk__node *from)
{
    switch (node->kind) {
    case STK__INPUT:
        return plan->model->backend->itemsize == sizeof(float) &&
               (flat(node) || plan->model->options.input_layout == 1);
    case STK__FLATTEN:
    case STK__OUTPUT:
        return flat(from);
    case STK__DROPOUT:
        return !plan->training || node->p == 0;
    default:
        return false;
    }
}

static bool takes_relu(stk__kind kind)
{
    return kind == STK__LINEAR || kind == STK__CONV2D || kind == STK__BATCH_NORM2D ||
           kind == STK__ADD;
}

/* Whether forward and backward pass may write over what they read. */
static bool in_place(stk__kind kind)
{
    return kind == STK__RELU || kind == STK__DROPOUT;
}

static bool in_place_backward(stk__kind kind)
{
    return in_place(kind) || kind == STK__GELU || kind == STK__SILU || kind == STK__BATCH_NORM2D;
}

/* Count consumers, join relus with what is before them, find views. */
static void join(stk__plan *plan, note *notes)
{
    const stk__graph *g = &plan->model->graph;

    for (uint32_t i = 1; i < g->num_nodes; i++)
        for (uint32_t k = 0; k < g->nodes[i].num_inputs; k++) {
            notes[g->nodes[i].inputs[k]].consumers++;
            notes[g->nodes[i].inputs[k]].last_consumer = i;
        }
    for (uint32_t i = 0; i < g->num_nodes; i++) {
        const stk__node *node = &g->nodes[i];
        uint32_t from = node->inputs[0];
        stk__plan_step *step = &plan->steps[i];
        *step = (stk__plan_step){.node = node,
                                 .x = {STK__NO_BUFFER, STK__NO_BUFFER},
                                 .dx = {STK__NO_BUFFER, STK__NO_BUFFER},
                                 .y = STK__NO_BUFFER,
                                 .dy = STK__NO_BUFFER,
                                 .work = STK__NO_BUFFER,
                                 .scratch = STK__NO_BUFFER,
                                 .backward_scratch = STK__NO_BUFFER};
        step->absent = is_view(plan, node, &g->nodes[from]);
        if (node->kind == STK__RELU && notes[from].consumers == 1 &&
            takes_relu(g->nodes[from].kind)) {
            plan->steps[from].relu = true;
            step->absent = true;
        }
        notes[i].single =
            notes[i].consumers == 1 &&
            (i == 0 || (!step->absent && !in_place(node->kind)) || notes[from].single);
        notes[i].gradient = STK__NO_BUFFER;
    }
}

/* Memory of the values. */
static stk_status place_values(stk__plan *plan, note *notes, stk_error *err)
{
    const stk__graph *g = &plan->model->graph;
    uint32_t itemsize = plan->model->backend->itemsize;

    for (uint32_t i = 0; i < g->num_nodes; i++) {
        stk__plan_step *step = &plan->steps[i];
        const stk__node *node = step->node;
        for (uint32_t k = 0; k < node->num_inputs; k++) {
            step->x[k] = plan->steps[node->inputs[k]].y;
            touch(plan, step->x[k], i);
        }
        if (i == 0 && step->absent)
            step->y = STK__EXTERNAL;
        else if (i > 0 && (step->absent || (in_place(node->kind) && notes[node->inputs[0]].single &&
                                            step->x[0] != STK__EXTERNAL)))
            step->y = step->x[0];
        else
            STK_TRY(stk__plan_buffer(plan, stk__node_count(node) * plan->rows, itemsize, i, i,
                                     &step->y, err));
    }
    plan->output = plan->steps[g->num_nodes - 1].y;
    touch(plan, plan->output, 2 * g->num_nodes);
    return STK_OK;
}

/* Which gradients are wanted: above the first parameter that learns. */
static void want(stk__plan *plan, note *notes)
{
    const stk__graph *g = &plan->model->graph;

    for (uint32_t i = 1; i < g->num_nodes; i++) {
        const stk__node *node = &g->nodes[i];
        for (uint32_t k = 0; k < node->num_inputs; k++)
            notes[i].wanted |= notes[node->inputs[k]].wanted;
        for (uint32_t k = 0; k < node->num_params; k++)
            notes[i].wanted |= g->params[node->first_param + k].trainable;
    }
}

/* How the gradient of step `i` reaches input `k`; `alias`: it may be the same memory. */
static stk_status flow(stk__plan *plan, note *notes, uint32_t i, uint32_t k, bool alias,
                       stk_error *err)
{
    stk__plan_step *step = &plan->steps[i];
    uint32_t from = step->node->inputs[k], time = stk__plan_time(plan, step, true);
    note *to = &notes[from];

    if (!to->wanted)
        return STK_OK;
    if (to->gradient != STK__NO_BUFFER) {
        step->flow[k] = STK__FLOW_ADD;
    } else if (alias) {
        bool same = step->absent || step->node->kind == STK__ADD;
        step->flow[k] = same ? STK__FLOW_ALIAS : STK__FLOW_WRITE;
        to->gradient = step->dy;
        to->exclusive = true;
    } else {
        step->flow[k] = STK__FLOW_WRITE;
        to->exclusive = true;
        STK_TRY(stk__plan_buffer(plan,
                                 stk__node_count(&plan->model->graph.nodes[from]) * plan->rows,
                                 plan->model->backend->itemsize, time, time, &to->gradient, err));
    }
    step->dx[k] = to->gradient;
    touch(plan, to->gradient, time);
    return STK_OK;
}

/*
 * Both inputs of a sum have its gradient. The earlier of the two takes over the memory; the later
 * one may read it where its own backward pass comes first, and changes nothing there.
 */
static stk_status flow_add(stk__plan *plan, note *notes, uint32_t i, stk_error *err)
{
    const stk__graph *g = &plan->model->graph;
    stk__plan_step *step = &plan->steps[i];
    uint32_t owner = step->node->inputs[0] <= step->node->inputs[1] ? 0 : 1;
    uint32_t a = step->node->inputs[owner], b = step->node->inputs[1 - owner];
    note *other = &notes[b];

    if (!notes[a].wanted || !other->wanted || a == b) {
        STK_TRY(flow(plan, notes, i, 0, notes[i].exclusive, err));
        return flow(plan, notes, i, 1, notes[i].exclusive, err);
    }
    bool taken = notes[a].gradient == STK__NO_BUFFER && notes[i].exclusive;
    STK_TRY(flow(plan, notes, i, owner, taken, err));
    /* The other consumers of the owner add to its memory, at the latest when `b` is not yet done.
     */
    bool early = true;
    for (uint32_t c = b; c < g->num_nodes; c++)
        for (uint32_t k = 0; k < g->nodes[c].num_inputs; k++)
            early = early && (c == i || g->nodes[c].inputs[k] != a);
    bool reads = other->single && !plan->steps[b].absent && !plan->steps[b].relu &&
                 !in_place(g->nodes[b].kind);
    bool alias = notes[i].exclusive && (!taken || (early && reads));
    STK_TRY(flow(plan, notes, i, 1 - owner, alias, err));
    if (taken && step->flow[1 - owner] == STK__FLOW_ALIAS)
        other->exclusive = false;
    return STK_OK;
}

/* Memory of the gradients, in the order of the backward pass. */
static stk_status place_gradients(stk__plan *plan, note *notes, stk_error *err)
{
    const stk__graph *g = &plan->model->graph;
    uint32_t n = g->num_nodes;

    want(plan, notes);
    STK_TRY(stk__plan_buffer(plan, stk__node_count(&g->nodes[n - 1]) * plan->rows,
                             plan->model->backend->itemsize, n, n, &plan->loss_gradient, err));
    notes[n - 1].gradient = plan->loss_gradient;
    notes[n - 1].exclusive = true;
    for (uint32_t i = n - 1; i > 0; i--) {
        stk__plan_step *step = &plan->steps[i];
        uint32_t time = stk__plan_time(plan, step, true);
        stk__kind kind = step->node->kind;
        step->dy = notes[i].gradient;
        if (!notes[i].wanted || step->dy == STK__NO_BUFFER)
            continue;
        step->backward = true;
        touch(plan, step->dy, time);
        if (step->relu || kind == STK__RELU)
            touch(plan, step->y, time);
        if (kind == STK__LINEAR || kind == STK__CONV2D || kind == STK__BATCH_NORM2D ||
            kind == STK__LAYER_NORM || kind == STK__GELU || kind == STK__SILU ||
            kind == STK__OUTSIDE)
            touch(plan, step->x[0], time);
        if (kind == STK__ADD)
            STK_TRY(flow_add(plan, notes, i, err));
        else
            STK_TRY(flow(plan, notes, i, 0,
                         notes[i].exclusive && (step->absent || in_place_backward(kind)), err));
    }
    return STK_OK;
}

/* Ask the back end for what it needs at each step. */
static stk_status place_work(stk__plan *plan, stk_error *err)
{
    for (uint32_t i = 0; i < node_count(plan); i++) {
        stk__plan_step *step = &plan->steps[i];
        step->ops = stk__ops_of(plan, step);
        if (!step->absent && step->ops->plan)
            STK_TRY(step->ops->plan(plan, step, err));
    }
    return STK_OK;
}

/* Biggest first, each at the lowest place that is free for all of its time. */
static stk_status place_offsets(stk__plan *plan, stk_error *err)
{
    stk_context *ctx = plan->model->graph.context;
    uint32_t n = plan->num_buffers, placed = 0;
    uint32_t *order = stk__calloc(ctx, STK_MAX(2 * (uint64_t)n, 1u), sizeof *order);

    if (!order)
        return no_memory(err);
    uint32_t *by_offset = order + n; /* of those placed */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i;
        for (; k > 0 && plan->buffers[order[k - 1]].bytes < plan->buffers[i].bytes; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        stk__buffer *b = &plan->buffers[order[i]];
        for (uint32_t k = 0; k < placed; k++) {
            const stk__buffer *c = &plan->buffers[by_offset[k]];
            if (c->last < b->first || c->first > b->last)
                continue;
            if (c->offset >= b->offset + b->bytes)
                break;
            b->offset = STK_MAX(b->offset, c->offset + c->bytes);
        }
        uint32_t k = placed++;
        for (; k > 0 && plan->buffers[by_offset[k - 1]].offset > b->offset; k--)
            by_offset[k] = by_offset[k - 1];
        by_offset[k] = order[i];
        plan->bytes = STK_MAX(plan->bytes, b->offset + b->bytes);
    }
    stk__free(ctx, order);
    return STK_OK;
}

stk_status stk__plan_create(struct stk_model *model, uint32_t rows, bool training, stk__plan **out,
                            stk_error *err)
{
    stk_context *ctx = model->graph.context;
    uint32_t n = model->graph.num_nodes;
    stk__plan *plan = stk__calloc(ctx, 1, sizeof *plan);
    note *notes = stk__calloc(ctx, n, sizeof *notes);
    stk_status status;

    *out = NULL;
    if (plan) {
        plan->model = model;
        plan->rows = rows;
        plan->training = training;
        plan->loss_gradient = STK__NO_BUFFER;
        plan->steps = stk__calloc(ctx, n, sizeof *plan->steps);
    }
    if (!plan || !plan->steps || !notes) {
        status = no_memory(err);
        goto out;
    }
    join(plan, notes);
    status = place_values(plan, notes, err);
    if (status == STK_OK && training)
        status = place_gradients(plan, notes, err);
    if (status == STK_OK)
        status = place_work(plan, err);
    if (status == STK_OK)
        status = place_offsets(plan, err);
    if (status == STK_OK) {
        *out = plan;
        plan = NULL;
    }
out:
    stk__free(ctx, notes);
    stk__plan_destroy(&plan);
    return status;
}

void stk__plan_destroy(stk__plan **plan)
{
    stk__plan *p = *plan;

    if (!p)
        return;
    stk_context *ctx = p->model->graph.context;
    for (uint32_t i = 0; p->steps && i < node_count(p); i++) {
        stk__plan_step *step = &p->steps[i];
        if (step->own)
            step->ops->release(p, step);
    }
    stk__free(ctx, p->steps);
    stk__free(ctx, p->buffers);
    stk__free(ctx, p);
    *plan = NULL;
}
