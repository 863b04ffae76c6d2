/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preparing rows: the dataset gives the values, transforms write them to their place in the slab. A
 * task is some rows of one step, cut by cost: as many as make about a tenth of a millisecond. All
 * workers serve the oldest step first, and its costliest row first where costs are known, so a
 * straggler holds up one batch by its own length only.
 */
#include "base/probe.h"
#include "loader/workers.h"

#define TASK_NS 100e3 /* long against the cost of handing out a task, short against a step */
/* Of tasks with rows cheaper than this, one in so many is divided into kinds of work by stamps. */
#define TIMED_ROW_NS 4e3
#define TIMED_TASKS  16

/* ---- Tasks ---- */

/* Bring the costliest ready row of a step to the front. (L) held. */
static void costliest_first_locked(stk__step *step)
{
    const uint64_t room = step->steps->row_room;
    uint32_t best = step->ready_first, at = step->ready_first;

    for (uint32_t i = 1; i < step->num_ready; i++) {
        at = at + 1 == room ? 0 : at + 1;
        if (step->rows[step->ready[at]].cost > step->rows[step->ready[best]].cost)
            best = at;
    }
    uint32_t row = step->ready[best];
    step->ready[best] = step->ready[step->ready_first];
    step->ready[step->ready_first] = row;
}

/* The next row of a step, or its whole group; false: the task has no room for that. (L) held. */
static bool take_rows_locked(stk__worker *worker, stk__step *step)
{
    if (step->has_costs && !step->has_groups)
        costliest_first_locked(step);
    const stk__row *row = &step->rows[step->ready[step->ready_first]];
    const bool run = stk__row_count(row) > STK_MAX(row->group, 1);
    const uint32_t group = STK_MAX(row->group, 1);
    if (worker->run || worker->num_rows + group > STK__TASK_ROWS || (run && worker->num_rows))
        return false;
    worker->run = run ? row->run : 0;
    for (uint32_t i = 0; i < group; i++) {
        worker->rows[worker->num_rows++] = step->ready[step->ready_first];
        step->ready_first =
            step->ready_first + 1 == step->steps->row_room ? 0 : step->ready_first + 1;
        step->num_ready--;
    }
    return true;
}

bool stk__task_take_locked(stk__worker *worker)
{
    stk__workers *w = worker->team;
    const stk__steps *steps = w->steps;
    const bool helps = worker == &w->self && w->num;
    uint64_t end = steps->slab_end;

    /* A long row of a later batch has kept the consumer from its own: not soon again. */
    if (helps && w->near_until_ns && stk__now_ns() < w->near_until_ns)
        end = STK_MIN(end, steps->first + 1);
    for (uint64_t serial = steps->first; serial < end; serial++) {
        stk__step *step = stk__step_at(steps, serial);
        if (step->num_ready == 0)
            continue;
        /* The consumer helps in small pieces: the batch it waits for may be ready at any moment. */
        double wanted = (helps ? 0.25 : 1.0) * TASK_NS / STK_MAX(w->mean_row_ns, 1.0);
        uint32_t n = wanted >= STK__TASK_ROWS ? STK__TASK_ROWS : STK_MAX((uint32_t)wanted, 1);
        worker->num_rows = worker->run = 0;
        while (worker->num_rows < n && step->num_ready && take_rows_locked(worker, step))
            ;
        worker->step = step;
        worker->idle_ns = w->idle_ns;
        worker->timed = worker->tasks++ % TIMED_TASKS == 0 || w->mean_row_ns >= TIMED_ROW_NS;
        stk__steps_begin_locked(w->steps);
        return true;
    }
    return false;
}

/* ---- Preparing ---- */

void stk__row_is_bad(stk__row *row, stk_status status, stk_stage stage, const char *reason)
{
    row->status = status;
    row->stage = (uint8_t)stage;
    row->reason = reason;
}

/* Where the dataset is to put the values of a row. */
static void make_room(stk__worker *worker, uint32_t r, uint32_t i)
{
    const stk__workers *w = worker->team;
    const stk__ring *ring = w->ring;
    const stk__step *step = worker->step;
    stk_value *values = worker->values + i * w->dataset->num_fields;
    char *staged = worker->staging + i * w->staging_row;

    /* The dataset's fields are the first columns, in order. */
    for (uint32_t c = 0; c < w->dataset->num_fields; c++) {
        const stk__column *column = &ring->columns[c];
        stk_value *value = &values[c];
        value->capacity = value->size = column->source_bytes;
        if (column->decodes) {
            value->out = NULL; /* it points at its bytes, wherever they are */
        } else if (column->field.layout != STK_FIXED) {
            uint64_t k = (uint64_t)r * ring->num_ragged + column->ragged;
            value->out = (char *)step->ragged + step->ragged_at[k];
            value->capacity = step->ragged_bound[k];
            value->size = 0;
        } else if (column->pipeline) {
            value->out = staged;
            staged += column->staged_bytes;
        } else {
            value->out = (char *)step->slab->data[c] + r * column->row_bytes;
        }
        value->data = value->out;
    }
}

