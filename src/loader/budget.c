/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the memory budget is divided. What one worker and two batches need is taken first. Half of
 * the rest is what the reads of one sample may take, or as much as samples were seen to need, up to
 * seven eighths: more is a bad sample, whatever the number of workers, the depth, the cache. The
 * pool is never smaller than that; all that makes a loader faster, more workers, batches, records
 * of steps, the cache, shares what is left.
 */
#include "loader/loader.h"

#include <inttypes.h>

#define LEAST_POOL     (UINT64_C(256) << 10) /* for reads, where there are any */
#define LEAST_CACHE    (UINT64_C(512) << 10)
#define MOST_STEPS     4096u                 /* planned ahead */
#define PROBES         16u                   /* samples that are asked what they need */
#define LEAST_DECODING (UINT64_C(256) << 10) /* of one thread */
#define MOST_DECODING  (UINT64_C(4) << 20)

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

/* The sizes of the parts; all but the last three are the same for any budget. */
typedef struct parts {
    uint64_t slab, step, worker, fixed;
    uint64_t row, most_row; /* the least and most that the reads of a sample take */
    bool reads, caches;
    uint64_t each, most; /* decoding: of a thread, and of one large picture at a time */
    uint64_t base;       /* with one worker and two batches */
} parts;

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
static void set_budget(const stk_loader *loader, parts *p, uint64_t budget)
{
    p->each = STK_MIN(STK_MAX(budget / 32, LEAST_DECODING), MOST_DECODING);
    p->most = STK_MAX(budget / 8, p->each);
    if (!loader->decodes)
        p->each = p->most = 0;
    p->base = p->fixed + 2 * (p->worker + p->each) + p->most + 2 * (p->slab + p->step);
}

static void measure_parts(const stk_loader *loader, const stk__column *columns, uint32_t n,
                          uint32_t ragged, parts *p)
{
    stk_dataset *dataset = loader->dataset;
    uint64_t needs;

    probe(dataset, &needs, &p->row, &p->most_row);
    for (uint32_t f = 0; f < dataset->num_fields; f++)
        if (dataset->fields[f].layout != STK_FIXED) /* those of one size fit all or none */
            p->row = 0;
    p->slab = stk__slab_bytes(columns, n, loader->row_room) + 4 * STK_CACHE_LINE;
    p->step = step_bytes(loader, ragged, needs);
    p->worker = stk__worker_bytes(loader);
    p->fixed =
        sizeof *loader + sizeof(stk__ring) + loader->batch_scratch_bytes + dataset->held_bytes;
    p->reads = dataset->ops->locate || ragged;
    p->caches = loader->options.cache != STK_CACHE_NONE;
}

/* What the reads of one sample may take of what is left after the base. */
static uint64_t row_share(const parts *p, uint64_t rest)
{
    return !p->reads ? 0 : STK_MAX(rest / 2, STK_MIN(p->most_row, rest / 8 * 7));
}

/* What has to be left after the base: room for a sample, and for a cache. */
static uint64_t least_rest(const parts *p)
{
    const uint64_t least = p->reads ? STK_MAX(2 * LEAST_POOL, p->row / 7 * 8 + 16) : 0;
    /* What a sample leaves is an eighth at least; half of it is for a cache. */
    const uint64_t cache =
        STK_MIN(16 * LEAST_CACHE, STK_MAX(4 * LEAST_CACHE, p->most_row + 2 * LEAST_CACHE));
    return p->caches ? STK_MAX(least, cache) : least;
}

/* The least budget that is enough, whatever the number of workers. Decoding grows with the budget,
 * by less than a fifth: so this ends. */
static uint64_t least_budget(const stk_loader *loader, parts *p)
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
    ahead = 4 * (uint64_t)loader->reads.depth / loader->row_room + 1;
    if (order->shuffle == STK_SHUFFLE_BLOCK)
        ahead = STK_MAX(
            ahead,
            order->block_size * order->buffer_blocks * order->streams / order->global_batch + 1);
    return ahead;
}

/* ---- Division ---- */

/* More workers than one, of which the caller's thread is none, as far as `room` goes. */
static uint64_t take_workers(stk_loader *loader, const parts *p, uint64_t room)
{
    const uint64_t each = p->worker + p->each;
    const uint32_t wanted = loader->num_workers;

    if (wanted <= 1)
        return 0;
    loader->num_workers = (uint32_t)STK_MIN(wanted - 1, room / STK_MAX(each, 1)) + 1;
    if (loader->num_workers < wanted)
        stk__log(loader->ctx, STK_LOG_WARNING,
                 "memory_budget %" PRIu64 " holds %u workers instead of %u, at %" PRIu64
                 " bytes each",
                 loader->options.memory_budget, loader->num_workers, wanted, each);
    return (loader->num_workers - 1) * each;
}

/* Batches beyond two, then records of steps ahead of them. */
static uint64_t take_steps(stk_loader *loader, const parts *p, uint64_t room, uint64_t *slabs)
{
    const uint64_t budget = loader->options.memory_budget, batch = p->slab + p->step;

    *slabs = 2 + STK_MIN(loader->depth - UINT64_C(1), room / batch);
    if (*slabs < loader->depth + UINT64_C(1))
        stk__log(loader->ctx, STK_LOG_INFO,
                 "memory_budget %" PRIu64 " holds %" PRIu64
                 " batches ahead instead of the %u of prefetch_factor",
                 budget, *slabs - 1, loader->depth);
    loader->depth = (uint32_t)*slabs - 1;
    loader->horizon = horizon_steps(loader);
    /* Planning far ahead is worth little without room for what is planned. */
    const uint64_t used = (*slabs - 2) * batch;
    const uint64_t records =
        STK_MIN(room - used, loader->dataset->ops->decode ? budget / 4 : budget);
    const uint64_t ahead = STK_MIN(loader->horizon, records / p->step);
    loader->num_steps = (uint32_t)STK_MIN(*slabs + ahead, STK_MAX(*slabs, MOST_STEPS));
    return used + (loader->num_steps - *slabs) * p->step;
}

stk_status stk__budget_divide(stk_loader *loader, const stk__column *columns, uint32_t n,
                              uint32_t ragged, stk__shares *out, stk_error *err)
{
    const uint64_t budget = loader->options.memory_budget;
    parts p = {0};

    measure_parts(loader, columns, n, ragged, &p);
    const uint64_t least = least_budget(loader, &p);
    set_budget(loader, &p, budget);
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
                         budget, p.slab, p.worker + p.each + p.most, p.row, least);
    const uint64_t rest = budget - p.base;
    loader->decode_each = p.each;
    loader->decode_most = p.most;
    /* Ragged values of a step wait in the pool, too, for its last row. */
    const uint64_t share = row_share(&p, rest);
    loader->most_row = ragged ? share / 2 : share;
    loader->most_ragged = ragged ? share / 4 : 0;
    const uint64_t spare = rest - share, room = p.caches ? spare / 2 : spare;
    uint64_t used = take_workers(loader, &p, room / 4 * 3);
    used += take_steps(loader, &p, room - used, &out->slabs);
    loader->fixed_bytes = p.base + used;
    if (p.caches)
        out->cache = p.reads ? STK_MIN((rest - used) / 4 * 3, spare - used) : spare - used;
    out->pool = p.reads ? rest - used - out->cache : 0;
    return STK_OK;
}
