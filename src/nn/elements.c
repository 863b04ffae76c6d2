/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that work on each element, and the two that change the layout. */
#include "base/random.h"
#include "nn/ops.h"

/* mask[i] = 0 with probability p, else 1: Philox of (seed, step, layer, element). */
static void dropout_mask(uint8_t *mask, uint64_t from, uint64_t to, double p, uint64_t seed,
                         uint64_t step, uint32_t layer);

/* One parallel loop over elements. */
typedef struct loop {
    const stk__plan *plan;
    const stk__plan_step *step;
    char *y;
    const char *a, *b;
    double factor;
    bool add;
} loop;

static void run(const loop *l, uint64_t n, stk__body *body)
{
    stk__parallel(l->plan->model->threads, n, STK__GRAIN, body, (void *)(uintptr_t)l);
}

/* The pieces of a loop from element `from` on. */
typedef struct piece {
    void *y;
    const void *a, *b;
    const stk__nn_kernels *k;
} piece;

static piece piece_of(const loop *l, uint64_t from)
{
    uint64_t at = from * stk__plan_itemsize(l->plan);

    return (piece){l->y + at, l->a ? l->a + at : NULL, l->b ? l->b + at : NULL,
                   l->plan->model->kernels};
}

/* ---- Gradients that are only handed on ---- */

static void add_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const piece p = piece_of(argument, from);

    p.k->add(p.y, p.a, to - from);
}

static void copy_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const piece p = piece_of(argument, from);

    memcpy(p.y, p.a, (to - from) * p.k->itemsize);
}

static void scale_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const loop *l = argument;
    const piece p = piece_of(l, from);

    p.k->scale(p.y, to - from, l->factor);
}

static void mask_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const piece p = piece_of(argument, from);

    p.k->relu_backward(p.y, p.y, p.a, to - from, false);
}

void stk__pass_on(stk__plan *plan, stk__plan_step *step, uint32_t k)
{
    const loop l = {
        .plan = plan, .step = step, .y = stk__at(plan, step->dx[k]), .a = stk__at(plan, step->dy)};

    if (step->flow[k] == STK__FLOW_WRITE)
        run(&l, stk__step_count(plan, step), copy_body);
    else if (step->flow[k] == STK__FLOW_ADD)
        run(&l, stk__step_count(plan, step), add_body);
}

void stk__add(const struct stk_model *model, void *y, const void *x, uint64_t n)
{
    const loop l = {.plan = model->plans[0], .y = y, .a = x};

    run(&l, n, add_body);
}

void stk__scale(const struct stk_model *model, void *x, uint64_t n, double scale)
{
    const loop l = {.plan = model->plans[0], .y = x, .factor = scale};

    if (scale != 1)
        run(&l, n, scale_body);
}

void stk__relu_mask(stk__plan *plan, stk__plan_step *step)
{
    const loop l = {
        .plan = plan, .step = step, .y = stk__at(plan, step->dy), .a = stk__at(plan, step->y)};

    if (step->relu)
        run(&l, stk__step_count(plan, step), mask_body);
}

/* ---- Biases and their gradients ---- */

typedef struct bias_loop {
    const stk__plan *plan;
    const stk__plan_step *step;
    uint64_t cols;
} bias_loop;

typedef struct sums {
    const stk__plan *plan;
    const char *dy;
    double *room;
    uint64_t cols;
} sums;

static void sums_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const sums *s = argument;
    double *mine = s->room + part * s->cols;

    memset(mine, 0, s->cols * sizeof *mine);
    s->plan->model->kernels->column_sums(mine, s->dy + from * s->cols * stk__plan_itemsize(s->plan),
                                         to - from, s->cols);
}

static uint64_t row_grain(uint64_t cols)
{
    return STK_MAX(STK__GRAIN / STK_MAX(cols, 1u), 1u);
}

static void bias_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const bias_loop *l = argument;
    char *y = stk__at(l->plan, l->step->y);

    l->plan->model->kernels->bias(y + from * l->cols * stk__plan_itemsize(l->plan),
                                  stk__weight(l->plan->model, l->step->node, STK__BIAS), to - from,
                                  l->cols, l->step->relu);
}

void stk__add_bias(const stk__plan *plan, const stk__plan_step *step, uint64_t rows, uint64_t cols)
{
    bias_loop l = {plan, step, cols};

    if (step->node->bias || step->relu)
        stk__parallel(plan->model->threads, rows, row_grain(cols), bias_body, &l);
}

uint64_t stk__bias_room(const stk__plan *plan, uint64_t rows, uint64_t cols)
{
    return cols * sizeof(double) * stk__parallel_parts(plan->model->threads, rows, row_grain(cols));
}

