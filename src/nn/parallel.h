/* a loop -> its parts on threads, always cut alike */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_NN_PARALLEL_H
#define STK_SRC_NN_PARALLEL_H

#include <signal.h>
#include <stdint.h>

/* Part `part` of `parts` works on [from, to). */
typedef void stk__body(void *argument, uint64_t from, uint64_t to, uint32_t part);
/* Cut [0, n) into at most `threads` parts of at least `grain`, always in the same way, and do them
 * at once. Returns the number of parts. */
uint32_t stk__parallel(uint32_t threads, uint64_t n, uint64_t grain, stk__body *body,
                       void *argument);
/* How many parts that would be. */
uint32_t stk__parallel_parts(uint32_t threads, uint64_t n, uint64_t grain);
/*
 * What the calling thread is while it computes, from begin to end. Threads of OpenMP that are made
 * meanwhile inherit all of it.
 *   threads   so many compute.
 *   mode      Subnormal numbers are taken for zero. They carry nothing a step could use, and each
 *             costs a hundred times a normal one: moments of weights that get no gradients decay
 *             into them within a thousand steps.
 *   signals   They wait until the end. The matrix products that oneDNN generates keep an address in
 *             the stack pointer, so the frame of a handler would be written into the heap.
 */
typedef struct stk__compute {
    int threads;
    unsigned mode;
    sigset_t signals;
} stk__compute;

stk__compute stk__compute_begin(uint32_t threads);
void stk__compute_end(const stk__compute *before);

#endif
