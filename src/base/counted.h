/* so many pieces of work -> taken in their order by some threads, the failure of the first kept */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_COUNTED_H
#define STK_SRC_BASE_COUNTED_H

#include "base/base.h"

/* Pieces of which none leads to others; those that do are of base/worklist.h. */
typedef struct stk__counted {
    uint64_t count, at_a_time;       /* pieces; those that a thread takes at a time */
    atomic_uint_fast64_t next, done; /* done: as the threads say */
    atomic_bool failed;
    pthread_mutex_t mutex; /* guards the rest */
    uint64_t failed_at;    /* the first piece that failed */
    stk_status status;
    stk_error error;
} stk__counted;

void stk__counted_init(stk__counted *counted, uint64_t count, uint64_t at_a_time);
/* The next pieces, from *first on, below *end; false: all are taken, or one has failed. */
bool stk__counted_take(stk__counted *counted, uint64_t *first, uint64_t *end);
/* Of the pieces that fail the first is kept: as those before it were taken, and are done, it is the
 * same whatever the threads do. */
void stk__counted_fail(stk__counted *counted, uint64_t piece, stk_status status,
                       const stk_error *err);
/* When no thread is at work: the status of that failure, and its error. */
stk_status stk__counted_end(stk__counted *counted, stk_error *err);

/* ---- Threads that share them ---- */

#define STK__MOST_HELPERS 64

/* Run `work(argument)` in this thread and in so many more, STK__MOST_HELPERS at most, until all
 * have returned. One that cannot be started leaves its share to the others. */
void stk__thread_share(stk_context *ctx, const char *name, uint64_t helpers, void (*work)(void *),
                       void *argument);

#endif
