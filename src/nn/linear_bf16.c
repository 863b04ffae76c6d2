/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers in bfloat16, where the processor multiplies it: by oneDNN, the sums in float. */
#include "nn/dnnl.h"
#include "nn/ops.h"

#ifdef STK_WITH_ONEDNN

/* What a product multiplies: [rows, in], [out, in] and [rows, out]. */
typedef enum operand { X, W, DY, NUM_OPERANDS } operand;

typedef struct linear {
    uint64_t rows, in, out;
    stk__dnnl_call forward, data, weights, weights_add; /* y; dx; dw, set or added to */
    uint32_t low[2][NUM_OPERANDS]; /* buffers of the rounded operands: forward, backward */
} linear;

/* c[m, n] = a[m, k] b[k, n], or added to c. Turned: it lies the other way. */
typedef struct product {
    uint64_t m, n, k;
    bool turn_a, turn_b, adds;
} product;

static stk_status describe(const stk__plan *plan, stk__dnnl_call *call, const product *p,
                           stk_error *err)
{
    dnnl_dims_t a = {(dnnl_dim_t)p->m, (dnnl_dim_t)p->k}, b = {(dnnl_dim_t)p->k, (dnnl_dim_t)p->n};
    dnnl_dims_t c = {(dnnl_dim_t)p->m, (dnnl_dim_t)p->n};
    stk__md of_a = STK__MD_NONE, of_b = STK__MD_NONE, of_c = STK__MD_NONE;
    dnnl_primitive_attr_t attr = NULL;
    stk_status status = stk__call_attr(false, p->adds, &attr, err);
    dnnl_status_t made = stk__md_make(&of_a, 2, a, dnnl_bf16, p->turn_a ? dnnl_ba : dnnl_ab);

    if (made == dnnl_success)
        made = stk__md_make(&of_b, 2, b, dnnl_bf16, p->turn_b ? dnnl_ba : dnnl_ab);
    if (made == dnnl_success)
        made = stk__md_make(&of_c, 2, c, dnnl_f32, dnnl_ab);
    if (status == STK_OK && made == dnnl_success)
        made = stk__matmul_pd(&call->desc, plan->model->dnnl->engine, &of_a, &of_b, &of_c, attr);
    if (status == STK_OK)
        status = stk__dnnl_check(made, "a product of bfloat16 matrices", err);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    stk__md_release(&of_a);
    stk__md_release(&of_b);
    stk__md_release(&of_c);
    return status;
}

static stk_status make(stk__plan *plan, stk__dnnl_call *call, uint32_t time, product p,
                       stk_error *err)
{
    static const stk__call_argument arguments[] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                                   {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                                                   {DNNL_ARG_DST, dnnl_query_dst_md, 0}};

    STK_TRY(describe(plan, call, &p, err));
    return stk__call_make(plan, call, time, arguments, 3, err);
}

static uint64_t count_of(const linear *l, operand which)
{
    return which == X ? l->rows * l->in : which == W ? l->in * l->out : l->rows * l->out;
}

static stk_status plan_low(stk__plan *plan, linear *l, uint32_t time, bool backward, operand which,
                           stk_error *err)
{
    return stk__plan_buffer(plan, count_of(l, which), sizeof(uint16_t), time, time,
                            &l->low[backward][which], err);
}

static stk_status plan_backward(stk__plan *plan, stk__plan_step *step, linear *l, stk_error *err)
{
    uint32_t time = stk__plan_time(plan, step, true);

    STK_TRY(stk__plan_buffer(plan, stk__bias_room(plan, l->rows, l->out), 1, time, time,
                             &step->backward_scratch, err));
    STK_TRY(plan_low(plan, l, time, true, DY, err));
    if (stk__learns(plan->model, step->node, STK__WEIGHT)) {
        product p = {.m = l->out, .n = l->in, .k = l->rows, .turn_a = true};
        STK_TRY(plan_low(plan, l, time, true, X, err));
        STK_TRY(make(plan, &l->weights, time, p, err));
        p.adds = true;
        STK_TRY(make(plan, &l->weights_add, time, p, err));
    }
    if (step->flow[0] == STK__FLOW_NONE)
        return STK_OK;
    const product p = {
        .m = l->rows, .n = l->in, .k = l->out, .adds = step->flow[0] == STK__FLOW_ADD};
    STK_TRY(plan_low(plan, l, time, true, W, err));
    return make(plan, &l->data, time, p, err);
}

static stk_status linear_plan(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    uint64_t out = (uint64_t)step->node->out, in = (uint64_t)step->node->in;
    uint32_t time = stk__plan_time(plan, step, false);
    linear *l = stk__calloc(plan->model->graph.context, 1, sizeof *l);

    if (!l)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a linear layer");
    step->own = l;
    l->rows = stk__step_count(plan, step) / out;
    l->in = in;
    l->out = out;
    const product p = {.m = l->rows, .n = out, .k = in, .turn_b = true};
    STK_TRY(plan_low(plan, l, time, false, X, err));
    STK_TRY(plan_low(plan, l, time, false, W, err));
    STK_TRY(make(plan, &l->forward, time, p, err));
    return step->backward ? plan_backward(plan, step, l, err) : STK_OK;
}

static void linear_release(stk__plan *plan, stk__plan_step *step)
{
    linear *l = step->own;

    stk__call_release(&l->forward);
    stk__call_release(&l->data);
    stk__call_release(&l->weights);
    stk__call_release(&l->weights_add);
    stk__free(plan->model->graph.context, l);
    step->own = NULL;
}

/* An operand rounded, in its buffer. */
static const void *rounded(const stk__plan *plan, const stk__plan_step *step, bool backward,
                           operand which, const float *from)
{
    const linear *l = step->own;
    uint16_t *low = stk__at(plan, l->low[backward][which]);

    stk__to_bf16(plan->model, low, from, count_of(l, which));
    return low;
}

static stk_status linear_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    linear *l = step->own;
    const void *memory[] = {
        rounded(plan, step, false, X, stk__at(plan, step->x[0])),
        rounded(plan, step, false, W, stk__weight(plan->model, step->node, STK__WEIGHT)),
        stk__at(plan, step->y)};

    STK_TRY(stk__call_run(plan, &l->forward, memory, err));
    stk__add_bias(plan, step, l->rows, l->out);
    return STK_OK;
}

static stk_status linear_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const struct stk_model *m = plan->model;
    linear *l = step->own;
    float *dw = stk__gradient(m, step->node, STK__WEIGHT);

    stk__relu_mask(plan, step);
    stk__bias_gradient(plan, step, l->rows, l->out, stk__at(plan, step->backward_scratch));
    const void *dy = rounded(plan, step, true, DY, stk__at(plan, step->dy));
    if (dw) {
        const void *memory[] = {dy, rounded(plan, step, true, X, stk__at(plan, step->x[0])), dw};
        STK_TRY(stk__call_run(plan, m->has_gradients ? &l->weights_add : &l->weights, memory, err));
    }
    if (step->flow[0] == STK__FLOW_NONE)
        return STK_OK;
    const void *memory[] = {dy,
                            rounded(plan, step, true, W, stk__weight(m, step->node, STK__WEIGHT)),
                            stk__at(plan, step->dx[0])};
    return stk__call_run(plan, &l->data, memory, err);
}

const stk__ops stk__ops_linear_bf16 = {.plan = linear_plan,
                                       .forward = linear_forward,
                                       .backward = linear_backward,
                                       .release = linear_release};
#endif
