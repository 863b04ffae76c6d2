/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions by oneDNN. Values are channels last; the weights are brought into whatever order a
 * pass wants, before it, and their gradients back.
 */
#include "nn/dnnl.h"
#include "nn/ops.h"

#ifdef STK_WITH_ONEDNN

/* One of the three passes, with its weights (or their gradient) in an order of its own. */
typedef struct pass {
    stk__dnnl_call compute, order, order_add;
    uint32_t weights;      /* buffer; STK__NO_BUFFER: ours are as good */
    uint32_t low_x, low_y; /* buffers of operands rounded to bfloat16 */
} pass;

typedef struct conv {
    stk__md x, w, b, y, own; /* own: the weights as PyTorch has them */
    bool native;             /* operands in bfloat16; else floats, rounded where the model is */
    pass forward, data, weights;
    uint32_t bias; /* buffer of its gradient */
    uint32_t sum;  /* buffer of a gradient that is to be added */
} conv;

/*
 * oneDNN 2.6.3's bfloat16 kernels read channels in pairs. With an odd number of them, the one for
 * windows of one pixel gets the gradient of the input wrong in some sizes (30 and 90 pixels).
 */
static bool pairs_hold(const stk__node *n)
{
    return n->kernel[0] * n->kernel[1] > 1 ||
           (n->in / n->groups % 2 == 0 && n->out / n->groups % 2 == 0);
}

static stk_status describe(const stk__plan *plan, const stk__plan_step *step, conv *v,
                           stk_error *err)
{
    const stk__node *n = step->node, *from = &plan->model->graph.nodes[n->inputs[0]];
    bool grouped = n->groups > 1;
    dnnl_data_type_t type = v->native ? dnnl_bf16 : dnnl_f32;
    dnnl_dims_t x = {plan->rows, n->in, from->shape[1], from->shape[2]};
    dnnl_dims_t y = {plan->rows, n->out, n->shape[1], n->shape[2]};
    dnnl_dims_t w = {n->out, n->in, n->kernel[0], n->kernel[1]}, b = {n->out};
    dnnl_dims_t g = {n->groups, n->out / n->groups, n->in / n->groups, n->kernel[0], n->kernel[1]};
    int rank = grouped ? 5 : 4;
    dnnl_status_t status = stk__md_make(&v->x, 4, x, type, dnnl_nhwc);

    if (status == dnnl_success)
        status = stk__md_make(&v->y, 4, y, type, dnnl_nhwc);
    if (status == dnnl_success)
        status = stk__md_make(&v->b, 1, b, dnnl_f32, dnnl_x);
    if (status == dnnl_success)
        status = stk__md_make(&v->w, rank, grouped ? g : w, type, dnnl_format_tag_any);
    if (status == dnnl_success)
        status = stk__md_make(&v->own, rank, grouped ? g : w, dnnl_f32,
                              grouped ? dnnl_goihw : dnnl_oihw);
    return stk__dnnl_check(status, "a convolution's shapes", err);
}