/* Point the values of a row at its decoded blob: the sizes of the fields, then the fields. */
static void open_blob(const stk__row *row, stk_value *values, uint32_t n)
{
    const char *at = (const char *)row->decoded + n * sizeof(uint64_t);

    for (uint32_t f = 0; f < n; f++) {
        memcpy(&values[f].size, (const char *)row->decoded + f * sizeof(uint64_t),
               sizeof(uint64_t));
        values[f].data = at;
        at += values[f].size;
    }
}

static void keep_blob(stk__worker *worker, const stk__row *row, const stk_value *values)
{
    const uint32_t n = worker->team->dataset->num_fields;

    worker->blob[0] = (stk_slice){.data = worker->blob_head, .size = n * sizeof(uint64_t)};
    for (uint32_t f = 0; f < n; f++) {
        worker->blob_head[f] = values[f].size;
        worker->blob[f + 1] = (stk_slice){.data = values[f].data, .size = values[f].size};
    }
    stk__cache_put(worker->team->keeping->cache, 0, row->index, worker->blob, n + 1);
}

/* Whether the dataset kept to what its fields promise. */
static void check_values(const stk__workers *w, stk__row *row, const stk_value *values)
{
    const stk__column *columns = w->ring->columns;

    for (uint32_t c = 0; c < w->dataset->num_fields; c++) {
        if (columns[c].decodes) {
            if (!values[c].data)
                stk__row_is_bad(row, STK_EFORMAT, STK_STAGE_DATASET, "it has no value");
            continue;
        }
        if (columns[c].field.layout == STK_FIXED && values[c].size != columns[c].source_bytes)
            stk__row_is_bad(row, STK_EFORMAT, STK_STAGE_DATASET,
                            "its value has another size than the field");
        else if (columns[c].field.layout != STK_FIXED && values[c].size > values[c].capacity)
            stk__row_is_bad(row, STK_ELIMIT, STK_STAGE_DATASET,
                            "its value is larger than the dataset said");
    }
}

/* Let the dataset prepare some rows; values[i * fields + f] then says where each value is. */
static void prepare_values(stk__worker *worker, const uint32_t *rows, uint32_t n)
{
    stk__workers *w = worker->team;
    const uint32_t fields = w->dataset->num_fields;
    stk__step *step = worker->step;
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        stk__row *row = &step->rows[rows[i]];
        if (row->reserved)
            worker->reserved = row;
        if (row->status != STK_OK)
            continue;
        make_room(worker, rows[i], i);
        if (row->decoded) {
            open_blob(row, worker->values + i * fields, fields);
            continue;
        }
        worker->samples[m++] = (stk_sample){.struct_size = sizeof(stk_sample),
                                            .value_size = sizeof(stk_value),
                                            .index = row->index,
                                            .position = row->position,
                                            .epoch = step->epoch,
                                            .needs = row->slices,
                                            .values = worker->values + i * fields,
                                            .worker = worker->state};
    }
    if (m)
        w->dataset->ops->prepare(w->dataset, worker->samples, m);
}

/* What came of it; m counts the samples that were prepared, in the same order. */
static void check_rows(stk__worker *worker, const uint32_t *rows, uint32_t n)
{
    const stk__workers *w = worker->team;
    const bool keep = stk__keeps_samples(w->keeping) && !w->keeping->encoded;
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        stk__row *row = &worker->step->rows[rows[i]];
        if (row->status == STK_OK && row->decoded) {
            check_values(w, row, worker->values + i * w->dataset->num_fields);
        } else if (row->status == STK_OK) {
            const stk_sample *sample = &worker->samples[m++];
            if (sample->status != STK_OK) {
                const char *reason = sample->reason;
                const stk_status status = stk__dataset_failure(sample->status, &reason);
                stk__row_is_bad(row, status, STK_STAGE_DATASET, reason);
                row->line = sample->line;
            } else
                check_values(w, row, sample->values);
            if (keep && row->status == STK_OK)
                keep_blob(worker, row, sample->values);
        }
        worker->num_bad += row->status != STK_OK;
    }
}

