/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the memory budget is divided. What one worker and two batches need, one of them with the
 * consumer, is taken first. The rest is what one sample may take: more is a bad sample, whatever
 * the number of workers, the depth, the cache. At first half of it, or as much as samples were seen
 * to need, is kept for the pool; all that makes a loader faster, more workers, batches, records of
 * steps, the cache, shares the other half. A sample that wants more of the pool than that has the
 * budget divided anew (widen.c).
 */
#include "loader/loader.h"

#include <inttypes.h>

#define LEAST_POOL     (UINT64_C(256) << 10) /* for reads, where there are any */
#define LEAST_CACHE    (UINT64_C(512) << 10)
#define MOST_STEPS     4096u                 /* planned ahead */
#define PROBES         16u                   /* samples that are asked what they need */
#define LEAST_DECODING (UINT64_C(256) << 10) /* of one thread */
#define MOST_DECODING  (UINT64_C(4) << 20)
#define RAGGED_HEAD    1024u /* of the buffer of a batch's ragged values, and its rounding */
#define WIDEN_STEPS    16    /* from half of the budget to all of it */

/* ---- What samples need ---- */

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

uint64_t stk__budget_reads(const stk_loader *loader, uint64_t index)
{
    counter c = {.seam = stk__locator_of_needs(count_need)};
    stk_dataset *dataset = loader->dataset;

    return dataset->ops->locate && dataset->ops->locate(dataset, &index, 1, &c.seam, NULL) == STK_OK
               ? c.cost
               : 0;
}

uint64_t stk__budget_blobs(const stk_loader *loader, uint64_t bytes)
{
    counter c = {.seam = stk__locator_of_needs(count_need)};
    stk_dataset *dataset = loader->dataset;

    if (!dataset->ops->locate ||
        dataset->ops->locate(dataset, &(uint64_t){0}, 1, &c.seam, NULL) != STK_OK)
        return dataset->size;
    uint64_t most = dataset->size * STK_MAX(c.needs, 1);
    if (loader->options.cache == STK_CACHE_DECODED && c.decoded)
        most = STK_MIN(most, 2 * (bytes / c.decoded) + 16);
    return most;
}

/* ---- Parts ---- */

static uint64_t step_bytes(const stk_loader *loader, uint32_t ragged, uint64_t needs)
{
    uint64_t row =
        sizeof(stk__row) + 2 * sizeof(uint64_t) + sizeof(uint32_t) + 3 * ragged * sizeof(uint64_t);

    /* The arrays of needs double as they grow; those of a dataset that does not decode are one. */
    if (loader->dataset->ops->locate)
        row += 2 * (loader->dataset->ops->decode ? needs : 1) *
               (sizeof(stk__need_entry) + sizeof(stk_slice));
    return sizeof(stk__step) + loader->row_room * row;
}

/* What depends on the budget itself. Decoders of photographs take a few hundred kilobytes. */
static void set_budget(const stk_loader *loader, stk__parts *p, uint64_t budget)
{
    p->each = STK_MIN(STK_MAX(budget / 32, LEAST_DECODING), MOST_DECODING);
    p->most = STK_MAX(budget / 8, p->each);
    if (!loader->decodes)
        p->each = p->most = 0;
    p->base = p->fixed + 2 * (p->worker + p->each) + p->most + 2 * (p->slab + p->step);
}

static void measure_parts(const stk_loader *loader, const stk__column *columns, uint32_t n,
                          uint32_t ragged, stk__parts *p)
{
    stk_dataset *dataset = loader->dataset;
    uint64_t needs;

    p->workers = loader->num_workers;
    p->depth = loader->depth;
    probe(dataset, &needs, &p->row, &p->most_row);
    for (uint32_t f = 0; f < dataset->num_fields; f++)
        if (dataset->fields[f].layout != STK_FIXED) /* those of one size fit all or none */
            p->row = 0;
    p->slab = stk__slab_bytes(columns, n, loader->row_room) + 4 * STK_CACHE_LINE;
    p->step = step_bytes(loader, ragged, needs);
    p->worker = stk__worker_bytes(loader);
    p->fixed =
        sizeof *loader + sizeof(stk__ring) + loader->batch_scratch_bytes + dataset->held_bytes;
    p->reads = dataset->ops->locate || ragged || loader->decodes;
    p->ragged = ragged;
    p->caches = loader->options.cache != STK_CACHE_NONE;
}

