/* SPDX-License-Identifier: Apache-2.0 */
/* Handing out batches in order. */
#include "loader/loader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* A cancel may come from a signal handler, which can set a flag and wake nobody: waits look this
 * often. */
#define LOOK_NS UINT64_C(20000000)
/* A row this cheap is prepared by a consumer that waits. */
#define HELP_ROW_NS 10e3
/* A task of a later batch that takes longer and keeps the consumer from its own is the last such
 * task for so many times as long: stragglers keep it at most 1 % of the time. */
#define KEPT_NS    1000000u
#define KEPT_TIMES 100u

/* ---- Waiting ---- */

/* One more part of a message, of which `*n` characters are there. */
static void add_part(char *text, size_t size, size_t *n, const char *part)
{
    const int length = snprintf(text + *n, size - *n, "; %s", part);

    *n = STK_MIN(*n + (size_t)STK_MAX(length, 0), size - 1);
}

/* Say who is stuck. (L) held; let go inside. */
static void watch_locked(stk_loader *loader, uint64_t waited_ns)
{
    char text[700], part[300];
    const uint64_t now = stk__now_ns();
    size_t n = (size_t)snprintf(text, sizeof text,
                                "no batch for %.0f s (epoch %" PRIu64 ", step %" PRIu64 ")",
                                (double)waited_ns * 1e-9, loader->first / loader->order.steps,
                                loader->first % loader->order.steps);

    for (uint32_t i = 0; i < loader->num_workers && n < 400; i++)
        if (stk__call_describe(&loader->workers[i], loader->workers[i].thread.name, now, part,
                               sizeof part))
            add_part(text, sizeof text, &n, part);
    if (loader->planner.since_ns) {
        snprintf(part, sizeof part, "samples have been located for %.1f s",
                 (double)(now - STK_MIN(loader->planner.since_ns, now)) * 1e-9);
        add_part(text, sizeof text, &n, part);
    }
    if (stk__reads_describe_locked(&loader->reads, now, part, sizeof part))
        add_part(text, sizeof text, &n, part);
    if (loader->planner.blocked)
        add_part(text, sizeof text, &n, "the memory budget is full");
    pthread_mutex_unlock(&loader->ring->lock);
    stk__log(loader->ctx, STK_LOG_WARNING, "%s", text);
    pthread_mutex_lock(&loader->ring->lock);
}

/*
 * Do a piece of the work in the consumer's thread: all of it where there are no workers, and cheap
 * rows where it would only wait, which costs less than to sleep and be woken. Reads are planned by
 * workers alone: that may block. So may what outsiders wrote, beyond timeout and cancel. (L) held.
 */
static bool help_locked(stk_loader *loader)
{
    const bool alone = loader->num_workers == 0;

    if (!alone && (!loader->own || loader->mean_row_ns > HELP_ROW_NS))
        return false;
    if ((alone || !loader->dataset->ops->locate || (loader->cache && !loader->planner.sends)) &&
        stk__can_plan_locked(loader)) {
        stk__plan_round_locked(loader);
        if (stk__work_left_locked(loader))
            pthread_cond_signal(&loader->ring->work);
        return true;
    }
    stk__unit *unit = alone ? stk__decode_take_locked(loader) : NULL;
    if (unit) {
        pthread_mutex_unlock(&loader->ring->lock);
        stk__decode_run(loader, &loader->self, unit);
        return true;
    }
    if (loader->draining || !stk__task_take_locked(loader, &loader->self))
        return false;
    if (stk__work_left_locked(loader))
        pthread_cond_signal(&loader->ring->work);
    const bool later = !alone && loader->self.step->serial != loader->first;
    pthread_mutex_unlock(&loader->ring->lock);
    const uint64_t start = stk__now_ns();
    stk__task_run(loader, &loader->self);
    if (later && stk__step_at(loader, loader->first)->complete) {
        const uint64_t now = stk__now_ns();
        if (now - start > KEPT_NS)
            loader->near_until_ns = now + KEPT_TIMES * (now - start);
    }
    return true;
}