/* Run the transforms of a column over the rows that are good so far. */
static void run_pipeline(stk__worker *worker, const uint32_t *rows, uint32_t n, uint32_t c)
{
    stk__workers *w = worker->team;
    const stk__column *column = &w->ring->columns[c];
    stk__step *step = worker->step;
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        const stk__row *row = &step->rows[rows[i]];
        if (row->status != STK_OK)
            continue;
        const stk_value *value =
            &worker->values[i * w->dataset->num_fields + (uint32_t)column->source];
        worker->sources[m] = value->data;
        worker->encoded[m] = (stk_slice){.data = value->data, .size = value->size};
        worker->reasons[m] = NULL;
        worker->memory[m] = row->reserved ? row->reserve : 0;
        worker->targets[m] = (char *)step->slab->data[c] + rows[i] * column->row_bytes;
        worker->run_positions[m] = row->position;
        worker->run_epochs[m] = step->epoch;
        worker->statuses[m++] = STK_OK;
    }
    if (column->decodes)
        stk__pipeline_decode(column->pipeline, w->order->seed, m, worker->run_epochs,
                             worker->run_positions, worker->encoded, worker->targets,
                             worker->statuses, worker->reasons, worker->memory, worker->scratch,
                             worker->decoding);
    else
        stk__pipeline_run(column->pipeline, w->order->seed, m, worker->run_epochs,
                          worker->run_positions, NULL, worker->sources, worker->targets,
                          worker->statuses, worker->scratch);
    m = 0;
    for (uint32_t i = 0; i < n; i++) {
        stk__row *row = &step->rows[rows[i]];
        if (row->status != STK_OK || worker->statuses[m++] == STK_OK)
            continue;
        stk__row_is_bad(row, worker->statuses[m - 1],
                        worker->reasons[m - 1] ? STK_STAGE_CODEC : STK_STAGE_TRANSFORM,
                        worker->reasons[m - 1]);
        if (row->reason == stk__decode_too_large)
            stk__row_measure(w->planner, row, worker->memory[m - 1]);
        worker->num_bad++;
    }
}

/* Put the values of a column that no transform moves into their place. */
static void place_values(stk__worker *worker, const uint32_t *rows, uint32_t n, uint32_t c)
{
    const stk__ring *ring = worker->team->ring;
    const stk__column *column = &ring->columns[c];
    const uint32_t fields = worker->team->dataset->num_fields;
    stk__step *step = worker->step;

    for (uint32_t i = 0; i < n; i++) {
        if (step->rows[rows[i]].status != STK_OK)
            continue;
        const stk_value *value = &worker->values[i * fields + c];
        if (value->data != value->out)
            memcpy(value->out, value->data, value->size);
        if (column->field.layout != STK_FIXED)
            step->ragged_size[(uint64_t)rows[i] * ring->num_ragged + column->ragged] = value->size;
    }
}

static void place_indices(stk__worker *worker, const uint32_t *rows, uint32_t n, uint32_t c)
{
    uint64_t *indices = worker->step->slab->data[c];

    if (worker->run)
        memcpy(indices + rows[0], worker->step->indices + rows[0], worker->run * sizeof *indices);
    for (uint32_t i = 0; !worker->run && i < n; i++)
        indices[rows[i]] = worker->step->rows[rows[i]].index;
}

/* Offer what was read for these rows to the cache. */
static void keep_needs(const stk__workers *w, const stk__step *step, const uint32_t *rows,
                       uint32_t n)
{
    const bool samples = stk__keeps_samples(w->keeping);

    for (uint32_t i = 0; i < n; i++) {
        const stk__row *row = &step->rows[rows[i]];
        if (samples && row->status == STK_OK && row->num_needs)
            stk__cache_put_slices(w->keeping->cache, 0, row->index, row->slices, row->num_needs);
        if (samples)
            continue;
        for (uint32_t k = 0; row->status == STK_OK && k < row->num_needs; k++) {
            stk__unit *unit = row->needs[k].unit;
            /* What was decoded was kept then. */
            if (unit && (unit->absent || !unit->decoded_size) &&
                stk__keeps_need(w->keeping, unit->decoded_size))
                stk__unit_keep(w->units, unit, &row->slices[k]);
        }
    }
}

/* All since the last stamp was work of that kind. */
static inline void divide_work(stk__worker *worker, int kind)
{
    if (!worker->timed)
        return;
    const uint64_t now = stk__stamp();
    worker->work[kind] += (double)(now - worker->mark_ns);
    worker->mark_ns = now;
}

