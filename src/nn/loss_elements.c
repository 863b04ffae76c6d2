/* SPDX-License-Identifier: Apache-2.0 */
/* Losses that compare each output with a number. */
#include "nn/ops.h"
#include "nn/parallel.h"

enum { BLOCK = 256 }; /* elements whose target is brought into the model's type at a time */

typedef struct elements {
    const struct stk_model *m;
    stk__element_loss *loss;
    const char *output;
    char *gradient; /* may be NULL */
    const char *target;
    stk_dtype dtype;
    const uint8_t *valid;
    double share, delta;
    double sums[STK__LOSS_PARTS];
} elements;

static stk__element_loss *loss_of(const struct stk_model *m)
{
    switch (m->options.loss) {
    case STK_LOSS_L1:
        return m->kernels->l1;
    case STK_LOSS_HUBER:
    case STK_LOSS_SMOOTH_L1:
        return m->kernels->huber;
    case STK_LOSS_BCE_WITH_LOGITS:
        return m->kernels->bce;
    default:
        return m->kernels->mse;
    }
}

/* Targets in the type of the model: in place where they are of it. */
static const void *targets_of(const elements *e, uint64_t from, uint64_t n, double *room)
{
    const size_t size = stk_dtype_size(e->dtype);
    const char *at = e->target + from * size;
    const stk_dtype own = e->m->backend->itemsize == sizeof(double) ? STK_FLOAT64 : STK_FLOAT32;

    if (e->dtype == own)
        return at;
    stk__elements_to(room, own, at, e->dtype, n);
    return room;
}

static void elements_body(void *argument, uint64_t from, uint64_t to, uint32_t part)
{
    elements *e = argument;
    const uint64_t size = e->m->backend->itemsize;
    double room[BLOCK], sum = 0;

    for (uint64_t at = from; at < to; at += BLOCK) {
        const uint64_t n = STK_MIN(to - at, (uint64_t)BLOCK);
        const stk__compared c = {.x = e->output + at * size,
                                 .target = targets_of(e, at, n, room),
                                 .valid = e->valid ? e->valid + at : NULL,
                                 .n = n,
                                 .factor = e->share,
                                 .delta = e->delta};
        sum += e->loss(e->gradient ? e->gradient + at * size : NULL, &c);
    }
    e->sums[part] = sum;
}

static uint64_t count_valid(const uint8_t *valid, uint64_t n)
{
    uint64_t count = 0;

    for (uint64_t i = 0; i < n; i++)
        count += valid[i] != 0;
    return count;
}

void stk__loss_of_elements(struct stk_model *m, const void *output, void *gradient,
                           stk__step_numbers *numbers)
{
    const stk_model_batch *batch = &m->batch;
    const uint64_t row = stk__node_count(&m->graph.nodes[m->graph.num_nodes - 1]);
    const uint64_t n = row * batch->count;
    const uint64_t valid = batch->target_mask ? count_valid(batch->target_mask, n) : n;
    /* smooth_l1 is huber of another scale. */
    const double scale = m->options.loss == STK_LOSS_SMOOTH_L1 ? 1 / m->options.delta : 1;
    const double share = valid ? scale / (double)valid : 0;
    elements e = {.m = m,
                  .loss = loss_of(m),
                  .output = output,
                  .gradient = gradient,
                  .target = batch->target,
                  .dtype = batch->target_dtype ? batch->target_dtype : STK_FLOAT32,
                  .valid = batch->target_mask,
                  .share = share,
                  .delta = m->options.delta};

    const uint32_t parts = stk__parallel(STK_MIN(m->threads, (uint32_t)STK__LOSS_PARTS), n,
                                         STK__GRAIN, elements_body, &e);
    for (uint32_t i = 1; i < parts; i++)
        e.sums[0] += e.sums[i];
    *numbers = (stk__step_numbers){.loss = e.sums[0] * share, .count = (double)valid / (double)row};
}
