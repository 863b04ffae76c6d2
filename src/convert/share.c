/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/share.h"

#include <inttypes.h>
#include <stdio.h>

void stk__share_init(stk__share *share, uint64_t most, const char *use, const char *part,
                     const char *remedy)
{
    *share = (stk__share){.use = use, .part = part, .remedy = remedy, .most = most};
    pthread_mutex_init(&share->lock, NULL);
    stk__cond_init(&share->given);
}

void stk__share_release(stk__share *share)
{
    pthread_cond_destroy(&share->given);
    pthread_mutex_destroy(&share->lock);
}

stk_status stk__share_take(stk__share *share, uint64_t bytes, char reason[STK__SHARE_REASON])
{
    if (bytes > share->most) {
        snprintf(reason, STK__SHARE_REASON,
                 "%s takes %" PRIu64 " bytes and %s of memory_limit is %" PRIu64 "; raise it%s",
                 share->use, bytes, share->part, share->most, share->remedy);
        return STK_EBUDGET;
    }
    pthread_mutex_lock(&share->lock);
    while (share->held > share->most - bytes)
        pthread_cond_wait(&share->given, &share->lock);
    share->held += bytes;
    pthread_mutex_unlock(&share->lock);
    return STK_OK;
}

void stk__share_give(stk__share *share, uint64_t bytes)
{
    pthread_mutex_lock(&share->lock);
    share->held -= bytes;
    pthread_cond_broadcast(&share->given);
    pthread_mutex_unlock(&share->lock);
}