/* The primitive of a pass. */
static stk_status describe_pass(const stk__plan *plan, const stk__plan_step *step, const conv *v,
                                pass *p, dnnl_prop_kind_t kind, const_dnnl_primitive_desc_t hint,
                                stk_error *err)
{
    const stk__node *n = step->node;
    bool back = kind == dnnl_backward_data || kind == dnnl_backward_weights;
    dnnl_primitive_attr_t attr = NULL;
    stk__md wide; /* what comes out of bfloat16 operands is float */
    stk__conv_desc d = {.pass = kind, .x = &v->x, .w = &v->w, .y = &v->y};

    d.b = n->bias && kind != dnnl_backward_data ? &v->b : NULL;
    for (int i = 0; i < 2; i++) {
        int64_t reach = n->dilation[i] * (n->kernel[i] - 1) + 1;
        int64_t size = plan->model->graph.nodes[n->inputs[0]].shape[1 + i];
        d.stride[i] = n->stride[i];
        d.dilation[i] = n->dilation[i] - 1;
        d.padding[i] = n->padding[i];
        /* What the last window does not reach is left out: that is less than no padding. */
        d.padding_end[i] = (n->shape[1 + i] - 1) * n->stride[i] + reach - size - n->padding[i];
    }
    if (v->native) {
        STK_TRY(stk__dnnl_check(stk__md_widen(&wide, back ? &v->x : &v->y), "a shape", err));
        if (kind == dnnl_backward_data)
            d.x = &wide;
        else if (!back)
            d.y = &wide;
    }
    stk_status status = stk__call_attr(!back && step->relu, false, &attr, err);
    if (status == STK_OK)
        status = stk__dnnl_check(
            stk__conv_pd(&p->compute.desc, plan->model->dnnl->engine, &d, attr, hint),
            "a convolution of this kind", err);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (v->native)
        stk__md_release(&wide);
    return status;
}

/* A buffer for a rounded operand, where there is rounding. */
static stk_status plan_low(stk__plan *plan, const conv *v, uint64_t count, uint32_t time,
                           uint32_t *out, stk_error *err)
{
    const struct stk_model *m = plan->model;

    *out = STK__NO_BUFFER;
    return m->bf16 ? stk__plan_buffer(plan, count, v->native ? 2 : 4, time, time, out, err)
                   : STK_OK;
}

static stk_status make_forward(stk__plan *plan, stk__plan_step *step, conv *v, stk_error *err)
{
    static const stk__call_argument arguments[] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                                   {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                                                   {DNNL_ARG_DST, dnnl_query_dst_md, 0},
                                                   {DNNL_ARG_BIAS, dnnl_query_weights_md, 1}};
    pass *p = &v->forward;
    uint32_t time = stk__plan_time(plan, step, false);
    dnnl_prop_kind_t kind = plan->training ? dnnl_forward_training : dnnl_forward_inference;

    STK_TRY(describe_pass(plan, step, v, p, kind, NULL, err));
    STK_TRY(stk__call_make(plan, &p->compute, time, arguments, step->node->bias ? 4 : 3, err));
    STK_TRY(plan_low(plan, v,
                     stk__node_count(&plan->model->graph.nodes[step->node->inputs[0]]) * plan->rows,
                     time, &p->low_x, err));
    return STK_OK;
}

/* The order in which a pass has its weights: a buffer, and the way there from ours. */
static stk_status make_order(stk__plan *plan, stk__plan_step *step, conv *v, pass *p, bool backward,
                             stk_error *err)
{
    uint32_t time = stk__plan_time(plan, step, backward);
    stk__md_view w = stk__pd_md(p->compute.desc, dnnl_query_weights_md, 0);
    stk__md_view own = stk__md_see(&v->own);

    p->weights = STK__NO_BUFFER;
    if (stk__md_equal(w, own) && !plan->model->bf16)
        return STK_OK;
    STK_TRY(stk__plan_buffer(plan, stk__md_size(w), 1, time, time, &p->weights, err));
    STK_TRY(stk__call_make_order(plan, &p->order, own, w, false, time, err));
    if (!plan->model->bf16 || v->native)
        return STK_OK;
    /* Rounded before they are brought in order. */
    return stk__plan_buffer(plan, stk__md_size(own), 1, time, time, &p->low_y, err);
}

