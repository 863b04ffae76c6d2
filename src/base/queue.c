/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of pointers under one mutex: its two conditions stand for "has room" and "has items". */
#include "base/base.h"

struct stk__queue {
    stk_context *ctx;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t has_room, has_items;
    size_t capacity, first, count;
    bool closed;
    stk__queue_stats stats;
    void *items[];
};

stk_status stk__queue_create(stk_context *ctx, size_t capacity, stk__queue **out)
{
    uint64_t bytes;

    *out = NULL;
    if (capacity == 0)
        return STK_EINVAL;
    if (!stk__mul_size(capacity, sizeof(void *), &bytes) ||
        !stk__add_size(bytes, sizeof(stk__queue), &bytes))
        return STK_ENOMEM;
    stk__queue *queue = stk__calloc(ctx, 1, bytes);
    if (!queue)
        return STK_ENOMEM;
    queue->ctx = ctx;
    queue->capacity = capacity;
    pthread_mutex_init(&queue->lock, NULL);
    stk__cond_init(&queue->has_room);
    stk__cond_init(&queue->has_items);
    *out = queue;
    return STK_OK;
}

void stk__queue_destroy(stk__queue **queue)
{
    if (!*queue)
        return;
    pthread_cond_destroy(&(*queue)->has_items);
    pthread_cond_destroy(&(*queue)->has_room);
    pthread_mutex_destroy(&(*queue)->lock);
    stk__free((*queue)->ctx, *queue);
    *queue = NULL;
}

stk_status stk__queue_put(stk__queue *queue, void *item, uint64_t when_ns)
{
    stk_status status = STK_OK;

    pthread_mutex_lock(&queue->lock);
    if (queue->count == queue->capacity && !queue->closed && when_ns) {
        uint64_t start = stk__now_ns();
        while (queue->count == queue->capacity && !queue->closed &&
               stk__cond_wait_until(&queue->has_room, &queue->lock, when_ns))
            continue;
        queue->stats.wait_out_ns += stk__now_ns() - start;
    }
    if (queue->closed) {
        status = STK_ECANCELED;
    } else if (queue->count == queue->capacity) {
        status = STK_EAGAIN;
    } else {
        queue->items[(queue->first + queue->count++) % queue->capacity] = item;
        queue->stats.items++;
        queue->stats.occupancy_sum += queue->count;
        pthread_cond_signal(&queue->has_items);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

stk_status stk__queue_get(stk__queue *queue, void **item, uint64_t when_ns)
{
    stk_status status = STK_OK;

    *item = NULL;
    pthread_mutex_lock(&queue->lock);
    if (queue->count == 0 && !queue->closed && when_ns) {
        uint64_t start = stk__now_ns();
        while (queue->count == 0 && !queue->closed &&
               stk__cond_wait_until(&queue->has_items, &queue->lock, when_ns))
            continue;
        queue->stats.wait_in_ns += stk__now_ns() - start;
    }
    if (queue->count) {
        *item = queue->items[queue->first];
        queue->first = (queue->first + 1) % queue->capacity;
        queue->count--;
        pthread_cond_signal(&queue->has_room);
    } else {
        status = queue->closed ? STK_ECANCELED : STK_EAGAIN;
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

void stk__queue_close(stk__queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->has_items);
    pthread_cond_broadcast(&queue->has_room);
    pthread_mutex_unlock(&queue->lock);
}

void stk__queue_get_stats(stk__queue *queue, stk__queue_stats *out)
{
    pthread_mutex_lock(&queue->lock);
    *out = queue->stats;
    pthread_mutex_unlock(&queue->lock);
}
