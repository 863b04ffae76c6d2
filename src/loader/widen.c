/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample that is too large for its share of the budget, but not for the budget with one worker
 * and one batch, waits until nothing else is under way and its step is the first. Then the budget
 * is divided anew: threads, batches, records of steps and the cache give up what the pool lacks,
 * all that was planned is dropped, and the loader goes on with that step. What was given up is not
 * taken again: the next such sample finds its room.
 */
#include <inttypes.h>

#include "loader/parts.h"

/* The threads have ended, and nothing is planned. */
static void divide_anew(stk_loader *loader, uint64_t wanted, bool late)
{
    const stk__shares shares =
        wanted ? stk__budget_widen(&loader->budget, wanted) : loader->budget.now;

    pthread_mutex_lock(&loader->ring->lock);
    loader->planner.late |= late;
    loader->budget.now = shares;
    stk__stall_widened_locked(&loader->stalls);
    pthread_mutex_unlock(&loader->ring->lock);
    stk__workers_shrink(&loader->workers, shares.workers + shares.spare);
    stk__steps_shrink(&loader->steps, shares.steps);
    loader->steps.horizon = stk__budget_horizon(&loader->budget);
    stk__ring_shrink(loader->ring, stk__shares_slabs(&shares));
    if (loader->keeping.cache)
        stk__cache_shrink(loader->keeping.cache, shares.cache);
    stk__pool_widen(&loader->ring->pool, shares.pool);
}

stk_status stk__loader_widen_locked(stk_loader *loader, stk_error *err)
{
    const uint64_t wanted = loader->planner.wanted;
    const bool late = loader->planner.waits_late;
    stk_status status = STK_OK;

    stk__loader_ending_locked(loader);
    pthread_mutex_unlock(&loader->ring->lock);
    /* Such a sample is bad before it is admitted: else this would be done again without end. */
    if (!stk__loader_stop(loader))
        status = stk__fail(err, STK_ETIMEDOUT, STK_STAGE_LOADER,
                           "the threads of the loader do not end to give a sample of %" PRIu64
                           " bytes the room it needs",
                           wanted);
    else if (wanted > loader->budget.rest)
        status = stk__fail(err, STK_EINTERNAL, STK_STAGE_LOADER,
                           "a sample waits for %" PRIu64
                           " bytes of a memory_budget that has %" PRIu64 " for it",
                           wanted, loader->budget.rest);
    else
        divide_anew(loader, wanted, late);
    if (status == STK_OK)
        status = stk__loader_start(loader, err);
    pthread_mutex_lock(&loader->ring->lock);
    return status;
}
