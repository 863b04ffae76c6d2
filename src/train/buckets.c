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

    if (r->bucket && r->bucket_bytes >= bytes)
        return STK_OK;
    /* The stream may not be done with it. */
    if (r->bucket && !t->host_memory)
        STK_TRY(stk__synchronize(t, err));
    if (r->bucket)
        t->device->ops->free(t->device, r->bucket);
    r->bucket = NULL;
    r->bucket_bytes = 0;
    STK_TRY(t->device->ops->alloc(t->device, bytes, &r->bucket, err));
    r->bucket_bytes = bytes;
    return STK_OK;
}

/* ---- Buckets ---- */

stk_stream *stk__ranks_stream(const stk_trainer *t)
{
    return t->host_memory ? NULL : t->stream;
}

/* Elements of a bucket become the mean over the ranks: all of them. */
static stk_status reduce_all(stk_trainer *t, const stk__gradient_bucket *b, bool squeezed,
                             stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    /* The one that lies lowest. */
    const stk__gradient_piece *piece = &t->ranks.pieces[b->first + b->n - 1];

    if (squeezed || !b->whole)
        return stk__reduce_laid(t, b, squeezed, err);
    return s->reduce(s->state, piece->data, b->bytes / stk_dtype_size(piece->dtype), piece->dtype,
                     STK_COMBINE_MEAN, stk__ranks_stream(t), err);
}

/* This rank's part of them, and then (`whole`) the others' from those. */
static stk_status reduce_parts(stk_trainer *t, const stk__gradient_bucket *b, bool whole,
                               bool squeezed, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    const stk__gradient_piece *pieces = t->ranks.pieces, *piece = &pieces[b->first + b->n - 1];

    if (squeezed || !stk__parts_in_place(t, pieces, b))
        return stk__send_parts(t, pieces, b, true, whole, squeezed, err);
    const uint64_t *counts = stk__shard_counts(t, pieces, b);
    STK_TRY(s->reduce_scatter(s->state, piece->data, counts, piece->dtype, STK_COMBINE_MEAN,
                              stk__ranks_stream(t), err));
    return whole ? s->all_gather(s->state, piece->data, counts, piece->dtype, stk__ranks_stream(t),
                                 err)
                 : STK_OK;
}

stk_status stk__reduce_bucket(stk_trainer *t, const stk__gradient_bucket *b, stk_error *err)
{
    const stk__ranks *r = &t->ranks;
    const stk__shards *s = &r->shards;
    const stk__gradient_piece *first = &r->pieces[b->first];
    const bool squeezed = t->options.gradient_compression && first->dtype == STK_FLOAT32;

    /* A rank that has computed nothing of it may lack it. */
    if (s->returns)
        STK_TRY(stk__shards_take_gradients(t, s->places[first->parameter].bucket, err));
    if (!s->scatters && !s->halves)
        return reduce_all(t, b, squeezed, err);
    STK_TRY(reduce_parts(t, b, !s->scatters, squeezed, err));
    return s->scatters && s->stage >= 2 ? stk__shards_drop_gradients(t, b, err) : STK_OK;
}

/* The open bucket has all that belongs to it. */
static stk_status close_bucket(stk_trainer *t, stk_error *err)
{
    stk__ranks *r = &t->ranks;
    const stk__gradient_bucket *b = &r->buckets[r->num_buckets++];
    uint64_t number;

    r->most = r->later;
    r->open = false;
    if (r->lists)
        return STK_OK;
    return r->early ? stk__overlap_give(t, STK__OVERLAP_REDUCE, b, &number, err)
                    : stk__reduce_bucket(t, b, err);
}

/* The bucket that it was shared out with. */
static const stk__gradient_bucket *shared_bucket(const stk__ranks *r,
                                                 const stk__gradient_piece *piece)
{
    return &r->shards.buckets[r->shards.places[piece->parameter].bucket];
}

/* What is shared out stays together, however much of it learns. */
static bool are_shared(const stk__ranks *r)
{
    return r->shards.stage || r->shards.halves;
}

/* Whether a piece may come into the open bucket. */
static bool fits(const stk__ranks *r, const stk__gradient_piece *piece)
{
    if (are_shared(r))
        return shared_bucket(r, piece) == shared_bucket(r, &r->pieces[r->num_pieces - 1]);
    return r->pieces[r->num_pieces - 1].dtype == piece->dtype &&
           r->buckets[r->num_buckets].bytes + piece->bytes <= r->most;
}

