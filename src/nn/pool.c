/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling of pictures; the global average is a window as big as the picture. */
#include "nn/ops.h"

typedef struct pool {
    stk__plan *plan;
    stk__plan_step *step;
    stk__window window;
    uint64_t in, out; /* elements of a picture */
} pool;

static pool pool_of(stk__plan *plan, stk__plan_step *step)
{
    const stk__node *node = step->node, *from = &plan->model->graph.nodes[node->inputs[0]];
    pool p = {.plan = plan,
              .step = step,
              .window = {.channels = node->shape[0],
                         .height = from->shape[1],
                         .width = from->shape[2],
                         .out_height = node->shape[1],
                         .out_width = node->shape[2],
                         .padded = node->padded},
              .in = stk__node_count(from),
              .out = stk__node_count(node)};

    for (int i = 0; i < 2; i++) {
        bool global = node->kind == STK__GLOBAL_AVG_POOL2D;
        p.window.kernel[i] = global ? from->shape[1 + i] : node->kernel[i];
        p.window.stride[i] = global ? 1 : node->stride[i];
        p.window.padding[i] = global ? 0 : node->padding[i];
    }
    return p;
}

static void *picture(const pool *p, uint32_t buffer, uint64_t i, uint64_t elements)
{
    return (char *)stk__at(p->plan, buffer) + i * elements * stk__plan_itemsize(p->plan);
}

static uint32_t *places(const pool *p, uint64_t i)
{
    uint32_t *work = stk__at(p->plan, p->step->work);

    return work ? work + i * p->out : NULL;
}

static stk_status run(stk__plan *plan, stk__plan_step *step, stk__body *body)
{
    pool p = pool_of(plan, step);

    stk__parallel(plan->model->threads, plan->rows, STK_MAX(STK__GRAIN / p.in, 1u), body, &p);
    return STK_OK;
}

static void max_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const pool *p = argument;

    for (uint64_t i = from; i < to; i++)
        p->plan->model->kernels->max_pool(picture(p, p->step->y, i, p->out), places(p, i),
                                          picture(p, p->step->x[0], i, p->in), &p->window);
}

static void avg_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const pool *p = argument;

    for (uint64_t i = from; i < to; i++)
        p->plan->model->kernels->avg_pool(picture(p, p->step->y, i, p->out),
                                          picture(p, p->step->x[0], i, p->in), &p->window);
}

/* What windows share is added up: begin with nothing. */
static void *clear(const pool *p, uint64_t i)
{
    void *dx = picture(p, p->step->dx[0], i, p->in);

    if (p->step->flow[0] == STK__FLOW_WRITE)
        memset(dx, 0, p->in * stk__plan_itemsize(p->plan));
    return dx;
}

static void max_back(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const pool *p = argument;

    for (uint64_t i = from; i < to; i++)
        p->plan->model->kernels->max_pool_backward(clear(p, i), picture(p, p->step->dy, i, p->out),
                                                   places(p, i), &p->window);
}

static void avg_back(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const pool *p = argument;

    for (uint64_t i = from; i < to; i++)
        p->plan->model->kernels->avg_pool_backward(clear(p, i), picture(p, p->step->dy, i, p->out),
                                                   &p->window);
}

static stk_status max_plan(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const stk__node *from = &plan->model->graph.nodes[step->node->inputs[0]];

    if (from->shape[1] * from->shape[2] > UINT32_MAX)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_TRAIN, "layer '%s': pictures are too big",
                         step->node->name);
    if (!step->backward)
        return STK_OK;
    return stk__plan_buffer(plan, stk__step_count(plan, step), sizeof(uint32_t),
                            stk__plan_time(plan, step, false), stk__plan_time(plan, step, true),
                            &step->work, err);
}

static stk_status max_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    return run(plan, step, max_body);
}

static stk_status max_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    return step->flow[0] == STK__FLOW_NONE ? STK_OK : run(plan, step, max_back);
}

static stk_status avg_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    return run(plan, step, avg_body);
}

static stk_status avg_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    return step->flow[0] == STK__FLOW_NONE ? STK_OK : run(plan, step, avg_back);
}

const stk__ops stk__ops_max_pool = {
    .plan = max_plan, .forward = max_forward, .backward = max_backward};
const stk__ops stk__ops_avg_pool = {.forward = avg_forward, .backward = avg_backward};
