/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preparing rows: the dataset gives the values, transforms write them to their place in the slab. A
 * task is some rows of one step, cut by cost: as many as make about a tenth of a millisecond. All
 * workers serve the oldest step first, and its costliest row first where costs are known, so a
 * straggler holds up one batch by its own length only.
 */
#include "loader/loader.h"

#define TASK_NS 100e3 /* long beside the cost of handing out a task, short beside a step */
/* Of tasks with rows cheaper than this, one in so many is divided into kinds of work by stamps. */
#define TIMED_ROW_NS 4e3
#define TIMED_TASKS  16

uint64_t stk__worker_bytes(const stk_loader *loader)
{
    return STK__PREPARE_ROWS *
               (sizeof(stk_sample) + loader->dataset->num_fields * sizeof(stk_value) +
                4 * sizeof(void *)) +
           loader->prepare_rows * loader->staging_row + loader->scratch_bytes +
           loader->dataset->worker_bytes + 4096;
}

stk_status stk__worker_init(stk__worker *worker, stk_loader *loader, uint32_t number)
{
    const uint64_t n = STK__PREPARE_ROWS, fields = loader->dataset->num_fields;
    stk_context *ctx = loader->ctx;

    worker->loader = loader;
    worker->number = number;
    worker->samples = stk__calloc(ctx, n, sizeof *worker->samples);
    worker->values = stk__calloc(ctx, n * fields, sizeof *worker->values);
    worker->sources = stk__calloc(ctx, n, sizeof *worker->sources);
    worker->targets = stk__calloc(ctx, n, sizeof *worker->targets);
    worker->run_positions = stk__calloc(ctx, n, sizeof *worker->run_positions);
    worker->run_epochs = stk__calloc(ctx, n, sizeof *worker->run_epochs);
    worker->blob_head = stk__calloc(ctx, fields, sizeof *worker->blob_head);
    worker->blob = stk__calloc(ctx, fields + 1, sizeof *worker->blob);
    worker->staging = stk__alloc_buffer(ctx, loader->prepare_rows * loader->staging_row);
    worker->scratch = stk__alloc_buffer(ctx, loader->scratch_bytes);
    if (loader->decodes)
        STK_TRY(stk__decoding_create(ctx, &loader->decode_room, &worker->decoding));
    return worker->samples && worker->values && worker->sources && worker->targets &&
                   worker->run_positions && worker->run_epochs && worker->blob_head &&
                   worker->blob && worker->staging && worker->scratch
               ? STK_OK
               : STK_ENOMEM;
}

void stk__worker_release(stk__worker *worker)
{
    if (!worker->loader)
        return;
    stk_context *ctx = worker->loader->ctx;
    stk__free(ctx, worker->samples);
    stk__free(ctx, worker->values);
    stk__free(ctx, worker->sources);
    stk__free(ctx, worker->targets);
    stk__free(ctx, worker->run_positions);
    stk__free(ctx, worker->run_epochs);
    stk__free(ctx, worker->blob_head);
    stk__free(ctx, worker->blob);
    stk__free(ctx, worker->staging);
    stk__free(ctx, worker->scratch);
    stk__decoding_destroy(&worker->decoding);
}

/* ---- Tasks ---- */

/* Bring the costliest ready row of a step to the front. (L) held. */
static void costliest_first_locked(stk_loader *loader, stk__step *step)
{
    uint32_t best = step->ready_first, at = step->ready_first;

    for (uint32_t i = 1; i < step->num_ready; i++) {
        at = at + 1 == loader->row_room ? 0 : at + 1;
        if (step->rows[step->ready[at]].cost > step->rows[step->ready[best]].cost)
            best = at;
    }
    uint32_t row = step->ready[best];
    step->ready[best] = step->ready[step->ready_first];
    step->ready[step->ready_first] = row;
}

