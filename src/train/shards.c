/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that share a training out: ZeRO over the buckets of gradients. A rank owns an equal part of
 * every bucket, so that all of them send and add as much, and the optimizer's moments of its parts
 * alone. It gets the gradients of those, steps them, and then every rank gets what the others have
 * stepped. An element is added up by one rank in the order of ranks, as without shards, and stepped
 * by itself: nothing has other bits than by ddp.
 */
#include <inttypes.h>

#include "train/trainer.h"

/* Stage of ZeRO that a name of a strategy stands for; 0: none. */
static uint32_t stage_of(const char *strategy)
{
    static const char *const names[] = {"zero_1", "zero_2", "zero_3"};

    for (uint32_t i = 0; i < STK_COUNT(names); i++)
        if (strcmp(strategy, names[i]) == 0)
            return i + 1;
    return strcmp(strategy, "fsdp") == 0 ? (uint32_t)STK_COUNT(names) : 0;
}

uint32_t stk__shards_stage(const stk_trainer *t)
{
    return stk__is_alone(t) ? 0 : stage_of(t->options.strategy);
}

/* ---- Sharing out ----------------------------------------------------------------------------- */

void stk__shards_release(stk_trainer *t)
{
    stk__shards *s = &t->ranks.shards;

    stk__overlap_settle(t);
    stk__free(t->ctx, s->places);
    stk__free(t->ctx, s->own);
    stk__free(t->ctx, s->parameters);
    stk__free(t->ctx, s->buckets);
    stk__free(t->ctx, s->present);
    stk__free(t->ctx, s->asked);
    stk__free(t->ctx, s->here);
    stk__free(t->ctx, s->gradients);
    stk__free(t->ctx, s->order);
    stk__free(t->ctx, s->counts);
    stk__free(t->ctx, s->parts);
    *s = (stk__shards){0};
}

static stk_status check(const stk_trainer *t, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    const char *name = t->options.strategy;

    if (!s->reduce_scatter || !s->all_gather)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "strategy", STK_NO_OFFSET,
                            "trainer.strategy: %s shares the training out, and ranks over %s have "
                            "no reduce_scatter() and all_gather(): train by ddp",
                            name, s->name);
    if (!t->ops.shard || !t->ops.whole)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "strategy", STK_NO_OFFSET,
                            "trainer.strategy: %s shares the training out, and the module %s "
                            "cannot (shard() of its table): train it by ddp",
                            name, t->ops.name);
    if (stage_of(name) >= 2 && !t->ranks.device.give_back)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "strategy", STK_NO_OFFSET,
                            "trainer.strategy: %s keeps no memory for what other ranks have, and "
                            "the device '%s' cannot do without (give_back() of its table): train "
                            "by zero_1",
                            name, t->device->ops->name);
    return STK_OK;
}

static stk_status count_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                            stk_error *err)
{
    ++*(size_t *)user;
    return STK_OK;
}

static stk_status name_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                           stk_error *err)
{
    stk__shards *s = user;

    s->places[s->n++].name = stk__shard_hash(tensor->name);
    return STK_OK;
}

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the list of shards");
}

static stk_status take_names(stk_trainer *t, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;
    size_t n = 0;

    STK_TRY(t->ops.state(t->module, STK_STATE_PARAMETER, count_one, &n, err));
    s->places = stk__calloc(t->ctx, n + 1, sizeof *s->places);
    s->own = stk__calloc(t->ctx, n + 1, sizeof *s->own);
    if (!s->places || !s->own)
        return no_memory(err);
    return t->ops.state(t->module, STK_STATE_PARAMETER, name_one, s, err);
}

