/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and stopping the threads of a loader, and dropping what is in the making. */
#include <inttypes.h>

#include "loader/parts.h"

stk_status stk__loader_start(stk_loader *loader, stk_error *err)
{
    stk__reads_stop(&loader->reads, false);
    pthread_mutex_lock(&loader->ring->lock);
    stk__workers_stop_locked(&loader->workers, false);
    loader->steps.draining = false;
    stk__loader_limit_locked(loader);
    pthread_mutex_unlock(&loader->ring->lock);
    stk_status status = stk__workers_start(&loader->workers, err);
    if (status == STK_OK && loader->ring->alone && !loader->own && loader->options.watchdog > 0)
        status = stk__watch_start(&loader->watch, err);
    if (status != STK_OK)
        stk__loader_stop(loader);
    return status;
}

/* Wait until no thread touches a step: tasks, planning and reads have ended. (L) held. */
static bool wait_quiet_locked(stk_loader *loader, uint64_t until)
{
    while (loader->steps.tasks || stk__planner_since_locked(&loader->planner))
        if (!stk__cond_wait_until(&loader->ring->finished, &loader->ring->lock, until))
            return false;
    return stk__reads_wait_locked(&loader->reads, until);
}

/* Name the threads that do not end. */
static void report_stuck(const stk_loader *loader, uint32_t threads, uint32_t reads)
{
    for (uint32_t i = 0; i < loader->workers.num; i++) {
        const stk__worker *worker = &loader->workers.each[i];
        char text[120];
        if (stk__doing_describe(&worker->doing, "it", stk__now_ns(), text, sizeof text))
            stk__message(loader->ctx, STK_MESSAGE_ERROR, "%s does not end: %s; it is abandoned",
                         worker->thread.name, text);
    }
    stk__message(loader->ctx, STK_MESSAGE_ERROR,
                 "%u threads and %u reads are abandoned, with their memory", threads, reads);
}

void stk__loader_ending_locked(stk_loader *loader)
{
    loader->steps.draining = true;
    stk__workers_stop_locked(&loader->workers, true);
}

bool stk__loader_end(stk_loader *loader)
{
    const uint64_t until = stk__now_ns() + loader->abandon_ns;

    pthread_mutex_lock(&loader->ring->lock);
    stk__loader_ending_locked(loader);
    pthread_mutex_unlock(&loader->ring->lock);
    /* What is queued meanwhile ends at once, too. */
    stk__reads_stop(&loader->reads, true);
    pthread_mutex_lock(&loader->ring->lock);
    const bool ended =
        wait_quiet_locked(loader, until) && stk__workers_wait_locked(&loader->workers, until);
    const uint32_t running = loader->workers.running;
    pthread_mutex_unlock(&loader->ring->lock);
    stk__watch_stop(&loader->watch);
    if (ended)
        stk__workers_join(&loader->workers);
    else
        report_stuck(loader, running, stk__reads_in_flight(&loader->reads));
    return ended;
}

bool stk__loader_stop(stk_loader *loader)
{
    if (!stk__loader_end(loader))
        return false;
    /* Steps whose reads were canceled are worth nothing. */
    stk__loader_reset(loader, loader->steps.first);
    pthread_mutex_lock(&loader->ring->lock);
    loader->steps.draining = false;
    pthread_mutex_unlock(&loader->ring->lock);
    return true;
}

void stk__loader_limit_locked(stk_loader *loader)
{
    const uint64_t steps = loader->order.steps, first = loader->steps.first;
    uint64_t limit = UINT64_MAX;

    if (!loader->options.epochs || !stk__mul_size(loader->options.epochs, steps, &limit))
        limit = UINT64_MAX;
    if (!loader->options.persistent_workers)
        limit = STK_MIN(limit, (first / steps + 1) * steps);
    if (loader->ring->alone)
        limit = STK_MIN(limit, first + 1);
    loader->steps.limit = limit;
}

/* ---- Dropping ---- */

/* Give up a step that will not be delivered. (L) held. */
static void drop_step_locked(stk__step *step, stk__spent *spent)
{
    for (uint32_t r = 0; r < step->num_rows; r = stk__row_behind(step, r))
        for (uint32_t k = 0; k < step->rows[r].num_needs; k++) {
            stk__unit *unit = step->rows[r].needs[k].unit;
            step->rows[r].needs[k].unit = NULL;
            if (unit)
                stk__unit_unref_locked(unit, spent);
        }
    if (step->slab) {
        if (step->slab->ragged)
            step->ragged = step->slab->ragged;
        step->slab->ragged = NULL;
        stk__ring_give_locked(step->steps->ring, step->slab);
        step->slab = NULL;
    }
}

/* Free what a dropped step held besides its slab. Nobody else knows the step any more. */
static void clear_step(stk__planner *planner, stk__step *step)
{
    for (uint32_t r = 0; r < step->num_rows; r = stk__row_behind(step, r))
        stk__row_return(planner, &step->rows[r]);
    stk__pool_give(&step->steps->ring->pool, step->ragged);
    step->ragged = NULL;
    stk__extras_free(planner->ctx, step->extras);
    stk__bad_free(planner->ctx, step->bad);
    step->extras = NULL;
    step->bad = NULL;
    step->num_bad = 0;
}

void stk__loader_reset(stk_loader *loader, uint64_t serial)
{
    stk__ring *ring = loader->ring;
    stk__steps *steps = &loader->steps;
    stk__spent spent = {0};

    pthread_mutex_lock(&ring->lock);
    steps->draining = true;
    pthread_mutex_unlock(&ring->lock);
    stk__reads_stop(&loader->reads, true);
    pthread_mutex_lock(&ring->lock);
    wait_quiet_locked(loader, UINT64_MAX);
    stk__decode_forget_locked(&loader->units);
    const uint64_t first = steps->first, end = steps->located_end;
    for (uint64_t s = first; s < end; s++)
        drop_step_locked(stk__step_at(steps, s), &spent);
    stk__idle_reclaim_locked(&loader->units, true, &spent);
    steps->first = steps->located_end = steps->slab_end = steps->passed = serial;
    stk__planner_reset_locked(&loader->planner, serial);
    stk__stall_cold_locked(&loader->stalls);
    pthread_mutex_unlock(&ring->lock);

    /* Still draining: no thread begins anything before what is left is free. */
    stk__spent_free(&loader->units, &spent);
    for (uint64_t s = first; s < end; s++)
        clear_step(&loader->planner, stk__step_at(steps, s));
    stk__reads_stop(&loader->reads, false);
    pthread_mutex_lock(&ring->lock);
    ring->full = false;
    stk__loader_limit_locked(loader);
    steps->draining = loader->workers.stopping;
    pthread_cond_broadcast(&ring->work);
    pthread_mutex_unlock(&ring->lock);
}