bool stk__task_take_locked(stk_loader *loader, stk__worker *worker)
{
    const bool helps = worker == &loader->self && loader->num_workers;
    uint64_t end = loader->slab_end;

    /* A long row of a later batch has kept the consumer from its own: not soon again. */
    if (helps && loader->near_until_ns && stk__now_ns() < loader->near_until_ns)
        end = STK_MIN(end, loader->first + 1);
    for (uint64_t serial = loader->first; serial < end; serial++) {
        stk__step *step = stk__step_at(loader, serial);
        if (step->num_ready == 0)
            continue;
        /* The consumer helps in small pieces: the batch it waits for may be ready at any moment. */
        double wanted = (helps ? 0.25 : 1.0) * TASK_NS / STK_MAX(loader->mean_row_ns, 1.0);
        uint32_t n = wanted >= STK__TASK_ROWS ? STK__TASK_ROWS : STK_MAX((uint32_t)wanted, 1);
        n = STK_MIN(n, step->num_ready);
        for (uint32_t i = 0; i < n; i++) {
            if (step->has_costs)
                costliest_first_locked(loader, step);
            worker->rows[i] = step->ready[step->ready_first];
            step->ready_first =
                step->ready_first + 1 == loader->row_room ? 0 : step->ready_first + 1;
            step->num_ready--;
        }
        worker->num_rows = n;
        worker->step = step;
        worker->timed = worker->tasks++ % TIMED_TASKS == 0 || loader->mean_row_ns >= TIMED_ROW_NS;
        loader->tasks++;
        return true;
    }
    return false;
}

/* ---- Preparing ---- */

static void bad_row(stk__row *row, stk_status status, stk_stage stage, const char *reason)
{
    row->status = status;
    row->stage = (uint8_t)stage;
    row->reason = reason;
}

/* Where the dataset is to put the values of a row. */
static void make_room(const stk_loader *loader, stk__worker *worker, uint32_t r, uint32_t i)
{
    const stk__ring *ring = loader->ring;
    const stk__step *step = worker->step;
    stk_value *values = worker->values + i * loader->dataset->num_fields;
    char *staged = worker->staging + i * loader->staging_row;

    /* The dataset's fields are the first columns, in order. */
    for (uint32_t c = 0; c < loader->dataset->num_fields; c++) {
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
static void open_blob(const stk_loader *loader, const stk__row *row, stk_value *values)
{
    const uint32_t n = loader->dataset->num_fields;
    const char *at = (const char *)row->decoded + n * sizeof(uint64_t);

    for (uint32_t f = 0; f < n; f++) {
        memcpy(&values[f].size, (const char *)row->decoded + f * sizeof(uint64_t),
               sizeof(uint64_t));
        values[f].data = at;
        at += values[f].size;
    }
}

static void keep_blob(stk_loader *loader, stk__worker *worker, const stk__row *row,
                      const stk_value *values)
{
    const uint32_t n = loader->dataset->num_fields;

    worker->blob[0] = (stk_slice){.data = worker->blob_head, .size = n * sizeof(uint64_t)};
    for (uint32_t f = 0; f < n; f++) {
        worker->blob_head[f] = values[f].size;
        worker->blob[f + 1] = (stk_slice){.data = values[f].data, .size = values[f].size};
    }
    stk__cache_put(loader->cache, 0, row->index, worker->blob, n + 1);
}

/* Whether the dataset kept to what its fields promise. */
static void check_values(const stk_loader *loader, stk__row *row, const stk_value *values)
{
    const stk__column *columns = loader->ring->columns;

    for (uint32_t c = 0; c < loader->dataset->num_fields; c++) {
        if (columns[c].decodes) {
            if (!values[c].data)
                bad_row(row, STK_EFORMAT, STK_STAGE_DATASET, "it has no value");
            continue;
        }
        if (columns[c].field.layout == STK_FIXED && values[c].size != columns[c].source_bytes)
            bad_row(row, STK_EFORMAT, STK_STAGE_DATASET,
                    "its value has another size than the field");
        else if (columns[c].field.layout != STK_FIXED && values[c].size > values[c].capacity)
            bad_row(row, STK_ELIMIT, STK_STAGE_DATASET,
                    "its value is larger than the dataset said");
    }
}

/* Let the dataset prepare some rows; values[i * fields + f] then says where each value is. */
static void prepare_values(stk_loader *loader, stk__worker *worker, const uint32_t *rows,
                           uint32_t n)
{
    const uint32_t fields = loader->dataset->num_fields;
    stk__step *step = worker->step;
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        stk__row *row = &step->rows[rows[i]];
        if (row->reserved)
            worker->reserved = row;
        if (row->status != STK_OK)
            continue;
        make_room(loader, worker, rows[i], i);
        if (row->decoded) {
            open_blob(loader, row, worker->values + i * fields);
            continue;
        }
        worker->samples[m++] = (stk_sample){.index = row->index,
                                            .position = row->position,
                                            .epoch = step->epoch,
                                            .needs = row->slices,
                                            .values = worker->values + i * fields};
    }
    if (m)
        loader->dataset->ops->prepare(loader->dataset, worker->samples, m);
}

/* What came of it; m counts the samples that were prepared, in the same order. */
static void check_rows(stk_loader *loader, stk__worker *worker, const uint32_t *rows, uint32_t n)
{
    const bool keep = stk__caches_samples(loader);
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        stk__row *row = &worker->step->rows[rows[i]];
        if (row->status == STK_OK && row->decoded) {
            check_values(loader, row, worker->values + i * loader->dataset->num_fields);
        } else if (row->status == STK_OK) {
            const stk_sample *sample = &worker->samples[m++];
            if (sample->status != STK_OK) {
                const char *reason = sample->reason;
                const stk_status status = stk__dataset_failure(sample->status, &reason);
                bad_row(row, status, STK_STAGE_DATASET, reason);
            } else
                check_values(loader, row, sample->values);
            if (keep && row->status == STK_OK)
                keep_blob(loader, worker, row, sample->values);
        }
        worker->num_bad += row->status != STK_OK;
    }
}

