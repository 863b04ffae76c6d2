/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of a step -> their mean over the ranks, between backward and the optimizer. They are
 * taken in the reverse order of the parameters, as backward makes them, and in buckets: one that
 * lies in one piece is reduced where it is, small ones that do not are copied together. Sizes are
 * those of PyTorch's DistributedDataParallel: a small first bucket, so that work begins early, then
 * 25 MiB.
 */
#include "train/trainer.h"

#define FIRST_BUCKET (UINT64_C(1) << 20)
#define BUCKET       (UINT64_C(25) << 20)

static stk_status note_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    stk_trainer *t = user;
    stk__ranks *r = &t->ranks;

    if (tensor->bytes == 0)
        return STK_OK;
    if (r->num_pieces == r->room) {
        const size_t room = r->room * 2 + 64;
        stk__gradient_piece *pieces = stk__realloc(t->ctx, r->pieces, room * sizeof *pieces);
        if (!pieces)
            return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the gradients' list");
        r->pieces = pieces;
        r->room = room;
    }
    r->pieces[r->num_pieces++] = (stk__gradient_piece){tensor->data, tensor->bytes, tensor->dtype};
    return STK_OK;
}

/* Whether the piece before lies right below this one. */
static bool joins(const stk__gradient_piece *before, const stk__gradient_piece *piece)
{
    return before->data + before->bytes == piece->data;
}

/* How many pieces from `last` downwards are one bucket, and whether it lies in one piece. */
static size_t bucket_of(const stk__ranks *r, size_t last, uint64_t most, uint64_t *bytes,
                        bool *whole)
{
    const stk__gradient_piece *p = &r->pieces[last];
    size_t n = 1;

    *bytes = p->bytes;
    *whole = true;
    while (n <= last && p[-(ptrdiff_t)n].dtype == p->dtype &&
           *bytes + p[-(ptrdiff_t)n].bytes <= most) {
        *bytes += p[-(ptrdiff_t)n].bytes;
        *whole &= joins(&p[-(ptrdiff_t)n], &p[1 - (ptrdiff_t)n]);
        n++;
    }
    return n;
}

/* Between the pieces of a bucket and the memory that they are reduced in. */
static stk_status move(stk_trainer *t, size_t first, size_t n, bool back, stk_error *err)
{
    char *at = t->ranks.bucket;

    for (size_t i = first; i < first + n; i++) {
        const stk__gradient_piece *p = &t->ranks.pieces[i];
        STK_TRY(t->device->ops->copy(t->stream, back ? p->data : at, back ? at : p->data, p->bytes,
                                     STK_COPY_DEVICE, err));
        at += p->bytes;
    }
    return STK_OK;
}

/* ---- In bfloat16 ---- */

#define SQUEEZED (BUCKET / sizeof(float)) /* elements that are reduced together */

/* `n` elements of the pieces from `first` on, where `skip` of the first are done: into `at`, or
 * back. */
static void squeeze(const stk__ranks *r, size_t first, uint64_t skip, uint16_t *at, uint64_t n,
                    bool back)
{
    for (const stk__gradient_piece *p = &r->pieces[first]; n; p++, skip = 0) {
        float *data = (float *)(void *)p->data + skip;
        const uint64_t k = STK_MIN(p->bytes / sizeof *data - skip, n);
        if (back)
            stk__bf16_to_floats(data, at, k);
        else
            stk__floats_to_bf16(at, data, k);
        at += k;
        n -= k;
    }
}

/* A bucket that is larger than the room for it is one piece. */
static stk_status reduce_squeezed(stk_trainer *t, size_t first, uint64_t count, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;

    if (!t->ranks.bucket)
        STK_TRY(t->device->ops->alloc(t->device, BUCKET, &t->ranks.bucket, err));
    for (uint64_t i = 0, n; i < count; i += n) {
        n = STK_MIN(count - i, SQUEEZED);
        squeeze(&t->ranks, first, i, t->ranks.bucket, n, false);
        STK_TRY(s->reduce(s->state, t->ranks.bucket, n, STK_BFLOAT16, STK_COMBINE_MEAN, NULL, err));
        squeeze(&t->ranks, first, i, t->ranks.bucket, n, true);
    }
    return STK_OK;
}

/* ---- Buckets ---- */

static stk_status reduce_bucket(stk_trainer *t, size_t first, size_t n, uint64_t bytes, bool whole,
                                stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    const stk__gradient_piece *piece = &t->ranks.pieces[first];
    stk_stream *stream = t->host_memory ? NULL : t->stream;
    const uint64_t count = bytes / stk_dtype_size(piece->dtype);

    if (t->options.gradient_compression && piece->dtype == STK_FLOAT32 && t->host_memory)
        return reduce_squeezed(t, first, count, err);
    if (whole)
        return s->reduce(s->state, piece->data, count, piece->dtype, STK_COMBINE_MEAN, stream, err);
    if (!t->ranks.bucket)
        STK_TRY(t->device->ops->alloc(t->device, BUCKET, &t->ranks.bucket, err));
    STK_TRY(move(t, first, n, false, err));
    STK_TRY(
        s->reduce(s->state, t->ranks.bucket, count, piece->dtype, STK_COMBINE_MEAN, stream, err));
    return move(t, first, n, true, err);
}

stk_status stk__reduce_gradients(stk_trainer *t, stk_error *err)
{
    uint64_t most = FIRST_BUCKET, bytes;
    bool whole;

    if (stk__is_alone(t))
        return STK_OK;
    t->ranks.num_pieces = 0;
    STK_TRY(t->ops.state(t->module, STK_STATE_GRADIENT, note_one, t, err));
    for (size_t left = t->ranks.num_pieces, n; left; left -= n, most = BUCKET) {
        n = bucket_of(&t->ranks, left - 1, most, &bytes, &whole);
        STK_TRY(reduce_bucket(t, left - n, n, bytes, whole, err));
    }
    return STK_OK;
}
