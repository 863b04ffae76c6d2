/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample that is too large for its share of the budget, but not for the budget with one worker
 * and one batch, waits until nothing else is under way and its step is the first. Then the budget
 * is divided anew: threads, batches, records of steps and the cache give up what the pool lacks,
 * all that was planned is dropped, and the loader goes on with that step. What was given up is not
 * taken again: the next such sample finds its room.
 *
 * A picture that wants more than the room of decoding is told once its header is known, in the
 * middle of the work. Its row gives up what it has read and is put back: it is admitted again
 * together with a reserve of the pool, by which the room of decoding is larger for this row alone:
 * what others may take must not depend on who is under way. One row at a time has one.
 */
#include "loader/loader.h"

#include <inttypes.h>

/* ---- Dividing anew ---- */

static bool quiet_locked(stk_loader *loader)
{
    if (loader->planner.busy || loader->tasks || !stk__reads_idle_locked(&loader->reads) ||
        stk__decode_next_locked(loader))
        return false;
    for (uint64_t serial = loader->first; serial < loader->slab_end; serial++)
        if (stk__step_at(loader, serial)->num_ready)
            return false;
    return true;
}

bool stk__stuck_locked(stk_loader *loader)
{
    const stk__planner *p = &loader->planner;

    return p->blocked && (p->wanted || (p->waits_late && !loader->late)) && quiet_locked(loader);
}

stk_status stk__loader_widen(stk_loader *loader, stk_error *err)
{
    const uint32_t workers = loader->num_workers, steps = loader->num_steps;
    const uint64_t wanted = loader->planner.wanted;
    const bool late = loader->planner.waits_late;
    stk__shares shares;

    if (!stk__loader_stop_threads(loader))
        return stk__fail(err, STK_ETIMEDOUT, STK_STAGE_LOADER,
                         "the threads of the loader do not end to give a sample of %" PRIu64
                         " bytes the room it needs",
                         wanted);
    /* Such a sample is bad before it is admitted: else this would be done again without end. */
    if (wanted > loader->parts.rest)
        return stk__fail(err, STK_EINTERNAL, STK_STAGE_LOADER,
                         "a sample waits for %" PRIu64 " bytes of a memory_budget that has %" PRIu64
                         " for it",
                         wanted, loader->parts.rest);
    if (wanted)
        stk__budget_widen(loader, wanted, &shares);
    pthread_mutex_lock(&loader->ring->lock);
    loader->late |= late;
    if (wanted)
        stk__shares_apply(loader, &shares);
    stk__stall_widened_locked(loader);
    pthread_mutex_unlock(&loader->ring->lock);
    if (wanted) {
        for (uint32_t i = loader->num_workers; i < workers; i++)
            stk__worker_release(&loader->workers[i]);
        stk__steps_release(loader, loader->num_steps, steps);
        stk__ring_shrink(loader->ring, shares.slabs);
        if (loader->cache)
            stk__cache_shrink(loader->cache, shares.cache);
        stk__pool_widen(&loader->ring->pool, shares.pool);
    }
    return stk__loader_start_threads(loader, err);
}

/* ---- Putting back ---- */

void stk__row_measure(stk_loader *loader, stk__row *row, uint64_t wanted)
{
    const uint64_t reads = stk__budget_reads(loader, row->index);

    row->wanted = wanted;
    row->left = loader->decode_most + loader->most_row - STK_MIN(reads, loader->most_row);
}

void stk__row_plan_again_locked(stk_loader *loader, stk__row *row)
{
    row->wants_substitute = true;
    loader->planner.num_replace++;
    loader->planner.again = true;
    /* It may need no buffer, and nobody else may have one to give back. */
    loader->planner.blocked = false;
    pthread_cond_signal(&loader->ring->work);
}

bool stk__row_put_back_locked(stk_loader *loader, stk__row *row)
{
    const uint64_t most = loader->decode_most + row->reserve;

    if (row->wanted > row->left || row->wanted <= most)
        return false;
    row->reserve = row->wanted - loader->decode_most;
    row->status = STK_OK;
    row->reason = NULL;
    for (uint32_t i = 0; i < row->num_needs; i++)
        row->slices[i] = (stk_slice){.data = "", .size = 0};
    row->located = true;
    stk__row_plan_again_locked(loader, row);
    return true;
}

void stk__row_reserve(stk_loader *loader, stk__row *row)
{
    const bool had = stk__pool_reserve(&loader->ring->pool, row->reserve);

    pthread_mutex_lock(&loader->ring->lock);
    row->reserved = loader->planner.reserving = had;
    pthread_mutex_unlock(&loader->ring->lock);
}

void stk__row_return(stk_loader *loader, stk__row *row)
{
    if (!row->reserved)
        return;
    stk__pool_unreserve(&loader->ring->pool, row->reserve);
    pthread_mutex_lock(&loader->ring->lock);
    row->reserved = loader->planner.reserving = false;
    pthread_mutex_unlock(&loader->ring->lock);
}

void stk__row_unreserve(stk_loader *loader, stk__row *row)
{
    if (!row->reserved)
        return;
    stk__row_return(loader, row);
    pthread_mutex_lock(&loader->ring->lock);
    if (loader->planner.blocked) {
        loader->planner.blocked = false;
        pthread_cond_signal(&loader->ring->work);
    }
    pthread_mutex_unlock(&loader->ring->lock);
}
