/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference: everything in double and plain C, the products as their definitions say. Pictures
 * are channels last, weights as PyTorch has them.
 */
#include "nn/ops.h"

/* ---- y = x W' + b ---- */

static stk_status linear_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    uint64_t in = (uint64_t)step->node->in, out = (uint64_t)step->node->out;
    uint64_t rows = stk__step_count(plan, step) / out;
    const double *x = stk__at(plan, step->x[0]);
    const double *w = stk__weight(plan->model, step->node, STK__WEIGHT);
    const double *b = stk__weight(plan->model, step->node, STK__BIAS);
    double *y = stk__at(plan, step->y);

    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t o = 0; o < out; o++) {
            double sum = b ? b[o] : 0;
            for (uint64_t i = 0; i < in; i++)
                sum += x[r * in + i] * w[o * in + i];
            y[r * out + o] = step->relu && sum < 0 ? 0 : sum;
        }
    return STK_OK;
}

static stk_status bias_plan(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    uint64_t out = (uint64_t)step->node->out, rows = stk__step_count(plan, step) / out;
    uint32_t end = stk__plan_time(plan, step, true);

    if (!step->backward)
        return STK_OK;
    return stk__plan_buffer(plan, stk__bias_room(plan, rows, out), 1, end, end,
                            &step->backward_scratch, err);
}

static stk_status linear_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const struct stk_model *m = plan->model;
    uint64_t in = (uint64_t)step->node->in, out = (uint64_t)step->node->out;
    uint64_t rows = stk__step_count(plan, step) / out;
    const double *x = stk__at(plan, step->x[0]), *dy = stk__at(plan, step->dy);
    const double *w = stk__weight(m, step->node, STK__WEIGHT);
    double *dw = stk__gradient(m, step->node, STK__WEIGHT), *dx = stk__at(plan, step->dx[0]);

    stk__relu_mask(plan, step);
    stk__bias_gradient(plan, step, rows, out, stk__at(plan, step->backward_scratch));
    for (uint64_t o = 0; dw && o < out; o++)
        for (uint64_t i = 0; i < in; i++) {
            double sum = m->has_gradients ? dw[o * in + i] : 0;
            for (uint64_t r = 0; r < rows; r++)
                sum += dy[r * out + o] * x[r * in + i];
            dw[o * in + i] = sum;
        }
    for (uint64_t r = 0; dx && r < rows; r++)
        for (uint64_t i = 0; i < in; i++) {
            double sum = step->flow[0] == STK__FLOW_ADD ? dx[r * in + i] : 0;
            for (uint64_t o = 0; o < out; o++)
                sum += dy[r * out + o] * w[o * in + i];
            dx[r * in + i] = sum;
        }
    return STK_OK;
}

const stk__ops stk__ops_linear_reference = {
    .plan = bias_plan, .forward = linear_forward, .backward = linear_backward};

/* ---- Convolution ---- */

typedef struct conv {
    const stk__node *node;
    int64_t height, width; /* of the input */
    int64_t in, out;       /* channels of one group */
    const double *w;
} conv;

static conv conv_of(const stk__plan *plan, const stk__plan_step *step)
{
    const stk__node *node = step->node, *from = &plan->model->graph.nodes[node->inputs[0]];

    return (conv){node,
                  from->shape[1],
                  from->shape[2],
                  node->in / node->groups,
                  node->out / node->groups,
                  stk__weight(plan->model, node, STK__WEIGHT)};
}

/* Place of the input that element (i, j) of the window at (oy, ox) sees; -1 beyond the border. */
static int64_t seen(const conv *c, int64_t oy, int64_t ox, int64_t i, int64_t j)
{
    const stk__node *n = c->node;
    int64_t y = oy * n->stride[0] - n->padding[0] + i * n->dilation[0];
    int64_t x = ox * n->stride[1] - n->padding[1] + j * n->dilation[1];

    return y < 0 || y >= c->height || x < 0 || x >= c->width ? -1 : y * c->width + x;
}

/* What is done with each product of a picture: y += x w, dx += dy w, or dw += dy x. */
typedef enum pass { PASS_Y, PASS_DX, PASS_DW } pass;

static void convolve(const conv *c, pass which, double *x, double *y, double *dw)
{
    const stk__node *n = c->node;
    int64_t taps = n->kernel[0] * n->kernel[1], places = n->shape[1] * n->shape[2];
    const int64_t in = c->in;
    const double *weights = c->w;

    for (int64_t p = 0; p < places; p++)
        for (int64_t t = 0; t < taps; t++) {
            int64_t at =
                seen(c, p / n->shape[2], p % n->shape[2], t / n->kernel[1], t % n->kernel[1]);
            if (at < 0)
                continue;
            for (int64_t o = 0; o < n->out; o++) {
                double *to = &y[p * n->out + o], *from = &x[at * n->in + o / c->out * in];
                const double dy = *to;
                double sum = dy;
                int64_t w = o * in * taps + t;
                for (int64_t i = 0; i < in; i++, w += taps) {
                    if (which == PASS_Y)
                        sum += from[i] * weights[w];
                    else if (which == PASS_DX)
                        from[i] += dy * weights[w];
                    else
                        dw[w] += dy * from[i];
                }
                if (which == PASS_Y)
                    *to = sum;
            }
        }
}

static stk_status conv_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const conv c = conv_of(plan, step);
    const double *b = stk__weight(plan->model, step->node, STK__BIAS);
    uint64_t in = (uint64_t)(step->node->in * c.height * c.width);
    uint64_t out = stk__node_count(step->node), count = stk__step_count(plan, step);
    double *x = stk__at(plan, step->x[0]), *y = stk__at(plan, step->y);

    for (uint64_t i = 0; i < count; i++)
        y[i] = b ? b[i % (uint64_t)step->node->out] : 0;
    for (uint64_t r = 0; r < plan->rows; r++)
        convolve(&c, PASS_Y, x + r * in, y + r * out, NULL);
    if (step->relu)
        plan->model->kernels->relu(y, y, count);
    return STK_OK;
}

static stk_status conv_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const struct stk_model *m = plan->model;
    const conv c = conv_of(plan, step);
    uint64_t in = (uint64_t)(step->node->in * c.height * c.width);
    uint64_t out = stk__node_count(step->node), channels = (uint64_t)step->node->out;
    double *x = stk__at(plan, step->x[0]), *dy = stk__at(plan, step->dy);
    double *dx = stk__at(plan, step->dx[0]), *dw = stk__gradient(m, step->node, STK__WEIGHT);

    stk__relu_mask(plan, step);
    stk__bias_gradient(plan, step, plan->rows * out / channels, channels,
                       stk__at(plan, step->backward_scratch));
    if (dw && !m->has_gradients)
        memset(dw, 0, m->graph.params[step->node->first_param].count * sizeof *dw);
    if (dx && step->flow[0] == STK__FLOW_WRITE)
        memset(dx, 0, plan->rows * in * sizeof *dx);
    for (uint64_t r = 0; r < plan->rows; r++) {
        if (dw)
            convolve(&c, PASS_DW, x + r * in, dy + r * out, dw);
        if (dx)
            convolve(&c, PASS_DX, dx + r * in, dy + r * out, NULL);
    }
    return STK_OK;
}

const stk__ops stk__ops_conv_reference = {
    .plan = bias_plan, .forward = conv_forward, .backward = conv_backward};
