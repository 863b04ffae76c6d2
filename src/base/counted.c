/* SPDX-License-Identifier: Apache-2.0 */
#include "base/counted.h"

void stk__counted_init(stk__counted *c, uint64_t count, uint64_t at_a_time)
{
    *c = (stk__counted){.count = count, .at_a_time = at_a_time};
    pthread_mutex_init(&c->mutex, NULL);
}

bool stk__counted_take(stk__counted *c, uint64_t *first, uint64_t *end)
{
    if (atomic_load(&c->failed))
        return false;
    *first = atomic_fetch_add(&c->next, c->at_a_time);
    *end = STK_MIN(*first + c->at_a_time, c->count);
    return *first < c->count;
}

void stk__counted_fail(stk__counted *c, uint64_t piece, stk_status status, const stk_error *err)
{
    atomic_store(&c->failed, true);
    pthread_mutex_lock(&c->mutex);
    if (c->status == STK_OK || piece < c->failed_at) {
        c->status = status;
        c->failed_at = piece;
        c->error = *err;
    }
    pthread_mutex_unlock(&c->mutex);
}

stk_status stk__counted_end(stk__counted *c, stk_error *err)
{
    pthread_mutex_destroy(&c->mutex);
    if (c->status != STK_OK && err)
        *err = c->error;
    return c->status;
}

void stk__thread_share(stk_context *ctx, const char *name, uint64_t helpers, void (*work)(void *),
                       void *argument)
{
    stk__thread threads[STK__MOST_HELPERS];
    uint64_t started = 0;

    while (started < STK_MIN(helpers, STK__MOST_HELPERS) &&
           stk__thread_start(ctx, &threads[started], name, work, argument, NULL) == STK_OK)
        started++;
    work(argument);
    while (started > 0)
        stk__thread_join(&threads[--started]);
}
