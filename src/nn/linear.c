/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers by oneDNN's product of matrices, which packs what it needs as it goes. */
#include "nn/dnnl.h"
#include "nn/ops.h"

#ifdef STK_WITH_ONEDNN

/* Which of the three products, and what they are of. */
typedef struct shape {
    uint64_t rows, in, out;
} shape;

static shape shape_of(const stk__plan *plan, const stk__plan_step *step)
{
    uint64_t out = (uint64_t)step->node->out;

    return (shape){stk__step_count(plan, step) / out, (uint64_t)step->node->in, out};
}

/* Floats for inputs rounded to bfloat16: of x, w and dy. */
static uint64_t rounded_room(const stk__plan *plan, const shape *s, bool backward)
{
    if (!plan->model->bf16)
        return 0;
    return s->rows * s->in + s->in * s->out + (backward ? s->rows * s->out : 0);
}

static stk_status linear_plan(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const shape s = shape_of(plan, step);
    uint32_t start = stk__plan_time(plan, step, false), end = stk__plan_time(plan, step, true);

    if (plan->model->bf16)
        STK_TRY(stk__plan_buffer(plan, rounded_room(plan, &s, false), sizeof(float), start, start,
                                 &step->scratch, err));
    if (!step->backward)
        return STK_OK;
    return stk__plan_buffer(
        plan, stk__bias_room(plan, s.rows, s.out) + rounded_room(plan, &s, true) * sizeof(float), 1,
        end, end, &step->backward_scratch, err);
}

/* The same numbers, or rounded into *room, which moves on. */
static const float *operand(const stk__plan *plan, const float *x, uint64_t n, float **room)
{
    if (!plan->model->bf16)
        return x;
    float *rounded = *room;
    stk__round_bf16(plan->model, rounded, x, n);
    *room += n;
    return rounded;
}

static stk_status linear_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const shape s = shape_of(plan, step);
    float *room = stk__at(plan, step->scratch);
    const float *x = operand(plan, stk__at(plan, step->x[0]), s.rows * s.in, &room);
    const float *w =
        operand(plan, stk__weight(plan->model, step->node, STK__WEIGHT), s.in * s.out, &room);

    STK_TRY(stk__gemm('N', 'T', s.rows, s.out, s.in, x, w, 0, stk__at(plan, step->y), err));
    stk__add_bias(plan, step, s.rows, s.out);
    return STK_OK;
}

static stk_status linear_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const struct stk_model *m = plan->model;
    const shape s = shape_of(plan, step);
    char *scratch = stk__at(plan, step->backward_scratch);
    float *room = (float *)(void *)(scratch + stk__bias_room(plan, s.rows, s.out));
    float *dw = stk__gradient(m, step->node, STK__WEIGHT);

    stk__relu_mask(plan, step);
    stk__bias_gradient(plan, step, s.rows, s.out, scratch);
    const float *dy = operand(plan, stk__at(plan, step->dy), s.rows * s.out, &room);
    if (dw) {
        const float *x = operand(plan, stk__at(plan, step->x[0]), s.rows * s.in, &room);
        STK_TRY(stk__gemm('T', 'N', s.out, s.in, s.rows, dy, x, m->has_gradients ? 1 : 0, dw, err));
    }
    if (step->flow[0] == STK__FLOW_NONE)
        return STK_OK;
    const float *w = operand(plan, stk__weight(m, step->node, STK__WEIGHT), s.in * s.out, &room);
    return stk__gemm('N', 'N', s.rows, s.in, s.out, dy, w, step->flow[0] == STK__FLOW_ADD ? 1 : 0,
                     stk__at(plan, step->dx[0]), err);
}

const stk__ops stk__ops_linear_cpu = {
    .plan = linear_plan, .forward = linear_forward, .backward = linear_backward};
#endif
