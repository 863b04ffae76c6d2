/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping where several ranks train: each adds up the squares of what it owns of the parameters,
 * and the sum of those is the same bits whether the rest lies here as well or not. It is computed
 * where the gradients lie, or on the host some of them at a time. */
#include <math.h>

#include "train/trainer.h"

#define SOME (UINT64_C(1) << 20) /* bytes that are brought to the host at a time */

/* What is done to elements: their squares are added to *sum (NULL: nothing is), or they are scaled
 * and bounded. */
typedef struct clipping {
    double *sum, by, most;
    char *aside; /* of the host: some elements */
} clipping;

static stk_status clip_here(const stk_device_ops *d, stk_stream *stream, const clipping *c,
                            void *data, stk_dtype dtype, uint64_t n, stk_error *err)
{
    return c->sum ? d->squares(stream, c->sum, data, dtype, n, err)
                  : d->scale(stream, data, dtype, n, c->by, c->most, err);
}

/* Of a device that cannot. */
static stk_status clip_on_host(stk_trainer *t, clipping *c, char *data, stk_dtype dtype, uint64_t n,
                               stk_error *err)
{
    const uint64_t size = stk_dtype_size(dtype), most = SOME / size;

    if (!c->aside)
        c->aside = stk__alloc_buffer(t->ctx, SOME);
    if (!c->aside)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory to clip gradients in");
    for (uint64_t i = 0, k; i < n; i += k) {
        k = STK_MIN(n - i, most);
        STK_TRY(
            stk_trainer_copy(t, c->aside, data + i * size, k * size, STK_COPY_DEVICE_TO_HOST, err));
        STK_TRY(clip_here(&stk__device_cpu, NULL, c, c->aside, dtype, k, err));
        if (!c->sum)
            STK_TRY(stk_trainer_copy(t, data + i * size, c->aside, k * size,
                                     STK_COPY_HOST_TO_DEVICE, err));
    }
    return STK_OK;
}

/* All gradients of this step: the whole of them, or what this rank owns. */
static stk_status clip_pieces(stk_trainer *t, bool whole, clipping *c, stk_error *err)
{
    const stk__ranks *r = &t->ranks;
    const bool can = c->sum ? r->device.squares != NULL : r->device.scale != NULL;

    for (size_t i = 0; i < r->num_pieces; i++) {
        const stk__gradient_piece *p = &r->pieces[i];
        const stk_shard s =
            whole ? (stk_shard){0, stk__piece_elements(p)} : r->shards.own[p->parameter];
        char *data = p->data + s.from * stk_dtype_size(p->dtype);
        if (p->dtype != STK_FLOAT32 && p->dtype != STK_FLOAT64)
            return stk__fail(err, STK_ENOTSUP, STK_STAGE_TRAIN,
                             "gradients of type %s cannot be clipped", stk_dtype_name(p->dtype));
        if (s.count == 0)
            continue;
        STK_TRY(can ? clip_here(&r->device, t->stream, c, data, p->dtype, s.count, err)
                    : clip_on_host(t, c, data, p->dtype, s.count, err));
    }
    return STK_OK;
}

/* The squares of what this rank owns. Those of a device are added up there: r->bucket has the sum.
 */
static stk_status add_squares(stk_trainer *t, clipping *c, double *sum, stk_error *err)
{
    stk_scalar there = {.dtype = STK_FLOAT64};

    *sum = 0;
    c->sum = sum;
    if (t->host_memory || !t->ranks.device.squares)
        return clip_pieces(t, false, c, err);
    STK_TRY(stk__need_bucket(t, sizeof *sum, err));
    there.data = c->sum = t->ranks.bucket;
    STK_TRY(t->ranks.device.fill(t->stream, c->sum, 0, sizeof *sum, err));
    STK_TRY(clip_pieces(t, false, c, err));
    return stk_trainer_read_scalar(t, &there, sum, NULL, err);
}

static stk_status clip_by_norm(stk_trainer *t, bool whole, double most, clipping *c, stk_error *err)
{
    double sum;

    STK_TRY(add_squares(t, c, &sum, err));
    STK_TRY(stk__reduce(t, &sum, 1, STK_COMBINE_SUM, err));
    /* As torch.nn.utils.clip_grad_norm_ has it. */
    c->sum = NULL;
    c->by = most / (sqrt(sum) + 1e-6);
    c->most = INFINITY;
    return c->by < 1 ? clip_pieces(t, whole, c, err) : STK_OK;
}

stk_status stk__clip_together(stk_trainer *t, double most, stk_error *err)
{
    const bool whole = !t->ranks.shards.scatters;
    clipping c = {.by = 1, .most = most};

    const stk_status status = t->options.gradient_clip_algorithm == STK_CLIP_VALUE
                                  ? clip_pieces(t, whole, &c, err)
                                  : clip_by_norm(t, whole, most, &c, err);
    stk__free(t->ctx, c.aside);
    return status;
}
