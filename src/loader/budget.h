/* memory_budget -> what each part of a loader gets */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_BUDGET_H
#define STK_SRC_LOADER_BUDGET_H

#include <stoker/loader.h>

/* All of loader.h, which includes this. */
typedef struct stk__column stk__column;

/* Bytes that parts take; each, most, base and rest depend on the budget itself. */
typedef struct stk__parts {
    uint32_t workers, depth; /* as they were asked for */
    uint64_t slab, step, worker, fixed;
    uint64_t row, most_row; /* the least and most that the reads of a probed sample take */
    bool reads, ragged, caches;
    uint64_t each, most; /* decoding: of a thread, and of one large picture at a time */
    uint64_t base;       /* with one worker and two batches */
    uint64_t rest;       /* beyond the base: what one sample may take */
} stk__parts;

/* What each part gets: threads, batches, records of steps, and bytes of the pool, of the cache and
 * of all that is fixed. */
typedef struct stk__shares {
    uint32_t workers, slabs, steps;
    uint64_t pool, cache, fixed;
} stk__shares;

/* Divide the budget; sets the parts, most_row, most_ragged and the bytes of decoding. STK_EBUDGET
 * names a budget that is enough. */
stk_status stk__budget_divide(stk_loader *loader, const stk__column *columns, uint32_t n,
                              uint32_t ragged, stk__shares *out, stk_error *err);
/* Divide it anew, with `wanted` bytes for the pool, at most all that is beyond the base. */
void stk__budget_widen(stk_loader *loader, uint64_t wanted, stk__shares *out);
/* Set workers, depth, horizon, steps and the fixed bytes. (L) held, or no thread yet. */
void stk__shares_apply(stk_loader *loader, const stk__shares *shares);
/* Bytes of the pool that the reads of a sample take, as if nothing were in the cache. Any thread.
 */
uint64_t stk__budget_reads(const stk_loader *loader, uint64_t index);
/* Blobs that a cache of `bytes` may hold, judged by the first sample: by the ranges that it needs,
 * and by the size of those that are kept decoded. */
uint64_t stk__budget_blobs(const stk_loader *loader, uint64_t bytes);

#endif
