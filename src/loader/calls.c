/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of functions that outsiders may write: who is in one, for how long, and what it may not do.
 * Such a call may never end, and no thread can be stopped in it. So the consumer makes one only
 * where there are no workers, and then a thread of its own watches.
 */
#include "loader/calls.h"

#include <inttypes.h>
#include <stdio.h>

#include "loader/planner.h"

/* A call that has just begun is seen this much later. */
#define LOOK_NS UINT64_C(1000000000)

static _Thread_local const stk__call *calls; /* that this thread is in, the innermost first */

void stk__call_begin(stk__call *call, const stk__ring *ring)
{
    *call = (stk__call){.ring = ring, .outer = calls};
    calls = call;
}

void stk__call_end(const stk__call *call)
{
    calls = call->outer;
}

stk_status stk__call_check(const stk__ring *ring, const char *function, stk_error *err)
{
    for (const stk__call *call = calls; call; call = call->outer)
        if (call->ring == ring)
            return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER,
                             "%s was called from a function of the loader's own dataset, transform "
                             "or store: it would wait for itself",
                             function);
    return STK_OK;
}

bool stk__calls_are_own(const stk__ring *ring, const stk_dataset *dataset)
{
    for (uint32_t c = 0; c < ring->num_columns; c++)
        if (ring->columns[c].pipeline && !stk__pipeline_is_own(ring->columns[c].pipeline))
            return false;
    return stk__dataset_is_own(dataset);
}

/* ---- What a thread is doing ---- */

void stk__doing_begin(stk__doing *doing, bool decodes, uint64_t sample, uint64_t now_ns)
{
    atomic_store_explicit(&doing->decodes, decodes, memory_order_relaxed);
    atomic_store_explicit(&doing->sample, sample, memory_order_relaxed);
    atomic_store_explicit(&doing->since_ns, now_ns, memory_order_relaxed);
}

void stk__doing_sample(stk__doing *doing, uint64_t sample)
{
    atomic_store_explicit(&doing->sample, sample, memory_order_relaxed);
}

void stk__doing_end(stk__doing *doing)
{
    atomic_store_explicit(&doing->since_ns, 0, memory_order_relaxed);
}

size_t stk__doing_describe(const stk__doing *doing, const char *who, uint64_t now, char *text,
                           size_t size)
{
    const uint64_t since = atomic_load_explicit(&doing->since_ns, memory_order_relaxed);

    if (!since)
        return 0;
    const uint64_t number = atomic_load_explicit(&doing->sample, memory_order_relaxed);
    const char *what = atomic_load_explicit(&doing->decodes, memory_order_relaxed)
                           ? "has decoded a part of object"
                           : "has prepared sample";
    const int n = snprintf(text, size, "%s %s %" PRIu64 " for %.1f s", who, what, number,
                           (double)(now - STK_MIN(since, now)) * 1e-9);
    return n < 0 ? 0 : STK_MIN((size_t)n, size - 1);
}

/* ---- The watch over the caller's own thread ---- */

/* Say it of a call that has taken so long; returns when to look again. (L) held; let go inside. */
static uint64_t look_locked(stk__watch *watch, uint64_t *told_ns)
{
    char text[300];
    const uint64_t now = stk__now_ns(), every = watch->every_ns;
    const uint64_t since =
        STK_MAX(atomic_load_explicit(&watch->doing->since_ns, memory_order_relaxed),
                stk__planner_since_locked(watch->planner));

    if (!since)
        return now + STK_MIN(every, LOOK_NS);
    const uint64_t due = STK_MAX(since, *told_ns) + every;
    if (now < due)
        return STK_MIN(due, now + LOOK_NS);
    *told_ns = now;
    const uint64_t of_epoch = watch->planner->order->steps, first = watch->steps->first;
    if (stk__doing_describe(watch->doing, "the caller's thread", now, text, sizeof text) == 0)
        snprintf(text, sizeof text, "the caller's thread has located samples for %.1f s",
                 (double)(now - since) * 1e-9);
    pthread_mutex_unlock(&watch->ring->lock);
    stk__message(watch->ring->ctx, STK_MESSAGE_WARNING,
                 "no batch (epoch %" PRIu64 ", step %" PRIu64
                 "): %s; with num_workers: 0 neither timeout nor cancel can end that",
                 first / of_epoch, first % of_epoch, text);
    pthread_mutex_lock(&watch->ring->lock);
    return now + STK_MIN(every, LOOK_NS);
}

static void watch_main(void *argument)
{
    stk__watch *watch = argument;
    stk__ring *ring = watch->ring;
    uint64_t told_ns = 0;

    pthread_mutex_lock(&ring->lock);
    while (!watch->stopping) {
        const uint64_t when = look_locked(watch, &told_ns);
        if (!watch->stopping)
            stk__cond_wait_until(&ring->watch, &ring->lock, when);
    }
    pthread_mutex_unlock(&ring->lock);
}

stk_status stk__watch_start(stk__watch *watch, stk_error *err)
{
    if (watch->thread.started)
        return STK_OK;
    watch->stopping = false;
    return stk__thread_start(watch->ring->ctx, &watch->thread, "stk-watch", watch_main, watch, err);
}

void stk__watch_stop(stk__watch *watch)
{
    if (!watch->thread.started)
        return;
    pthread_mutex_lock(&watch->ring->lock);
    watch->stopping = true;
    pthread_cond_broadcast(&watch->ring->watch);
    pthread_mutex_unlock(&watch->ring->lock);
    stk__thread_join(&watch->thread);
}
