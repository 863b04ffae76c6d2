/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of 3x3, by Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, "Fast
 * Algorithms for Convolutional Neural Networks", arXiv:1509.09308): windows of 4x4 and weights are
 * transformed, multiplied point by point, and their sums over the channels transformed back to
 * tiles of 2x2. Values are channels last.
 *
 * Sums run over the channels of a tile, or, of the weights' gradient, over all tiles in their
 * order: they are the same for every number of threads and, of a sample, in every batch.
 */
#include "nn/winograd.h"

#include "nn/ops.h"

#if defined(STK_WITH_AVX2) && defined(STK_WITH_ONEDNN)

enum {
    POINTS = STK__WINOGRAD_POINTS,
    PANEL = STK__WINOGRAD_PANEL,
    PAD = STK__WINOGRAD_PAD,
    CHUNK = 96,     /* tiles whose transforms stay in a core's cache */
    ALL_CHUNK = 256 /* tiles of one sum into the weights' gradient */
};

bool stk__winograd_takes(const stk__plan *plan, const stk__plan_step *step)
{
    const stk__node *n = step->node;

    if (n->kind != STK__CONV2D || plan->model->bf16 || n->groups != 1 ||
        plan->model->backend->itemsize != sizeof(float) ||
        !stk__cpu_has_avx2(plan->model->graph.context) || !__builtin_cpu_supports("fma"))
        return false;
    for (int i = 0; i < 2; i++)
        if (n->kernel[i] != 3 || n->stride[i] != 1 || n->dilation[i] != 1 || n->padding[i] != 1)
            return false;
    /* A row or column of one pixel has less to gain than the transforms cost. */
    return n->in % PANEL == 0 && n->out % PANEL == 0 && n->shape[1] > 1 && n->shape[2] > 1;
}

/* One pass over all tiles. */
typedef struct pass {
    stk__winograd pictures;
    stk__winograd_filter filter;
    stk__winograd_end end;
    const float *x;
    float *y, *u, *room; /* room: of each thread, see room_of() */
} pass;

static stk__winograd pictures_of(const stk__plan *plan, const stk__plan_step *step)
{
    return (stk__winograd){plan->rows, (uint64_t)step->node->shape[1],
                           (uint64_t)step->node->shape[2]};
}

static uint64_t tiles_of(const stk__winograd *s)
{
    return s->rows * ((s->height + 1) / 2) * ((s->width + 1) / 2);
}

static uint64_t filter_room(const stk__node *n)
{
    return stk__winograd_step((uint64_t)n->in, (uint64_t)n->out) * POINTS;
}

static stk__winograd_tiles tiles_in(float *room, uint64_t channels, uint64_t chunk)
{
    return (stk__winograd_tiles){room, channels, chunk * channels + PAD, chunk};
}

/* Floats for the transforms of both sides of a chunk. */
static uint64_t room_of(const stk__node *n, uint64_t chunk)
{
    return POINTS * (chunk * (uint64_t)(n->in + n->out) + 2 * PAD);
}

static uint64_t pass_room(const stk__plan *plan, const stk__plan_step *step)
{
    const stk__winograd s = pictures_of(plan, step);

    return filter_room(step->node) +
           stk__parallel_parts(plan->model->threads, tiles_of(&s), CHUNK / 4) *
               room_of(step->node, CHUNK);
}

static uint64_t gradient_room(const stk__node *n)
{
    return filter_room(n) + room_of(n, ALL_CHUNK);
}

static stk_status winograd_plan(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const stk__node *n = step->node;
    const uint32_t start = stk__plan_time(plan, step, false),
                   end = stk__plan_time(plan, step, true);
    uint64_t bytes = pass_room(plan, step) * sizeof(float);

    STK_TRY(stk__plan_buffer(plan, bytes, 1, start, start, &step->scratch, err));
    if (!step->backward)
        return STK_OK;
    /* One after the other they need it. */
    bytes = STK_MAX(bytes, gradient_room(n) * sizeof(float));
    bytes = STK_MAX(bytes, stk__bias_room(plan, stk__step_count(plan, step) / (uint64_t)n->out,
                                          (uint64_t)n->out));
    return stk__plan_buffer(plan, bytes, 1, end, end, &step->backward_scratch, err);
}

/* ---- Results, and the gradient of the input, which is a pass with the weights turned ---- */

static void filter_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const pass *p = argument;

    stk__winograd_filter_in(p->u, &p->filter, from, to);
}

static void pass_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const pass *p = argument;
    const stk__winograd_filter *f = &p->filter;
    float *room = p->room + part * POINTS * (CHUNK * (f->in + f->out) + 2 * PAD);
    const stk__winograd_tiles v = tiles_in(room, f->in, CHUNK);
    const stk__winograd_tiles m = tiles_in(room + POINTS * v.stride, f->out, CHUNK);

    for (uint64_t next; from < to; from = next) {
        next = STK_MIN(from + CHUNK, to);
        stk__winograd_windows(&v, p->x, &p->pictures, from, next);
        stk__winograd_products(&m, &v, p->u, next - from);
        stk__winograd_results(p->y, &m, &p->pictures, from, next, &p->end);
    }
}