static stk_status take_memory(stk_trainer *t, stk_error *err)
{
    const stk__ranks *r = &t->ranks;
    stk__shards *s = &t->ranks.shards;

    s->parameters = stk__calloc(t->ctx, r->num_pieces + 1, sizeof *s->parameters);
    s->buckets = stk__calloc(t->ctx, r->num_buckets + 1, sizeof *s->buckets);
    s->present = stk__calloc(t->ctx, r->num_buckets + 1, sizeof *s->present);
    s->asked = stk__calloc(t->ctx, r->num_buckets + 1, sizeof *s->asked);
    s->here = stk__calloc(t->ctx, r->num_buckets + 1, sizeof *s->here);
    s->counts = stk__calloc(t->ctx, r->strategy.world_size, sizeof *s->counts);
    const bool all = s->parameters && s->buckets && s->present && s->asked && s->here && s->counts;
    return all ? STK_OK : no_memory(err);
}

/* A visitor: the places of parameters in the order of state(), whose last one is piece 0. */
typedef struct placing {
    stk__shards *shards;
    size_t parameter, piece, bucket; /* the next; those behind the next */
} placing;

/* A bucket has its lowest piece, the last one, first. */
static stk_status place_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                            stk_error *err)
{
    placing *at = user;
    stk__shards *s = at->shards;
    stk__shard_place *place = &s->places[at->parameter++];

    if (tensor->bytes == 0)
        return STK_OK;
    at->piece--;
    if (at->piece < s->buckets[at->bucket - 1].first)
        at->bucket--;
    const stk__gradient_bucket *b = &s->buckets[at->bucket - 1];
    for (size_t i = b->first + b->n - 1; i > at->piece; i--)
        place->before += stk__piece_elements(&s->parameters[i]);
    place->count = stk__piece_elements(&s->parameters[at->piece]);
    place->all = b->bytes / stk_dtype_size(tensor->dtype);
    place->bucket = at->bucket - 1;
    return STK_OK;
}

static stk_status share_out(stk_trainer *t, stk_error *err)
{
    stk__ranks *r = &t->ranks;
    stk__shards *s = &r->shards;

    STK_TRY(take_names(t, err));
    r->num_listed = 0;
    STK_TRY(t->ops.state(t->module, STK_STATE_PARAMETER, stk__list_piece, t, err));
    STK_TRY(stk__list_buckets(t, err));
    STK_TRY(take_memory(t, err));
    s->num_pieces = r->num_pieces;
    s->num_buckets = r->num_buckets;
    memcpy(s->parameters, r->pieces, r->num_pieces * sizeof *s->parameters);
    memcpy(s->buckets, r->buckets, r->num_buckets * sizeof *s->buckets);
    placing at = {.shards = s, .piece = s->num_pieces, .bucket = s->num_buckets};
    STK_TRY(t->ops.state(t->module, STK_STATE_PARAMETER, place_one, &at, err));
    for (size_t i = 0; i < s->n; i++)
        s->own[i] = stk__shard_of(t, i, r->strategy.rank);
    return STK_OK;
}

/* One order of sums wherever gradients lie: who clips by ddp does so by the same places. */
static bool clips(const stk_trainer *t)
{
    return t->options.gradient_clip_val > 0 && t->ops.shard;
}

/* NCCL's sums of all have other orders than those of parts. */
static bool has_halves(const stk_trainer *t)
{
    const stk_strategy *s = &t->ranks.strategy;

    return !t->host_memory && t->ops.shard && s->reduce_scatter && s->all_gather;
}

