/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a bucket goes to other ranks and does not lie in memory as it is sent: in several pieces,
 * or as numbers of half the size. It is laid side by side in r->bucket; where each rank gets or has
 * a part of its own, some elements of every part at a time, so that little memory will do.
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

static void move(const laying *l, void *data, void *at, uint64_t n, bool back)
{
    if (l->squeezed && back)
        stk__bf16_to_floats(data, at, n);
    else if (l->squeezed)
        stk__floats_to_bf16(at, data, n);
    else
        memcpy(back ? data : at, back ? at : data, n * l->size);
}

/* `n` elements of the bucket behind `skip` of its first, to `at`, or back. The piece that lies
 * lowest is its last. */
static void lay(const laying *l, uint64_t skip, char *at, uint64_t n, bool back)
{
    const stk__gradient_piece *p = &l->pieces[l->bucket->first + l->bucket->n - 1];

    for (; skip >= stk__piece_elements(p) && n; p--)
        skip -= stk__piece_elements(p);
    for (uint64_t k; n; p--, skip = 0) {
        k = STK_MIN(stk__piece_elements(p) - skip, n);
        move(l, p->data + skip * l->size, at, k, back);
        at += k * l->there;
        n -= k;
    }
}

stk_status stk__reduce_squeezed(stk_trainer *t, const stk__gradient_bucket *b, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    const laying l = laying_of(t->ranks.pieces, b, true);
    const uint64_t count = b->bytes / l.size, most = STK__BUCKET / l.size;

    STK_TRY(stk__need_bucket(t, STK_MIN(most, count) * l.there, err));
    for (uint64_t i = 0, n; i < count; i += n) {
        n = STK_MIN(count - i, most);
        lay(&l, i, t->ranks.bucket, n, false);
        STK_TRY(s->reduce(s->state, t->ranks.bucket, n, STK_BFLOAT16, STK_COMBINE_MEAN, NULL, err));
        lay(&l, i, t->ranks.bucket, n, true);
    }
    return STK_OK;
}

/* Elements behind `done` of the part of this rank, or of those of the others, to r->bucket or back.
 */
static void lay_parts(stk_trainer *t, const laying *l, uint64_t done, uint64_t n, bool own,
                      bool others, bool back)
{
    char *at = t->ranks.bucket;
    uint64_t from = 0;

    for (uint64_t r = 0; r < t->ranks.strategy.world_size; r++) {
        const uint64_t all = stk__shard_count(t, l->pieces, l->bucket, r);
        const uint64_t count = all > done ? STK_MIN(all - done, n) : 0;
        if (r == t->ranks.strategy.rank ? own : others)
            lay(l, from + done, at, count, back);
        t->ranks.shards.counts[r] = count;
        at += count * l->there;
        from += all;
    }
}

/* Of the largest part. */
static uint64_t most_of(const stk_trainer *t, const laying *l)
{
    uint64_t most = 0;

    for (uint64_t r = 0; r < t->ranks.strategy.world_size; r++)
        most = STK_MAX(most, stk__shard_count(t, l->pieces, l->bucket, r));
    return most;
}

stk_status stk__send_parts(stk_trainer *t, const stk__gradient_piece *pieces,
                           const stk__gradient_bucket *b, bool gathers, bool squeezed,
                           stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    const laying l = laying_of(pieces, b, squeezed);
    const stk_dtype dtype = squeezed ? STK_BFLOAT16 : pieces[b->first].dtype;
    const uint64_t most = most_of(t, &l);
    const uint64_t n = STK_MAX(SIDE_BY_SIDE / l.there / s->world_size, (uint64_t)1);
    const uint64_t *counts = t->ranks.shards.counts;

    STK_TRY(stk__need_bucket(t, STK_MIN(n, most) * s->world_size * l.there, err));
    for (uint64_t done = 0; done < most; done += n) {
        lay_parts(t, &l, done, n, true, !gathers, false);
        if (gathers)
            STK_TRY(s->all_gather(s->state, t->ranks.bucket, counts, dtype, NULL, err));
        else
            STK_TRY(s->reduce_scatter(s->state, t->ranks.bucket, counts, dtype, STK_COMBINE_MEAN,
                                      NULL, err));
        lay_parts(t, &l, done, n, !gathers, gathers, true);
    }
    return STK_OK;
}
