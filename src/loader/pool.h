/* bytes of the budget -> buffers */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_LOADER_POOL_H
#define STK_SRC_LOADER_POOL_H

#include "base/base.h"

enum { STK__POOL_CLASSES = 160 };

/* Buffers of some size classes. Bounded: in use and idle together hold at most `limit` bytes. */
typedef struct stk__pool {
    stk_context *ctx;
    uint64_t limit;
    atomic_uint_fast64_t used; /* bytes in use: written under the lock */
    pthread_mutex_t lock;      /* guards the rest */
    uint64_t held, peak;
    struct stk__pool_buffer *idle[STK__POOL_CLASSES];
} stk__pool;

void stk__pool_init(stk__pool *pool, stk_context *ctx, uint64_t limit);
void stk__pool_destroy(stk__pool *pool);
/* Bytes that a buffer of `size` takes from the limit. */
uint64_t stk__pool_cost(uint64_t size);
/* Whether `cost` more bytes fit now. Only the planner takes buffers, so that a yes stays true. */
bool stk__pool_fits(stk__pool *pool, uint64_t cost);
/* A buffer as of stk__alloc_buffer(); NULL when memory is out or the limit would be passed. */
void *stk__pool_take(stk__pool *pool, uint64_t size);
void stk__pool_give(stk__pool *pool, void *data);
/* The buffer is no longer the pool's: the caller ends it with stk__pool_free(). */
void stk__pool_disown(stk__pool *pool, void *data);
void stk__pool_free(stk__pool *pool, void *data);
/* Take bytes from the limit that are allocated elsewhere; false: they do not fit now. */
bool stk__pool_reserve(stk__pool *pool, uint64_t bytes);
void stk__pool_unreserve(stk__pool *pool, uint64_t bytes);
/* A larger limit. */
void stk__pool_widen(stk__pool *pool, uint64_t limit);

#endif