stk_status stk__shards_begin(stk_trainer *t, stk_error *err)
{
    const uint32_t stage = stk__shards_stage(t);
    stk__shards *s = &t->ranks.shards;

    stk__shards_release(t);
    if (t->at.task != STK_TASK_FIT || stk__is_alone(t) ||
        (stage == 0 && !clips(t) && !has_halves(t)))
        return STK_OK;
    if (stage)
        STK_TRY(check(t, err));
    STK_TRY(share_out(t, err));
    s->stage = stage;
    s->halves = has_halves(t);
    s->returns = stage >= 2 && !t->host_memory;
    return stage ? t->ops.shard(t->module, STK_STATE_OPTIMIZER, s->own, s->n, err) : STK_OK;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

stk_status stk__gather_bucket(stk_trainer *t, const stk__gradient_bucket *b, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    const stk__gradient_piece *pieces = t->ranks.shards.parameters;
    const stk__gradient_piece *lowest = &pieces[b->first + b->n - 1];

    if (t->ranks.shards.parted)
        STK_TRY(stk__shards_take(t, pieces, b, err));
    if (!stk__parts_in_place(t, pieces, b))
        return stk__send_parts(t, pieces, b, false, true, false, err);
    return s->all_gather(s->state, lowest->data, stk__shard_counts(t, pieces, b), lowest->dtype,
                         stk__ranks_stream(t), err);
}

stk_status stk__shards_gather(stk_trainer *t, stk_error *err)
{
    const stk__ranks *r = &t->ranks;

    for (size_t i = 0; i < r->num_buckets; i++) {
        const stk__gradient_piece *piece = &r->pieces[r->buckets[i].first];
        const size_t bucket = r->shards.places[piece->parameter].bucket;
        STK_TRY(stk__gather_bucket(t, &r->shards.buckets[bucket], err));
    }
    return STK_OK;
}

/* ---- Parameters in parts --------------------------------------------------------------------- */

/* What is on its way comes first. */
static stk_status drop_parameters(stk_trainer *t, size_t bucket, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;
    stk_error ignored;

    if (!s->present[bucket])
        return STK_OK;
    /* A failure is that of whoever needs it, or of the pass. */
    (void)stk__overlap_wait(t, s->asked[bucket], &ignored);
    s->present[bucket] = false;
    return stk__shards_drop(t, s->parameters, &s->buckets[bucket], err);
}

/* Have it brought, while the trainer's thread goes on. */
static stk_status ask_for(stk_trainer *t, size_t bucket, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;

    if (s->present[bucket])
        return STK_OK;
    s->present[bucket] = true;
    return stk__overlap_give(t, STK__OVERLAP_GATHER, &s->buckets[bucket], &s->asked[bucket], err);
}

static stk_status part_parameters(stk_trainer *t, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;

    STK_TRY(t->ops.shard(t->module, STK_STATE_OPTIMIZER | STK_STATE_PARAMETER, s->own, s->n, err));
    s->parted = true;
    for (size_t i = 0; i < s->num_buckets; i++)
        STK_TRY(stk__shards_drop(t, s->parameters, &s->buckets[i], err));
    return stk__shards_let_go(t, err);
}

stk_status stk__shards_part(stk_trainer *t, stk_error *err)
{
    const stk__shards *s = &t->ranks.shards;

    if (s->stage == 3)
        STK_TRY(part_parameters(t, err));
    if (s->stage < 3 && !s->returns)
        return STK_OK;
    /* Those of a window that goes on are whole. */
    return t->loop.window_open ? stk__shards_keep_gradients(t, err)
                               : stk__shards_part_gradients(t, err);
}

stk_status stk__shards_let_go(stk_trainer *t, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;

    s->held = false;
    s->hand = (stk__bucket_range){1, 0};
    for (size_t i = 0; i < s->num_buckets && s->parted; i++)
        STK_TRY(drop_parameters(t, i, err));
    return STK_OK;
}

stk_status stk__shards_hold(stk_trainer *t, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;

    /* What is here may be older than what a rank has gone back to. */
    STK_TRY(stk__shards_let_go(t, err));
    for (size_t i = 0; i < s->num_buckets && s->parted; i++) {
        s->present[i] = true;
        s->asked[i] = 0;
        STK_TRY(stk__gather_bucket(t, &s->buckets[i], err));
    }
    s->held = s->parted;
    return STK_OK;
}

stk_status stk__shards_step(stk_trainer *t, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;

    s->asks = false;
    if (!s->parted)
        return STK_OK;
    s->at = 0;
    STK_TRY(stk__overlap_begin(t, err));
    /* Of a batch that was left out, parameters may be here still. */
    return stk__shards_let_go(t, err);
}

stk_status stk__shards_back(stk_trainer *t, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;

    STK_TRY(stk__shards_list_gradients(t, err));
    s->back = s->returns;
    return s->asks ? STK_OK : stk__shards_take_all_gradients(t, err);
}

stk_status stk__shards_passed(stk_trainer *t, bool last, stk_status status, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;
    stk_error own;

    if (status != STK_OK)
        stk__overlap_settle(t);
    /* Gradients may be on their way, and are waited for before they are needed. */
    else if (s->parted && !t->ranks.early)
        status = stk__overlap_end(t, err);
    if (!last)
        return status;
    s->back = false;
    if (status == STK_OK)
        s->num_order = s->at;
    stk_error_init(&own);
    status = stk__first_failure(status, stk__shards_let_go(t, &own), &own, err);
    if (status != STK_OK || !stk__gradients_looked_at(t))
        return status;
    return stk__shards_take_all_gradients(t, err);
}

/* The module has whole parameters again. */
static stk_status make_whole(stk_trainer *t, bool together, stk_error *err)
{
    const stk__shards *s = &t->ranks.shards;

    if (together)
        STK_TRY(stk__shards_hold(t, err));
    else if (t->begun)
        stk__message(t->ctx, STK_MESSAGE_WARNING,
                     "other ranks had parts of the parameters, and the training has failed: those "
                     "of this process are no longer whole; go on from a checkpoint");
    return t->ops.shard(t->module, STK_STATE_OPTIMIZER, s->own, s->n, err);
}

stk_status stk__shards_end(stk_trainer *t, bool together, stk_error *err)
{
    stk_status status = t->ranks.shards.parted ? make_whole(t, together, err) : STK_OK;
    stk_error own;

    stk_error_init(&own);
    status = stk__first_failure(status, stk__shards_take_all(t, &own), &own, err);
    stk__shards_release(t);
    return status;
}

/* The bucket of a parameter; false: it is none. */
static bool find_bucket(const stk__shards *s, const stk_state_tensor *parameter, size_t *bucket)
{
    for (size_t b = 0; b < s->num_buckets; b++)
        for (size_t i = 0; i < s->buckets[b].n; i++)
            if (s->parameters[s->buckets[b].first + i].data == parameter->data) {
                *bucket = b;
                return true;
            }
    return false;
}

/* Layers lie one behind the other, so those of one are in one bucket or in neighbours. */
static stk_status find_buckets(const stk__shards *s, const stk_state_tensor *parameters, size_t n,
                               stk__bucket_range *found, stk_error *err)
{
    *found = (stk__bucket_range){s->num_buckets, 0};
    for (size_t i = 0; i < n; i++) {
        size_t bucket = 0;
        if (parameters[i].bytes == 0)
            continue;
        if (!find_bucket(s, &parameters[i], &bucket))
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                             "'%s' is wanted, and was no parameter of the module's state",
                             parameters[i].name);
        found->first = STK_MIN(found->first, bucket);
        found->last = STK_MAX(found->last, bucket);
    }
    return STK_OK;
}