/* `many`: the rows need the same, and the dataset puts their values in place itself. */
static void prepare_rows(stk__worker *worker, const uint32_t *rows, uint32_t n, bool many)
{
    const stk__workers *w = worker->team;
    const stk__ring *ring = w->ring;

    stk__doing_sample(&worker->doing, worker->step->rows[rows[0]].index);
    if (many) {
        stk__many_prepare(worker, rows, n);
    } else {
        prepare_values(worker, rows, n);
        check_rows(worker, rows, n);
    }
    divide_work(worker, STK__WORK_DECODE);
    for (uint32_t c = 0; c < ring->num_columns; c++)
        if (ring->columns[c].pipeline) {
            run_pipeline(worker, rows, n, c);
            divide_work(worker, STK__WORK_TRANSFORM);
        } else if (ring->columns[c].source >= 0 && !many) {
            place_values(worker, rows, n, c);
        } else if (ring->columns[c].source == STK__COLUMN_INDEX) {
            place_indices(worker, rows, n, c);
        }
    if (w->keeping->cache && (w->keeping->encoded || w->keeping->ranges))
        keep_needs(w, worker->step, rows, n);
    divide_work(worker, STK__WORK_COLLATE);
}

/* ---- Accounting ---- */

/* Of the rows of a task, the one behind the group that row `i` leads: its others have no units of
 * their own. */
static uint32_t behind_group(const stk__worker *worker, uint32_t i)
{
    return i + STK_MAX(worker->step->rows[worker->rows[i]].group, 1);
}

/* Of the units of the rows the one that was ready last, where this may be the step's last task;
 * NULL: there is none. (L) held. */
static const stk__unit *last_unit_locked(const stk__worker *worker)
{
    const stk__step *step = worker->step;
    const stk__unit *last = NULL;

    if (!step->has_units || step->done + stk__task_rows(worker) < step->num_rows)
        return NULL;
    for (uint32_t i = 0; i < worker->num_rows; i = behind_group(worker, i)) {
        const stk__row *row = &step->rows[worker->rows[i]];
        for (uint32_t k = 0; !row->follows && k < row->num_needs; k++) {
            const stk__unit *unit = row->needs[k].unit;
            if (unit && (!last || stk__unit_ready_ns(unit) > stk__unit_ready_ns(last)))
                last = unit;
        }
    }
    return last;
}

/* Give up what the rows read. (L) held. */
static void drop_units_locked(stk__worker *worker, stk__spent *spent)
{
    /* Samples that need nothing, or had it in the cache, never met a unit. */
    if (!worker->step->has_units)
        return;
    for (uint32_t i = 0; i < worker->num_rows; i = behind_group(worker, i)) {
        stk__row *row = &worker->step->rows[worker->rows[i]];
        for (uint32_t k = 0; !row->follows && k < row->num_needs; k++) {
            stk__unit *unit = row->needs[k].unit;
            row->needs[k].unit = NULL;
            if (unit)
                stk__unit_unref_locked(unit, spent);
        }
    }
}

/* Count the rows of a task as done, or send the bad ones for a substitute. (L) held. */
static void settle_rows_locked(stk__worker *worker)
{
    const stk__workers *w = worker->team;
    stk__step *step = worker->step;

    if (worker->num_bad == 0) {
        step->done += stk__task_rows(worker);
        return;
    }
    if (worker->run)
        stk__many_part_locked(worker);
    for (uint32_t i = 0; i < stk__task_rows(worker); i++) {
        const uint32_t r = worker->run ? worker->rows[0] + i : worker->rows[i];
        stk__row *row = &step->rows[r];
        if (row->status == STK_OK) {
            step->done++;
            continue;
        }
        step->has_holes = true;
        if (row->now) {
            stk__row_read_late_locked(w->planner, row);
            continue;
        }
        if (row->reason == stk__decode_too_large && stk__row_put_back_locked(w->planner, row))
            continue;
        bool replace = w->replaces && stk_status_fault(row->status) == STK_FAULT_SAMPLE &&
                       row->tries < STK__REPLACE_TRIES;
        /* A substitute that is merely too large for the room is no bad sample. */
        if (!(replace && row->tries && row->status == STK_ELIMIT))
            stk__bad_note_locked(step, r, replace);
        if (replace) {
            row->located = false;
            stk__row_plan_again_locked(w->planner, row);
        } else {
            row->bad = true;
            step->done++;
        }
    }
}