/* Whether the piece lies right below the one before it. */
static bool joins(const stk__gradient_piece *piece, const stk__gradient_piece *before)
{
    return piece->data + piece->bytes == before->data;
}

/* Numbers of a bucket are sent as those of one type. */
static stk_status fail_mixed(const stk_trainer *t, stk_dtype a, stk_dtype b, stk_error *err)
{
    return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                     "the module %s has gradients of %s and of %s for parameters of one type, and "
                     "ranks share out both: give them one type, or leave shard() out of its table",
                     t->ops.name, stk_dtype_name(a), stk_dtype_name(b));
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
    if (r->open && after && after->dtype != piece->dtype)
        return fail_mixed(t, after->dtype, piece->dtype, err);
    stk__gradient_bucket *b = &r->buckets[r->num_buckets];
    if (!r->open)
        *b = (stk__gradient_bucket){.first = r->num_pieces, .whole = true};
    else
        b->whole &= joins(piece, &r->pieces[r->num_pieces - 1]);
    r->open = true;
    r->pieces[r->num_pieces++] = *piece;
    b->bytes += piece->bytes;
    b->n++;
    /* No other fits, or comes: it need not be waited for. */
    const uint64_t all = are_shared(r) ? r->shards.places[piece->parameter].all : 0;
    const uint64_t most = all ? all * stk_dtype_size(piece->dtype) : r->most;
    return b->bytes >= most ? close_bucket(t, err) : STK_OK;
}

/* ---- A step ---- */

static void forget_pieces(stk_trainer *t)
{
    stk__ranks *r = &t->ranks;

    r->num_pieces = r->num_buckets = r->num_listed = 0;
    r->most = STK_MIN(FIRST_BUCKET, r->later);
    r->open = r->early = false;
}

bool stk__gradients_looked_at(const stk_trainer *t)
{
    return t->hooks.rows[STK__HOOK_on_after_backward].n || t->options.detect_anomaly;
}

stk_status stk__gradients_begin(stk_trainer *t, bool together, stk_error *err)
{
    stk__ranks *r = &t->ranks;

    if (stk__is_alone(t))
        return STK_OK;
    forget_pieces(t);
    STK_TRY(stk__shards_back(t, err));
    /* A module that shares its gradients out says when they are complete. */
    const bool says = r->says_done || r->shards.stage >= 2;
    /* On a device calls come from this thread, and are behind those of the pass in any case: they
     * come early where that gives memory back. */
    const bool may = t->host_memory ? r->strategy.any_thread : r->shards.stage >= 2;
    /* Hooks and detect_anomaly look at what this rank has computed. */
    if (!says || !t->at.steps || stk__gradients_looked_at(t))
        return STK_OK;
    /* A pass that speaks with the others itself may do so otherwise where it has no rows; but for
     * one that asks for its parameters, which then calls begin with (stk__shards_step()). */
    if (!r->shards.parted && (together || !may))
        return STK_OK;
    if (!r->shards.parted)
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
    if (!t->ranks.early || !piece.bytes)
        return STK_OK;
    const uint64_t from = stk__now_ns();
    const stk_status status = take_piece(t, &piece, err);
    t->ledger.comm_ns += stk__now_ns() - from;
    return status;
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
        stk__overlap_settle(t);
        forget_pieces(t);
        r->shards.scatters = step && r->shards.stage > 0;
    }
    r->num_listed = 0;
    stk_status status = t->ops.state(t->module, STK_STATE_GRADIENT, stk__list_piece, t, err);
    if (status == STK_OK)
        status = take_rest(t, err);
    if (r->early && status == STK_OK)
        status = stk__overlap_end(t, err);
    else
        stk__overlap_settle(t);
    /* The list stays, for who clips. */
    r->open = r->early = false;
    return status;
}

stk_status stk__list_buckets(stk_trainer *t, stk_error *err)
{
    t->ranks.num_pieces = t->ranks.num_buckets = 0;
    t->ranks.most = STK_MIN(FIRST_BUCKET, t->ranks.later);
    t->ranks.open = t->ranks.early = false;
    t->ranks.lists = true;
    const stk_status status = take_rest(t, err);
    t->ranks.lists = false;
    return status;
}
