/* SPDX-License-Identifier: Apache-2.0 */
/* Handing out batches in order. */
#include <inttypes.h>
#include <stdio.h>

#include "loader/parts.h"

#include "base/probe.h"

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
                                (double)waited_ns * 1e-9, loader->steps.first / loader->order.steps,
                                loader->steps.first % loader->order.steps);

    for (uint32_t i = 0; i < loader->workers.num && n < 400; i++)
        if (stk__doing_describe(&loader->workers.each[i].doing, loader->workers.each[i].thread.name,
                                now, part, sizeof part))
            add_part(text, sizeof text, &n, part);
    const uint64_t since = stk__planner_since_locked(&loader->planner);
    if (since) {
        snprintf(part, sizeof part, "samples have been located for %.1f s",
                 (double)(now - STK_MIN(since, now)) * 1e-9);
        add_part(text, sizeof text, &n, part);
    }
    const bool full = loader->ring->full;
    pthread_mutex_unlock(&loader->ring->lock);
    if (stk__reads_describe(&loader->reads, part, sizeof part))
        add_part(text, sizeof text, &n, part);
    if (full)
        add_part(text, sizeof text, &n, "the memory budget is full");
    stk__message(loader->ctx, STK_MESSAGE_WARNING, "%s", text);
    pthread_mutex_lock(&loader->ring->lock);
}