static stk_status make_data(stk__plan *plan, stk__plan_step *step, conv *v, stk_error *err)
{
    static const stk__call_argument arguments[] = {{DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
                                                   {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                                                   {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0}};
    uint32_t time = stk__plan_time(plan, step, true);
    pass *p = &v->data;

    if (step->flow[0] == STK__FLOW_NONE)
        return STK_OK;
    STK_TRY(describe_pass(plan, step, v, p, dnnl_backward_data, v->forward.compute.desc, err));
    STK_TRY(stk__call_make(plan, &p->compute, time, arguments, 3, err));
    STK_TRY(make_order(plan, step, v, p, true, err));
    STK_TRY(plan_low(plan, v, stk__step_count(plan, step), time, &p->low_x, err));
    if (step->flow[0] != STK__FLOW_ADD)
        return STK_OK;
    return stk__plan_buffer(
        plan, stk__node_count(&plan->model->graph.nodes[step->node->inputs[0]]) * plan->rows,
        sizeof(float), time, time, &v->sum, err);
}

static stk_status make_weights(stk__plan *plan, stk__plan_step *step, conv *v, stk_error *err)
{
    static const stk__call_argument arguments[] = {
        {DNNL_ARG_SRC, dnnl_query_src_md, 0},
        {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
        {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0},
        {DNNL_ARG_DIFF_BIAS, dnnl_query_diff_weights_md, 1}};
    const stk__node *n = step->node;
    uint32_t time = stk__plan_time(plan, step, true);
    uint64_t in = stk__node_count(&plan->model->graph.nodes[n->inputs[0]]) * plan->rows;
    pass *p = &v->weights;

    if (!stk__learns(plan->model, n, STK__WEIGHT)) {
        uint64_t rows = stk__step_count(plan, step) / (uint64_t)n->out;
        return stk__plan_buffer(plan, stk__bias_room(plan, rows, (uint64_t)n->out), 1, time, time,
                                &v->bias, err);
    }
    STK_TRY(describe_pass(plan, step, v, p, dnnl_backward_weights, v->forward.compute.desc, err));
    STK_TRY(stk__call_make(plan, &p->compute, time, arguments, n->bias ? 4 : 3, err));
    stk__md_view w = stk__pd_md(p->compute.desc, dnnl_query_diff_weights_md, 0);
    stk__md_view own = stk__md_see(&v->own);
    STK_TRY(stk__plan_buffer(plan, stk__md_size(w), 1, time, time, &p->weights, err));
    STK_TRY(stk__call_make_order(plan, &p->order, w, own, false, time, err));
    STK_TRY(stk__call_make_order(plan, &p->order_add, w, own, true, time, err));
    STK_TRY(stk__plan_buffer(plan, (uint64_t)n->out, sizeof(float), time, time, &v->bias, err));
    STK_TRY(plan_low(plan, v, in, time, &p->low_x, err));
    return plan_low(plan, v, stk__step_count(plan, step), time, &p->low_y, err);
}

static stk_status conv_plan(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    conv *v = stk__calloc(plan->model->graph.context, 1, sizeof *v);

    if (!v)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for a convolution");
    step->own = v;
    v->native = plan->model->bf16_native && pairs_hold(step->node);
    v->forward.low_y = v->data.low_y = v->bias = v->sum = STK__NO_BUFFER;
    STK_TRY(describe(plan, step, v, err));
    STK_TRY(make_forward(plan, step, v, err));
    STK_TRY(make_order(plan, step, v, &v->forward, false, err));
    if (!step->backward)
        return STK_OK;
    STK_TRY(make_data(plan, step, v, err));
    return make_weights(plan, step, v, err);
}

static void conv_release(stk__plan *plan, stk__plan_step *step)
{
    conv *v = step->own;
    pass *passes[] = {&v->forward, &v->data, &v->weights};

    for (size_t i = 0; i < STK_COUNT(passes); i++) {
        stk__call_release(&passes[i]->compute);
        stk__call_release(&passes[i]->order);
        stk__call_release(&passes[i]->order_add);
    }
    stk__md_release(&v->x);
    stk__md_release(&v->w);
    stk__md_release(&v->b);
    stk__md_release(&v->y);
    stk__md_release(&v->own);
    stk__free(plan->model->graph.context, v);
    step->own = NULL;
}

/* The same numbers, or rounded to bfloat16 in a buffer. */
static const void *operand(const stk__plan *plan, const conv *v, const void *x, uint64_t n,
                           uint32_t buffer)
{
    const struct stk_model *m = plan->model;

    if (buffer == STK__NO_BUFFER)
        return x;
    if (v->native)
        stk__to_bf16(m, stk__at(plan, buffer), x, n);
    else
        stk__round_bf16(m, stk__at(plan, buffer), x, n);
    return stk__at(plan, buffer);
}

/* The weights in the order of a pass. */
static stk_status ordered(const stk__plan *plan, const stk__plan_step *step, pass *p,
                          const void **out, stk_error *err)
{
    const struct stk_model *m = plan->model;

    *out = stk__weight(m, step->node, STK__WEIGHT);
    if (p->weights == STK__NO_BUFFER)
        return STK_OK;
    *out = operand(plan, step->own, *out, m->graph.params[step->node->first_param].count, p->low_y);
    const void *memory[] = {*out, stk__at(plan, p->weights)};
    *out = memory[1];
    return stk__call_run(plan, &p->order, memory, err);
}

static uint64_t input_count(const stk__plan *plan, const stk__plan_step *step)
{
    return stk__node_count(&plan->model->graph.nodes[step->node->inputs[0]]) * plan->rows;
}

static stk_status conv_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    conv *v = step->own;
    pass *p = &v->forward;
    const void *w;

    STK_TRY(ordered(plan, step, p, &w, err));
    const void *memory[] = {
        operand(plan, v, stk__at(plan, step->x[0]), input_count(plan, step), p->low_x), w,
        stk__at(plan, step->y), stk__weight(plan->model, step->node, STK__BIAS)};
    return stk__call_run(plan, &p->compute, memory, err);
}

static stk_status backward_weights(stk__plan *plan, stk__plan_step *step, conv *v, stk_error *err)
{
    const struct stk_model *m = plan->model;
    pass *p = &v->weights;
    float *db = stk__gradient(m, step->node, STK__BIAS), *sums = stk__at(plan, v->bias);
    const void *memory[] = {
        operand(plan, v, stk__at(plan, step->x[0]), input_count(plan, step), p->low_x),
        operand(plan, v, stk__at(plan, step->dy), stk__step_count(plan, step), p->low_y),
        stk__at(plan, p->weights), sums};

    STK_TRY(stk__call_run(plan, &p->compute, memory, err));
    const void *order[] = {memory[2], stk__gradient(m, step->node, STK__WEIGHT)};
    STK_TRY(stk__call_run(plan, m->has_gradients ? &p->order_add : &p->order, order, err));
    if (db && m->has_gradients)
        m->kernels->add(db, sums, (uint64_t)step->node->out);
    else if (db)
        memcpy(db, sums, (size_t)step->node->out * sizeof *db);
    return STK_OK;
}

static stk_status conv_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    conv *v = step->own;
    pass *p = &v->data;
    bool adds = step->flow[0] == STK__FLOW_ADD;
    uint64_t count = stk__step_count(plan, step), channels = (uint64_t)step->node->out;
    const void *w;

    stk__relu_mask(plan, step);
    if (v->weights.compute.primitive)
        STK_TRY(backward_weights(plan, step, v, err));
    else
        stk__bias_gradient(plan, step, count / channels, channels, stk__at(plan, v->bias));
    if (step->flow[0] == STK__FLOW_NONE)
        return STK_OK;
    STK_TRY(ordered(plan, step, p, &w, err));
    void *dx = stk__at(plan, adds ? v->sum : step->dx[0]);
    const void *memory[] = {operand(plan, v, stk__at(plan, step->dy), count, p->low_x), w, dx};
    STK_TRY(stk__call_run(plan, &p->compute, memory, err));
    if (adds)
        stk__add(plan->model, stk__at(plan, step->dx[0]), dx, input_count(plan, step));
    return STK_OK;
}

const stk__ops stk__ops_conv_cpu = {
    .plan = conv_plan, .forward = conv_forward, .backward = conv_backward, .release = conv_release};
#endif