static bool is_in(stk__bucket_range r, size_t bucket)
{
    return r.first <= bucket && bucket <= r.last;
}

/* A layer of these buckets is at work. All ranks note the same, and so expect the same. */
static stk_status note_order(stk_trainer *t, stk__bucket_range layer, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;
    const stk__bucket_range before = s->hand;

    s->hand = layer;
    if (is_in(before, layer.first) && is_in(before, layer.last))
        return STK_OK;
    stk__bucket_range *order =
        stk__grow(t->ctx, s->order, &s->order_room, s->at + 1, sizeof *order);
    if (!order)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the order of layers");
    s->order = order;
    /* What followed the last time may not, from here on. */
    if (s->at >= s->num_order || order[s->at].first != layer.first ||
        order[s->at].last != layer.last)
        s->num_order = s->at + 1;
    order[s->at++] = layer;
    return STK_OK;
}

/* Of the next layer that wants others than are at hand; with no thread none come before it. */
static stk__bucket_range next_range(const stk_trainer *t)
{
    const stk__shards *s = &t->ranks.shards;

    return t->ranks.overlap && s->at < s->num_order ? s->order[s->at] : (stk__bucket_range){1, 0};
}

/* At no moment more parameters are here than of a layer's buckets and of the next one's. And no
 * more gradients than of a layer's and of the one's before: what is waited for was asked for when
 * that one began, behind all gradients that were complete by then. */
