/* pieces of transfers -> reads under way: the parts of a fetcher */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_STORE_FETCH_ROOM_H
#define STK_SRC_STORE_FETCH_ROOM_H

#include "store/fetch.h"
#include "store/trend.h"

typedef struct stk__piece_list {
    stk__piece *first, *last;
} stk__piece_list;

/* A store that transfers are read from. */
typedef struct stk__source stk__source;
struct stk__source {
    stk__source *next;
    stk__fetcher *fetcher;
    stk_store *store;
    uint64_t max_read;
    uint32_t depth, first_depth, under_way;
    uint32_t retries;        /* more tries of a read; 0 where the store tries by itself */
    bool reads_now;          /* the store knows read_now() */
    stk__piece_list waiting; /* by priority */
};

struct stk__fetcher {
    stk_context *ctx;
    stk__fetcher_options options; /* of the caller */
    pthread_mutex_t mutex;        /* guards all below */
    pthread_cond_t left;          /* the last thread inside has left, while somebody waits for it */
    stk__source *sources;
    stk__piece *free;
    stk__piece_list under_way, retries;
    stk__transfer *ended, *last_ended; /* to be handed over */
    uint32_t num_ended;
    uint32_t move_to, move_of; /* of stk__fetcher_move(); 0: it was not called */
    uint64_t nearest_ns;       /* no deadline in the lists is earlier */
    uint64_t added;            /* transfers so far */
    uint32_t inside;           /* threads that send or hand over */
    bool destroying;
    bool stopped;
    bool sooner;            /* `sooner` of the options is to be called */
    stk__fetch_stats stats; /* but the estimates */
    stk__trend *trend;      /* of reads that did not fail; NULL: nothing is measured */
};

static inline uint64_t stk__fetcher_now(const stk__fetcher *f)
{
    return f->options.now ? f->options.now(f->options.clock) : stk__now_ns();
}

/* The same of a moment that is only measured. */
static inline uint64_t stk__fetcher_stamp(const stk__fetcher *f)
{
    return f->options.now ? f->options.now(f->options.clock) : stk__stamp();
}

/* A read of a store has ended. (fetch_run.c) */
void stk__piece_done(stk_read *read, stk_status status);
bool stk__piece_canceled(const stk_read *read);
/* Queue a piece for a slot of its store. (fetch_run.c) */
void stk__piece_wait_locked(stk__fetcher *f, stk__piece *piece);
/* All its pieces have ended, or none was made. (fetch_run.c) */
void stk__transfer_end_locked(stk__fetcher *f, stk__transfer *transfer);

#endif
