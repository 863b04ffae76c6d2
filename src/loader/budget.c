/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the memory budget is divided. What one worker and two batches need, one of them with the
 * consumer, is taken first. The rest is what one sample may take: more is a bad sample, whatever
 * the number of workers, the depth, the cache. At first half of it, or as much as samples were seen
 * to need, is kept for the pool; all that makes a loader faster, more workers, batches, records of
 * steps, the cache, shares the other half. A sample that wants more of the pool than that has the
 * budget divided anew (widen.c).
 */
#include "loader/budget.h"

#include <inttypes.h>

#include "loader/pool.h"
#include "loader/steps.h"

#define LEAST_POOL     (UINT64_C(256) << 10) /* for reads, where there are any */
#define LEAST_CACHE    (UINT64_C(512) << 10)
#define MOST_STEPS     4096u                 /* planned ahead */
#define PROBES         16u                   /* samples that are asked what they need */
#define LEAST_DECODING (UINT64_C(256) << 10) /* of one thread */
#define MOST_DECODING  (UINT64_C(4) << 20)
#define RAGGED_HEAD    1024u /* of the buffer of a batch's ragged values, and its rounding */
#define SPARE_SHARE    4     /* of the room for workers is for spare ones at most a quarter */
#define WIDEN_STEPS    16    /* from half of the budget to all of it */

/* ---- What samples need ---- */

uint64_t stk__read_cost(uint64_t length)
{
    return length > INT64_MAX / 4 ? UINT64_MAX / 4 : length + length / 4 + 5 * STK_CACHE_LINE;
}

uint64_t stk__need_most(const stk_need *need)
{
    if (need->length == 0)
        return 0;
    return stk__read_cost(need->length) + (need->decoded ? stk__pool_cost(need->decoded) : 0);
}

typedef struct counter {
    stk_locator seam;
    uint64_t needs, decoded, cost;
} counter;

static stk_status count_need(stk_locator *seam, size_t i, const stk_need *need)
{
    counter *c = (counter *)seam;

    (void)i;
    c->needs++;
    c->decoded = need->decoded;
    c->cost += STK_MIN(stk__need_most(need), UINT64_MAX / 4 - c->cost);
    return STK_OK;
}

/* What some samples need: the most needs of one, and the least and most that one reads. */
static void probe(stk_dataset *dataset, uint64_t *needs, uint64_t *least, uint64_t *most)
{
    counter c = {.seam = stk__locator_of_needs(count_need)};

    *needs = 1;
    *least = UINT64_MAX;
    *most = 0;
    for (uint64_t i = 0; i < PROBES && dataset->ops->locate && dataset->size; i++) {
        uint64_t index = (dataset->size - 1) / (PROBES - 1) * i;
        c.needs = c.cost = 0;
        if (dataset->ops->locate(dataset, &index, 1, &c.seam, NULL) != STK_OK)
            continue;
        *needs = STK_MAX(*needs, c.needs);
        *least = STK_MIN(*least, c.cost);
        *most = STK_MAX(*most, c.cost);
    }
    if (*least == UINT64_MAX)
        *least = 0;
}

uint64_t stk__budget_reads(const stk__budget *b, uint64_t index)
{
    counter c = {.seam = stk__locator_of_needs(count_need)};
    stk_dataset *dataset = b->dataset;

    return dataset->ops->locate && dataset->ops->locate(dataset, &index, 1, &c.seam, NULL) == STK_OK
               ? c.cost
               : 0;
}

uint64_t stk__budget_blobs(const stk__budget *b)
{
    counter c = {.seam = stk__locator_of_needs(count_need)};
    stk_dataset *dataset = b->dataset;

    if (!dataset->ops->locate ||
        dataset->ops->locate(dataset, &(uint64_t){0}, 1, &c.seam, NULL) != STK_OK)
        return dataset->size;
    uint64_t most = dataset->size * STK_MAX(c.needs, 1);
    if (b->caches_decoded && c.decoded)
        most = STK_MIN(most, 2 * (b->now.cache / c.decoded) + 16);
    return most;
}

/* ---- Parts ---- */