/* What the pool has at least, of which decoding takes what is beyond its own room, so that no
 * sample as those that were seen waits for more: reads take one half of it where ragged values take
 * the other. */
static uint64_t pool_share(const stk_loader *loader, const stk__parts *p)
{
    const uint64_t probed = p->ragged ? 2 * p->most_row : p->most_row,
                   seen = STK_MAX(probed <= p->rest ? probed : 0, loader->wide);

    return !p->reads ? 0 : STK_MAX(p->rest / 2, STK_MIN(seen, p->rest));
}

/* What has to be left after the base: room for a sample, and for a cache. */
static uint64_t least_rest(const stk__parts *p)
{
    const uint64_t least = p->reads ? STK_MAX(2 * LEAST_POOL, p->row) : 0;
    /* Half of what a sample leaves is for a cache. */
    const uint64_t cache =
        STK_MIN(16 * LEAST_CACHE, STK_MAX(4 * LEAST_CACHE, p->most_row + 2 * LEAST_CACHE));
    return p->caches ? STK_MAX(least, cache) : least;
}

/* The least budget that is enough, whatever the number of workers. Decoding grows with the budget,
 * by less than a fifth: so this ends. */
static uint64_t least_budget(const stk_loader *loader, stk__parts *p)
{
    uint64_t least = 0, next;

    for (set_budget(loader, p, 0); (next = p->base + least_rest(p)) > least;) {
        least = next;
        set_budget(loader, p, least);
    }
    return least;
}

/* How far ahead steps are planned: enough to keep all reads going, and a shuffle buffer of blocks
 * at a time. */
static uint64_t horizon_steps(const stk_loader *loader)
{
    const stk__order *order = &loader->order;
    uint64_t ahead = 0;

    if (!loader->dataset->ops->locate || loader->num_workers == 0)
        return 0;
    ahead = 4 * (uint64_t)loader->io_depth / loader->row_room + 1;
    if (order->shuffle == STK_SHUFFLE_BLOCK)
        ahead = STK_MAX(
            ahead,
            order->block_size * order->buffer_blocks * order->streams / order->global_batch + 1);
    return ahead;
}

/* ---- Division ---- */

/* More workers than one, of which the caller's thread is none, as far as `room` goes. */
static uint64_t take_workers(const stk_loader *loader, uint64_t room, stk__shares *out)
{
    const uint64_t each = loader->parts.worker + loader->parts.each;
    const uint32_t wanted = loader->num_workers;

    out->workers = wanted;
    if (wanted <= 1)
        return 0;
    out->workers = (uint32_t)STK_MIN(wanted - 1, room / STK_MAX(each, 1)) + 1;
    if (out->workers < wanted)
        stk__log(loader->ctx, STK_LOG_WARNING,
                 "memory_budget %" PRIu64 " holds %u workers instead of %u, at %" PRIu64
                 " bytes each",
                 loader->options.memory_budget, out->workers, loader->parts.workers, each);
    return (out->workers - 1) * each;
}

/* Batches beyond two, then records of steps ahead of them. */
static uint64_t take_steps(const stk_loader *loader, uint64_t room, stk__shares *out)
{
    const stk__parts *p = &loader->parts;
    const uint64_t budget = loader->options.memory_budget, batch = p->slab + p->step;

    out->slabs = 2 + (uint32_t)STK_MIN(loader->depth - UINT64_C(1), room / batch);
    if (out->slabs < loader->depth + UINT64_C(1))
        stk__log(loader->ctx, STK_LOG_INFO,
                 "memory_budget %" PRIu64
                 " holds %u batches ahead instead of the %u of prefetch_factor",
                 budget, out->slabs - 1, p->depth);
    /* Planning far ahead is worth little without room for what is planned. */
    const uint64_t used = (out->slabs - 2) * batch;
    const uint64_t records =
        STK_MIN(room - used, loader->dataset->ops->decode ? budget / 4 : budget);
    const uint64_t ahead = STK_MIN(horizon_steps(loader), records / p->step);
    const uint64_t most = loader->num_steps ? loader->num_steps : STK_MAX(out->slabs, MOST_STEPS);
    out->steps = (uint32_t)STK_MIN(out->slabs + ahead, most);
    return used + (out->steps - out->slabs) * p->step;
}

