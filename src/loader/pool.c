/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in size classes, four for each power of two; idle ones are kept for the next and given up
 * under pressure. */
#include "loader/pool.h"

typedef struct stk__pool_buffer {
    struct stk__pool_buffer *next;
    uint64_t cost;
    uint32_t size_class;
    char pad[STK_CACHE_LINE - 24]; /* the caller's bytes begin a cache line */
} pool_buffer;

_Static_assert(sizeof(pool_buffer) == STK_CACHE_LINE, "the head of a buffer is one cache line");

#define LEAST 64
#define LARGE (UINT64_C(4) << 20) /* what is mixed of such a buffer is met in any order */

/* Class of a size, and the bytes of its buffers without the head. */
static uint32_t class_of(uint64_t size, uint64_t *room)
{
    uint64_t units = STK_MAX(stk__round_up(size, LEAST) / LEAST, 1);
    uint32_t power = 63 - (uint32_t)__builtin_clzll(units);
    uint64_t step = power >= 2 ? UINT64_C(1) << (power - 2) : 1;

    units = stk__round_up(units, step);
    power = 63 - (uint32_t)__builtin_clzll(units);
    step = power >= 2 ? UINT64_C(1) << (power - 2) : 1;
    *room = units * LEAST;
    return power * 4 + (uint32_t)((units - (UINT64_C(1) << power)) / step);
}

void stk__pool_init(stk__pool *pool, stk_context *ctx, uint64_t limit)
{
    *pool = (stk__pool){.ctx = ctx, .limit = limit};
    pthread_mutex_init(&pool->lock, NULL);
}

void stk__pool_destroy(stk__pool *pool)
{
    for (int i = 0; i < STK__POOL_CLASSES; i++)
        for (pool_buffer *b = pool->idle[i], *next; b; b = next) {
            next = b->next;
            stk__free(pool->ctx, b);
        }
    pthread_mutex_destroy(&pool->lock);
}

uint64_t stk__pool_cost(uint64_t size)
{
    uint64_t room;

    /* The buffer, this room's head, the tail, and the head of the allocator. */
    if (size > INT64_MAX / 4)
        return UINT64_MAX / 4;
    class_of(size, &room);
    return room + sizeof(pool_buffer) + STK_TAIL + STK_CACHE_LINE;
}

bool stk__pool_fits(stk__pool *pool, uint64_t cost)
{
    return cost <= pool->limit && atomic_load(&pool->used) <= pool->limit - cost;
}

/* Free idle buffers until `cost` more bytes fit. Their pages go back at once: malloc keeps what
 * lies between others, and the memory of a pool whose sizes change would grow beyond its limit. */
static void make_room_locked(stk__pool *pool, uint64_t cost)
{
    for (int i = STK__POOL_CLASSES - 1; i >= 0 && pool->held + cost > pool->limit; i--)
        while (pool->idle[i] && pool->held + cost > pool->limit) {
            pool_buffer *b = pool->idle[i];
            pool->idle[i] = b->next;
            pool->held -= b->cost;
            stk__give_pages_back(b, b->cost - STK_TAIL - STK_CACHE_LINE);
            stk__free(pool->ctx, b);
        }
}

void *stk__pool_take(stk__pool *pool, uint64_t size)
{
    uint64_t room, cost = stk__pool_cost(size);

    if (cost > pool->limit)
        return NULL;
    uint32_t size_class = class_of(size, &room);
    pthread_mutex_lock(&pool->lock);
    pool_buffer *b = pool->idle[size_class];
    if (b) {
        pool->idle[size_class] = b->next;
    } else {
        make_room_locked(pool, cost);
        if (pool->held + cost <= pool->limit)
            b = stk__alloc_buffer(pool->ctx, sizeof *b + room);
        if (b) {
            *b = (pool_buffer){.cost = cost, .size_class = size_class};
            if (room >= LARGE)
                stk__use_large_pages(b, room);
            pool->held += cost;
        }
    }
    if (b) {
        atomic_fetch_add(&pool->used, cost);
        pool->peak = STK_MAX(pool->peak, pool->held);
    }
    pthread_mutex_unlock(&pool->lock);
    return b ? b + 1 : NULL;
}

void stk__pool_give(stk__pool *pool, void *data)
{
    if (!data)
        return;
    pool_buffer *b = (pool_buffer *)data - 1;
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_sub(&pool->used, b->cost);
    b->next = pool->idle[b->size_class];
    pool->idle[b->size_class] = b;
    pthread_mutex_unlock(&pool->lock);
}

void stk__pool_disown(stk__pool *pool, void *data)
{
    if (!data)
        return;
    const uint64_t cost = ((pool_buffer *)data - 1)->cost;
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_sub(&pool->used, cost);
    pool->held -= cost;
    pthread_mutex_unlock(&pool->lock);
}

void stk__pool_free(stk__pool *pool, void *data)
{
    if (data)
        stk__free(pool->ctx, (pool_buffer *)data - 1);
}

bool stk__pool_reserve(stk__pool *pool, uint64_t bytes)
{
    pthread_mutex_lock(&pool->lock);
    const bool fits = stk__pool_fits(pool, bytes);
    if (fits) {
        make_room_locked(pool, bytes);
        pool->held += bytes;
        pool->peak = STK_MAX(pool->peak, pool->held);
        atomic_fetch_add(&pool->used, bytes);
    }
    pthread_mutex_unlock(&pool->lock);
    return fits;
}

void stk__pool_unreserve(stk__pool *pool, uint64_t bytes)
{
    pthread_mutex_lock(&pool->lock);
    pool->held -= bytes;
    atomic_fetch_sub(&pool->used, bytes);
    pthread_mutex_unlock(&pool->lock);
}

void stk__pool_widen(stk__pool *pool, uint64_t limit)
{
    pthread_mutex_lock(&pool->lock);
    pool->limit = STK_MAX(pool->limit, limit);
    pthread_mutex_unlock(&pool->lock);
}
