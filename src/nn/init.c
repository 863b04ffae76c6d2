/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initial weights, of PyTorch's distributions. Linear and Conv2d: uniform within 1 / sqrt(fan_in),
 * which is kaiming_uniform(a = sqrt 5), bias alike. Convolutions of torchvision's resnets: normal
 * of deviation sqrt(2 / fan_out). Norms: 1 and 0. Each tensor has a stream of its own.
 */
#include <math.h>

#include "base/random.h"
#include "nn/model.h"
#include "nn/outside.h"

/* Uniform in (0, 1), with 32 bits. */
static double uniform(const struct stk_model *m, uint32_t param, uint64_t i)
{
    const uint32_t key[2] = {(uint32_t)m->options.seed,
                             (uint32_t)(m->options.seed >> 32) ^ STK__NN_INIT};
    const uint32_t counter[4] = {(uint32_t)(i / 4), (uint32_t)(i / 4 >> 32), param, 0};
    uint32_t words[4];

    stk__philox(counter, key, words);
    return ((double)words[i % 4] + 0.5) * 0x1p-32;
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

static void init_outside(const struct stk_model *m, uint32_t number)
{
    const stk__param *p = &m->graph.params[number];
    const stk_layer_shape *shape = &m->graph.nodes[p->node].outside->shape;
    const stk_layer_parameter *own = p->role == STK__WEIGHT ? &shape->weight : &shape->bias;

    for (uint64_t i = 0; i < p->count; i++)
        put(m, p, i, own->start + own->bound * (2 * uniform(m, number, i) - 1));
}

static void init_param(const struct stk_model *m, uint32_t number)
{
    const stk__param *p = &m->graph.params[number];
    const stk__node *node = &m->graph.nodes[p->node];
    bool conv = node->kind == STK__CONV2D;

    if (node->outside) {
        init_outside(m, number);
        return;
    }

    if (!conv && node->kind != STK__LINEAR) {
        init_constant(m, p);
        return;
    }
    double window = conv ? (double)(node->kernel[0] * node->kernel[1]) : 1;
    double bound = 1 / sqrt((double)node->in / (double)(conv ? node->groups : 1) * window);
    double deviation = sqrt(2 / ((double)node->out * window));
    bool normal = node->fan_out && p->role == STK__WEIGHT;
    /* Box-Muller on pairs of words. */
    for (uint64_t i = 0; i < p->count; i++) {
        double u = uniform(m, number, normal ? i & ~UINT64_C(1) : i);
        if (normal) {
            double radius = sqrt(-2 * log(u)),
                   angle = 2 * 3.14159265358979323846 * uniform(m, number, i | 1);
            put(m, p, i, deviation * radius * (i & 1 ? sin(angle) : cos(angle)));
        } else {
            put(m, p, i, bound * (2 * u - 1));
        }
    }
}

void stk__model_init_weights(struct stk_model *model)
{
    for (uint32_t i = 0; i < model->graph.num_params; i++)
        init_param(model, i);
}