/* Count what decoding took since the last time. (L) held. */
static void count_decoding_locked(stk__worker *worker)
{
    stk__workers *w = worker->team;

    if (!worker->decoding)
        return;
    const stk__decode_times *now = stk__decoding_times(worker->decoding), *then = &worker->shown;

    /* Pictures are decoded within a transform. */
    const double decode = (double)(now->decode_ns - then->decode_ns);
    if (worker->timed) {
        worker->work[STK__WORK_DECODE] += decode;
        worker->work[STK__WORK_TRANSFORM] =
            STK_MAX(worker->work[STK__WORK_TRANSFORM] - decode, 0.0);
    }
    w->decode.pictures += now->pictures - then->pictures;
    w->decode.pixels += now->pixels - then->pixels;
    w->decode.decode_ns += now->decode_ns - then->decode_ns;
    w->decode.rest_ns += now->rest_ns - then->rest_ns;
    worker->shown = *now;
}

static void emit_task(stk__worker *worker, uint64_t start, uint64_t end)
{
    stk_context *ctx = worker->team->ctx;
    const stk__step *step = worker->step;

    if (!stk__probed(ctx))
        return;
    const uint64_t *indices = worker->run ? step->indices + worker->rows[0] : worker->indices;
    for (uint32_t i = 0; !worker->run && i < worker->num_rows; i++)
        worker->indices[i] = step->rows[worker->rows[i]].index;
    stk__event event = {.kind = STK__EVENT_SAMPLE,
                        .worker = worker->number,
                        .start_ns = start,
                        .end_ns = end,
                        .epoch = step->epoch,
                        .step = step->step,
                        .position = step->rows[worker->rows[0]].position,
                        .index = indices[0],
                        .count = stk__task_rows(worker),
                        .indices = indices,
                        .loader = worker->team->ring};
    stk__emit(ctx, &event);
}

/* The times of a task, for the figures and for the way of its step. (L) held. */
static void count_task_locked(stk__worker *worker, uint64_t start, uint64_t end)
{
    stk__workers *w = worker->team;
    const double each = (double)(end - start) / stk__task_rows(worker);

    w->mean_row_ns += (each - w->mean_row_ns) * (w->prepared ? 0.1 : 1.0);
    w->prepared += stk__task_rows(worker);
    w->prepare_busy_ns += end - start - STK_MIN(worker->now.ns, end - start);
    stk__now_count_locked(worker);
    count_decoding_locked(worker);
    for (int k = 0; worker->timed && k < STK__WORK_PARTS; k++)
        worker->all_work[k] += worker->work[k];
    if (worker == &w->self)
        stk__stall_helped_locked(w->stalls, end);
}

void stk__task_run(stk__worker *worker)
{
    stk__workers *w = worker->team;
    uint64_t start = stk__now_ns();
    stk__spent spent = {0};
    stk__call call;

    stk__call_begin(&call, w->ring);
    stk__doing_begin(&worker->doing, false, worker->step->rows[worker->rows[0]].index, start);
    worker->num_bad = 0;
    worker->mark_ns = start;
    memset(worker->work, 0, sizeof worker->work);
    for (uint32_t i = 0, n; i < worker->num_rows; i += n) {
        const bool many = (n = stk__many_next(worker, i)) != 0;
        if (!many)
            n = stk__now_read(worker, worker->rows + i,
                              STK_MIN(worker->num_rows - i, w->prepare_rows));
        if (worker->now.data && !many)
            divide_work(worker, STK__WORK_READ);
        prepare_rows(worker, worker->rows + i, n, many);
    }
    uint64_t end = stk__now_ns();
    stk__doing_end(&worker->doing);
    stk__call_end(&call);
    emit_task(worker, start, end);
    if (worker->reserved)
        stk__row_unreserve(w->planner, worker->reserved);
    worker->reserved = NULL;

    pthread_mutex_lock(&w->ring->lock);
    const stk__unit *last_unit = last_unit_locked(worker);
    drop_units_locked(worker, &spent);
    settle_rows_locked(worker);
    /* Told now: while (L) is free below, others may settle rows of the same step. */
    const bool last = worker->step->done == worker->step->num_rows;
    count_task_locked(worker, start, end);
    if (last)
        stk__stall_task_locked(&worker->step->path, last_unit,
                               worker->timed ? worker->work : worker->all_work, worker->idle_ns,
                               start, end);
    if (stk__spent_any(&spent)) {
        pthread_mutex_unlock(&w->ring->lock);
        stk__spent_free(w->units, &spent);
        pthread_mutex_lock(&w->ring->lock);
    }
    if (last)
        stk__step_finish_locked(w->finisher, worker->step, worker->number);
    stk__steps_end_locked(w->steps);
}
