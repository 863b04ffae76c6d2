/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initial weights, of PyTorch's distributions. Linear and Conv2d: uniform within 1 / sqrt(fan_in),
 * which is kaiming_uniform(a = sqrt 5), bias alike. Convolutions of torchvision's resnets: normal
 * of deviation sqrt(2 / fan_out). Norms: 1 and 0. Each tensor has a stream of its own.
 */
#include <math.h>

#include "base/random.h"
#include "nn/ops.h"
#include "nn/outside.h"

/* Uniform in (0, 1), with 32 bits: of elements 4 * `block` and the three after it. */
static void uniform(const struct stk_model *m, uint32_t param, uint64_t block, double values[4])
{
    const uint32_t key[2] = {(uint32_t)m->options.seed,
                             (uint32_t)(m->options.seed >> 32) ^ STK__NN_INIT};
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), param, 0};
    uint32_t words[4];

    stk__philox(counter, key, words);
    for (int k = 0; k < 4; k++)
        values[k] = ((double)words[k] + 0.5) * 0x1p-32;
}

static void put(const struct stk_model *m, const stk__param *p, uint64_t i, double value)
{
    void *to = (char *)m->weights + p->offset;

    if (m->backend->itemsize == sizeof(double))
        ((double *)to)[i] = value;
    else
        ((float *)to)[i] = (float)value;
}

static void init_constant(const struct stk_model *m, const stk__param *p)
{
    const stk__node *node = &m->graph.nodes[p->node];
    bool one = p->role == STK__RUNNING_VAR || p->role == STK__WEIGHT;

    if (p->role == STK__NUM_BATCHES) {
        *(int64_t *)(void *)((char *)m->weights + p->offset) = 0;
        return;
    }
    for (uint64_t i = 0; i < p->count; i++)
        put(m, p, i, one && node->kind != STK__LINEAR && node->kind != STK__CONV2D ? 1 : 0);
}

/* A tensor of drawn numbers: start + bound * (2 u - 1), or normal ones of that deviation. */
typedef struct drawn {
    const struct stk_model *m;
    uint32_t number;
    double start, bound, deviation;
    bool normal;
} drawn;

/* Box-Muller on pairs. */
static void to_normal(double deviation, double values[4])
{
    for (int k = 0; k < 4; k += 2) {
        double radius = sqrt(-2 * log(values[k]));
        double angle = 2 * 3.14159265358979323846 * values[k + 1];
        values[k] = deviation * radius * cos(angle);
        values[k + 1] = deviation * radius * sin(angle);
    }
}

/* Blocks of four elements. */
static void draw_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    const drawn *d = argument;
    const stk__param *p = &d->m->graph.params[d->number];
    double values[4];

    for (uint64_t block = from; block < to; block++) {
        uniform(d->m, d->number, block, values);
        if (d->normal)
            to_normal(d->deviation, values);
        for (uint64_t k = 0; k < 4 && 4 * block + k < p->count; k++)
            put(d->m, p, 4 * block + k,
                d->normal ? values[k] : d->start + d->bound * (2 * values[k] - 1));
    }
}

static void draw(drawn d)
{
    uint64_t blocks = d.m->graph.params[d.number].count / 4 + 1;

    stk__parallel(d.m->threads, blocks, STK__GRAIN / 16, draw_body, &d);
}

static void init_param(const struct stk_model *m, uint32_t number)
{
    const stk__param *p = &m->graph.params[number];
    const stk__node *node = &m->graph.nodes[p->node];
    bool conv = node->kind == STK__CONV2D;

    if (node->outside) {
        const stk_layer_shape *shape = &node->outside->shape;
        const stk_layer_parameter *own = p->role == STK__WEIGHT ? &shape->weight : &shape->bias;
        draw((drawn){m, number, .start = own->start, .bound = own->bound});
        return;
    }
    if (!conv && node->kind != STK__LINEAR) {
        init_constant(m, p);
        return;
    }
    double window = conv ? (double)(node->kernel[0] * node->kernel[1]) : 1;
    draw((drawn){m, number,
                 .bound = 1 / sqrt((double)node->in / (double)(conv ? node->groups : 1) * window),
                 .deviation = sqrt(2 / ((double)node->out * window)),
                 .normal = node->fan_out && p->role == STK__WEIGHT});
}

void stk__model_init_weights(struct stk_model *model)
{
    const stk__compute before = stk__compute_begin(model->threads);

    for (uint32_t i = 0; i < model->graph.num_params; i++)
        init_param(model, i);
    stk__compute_end(&before);
}
