/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping where several ranks train: each adds up the squares of what it owns of the parameters,
 * and the sum of those is the same bits whether the rest lies here as well or not. */
#include <math.h>

#include "train/trainer.h"

enum { LANES = 8 }; /* sums that a processor makes at once */

/* What is done to elements: their squares are added to `sum`, they are scaled, or bounded. */
typedef struct clipping {
    enum { CLIP_SUM, CLIP_SCALE, CLIP_BOUND } how;
    double sum, by;
} clipping;

#define DEFINE_CLIP(type)                                                                          \
    static double squares_##type(const type *x, uint64_t n)                                        \
    {                                                                                              \
        double lanes[LANES] = {0}, sum = 0;                                                        \
        uint64_t i = 0;                                                                            \
        for (; i + LANES <= n; i += LANES)                                                         \
            for (int k = 0; k < LANES; k++)                                                        \
                lanes[k] += (double)x[i + k] * (double)x[i + k];                                   \
        for (; i < n; i++)                                                                         \
            sum += (double)x[i] * (double)x[i];                                                    \
        for (int k = 0; k < LANES; k++)                                                            \
            sum += lanes[k];                                                                       \
        return sum;                                                                                \
    }                                                                                              \
    static void clip_##type(clipping *c, type *x, uint64_t n)                                      \
    {                                                                                              \
        const type by = (type)c->by;                                                               \
        if (c->how == CLIP_SUM)                                                                    \
            c->sum += squares_##type(x, n);                                                        \
        for (uint64_t i = 0; i < n && c->how == CLIP_SCALE; i++)                                   \
            x[i] *= by;                                                                            \
        for (uint64_t i = 0; i < n && c->how == CLIP_BOUND; i++)                                   \
            x[i] = x[i] > by ? by : x[i] < -by ? -by : x[i];                                       \
    }
DEFINE_CLIP(float)
DEFINE_CLIP(double)

/* All gradients of this step: the whole of them, or what this rank owns. */
static stk_status clip_pieces(const stk_trainer *t, bool whole, clipping *c, stk_error *err)
{
    const stk__ranks *r = &t->ranks;

    for (size_t i = 0; i < r->num_pieces; i++) {
        const stk__gradient_piece *p = &r->pieces[i];
        const stk_shard s =
            whole ? (stk_shard){0, stk__piece_elements(p)} : r->shards.own[p->parameter];
        if (p->dtype == STK_FLOAT64)
            clip_double(c, (double *)(void *)p->data + s.from, s.count);
        else if (p->dtype == STK_FLOAT32)
            clip_float(c, (float *)(void *)p->data + s.from, s.count);
        else
            return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                             "gradients of type %s cannot be clipped", stk_dtype_name(p->dtype));
    }
    return STK_OK;
}

stk_status stk__clip_together(stk_trainer *t, double most, stk_error *err)
{
    const bool whole = !t->ranks.shards.scatters;
    clipping c = {.how = CLIP_SUM};

    if (t->options.gradient_clip_algorithm == STK_CLIP_VALUE)
        return clip_pieces(t, whole, &(clipping){.how = CLIP_BOUND, .by = most}, err);
    STK_TRY(clip_pieces(t, false, &c, err));
    STK_TRY(stk__reduce(t, &c.sum, 1, STK_COMBINE_SUM, err));
    /* As torch.nn.utils.clip_grad_norm_ has it. */
    c = (clipping){.how = CLIP_SCALE, .by = most / (sqrt(c.sum) + 1e-6)};
    return c.by < 1 ? clip_pieces(t, whole, &c, err) : STK_OK;
}
