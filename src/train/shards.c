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

bool stk__shards_wanted(const stk_trainer *t)
{
    return !stk__is_alone(t) && stage_of(t->options.strategy) > 0;
}

/* ---- Who has what ---------------------------------------------------------------------------- */

const uint64_t *stk__shard_counts(const stk_trainer *t, uint64_t elements)
{
    const uint64_t world = t->ranks.strategy.world_size;
    uint64_t *counts = t->ranks.shards.counts;

    for (uint64_t r = 0; r < world; r++)
        counts[r] = stk__part_from(elements, world, r + 1) - stk__part_from(elements, world, r);
    return counts;
}

/* What a rank has of a parameter. */
static stk_shard shard_of(const stk_trainer *t, size_t parameter, uint64_t rank)
{
    const stk__shard_place *p = &t->ranks.shards.places[parameter];
    const uint64_t world = t->ranks.strategy.world_size;

    return stk__shard_overlap(p->before, p->count, stk__part_from(p->all, world, rank),
                              stk__part_from(p->all, world, rank + 1));
}

bool stk__shard_whole(const stk_trainer *t, stk_state_kind kind, const stk_state_tensor *tensor,
                      stk_state_tensor *whole, size_t *parameter)
{
    *whole = *tensor;
    return t->ranks.shards.stage && t->ops.whole(t->module, kind, tensor, whole, parameter);
}

/* ---- Sharing out ----------------------------------------------------------------------------- */

void stk__shards_release(stk_trainer *t)
{
    stk__shards *s = &t->ranks.shards;

    stk__free(t->ctx, s->places);
    stk__free(t->ctx, s->own);
    stk__free(t->ctx, s->parameters);
    stk__free(t->ctx, s->buckets);
    stk__free(t->ctx, s->present);
    stk__free(t->ctx, s->counts);
    stk__free(t->ctx, s->parts);
    *s = (stk__shards){0};
}

static stk_status check(const stk_trainer *t, uint32_t stage, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    const char *name = t->options.strategy;

    if (!s->reduce_scatter || !s->all_gather)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "strategy", STK_NO_OFFSET,
                            "trainer.strategy: %s shares the training out, and ranks over %s have "
                            "no reduce_scatter() and all_gather(): train by ddp",
                            name, s->name);
    if (!t->ops.shard || !t->ops.whole || !t->host_memory)
        return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "strategy", STK_NO_OFFSET,
                            "trainer.strategy: %s shares the training out, and the module %s %s: "
                            "train it by ddp",
                            name, t->ops.name,
                            t->host_memory ? "cannot (shard() of its table)"
                                           : "has its tensors on a device");
    for (size_t i = 0; i < t->hooks.num_callbacks && stage == 3; i++)
        if (t->hooks.callbacks[i].ops.average)
            return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, "strategy", STK_NO_OFFSET,
                                "trainer.strategy: with %s no rank has whole parameters, which the "
                                "callback %s keeps means of: train by zero_2",
                                name, t->hooks.callbacks[i].ops.name);
    return STK_OK;
}

static stk_status count_one(void *user, stk_state_kind kind, const stk_state_tensor *tensor,
                            stk_error *err)
{
    ++*(size_t *)user;
    return STK_OK;
}

static stk_status take_memory(stk_trainer *t, stk_error *err)
{
    const stk__ranks *r = &t->ranks;
    stk__shards *s = &t->ranks.shards;

    s->places = stk__calloc(t->ctx, s->n + 1, sizeof *s->places);
    s->own = stk__calloc(t->ctx, s->n + 1, sizeof *s->own);
    s->parameters = stk__calloc(t->ctx, r->num_pieces + 1, sizeof *s->parameters);
    s->buckets = stk__calloc(t->ctx, r->num_buckets + 1, sizeof *s->buckets);
    s->present = stk__calloc(t->ctx, r->num_buckets + 1, sizeof *s->present);
    s->counts = stk__calloc(t->ctx, r->strategy.world_size, sizeof *s->counts);
    return s->places && s->own && s->parameters && s->buckets && s->present && s->counts
               ? STK_OK
               : stk__fail(err, STK_ENOMEM, STK_STAGE_TRAIN, "no memory for the list of shards");
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
    return STK_OK;
}

