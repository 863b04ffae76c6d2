/* position -> index */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_ORDER_H
#define STK_SRC_LOADER_ORDER_H

#include <stoker/loader.h>

#include "base/base.h"

/* Everything the order depends on. */
typedef struct stk__order {
    uint64_t size, seed, global_batch;
    uint64_t steps; /* of an epoch */
    uint64_t rank, world;
    int32_t shuffle;
    bool drop_last;
    /* shuffle: block */
    uint64_t block_size, blocks, streams, buffer_blocks;
} stk__order;

/* Keys of one epoch, and what a walk in order would compute again and again. One thread at a time.
 */
typedef struct stk__order_stream {
    uint64_t count;          /* samples of the stream */
    stk__permutation blocks; /* its own blocks */
    uint64_t deficit_block;  /* place of the short block in its order; UINT64_MAX: it has none */
    uint64_t buffer;         /* number of the buffer that `mixed` permutes; UINT64_MAX: none yet */
    uint64_t buffer_count;
    stk__permutation mixed;
} stk__order_stream;

typedef struct stk__order_epoch {
    const stk__order *order;
    stk_context *ctx;
    uint64_t epoch; /* UINT64_MAX: none yet */
    stk__permutation full;
    stk__order_stream *streams; /* of shuffle: block; else NULL */
    uint64_t least_count;       /* of the shortest stream */
    uint64_t alive_at_end; /* places of the round-robin before `size` that still had a sample */
    bool avx2;
    uint64_t evaluated; /* positions so far */
} stk__order_epoch;

stk_status stk__order_init(stk__order *order, const stk_dataset *dataset,
                           const stk_loader_options *options, stk_error *err);
stk_status stk__order_epoch_init(stk__order_epoch *view, stk_context *ctx, const stk__order *order);
void stk__order_epoch_release(stk__order_epoch *view);
/* Go to an epoch: computes keys, no list. */
void stk__order_epoch_set(stk__order_epoch *view, uint64_t epoch);
/* Indices of some positions. */
void stk__order_indices(stk__order_epoch *view, const uint64_t *positions, uint64_t *indices,
                        size_t n);
/* Most rows of a batch of this rank. */
uint64_t stk__order_rows(const stk__order *order);
/* Positions of this rank's rows in a step; returns their number. */
uint64_t stk__order_positions(const stk__order *order, uint64_t step, uint64_t *positions);

#endif
