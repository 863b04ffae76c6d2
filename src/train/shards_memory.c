/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of gradients and parameters that a rank does without. The system gives pages that are
 * touched again by itself. A device has to be asked: for parameters before they are gathered, for
 * gradients before the pass of their layer, where the module says which layer that is, and else
 * before all of the pass.
 */
#include "train/trainer.h"

/* ---- Ranges ---------------------------------------------------------------------------------- */

/* What is to be done with memory that lies in one piece. */
typedef struct stretch {
    const stk_trainer *t;
    enum { RUN_GIVE, RUN_TAKE, RUN_ZERO } what; /* RUN_ZERO: take it, and fill it */
    char *data;
    uint64_t bytes;
} stretch;

static stk_status end_run(stretch *run, stk_error *err)
{
    const stk_device_ops *d = &run->t->ranks.device;
    stk_stream *stream = run->t->stream;
    const uint64_t bytes = run->bytes;

    run->bytes = 0;
    if (bytes == 0)
        return STK_OK;
    if (run->what == RUN_GIVE)
        return d->give_back(stream, run->data, bytes, err);
    STK_TRY(d->take_back(stream, run->data, bytes, err));
    return run->what == RUN_ZERO ? d->fill(stream, run->data, 0, bytes, err) : STK_OK;
}

/* Memory comes from above: what lies right below the run belongs to it. */
static stk_status add_to_run(stretch *run, char *data, uint64_t bytes, stk_error *err)
{
    if (bytes == 0)
        return STK_OK;
    if (!run->bytes || data + bytes != run->data)
        STK_TRY(end_run(run, err));
    run->data = data;
    run->bytes += bytes;
    return STK_OK;
}

/* What of a piece other ranks have. */
static stk_status add_piece(stretch *run, const stk__gradient_piece *p, stk_error *err)
{
    const size_t size = stk_dtype_size(p->dtype);
    const stk_shard own = run->t->ranks.shards.own[p->parameter];
    const uint64_t end = own.from + own.count;

    STK_TRY(add_to_run(run, p->data + end * size, p->bytes - end * size, err));
    return add_to_run(run, p->data, own.from * size, err);
}

static stk_status do_bucket(stretch *run, const stk__gradient_piece *pieces,
                            const stk__gradient_bucket *b, stk_error *err)
{
    for (size_t i = b->first; i < b->first + b->n; i++)
        STK_TRY(add_piece(run, &pieces[i], err));
    return end_run(run, err);
}

stk_status stk__shards_drop(const stk_trainer *t, const stk__gradient_piece *pieces,
                            const stk__gradient_bucket *b, stk_error *err)
{
    return do_bucket(&(stretch){.t = t, .what = RUN_GIVE}, pieces, b, err);
}

stk_status stk__shards_take(const stk_trainer *t, const stk__gradient_piece *pieces,
                            const stk__gradient_bucket *b, stk_error *err)
{
    return do_bucket(&(stretch){.t = t, .what = RUN_TAKE}, pieces, b, err);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

stk_status stk__shards_drop_gradients(stk_trainer *t, const stk__gradient_bucket *b, stk_error *err)
{
    const stk__ranks *r = &t->ranks;
    const stk__shards *s = &r->shards;

    if (s->returns)
        s->here[s->places[r->pieces[b->first].parameter].bucket] = false;
    return stk__shards_drop(t, r->pieces, b, err);
}

stk_status stk__shards_list_gradients(stk_trainer *t, stk_error *err)
{
    stk__ranks *r = &t->ranks;
    stk__shards *s = &r->shards;

    if (!s->returns)
        return STK_OK;
    r->num_listed = 0;
    STK_TRY(t->ops.state(t->module, STK_STATE_GRADIENT, stk__list_piece, t, err));
    stk__gradient_piece *list =
        stk__grow(t->ctx, s->gradients, &s->gradient_room, r->num_listed + 1, sizeof *list);
    if (!list)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the gradients' list");
    s->gradients = list;
    s->num_gradients = 0;
    for (size_t i = 0; i < r->num_listed; i++) {
        list[i] = r->listed[r->num_listed - 1 - i];
        STK_TRY(stk__shard_place_piece(t, i ? &list[i - 1] : NULL, &list[i], err));
        s->num_gradients++;
    }
    return STK_OK;
}

/* Where none of it is shown now, what will be may lack its memory. */
static void mark_here(stk__shards *s, size_t bucket)
{
    for (size_t i = 0; i < s->num_gradients; i++)
        s->here[bucket] |= s->places[s->gradients[i].parameter].bucket == bucket;
}

stk_status stk__shards_keep_gradients(stk_trainer *t, stk_error *err)
{
    STK_TRY(stk__shards_list_gradients(t, err));
    for (size_t i = 0; i < t->ranks.shards.num_buckets; i++)
        mark_here(&t->ranks.shards, i);
    return STK_OK;
}

stk_status stk__shards_take_gradients(stk_trainer *t, size_t bucket, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;
    stretch run = {.t = t, .what = RUN_ZERO};

    if (s->here[bucket])
        return STK_OK;
    for (size_t i = 0; i < s->num_gradients; i++)
        if (s->places[s->gradients[i].parameter].bucket == bucket)
            STK_TRY(add_piece(&run, &s->gradients[i], err));
    STK_TRY(end_run(&run, err));
    mark_here(s, bucket);
    return STK_OK;
}

stk_status stk__shards_take_all_gradients(stk_trainer *t, stk_error *err)
{
    for (size_t i = 0; i < t->ranks.shards.num_buckets && t->ranks.shards.returns; i++)
        STK_TRY(stk__shards_take_gradients(t, i, err));
    return STK_OK;
}

stk_status stk__shards_part_gradients(stk_trainer *t, stk_error *err)
{
    stk__ranks *r = &t->ranks;

    r->num_listed = 0;
    STK_TRY(t->ops.state(t->module, STK_STATE_GRADIENT, stk__list_piece, t, err));
    STK_TRY(stk__list_buckets(t, err));
    for (size_t i = 0; i < r->num_buckets; i++)
        STK_TRY(stk__shards_drop_gradients(t, &r->buckets[i], err));
    return STK_OK;
}

stk_status stk__shards_zero(stk_trainer *t, stk_error *err)
{
    const stk__shards *s = &t->ranks.shards;

    STK_TRY(stk__shards_list_gradients(t, err));
    for (size_t i = 0; i < s->num_gradients; i++) {
        const stk__gradient_piece *p = &s->gradients[i];
        const size_t size = stk_dtype_size(p->dtype);
        const bool whole = s->here[s->places[p->parameter].bucket];
        const stk_shard what =
            whole ? (stk_shard){0, stk__piece_elements(p)} : s->own[p->parameter];
        if (what.count)
            STK_TRY(t->ranks.device.fill(t->stream, p->data + what.from * size, 0,
                                         what.count * size, err));
    }
    return STK_OK;
}

/* What was in it is lost, but where it was gathered. The first failure counts. */
stk_status stk__shards_take_all(stk_trainer *t, stk_error *err)
{
    const stk__shards *s = &t->ranks.shards;
    stk_error own;

    if (!s->returns)
        return STK_OK;
    stk_error_init(&own);
    stk_status status = stk__shards_list_gradients(t, err);
    for (size_t i = 0; i < s->num_buckets && s->parted; i++) {
        const stk_status one = stk__shards_take(t, s->parameters, &s->buckets[i], &own);
        status = stk__first_failure(status, one, &own, err);
    }
    return stk__first_failure(status, stk__shards_take_all_gradients(t, &own), &own, err);
}