/* What is beyond the base. */
static void divide_rest(const stk_loader *loader, stk__shares *out)
{
    const stk__parts *p = &loader->parts;
    const uint64_t share = pool_share(loader, p), spare = p->rest - share,
                   room = p->caches ? spare / 2 : spare;

    *out = (stk__shares){0};
    uint64_t used = take_workers(loader, room / 4 * 3, out);
    used += take_steps(loader, room - used, out);
    out->fixed = p->base + used;
    if (p->caches)
        out->cache = p->reads ? STK_MIN((p->rest - used) / 4 * 3, spare - used) : spare - used;
    if (p->caches && out->cache < LEAST_CACHE) {
        out->cache = 0;
        stk__log(loader->ctx, STK_LOG_WARNING,
                 "memory_budget %" PRIu64 " holds no cache beside the %" PRIu64
                 " bytes that samples want",
                 loader->options.memory_budget, share);
    }
    out->pool = p->reads ? p->rest - used - out->cache : 0;
}

void stk__shares_apply(stk_loader *loader, const stk__shares *shares)
{
    loader->num_workers = shares->workers;
    loader->depth = shares->slabs - 1;
    loader->horizon = horizon_steps(loader);
    loader->num_steps = shares->steps;
    loader->fixed_bytes = shares->fixed;
}

stk_status stk__budget_divide(stk_loader *loader, const stk__column *columns, uint32_t n,
                              uint32_t ragged, stk__shares *out, stk_error *err)
{
    const uint64_t budget = loader->options.memory_budget;
    stk__parts *p = &loader->parts;

    measure_parts(loader, columns, n, ragged, p);
    const uint64_t least = least_budget(loader, p);
    set_budget(loader, p, budget);
    if (budget < least && loader->dataset->held_bytes >= budget / 2)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_LOADER,
                         "memory_budget is %" PRIu64 " bytes; the dataset itself keeps %" PRIu64
                         " in memory, and %" PRIu64
                         " are needed: raise memory_budget to that, or give the data unpacked "
                         "(gunzip) and without memory=true, to be read piece by piece",
                         budget, loader->dataset->held_bytes, least);
    if (budget < least)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_LOADER,
                         "memory_budget is %" PRIu64 " bytes; two batches of %" PRIu64
                         " bytes, a worker of %" PRIu64 " and reads of %" PRIu64
                         " for one sample need %" PRIu64
                         ": raise memory_budget to that, or lower batch_size",
                         budget, p->slab, p->worker + p->each + p->most, p->row, least);
    p->rest = budget - p->base;
    loader->decode_each = p->each;
    loader->decode_most = p->most;
    /* Ragged values wait in the pool, too: those of the batch that the consumer has, and those of
     * the batch in the making, for its last row. As buffers they take a quarter more. */
    loader->most_row = ragged ? p->rest / 2 : p->rest;
    loader->most_ragged =
        ragged && p->rest > 4 * RAGGED_HEAD ? (p->rest / 4 - RAGGED_HEAD) / 5 * 4 : 0;
    divide_rest(loader, out);
    return STK_OK;
}

void stk__budget_widen(stk_loader *loader, uint64_t wanted, stk__shares *out)
{
    const stk__parts *p = &loader->parts;

    /* In steps, so that samples of ever larger sizes do it a few times at most. */
    loader->wide = STK_MIN(STK_MAX(wanted, pool_share(loader, p) + p->rest / WIDEN_STEPS), p->rest);
    divide_rest(loader, out);
}