static stk_status bring(stk_trainer *t, stk__bucket_range layer, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;

    STK_TRY(note_order(t, layer, err));
    const stk__bucket_range next = next_range(t);
    for (size_t i = 0; i < s->num_buckets; i++)
        if (!is_in(layer, i) && !is_in(next, i))
            STK_TRY(drop_parameters(t, i, err));
    for (size_t i = layer.first; i <= layer.last; i++)
        STK_TRY(ask_for(t, i, err));
    for (size_t i = next.first; i <= next.last; i++)
        STK_TRY(ask_for(t, i, err));
    for (size_t i = layer.first; i <= layer.last; i++)
        STK_TRY(stk__overlap_wait(t, s->asked[i], err));
    return STK_OK;
}

stk_status stk_trainer_parameters_wanted(stk_trainer *t, const stk_state_tensor *parameters,
                                         size_t n, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;
    const uint64_t from = stk__now_ns();
    stk_status status = STK_OK;
    stk__bucket_range layer;

    STK_TRY(stk__context_check(t->ctx, err));
    const bool parted = s->parted && !s->held;
    s->asks = true;
    if (!parted && !s->back)
        return STK_OK;
    STK_TRY(find_buckets(s, parameters, n, &layer, err));
    if (layer.first > layer.last)
        return STK_OK;
    if (parted)
        status = bring(t, layer, err);
    for (size_t i = layer.first; i <= layer.last && s->back && status == STK_OK; i++)
        status = stk__shards_take_gradients(t, i, err);
    t->ledger.comm_ns += stk__now_ns() - from;
    return status;
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

#define BROUGHT (UINT64_C(4) << 20) /* bytes that are put together at a time */

/* Elements [from, from + n) of a parameter's tensor, in `aside`. */
static stk_status bring_piece(stk_trainer *t, const stk_state_tensor *part, size_t parameter,
                              uint64_t from, uint64_t n, char *aside, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    uint64_t *counts = t->ranks.shards.counts, before = 0;
    const size_t size = stk_dtype_size(part->dtype);

    for (uint64_t r = 0; r < s->world_size; r++) {
        const stk_shard shard = stk__shard_of(t, parameter, r);
        const stk_shard here = stk__shard_overlap(shard.from, shard.count, from, from + n);
        counts[r] = here.count;
        if (r == s->rank)
            memcpy(aside + before * size, (const char *)part->data + here.from * size,
                   here.count * size);
        before += here.count;
    }
    return s->all_gather(s->state, aside, counts, part->dtype, NULL, err);
}

stk_status stk__shards_bring(stk_trainer *t, const stk_state_tensor *part, size_t parameter,
                             void *out, stk_error *err)
{
    const uint64_t count = t->ranks.shards.places[parameter].count;
    const size_t size = stk_dtype_size(part->dtype);
    const uint64_t most = BROUGHT / size;
    stk_status status = STK_OK;

    char *aside = stk__alloc_buffer(t->ctx, (size_t)(STK_MIN(count, most) * size));
    if (!aside)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for parts of '%s'",
                         part->name);
    for (uint64_t from = 0; from < count && status == STK_OK; from += most) {
        const uint64_t n = STK_MIN(count - from, most);
        status = bring_piece(t, part, parameter, from, n, aside, err);
        if (status == STK_OK && out)
            memcpy((char *)out + from * size, aside, n * size);
    }
    stk__free(t->ctx, aside);
    return status;
}
