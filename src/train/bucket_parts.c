/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a bucket goes to other ranks and does not lie in memory as it is sent: in several pieces,
 * or as numbers of half the size. It is laid side by side in r->bucket; where each rank gets or has
 * a part of its own, some elements of every part at a time, so that little memory will do.
 *
 * On a device all parts have one size there, as NCCL's calls take them, and lie there at once: how
 * NCCL adds up depends on the size of a call, and every strategy makes the same.
 */
#include "train/trainer.h"

#define SIDE_BY_SIDE (UINT64_C(4) << 20) /* bytes of all parts: of one call of the network */

/* How elements of a bucket lie there. */
typedef struct laying {
    const stk__gradient_piece *pieces;
    const stk__gradient_bucket *bucket;
    size_t size, there; /* of an element, in its piece and side by side */
    bool squeezed;      /* side by side it is a bfloat16 */
} laying;

static laying laying_of(const stk__gradient_piece *pieces, const stk__gradient_bucket *b,
                        bool squeezed)
{
    const size_t size = stk_dtype_size(pieces[b->first].dtype);

    return (laying){pieces, b, size, squeezed ? stk_dtype_size(STK_BFLOAT16) : size, squeezed};
}

static stk_dtype sent_type(const laying *l)
{
    return l->squeezed ? STK_BFLOAT16 : l->pieces[l->bucket->first].dtype;
}

static stk_status move(const stk_trainer *t, const laying *l, void *data, void *at, uint64_t n,
                       bool back, stk_error *err)
{
    const stk_device_ops *d = &t->ranks.device;

    if (n == 0)
        return STK_OK;
    if (!l->squeezed)
        return d->copy(t->stream, back ? data : at, back ? at : data, n * l->size, STK_COPY_DEVICE,
                       err);
    return back ? d->convert(t->stream, data, STK_FLOAT32, at, STK_BFLOAT16, n, err)
                : d->convert(t->stream, at, STK_BFLOAT16, data, STK_FLOAT32, n, err);
}

/* `n` elements of the bucket behind `skip` of its first, to `at`, or back. The piece that lies
 * lowest is its last. */
static stk_status lay(const stk_trainer *t, const laying *l, uint64_t skip, char *at, uint64_t n,
                      bool back, stk_error *err)
{
    const stk__gradient_piece *p = &l->pieces[l->bucket->first + l->bucket->n - 1];

    for (; skip >= stk__piece_elements(p) && n; p--)
        skip -= stk__piece_elements(p);
    for (uint64_t k; n; p--, skip = 0) {
        k = STK_MIN(stk__piece_elements(p) - skip, n);
        STK_TRY(move(t, l, p->data + skip * l->size, at, k, back, err));
        at += k * l->there;
        n -= k;
    }
    return STK_OK;
}

stk_status stk__reduce_laid(stk_trainer *t, const stk__gradient_bucket *b, bool squeezed,
                            stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    const laying l = laying_of(t->ranks.pieces, b, squeezed);
    const uint64_t count = b->bytes / l.size, most = STK__BUCKET / l.size;

    STK_TRY(stk__need_bucket(t, STK_MIN(most, count) * l.there, err));
    for (uint64_t i = 0, n; i < count; i += n) {
        n = STK_MIN(count - i, most);
        STK_TRY(lay(t, &l, i, t->ranks.bucket, n, false, err));
        STK_TRY(s->reduce(s->state, t->ranks.bucket, n, sent_type(&l), STK_COMBINE_MEAN,
                          stk__ranks_stream(t), err));
        STK_TRY(lay(t, &l, i, t->ranks.bucket, n, true, err));
    }
    return STK_OK;
}

/* Elements behind `done` of the part of this rank, or of those of the others, to r->bucket or back.
 */
static stk_status lay_parts(stk_trainer *t, const laying *l, uint64_t done, uint64_t n, bool own,
                            bool others, bool back, stk_error *err)
{
    char *at = t->ranks.bucket;
    uint64_t from = 0;

    for (uint64_t r = 0; r < t->ranks.strategy.world_size; r++) {
        const uint64_t all = stk__shard_count(t, l->pieces, l->bucket, r);
        const uint64_t count = all > done ? STK_MIN(all - done, n) : 0;
        const uint64_t room = t->host_memory ? count : n;
        if (r == t->ranks.strategy.rank ? own : others)
            STK_TRY(lay(t, l, from + done, at, count, back, err));
        t->ranks.shards.counts[r] = room;
        at += room * l->there;
        from += all;
    }
    return STK_OK;
}

/* Of the largest part. */
static uint64_t most_of(const stk_trainer *t, const laying *l)
{
    uint64_t most = 0;

    for (uint64_t r = 0; r < t->ranks.strategy.world_size; r++)
        most = STK_MAX(most, stk__shard_count(t, l->pieces, l->bucket, r));
    return most;
}

bool stk__parts_in_place(const stk_trainer *t, const stk__gradient_piece *pieces,
                         const stk__gradient_bucket *b)
{
    const uint64_t first = stk__shard_count(t, pieces, b, 0);
    bool even = true;

    for (uint64_t r = 1; r < t->ranks.strategy.world_size && !t->host_memory; r++)
        even &= stk__shard_count(t, pieces, b, r) == first;
    return b->whole && even;
}

stk_status stk__send_parts(stk_trainer *t, const stk__gradient_piece *pieces,
                           const stk__gradient_bucket *b, bool combines, bool gathers,
                           bool squeezed, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    const laying l = laying_of(pieces, b, squeezed);
    const stk_dtype dtype = sent_type(&l);
    const uint64_t most = most_of(t, &l), some = SIDE_BY_SIDE / l.there / s->world_size;
    const uint64_t n = t->host_memory ? STK_MAX(some, (uint64_t)1) : most;
    const uint64_t *counts = t->ranks.shards.counts;
    stk_stream *stream = stk__ranks_stream(t);

    STK_TRY(stk__need_bucket(t, STK_MIN(n, most) * s->world_size * l.there, err));
    for (uint64_t done = 0; done < most; done += n) {
        STK_TRY(lay_parts(t, &l, done, n, true, combines, false, err));
        if (combines)
            STK_TRY(s->reduce_scatter(s->state, t->ranks.bucket, counts, dtype, STK_COMBINE_MEAN,
                                      stream, err));
        if (gathers)
            STK_TRY(s->all_gather(s->state, t->ranks.bucket, counts, dtype, stream, err));
        STK_TRY(lay_parts(t, &l, done, n, combines, gathers, true, err));
    }
    return STK_OK;
}
