/* SPDX-License-Identifier: Apache-2.0 */
/* What reads took: each nanosecond of one belongs to its turn, to tries in vain, or to the try that
 * brought it. */
#include "base/slot.h"
#include "store/http/room.h"

enum { START, SENT, FIRST };

/* Of two numbers, of which 0 is none. */
static uint32_t least(uint32_t a, uint32_t b)
{
    return a && b ? STK_MIN(a, b) : STK_MAX(a, b);
}

void stk__http_count_wait(stk__http_job *job)
{
    job->waits_ns = stk__now_ns();
    if (!job->begun_ns)
        job->begun_ns = job->waits_ns;
}

void stk__http_count_turn(stk__http_job *job)
{
    job->turn_ns += stk__now_ns() - job->waits_ns;
}

void stk__http_count_connects(stk__http_job *job, const stk__http_try *t)
{
    long made = 0;

    if (curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &made) == CURLE_OK && made > 0)
        job->connects += (uint32_t)made;
}

void stk__http_count_try(stk__http_job *job, const stk__http_try *t, bool in_vain)
{
    if (in_vain) {
        job->throttled += job->again == STK__HTTP_THROTTLED;
        if (job->again == STK__HTTP_THROTTLED)
            job->throttled_at = least(job->throttled_at, t->active);
        job->late += job->status == STK_ETIMEDOUT;
        return;
    }
    job->won_ns[START] = t->start_ns;
    job->won_ns[SENT] = STK_MAX(t->sent_ns, t->start_ns);
    job->won_ns[FIRST] = STK_MAX(t->first_ns, job->won_ns[SENT]);
    job->bytes_before = t->bytes_before;
}

static void count_times_locked(stk_network *n, const stk__http_job *job, uint64_t now)
{
    const uint64_t *const at = job->won_ns;
    const uint64_t before = at[START] - STK_MIN(job->begun_ns, at[START]);
    const uint64_t in_vain = before - STK_MIN(job->turn_ns, before);

    n->reads++;
    n->bytes += job->got;
    n->turn_ns += job->turn_ns;
    *(job->throttled ? &n->throttled_ns : &n->again_ns) += in_vain;
    n->connect_ns += at[SENT] - at[START];
    n->first_ns += at[FIRST] - at[SENT];
    n->body_ns += now - at[FIRST];
}

void stk__http_count_read(stk__http_loop *loop, const stk__http_job *job, stk_status status)
{
    const stk__http_exchange *x = job->exchange;
    const stk__http_host *host = x->client->host;
    const uint64_t now = stk__now_ns();
    const bool came = status == STK_OK && job->won_ns[START];

    if (!x->data || (!x->tries && !came))
        return;
    if (came)
        stk__trend_add(&loop->trend, (double)job->bytes_before, (double)(now - job->won_ns[SENT]));
    const stk__sums *all = &loop->trend.all;
    loop->throttled_at = least(loop->throttled_at, job->throttled_at);
    pthread_mutex_lock(&loop->mutex);
    stk_network *n = &loop->network;
    n->requests += x->tries;
    n->twice += job->twice;
    n->retries += x->tries - STK_MIN(x->tries, job->twice + 1);
    n->throttled += job->throttled;
    n->late += job->late;
    n->connects += job->connects;
    n->connections = (uint64_t)host->window.most;
    n->window = (uint64_t)host->window.limit;
    /* Next to fewer than so many none was throttled yet. */
    if (loop->throttled_at > 1)
        n->window = STK_MIN(n->window, loop->throttled_at - UINT64_C(1));
    if (came)
        count_times_locked(n, job, now);
    n->transfer_share = all->ns > 0 ? STK_MIN(1.0, loop->trend.slope * all->bytes / all->ns) : 0;
    pthread_mutex_unlock(&loop->mutex);
}

/* ---- Looking ---- */

static stk_status borrow(stk_context *ctx, stk__slot *slot, void *user)
{
    stk__http_loop *loop = slot->data;

    (void)ctx;
    if (loop)
        loop->clients++;
    *(stk__http_loop **)user = loop;
    return STK_OK;
}

static void get(stk_context *ctx, stk_network *out)
{
    stk__http_loop *loop = NULL;

    *out = (stk_network){0};
    (void)stk__context_slot(ctx, STK__SLOT_HTTP, borrow, &loop);
    if (!loop)
        return;
    pthread_mutex_lock(&loop->mutex);
    *out = loop->network;
    pthread_mutex_unlock(&loop->mutex);
    stk__http_loop_put(loop);
}

void (*const stk__network_get)(stk_context *ctx, stk_network *out) = get;