void stk__gradient_put(const struct stk_model *model, void *gradient, const double *values,
                       uint64_t n)
{
    float *f = gradient;
    double *d = gradient;

    if (!gradient)
        return;
    for (uint64_t i = 0; i < n; i++) {
        if (model->backend->itemsize == sizeof(double))
            d[i] = model->has_gradients ? d[i] + values[i] : values[i];
        else
            f[i] = model->has_gradients ? f[i] + (float)values[i] : (float)values[i];
    }
}

void stk__bias_gradient(stk__plan *plan, stk__plan_step *step, uint64_t rows, uint64_t cols,
                        void *room)
{
    const sums s = {plan, stk__at(plan, step->dy), room, cols};
    void *gradient = stk__gradient(plan->model, step->node, STK__BIAS);

    if (!gradient)
        return;
    uint32_t parts = stk__parallel(plan->model->threads, rows, row_grain(cols), sums_body,
                                   (void *)(uintptr_t)&s);
    for (uint32_t i = 1; i < parts; i++)
        for (uint64_t c = 0; c < cols; c++)
            s.room[c] += s.room[i * cols + c];
    stk__gradient_put(plan->model, gradient, s.room, cols);
}

/* ---- Layouts: pictures outside are [C, H, W], inside [H, W, C] ---- */

/* Which way, and whether the type changes. */
typedef struct turn {
    const stk__plan *plan;
    const char *from;
    char *to;
    uint64_t c, s;
    size_t itemsize; /* of what comes */
    bool first, add;
} turn;

static void turn_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const turn *t = argument;
    const stk__nn_kernels *k = t->plan->model->kernels;
    uint64_t n = t->c * t->s, row = n * k->itemsize;

    for (uint64_t i = from; i < to; i++) {
        if (t->itemsize != k->itemsize) {
            const float *x = (const float *)(const void *)(t->from + i * n * sizeof *x);
            double *y = (double *)(void *)(t->to + i * row);
            for (uint64_t e = 0; e < n; e++)
                y[e % t->s * t->c + e / t->s] = (double)x[e];
        } else if (t->first) {
            k->channels_first(t->to + i * row, t->from + i * row, t->c, t->s);
        } else {
            k->channels_last(t->to + i * row, t->from + i * row, t->c, t->s);
        }
    }
}

static void turn_rows(const turn *t)
{
    uint64_t grain = STK_MAX(STK__GRAIN / (t->c * t->s), 1u);

    stk__parallel(t->plan->model->threads, t->plan->rows, grain, turn_body, (void *)(uintptr_t)t);
}

static uint64_t sides(const stk__node *node)
{
    return node->rank == 3 ? (uint64_t)(node->shape[1] * node->shape[2]) : 1;
}

static stk_status input_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const stk_model_batch *batch = &plan->model->batch;
    uint64_t s = plan->model->options.input_layout == 1 ? 1 : sides(step->node);
    const turn t = {.plan = plan,
                    .from = batch->input,
                    .to = stk__at(plan, step->y),
                    .c = stk__node_count(step->node) / s,
                    .s = s,
                    .itemsize = stk_dtype_size(batch->dtype)};

    turn_rows(&t);
    return STK_OK;
}

const stk__ops stk__ops_input = {.forward = input_forward};

/* Of a node that gives pictures: its input has the sides. */
static turn turn_of(stk__plan *plan, stk__plan_step *step)
{
    const stk__node *from = &plan->model->graph.nodes[step->node->inputs[0]];

    return (turn){.plan = plan,
                  .c = (uint64_t)from->shape[0],
                  .s = sides(from),
                  .itemsize = stk__plan_itemsize(plan)};
}

static stk_status output_plan(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    uint32_t time = stk__plan_time(plan, step, true);

    if (!step->backward || step->flow[0] != STK__FLOW_ADD)
        return STK_OK;
    return stk__plan_buffer(plan, stk__step_count(plan, step), stk__plan_itemsize(plan), time, time,
                            &step->backward_scratch, err);
}

static stk_status output_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    turn t = turn_of(plan, step);

    t.from = stk__at(plan, step->x[0]);
    t.to = stk__at(plan, step->y);
    t.first = true;
    turn_rows(&t);
    return STK_OK;
}

static stk_status output_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    turn t = turn_of(plan, step);
    char *dx = stk__at(plan, step->dx[0]);

    t.from = stk__at(plan, step->dy);
    t.to = step->flow[0] == STK__FLOW_ADD ? stk__at(plan, step->backward_scratch) : dx;
    turn_rows(&t);
    if (step->flow[0] == STK__FLOW_ADD)
        stk__add(plan->model, dx, t.to, stk__step_count(plan, step));
    return STK_OK;
}

const stk__ops stk__ops_output = {
    .plan = output_plan, .forward = output_forward, .backward = output_backward};

/* ---- Functions of an element ---- */

static stk_status forward(stk__plan *plan, stk__plan_step *step, stk__body *body)
{
    const loop l = {.plan = plan,
                    .step = step,
                    .y = stk__at(plan, step->y),
                    .a = stk__at(plan, step->x[0]),
                    .b = stk__at(plan, step->x[1])};

    run(&l, stk__step_count(plan, step), body);
    return STK_OK;
}

