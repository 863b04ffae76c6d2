/* window, chunk, extent, stride of one axis -> how many chunks are touched and read */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_CHUNKS_ADVISE_H
#define STK_SRC_ARRAY_CHUNKS_ADVISE_H

#include <stoker/chunks.h>

#include "base/base.h"

__extension__ typedef unsigned __int128 stk__u128;

/*
 * One axis. Windows begin at positions 0, s, 2s, ...; of an axis without an end one period of them
 * is looked at, which has every offset in a chunk that occurs, equally often. A window touches
 * `low` or `low` + 1 chunks.
 */
typedef struct stk__chunks_axis {
    uint64_t positions; /* where a window can begin */
    uint64_t low;
    uint64_t high;     /* positions at which it touches low + 1 */
    uint64_t blocks;   /* chunks in which a window begins */
    stk__u128 touched; /* sum over positions of the chunks touched */
    stk__u128 spanned; /* sum over blocks of the chunks that the windows of the block touch */
    uint64_t distinct; /* chunks that any window touches */
    uint64_t chunks;   /* of the axis; 0: without an end */
} stk__chunks_axis;

/* Sides at least 1; `extent` 0 or at least `window`. docs/chunks.md derives the formulas. */
void stk__chunks_axis_count(int64_t window, int64_t chunk, int64_t extent, int64_t stride,
                            stk__chunks_axis *out);

/* Sum over k < n of floor((a k + b) / m), exact modulo 2^128; a and b below m, which is below 2^63.
 */
stk__u128 stk__chunks_floor_sum(uint64_t n, uint64_t m, uint64_t a, uint64_t b);

/* Of the codec, as questions may have it. */
#define STK__CHUNKS_MIN_RATIO 1e-3
#define STK__CHUNKS_MAX_RATIO 1e6

/* A caller's question, as this version knows it. */
stk_status stk__chunks_question_read(stk_chunks_question *out, const stk_chunks_question *given,
                                     stk_error *err);
/* What a question may be: rank, sides, itemsize, ratio; `priced`: also memory and store. */
stk_status stk__chunks_check(const stk_chunks_question *question, bool priced, stk_error *err);

stk_status stk__chunks_count(const stk_chunks_question *question, const int64_t *chunk,
                             stk_chunks_counts *out, stk_error *err);

/* Factors of one axis of which the figures of a shape are products. */
typedef struct stk__chunks_factors {
    double touched, spanned, distinct; /* chunks for each window: random, block, sequential */
    double most;                       /* chunks of a window at most */
    double per_block;                  /* chunks of a block, on average */
    double row;                        /* distinct chunks of the axis; infinite without an end */
    double blocks, windows;            /* of the axis; infinite without an end */
    int64_t chunk;
} stk__chunks_factors;

void stk__chunks_factors_of(const stk_chunks_question *question, uint32_t axis, int64_t chunk,
                            stk__chunks_factors *out);
/* Requests, bytes, seconds and memory from the factors of all axes. `out` keeps chunk and counts.
 */
void stk__chunks_price(const stk_chunks_question *question, const stk__chunks_factors *const *axes,
                       stk_chunks_cost *out);
#define STK__CHUNKS_SIDES 48 /* candidates of one axis at most */

/* Write the paragraph of an answer. */
void stk__chunks_explain(const stk_chunks_question *question, stk_chunks_answer *answer);

#endif
