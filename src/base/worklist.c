/* SPDX-License-Identifier: Apache-2.0 */
#include "base/worklist.h"

void stk__worklist_init(stk__worklist *w)
{
    w->most = STK_MIN(w->most, STK__WORKLIST_MOST);
    pthread_mutex_init(&w->mutex, NULL);
    stk__cond_init(&w->changed);
    stk_error_init(&w->error);
}

void stk__worklist_add_locked(stk__worklist *w, stk__worklist_piece *piece)
{
    piece->next = w->waiting;
    w->waiting = piece;
    w->num_waiting++;
    pthread_cond_signal(&w->changed);
}

bool stk__worklist_wants_locked(const stk__worklist *w)
{
    return w->status == STK_OK && w->num_waiting < w->idle + w->coming + w->most - w->started;
}

void stk__worklist_grow_locked(stk__worklist *w)
{
    while (w->started < w->most && w->status == STK_OK && w->num_waiting > w->idle + w->coming) {
        if (stk__thread_start(w->ctx, &w->threads[w->started], w->name, stk__worklist_work, w,
                              NULL) != STK_OK) {
            w->most = w->started;
            return;
        }
        w->started++;
        w->coming++;
    }
}

/* The next piece; NULL: all are done, or one has failed. */
static stk__worklist_piece *take_locked(stk__worklist *w)
{
    while (w->status == STK_OK && !w->waiting && w->busy)
        pthread_cond_wait(&w->changed, &w->mutex);
    if (w->status != STK_OK || !w->waiting)
        return NULL;
    stk__worklist_piece *taken = w->waiting;
    w->waiting = taken->next;
    w->num_waiting--;
    w->idle--;
    w->busy++;
    return taken;
}

static void done_locked(stk__worklist *w, stk_status status, const stk_error *err)
{
    w->busy--;
    w->idle++;
    if (status != STK_OK && w->status == STK_OK) {
        w->status = status;
        w->error = *err;
    }
    stk__worklist_grow_locked(w);
    if (status != STK_OK || (!w->busy && !w->waiting))
        pthread_cond_broadcast(&w->changed);
}

void stk__worklist_work(void *list)
{
    stk__worklist *w = list;
    stk__worklist_piece *piece;
    stk_error err;

    pthread_mutex_lock(&w->mutex);
    const uint32_t number = w->came++;
    w->idle++;
    w->coming -= w->coming > 0;
    while ((piece = take_locked(w))) {
        pthread_mutex_unlock(&w->mutex);
        stk_error_init(&err);
        const stk_status status = w->one(w->user, number, piece, &err);
        pthread_mutex_lock(&w->mutex);
        done_locked(w, status, &err);
    }
    pthread_mutex_unlock(&w->mutex);
}

stk_status stk__worklist_end(stk__worklist *w, stk_error *err)
{
    for (uint32_t i = 0; i < w->started; i++)
        stk__thread_join(&w->threads[i]);
    for (stk__worklist_piece *next; w->waiting; w->waiting = next) {
        next = w->waiting->next;
        stk__free(w->ctx, w->waiting);
    }
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    if (w->status != STK_OK && err)
        *err = w->error;
    return w->status;
}
