/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and backward passes over a plan. */
#include <math.h>

#include "base/sized.h"
#include "nn/model.h"

stk_status stk__model_plan(struct stk_model *m, uint32_t rows, bool training, stk__plan **out,
                           stk_error *err)
{
    size_t place = 0;
    stk__plan *made;

    for (size_t i = 0; i < STK__MAX_PLANS; i++) {
        stk__plan *p = m->plans[i];
        if (p && p->rows == rows && p->training == training) {
            p->used = ++m->clock;
            *out = p;
            return STK_OK;
        }
        /* The first two, of whole batches, stay. */
        if (m->plans[place] && (place < 2 || !p || p->used < m->plans[place]->used))
            place = i;
    }
    STK_TRY(stk__plan_create(m, rows, training, &made, err));
    if (m->arena && made->bytes > m->arena_bytes) {
        void *arena = stk__alloc_buffer(m->graph.context, made->bytes);
        if (!arena) {
            stk__plan_destroy(&made);
            return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a step of %u rows",
                             rows);
        }
        stk__free(m->graph.context, m->arena);
        m->arena = arena;
        m->arena_bytes = made->bytes;
    }
    if (m->plans[place] == m->current)
        m->current = NULL;
    stk__plan_destroy(&m->plans[place]);
    made->used = ++m->clock;
    m->plans[place] = made;
    *out = made;
    return STK_OK;
}

static stk_status check_batch(const struct stk_model *m, const stk_model_batch *batch,
                              bool training, stk_error *err)
{
    uint64_t most = training ? m->options.batch_size : m->options.eval_batch_size;
    bool wide = m->backend->itemsize == sizeof(double) && batch->dtype == STK_FLOAT64;

    if (batch->count < 1 || batch->count > most)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "a batch of %u rows was given to a model made for 1 to %llu", batch->count,
                         (unsigned long long)most);
    if (batch->dtype != STK_FLOAT32 && !wide)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "the model takes float32, not %s: add to_float to the transforms",
                         stk_dtype_name(batch->dtype));
    if (training && !batch->target)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN, "a training step needs a target");
    if (batch->target && !stk__loss_takes(m->options.loss, batch->target_dtype))
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN, "the loss takes %s, not %s",
                         m->options.loss == STK_LOSS_CROSS_ENTROPY ? "integers" : "numbers",
                         stk_dtype_name(batch->target_dtype));
    return STK_OK;
}

/* Bytes that a step touches at least: its values and weights, once. */
static uint64_t step_bytes(const stk__plan *plan, const stk__plan_step *step)
{
    const stk__graph *g = &plan->model->graph;
    uint64_t count = stk__node_count(step->node) * plan->rows;

    for (uint32_t k = 0; k < step->node->num_inputs; k++)
        count += stk__node_count(&g->nodes[step->node->inputs[k]]) * plan->rows;
    for (uint32_t k = 0; k < step->node->num_params; k++)
        count += g->params[step->node->first_param + k].count;
    return count * plan->model->backend->itemsize;
}

static void tell(const stk__plan *plan, const stk__plan_step *step, bool backward, uint64_t start)
{
    const struct stk_model *m = plan->model;
    size_t layer = (size_t)(step - plan->steps);
    const uint64_t flops =
        step->ops->flops ? step->ops->flops(plan, step) : step->node->flops * plan->rows;
    uint64_t passes = 1;

    if (step->node->kind == STK__INPUT || step->node->kind == STK__OUTPUT)
        return;
    if (backward)
        passes = (step->flow[0] != STK__FLOW_NONE) + stk__learns(m, step->node, STK__WEIGHT);
    m->probe(m->probe_user, layer - 1, backward, start, stk__now_ns(), flops * passes,
             step_bytes(plan, step) * passes);
}

/* The loss: the layer behind the last. It reads the output and writes its gradient. */
static void tell_loss(const stk__plan *plan, bool backward, uint64_t start)
{
    const struct stk_model *m = plan->model;
    const stk__graph *g = &m->graph;
    const uint64_t count = stk__node_count(&g->nodes[g->num_nodes - 1]) * plan->rows;

    m->probe(m->probe_user, g->num_nodes - 2, backward, start, stk__now_ns(), 0,
             2 * count * m->backend->itemsize);
}

/* Those of a node that learn, or will: they lie elsewhere all the same. */
static stk_status ask(const struct stk_model *m, const stk__node *node, stk_error *err)
{
    stk_state_tensor wanted[STK__BIAS + 1];
    size_t n = 0;

    for (uint32_t k = 0; k < node->num_params; k++) {
        const stk__param *p = &m->graph.params[node->first_param + k];
        if (stk__model_may_learn(m, node->first_param + k) && n < STK_COUNT(wanted))
            stk__param_tensor(m, p, (char *)m->weights + p->offset, &wanted[n++]);
    }
    return n ? m->ask(m->ask_user, wanted, n, err) : STK_OK;
}