static void run(const stk__plan *plan, pass *p)
{
    const uint32_t threads = plan->model->threads;

    p->room = p->u + stk__winograd_step(p->filter.in, p->filter.out) * POINTS;
    stk__parallel(threads, p->filter.out / PANEL, 1, filter_body, p);
    stk__parallel(threads, tiles_of(&p->pictures), CHUNK / 4, pass_body, p);
}

static stk_status winograd_forward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const struct stk_model *m = plan->model;
    const uint64_t in = (uint64_t)step->node->in, out = (uint64_t)step->node->out;
    pass p = {.pictures = pictures_of(plan, step),
              .filter = {stk__weight(m, step->node, STK__WEIGHT), in, out, 9, 9 * in, false},
              .end = {.bias = stk__weight(m, step->node, STK__BIAS), .relu = step->relu},
              .x = stk__at(plan, step->x[0]),
              .y = stk__at(plan, step->y),
              .u = stk__at(plan, step->scratch)};

    run(plan, &p);
    return STK_OK;
}

static void backward_data(stk__plan *plan, stk__plan_step *step)
{
    const uint64_t in = (uint64_t)step->node->in, out = (uint64_t)step->node->out;
    pass p = {
        .pictures = pictures_of(plan, step),
        .filter = {stk__weight(plan->model, step->node, STK__WEIGHT), out, in, 9 * in, 9, true},
        .end = {.add = step->flow[0] == STK__FLOW_ADD},
        .x = stk__at(plan, step->dy),
        .y = stk__at(plan, step->dx[0]),
        .u = stk__at(plan, step->backward_scratch)};

    run(plan, &p);
}

/* ---- The gradient of the weights ---- */

typedef struct gradient {
    const stk__plan *plan;
    stk__winograd pictures;
    const float *x, *dy;
    float *dw, *du;
    stk__winograd_tiles v, w;
    uint64_t first, end; /* tiles of the chunk */
} gradient;

static void tiles_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const gradient *g = argument;
    stk__winograd_tiles v = g->v;

    v.values += from * v.channels;
    stk__winograd_windows(&v, g->x, &g->pictures, g->first + from, g->first + to);
    stk__winograd_gradients(&g->w, g->dy, &g->pictures, g->first + from, g->first + to, g->first);
}

static void sums_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const gradient *g = argument;

    stk__winograd_sums(g->du, &g->v, &g->w, g->end - g->first, g->first > 0, from, to);
}

static void weights_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const gradient *g = argument;

    stk__winograd_filter_out(g->dw, g->du, g->v.channels, g->w.channels,
                             g->plan->model->has_gradients, from, to);
}

static void backward_weights(stk__plan *plan, stk__plan_step *step)
{
    const struct stk_model *m = plan->model;
    const uint64_t in = (uint64_t)step->node->in, out = (uint64_t)step->node->out;
    float *du = stk__at(plan, step->backward_scratch), *room = du + filter_room(step->node);
    gradient g = {.plan = plan,
                  .pictures = pictures_of(plan, step),
                  .x = stk__at(plan, step->x[0]),
                  .dy = stk__at(plan, step->dy),
                  .dw = stk__gradient(m, step->node, STK__WEIGHT),
                  .du = du,
                  .v = tiles_in(room, in, ALL_CHUNK)};
    const uint64_t tiles = tiles_of(&g.pictures);

    g.w = tiles_in(room + POINTS * g.v.stride, out, ALL_CHUNK);
    for (; g.first < tiles; g.first = g.end) {
        g.end = STK_MIN(g.first + ALL_CHUNK, tiles);
        stk__parallel(m->threads, g.end - g.first, CHUNK / 4, tiles_body, &g);
        stk__parallel(m->threads, POINTS * out / PANEL, 1, sums_body, &g);
    }
    stk__parallel(m->threads, out / PANEL, 1, weights_body, &g);
}

static stk_status winograd_backward(stk__plan *plan, stk__plan_step *step, stk_error *err)
{
    const uint64_t out = (uint64_t)step->node->out;

    stk__relu_mask(plan, step);
    stk__bias_gradient(plan, step, stk__step_count(plan, step) / out, out,
                       stk__at(plan, step->backward_scratch));
    if (stk__learns(plan->model, step->node, STK__WEIGHT))
        backward_weights(plan, step);
    if (step->flow[0] != STK__FLOW_NONE)
        backward_data(plan, step);
    return STK_OK;
}

static uint64_t winograd_flops(const stk__plan *plan, const stk__plan_step *step)
{
    const stk__winograd s = pictures_of(plan, step);

    return 2 * tiles_of(&s) * (uint64_t)step->node->in * (uint64_t)step->node->out * POINTS;
}

const stk__ops stk__ops_conv_winograd = {.plan = winograd_plan,
                                         .forward = winograd_forward,
                                         .backward = winograd_backward,
                                         .flops = winograd_flops};

#endif
