/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the memory budget is divided: what is claimed of it is found out here, base/shares.c divides.
 * A sample that wants more of the pool than it gets at first has the budget divided anew (widen.c).
 */
#include "loader/budget.h"

#include <inttypes.h>

#include "loader/pool.h"
#include "loader/steps.h"

#define PROBES      16u   /* samples that are asked what they need */
#define RAGGED_HEAD 1024u /* of the buffer of a batch's ragged values, and its rounding */
#define WIDEN_STEPS 16    /* from half of the budget to all of it */

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

/* All of it as numbers. */
static stk__demand demand_of(const stk__budget *b)
{
    return (stk__demand){.bytes = b->bytes,
                         .slab = b->slab,
                         .step = b->step,
                         .worker = b->worker,
                         .fixed = b->fixed,
                         .most_read = b->most_read,
                         .wide = b->wide,
                         .horizon = stk__budget_horizon(b),
                         .workers = b->now.workers,
                         .spare = b->spare,
                         .slabs = b->now.slabs,
                         .spare_slabs = b->spare_depth,
                         .steps = b->now.steps,
                         .reads = b->reads,
                         .ragged = b->ragged != 0,
                         .decodes = b->dataset->ops->decode != NULL,
                         .pictures = b->decodes,
                         .caches = b->caches};
}

/* What depends on the budget itself. */
static void set_budget(stk__budget *b, uint64_t budget)
{
    stk__demand demand = demand_of(b);

    demand.bytes = budget;
    stk__shares_decoding(&demand, &b->decode_each, &b->decode_most);
    b->base = stk__shares_base(&demand);
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

/* What has to be left after the base: room for a sample, and for a cache. */
static uint64_t least_rest(const stk__budget *b)
{
    const uint64_t least = b->reads ? STK_MAX(2 * STK__LEAST_POOL, b->row) : 0;
    /* Half of what a sample leaves is for a cache. */
    const uint64_t cache = STK_MIN(
        16 * STK__LEAST_CACHE, STK_MAX(4 * STK__LEAST_CACHE, b->most_read + 2 * STK__LEAST_CACHE));
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

uint64_t stk__budget_blocks(const stk__budget *b)
{
    const stk__order *order = b->order;

    return order->shuffle == STK_SHUFFLE_BLOCK
               ? STK_MIN(order->streams * order->buffer_blocks, order->blocks)
               : 0;
}

uint64_t stk__budget_mixed(const stk__budget *b)
{
    const stk__order *order = b->order;

    return order->shuffle == STK_SHUFFLE_BLOCK
               ? order->block_size * order->buffer_blocks * order->streams
               : 0;
}

uint64_t stk__budget_horizon(const stk__budget *b)
{
    if (!b->dataset->ops->locate)
        return 0;
    return stk__shares_horizon(b->io_depth, b->row_room, stk__budget_mixed(b),
                               b->order->global_batch);
}

/* ---- Division ---- */

/* Say where there is less of something than was asked for. */
static void tell_shares(const stk__budget *b, const stk__demand *demand, const stk__shares *out)
{
    if (out->workers < b->now.workers)
        stk__message(b->ctx, STK_MESSAGE_WARNING,
                     "memory_budget %" PRIu64 " holds %u workers instead of %u, at %" PRIu64
                     " bytes each",
                     b->bytes, out->workers, b->workers, b->worker + b->decode_each);
    if (out->slabs < b->now.slabs)
        stk__message(b->ctx, STK_MESSAGE_INFO,
                     "memory_budget %" PRIu64
                     " holds %u batches ahead instead of the %u of prefetch_factor",
                     b->bytes, out->slabs - 1, b->depth);
    if (b->caches && !out->cache)
        stk__message(b->ctx, STK_MESSAGE_WARNING,
                     "memory_budget %" PRIu64 " holds no cache in addition to the %" PRIu64
                     " bytes that samples want",
                     b->bytes, stk__shares_pool(demand, b->rest));
}

/* What is beyond the base. */
static stk__shares divide_rest(const stk__budget *b)
{
    const stk__demand demand = demand_of(b);
    const stk__shares out = stk__shares_divide(&demand);

    if (!b->silent)
        tell_shares(b, &demand, &out);
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
    const stk__demand demand = demand_of(b);

    /* In steps, so that samples of ever larger sizes do it a few times at most. */
    b->wide = STK_MIN(STK_MAX(wanted, stk__shares_pool(&demand, b->rest) + b->rest / WIDEN_STEPS),
                      b->rest);
    return divide_rest(b);
}