/* Nothing moves until the consumer gives a batch back. (L) held. */
static bool starved_locked(stk_loader *loader)
{
    const stk__ring *ring = loader->ring;

    if (ring->num_held == ring->num_slabs)
        return true;
    return ring->num_held && ring->num_ragged && ring->full &&
           stk__planner_quiet_locked(&loader->planner);
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

static bool first_complete_locked(const stk__steps *steps)
{
    return steps->first < steps->located_end && stk__step_at(steps, steps->first)->complete;
}

/* Give a row that waits for more memory what it lacks. (L) held; let go inside. */
static stk_status widen_locked(stk_loader *loader, stk_error *err)
{
    if (loader->planner.wanted && loader->ring->num_held > 1)
        return stk__fail(err, STK_EBUSY, STK_STAGE_LOADER,
                         "a sample wants the memory of batches that are held: give back "
                         "all but one with stk_batch_release(), or raise memory_budget");
    return stk__loader_widen_locked(loader, err);
}

static uint64_t after(uint64_t start, double seconds)
{
    double ns = (double)start + seconds * 1e9;

    return ns >= 9e18 ? UINT64_MAX : (uint64_t)ns;
}

/* When the consumer gets a message about who is stuck; UINT64_MAX: never. */
static uint64_t next_watch(const stk_loader *loader)
{
    return loader->options.watchdog > 0
               ? after(STK_MAX(loader->asked_ns, loader->watched_ns), loader->options.watchdog)
               : UINT64_MAX;
}

/* Wait for the first step to be complete. (L) held. */
static stk_status wait_locked(stk_loader *loader, uint64_t deadline, stk_error *err)
{
    const uint64_t limit =
        loader->options.timeout > 0 ? after(loader->asked_ns, loader->options.timeout) : UINT64_MAX;

    for (;;) {
        if (atomic_load(&loader->canceled))
            return stk__fail(err, STK_ECANCELED, STK_STAGE_LOADER, "the loader was canceled");
        if (first_complete_locked(&loader->steps))
            return STK_OK;
        bool moves = stk__reads_pump_due_locked(&loader->reads) ||
                     stk__consumer_help_locked(&loader->workers, loader->own);
        if (!moves && stk__planner_stuck_locked(&loader->planner)) {
            STK_TRY(widen_locked(loader, err));
            moves = true;
        }
        if (!moves && starved_locked(loader))
            return fail_starved_locked(loader, err);
        const uint64_t now = stk__now_ns();
        if (first_complete_locked(&loader->steps))
            return STK_OK;
        if (now >= limit)
            return stk__fail(err, STK_ETIMEDOUT, STK_STAGE_LOADER,
                             "no batch within the timeout of %g s", loader->options.timeout);
        if (now >= deadline)
            return STK_EAGAIN;
        if (moves)
            continue;
        if (now >= next_watch(loader)) {
            watch_locked(loader, now - loader->asked_ns);
            loader->watched_ns = now;
            continue;
        }
        const uint64_t until = STK_MIN(STK_MIN(deadline, limit), next_watch(loader));
        stk__ring_wait_locked(loader->ring,
                              STK_MIN(STK_MIN(until, loader->reads.due_ns), now + loader->look_ns));
    }
}

/* ---- Delivery ---- */

/* Take the finished first step's slab and let its record go. (L) held. */
static stk_batch *detach_locked(stk_loader *loader, stk__bad_sample **bad, uint32_t *num_bad,
                                stk__extra **extras)
{
    stk__step *step = stk__step_at(&loader->steps, loader->steps.first);
    stk_batch *batch = step->slab;

    *bad = step->bad;
    *num_bad = step->num_bad;
    *extras = step->extras;
    step->bad = NULL;
    step->num_bad = 0;
    step->extras = NULL;
    step->slab = NULL;
    stk__ring_hold_locked(loader->ring, batch);
    loader->steps.first++;
    if (loader->ring->alone)
        stk__loader_limit_locked(loader);
    loader->eos_pending = loader->steps.first % loader->order.steps == 0;
    loader->delivered++;
    return batch;
}

/* What is to be said instead of a batch: the end of an epoch, or of everything. */
static stk_status answer_without_batch(stk_loader *loader, stk_error *err)
{
    if (loader->eos_pending) {
        loader->eos_pending = false;
        if (!loader->options.persistent_workers)
            stk__loader_stop(loader);
        return STK_EOS;
    }
    if (loader->options.epochs &&
        loader->steps.first / loader->order.steps >= loader->options.epochs)
        return STK_EOS;
    /* Persistent ones are gone only where they could not be started again. */
    if ((!loader->options.persistent_workers || loader->workers.num) &&
        loader->workers.running == 0)
        STK_TRY(stk__loader_start(loader, err));
    return STK_OK;
}

/* ---- What is auto ---- */

#define TELL_NS UINT64_C(2000000000) /* of a shorter run nobody has to know */

static void tell_change(const stk_loader *loader, const char *option, const char *what,
                        uint32_t *told, uint32_t now)
{
    if (now > *told)
        stk__message(loader->ctx, STK_MESSAGE_INFO, "%s: auto: %u -> %u, as the step waited for %s",
                     option, *told, now, what);
    else if (now < *told)
        stk__message(loader->ctx, STK_MESSAGE_INFO, "%s: auto: %u -> %u, as more gave no more",
                     option, *told, now);
    *told = now;
}

/* What was only tried is not told. */
static void tell_changes(stk_loader *loader, uint64_t now_ns)
{
    stk__pace *pace = &loader->pace;

    if (!pace->want.calm || now_ns - pace->first_ns < TELL_NS)
        return;
    tell_change(loader, "num_workers", "workers", &pace->told_workers, pace->want.workers);
    tell_change(loader, "io_depth", "reads", &pace->told_depth, pace->want.depth);
}

/* Have as many workers and reads as suit the last steps, where both or one of them are auto. The
 * order does not know of it. */
static void keep_pace(stk_loader *loader, uint64_t start, uint64_t end)
{
    stk__pace *pace = &loader->pace;
    stk__pace_note note;

    if (!stk__pace_step(pace, start, end))
        return;
    pthread_mutex_lock(&loader->ring->lock);
    const stk_waits waits = loader->stalls.waits;
    pthread_mutex_unlock(&loader->ring->lock);
    stk__pace_ask(pace, &waits, end, &note);
    const stk__event event = {
        .kind = STK__EVENT_PACE, .end_ns = end, .pace = &note, .loader = loader->ring};
    stk__emit(loader->ctx, &event);
    if (note.want.workers != note.seen.workers)
        stk__loader_move(loader, note.want.workers);
    tell_changes(loader, end);
    if (note.want.depth == note.seen.depth)
        return;
    pthread_mutex_lock(&loader->ring->lock);
    loader->depth = note.want.depth;
    pthread_mutex_unlock(&loader->ring->lock);
    stk__reads_move(&loader->reads, note.want.depth, loader->budget.io_depth);
}

/* ---- The call ---- */

stk_status stk_loader_next(stk_loader *loader, int64_t timeout_ms, stk_batch **out, stk_error *err)
{
    stk__bad_sample *bad;
    stk__extra *extras;
    uint32_t num_bad;

    *out = NULL;
    stk_error_init(err);
    STK_TRY(stk__context_check(loader->ctx, err));
    STK_TRY(stk__call_check(loader->ring, "stk_loader_next()", err));
    if (atomic_load(&loader->canceled))
        return stk__fail(err, STK_ECANCELED, STK_STAGE_LOADER, "the loader was canceled");
    const uint64_t start = stk__now_ns();
    stk_status status = answer_without_batch(loader, err);
    if (status != STK_OK) {
        pthread_mutex_lock(&loader->ring->lock);
        stk__stall_in_vain_locked(&loader->stalls, start, status == STK_EOS);
        pthread_mutex_unlock(&loader->ring->lock);
        return status;
    }
    const uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : after(start, (double)timeout_ms * 1e-3);
    if (!loader->asked_ns)
        loader->asked_ns = start;
    pthread_mutex_lock(&loader->ring->lock);
    status = wait_locked(loader, deadline, err);
    /* Who looks often has waited since the first look. */
    if (status != STK_EAGAIN)
        loader->asked_ns = loader->watched_ns = 0;
    if (status != STK_OK) {
        stk__stall_in_vain_locked(&loader->stalls, start, false);
        pthread_mutex_unlock(&loader->ring->lock);
        return status;
    }
    const stk__step *step = stk__step_at(&loader->steps, loader->steps.first);
    stk_batch *batch = detach_locked(loader, &bad, &num_bad, &extras);
    uint64_t end = stk__stamp();
    stk__stall_settle_locked(&loader->stalls, &loader->steps, step,
                             stk__workers_idle_locked(&loader->workers, end), start, end);
    stk__steps_attach_locked(&loader->steps);
    pthread_cond_signal(&loader->ring->work);
    pthread_mutex_unlock(&loader->ring->lock);

    stk__extras_free(loader->ctx, extras);
    stk__event event = {.kind = STK__EVENT_DELIVER,
                        .worker = UINT32_MAX,
                        .start_ns = start,
                        .end_ns = end,
                        .epoch = batch->epoch,
                        .step = batch->step,
                        .count = batch->count,
                        .loader = loader->ring};
    stk__emit(loader->ctx, &event);
    keep_pace(loader, start, end);
    if (num_bad)
        status = stk__bad_settle(&loader->bad, batch, bad, num_bad, err);
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
    sem_post(&loader->ring->woken); /* a signal handler may */
}