/* Run the transforms of a column over the rows that are good so far. */
static void run_pipeline(stk_loader *loader, stk__worker *worker, const uint32_t *rows, uint32_t n,
                         uint32_t c)
{
    const stk__column *column = &loader->ring->columns[c];
    stk__step *step = worker->step;
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        const stk__row *row = &step->rows[rows[i]];
        if (row->status != STK_OK)
            continue;
        const stk_value *value =
            &worker->values[i * loader->dataset->num_fields + (uint32_t)column->source];
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
        stk__pipeline_decode(column->pipeline, loader->order.seed, m, worker->run_epochs,
                             worker->run_positions, worker->encoded, worker->targets,
                             worker->statuses, worker->reasons, worker->memory, worker->scratch,
                             worker->decoding);
    else
        stk__pipeline_run(column->pipeline, loader->order.seed, m, worker->run_epochs,
                          worker->run_positions, NULL, worker->sources, worker->targets,
                          worker->statuses, worker->scratch);
    m = 0;
    for (uint32_t i = 0; i < n; i++) {
        stk__row *row = &step->rows[rows[i]];
        if (row->status != STK_OK || worker->statuses[m++] == STK_OK)
            continue;
        bad_row(row, worker->statuses[m - 1],
                worker->reasons[m - 1] ? STK_STAGE_CODEC : STK_STAGE_TRANSFORM,
                worker->reasons[m - 1]);
        if (row->reason == stk__decode_too_large)
            stk__row_measure(loader, row, worker->memory[m - 1]);
        worker->num_bad++;
    }
}

/* Put the values of a column that no transform moves into their place. */
static void place_values(stk_loader *loader, stk__worker *worker, const uint32_t *rows, uint32_t n,
                         uint32_t c)
{
    const stk__column *column = &loader->ring->columns[c];
    const uint32_t fields = loader->dataset->num_fields;
    stk__step *step = worker->step;

    for (uint32_t i = 0; i < n; i++) {
        if (step->rows[rows[i]].status != STK_OK)
            continue;
        const stk_value *value = &worker->values[i * fields + c];
        if (value->data != value->out)
            memcpy(value->out, value->data, value->size);
        if (column->field.layout != STK_FIXED)
            step->ragged_size[(uint64_t)rows[i] * loader->ring->num_ragged + column->ragged] =
                value->size;
    }
}

static void place_indices(stk__worker *worker, const uint32_t *rows, uint32_t n, uint32_t c)
{
    uint64_t *indices = worker->step->slab->data[c];

    for (uint32_t i = 0; i < n; i++)
        indices[rows[i]] = worker->step->rows[rows[i]].index;
}

