/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of a step -> their mean over the ranks, between forward and the optimizer. They are
 * taken in the reverse order of the parameters, as backward makes them, and in buckets: one that
 * lies in one piece is reduced where it is, small ones that do not are copied together. Sizes are
 * those of PyTorch's DistributedDataParallel: a small first bucket, so that work begins early, then
 * 25 MiB.
 *
 * A module that says when gradients are complete has its buckets combined by a thread while it
 * computes the others. What a bucket has, and the order of buckets, are the same without: a rank
 * that has nothing to compute makes the same calls after its pass.
 */
#include "train/trainer.h"

#define FIRST_BUCKET (UINT64_C(1) << 20)
#define BUCKET       (UINT64_C(25) << 20)

/* ---- Pieces ---- */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the gradients' list");
}

stk_status stk__list_piece(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    stk_trainer *t = user;
    stk__ranks *r = &t->ranks;

    if (tensor->bytes == 0)
        return STK_OK;
    stk__gradient_piece *listed =
        stk__grow(t->ctx, r->listed, &r->listed_room, r->num_listed + 1, sizeof *listed);
    if (!listed)
        return no_memory(err);
    r->listed = listed;
    r->listed[r->num_listed++] = (stk__gradient_piece){.data = tensor->data,
                                                       .bytes = tensor->bytes,
                                                       .dtype = tensor->dtype,
                                                       .name = stk__shard_name(t, tensor->name)};
    return STK_OK;
}

/* Room for one more piece, and for the bucket that it may begin. */
static stk_status need_room(stk_trainer *t, stk_error *err)
{
    stk__ranks *r = &t->ranks;
    const size_t room = r->room * 2 + 64;

    if (r->num_pieces < r->room)
        return STK_OK;
    /* The thread reads what is about to move. */
    stk__overlap_settle(t);
    stk__gradient_piece *pieces = stk__realloc(t->ctx, r->pieces, room * sizeof *pieces);
    r->pieces = pieces ? pieces : r->pieces;
    stk__gradient_bucket *buckets =
        pieces ? stk__realloc(t->ctx, r->buckets, room * sizeof *buckets) : NULL;
    if (!buckets)
        return no_memory(err);
    r->buckets = buckets;
    r->room = room;
    return STK_OK;
}

stk_status stk__need_bucket(stk_trainer *t, uint64_t bytes, stk_error *err)
{
    stk__ranks *r = &t->ranks;
    const uint64_t wanted = STK_MAX(bytes, BUCKET);

    if (r->bucket_bytes >= wanted)
        return STK_OK;
    if (r->bucket)
        t->device->ops->free(t->device, r->bucket);
    r->bucket = NULL;
    r->bucket_bytes = 0;
    STK_TRY(t->device->ops->alloc(t->device, wanted, &r->bucket, err));
    r->bucket_bytes = wanted;
    return STK_OK;
}

stk_status stk__move_bucket(stk_trainer *t, const stk__gradient_piece *pieces,
                            const stk__gradient_bucket *b, bool back, stk_error *err)
{
    char *at = t->ranks.bucket;

    for (size_t i = b->first + b->n; i-- > b->first;) {
        const stk__gradient_piece *p = &pieces[i];
        STK_TRY(t->device->ops->copy(t->stream, back ? p->data : at, back ? at : p->data, p->bytes,
                                     STK_COPY_DEVICE, err));
        at += p->bytes;
    }
    return STK_OK;
}

/* Elements of a bucket become the mean over the ranks: this rank's part, or all of them. */
static stk_status combine(stk_trainer *t, const stk__gradient_bucket *b, void *data, uint64_t count,
                          stk_dtype dtype, stk_stream *stream, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;

    if (t->ranks.shards.scatters)
        return s->reduce_scatter(s->state, data, stk__shard_counts(t, b), dtype, STK_COMBINE_MEAN,
                                 stream, err);
    return s->reduce(s->state, data, count, dtype, STK_COMBINE_MEAN, stream, err);
}

/* ---- In bfloat16 ---- */

#define SQUEEZED (BUCKET / sizeof(float)) /* elements that are reduced together */