static uint64_t step_bytes(const stk__budget *b, uint64_t needs)
{
    uint64_t row = sizeof(stk__row) + 2 * sizeof(uint64_t) + sizeof(uint32_t) +
                   3 * b->ragged * sizeof(uint64_t);

    /* The arrays of needs double as they grow; those of a dataset that does not decode are one. */
    if (b->dataset->ops->locate)
        row += 2 * (b->dataset->ops->decode ? needs : 1) *
               (sizeof(stk__need_entry) + sizeof(stk_slice));
    return sizeof(stk__step) + b->row_room * row;
}

/* What depends on the budget itself. Decoders of photographs take a few hundred kilobytes. */
static void set_budget(stk__budget *b, uint64_t budget)
{
    b->decode_each = STK_MIN(STK_MAX(budget / 32, LEAST_DECODING), MOST_DECODING);
    b->decode_most = STK_MAX(budget / 8, b->decode_each);
    if (!b->decodes)
        b->decode_each = b->decode_most = 0;
    b->base =
        b->fixed + 2 * (b->worker + b->decode_each) + b->decode_most + 2 * (b->slab + b->step);
}

static void measure_parts(stk__budget *b)
{
    stk_dataset *dataset = b->dataset;
    uint64_t needs;

    probe(dataset, &needs, &b->row, &b->most_read);
    for (uint32_t f = 0; f < dataset->num_fields; f++)
        if (dataset->fields[f].layout != STK_FIXED) /* those of one size fit all or none */
            b->row = 0;
    b->step = step_bytes(b, needs);
    b->reads = dataset->ops->locate || b->ragged || b->decodes;
    b->now = (stk__shares){.workers = b->workers, .slabs = b->depth + 1};
}

/* What the pool has at least, of which decoding takes what is beyond its own room, so that no
 * sample as those that were seen waits for more: reads take one half of it where ragged values take
 * the other. */
static uint64_t pool_share(const stk__budget *b)
{
    const uint64_t probed = b->ragged ? 2 * b->most_read : b->most_read,
                   seen = STK_MAX(probed <= b->rest ? probed : 0, b->wide);

    return !b->reads ? 0 : STK_MAX(b->rest / 2, STK_MIN(seen, b->rest));
}

/* What has to be left after the base: room for a sample, and for a cache. */
static uint64_t least_rest(const stk__budget *b)
{
    const uint64_t least = b->reads ? STK_MAX(2 * LEAST_POOL, b->row) : 0;
    /* Half of what a sample leaves is for a cache. */
    const uint64_t cache =
        STK_MIN(16 * LEAST_CACHE, STK_MAX(4 * LEAST_CACHE, b->most_read + 2 * LEAST_CACHE));
    return b->caches ? STK_MAX(least, cache) : least;
}

/* The least budget that is enough, whatever the number of workers. Decoding grows with the budget,
 * by less than a fifth: so this ends. */
static uint64_t least_budget(stk__budget *b)
{
    uint64_t least = 0, next;

    for (set_budget(b, 0); (next = b->base + least_rest(b)) > least;) {
        least = next;
        set_budget(b, least);
    }
    return least;
}

uint64_t stk__budget_horizon(const stk__budget *b)
{
    const stk__order *order = b->order;
    uint64_t ahead = 0;

    if (!b->dataset->ops->locate)
        return 0;
    ahead = 4 * (uint64_t)b->io_depth / b->row_room + 1;
    if (order->shuffle == STK_SHUFFLE_BLOCK)
        ahead = STK_MAX(
            ahead,
            order->block_size * order->buffer_blocks * order->streams / order->global_batch + 1);
    return ahead;
}

/* ---- Division ---- */

/* More workers than one, of which the caller's thread is none, as far as `room` goes; and where
 * their number moves, spare ones of a part of what is left. */
static uint64_t take_workers(const stk__budget *b, uint64_t room, stk__shares *out)
{
    const uint64_t each = STK_MAX(b->worker + b->decode_each, UINT64_C(1));
    const uint32_t wanted = b->now.workers;

    out->workers = wanted;
    if (wanted == 0)
        return 0;
    out->workers = (uint32_t)STK_MIN(wanted - 1, room / each) + 1;
    if (out->workers < wanted && !b->silent)
        stk__message(b->ctx, STK_MESSAGE_WARNING,
                     "memory_budget %" PRIu64 " holds %u workers instead of %u, at %" PRIu64
                     " bytes each",
                     b->bytes, out->workers, b->workers, each);
    const uint64_t used = (out->workers - 1) * each;
    out->spare = (uint32_t)STK_MIN(b->spare, (room - used) / SPARE_SHARE / each);
    return used + out->spare * each;
}

