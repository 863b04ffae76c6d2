/* pieces of work that lead to more -> all of them done, by as many threads as find some */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_BASE_WORKLIST_H
#define STK_SRC_BASE_WORKLIST_H

#include "base/base.h"

#define STK__WORKLIST_MOST 31 /* threads that are started */

/* What a piece begins with; one block of the context, of which it is freed where it is left. */
typedef struct stk__worklist_piece stk__worklist_piece;
struct stk__worklist_piece {
    stk__worklist_piece *next;
};

/* Do a piece, which is the function's from now on. `thread`: the number of the calling one, in the
 * order in which they came. A failure ends it all. */
typedef stk_status stk__worklist_fn(void *user, uint32_t thread, stk__worklist_piece *piece,
                                    stk_error *err);

typedef struct stk__worklist {
    stk_context *ctx;
    const char *name; /* of threads that are started */
    stk__worklist_fn *one;
    void *user;
    uint32_t most; /* of them; 0: none are started */
    /* Of base/worklist.c. */
    pthread_mutex_t mutex; /* guards what follows, and what users have it guard */
    pthread_cond_t changed;
    stk__worklist_piece *waiting;
    uint32_t num_waiting, busy, idle; /* pieces; threads that do one; that wait for one */
    uint32_t came, coming, started;   /* threads that came; that were started and will; all those */
    stk_status status;                /* and error: of the first failure */
    stk_error error;
    stk__thread threads[STK__WORKLIST_MOST];
} stk__worklist;

/* The first members are set, the others are 0. */
void stk__worklist_init(stk__worklist *list);
/* Do pieces until there is none and nobody is at work that could find one, or one has failed. Of
 * any threads; where `most` says so of others, too, which are started as they are of use. */
void stk__worklist_work(void *list);
/* These with the mutex held, or before any thread works. Leave a piece to whoever has time next. */
void stk__worklist_add_locked(stk__worklist *list, stk__worklist_piece *piece);
/* Start threads for pieces that wait for one; done by itself whenever a piece is done. One that
 * cannot be started is not missed. */
void stk__worklist_grow_locked(stk__worklist *list);
/* Whether a piece that is added now finds a thread that has time, or one that can be started. */
bool stk__worklist_wants_locked(const stk__worklist *list);
/* When no thread is at work but those that were started: join them and free what is left. The
 * status of the first failure, and its error. */
stk_status stk__worklist_end(stk__worklist *list, stk_error *err);

#endif