static stk_status share_out(stk_trainer *t, stk_error *err)
{
    stk__ranks *r = &t->ranks;
    stk__shards *s = &r->shards;

    r->num_listed = 0;
    STK_TRY(t->ops.state(t->module, STK_STATE_PARAMETER, stk__list_piece, t, err));
    STK_TRY(stk__list_buckets(t, err));
    STK_TRY(t->ops.state(t->module, STK_STATE_PARAMETER, count_one, &s->n, err));
    STK_TRY(take_memory(t, err));
    s->num_pieces = r->num_pieces;
    s->num_buckets = r->num_buckets;
    memcpy(s->parameters, r->pieces, r->num_pieces * sizeof *s->parameters);
    memcpy(s->buckets, r->buckets, r->num_buckets * sizeof *s->buckets);
    placing at = {.shards = s, .piece = s->num_pieces, .bucket = s->num_buckets};
    STK_TRY(t->ops.state(t->module, STK_STATE_PARAMETER, place_one, &at, err));
    for (size_t i = 0; i < s->n; i++)
        s->own[i] = shard_of(t, i, r->strategy.rank);
    return t->ops.shard(t->module, STK_STATE_OPTIMIZER, s->own, s->n, err);
}

stk_status stk__shards_begin(stk_trainer *t, stk_error *err)
{
    const uint32_t stage = stage_of(t->options.strategy);

    stk__shards_release(t);
    if (stage == 0 || t->at.task != STK_TASK_FIT || stk__is_alone(t))
        return STK_OK;
    STK_TRY(check(t, stage, err));
    STK_TRY(share_out(t, err));
    t->ranks.shards.stage = stage;
    return STK_OK;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static stk_status gather_bucket(stk_trainer *t, const stk__gradient_bucket *b, stk_error *err)
{
    const stk_strategy *s = &t->ranks.strategy;
    const stk__gradient_piece *pieces = t->ranks.shards.parameters;
    const stk__gradient_piece *lowest = &pieces[b->first + b->n - 1];
    const uint64_t *counts = stk__shard_counts(t, b->bytes / stk_dtype_size(lowest->dtype));

    if (b->whole)
        return s->all_gather(s->state, lowest->data, counts, lowest->dtype, NULL, err);
    STK_TRY(stk__need_bucket(t, b->bytes, err));
    STK_TRY(stk__move_bucket(t, pieces, b, false, err));
    STK_TRY(s->all_gather(s->state, t->ranks.bucket, counts, lowest->dtype, NULL, err));
    return stk__move_bucket(t, pieces, b, true, err);
}

stk_status stk__shards_gather(stk_trainer *t, stk_error *err)
{
    const stk__shards *s = &t->ranks.shards;

    for (size_t i = 0; i < s->num_buckets; i++)
        STK_TRY(gather_bucket(t, &s->buckets[i], err));
    return STK_OK;
}

/* ---- Pages ----------------------------------------------------------------------------------- */

void stk__shards_drop(const stk_trainer *t, const stk__gradient_piece *pieces,
                      const stk__gradient_bucket *b)
{
    const uint64_t world = t->ranks.strategy.world_size, rank = t->ranks.strategy.rank;
    const size_t size = stk_dtype_size(pieces[b->first].dtype);
    const uint64_t all = b->bytes / size;
    uint64_t before = 0;

    for (size_t i = b->first + b->n; i-- > b->first;) {
        const stk__gradient_piece *p = &pieces[i];
        const uint64_t count = stk__piece_elements(p);
        const stk_shard own = stk__shard_overlap(before, count, stk__part_from(all, world, rank),
                                                 stk__part_from(all, world, rank + 1));
        const uint64_t end = own.from + own.count;
        stk__give_pages_back(p->data, own.from * size);
        stk__give_pages_back(p->data + end * size, (count - end) * size);
        before += count;
    }
}

/* ---- Parameters in parts --------------------------------------------------------------------- */

static void drop_parameters(stk_trainer *t, size_t bucket)
{
    stk__shards *s = &t->ranks.shards;

    if (s->present[bucket])
        stk__shards_drop(t, s->parameters, &s->buckets[bucket]);
    s->present[bucket] = false;
}

static stk_status need_parameters(stk_trainer *t, size_t bucket, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;

    if (!s->present[bucket])
        STK_TRY(gather_bucket(t, &s->buckets[bucket], err));
    s->present[bucket] = true;
    return STK_OK;
}

stk_status stk__shards_part(stk_trainer *t, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;

    if (s->stage < 3)
        return STK_OK;
    STK_TRY(t->ops.shard(t->module, STK_STATE_OPTIMIZER | STK_STATE_PARAMETER, s->own, s->n, err));
    s->parted = true;
    for (size_t i = 0; i < s->num_buckets; i++) {
        s->present[i] = true;
        drop_parameters(t, i);
    }
    return STK_OK;
}

void stk__shards_let_go(stk_trainer *t)
{
    stk__shards *s = &t->ranks.shards;

    for (size_t i = 0; i < s->num_buckets && s->parted; i++)
        drop_parameters(t, i);
    s->held = false;
}

stk_status stk__shards_hold(stk_trainer *t, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;

    /* What is here may be older than what a rank has gone back to. */
    stk__shards_let_go(t);
    for (size_t i = 0; i < s->num_buckets && s->parted; i++)
        STK_TRY(need_parameters(t, i, err));
    s->held = s->parted;
    return STK_OK;
}

/* The module has whole parameters again. */
static stk_status make_whole(stk_trainer *t, bool together, stk_error *err)
{
    const stk__shards *s = &t->ranks.shards;

    if (together)
        STK_TRY(stk__shards_hold(t, err));
    else
        stk__message(t->ctx, STK_MESSAGE_WARNING,
                     "other ranks had parts of the parameters, and the training has failed: those "
                     "of this process are no longer whole; go on from a checkpoint");
    return t->ops.shard(t->module, STK_STATE_OPTIMIZER, s->own, s->n, err);
}

stk_status stk__shards_end(stk_trainer *t, bool together, stk_error *err)
{
    const stk_status status = t->ranks.shards.parted ? make_whole(t, together, err) : STK_OK;

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
                               size_t *first, size_t *last, stk_error *err)
{
    *first = s->num_buckets;
    *last = 0;
    for (size_t i = 0; i < n; i++) {
        size_t bucket = 0;
        if (parameters[i].bytes == 0)
            continue;
        if (!find_bucket(s, &parameters[i], &bucket))
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRAIN,
                             "'%s' is wanted, and was no parameter of the module's state",
                             parameters[i].name);
        *first = STK_MIN(*first, bucket);
        *last = STK_MAX(*last, bucket);
    }
    return STK_OK;
}

stk_status stk_trainer_parameters_wanted(stk_trainer *t, const stk_state_tensor *parameters,
                                         size_t n, stk_error *err)
{
    stk__shards *s = &t->ranks.shards;
    size_t first, last;

    STK_TRY(stk__context_check(t->ctx, err));
    if (!s->parted || s->held)
        return STK_OK;
    STK_TRY(find_buckets(s, parameters, n, &first, &last, err));
    if (first > last)
        return STK_OK;
    for (size_t i = 0; i < s->num_buckets; i++)
        if (i < first || i > last)
            drop_parameters(t, i);
    for (size_t i = first; i <= last; i++)
        STK_TRY(need_parameters(t, i, err));
    return STK_OK;
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
        const stk_shard shard = shard_of(t, parameter, r);
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
