/* SPDX-License-Identifier: Apache-2.0 */
/* Making a batch of a step whose rows are all done: holes closed, ragged values joined, mixed. */
#include "loader/finish.h"
#include "base/probe.h"

stk_status stk__finisher_init(stk__finisher *f, uint32_t columns)
{
    pthread_mutex_init(&f->lock, NULL);
    f->scratch = stk__alloc_buffer(f->ctx, f->scratch_bytes);
    f->fields = stk__calloc(f->ctx, columns, sizeof *f->fields);
    return f->scratch && f->fields ? STK_OK : STK_ENOMEM;
}

void stk__finisher_release(stk__finisher *f)
{
    if (f->ctx) {
        stk__free(f->ctx, f->scratch);
        stk__free(f->ctx, f->fields);
        pthread_mutex_destroy(&f->lock);
    }
    stk__batch_pipeline_destroy(&f->pipeline);
}

/* Move the real rows of a step with holes together. */
static void close_holes(stk__step *step)
{
    const stk__ring *ring = step->steps->ring;
    stk_batch *slab = step->slab;
    uint32_t to = 0;

    for (uint32_t r = 0, n; r < step->num_rows; r += n) {
        n = stk__row_behind(step, r) - r;
        if (step->rows[r].bad)
            continue;
        memcpy(slab->positions + to, step->positions + r, n * sizeof *slab->positions);
        for (uint32_t c = 0; c < ring->num_columns && to != r; c++) {
            uint64_t bytes = ring->columns[c].row_bytes;
            if (ring->columns[c].field.layout == STK_FIXED)
                memmove((char *)slab->data[c] + to * bytes, (char *)slab->data[c] + r * bytes,
                        n * bytes);
        }
        to += n;
    }
    slab->count = to;
}

/*
 * Fill the values of a field up to the longest. They lie as far apart as the longest may be, so
 * that each moves to the front, if at all. Returns where the field ends.
 */
static uint64_t fill_up(stk__step *step, uint32_t c, uint64_t begin)
{
    const stk__ring *ring = step->steps->ring;
    const stk__column *column = &ring->columns[c];
    const stk__pad *pad = &column->pad;
    char *to = (char *)step->ragged + begin;
    uint64_t most = 0;

    for (uint32_t r = 0; r < step->num_rows; r++)
        if (!step->rows[r].bad)
            most =
                STK_MAX(most, step->ragged_size[(uint64_t)r * ring->num_ragged + column->ragged]);
    const uint64_t bytes = stk__pad_bytes(pad, most);
    step->slab->offsets[c][0] = bytes / pad->unit;
    for (uint32_t r = 0; r < step->num_rows; r++) {
        const uint64_t k = (uint64_t)r * ring->num_ragged + column->ragged,
                       size = step->ragged_size[k];
        if (step->rows[r].bad || bytes == 0)
            continue;
        memmove(to, (char *)step->ragged + step->ragged_at[k], size);
        for (uint64_t at = size; at < bytes; at += pad->size)
            memcpy(to + at, pad->value, pad->size);
        to += bytes;
    }
    return (uint64_t)(to - (char *)step->ragged);
}

/* Put the values of the ragged fields one behind the other. */
static void collate_ragged(stk__step *step)
{
    const stk__ring *ring = step->steps->ring;
    stk_batch *slab = step->slab;
    char *values = step->ragged; /* NULL where no row has any */
    uint64_t end = 0;

    for (uint32_t c = 0; c < ring->num_columns; c++) {
        const stk__column *column = &ring->columns[c];
        if (column->field.layout == STK_FIXED)
            continue;
        const size_t item = stk_dtype_size(column->field.dtype);
        uint64_t count = 0, elements = 0;
        end = stk__round_up(end, 16);
        slab->data[c] = values ? values + end : NULL;
        slab->offsets[c][0] = 0;
        if (column->pad.unit) {
            end = values ? fill_up(step, c, end) : 0;
            continue;
        }
        for (uint32_t r = 0; r < step->num_rows; r++) {
            uint64_t k = (uint64_t)r * ring->num_ragged + column->ragged;
            if (step->rows[r].bad)
                continue;
            if (step->ragged_size[k] > 0)
                memmove(values + end, values + step->ragged_at[k], step->ragged_size[k]);
            end += step->ragged_size[k];
            elements += step->ragged_size[k] / item;
            slab->offsets[c][++count] = elements;
        }
    }
    slab->ragged = step->ragged;
    step->ragged = NULL;
}

static void mix_batch(stk__finisher *f, stk__step *step)
{
    const stk__ring *ring = step->steps->ring;
    int64_t *label_mixed = NULL;
    float *mix = NULL;
    uint32_t n = 0;

    pthread_mutex_lock(&f->lock);
    for (uint32_t c = 0; c < ring->num_columns; c++) {
        const stk__column *column = &ring->columns[c];
        if (column->source == STK__COLUMN_LABEL_MIXED)
            label_mixed = step->slab->data[c];
        else if (column->source == STK__COLUMN_MIX)
            mix = step->slab->data[c];
        else if (column->field.layout == STK_FIXED)
            f->fields[n++] = stk__batch_field_of(column, step->slab->data[c]);
    }
    stk__batch_pipeline_run(f->pipeline, f->order->seed, step->epoch,
                            step->step * f->order->world + f->order->rank, f->fields, n,
                            step->slab->count, label_mixed, mix, f->scratch);
    pthread_mutex_unlock(&f->lock);
}

void stk__step_finish_locked(stk__finisher *f, stk__step *step, uint32_t worker)
{
    stk__ring *ring = step->steps->ring;
    stk_batch *slab = step->slab;

    pthread_mutex_unlock(&ring->lock);
    slab->epoch = step->epoch;
    slab->step = step->step;
    if (step->has_holes) {
        close_holes(step);
    } else {
        slab->count = stk__order_positions(f->order, step->step, slab->positions);
    }
    if (ring->num_ragged)
        collate_ragged(step);
    if (f->pipeline && slab->count)
        mix_batch(f, step);
    stk__event event = {.kind = STK__EVENT_BATCH,
                        .worker = worker,
                        .start_ns = step->planned_ns,
                        .end_ns = stk__stamp(),
                        .epoch = step->epoch,
                        .step = step->step,
                        .count = slab->count,
                        .loader = ring};
    stk__emit(f->ctx, &event);
    pthread_mutex_lock(&ring->lock);
    step->complete = true;
    step->complete_ns = event.end_ns;
    if (step->serial == step->steps->first)
        stk__ring_wake_locked(ring);
}