static stk_status backward(stk__plan *plan, stk__plan_step *step, uint32_t value, stk__body *body)
{
    const loop l = {.plan = plan,
                    .step = step,
                    .y = stk__at(plan, step->dx[0]),
                    .a = stk__at(plan, step->dy),
                    .b = stk__at(plan, value),
                    .add = step->flow[0] == STK__FLOW_ADD};

    if (step->flow[0] != STK__FLOW_NONE)
        run(&l, stk__step_count(plan, step), body);
    return STK_OK;
}

#define BODY(function, call)                                                                       \
    static void function(void *argument, uint64_t from, uint64_t to, uint32_t part)                \
    {                                                                                              \
        const loop *l = argument;                                                                  \
        const piece p = piece_of(l, from);                                                         \
        uint64_t n = to - from;                                                                    \
        call;                                                                                      \
    }
#define FORWARD(name, call)                                                                        \
    BODY(name##_body, call)                                                                        \
    static stk_status name##_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)        \
    {                                                                                              \
        return forward(plan, step, name##_body);                                                   \
    }
#define BACKWARD(name, value, call)                                                                \
    BODY(name##_back, call)                                                                        \
    static stk_status name##_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)       \
    {                                                                                              \
        return backward(plan, step, step->value, name##_back);                                     \
    }

FORWARD(relu, p.k->relu(p.y, p.a, n))
BACKWARD(relu, y, p.k->relu_backward(p.y, p.a, p.b, n, l->add))
FORWARD(gelu, p.k->gelu(p.y, p.a, n, l->step->node->tanh))
BACKWARD(gelu, x[0], p.k->gelu_backward(p.y, p.a, p.b, n, l->step->node->tanh, l->add))
FORWARD(silu, p.k->silu(p.y, p.a, n))
BACKWARD(silu, x[0], p.k->silu_backward(p.y, p.a, p.b, n, l->add))
FORWARD(sum, p.k->sum(p.y, p.a, p.b, n, l->step->relu))

const stk__ops stk__ops_relu = {.forward = relu_forward, .backward = relu_backward};
const stk__ops stk__ops_gelu = {.forward = gelu_forward, .backward = gelu_backward};
const stk__ops stk__ops_silu = {.forward = silu_forward, .backward = silu_backward};

/* The owner of the memory last: what it adds must not be seen by the other. */
static stk_status add_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    uint32_t owner = step->node->inputs[0] < step->node->inputs[1] ? 0 : 1;

    stk__relu_mask(plan, step);
    stk__pass_on(plan, step, 1 - owner);
    stk__pass_on(plan, step, owner);
    return STK_OK;
}

const stk__ops stk__ops_add = {.forward = sum_forward, .backward = add_backward};

/* ---- Dropout ---- */

static stk_status dropout_plan(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    return stk__plan_buffer(plan, stk__step_count(plan, step), 1, stk__plan_time(plan, step, false),
                            stk__plan_time(plan, step, step->backward), &step->work, err);
}

static void dropout_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const loop *l = argument;
    const piece p = piece_of(l, from);
    const struct stk_model *m = l->plan->model;
    const stk__node *node = l->step->node;
    uint8_t *mask = stk__at(l->plan, l->step->work);

    dropout_mask(mask, from, to, node->p, m->options.seed, m->batch.step,
                 (uint32_t)(node - m->graph.nodes));
    p.k->mask(p.y, p.a, mask + from, to - from, 1 / (1 - node->p), false);
}

static void dropout_back(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const loop *l = argument;
    const piece p = piece_of(l, from);
    const uint8_t *mask = stk__at(l->plan, l->step->work);

    p.k->mask(p.y, p.a, mask + from, to - from, 1 / (1 - l->step->node->p), l->add);
}

static stk_status dropout_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    return forward(plan, step, dropout_body);
}

static stk_status dropout_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    return backward(plan, step, STK__NO_BUFFER, dropout_back);
}

const stk__ops stk__ops_dropout = {
    .plan = dropout_plan, .forward = dropout_forward, .backward = dropout_backward};

static void dropout_mask(uint8_t *mask, uint64_t from, uint64_t to, double p, uint64_t seed,
                         uint64_t step, uint32_t layer)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32) ^ STK__NN_DROPOUT};
    uint32_t threshold = (uint32_t)(p * 0x1p24), words[4];

    for (uint64_t i = from; i < to;) {
        uint64_t block = i / 4;
        /* 48 bits of block, 16 of layer, 64 of step. */
        const uint32_t counter[4] = {(uint32_t)block,
                                     (uint32_t)(block >> 32 & 0xFFFF) | layer << 16, (uint32_t)step,
                                     (uint32_t)(step >> 32)};
        stk__philox(counter, key, words);
        for (; i < to && i / 4 == block; i++)
            mask[i] = words[i % 4] >> 8 >= threshold;
    }
}