/* Nothing moves until the consumer gives a batch back. (L) held. */
static bool starved_locked(stk_loader *loader)
{
    const stk__ring *ring = loader->ring;

    if (ring->num_held == ring->num_slabs)
        return true;
    for (uint64_t serial = loader->first; serial < loader->slab_end; serial++)
        if (stk__step_at(loader, serial)->num_ready)
            return false;
    return ring->num_held && ring->num_ragged && loader->planner.blocked && !loader->planner.busy &&
           loader->tasks == 0 && stk__reads_idle_locked(&loader->reads) &&
           !stk__decode_next_locked(loader);
}

/* What it is that the batches hold which the consumer has. (L) held. */
static stk_status fail_starved_locked(const stk_loader *loader, stk_error *err)
{
    const stk__ring *ring = loader->ring;

    if (ring->num_held == ring->num_slabs)
        return stk__fail(err, STK_EBUSY, STK_STAGE_LOADER,
                         "all %u batches of the loader are held: give one back with "
                         "stk_batch_release(), or raise prefetch_factor",
                         ring->num_slabs);
    return stk__fail(err, STK_EBUSY, STK_STAGE_LOADER,
                     "the values of the %u batches that are held leave no memory for those of the "
                     "next: give one back with stk_batch_release(), or raise memory_budget",
                     ring->num_held);
}

/* Wait for the first step to be complete. (L) held. */
static stk_status wait_locked(stk_loader *loader, uint64_t deadline, bool has_timeout,
                              stk_error *err)
{
    const uint64_t start = stk__now_ns();
    uint64_t watch =
        loader->options.watchdog > 0 ? (uint64_t)(loader->options.watchdog * 1e9) : UINT64_MAX;
    uint64_t next_watch = watch == UINT64_MAX ? UINT64_MAX : start + watch;

    for (;;) {
        if (atomic_load(&loader->canceled))
            return stk__fail(err, STK_ECANCELED, STK_STAGE_LOADER, "the loader was canceled");
        if (loader->first < loader->located_end && stk__step_at(loader, loader->first)->complete)
            return STK_OK;
        if (help_locked(loader))
            continue;
        if (stk__stuck_locked(loader)) {
            if (loader->planner.wanted && loader->ring->num_held > 1)
                return stk__fail(err, STK_EBUSY, STK_STAGE_LOADER,
                                 "a sample wants the memory of batches that are held: give back "
                                 "all but one with stk_batch_release(), or raise memory_budget");
            pthread_mutex_unlock(&loader->ring->lock);
            stk_status status = stk__loader_widen(loader, err);
            pthread_mutex_lock(&loader->ring->lock);
            STK_TRY(status);
            continue;
        }
        if (starved_locked(loader))
            return fail_starved_locked(loader, err);
        uint64_t now = stk__now_ns();
        if (now >= deadline && !has_timeout)
            return STK_EAGAIN;
        if (now >= deadline)
            return stk__fail(err, STK_ETIMEDOUT, STK_STAGE_LOADER,
                             "no batch within the timeout of %g s", loader->options.timeout);
        if (now >= next_watch) {
            watch_locked(loader, now - start);
            next_watch = now + watch;
            continue;
        }
        stk__cond_wait_until(&loader->ring->finished, &loader->ring->lock,
                             STK_MIN(deadline, STK_MIN(next_watch, now + LOOK_NS)));
    }
}

/* ---- Delivery ---- */

