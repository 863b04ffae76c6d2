/* order, pool -> what samples find in it; blocks, pages -> the work of the other. In src/measure.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_MEASURE_SIMULATE_SHARED_H
#define STK_SRC_MEASURE_SIMULATE_SHARED_H

#include "measure/simulate.h"

/* (simulate_found.c) What the order and the pool are to be gone through with. */
typedef struct stk__mixing {
    const stk__shared_kind *kinds;
    uint32_t num_kinds;
    uint64_t streams;      /* that take turns, with as many of the rows; 0: as one */
    double rows, pool;     /* mixed at a time; bytes */
    uint64_t batch, steps; /* rows; steps that are planned at a time, */
    uint64_t horizon;      /* and within which what nobody needs is kept */
    bool grouped;          /* rows of a step that need the same are one */
    bool one_thread; /* that decodes and prepares: what a step wants is decoded before its rows */
} stk__mixing;
/* The share of the rows that find their range of each kind, of those that are not its first; and
 * the most bytes that are held. STK_ENOMEM. */
stk_status stk__found_simulate(stk_context *ctx, const stk__mixing *mixing, double *found,
                               double *stay, stk_error *err);

/* (simulate_blocks.c) Blocks are read whole now, or are not any more, and such a share of each kind
 * of what rows need is found. STK_EINVAL. */
stk_status stk__blocks_change(stk__stages *stages, stk__setting *set, bool whole,
                              const double *found, stk_error *err);

#endif
