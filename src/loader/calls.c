/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of functions that outsiders may write: who is in one, for how long, and what it may not do.
 * Such a call may never end, and no thread can be stopped in it. So the consumer makes one only
 * where there are no workers, and then a thread of its own watches.
 */
#include "loader/loader.h"

#include <inttypes.h>
#include <stdio.h>

/* A call that has just begun is seen this much later. */
#define LOOK_NS UINT64_C(1000000000)

static _Thread_local const stk__call *calls; /* that this thread is in, the innermost first */

void stk__call_begin(stk__call *call, const stk_loader *loader)
{
    *call = (stk__call){.loader = loader, .outer = calls};
    calls = call;
}

void stk__call_end(const stk__call *call)
{
    calls = call->outer;
}

stk_status stk__call_check(const stk_loader *loader, const char *function, stk_error *err)
{
    for (const stk__call *call = calls; call; call = call->outer)
        if (call->loader == loader)
            return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER,
                             "%s was called from a function of the loader's own dataset, transform "
                             "or store: it would wait for itself",
                             function);
    return STK_OK;
}

bool stk__loader_is_own(const stk_loader *loader)
{
    for (uint32_t c = 0; c < loader->ring->num_columns; c++)
        if (loader->ring->columns[c].pipeline &&
            !stk__pipeline_is_own(loader->ring->columns[c].pipeline))
            return false;
    return stk__dataset_is_own(loader->dataset);
}

size_t stk__call_describe(const stk__worker *worker, const char *who, uint64_t now, char *text,
                          size_t size)
{
    const uint64_t since = atomic_load_explicit(&worker->since_ns, memory_order_relaxed);

    if (!since)
        return 0;
    const uint64_t number = atomic_load_explicit(&worker->sample, memory_order_relaxed);
    const char *what = atomic_load_explicit(&worker->decodes, memory_order_relaxed)
                           ? "has decoded a part of object"
                           : "has prepared sample";
    const int n = snprintf(text, size, "%s %s %" PRIu64 " for %.1f s", who, what, number,
                           (double)(now - STK_MIN(since, now)) * 1e-9);
    return n < 0 ? 0 : STK_MIN((size_t)n, size - 1);
}

/* ---- The watch over the caller's own thread ---- */

/* Say it of a call that has taken so long; returns when to look again. (L) held; let go inside. */
static uint64_t look_locked(stk_loader *loader, uint64_t every, uint64_t *told_ns)
{
    char text[300];
    const uint64_t now = stk__now_ns();
    const uint64_t since =
        STK_MAX(atomic_load_explicit(&loader->self.since_ns, memory_order_relaxed),
                loader->planner.since_ns);

    if (!since)
        return now + STK_MIN(every, LOOK_NS);
    const uint64_t due = STK_MAX(since, *told_ns) + every;
    if (now < due)
        return STK_MIN(due, now + LOOK_NS);
    *told_ns = now;
    const uint64_t epoch = loader->first / loader->order.steps,
                   step = loader->first % loader->order.steps;
    if (stk__call_describe(&loader->self, "the caller's thread", now, text, sizeof text) == 0)
        snprintf(text, sizeof text, "the caller's thread has located samples for %.1f s",
                 (double)(now - since) * 1e-9);
    pthread_mutex_unlock(&loader->ring->lock);
    stk__log(loader->ctx, STK_LOG_WARNING,
             "no batch (epoch %" PRIu64 ", step %" PRIu64
             "): %s; with num_workers: 0 neither timeout nor cancel can end that",
             epoch, step, text);
    pthread_mutex_lock(&loader->ring->lock);
    return now + STK_MIN(every, LOOK_NS);
}

static void watch_main(void *argument)
{
    stk_loader *loader = argument;
    const uint64_t every = (uint64_t)(loader->options.watchdog * 1e9);
    uint64_t told_ns = 0;

    pthread_mutex_lock(&loader->ring->lock);
    while (!loader->stopping) {
        const uint64_t when = look_locked(loader, every, &told_ns);
        if (!loader->stopping)
            stk__cond_wait_until(&loader->ring->watch, &loader->ring->lock, when);
    }
    pthread_mutex_unlock(&loader->ring->lock);
}

stk_status stk__watch_start(stk_loader *loader, stk_error *err)
{
    if (loader->num_workers || loader->own || loader->watcher.started ||
        loader->options.watchdog <= 0)
        return STK_OK;
    return stk__thread_start(loader->ctx, &loader->watcher, "stk-watch", watch_main, loader, err);
}

void stk__watch_stop(stk_loader *loader)
{
    pthread_mutex_lock(&loader->ring->lock);
    pthread_cond_broadcast(&loader->ring->watch);
    pthread_mutex_unlock(&loader->ring->lock);
    stk__thread_join(&loader->watcher);
}
