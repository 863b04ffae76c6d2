/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that somebody is about to look at, asked for together. */
#include "store/fetch.h"
#include "store/opening.h"

#define MOST_KEYS 8

typedef struct expecting {
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t cond;
    size_t ended;
} expecting;

static void note_ends(void *user, stk__transfer *list)
{
    expecting *e = user;

    pthread_mutex_lock(&e->mutex);
    for (; list; list = list->next)
        e->ended++;
    pthread_cond_signal(&e->cond);
    pthread_mutex_unlock(&e->mutex);
}

/* Reads of a store that tries again by itself: nothing is due at the fetcher. */
static void read_all(stk__fetcher *fetcher, expecting *e, stk__transfer *list, size_t count)
{
    stk__fetcher_add(fetcher, list);
    stk__fetcher_pump(fetcher);
    pthread_mutex_lock(&e->mutex);
    while (e->ended < count)
        pthread_cond_wait(&e->cond, &e->mutex);
    pthread_mutex_unlock(&e->mutex);
}

void stk__store_expect(stk_store *store, const char *const *keys, size_t count)
{
    stk_context *ctx = store->context;
    expecting e = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const stk__fetcher_options options = {.ended = note_ends, .user = &e};
    stk__transfer list[MOST_KEYS];
    stk__fetcher *fetcher = NULL;
    stk_store_limits limits;

    stk__store_limits(store, &limits);
    count = STK_MIN(count, (size_t)MOST_KEYS);
    if (!count || !stk__opening_is(ctx) || !limits.tries_again || !limits.ends)
        return;
    char *room = stk__alloc(ctx, count * STK__OPENING_AHEAD);
    if (!room || stk__fetcher_create(ctx, &options, &fetcher) != STK_OK) {
        stk__free(ctx, room);
        return;
    }
    for (size_t i = 0; i < count; i++)
        list[i] = (stk__transfer){.store = store,
                                  .key = keys[i],
                                  .length = STK__OPENING_AHEAD,
                                  .data = room + i * STK__OPENING_AHEAD,
                                  .up_to = true,
                                  .next = i + 1 < count ? &list[i + 1] : NULL};
    stk__cond_init(&e.cond);
    read_all(fetcher, &e, list, count);
    stk__fetcher_destroy(&fetcher);
    pthread_cond_destroy(&e.cond);
    pthread_mutex_destroy(&e.mutex);
    stk__free(ctx, room);
}
