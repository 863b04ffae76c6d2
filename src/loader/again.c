/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are admitted a second time: pictures that are larger than was known, bytes that could
 * not be had at once, and substitutes. */
#include "loader/planner.h"

bool stk__planner_quiet_locked(const stk__planner *p)
{
    return !p->busy && !p->steps->tasks && stk__reads_idle_locked(p->reads) &&
           !stk__decode_left_locked(p->units) && stk__steps_ready_locked(p->steps) == UINT64_MAX;
}

bool stk__planner_stuck_locked(const stk__planner *p)
{
    return p->ring->full && (p->wanted || (p->waits_late && !p->late)) &&
           stk__planner_quiet_locked(p);
}

void stk__row_measure(const stk__planner *p, stk__row *row, uint64_t wanted)
{
    const uint64_t reads = stk__budget_reads(p->budget, row->index);

    row->wanted = wanted;
    row->left = p->budget->decode_most + p->budget->most_row - STK_MIN(reads, p->budget->most_row);
}

void stk__row_plan_again_locked(stk__planner *p, stk__row *row)
{
    row->wants_substitute = true;
    p->num_replace++;
    p->again = true;
    /* It may need no buffer, and no other row may have one to give back. */
    p->ring->full = false;
    pthread_cond_signal(&p->ring->work);
}

bool stk__row_put_back_locked(stk__planner *p, stk__row *row)
{
    const uint64_t most = p->budget->decode_most + row->reserve;

    if (row->wanted > row->left || row->wanted <= most)
        return false;
    row->reserve = row->wanted - p->budget->decode_most;
    row->status = STK_OK;
    row->reason = NULL;
    for (uint32_t i = 0; i < row->num_needs; i++)
        row->slices[i] = (stk_slice){.data = "", .size = 0};
    row->located = true;
    stk__row_plan_again_locked(p, row);
    return true;
}

void stk__row_read_late_locked(stk__planner *p, stk__row *row)
{
    row->now = false;
    row->late = row->located = true;
    row->status = STK_OK;
    stk__row_plan_again_locked(p, row);
}

void stk__row_reserve(stk__planner *p, stk__row *row)
{
    const bool had = stk__pool_reserve(&p->ring->pool, row->reserve);

    pthread_mutex_lock(&p->ring->lock);
    row->reserved = p->reserving = had;
    pthread_mutex_unlock(&p->ring->lock);
}

void stk__row_return(stk__planner *p, stk__row *row)
{
    if (!row->reserved)
        return;
    stk__pool_unreserve(&p->ring->pool, row->reserve);
    pthread_mutex_lock(&p->ring->lock);
    row->reserved = p->reserving = false;
    pthread_mutex_unlock(&p->ring->lock);
}

void stk__row_unreserve(stk__planner *p, stk__row *row)
{
    if (!row->reserved)
        return;
    stk__row_return(p, row);
    pthread_mutex_lock(&p->ring->lock);
    stk__ring_room_locked(p->ring);
    pthread_mutex_unlock(&p->ring->lock);
}