/* Batches beyond two, then records of steps ahead of them. */
static uint64_t take_steps(const stk__budget *b, uint64_t room, stk__shares *out)
{
    const uint64_t batch = b->slab + b->step;

    out->slabs = 2 + (uint32_t)STK_MIN(b->now.slabs - UINT64_C(2), room / batch);
    if (out->slabs < b->now.slabs && !b->silent)
        stk__message(b->ctx, STK_MESSAGE_INFO,
                     "memory_budget %" PRIu64
                     " holds %u batches ahead instead of the %u of prefetch_factor",
                     b->bytes, out->slabs - 1, b->depth);
    /* Planning far ahead is worth little without room for what is planned. */
    const uint64_t used = (out->slabs - 2) * batch;
    const uint64_t records =
        STK_MIN(room - used, b->dataset->ops->decode ? b->bytes / 4 : b->bytes);
    const uint64_t horizon = b->now.workers ? stk__budget_horizon(b) : 0;
    const uint64_t ahead = STK_MIN(horizon, records / b->step);
    const uint64_t most = b->now.steps ? b->now.steps : STK_MAX(out->slabs, MOST_STEPS);
    out->steps = (uint32_t)STK_MIN(out->slabs + ahead, most);
    return used + (out->steps - out->slabs) * b->step;
}

/* What is beyond the base. */
static stk__shares divide_rest(const stk__budget *b)
{
    const uint64_t share = pool_share(b), spare = b->rest - share,
                   room = b->caches ? spare / 2 : spare;
    stk__shares out = {0};

    uint64_t used = take_workers(b, room / 4 * 3, &out);
    used += take_steps(b, room - used, &out);
    out.fixed = b->base + used;
    if (b->caches)
        out.cache = b->reads ? STK_MIN((b->rest - used) / 4 * 3, spare - used) : spare - used;
    if (b->caches && out.cache < LEAST_CACHE) {
        out.cache = 0;
        if (!b->silent)
            stk__message(b->ctx, STK_MESSAGE_WARNING,
                         "memory_budget %" PRIu64 " holds no cache in addition to the %" PRIu64
                         " bytes that samples want",
                         b->bytes, share);
    }
    out.pool = b->reads ? b->rest - used - out.cache : 0;
    return out;
}

stk_status stk__budget_divide(stk__budget *b, stk_error *err)
{
    measure_parts(b);
    const uint64_t least = least_budget(b);
    set_budget(b, b->bytes);
    if (b->bytes < least && b->dataset->held_bytes >= b->bytes / 2)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_LOADER,
                         "memory_budget is %" PRIu64 " bytes; the dataset itself keeps %" PRIu64
                         " in memory, and %" PRIu64
                         " are needed: raise memory_budget to that, or give the data unpacked "
                         "(gunzip) and without memory=true, to be read piece by piece",
                         b->bytes, b->dataset->held_bytes, least);
    if (b->bytes < least)
        return stk__fail(
            err, STK_EBUDGET, STK_STAGE_LOADER,
            "memory_budget is %" PRIu64 " bytes; two batches of %" PRIu64
            " bytes, a worker of %" PRIu64 " and reads of %" PRIu64 " for one sample need %" PRIu64
            ": raise memory_budget to that, or lower batch_size",
            b->bytes, b->slab, b->worker + b->decode_each + b->decode_most, b->row, least);
    b->rest = b->bytes - b->base;
    /* Ragged values wait in the pool, too: those of the batch that the consumer has, and those of
     * the batch in the making, for its last row. As buffers they take a quarter more. */
    b->most_row = b->ragged ? b->rest / 2 : b->rest;
    b->most_ragged =
        b->ragged && b->rest > 4 * RAGGED_HEAD ? (b->rest / 4 - RAGGED_HEAD) / 5 * 4 : 0;
    b->now = divide_rest(b);
    return STK_OK;
}

uint64_t stk__budget_bytes(stk__budget *b)
{
    return b->now.fixed ? b->now.fixed + b->now.pool + b->now.cache : least_budget(b);
}

stk__shares stk__budget_widen(stk__budget *b, uint64_t wanted)
{
    /* In steps, so that samples of ever larger sizes do it a few times at most. */
    b->wide = STK_MIN(STK_MAX(wanted, pool_share(b) + b->rest / WIDEN_STEPS), b->rest);
    return divide_rest(b);
}