/* Within a pass: who brings them computes by other rules. */
static stk_status ask_within(const struct stk_model *m, const stk__node *node, stk__compute *before,
                             stk_error *err)
{
    if (!m->ask)
        return STK_OK;
    stk__compute_end(before);
    const stk_status status = ask(m, node, err);
    *before = stk__compute_begin(m->threads);
    return status;
}

static stk_status forward(stk__plan *plan, stk__compute *before, stk_error *err)
{
    struct stk_model *m = plan->model;

    for (uint32_t i = 0; i < m->graph.num_nodes; i++) {
        stk__plan_step *step = &plan->steps[i];
        if (step->absent)
            continue;
        if (plan->training)
            STK_TRY(ask_within(m, step->node, before, err));
        uint64_t start = m->probe ? stk__now_ns() : 0;
        STK_TRY(step->ops->forward(plan, step, err));
        if (m->probe)
            tell(plan, step, false, start);
    }
    return STK_OK;
}

/* Where the numbers of a pass are; without a loss there are none. */
static stk_model_result result_of(const struct stk_model *m, bool loss)
{
    const stk__step_numbers *n = &m->numbers;
    const stk_scalar none = {.value = NAN};
    stk_model_result result = {.struct_size = sizeof result, .loss = none};

    if (!loss)
        return result;
    result.loss = (stk_scalar){NAN, &n->loss, &n->count, STK_FLOAT64};
    result.count = (stk_scalar){NAN, &n->count, NULL, STK_FLOAT64};
    if (m->options.loss != STK_LOSS_CROSS_ENTROPY)
        return result;
    result.accuracy = (stk_scalar){NAN, &n->accuracy, &n->count, STK_FLOAT64};
    result.accuracy_top_k = (stk_scalar){NAN, &n->accuracy_top_k, &n->count, STK_FLOAT64};
    return result;
}

stk_status stk_model_value(const stk_model *m, const stk_scalar *number, double *value,
                           stk_error *err)
{
    STK_TRY(stk__context_check(m->graph.context, err));
    *value = number->value;
    if (number->data)
        *value = stk__element_as_double(number->data, number->dtype);
    return STK_OK;
}

stk_status stk_model_forward(stk_model *m, const stk_model_batch *given, bool training,
                             stk_model_result *out, stk_error *err)
{
    STK_TRY(stk__context_check(m->graph.context, err));
    stk_status status;
    stk__plan *plan;

    m->awaits_backward = false;
    stk_model_batch work = {0}, *batch = &work;
    STK_TRY(stk__sized_read(&work, sizeof work, given, "stk_model_batch", STK_STAGE_TRAIN, err));
    STK_TRY(stk__sized_check(out, "stk_model_result", STK_STAGE_TRAIN, err));
    STK_TRY(check_batch(m, batch, training, err));
    STK_TRY(stk__model_need(m, training, err));
    m->threads = m->threads_of[training];
    stk__compute before = stk__compute_begin(m->threads);
    status = stk__model_plan(m, batch->count, training, &plan, err);
    if (status == STK_OK) {
        m->batch = *batch;
        m->current = plan;
        status = forward(plan, &before, err);
    }
    const bool loss = status == STK_OK && batch->target;
    const uint64_t start = m->probe ? stk__now_ns() : 0;
    if (loss)
        status = stk__loss(m, stk__at(plan, plan->output),
                           training ? stk__at(plan, plan->loss_gradient) : NULL, &m->numbers, err);
    if (loss && m->probe)
        tell_loss(plan, false, start);
    stk__compute_end(&before);
    const stk_model_result result = result_of(m, loss && status == STK_OK);
    stk__sized_write(out, &result);
    m->awaits_backward = status == STK_OK && training;
    return status;
}

void stk__model_tell_gradients(stk_model *m, stk__gradient_fn *done, void *user)
{
    m->done = done;
    m->done_user = user;
}

/* The gradients of a node: nothing writes to them any more in this pass. */
static stk_status tell_gradients(const struct stk_model *m, const stk__node *node, stk_error *err)
{
    stk_state_tensor gradient;

    for (uint32_t k = node->num_params; k > 0; k--) {
        const stk__param *p = &m->graph.params[node->first_param + k - 1];
        if (!p->trainable)
            continue;
        stk__param_tensor(m, p, (char *)m->gradients + p->gradient, &gradient);
        STK_TRY(m->done(m->done_user, &gradient, err));
    }
    return STK_OK;
}

void stk__model_ask_parameters(stk_model *m, stk__parameters_fn *asked, void *user)
{
    m->ask = asked;
    m->ask_user = user;
}

/* Within a pass, likewise where what is told of goes to others at once. */
static stk_status tell_within(const struct stk_model *m, const stk__node *node,
                              stk__compute *before, stk_error *err)
{
    if (!m->done || !m->ask)
        return m->done ? tell_gradients(m, node, err) : STK_OK;
    stk__compute_end(before);
    const stk_status status = tell_gradients(m, node, err);
    *before = stk__compute_begin(m->threads);
    return status;
}