/* Offer what was read for these rows to the cache. */
static void keep_units(stk_loader *loader, const stk__step *step, const uint32_t *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const stk__row *row = &step->rows[rows[i]];
        for (uint32_t k = 0; row->status == STK_OK && k < row->num_needs; k++) {
            stk__unit *unit = row->needs[k].unit;
            /* What was decoded was kept then. */
            if (unit && (unit->absent || !unit->decoded_size) &&
                stk__need_kept(loader, unit->decoded_size) && !atomic_exchange(&unit->cached, true))
                stk__cache_put(loader->cache, unit->object, unit->offset, &row->slices[k],
                               !unit->absent);
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

static void prepare_rows(stk_loader *loader, stk__worker *worker, const uint32_t *rows, uint32_t n)
{
    atomic_store_explicit(&worker->sample, worker->step->rows[rows[0]].index, memory_order_relaxed);
    prepare_values(loader, worker, rows, n);
    check_rows(loader, worker, rows, n);
    divide_work(worker, STK__WORK_DECODE);
    for (uint32_t c = 0; c < loader->ring->num_columns; c++)
        if (loader->ring->columns[c].pipeline) {
            run_pipeline(loader, worker, rows, n, c);
            divide_work(worker, STK__WORK_TRANSFORM);
        } else if (loader->ring->columns[c].source >= 0) {
            place_values(loader, worker, rows, n, c);
        } else if (loader->ring->columns[c].source == STK__COLUMN_INDEX) {
            place_indices(worker, rows, n, c);
        }
    if (loader->cache && !stk__caches_samples(loader))
        keep_units(loader, worker->step, rows, n);
    divide_work(worker, STK__WORK_COLLATE);
}

/* ---- Accounting ---- */

static uint64_t ready_ns(const stk__unit *unit)
{
    return STK_MAX(unit->bundle->range.times.arrived_ns, unit->decoded_ns);
}

/* Give up what the rows read. (L) held. */
static void drop_units_locked(stk_loader *loader, stk__worker *worker, stk__spent *spent)
{
    const stk__unit *last = NULL;

    worker->last_unit = NULL;
    /* Samples that need nothing, or had it in the cache, never met a unit. */
    if (!worker->step->has_units)
        return;
    for (uint32_t i = 0; i < worker->num_rows; i++) {
        stk__row *row = &worker->step->rows[worker->rows[i]];
        for (uint32_t k = 0; k < row->num_needs; k++) {
            stk__unit *unit = row->needs[k].unit;
            row->needs[k].unit = NULL;
            if (!unit)
                continue;
            if (!last || ready_ns(unit) > ready_ns(last))
                last = unit;
            stk__unit_unref_locked(loader, unit, spent);
        }
    }
    worker->last_unit = last;
}

/* Count the rows of a task as done, or send the bad ones for a substitute. (L) held. */
static void settle_rows_locked(stk_loader *loader, stk__worker *worker)
{
    stk__step *step = worker->step;

    if (worker->num_bad == 0) {
        step->done += worker->num_rows;
        return;
    }
    for (uint32_t i = 0; i < worker->num_rows; i++) {
        stk__row *row = &step->rows[worker->rows[i]];
        if (row->status == STK_OK) {
            step->done++;
            continue;
        }
        step->has_holes = true;
        if (row->reason == stk__decode_too_large && stk__row_put_back_locked(loader, row))
            continue;
        bool replace = loader->options.on_error == STK_ON_ERROR_REPLACE &&
                       stk_status_fault(row->status) == STK_FAULT_SAMPLE &&
                       row->tries < STK__REPLACE_TRIES;
        /* A substitute that is merely too large for the room is no bad sample. */
        if (!(replace && row->tries && row->status == STK_ELIMIT))
            stk__note_bad_locked(step, worker->rows[i], replace);
        if (replace) {
            row->located = false;
            stk__row_plan_again_locked(loader, row);
        } else {
            row->bad = true;
            step->done++;
        }
    }
}

/* Count what decoding took since the last time. (L) held. */
static void count_decoding_locked(stk_loader *loader, stk__worker *worker)
{
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
    loader->decode.pictures += now->pictures - then->pictures;
    loader->decode.pixels += now->pixels - then->pixels;
    loader->decode.decode_ns += now->decode_ns - then->decode_ns;
    loader->decode.rest_ns += now->rest_ns - then->rest_ns;
    worker->shown = *now;
}

static void emit_task(stk_loader *loader, stk__worker *worker, uint64_t start, uint64_t end)
{
    const stk__step *step = worker->step;

    if (!stk__probed(loader->ctx))
        return;
    for (uint32_t i = 0; i < worker->num_rows; i++)
        worker->indices[i] = step->rows[worker->rows[i]].index;
    stk__event event = {.kind = STK__EVENT_SAMPLE,
                        .worker = worker->number,
                        .start_ns = start,
                        .end_ns = end,
                        .epoch = step->epoch,
                        .step = step->step,
                        .position = step->rows[worker->rows[0]].position,
                        .index = worker->indices[0],
                        .count = worker->num_rows,
                        .indices = worker->indices};
    stk__emit(loader->ctx, &event);
}

void stk__task_run(stk_loader *loader, stk__worker *worker)
{
    uint64_t start = stk__now_ns();
    stk__spent spent = {0};
    stk__call call;

    stk__call_begin(&call, loader);
    atomic_store_explicit(&worker->decodes, false, memory_order_relaxed);
    atomic_store_explicit(&worker->since_ns, start, memory_order_relaxed);
    worker->num_bad = 0;
    worker->mark_ns = start;
    memset(worker->work, 0, sizeof worker->work);
    for (uint32_t i = 0; i < worker->num_rows; i += loader->prepare_rows)
        prepare_rows(loader, worker, worker->rows + i,
                     STK_MIN(worker->num_rows - i, loader->prepare_rows));
    uint64_t end = stk__now_ns();
    atomic_store_explicit(&worker->since_ns, 0, memory_order_relaxed);
    stk__call_end(&call);
    emit_task(loader, worker, start, end);
    if (worker->reserved)
        stk__row_unreserve(loader, worker->reserved);
    worker->reserved = NULL;

    pthread_mutex_lock(&loader->ring->lock);
    drop_units_locked(loader, worker, &spent);
    settle_rows_locked(loader, worker);
    /* Told now: while (L) is free below, others may settle rows of the same step. */
    bool last = worker->step->done == worker->step->num_rows;
    double each = (double)(end - start) / worker->num_rows;
    loader->mean_row_ns += (each - loader->mean_row_ns) * (loader->prepared ? 0.1 : 1.0);
    loader->prepared += worker->num_rows;
    loader->prepare_busy_ns += end - start;
    worker->ended_ns = end;
    count_decoding_locked(loader, worker);
    for (int k = 0; worker->timed && k < STK__WORK_PARTS; k++)
        worker->all_work[k] += worker->work[k];
    if (last)
        stk__stall_task_locked(worker, start, end);
    if (spent.bundles || spent.buffers) {
        pthread_mutex_unlock(&loader->ring->lock);
        stk__spent_free(loader, &spent);
        pthread_mutex_lock(&loader->ring->lock);
    }
    if (last)
        stk__step_finish_locked(loader, worker->step, worker);
    loader->tasks--;
    if (loader->draining)
        pthread_cond_broadcast(&loader->ring->finished);
}

/* ---- Workers ---- */

/* Whether a worker that finds nothing to do lacks room rather than input: every slab is finished.
 * (L) held. */
static bool ring_full_locked(stk_loader *loader)
{
    for (uint64_t serial = loader->first; serial < loader->slab_end; serial++)
        if (!stk__step_at(loader, serial)->complete)
            return false;
    return loader->ring->num_free == 0;
}

bool stk__work_left_locked(stk_loader *loader)
{
    if (stk__can_plan_locked(loader) || stk__decode_next_locked(loader))
        return true;
    for (uint64_t serial = loader->first; serial < loader->slab_end; serial++)
        if (stk__step_at(loader, serial)->num_ready)
            return true;
    return false;
}

void stk__worker_main(void *argument)
{
    stk__worker *worker = argument;
    stk_loader *loader = worker->loader;
    pthread_mutex_t *lock = &loader->ring->lock;
    stk__unit *unit;

    stk__thread_background();
    pthread_mutex_lock(lock);
    for (bool planned = false; !loader->stopping;) {
        /* Planning comes first: it keeps reads on their way, and it is short. Between two rounds
         * there is a task. */
        if (!planned && stk__can_plan_locked(loader)) {
            stk__plan_round_locked(loader);
            planned = true;
        } else if ((unit = stk__decode_take_locked(loader))) {
            if (stk__work_left_locked(loader))
                pthread_cond_signal(&loader->ring->work);
            pthread_mutex_unlock(lock);
            stk__decode_run(loader, worker, unit);
            planned = false;
        } else if (!loader->draining && stk__task_take_locked(loader, worker)) {
            /* Whoever finds work wakes the next if there is more. */
            if (stk__work_left_locked(loader))
                pthread_cond_signal(&loader->ring->work);
            pthread_mutex_unlock(lock);
            stk__task_run(loader, worker);
            planned = false;
        } else if (planned) {
            planned = false; /* no task between them: plan on */
        } else {
            bool full = ring_full_locked(loader);
            uint64_t start = stk__stamp();
            pthread_cond_wait(&loader->ring->work, lock);
            *(full ? &loader->wait_out_ns : &loader->wait_in_ns) += stk__stamp() - start;
        }
    }
    loader->running--;
    pthread_cond_broadcast(&loader->ring->finished);
    pthread_mutex_unlock(lock);
}
