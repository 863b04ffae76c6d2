/* Ranks that share a training out, whose calls are seen, failed and slowed down. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_TRAIN_AHEAD_H
#define STK_TESTS_UNIT_TRAIN_AHEAD_H

#include <stdatomic.h>
#include <time.h>

#include "unit/train/shards.h"

enum { MAX_CALLS = 4096 };

typedef struct watched watched;

/* What is done to the ranks of a run; steps count from 1, and 0 is none. */
typedef struct watching {
    uint64_t later;      /* bytes of a bucket */
    uint64_t skip_at;    /* rank 1 has no use for the batch */
    uint64_t odd_at;     /* all ask in another order, */
    bool alone;          /* or rank 1 alone */
    uint64_t late_at;    /* all ask once more behind the backward pass */
    uint64_t fail_at;    /* the forward pass of rank 1 fails */
    uint64_t stop_at;    /* rank 1 is asked to stop */
    bool speaks;         /* ranks speak with each other, and save, between the passes */
    bool slow;           /* the first is slow to compute, the last to send */
    uint64_t fails_call; /* the so many'th call of rank 1 beside its trainer's thread fails */
    stk_model_probe_fn *probe;
} watching;

static watching script;

/* A call of the strategy. */
typedef struct seen_call {
    char kind;
    bool away; /* beside the trainer's thread */
    uint64_t count;
} seen_call;

struct watched {
    stk_strategy inner;
    pthread_t home;
    atomic_bool busy;
    bool together; /* two calls were under way */
    stk_trainer *t;
    stk_status (*training_step)(stk_module *self, stk_trainer *t, const stk_moment *at,
                                stk_loss *loss, stk_error *err);
    stk_status (*backward)(stk_module *self, const stk_loss *loss, double scale, stk_error *err);
    uint64_t steps, away;
    uint32_t draws;
    seen_call calls[MAX_CALLS];
    size_t num_calls;
};

static watched ranks_seen[MAX_RANKS];

/* ---- Calls ----------------------------------------------------------------------------------- */

static inline void take_time(watched *w)
{
    w->draws = w->draws * 1664525 + 1013904223;
    nanosleep(&(struct timespec){.tv_nsec = (w->draws >> 16) % 200000}, NULL);
}

static inline stk_status enter(watched *w, char kind, uint64_t count, stk_error *err)
{
    const bool away = !pthread_equal(pthread_self(), w->home);

    w->together |= atomic_exchange(&w->busy, true);
    assert_true(w->num_calls < MAX_CALLS);
    w->calls[w->num_calls++] = (seen_call){kind, away, count};
    w->away += away;
    if (script.slow && away && w->inner.rank + 1 == w->inner.world_size)
        take_time(w);
    if (!away || w->inner.rank != 1 || w->away != script.fails_call)
        return STK_OK;
    atomic_store(&w->busy, false);
    return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "call %c fails on purpose", kind);
}

static inline stk_status leave(watched *w, stk_status status)
{
    atomic_store(&w->busy, false);
    return status;
}

static inline stk_status seen_reduce(void *state, void *buffer, uint64_t count, stk_dtype dtype,
                                     stk_combine op, stk_stream *stream, stk_error *err)
{
    watched *w = state;

    STK_TRY(enter(w, 'r', count, err));
    return leave(w, w->inner.reduce(w->inner.state, buffer, count, dtype, op, stream, err));
}

static inline stk_status seen_broadcast(void *state, void *buffer, uint64_t bytes,
                                        stk_stream *stream, stk_error *err)
{
    watched *w = state;

    STK_TRY(enter(w, 'b', bytes, err));
    return leave(w, w->inner.broadcast(w->inner.state, buffer, bytes, stream, err));
}

static inline stk_status seen_barrier(void *state, stk_error *err)
{
    watched *w = state;

    STK_TRY(enter(w, 'w', 0, err));
    return leave(w, w->inner.barrier(w->inner.state, err));
}

static inline void seen_abort(void *state)
{
    watched *w = state;

    w->together |= atomic_load(&w->busy);
    w->inner.abort(w->inner.state);
}

static inline stk_status seen_scatter(void *state, void *buffer, const uint64_t *counts,
                                      stk_dtype dtype, stk_combine op, stk_stream *stream,
                                      stk_error *err)
{
    watched *w = state;

    STK_TRY(enter(w, 's', ranks_sum(counts, w->inner.world_size), err));
    return leave(w,
                 w->inner.reduce_scatter(w->inner.state, buffer, counts, dtype, op, stream, err));
}

static inline stk_status seen_gather(void *state, void *buffer, const uint64_t *counts,
                                     stk_dtype dtype, stk_stream *stream, stk_error *err)
{
    watched *w = state;

    STK_TRY(enter(w, 'g', ranks_sum(counts, w->inner.world_size), err));
    return leave(w, w->inner.all_gather(w->inner.state, buffer, counts, dtype, stream, err));
}

static inline void join_watched(one *o, stk_strategy *strategy)
{
    watched *w = &ranks_seen[strategy->rank];

    *w = (watched){.inner = *strategy, .home = pthread_self()};
    *strategy = (stk_strategy){.struct_size = sizeof *strategy,
                               .name = "watched",
                               .rank = w->inner.rank,
                               .world_size = w->inner.world_size,
                               .state = w,
                               .reduce = seen_reduce,
                               .broadcast = seen_broadcast,
                               .barrier = seen_barrier,
                               .abort = seen_abort,
                               .any_thread = w->inner.any_thread,
                               .reduce_scatter = seen_scatter,
                               .all_gather = seen_gather};
}

/* No rank has ever had two calls under way. */
static inline void run_watched(one *all, uint64_t world, const one *like)
{
    run_world(all, world, like);
    for (uint64_t r = 0; r < world; r++)
        assert_false(ranks_seen[r].together);
}

#endif