/* `n` elements of a bucket behind `skip` of its first, into `at`, or back. */
static void squeeze(const stk__ranks *r, const stk__gradient_bucket *b, uint64_t skip, uint16_t *at,
                    uint64_t n, bool back)
{
    const stk__gradient_piece *p = &r->pieces[b->first + b->n - 1];

    for (; n; p--, skip = 0) {
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

/* A bucket that is larger than the others is one piece; a part of a bucket is one of it all. */
static stk_status reduce_squeezed(stk_trainer *t, const stk__gradient_bucket *b, uint64_t count,
                                  stk_error *err)
{
    const uint64_t most = t->ranks.shards.scatters ? count : SQUEEZED;

    STK_TRY(stk__need_bucket(t, STK_MIN(most, count) * sizeof(uint16_t), err));
    for (uint64_t i = 0, n; i < count; i += n) {
        n = STK_MIN(count - i, most);
        squeeze(&t->ranks, b, i, t->ranks.bucket, n, false);
        STK_TRY(combine(t, b, t->ranks.bucket, n, STK_BFLOAT16, NULL, err));
        squeeze(&t->ranks, b, i, t->ranks.bucket, n, true);
    }
    return STK_OK;
}

/* ---- Buckets ---- */

static stk_status reduce_whole(stk_trainer *t, const stk__gradient_bucket *b, stk_error *err)
{
    const stk__ranks *r = &t->ranks;
    /* The one that lies lowest. */
    const stk__gradient_piece *piece = &r->pieces[b->first + b->n - 1];
    stk_stream *stream = t->host_memory ? NULL : t->stream;
    const uint64_t count = b->bytes / stk_dtype_size(piece->dtype);

    if (t->options.gradient_compression && piece->dtype == STK_FLOAT32 && t->host_memory)
        return reduce_squeezed(t, b, count, err);
    if (b->whole)
        return combine(t, b, piece->data, count, piece->dtype, stream, err);
    STK_TRY(stk__need_bucket(t, b->bytes, err));
    STK_TRY(stk__move_bucket(t, r->pieces, b, false, err));
    STK_TRY(combine(t, b, r->bucket, count, piece->dtype, stream, err));
    return stk__move_bucket(t, r->pieces, b, true, err);
}

stk_status stk__reduce_bucket(stk_trainer *t, const stk__gradient_bucket *b, stk_error *err)
{
    STK_TRY(reduce_whole(t, b, err));
    if (t->ranks.shards.scatters && t->ranks.shards.stage >= 2)
        stk__shards_drop(t, t->ranks.pieces, b);
    return STK_OK;
}

/* The open bucket has all that belongs to it. */
static stk_status close_bucket(stk_trainer *t, stk_error *err)
{
    stk__ranks *r = &t->ranks;
    const stk__gradient_bucket *b = &r->buckets[r->num_buckets++];

    r->most = BUCKET;
    r->open = false;
    if (r->lists)
        return STK_OK;
    if (!r->early || r->here)
        return stk__reduce_bucket(t, b, err);
    stk__overlap_push(t, r->num_buckets);
    return STK_OK;
}

/* The bucket that it was shared out with. */
static const stk__gradient_bucket *shared_bucket(const stk__ranks *r,
                                                 const stk__gradient_piece *piece)
{
    return &r->shards.buckets[r->shards.places[piece->parameter].bucket];
}

/* Whether a piece may come into the open bucket. What is shared out stays together, however much of
 * it learns. */
static bool fits(const stk__ranks *r, const stk__gradient_piece *piece)
{
    if (r->shards.stage)
        return shared_bucket(r, piece) == shared_bucket(r, &r->pieces[r->num_pieces - 1]);
    return r->pieces[r->num_pieces - 1].dtype == piece->dtype &&
           r->buckets[r->num_buckets].bytes + piece->bytes <= r->most;
}

/* Whether the piece lies right below the one before it. */
static bool joins(const stk__gradient_piece *piece, const stk__gradient_piece *before)
{
    return piece->data + piece->bytes == before->data;
}

static stk_status take_piece(stk_trainer *t, const stk__gradient_piece *given, stk_error *err)
{
    stk__ranks *r = &t->ranks;
    stk__gradient_piece own = *given, *piece = &own;

    STK_TRY(need_room(t, err));
    const stk__gradient_piece *after = r->num_pieces ? &r->pieces[r->num_pieces - 1] : NULL;
    STK_TRY(stk__shard_place_piece(t, after, piece, err));
    if (r->open && !fits(r, piece))
        STK_TRY(close_bucket(t, err));
    stk__gradient_bucket *b = &r->buckets[r->num_buckets];
    if (!r->open)
        *b = (stk__gradient_bucket){.first = r->num_pieces, .whole = true};
    else
        b->whole &= joins(piece, &r->pieces[r->num_pieces - 1]);
    r->open = true;
    r->pieces[r->num_pieces++] = *piece;
    b->bytes += piece->bytes;
    b->n++;
    /* No other fits: it need not be waited for. */
    const uint64_t most = r->shards.stage ? shared_bucket(r, piece)->bytes : r->most;
    return b->bytes >= most ? close_bucket(t, err) : STK_OK;
}

/* ---- A step ---- */

static void forget_pieces(stk_trainer *t)
{
    stk__ranks *r = &t->ranks;

    r->num_pieces = r->num_buckets = r->num_listed = 0;
    r->most = FIRST_BUCKET;
    r->open = r->early = r->here = false;
}

stk_status stk__gradients_begin(stk_trainer *t, bool together, stk_error *err)
{
    stk__ranks *r = &t->ranks;

    if (stk__is_alone(t))
        return STK_OK;
    forget_pieces(t);
    /* A module that shares its gradients out says when they are complete. */
    const bool says = r->says_done || r->shards.stage >= 2;
    /* Hooks and detect_anomaly look at what this rank has computed. */
    if (!says || !t->host_memory || !t->at.steps || t->hooks.rows[STK__HOOK_on_after_backward].n ||
        t->options.detect_anomaly)
        return STK_OK;
    /* Where the pass itself speaks with the others, a thread beside it would come in between. */
    r->here = r->shards.parted;
    if (!r->here && (together || !r->strategy.any_thread))
        return STK_OK;
    if (!r->here)
        STK_TRY(stk__overlap_begin(t, err));
    r->early = true;
    r->shards.scatters = r->shards.stage > 0;
    return STK_OK;
}

stk_status stk_trainer_gradient_done(stk_trainer *t, const stk_state_tensor *gradient,
                                     stk_error *err)
{
    const stk__gradient_piece piece = {.data = gradient->data,
                                       .bytes = gradient->bytes,
                                       .dtype = gradient->dtype,
                                       .name = stk__shard_name(t, gradient->name)};

    STK_TRY(stk__context_check(t->ctx, err));
    /* A thread that is started here would compute as a pass does, without small numbers. */
    t->ranks.says_done = true;
    return t->ranks.early && piece.bytes ? take_piece(t, &piece, err) : STK_OK;
}

/* Those of state() that were not said to be complete before, from the last one backwards. */
static stk_status take_rest(stk_trainer *t, stk_error *err)
{
    const stk__ranks *r = &t->ranks;
    const size_t said = r->num_pieces;

    for (size_t i = 0; i < STK_MAX(r->num_listed, said); i++) {
        const stk__gradient_piece *p = i < r->num_listed ? &r->listed[r->num_listed - 1 - i] : NULL;
        if (i >= said)
            STK_TRY(take_piece(t, p, err));
        else if (!p || r->pieces[i].data != p->data || r->pieces[i].bytes != p->bytes)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                             "the module %s says of gradients that they are complete in another "
                             "order than from the last one of its state backwards",
                             t->ops.name);
    }
    return r->open ? close_bucket(t, err) : STK_OK;
}

stk_status stk__reduce_gradients(stk_trainer *t, bool step, stk_error *err)
{
    stk__ranks *r = &t->ranks;

    if (stk__is_alone(t))
        return STK_OK;
    /* Else the thread is at work, and knows. */
    if (!r->early) {
        forget_pieces(t);
        r->shards.scatters = step && r->shards.stage > 0;
    }
    r->num_listed = 0;
    stk_status status = t->ops.state(t->module, STK_STATE_GRADIENT, stk__list_piece, t, err);
    if (status == STK_OK)
        status = take_rest(t, err);
    if (r->early && !r->here && status == STK_OK)
        status = stk__overlap_end(t, err);
    else
        stk__overlap_settle(t);
    /* The list stays, for who clips. */
    r->open = r->early = r->here = false;
    return status;
}

stk_status stk__list_buckets(stk_trainer *t, stk_error *err)
{
    t->ranks.num_pieces = t->ranks.num_buckets = 0;
    t->ranks.most = FIRST_BUCKET;
    t->ranks.open = t->ranks.early = false;
    t->ranks.lists = true;
    const stk_status status = take_rest(t, err);
    t->ranks.lists = false;
    return status;
}
