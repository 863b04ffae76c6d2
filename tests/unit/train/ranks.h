/* Ranks as threads of one process: a strategy with barriers, for tests of what ranks share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRAIN_RANKS_H
#define STK_TESTS_UNIT_TRAIN_RANKS_H

#include <pthread.h>

#include "unit/train/tiny.h"

enum { MAX_RANKS = 4, MANY_RANKS = 12 }; /* that tests go up to, and for which there is room */

typedef struct ranks {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t met;
    uint64_t world, here, round;
    bool aborted;
    void *buffers[MANY_RANKS];
    uint64_t reduces[MANY_RANKS], broadcasts, barriers, aborts;
    uint64_t gathered[MANY_RANKS]; /* elements */
} ranks;

typedef struct rank {
    ranks *all;
    uint64_t number;
    bool one_thread;    /* it says that it takes calls of `home` alone */
    pthread_t home;     /* the trainer's thread */
    uint64_t elsewhere; /* sums that came from another */
    uint64_t fails_at;  /* the so many'th of them; 0: none */
} rank;

static inline void ranks_init(ranks *all, uint64_t world)
{
    *all = (ranks){.world = world};
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->met, NULL);
}

static inline void ranks_release(ranks *all)
{
    pthread_cond_destroy(&all->met);
    pthread_mutex_destroy(&all->lock);
}

/* Wait until all ranks are here; false: one of them has failed. */
static inline bool ranks_meet(ranks *all)
{
    pthread_mutex_lock(&all->lock);
    const uint64_t round = all->round;
    if (!all->aborted && ++all->here == all->world) {
        all->here = 0;
        all->round++;
        pthread_cond_broadcast(&all->met);
    }
    while (all->round == round && !all->aborted)
        pthread_cond_wait(&all->met, &all->lock);
    /* A round that was complete is, whoever has failed since. */
    const bool fine = all->round != round;
    pthread_mutex_unlock(&all->lock);
    return fine;
}

static inline stk_status ranks_gone(stk_error *err)
{
    return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "another rank is gone");
}

static inline double ranks_one(void *const *buffers, uint64_t world, uint64_t i, stk_dtype dtype,
                               stk_combine op)
{
    const size_t size = stk_dtype_size(dtype);
    double value = stk__element_as_double((const char *)buffers[0] + i * size, dtype);

    for (uint64_t r = 1; r < world; r++) {
        const double x = stk__element_as_double((const char *)buffers[r] + i * size, dtype);
        value = op == STK_COMBINE_MIN   ? fmin(value, x)
                : op == STK_COMBINE_MAX ? fmax(value, x)
                                        : value + x;
    }
    return op == STK_COMBINE_MEAN ? value / (double)world : value;
}

static inline stk_status ranks_reduce(void *state, void *buffer, uint64_t count, stk_dtype dtype,
                                      stk_combine op, stk_stream *stream, stk_error *err)
{
    rank *self = state;
    ranks *all = self->all;
    const size_t size = stk_dtype_size(dtype);
    const bool away = !pthread_equal(pthread_self(), self->home);

    pthread_mutex_lock(&all->lock);
    self->elsewhere += away;
    all->buffers[self->number] = buffer;
    all->reduces[self->number]++;
    const bool fails = away && self->elsewhere == self->fails_at;
    pthread_mutex_unlock(&all->lock);
    if (fails)
        return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "a sum fails");
    char *result = malloc(count * size + 1);
    assert_non_null(result);
    bool fine = ranks_meet(all);
    for (uint64_t i = 0; i < count && fine; i++) {
        const double value = ranks_one(all->buffers, all->world, i, dtype, op);
        stk__float_bytes(dtype, value, result + i * size);
    }
    fine = fine && ranks_meet(all);
    if (fine)
        memcpy(buffer, result, count * size);
    free(result);
    return fine ? STK_OK : ranks_gone(err);
}

static inline uint64_t ranks_sum(const uint64_t *counts, uint64_t n)
{
    uint64_t sum = 0;

    for (uint64_t r = 0; r < n; r++)
        sum += counts[r];
    return sum;
}

/* What reduce() gives in the own part; what is not it says so. */
static inline stk_status ranks_reduce_scatter(void *state, void *buffer, const uint64_t *counts,
                                              stk_dtype dtype, stk_combine op, stk_stream *stream,
                                              stk_error *err)
{
    const rank *self = state;
    const uint64_t count = ranks_sum(counts, self->all->world);
    const uint64_t from = ranks_sum(counts, self->number), size = stk_dtype_size(dtype);

    STK_TRY(ranks_reduce(state, buffer, count, dtype, op, stream, err));
    memset(buffer, 0xee, from * size);
    memset((char *)buffer + (from + counts[self->number]) * size, 0xee,
           (count - from - counts[self->number]) * size);
    return STK_OK;
}

static inline stk_status ranks_all_gather(void *state, void *buffer, const uint64_t *counts,
                                          stk_dtype dtype, stk_stream *stream, stk_error *err)
{
    const rank *self = state;
    ranks *all = self->all;
    const size_t size = stk_dtype_size(dtype);
    uint64_t at = 0;

    pthread_mutex_lock(&all->lock);
    all->buffers[self->number] = buffer;
    all->gathered[self->number] += ranks_sum(counts, all->world);
    pthread_mutex_unlock(&all->lock);
    bool fine = ranks_meet(all);
    for (uint64_t r = 0; r < all->world && fine; at += counts[r++] * size)
        if (r != self->number)
            memcpy((char *)buffer + at, (const char *)all->buffers[r] + at, counts[r] * size);
    fine = fine && ranks_meet(all);
    return fine ? STK_OK : ranks_gone(err);
}

static inline stk_status ranks_broadcast(void *state, void *buffer, uint64_t bytes,
                                         stk_stream *stream, stk_error *err)
{
    const rank *self = state;
    ranks *all = self->all;

    pthread_mutex_lock(&all->lock);
    if (self->number == 0) {
        all->buffers[0] = buffer;
        all->broadcasts++;
    }
    pthread_mutex_unlock(&all->lock);
    bool fine = ranks_meet(all);
    if (fine && self->number)
        memcpy(buffer, all->buffers[0], bytes);
    fine = fine && ranks_meet(all);
    return fine ? STK_OK : ranks_gone(err);
}

static inline stk_status ranks_barrier(void *state, stk_error *err)
{
    const rank *self = state;

    pthread_mutex_lock(&self->all->lock);
    self->all->barriers += self->number == 0;
    pthread_mutex_unlock(&self->all->lock);
    return ranks_meet(self->all) ? STK_OK : ranks_gone(err);
}

static inline void ranks_abort(void *state)
{
    ranks *all = ((rank *)state)->all;

    pthread_mutex_lock(&all->lock);
    all->aborted = true;
    all->aborts++;
    pthread_cond_broadcast(&all->met);
    pthread_mutex_unlock(&all->lock);
}

static inline stk_strategy ranks_strategy(rank *self)
{
    return (stk_strategy){.struct_size = sizeof(stk_strategy),
                          .name = "threads",
                          .rank = self->number,
                          .world_size = self->all->world,
                          .state = self,
                          .reduce = ranks_reduce,
                          .broadcast = ranks_broadcast,
                          .barrier = ranks_barrier,
                          .abort = ranks_abort,
                          .any_thread = !self->one_thread,
                          .reduce_scatter = ranks_reduce_scatter,
                          .all_gather = ranks_all_gather};
}

#endif
