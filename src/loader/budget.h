/* memory_budget -> what each part of a loader gets */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_BUDGET_H
#define STK_SRC_LOADER_BUDGET_H

#include "base/shares.h"
#include "dataset/dataset.h"
#include "loader/order.h"

/*
 * What one worker and two batches need, one of them with the consumer, is taken first: the base.
 * The rest is what one sample may take: more is a bad sample, whatever the number of workers, the
 * depth, the cache. Changes only while no thread is at work.
 */
typedef struct stk__budget {
    /* Filled in by whoever makes one: */
    stk_context *ctx;
    stk_dataset *dataset;
    const stk__order *order;
    uint64_t bytes;               /* the option */
    uint64_t slab, worker, fixed; /* bytes of a batch, of a worker without decoding, of the rest */
    uint64_t row_room;            /* rows of a step */
    uint32_t workers, depth;      /* as they were asked for */
    uint32_t spare, spare_depth;  /* on top, as far as there is room */
    uint32_t io_depth, ragged;    /* concurrent reads; fields that are not FIXED */
    bool decodes;                 /* pictures, in a transform */
    bool caches, caches_decoded;
    bool silent; /* it is only asked what it comes to */
    /* Made of it: */
    uint64_t step;           /* bytes of a record */
    uint64_t row, most_read; /* the least and most that the reads of a probed sample take */
    bool reads;
    uint64_t decode_each, decode_most; /* decoding: of a thread, of one large picture at a time */
    uint64_t base, rest;
    uint64_t most_row;    /* bytes of the pool that the reads of one sample may take */
    uint64_t most_ragged; /* bytes of the ragged values of a step */
    uint64_t wide;        /* bytes of the pool that samples were met to want; 0: none beyond it */
    stk__shares now;      /* changed under the ring's lock, for the figures */
} stk__budget;

/* Divide the budget: fills in the second part. STK_EBUDGET names a budget that is enough. */
stk_status stk__budget_divide(stk__budget *budget, stk_error *err);
/* Bytes of what was divided; where there were too few, those that are needed. */
uint64_t stk__budget_bytes(stk__budget *budget);
/* How to divide it anew, with `wanted` bytes for the pool, at most all that is beyond the base. */
stk__shares stk__budget_widen(stk__budget *budget, uint64_t wanted);
/* Blocks that the order mixes at a time, and their samples, of all ranks; 0: it does not. */
uint64_t stk__budget_blocks(const stk__budget *budget);
uint64_t stk__budget_mixed(const stk__budget *budget);
/* How far ahead steps are planned: enough to keep all reads going, and a shuffle buffer of blocks
 * at a time. */
uint64_t stk__budget_horizon(const stk__budget *budget);
/* Bytes of the pool that the reads of a sample take, as if nothing were in the cache. Any thread.
 */
uint64_t stk__budget_reads(const stk__budget *budget, uint64_t index);
/* Blobs that the cache may hold, judged by the first sample: by the ranges that it needs, and by
 * the size of those that are kept decoded. */
uint64_t stk__budget_blobs(const stk__budget *budget);
/* Bytes of the pool that a read of `length` bytes takes at most, alone or joined with others; and
 * those of a need, as if nothing were in the cache or under way. */
uint64_t stk__read_cost(uint64_t length);
uint64_t stk__need_most(const stk_need *need);

#endif