/* Take the finished first step's slab and let its record go. (L) held. */
static stk_batch *detach_locked(stk_loader *loader, stk__bad_sample **bad, uint32_t *num_bad,
                                stk__extra **extras)
{
    stk__step *step = stk__step_at(loader, loader->first);
    stk_batch *batch = step->slab;

    *bad = step->bad;
    *num_bad = step->num_bad;
    *extras = step->extras;
    step->bad = NULL;
    step->num_bad = 0;
    step->extras = NULL;
    step->slab = NULL;
    batch->held = true;
    stk__batch_guard(batch, true);
    loader->ring->num_held++;
    loader->ring->references++;
    loader->first++;
    if (loader->num_workers == 0)
        loader->plan_limit = stk__plan_limit(loader);
    loader->eos_pending = loader->first % loader->order.steps == 0;
    loader->delivered++;
    return batch;
}

static uint64_t after(uint64_t start, double seconds)
{
    double ns = (double)start + seconds * 1e9;

    return ns >= 9e18 ? UINT64_MAX : (uint64_t)ns;
}

/* What is to be said instead of a batch: the end of an epoch, or of everything. */
static stk_status answer_without_batch(stk_loader *loader, stk_error *err)
{
    if (loader->eos_pending) {
        loader->eos_pending = false;
        if (!loader->options.persistent_workers)
            stk__loader_stop_threads(loader);
        return STK_EOS;
    }
    if (loader->options.epochs && loader->first / loader->order.steps >= loader->options.epochs)
        return STK_EOS;
    /* Persistent ones are gone only where they could not be started again. */
    if ((!loader->options.persistent_workers || loader->num_workers) && loader->running == 0)
        STK_TRY(stk__loader_start_threads(loader, err));
    return STK_OK;
}

stk_status stk_loader_next(stk_loader *loader, int64_t timeout_ms, stk_batch **out, stk_error *err)
{
    stk__bad_sample *bad;
    stk__extra *extras;
    uint32_t num_bad;

    *out = NULL;
    stk_error_init(err);
    STK_TRY(stk__context_check(loader->ctx, err));
    STK_TRY(stk__call_check(loader, "stk_loader_next()", err));
    if (atomic_load(&loader->canceled))
        return stk__fail(err, STK_ECANCELED, STK_STAGE_LOADER, "the loader was canceled");
    const uint64_t start = stk__now_ns();
    stk_status status = answer_without_batch(loader, err);
    if (status != STK_OK) {
        stk__stall_in_vain(loader, start, status == STK_EOS);
        return status;
    }
    uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : after(start, (double)timeout_ms * 1e-3);
    bool has_timeout =
        loader->options.timeout > 0 && after(start, loader->options.timeout) < deadline;
    if (has_timeout)
        deadline = after(start, loader->options.timeout);
    pthread_mutex_lock(&loader->ring->lock);
    status = wait_locked(loader, deadline, has_timeout, err);
    if (status != STK_OK) {
        pthread_mutex_unlock(&loader->ring->lock);
        stk__stall_in_vain(loader, start, false);
        return status;
    }
    const stk__step *step = stk__step_at(loader, loader->first);
    stk_batch *batch = detach_locked(loader, &bad, &num_bad, &extras);
    uint64_t end = stk__stamp();
    stk__stall_settle_locked(loader, step, start, end);
    stk__attach_slabs_locked(loader);
    pthread_cond_signal(&loader->ring->work);
    pthread_mutex_unlock(&loader->ring->lock);

    for (stk__extra *next; extras; extras = next) {
        next = extras->next;
        stk__free(loader->ctx, extras);
    }
    stk__event event = {.kind = STK__EVENT_DELIVER,
                        .worker = UINT32_MAX,
                        .start_ns = start,
                        .end_ns = end,
                        .epoch = batch->epoch,
                        .step = batch->step,
                        .count = batch->count};
    stk__emit(loader->ctx, &event);
    if (num_bad)
        status = stk__bad_settle(loader, batch, bad, num_bad, err);
    if (status != STK_OK) {
        stk_batch_release(&batch);
        return status;
    }
    *out = batch;
    return STK_OK;
}

void stk_loader_cancel(stk_loader *loader)
{
    atomic_store(&loader->canceled, true);
}
