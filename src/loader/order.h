/* position -> index */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_ORDER_H
#define STK_SRC_LOADER_ORDER_H

#include <stoker/loader.h>

#include "base/base.h"
#include "base/random.h"

struct stk__mixture;
typedef struct stk__order_mix stk__order_mix;
typedef struct stk__bucket stk__bucket;

/* Everything the order depends on. */
typedef struct stk__order {
    uint64_t size, seed, global_batch;
    uint64_t steps; /* of an epoch */
    uint64_t rank, world;
    int32_t shuffle;
    bool drop_last;
    /* shuffle: block */
    uint64_t block_size, blocks, streams, buffer_blocks;
    uint64_t rows, longer; /* blocks of a column, and how many of the first have one more */
    const struct stk__mixture *mixture; /* NULL: of one source, which is the same in all epochs */
    stk_loader_options options;         /* with mixture: of the order of each source */
    uint64_t bucket;      /* steps of a window whose samples are sorted by length; 0: none */
    stk_dataset *dataset; /* with `bucket`: it tells lengths */
} stk__order;

/* Keys of one epoch, and what a walk in order would compute again and again. One thread at a time.
 */
typedef struct stk__order_stream {
    uint64_t first, end; /* its piece of the line, in samples */
    bool backwards;      /* it goes along from the end */
    uint64_t buffer_first,
        buffer_end; /* of the line, the samples that `mixed` permutes; equal: none */
    stk__permutation mixed;
} stk__order_stream;

/* Blocks of the line that were looked up: the permutation of a short column is walked for long. */
enum { STK__ORDER_BLOCKS = 512 };

typedef struct stk__order_block {
    uint64_t place; /* in the line, + 1; 0: none */
    uint64_t block;
} stk__order_block;

typedef struct stk__order_epoch {
    const stk__order *order;
    stk_context *ctx;
    uint64_t epoch; /* UINT64_MAX: none yet */
    stk__permutation full;
    stk__order_stream *streams;                 /* of shuffle: block; else NULL; so the next two */
    stk__permutation *columns;                  /* the blocks of each */
    uint64_t short_place;                       /* of the last block in the line */
    stk__order_block blocks[STK__ORDER_BLOCKS]; /* by place */
    stk__order_mix *mix;                        /* NULL: one source */
    stk__bucket *bucket;                        /* NULL: not by length */
    bool avx2;
    uint64_t evaluated; /* positions so far */
} stk__order_epoch;

stk_status stk__order_init(stk__order *order, stk_dataset *dataset,
                           const stk_loader_options *options, stk_error *err);
stk_status stk__order_epoch_init(stk__order_epoch *view, stk_context *ctx, const stk__order *order);
void stk__order_epoch_release(stk__order_epoch *view);
/* Go to an epoch: computes keys, no list. */
void stk__order_epoch_set(stk__order_epoch *view, uint64_t epoch);
/* Indices of some positions. */
void stk__order_indices(stk__order_epoch *view, const uint64_t *positions, uint64_t *indices,
                        size_t n);
/* See stk__bucket_padding(); false: the order is not by length. Computes a window. */
bool stk__order_padding(stk_context *ctx, const stk__order *order, double *sorted,
                        double *unsorted);
/* Most rows of a batch of a rank. */
uint64_t stk__order_rows(const stk__order *order);
/* Positions of this rank's rows in a step, those that are the rank modulo the world; returns their
 * number. */
uint64_t stk__order_positions(const stk__order *order, uint64_t step, uint64_t *positions);

#endif
