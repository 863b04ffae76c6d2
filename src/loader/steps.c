/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/steps.h"

static stk_status init_step(stk_context *ctx, stk__step *step, uint64_t rows, uint64_t ragged,
                            bool plain)
{
    step->rows = stk__alloc_buffer(ctx, rows * sizeof *step->rows);
    if (step->rows)
        memset(step->rows, 0, rows * sizeof *step->rows);
    step->positions = stk__calloc(ctx, rows, sizeof *step->positions);
    step->indices = plain ? step->positions : stk__calloc(ctx, rows, sizeof *step->indices);
    step->ready = stk__calloc(ctx, rows, sizeof *step->ready);
    if (!step->rows || !step->positions || !step->indices || !step->ready)
        return STK_ENOMEM;
    if (ragged == 0)
        return STK_OK;
    step->ragged_bound = stk__calloc(ctx, rows * ragged, sizeof *step->ragged_bound);
    step->ragged_size = stk__calloc(ctx, rows * ragged, sizeof *step->ragged_size);
    step->ragged_at = stk__calloc(ctx, rows * ragged, sizeof *step->ragged_at);
    return step->ragged_bound && step->ragged_size && step->ragged_at ? STK_OK : STK_ENOMEM;
}

stk_status stk__steps_init(stk__steps *steps, stk__ring *ring, uint32_t num, uint64_t row_room)
{
    *steps = (stk__steps){.ring = ring, .num = num, .row_room = row_room, .plain = steps->plain};
    steps->records = stk__calloc(ring->ctx, num, sizeof *steps->records);
    if (!steps->records)
        return STK_ENOMEM;
    for (uint32_t i = 0; i < num; i++) {
        steps->records[i].steps = steps;
        STK_TRY(init_step(ring->ctx, &steps->records[i], row_room, ring->num_ragged, steps->plain));
    }
    return STK_OK;
}

static void release_step(stk_context *ctx, stk__step *step)
{
    stk__free(ctx, step->rows);
    if (step->indices != step->positions)
        stk__free(ctx, step->indices);
    stk__free(ctx, step->positions);
    stk__free(ctx, step->ready);
    stk__free(ctx, step->needs);
    stk__free(ctx, step->slices);
    stk__free(ctx, step->ragged_bound);
    stk__free(ctx, step->ragged_size);
    stk__free(ctx, step->ragged_at);
}

void stk__steps_shrink(stk__steps *steps, uint32_t num)
{
    for (uint32_t i = num; i < steps->num; i++)
        release_step(steps->ring->ctx, &steps->records[i]);
    steps->num = num;
}

void stk__steps_release(stk__steps *steps)
{
    if (!steps->records)
        return;
    stk__steps_shrink(steps, 0);
    stk__free(steps->ring->ctx, steps->records);
}

void stk__extras_free(stk_context *ctx, stk__extra *extras)
{
    for (stk__extra *next; extras; extras = next) {
        next = extras->next;
        stk__free(ctx, extras);
    }
}

void stk__row_fail(stk__row *row, stk_status status, const char *reason)
{
    row->status = status;
    row->stage = STK_STAGE_LOADER;
    row->reason = reason;
}

void stk__rows_begin(stk__step *step)
{
    memset(step->rows, 0, step->num_rows * sizeof *step->rows);
    for (uint32_t r = 0; r < step->num_rows; r++) {
        stk__row *row = &step->rows[r];
        row->index = step->indices[r];
        row->position = step->positions[r];
    }
}

static void queue_locked(stk__step *step, uint32_t row)
{
    const uint64_t at = (uint64_t)step->ready_first + step->num_ready++,
                   room = step->steps->row_room;

    step->ready[at < room ? at : at - room] = row;
}

void stk__row_part_locked(stk__step *step, uint32_t row)
{
    stk__row *first = &step->rows[row];

    for (uint32_t r = row + 1; r < row + stk__row_count(first); r++) {
        step->rows[r] = *first;
        step->rows[r].index = step->indices[r];
        step->rows[r].position = step->positions[r];
        step->rows[r].follows = row + 1;
        step->rows[r].run = 0;
    }
    first->parted = true;
}

void stk__row_ready_locked(stk__step *step, uint32_t row)
{
    const stk__row *leader = &step->rows[row];

    queue_locked(step, row);
    if (leader->run > 1 && !leader->parted && leader->status != STK_OK) {
        stk__row_part_locked(step, row);
        for (uint32_t r = row + 1; r < row + leader->run; r++)
            queue_locked(step, r);
    }
    for (uint32_t next = leader->follower; next; next = step->rows[next - 1].follower) {
        stk__row *r = &step->rows[next - 1];
        if (leader->status != STK_OK) {
            r->status = leader->status;
            r->stage = leader->stage;
            r->reason = leader->reason;
            r->bad_need = leader->bad_need;
            r->line = leader->line;
        }
        queue_locked(step, next - 1);
    }
}

uint64_t stk__steps_ready_locked(const stk__steps *steps)
{
    for (uint64_t serial = steps->first; serial < steps->slab_end; serial++)
        if (stk__step_at(steps, serial)->num_ready)
            return serial;
    return UINT64_MAX;
}

/* A rank may have no row in the last step: it gets an empty batch, so that all ranks take every
 * step. */
static void complete_empty_locked(stk__step *step)
{
    stk__ring *ring = step->steps->ring;
    stk_batch *slab = step->slab;

    slab->epoch = step->epoch;
    slab->step = step->step;
    slab->count = 0;
    for (uint32_t c = 0; c < ring->num_columns; c++)
        if (ring->columns[c].field.layout != STK_FIXED) {
            slab->offsets[c][0] = 0;
            slab->data[c] = slab->memory;
        }
    step->complete = true;
    step->complete_ns = step->planned_ns;
    stk__ring_wake_locked(ring);
}

void stk__steps_attach_locked(stk__steps *steps)
{
    while (steps->slab_end < steps->located_end && steps->ring->free) {
        stk__step *step = stk__step_at(steps, steps->slab_end++);
        step->slab = stk__ring_take_locked(steps->ring);
        if (step->num_rows == 0)
            complete_empty_locked(step);
    }
}

void stk__steps_begin_locked(stk__steps *steps)
{
    steps->tasks++;
}

void stk__steps_end_locked(stk__steps *steps)
{
    steps->tasks--;
    if (steps->draining)
        pthread_cond_broadcast(&steps->ring->finished);
}
