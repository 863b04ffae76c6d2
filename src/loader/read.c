/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges on their way through the fetcher. */
#include "loader/reads.h"

enum { FIRST, BEHIND }; /* priorities */

/* ---- What the fetcher says ---- */

static void flush(stk__reads *reads);

static void on_ended(void *user, stk__transfer *list)
{
    stk__reads *reads = user;

    pthread_mutex_lock(reads->lock);
    for (stk__transfer *next; list; list = next) {
        stk__range *range = (stk__range *)list;
        next = list->next;
        reads->pending--;
        reads->served++;
        reads->waited += !list->at_once;
        range->arrived_locked(range, list->status);
    }
    if (reads->pending == 0)
        pthread_cond_broadcast(&reads->ended);
    const bool any = reads->queued;
    pthread_mutex_unlock(reads->lock);
    /* What is read by itself now: the thread that is here sends it afterwards. */
    if (any)
        flush(reads);
}

static void on_sooner(void *user, uint64_t due_ns)
{
    stk__reads *reads = user;

    pthread_mutex_lock(reads->lock);
    if (due_ns < reads->due_ns) {
        reads->due_ns = due_ns;
        reads->sooner_locked(reads->user);
    }
    pthread_mutex_unlock(reads->lock);
}

/* ---- Queueing and sending ---- */

static void queue_locked(stk__reads *reads, stk__range *range, uint64_t priority)
{
    range->transfer.priority = priority;
    range->transfer.user = reads;
    range->transfer.next = NULL;
    if (reads->queued)
        reads->last_queued->transfer.next = &range->transfer;
    else
        reads->queued = range;
    reads->last_queued = range;
    reads->pending++;
}

void stk__reads_queue_locked(stk__reads *reads, stk__range *range)
{
    queue_locked(reads, range, BEHIND);
}

void stk__reads_queue_first_locked(stk__reads *reads, stk__range *range)
{
    queue_locked(reads, range, FIRST);
}

static void flush(stk__reads *reads)
{
    pthread_mutex_lock(reads->lock);
    stk__range *list = reads->queued;
    reads->queued = NULL;
    pthread_mutex_unlock(reads->lock);
    if (list)
        stk__fetcher_add(reads->fetcher, &list->transfer);
}

void stk__reads_pump(stk__reads *reads)
{
    flush(reads);
    stk__fetcher_pump(reads->fetcher);
}

bool stk__reads_pump_due_locked(stk__reads *reads)
{
    if (reads->due_ns == UINT64_MAX || stk__now_ns() < reads->due_ns)
        return false;
    reads->due_ns = UINT64_MAX;
    pthread_mutex_unlock(reads->lock);
    stk__reads_pump(reads);
    on_sooner(reads, stk__fetcher_due(reads->fetcher));
    pthread_mutex_lock(reads->lock);
    return true;
}

void stk__reads_move(stk__reads *reads, uint32_t depth, uint32_t of)
{
    stk__fetcher_move(reads->fetcher, depth, of);
    stk__reads_pump(reads);
}

/* ---- Stopping ---- */

void stk__reads_stop(stk__reads *reads, bool stop)
{
    if (stop)
        flush(reads);
    stk__fetcher_stop(reads->fetcher, stop);
}

bool stk__reads_wait_locked(stk__reads *reads, uint64_t until)
{
    while (reads->pending)
        if (!stk__cond_wait_until(&reads->ended, reads->lock, until))
            return false;
    return true;
}

bool stk__reads_idle_locked(const stk__reads *reads)
{
    return reads->pending == 0;
}

/* ---- Figures ---- */

void stk__reads_figures(const stk__reads *reads, stk__read_figures *out)
{
    stk__fetch_stats stats;

    stk__fetcher_stats(reads->fetcher, &stats);
    *out = (stk__read_figures){.requests = stats.requests,
                               .request_bytes = stats.request_bytes,
                               .failures = stats.failures,
                               .busy_ns = stats.busy_ns,
                               .ns_per_byte = stats.ns_per_byte,
                               .transfer_share = stats.transfer_share,
                               .latency_ns = stats.latency_ns};
}

uint32_t stk__reads_in_flight(const stk__reads *reads)
{
    stk__fetch_stats stats;

    stk__fetcher_stats(reads->fetcher, &stats);
    return stats.under_way;
}

size_t stk__reads_describe(const stk__reads *reads, char *text, size_t size)
{
    return stk__fetcher_describe(reads->fetcher, text, size);
}

/* ---- Its life ---- */

stk_status stk__reads_init(stk__reads *reads, stk_context *ctx, uint32_t depth, uint32_t retries,
                           uint64_t seed)
{
    const stk__fetcher_options options = {.depth = depth,
                                          .retries = retries,
                                          .seed = seed,
                                          .ended = on_ended,
                                          .sooner = on_sooner,
                                          .user = reads,
                                          .measures = true,
                                          .loader = reads->user};

    reads->due_ns = UINT64_MAX;
    STK_TRY(stk__fetcher_create(ctx, &options, &reads->fetcher));
    stk__cond_init(&reads->ended);
    return STK_OK;
}

void stk__reads_destroy(stk__reads *reads)
{
    if (!reads->fetcher)
        return;
    stk__fetcher_destroy(&reads->fetcher);
    pthread_cond_destroy(&reads->ended);
}