static stk_status backward_step(stk__plan *plan, stk__plan_step *step, stk__compute *before,
                                stk_error *err)
{
    struct stk_model *m = plan->model;

    STK_TRY(ask_within(m, step->node, before, err));
    const uint64_t start = m->probe ? stk__now_ns() : 0;
    if (step->absent)
        stk__pass_on(plan, step, 0);
    else
        STK_TRY(step->ops->backward(plan, step, err));
    if (m->probe && !step->absent)
        tell(plan, step, true, start);
    return tell_within(m, step->node, before, err);
}

stk_status stk_model_backward(stk_model *m, double scale, stk_error *err)
{
    STK_TRY(stk__context_check(m->graph.context, err));
    stk_status status = STK_OK;
    stk__plan *plan = m->current;

    if (!m->awaits_backward || !plan)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "a backward pass needs a training forward pass before it");
    m->awaits_backward = false;
    stk__compute before = stk__compute_begin(m->threads);
    const bool told = m->probe && scale != 1; /* else nothing is done */
    const uint64_t begin = told ? stk__now_ns() : 0;
    stk__scale(m, stk__at(plan, plan->loss_gradient),
               stk__node_count(&m->graph.nodes[m->graph.num_nodes - 1]) * plan->rows, scale);
    if (told)
        tell_loss(plan, true, begin);
    for (uint32_t i = m->graph.num_nodes - 1; i > 0 && status == STK_OK; i--) {
        stk__plan_step *step = &plan->steps[i];
        if (step->backward)
            status = backward_step(plan, step, &before, err);
    }
    stk__compute_end(&before);
    m->has_gradients = true;
    return status;
}

/* The gradients of a node, which no pass writes. */
static void zero_gradients(const struct stk_model *m, const stk__node *node)
{
    stk_state_tensor gradient;

    for (uint32_t k = 0; k < node->num_params; k++) {
        const stk__param *p = &m->graph.params[node->first_param + k];
        if (!p->trainable)
            continue;
        stk__param_tensor(m, p, (char *)m->gradients + p->gradient, &gradient);
        memset(gradient.data, 0, gradient.bytes);
    }
}

static stk_status idle_step(stk__plan *plan, stk__plan_step *step, bool back, stk_error *err)
{
    const struct stk_model *m = plan->model;
    const bool walked = back ? step->backward : !step->absent;

    if (walked && m->ask)
        STK_TRY(ask(m, step->node, err));
    if (back && !m->has_gradients)
        zero_gradients(m, step->node);
    if (!walked)
        return STK_OK;
    STK_TRY(stk__norm_idle(plan, step, back, err));
    return back && m->done ? tell_gradients(m, step->node, err) : STK_OK;
}

stk_status stk__model_idle(stk_model *m, bool back, stk_error *err)
{
    const uint32_t n = m->graph.num_nodes;
    stk__plan *plan;

    STK_TRY(stk__model_need(m, true, err));
    STK_TRY(stk__model_plan(m, 1, true, &plan, err));
    for (uint32_t i = 0; i < n; i++)
        STK_TRY(idle_step(plan, &plan->steps[back ? n - 1 - i : i], back, err));
    m->has_gradients |= back;
    m->awaits_backward = false;
    return STK_OK;
}

stk_status stk_model_zero_grad(stk_model *model, stk_error *err)
{
    STK_TRY(stk__context_check(model->graph.context, err));
    model->has_gradients = false;
    return STK_OK;
}

uint64_t stk__model_row(const stk_model *model)
{
    return stk__node_count(&model->graph.nodes[0]);
}

void stk__model_show_gradients(stk_model *model)
{
    if (!model->has_gradients && model->gradients)
        memset(model->gradients, 0, model->gradient_bytes);
    model->has_gradients = true;
}

stk_status stk_model_output(const stk_model *m, stk_state_tensor *out, stk_error *err)
{
    const stk__node *last = &m->graph.nodes[m->graph.num_nodes - 1];
    const stk__plan *plan = m->current;

    *out = (stk_state_tensor){0};
    STK_TRY(stk__context_check(m->graph.context, err));
    if (!plan)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                         "a model has outputs after its first forward pass");
    const bool wide = m->backend->itemsize == sizeof(double);
    *out = (stk_state_tensor){.name = "output",
                              .dtype = wide ? STK_FLOAT64 : STK_FLOAT32,
                              .rank = last->rank + 1,
                              .shape = {plan->rows},
                              .data = stk__at(plan, plan->output),
                              .bytes = stk__node_count(last) * plan->rows * m->backend->itemsize};
    memcpy(&out->shape[1], last->shape, last->rank * sizeof *last->shape);
    return STK_OK;
}
