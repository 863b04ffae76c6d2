/* a memory budget -> what each part of a loader gets: pure, for the loader and for its model */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_SHARES_H
#define STK_SRC_BASE_SHARES_H

#include "base/base.h"

#define STK__LEAST_POOL  (UINT64_C(256) << 10) /* for reads, where there are any */
#define STK__LEAST_CACHE (UINT64_C(512) << 10)
#define STK__AHEAD_MOST  4096 /* batches of prefetch_factor and workers together */

/* What there is to be divided, and what is wanted of it; bytes. */
typedef struct stk__demand {
    uint64_t bytes;                 /* of all: memory_budget */
    uint64_t slab, step;            /* of a batch, of the record of one */
    uint64_t worker, fixed;         /* of a worker without decoding pictures; of the rest */
    uint64_t most_read, wide;       /* that the reads of a sample take: at most of those that
                                       were probed; of those that were met, 0: no more */
    uint64_t horizon;               /* steps to be planned ahead of the batches */
    uint32_t workers, slabs, steps; /* at most; steps 0: any number */
    uint32_t spare, spare_slabs;    /* on top, where the number of workers moves */
    bool reads, ragged; /* something is read, or becomes known later; values that vary in length */
    bool decodes;       /* the dataset, what samples share */
    bool pictures;      /* transforms, each worker a picture */
    bool caches;
} stk__demand;

/* What each part gets: threads, batches, records of steps, and bytes of the pool, of the cache and
 * of all that is fixed. */
typedef struct stk__shares {
    uint32_t workers, slabs, steps;
    uint32_t spare, spare_slabs; /* that may come on top */
    uint64_t pool, cache, fixed;
} stk__shares;

/* Batches that there may be. */
static inline uint32_t stk__shares_slabs(const stk__shares *shares)
{
    return shares->slabs + shares->spare_slabs;
}

/* Room for decoding pictures: of a thread, and of one large picture at a time. */
void stk__shares_decoding(const stk__demand *demand, uint64_t *each, uint64_t *most);
/* What one worker and two batches need, one of them with the consumer: it is taken first. */
uint64_t stk__shares_base(const stk__demand *demand);
/* What the pool gets at least of the `rest` beyond that. */
uint64_t stk__shares_pool(const stk__demand *demand, uint64_t rest);
/* Divide; the base fits. */
stk__shares stk__shares_divide(const stk__demand *demand);

/* How many steps of `rows` rows are planned ahead: enough to keep `io_depth` reads going, and,
 * where samples come in blocks, all `mixed` ones of the blocks at hand at a time, of which a step
 * takes `taken`. */
uint64_t stk__shares_horizon(uint64_t io_depth, uint64_t rows, uint64_t mixed, uint64_t taken);
/* Whether the pool has room for so many blocks of so many bytes that are read as a whole, twice. */
bool stk__shares_hold_blocks(uint64_t pool, uint64_t blocks, uint64_t bytes);

#endif
