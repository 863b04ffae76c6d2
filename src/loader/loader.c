/* SPDX-License-Identifier: Apache-2.0 */
/* Making a loader, dividing its budget, going to another place of the order, and its end. */
#include "loader/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_BUDGET (UINT64_C(4) << 30)   /* of the default */
#define FIRST_GUESS_NS 10e3                /* of preparing a sample of which nothing is known */
#define LEAST_POOL (UINT64_C(256) << 10)  /* for reads, where there are any */
#define MOST_STEPS 4096u                  /* planned ahead */
#define ABANDON_NS (UINT64_C(60) * 1000000000) /* a thread that has not ended by then is stuck for good */

/* ---- What a batch is --------------------------------------------------------------------------------------------------- */

static bool has_pictures(const stk_dataset *dataset)
{
    for (uint32_t f = 0; f < dataset->num_fields; f++)
        if (dataset->fields[f].picture)
            return true;
    return false;
}

/* Put the transforms behind a field: pictures, or the first field of a dataset without any. */
static stk_status transform_column(stk_loader *loader, stk__column *column, stk_error *err)
{
    stk_header header = {.dtype = column->field.dtype,
                         .rank = column->field.rank,
                         .picture = column->field.picture && column->field.rank == 3};

    memcpy(header.shape, column->field.shape, sizeof header.shape);
    column->header = header;
    bool wanted = loader->options.transforms && *loader->options.transforms &&
                  (has_pictures(loader->dataset) ? column->field.picture : column->source == 0);
    if (!wanted)
        return STK_OK;
    STK_TRY(stk__pipeline_create(loader->ctx, loader->options.transforms, &header, &column->pipeline, err));
    if (stk__pipeline_empty(column->pipeline)) {
        stk__pipeline_destroy(&column->pipeline);
        return STK_OK;
    }
    stk__pipeline_header(column->pipeline, &column->header);
    column->field.dtype = column->header.dtype;
    column->field.rank = column->header.rank;
    memcpy(column->field.shape, column->header.shape, sizeof column->field.shape);
    loader->staging_row += stk__round_up(column->source_bytes, STK_CACHE_LINE);
    loader->scratch_bytes = STK_MAX(loader->scratch_bytes, stk__pipeline_scratch(column->pipeline));
    return STK_OK;
}

static stk__column own_column(const char *name, stk_dtype dtype, int32_t source)
{
    stk__column column = {.source = source, .row_bytes = stk_dtype_size(dtype)};

    column.field = (stk_field){.dtype = dtype, .layout = STK_FIXED};
    snprintf(column.field.name, sizeof column.field.name, "%s", name);
    column.header = (stk_header){.dtype = dtype};
    return column;
}

/* The columns of a batch: the dataset's fields behind their transforms, the index, what batch transforms add. */
static stk_status make_columns(stk_loader *loader, stk__column *columns, uint32_t *num, stk_error *err)
{
    const stk_dataset *dataset = loader->dataset;
    uint32_t n = 0, ragged = 0;

    if (dataset->num_fields + 3 > STK__MAX_FIELDS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_LOADER, "the dataset has %u fields; a loader takes %d at most",
                         dataset->num_fields, STK__MAX_FIELDS - 3);
    for (uint32_t f = 0; f < dataset->num_fields; f++) {
        stk__column *column = &columns[n++];
        *column = (stk__column){.field = dataset->fields[f], .source = (int32_t)f};
        *num = n;
        if (column->field.layout == STK_FIXED) {
            column->source_bytes = stk_field_bytes(&column->field);
            STK_TRY(transform_column(loader, column, err));
            column->row_bytes = stk_field_bytes(&column->field);
        } else {
            column->ragged = ragged++;
        }
    }
    columns[n++] = own_column("index", STK_UINT64, STK__COLUMN_INDEX);
    *num = n;
    if (!loader->options.batch_transforms || !*loader->options.batch_transforms)
        return STK_OK;
    STK_TRY(stk__batch_pipeline_create(loader->ctx, loader->options.batch_transforms, &loader->batch_pipeline, err));
    if (stk__batch_pipeline_empty(loader->batch_pipeline)) {
        stk__batch_pipeline_destroy(&loader->batch_pipeline);
        return STK_OK;
    }
    stk__batch_field fields[STK__MAX_FIELDS];
    uint32_t fixed = 0;
    for (uint32_t c = 0; c < n; c++)
        if (columns[c].field.layout == STK_FIXED)
            fields[fixed++] = stk__batch_field_of(&columns[c], NULL);
    STK_TRY(stk__batch_pipeline_prepare(loader->batch_pipeline, fields, fixed, stk__order_rows(&loader->order),
                                        &loader->batch_scratch_bytes, err));
    columns[n++] = own_column("label_mixed", STK_INT64, STK__COLUMN_LABEL_MIXED);
    columns[n++] = own_column("mix", STK_FLOAT32, STK__COLUMN_MIX);
    *num = n;
    return STK_OK;
}

/* ---- The budget -------------------------------------------------------------------------------------------------------- */

static uint64_t step_bytes(const stk_loader *loader, uint32_t ragged)
{
    uint64_t row = sizeof(stk__row) + 2 * sizeof(uint64_t) + sizeof(uint32_t) + 3 * ragged * sizeof(uint64_t);

    if (loader->dataset->ops->locate)
        row += 2 * (sizeof(stk__need_entry) + sizeof(stk_slice));
    return sizeof(stk__step) + loader->row_room * row;
}

/* How far ahead steps are planned: enough to keep all reads going, and a shuffle buffer of blocks at a time. */
static uint64_t horizon_steps(const stk_loader *loader)
{
    const stk__order *order = &loader->order;
    uint64_t ahead = 0;

    if (!loader->dataset->ops->locate || loader->num_workers == 0)
        return 0;
    ahead = 4 * (uint64_t)loader->reads.depth / loader->row_room + 1;
    if (order->shuffle == STK_SHUFFLE_BLOCK)
        ahead = STK_MAX(ahead, order->block_size * order->buffer_blocks * order->streams / order->global_batch + 1);
    return ahead;
}

/*
 * Divide the budget: slabs, records of steps and workers' scratch are fixed; of the rest the cache takes three
 * quarters, and reads in flight what is left. Slabs beyond two, then the horizon, shrink until it fits.
 */
static stk_status divide_budget(stk_loader *loader, const stk__column *columns, uint32_t n, uint32_t ragged,
                                uint64_t *slabs, uint64_t *pool, uint64_t *cache, stk_error *err)
{
    const uint64_t budget = loader->options.memory_budget;
    const uint64_t slab = stk__slab_bytes(columns, n, loader->row_room) + 4 * STK_CACHE_LINE;
    const bool reads = loader->dataset->ops->locate || ragged;
    const uint64_t workers = STK_MAX(loader->num_workers, 1) * stk__worker_bytes(loader);
    const uint64_t base = sizeof *loader + sizeof(stk__ring) + workers + loader->batch_scratch_bytes;
    const uint64_t floor = base + (reads ? LEAST_POOL : 0);
    const uint64_t step = step_bytes(loader, ragged);

    *slabs = loader->depth + 1;
    while (*slabs > 2 && floor + *slabs * (slab + step) > budget / 4 * 3)
        --*slabs;
    if (floor + *slabs * (slab + step) > budget)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_LOADER,
                         "memory_budget is %" PRIu64 " bytes; two batches of %" PRIu64 " bytes and %u workers need %" PRIu64
                         ": raise memory_budget, or lower batch_size or num_workers",
                         budget, slab, loader->num_workers, floor + 2 * (slab + step));
    if (*slabs < loader->depth + 1)
        stk__log(loader->ctx, STK_LOG_INFO,
                 "memory_budget %" PRIu64 " holds %" PRIu64 " batches ahead instead of the %u of prefetch_factor", budget,
                 *slabs - 1, loader->depth);
    loader->depth = (uint32_t)*slabs - 1;
    uint64_t steps = STK_MIN(loader->depth + 1 + horizon_steps(loader), MOST_STEPS);
    while (steps > *slabs && floor + *slabs * slab + steps * step > budget / 8 * 7)
        steps = STK_MAX(*slabs, steps / 2);
    loader->num_steps = (uint32_t)steps;
    loader->fixed_bytes = base + *slabs * slab + steps * step;
    uint64_t rest = budget - loader->fixed_bytes;
    *cache = loader->options.cache == STK_CACHE_NONE ? 0 : reads ? rest / 4 * 3 : rest;
    *pool = reads ? rest - *cache : 0;
    return STK_OK;
}

/* ---- Making ------------------------------------------------------------------------------------------------------------ */

static stk_status make_steps(stk_loader *loader, uint32_t ragged)
{
    stk_context *ctx = loader->ctx;

    loader->steps = stk__calloc(ctx, loader->num_steps, sizeof *loader->steps);
    if (!loader->steps)
        return STK_ENOMEM;
    for (uint32_t i = 0; i < loader->num_steps; i++) {
        stk__step *step = &loader->steps[i];
        const uint64_t n = loader->row_room;
        step->loader = loader;
        step->rows = stk__calloc(ctx, n, sizeof *step->rows);
        step->positions = stk__calloc(ctx, n, sizeof *step->positions);
        step->indices = stk__calloc(ctx, n, sizeof *step->indices);
        step->ready = stk__calloc(ctx, n, sizeof *step->ready);
        if (!step->rows || !step->positions || !step->indices || !step->ready)
            return STK_ENOMEM;
        if (ragged == 0)
            continue;
        step->ragged_bound = stk__calloc(ctx, n * ragged, sizeof *step->ragged_bound);
        step->ragged_size = stk__calloc(ctx, n * ragged, sizeof *step->ragged_size);
        step->ragged_at = stk__calloc(ctx, n * ragged, sizeof *step->ragged_at);
        if (!step->ragged_bound || !step->ragged_size || !step->ragged_at)
            return STK_ENOMEM;
    }
    loader->planner.map = stk__calloc(ctx, loader->row_room, sizeof *loader->planner.map);
    loader->batch_scratch = stk__alloc_buffer(ctx, loader->batch_scratch_bytes);
    return loader->planner.map && loader->batch_scratch ? STK_OK : STK_ENOMEM;
}

static stk_status make_workers(stk_loader *loader)
{
    if (loader->num_workers == 0)
        return stk__worker_init(&loader->self, loader, UINT32_MAX);
    loader->workers = stk__calloc(loader->ctx, loader->num_workers, sizeof *loader->workers);
    if (!loader->workers)
        return STK_ENOMEM;
    for (uint32_t i = 0; i < loader->num_workers; i++)
        STK_TRY(stk__worker_init(&loader->workers[i], loader, i));
    return STK_OK;
}

/* Turn the options that depend on the machine or the dataset into numbers. */
static stk_status settle_options(stk_loader *loader, stk_error *err)
{
    stk_loader_options *o = &loader->options;
    stk_cores cores;

    stk_context_cores(loader->ctx, &cores);
    loader->num_workers = o->num_workers == STK_AUTO ? cores.preparation : (uint32_t)o->num_workers;
    loader->depth = loader->num_workers ? (uint32_t)STK_MIN(o->prefetch_factor * loader->num_workers, 4096) : 1;
    if (o->memory_budget == 0)
        o->memory_budget = STK_MIN(stk_context_memory_limit(loader->ctx) / 4, MOST_BUDGET);
    loader->reads.depth = 64;
    if (loader->dataset->ops->locate && loader->dataset->ops->object && o->io_depth == STK_AUTO) {
        stk_store *store = NULL;
        stk_store_limits limits;
        char key[1];
        loader->dataset->ops->object(loader->dataset, 0, &store, key, sizeof key);
        if (store) {
            stk__store_limits(store, &limits);
            loader->reads.depth = STK_MAX(limits.io_depth, 1);
        }
    } else if (o->io_depth != STK_AUTO) {
        loader->reads.depth = (uint32_t)o->io_depth;
    }
    STK_TRY(stk__order_init(&loader->order, loader->dataset, o, err));
    loader->row_room = STK_MAX(stk__order_rows(&loader->order), 1);
    loader->mean_row_ns = loader->dataset->cost_ns > 0 ? loader->dataset->cost_ns : FIRST_GUESS_NS;
    return STK_OK;
}

static stk_status check_options(const stk_loader_options *o, stk_error *err)
{
    const stk_option_table *table = stk_loader_option_table();
    stk_loader_options scratch;
    char text[64];

    if (o->struct_size != sizeof *o)
        return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER,
                         "loader options of %u bytes: call stk_loader_options_init() first", o->struct_size);
    /* Values set from C pass the same ranges as text does. */
    stk_loader_options_init(&scratch);
    for (size_t i = 0; i < table->count; i++) {
        const stk_option *option = &table->options[i];
        if (option->type == STK_OPTION_STRING)
            continue;
        stk_options_format(option, o, text, sizeof text);
        STK_TRY(stk_options_set(table, &scratch, option->name, text, err));
    }
    return STK_OK;
}

static stk_status open_quarantine(stk_loader *loader, stk_error *err)
{
    const char *path = loader->options.quarantine;

    if (!path || !*path)
        return STK_OK;
    loader->quarantine = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (loader->quarantine < 0)
        return stk__fail_at(err, stk__status_of_errno(errno), STK_STAGE_LOADER, path, STK_NO_OFFSET,
                            "quarantine log %s: could not be opened: %s", path, strerrordesc_np(errno));
    loader->quarantine_path = stk__strdup(loader->ctx, path);
    return loader->quarantine_path ? STK_OK : STK_ENOMEM;
}

/* Free all that is not the ring. No thread is left. */
static void loader_free(stk_loader *loader, stk__column *columns, uint32_t num_columns)
{
    stk_context *ctx = loader->ctx;

    for (uint32_t c = 0; c < num_columns; c++)
        stk__pipeline_destroy(&columns[c].pipeline);
    stk__batch_pipeline_destroy(&loader->batch_pipeline);
    for (uint32_t i = 0; loader->workers && i < loader->num_workers; i++)
        stk__worker_release(&loader->workers[i]);
    stk__worker_release(&loader->self);
    stk__free(ctx, loader->workers);
    for (uint32_t i = 0; loader->steps && i < loader->num_steps; i++) {
        stk__step *step = &loader->steps[i];
        stk__free(ctx, step->rows);
        stk__free(ctx, step->positions);
        stk__free(ctx, step->indices);
        stk__free(ctx, step->ready);
        stk__free(ctx, step->needs);
        stk__free(ctx, step->slices);
        stk__free(ctx, step->ragged_bound);
        stk__free(ctx, step->ragged_size);
        stk__free(ctx, step->ragged_at);
    }
    stk__free(ctx, loader->steps);
    stk__plan_destroy(loader);
    stk__reads_destroy(loader);
    stk__cache_destroy(&loader->cache);
    stk__free(ctx, loader->batch_scratch);
    stk__free(ctx, loader->quarantine_path);
    if (loader->quarantine >= 0)
        close(loader->quarantine);
    pthread_mutex_destroy(&loader->finish_lock);
    if (loader->ring)
        stk__ring_unref(loader->ring);
    stk__free(ctx, loader);
    stk__context_unref(ctx);
}

/* All that may fail before threads start. */
static stk_status build(stk_loader *loader, stk__column *columns, uint32_t *num, stk_error *err)
{
    uint64_t slabs = 0, pool = 0, cache = 0;
    uint32_t ragged = 0;

    STK_TRY(settle_options(loader, err));
    STK_TRY(make_columns(loader, columns, num, err));
    for (uint32_t c = 0; c < *num; c++)
        ragged += columns[c].field.layout != STK_FIXED;
    STK_TRY(divide_budget(loader, columns, *num, ragged, &slabs, &pool, &cache, err));
    STK_TRY(stk__ring_create(loader->ctx, columns, *num, loader->row_room, (uint32_t)slabs,
                             loader->options.pin_memory, &loader->ring, err));
    loader->ring->pool.limit = pool;
    loader->ring->loader = loader;
    stk__state_of(loader, &loader->ring->state);
    STK_TRY(make_steps(loader, ragged));
    STK_TRY(make_workers(loader));
    STK_TRY(stk__order_epoch_init(&loader->planner.order, loader->ctx, &loader->order));
    if (cache && stk__cache_create(loader->ctx, cache, loader->dataset->size * 4, &loader->cache) == STK_ENOMEM)
        return STK_ENOMEM;
    if (cache && !loader->cache)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_LOADER,
                         "cache: memory_budget leaves %" PRIu64 " bytes for it, too few: raise memory_budget or set "
                         "cache: none",
                         cache);
    return open_quarantine(loader, err);
}

stk_status stk_loader_create(stk_dataset *dataset, const stk_loader_options *options, stk_loader **out,
                             stk_error *err)
{
    stk_loader_options defaults;
    stk__column columns[STK__MAX_FIELDS] = {0};
    uint32_t num_columns = 0;

    *out = NULL;
    stk_error_init(err);
    STK_TRY(stk__context_check(dataset->context, err));
    if (!options) {
        stk_loader_options_init(&defaults);
        options = &defaults;
    }
    STK_TRY(check_options(options, err));
    stk_loader *loader = stk__calloc(dataset->context, 1, sizeof *loader);
    if (!loader)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_LOADER, "no memory for a loader");
    loader->ctx = stk__context_ref(dataset->context);
    loader->dataset = dataset;
    loader->options = *options;
    loader->quarantine = -1;
    pthread_mutex_init(&loader->finish_lock, NULL);
    stk_status status = build(loader, columns, &num_columns, err);
    if (status == STK_ENOMEM && err && err->status == STK_OK)
        stk__fail(err, STK_ENOMEM, STK_STAGE_LOADER, "no memory for a loader of %u workers and batches of %" PRIu64,
                  loader->num_workers, loader->row_room);
    if (status == STK_OK) {
        loader->plan_limit = stk__plan_limit(loader);
        status = stk__loader_start_threads(loader, err);
    }
    if (status != STK_OK) {
        if (loader->ring)
            loader->ring->loader = NULL;
        loader_free(loader, columns, num_columns);
        return status;
    }
    /* What the caller gave as text may be gone tomorrow. */
    loader->options.transforms = loader->options.batch_transforms = loader->options.quarantine = NULL;
    *out = loader;
    return STK_OK;
}

/* ---- Threads ----------------------------------------------------------------------------------------------------------- */

stk_status stk__loader_start_threads(stk_loader *loader, stk_error *err)
{
    pthread_mutex_lock(&loader->ring->lock);
    loader->stopping = loader->draining = false;
    loader->plan_limit = stk__plan_limit(loader);
    pthread_mutex_unlock(&loader->ring->lock);
    for (uint32_t i = 0; i < loader->num_workers; i++) {
        char name[24];
        snprintf(name, sizeof name, "stk-worker-%u", i);
        pthread_mutex_lock(&loader->ring->lock);
        loader->running++;
        pthread_mutex_unlock(&loader->ring->lock);
        stk_status status = stk__thread_start(loader->ctx, &loader->workers[i].thread, name, stk__worker_main,
                                              &loader->workers[i], err);
        if (status == STK_OK)
            continue;
        pthread_mutex_lock(&loader->ring->lock);
        loader->running--;
        pthread_mutex_unlock(&loader->ring->lock);
        stk__loader_stop_threads(loader);
        return status;
    }
    return STK_OK;
}

/* Wait until no thread touches a step: tasks, planning and reads have ended. (L) held. */
static bool drain_locked(stk_loader *loader, uint64_t until)
{
    while (loader->tasks || loader->planner.busy || loader->reads.in_flight || loader->reads.pumping)
        if (!stk__cond_wait_until(&loader->ring->finished, &loader->ring->lock, until))
            return false;
    return true;
}

/* False when a thread is stuck in something that does not end; it is named, and what it uses is left to it. */
static bool stop_threads(stk_loader *loader)
{
    uint64_t until = stk__now_ns() + ABANDON_NS;

    pthread_mutex_lock(&loader->ring->lock);
    loader->draining = loader->stopping = true;
    pthread_cond_broadcast(&loader->ring->work);
    pthread_mutex_unlock(&loader->ring->lock);
    stk__reads_cancel(loader);
    pthread_mutex_lock(&loader->ring->lock);
    bool ended = drain_locked(loader, until);
    while (ended && loader->running)
        ended = stk__cond_wait_until(&loader->ring->finished, &loader->ring->lock, until) || !loader->running;
    uint32_t running = loader->running, reads = loader->reads.in_flight;
    pthread_mutex_unlock(&loader->ring->lock);
    if (!ended) {
        for (uint32_t i = 0; i < loader->num_workers; i++) {
            uint64_t since = atomic_load(&loader->workers[i].since_ns);
            if (since)
                stk__log(loader->ctx, STK_LOG_ERROR,
                         "%s does not end: it has prepared sample %" PRIu64 " for %.0f s; it is abandoned",
                         loader->workers[i].thread.name, (uint64_t)atomic_load(&loader->workers[i].sample),
                         (double)(stk__now_ns() - since) * 1e-9);
        }
        stk__log(loader->ctx, STK_LOG_ERROR, "%u threads and %u reads are abandoned, with their memory", running,
                 reads);
        return false;
    }
    for (uint32_t i = 0; i < loader->num_workers; i++)
        stk__thread_join(&loader->workers[i].thread);
    return true;
}

void stk__loader_stop_threads(stk_loader *loader)
{
    stop_threads(loader);
    /* The step at the limit of planning is where it goes on. */
    pthread_mutex_lock(&loader->ring->lock);
    loader->draining = false;
    pthread_mutex_unlock(&loader->ring->lock);
}

/* ---- Going elsewhere --------------------------------------------------------------------------------------------------- */

uint64_t stk__plan_limit(const stk_loader *loader)
{
    const uint64_t steps = loader->order.steps;
    uint64_t limit = loader->options.epochs ? loader->options.epochs * steps : UINT64_MAX;

    if (!loader->options.persistent_workers)
        limit = STK_MIN(limit, (loader->first / steps + 1) * steps);
    if (loader->num_workers == 0)
        limit = STK_MIN(limit, loader->first + 1);
    return limit;
}

void stk__attach_slabs_locked(stk_loader *loader)
{
    stk__ring *ring = loader->ring;

    while (loader->slab_end < loader->located_end && ring->free) {
        stk__step *step = stk__step_at(loader, loader->slab_end++);
        step->slab = ring->free;
        ring->free = step->slab->next;
        ring->num_free--;
        if (step->num_rows)
            continue;
        /* A rank may have no row in the last step: it gets an empty batch, so that all ranks take every step. */
        step->slab->epoch = step->epoch;
        step->slab->step = step->step;
        step->slab->count = 0;
        step->complete = true;
        pthread_cond_signal(&ring->finished);
    }
}

/* Give up a step that will not be delivered; its unused fetches are chained. (L) held. */
static stk__fetch *drop_step_locked(stk_loader *loader, stk__step *step, stk__fetch *unused)
{
    stk__ring *ring = loader->ring;

    for (uint32_t r = 0; r < step->num_rows; r++)
        for (uint32_t k = 0; k < step->rows[r].num_needs; k++) {
            stk__unit *unit = step->rows[r].needs[k].unit;
            step->rows[r].needs[k].unit = NULL;
            stk__fetch *fetch = unit ? stk__unit_unref_locked(&loader->reads, unit) : NULL;
            if (fetch) {
                fetch->next = unused;
                unused = fetch;
            }
        }
    if (step->slab) {
        step->slab->next = ring->free;
        ring->free = step->slab;
        ring->num_free++;
        step->slab = NULL;
    }
    return unused;
}

/* Free what a dropped step held besides its slab. Nobody else knows the step any more. */
static void clear_step(stk_loader *loader, stk__step *step)
{
    stk__pool_give(&loader->ring->pool, step->ragged);
    step->ragged = NULL;
    for (stk__extra *e = step->extras, *next; e; e = next) {
        next = e->next;
        stk__free(loader->ctx, e);
    }
    for (stk__bad_sample *b = step->bad, *next; b; b = next) {
        next = b->next;
        stk__free(loader->ctx, b);
    }
    step->extras = NULL;
    step->bad = NULL;
    step->num_bad = 0;
}

void stk__loader_reset(stk_loader *loader, uint64_t serial)
{
    stk__ring *ring = loader->ring;
    stk__fetch *unused = NULL;

    pthread_mutex_lock(&ring->lock);
    loader->draining = true;
    pthread_mutex_unlock(&ring->lock);
    stk__reads_cancel(loader);
    pthread_mutex_lock(&ring->lock);
    drain_locked(loader, UINT64_MAX);
    const uint64_t first = loader->first, end = loader->located_end;
    for (uint64_t s = first; s < end; s++)
        unused = drop_step_locked(loader, stk__step_at(loader, s), unused);
    loader->first = loader->located_end = loader->slab_end = loader->planner.admit_serial = serial;
    loader->planner.num_replace = loader->planner.num_wants = 0;
    loader->planner.round_cost = 0;
    pthread_mutex_unlock(&ring->lock);

    /* Still draining: nobody begins anything before what is left is free. */
    for (stk__fetch *next; unused; unused = next) {
        next = unused->next;
        stk__fetch_free(loader, unused);
    }
    for (uint64_t s = first; s < end; s++)
        clear_step(loader, stk__step_at(loader, s));
    pthread_mutex_lock(&ring->lock);
    loader->planner.blocked = false;
    loader->plan_limit = stk__plan_limit(loader);
    loader->draining = loader->stopping;
    pthread_cond_broadcast(&ring->work);
    pthread_mutex_unlock(&ring->lock);
}

stk_status stk_loader_set_epoch(stk_loader *loader, uint64_t epoch, stk_error *err)
{
    uint64_t serial;

    stk_error_init(err);
    STK_TRY(stk__context_check(loader->ctx, err));
    if (!stk__mul_size(epoch, loader->order.steps, &serial) || serial > INT64_MAX)
        return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER, "epoch %" PRIu64 " is beyond what can be counted", epoch);
    loader->eos_pending = false;
    if (serial != loader->first)
        stk__loader_reset(loader, serial);
    return STK_OK;
}

stk_status stk_loader_restore(stk_loader *loader, const stk_state *state, stk_error *err)
{
    uint64_t serial;

    stk_error_init(err);
    STK_TRY(stk__context_check(loader->ctx, err));
    STK_TRY(stk__state_check(loader, state, &serial, err));
    if (serial != loader->first)
        stk__loader_reset(loader, serial);
    /* A state saved at the end of an epoch goes on with telling that end. */
    loader->eos_pending = state->step == loader->order.steps;
    return STK_OK;
}

void stk_loader_state(const stk_loader *loader, stk_state *out)
{
    const uint64_t steps = loader->order.steps;

    *out = loader->ring->state;
    out->epoch = loader->first / steps;
    out->step = loader->first % steps;
    if (loader->eos_pending) {
        out->epoch--;
        out->step = steps;
    }
}

/* ---- The end ----------------------------------------------------------------------------------------------------------- */

void stk_loader_destroy(stk_loader **loader)
{
    stk__column columns[STK__MAX_FIELDS];
    stk_loader *l = loader ? *loader : NULL;

    if (!l)
        return;
    *loader = NULL;
    /* The threads of a loader made before fork() are in the parent: its memory here is left as it is. */
    if (stk__context_forked(l->ctx))
        return;
    atomic_store(&l->canceled, true);
    if (!stop_threads(l))
        return;
    stk__loader_reset(l, l->first);
    pthread_mutex_lock(&l->ring->lock);
    l->ring->loader = NULL;
    uint32_t n = l->ring->num_columns;
    memcpy(columns, l->ring->columns, n * sizeof *columns);
    pthread_mutex_unlock(&l->ring->lock);
    loader_free(l, columns, n);
}

/* ---- Figures ----------------------------------------------------------------------------------------------------------- */

uint64_t stk_loader_steps(const stk_loader *loader)
{
    return loader->order.steps;
}

const stk_field *stk_loader_fields(const stk_loader *loader, uint32_t *num_fields)
{
    *num_fields = loader->ring->num_columns;
    return loader->ring->fields;
}

void stk_loader_get_stats(const stk_loader *loader, stk_loader_stats *out)
{
    stk_loader *l = (stk_loader *)loader; /* its locks are written, nothing else */
    stk__ring *ring = l->ring;

    *out = (stk_loader_stats){.struct_size = sizeof *out,
                              .workers = l->num_workers,
                              .depth = l->depth,
                              .io_depth = l->reads.depth,
                              .memory_budget = l->options.memory_budget,
                              .slab_bytes = ring->slab_bytes};
    out->cache_bytes = l->cache ? stk__cache_bytes(l->cache) : 0;
    pthread_mutex_lock(&ring->pool.lock);
    out->memory_bytes = l->fixed_bytes + ring->pool.held + out->cache_bytes;
    out->memory_peak = l->fixed_bytes + ring->pool.peak + out->cache_bytes;
    pthread_mutex_unlock(&ring->pool.lock);
    pthread_mutex_lock(&ring->lock);
    const stk__reads *reads = &l->reads;
    out->stages[0] = (stk_stage_stats){.name = "order", .items = l->planner.shown.rows, .busy_ns = l->planner.shown.busy_ns};
    out->stages[1] = (stk_stage_stats){.name = "read",
                                       .items = reads->requests,
                                       .bytes = reads->request_bytes,
                                       .failures = reads->failures,
                                       .busy_ns = reads->busy_ns};
    out->stages[2] = (stk_stage_stats){.name = "prepare",
                                       .items = l->prepared,
                                       .bytes = l->prepared * (ring->slab_bytes / l->row_room),
                                       .failures = l->bad_samples,
                                       .busy_ns = l->prepare_busy_ns,
                                       .wait_in_ns = l->wait_in_ns,
                                       .wait_out_ns = l->wait_out_ns};
    out->stages[3] =
        (stk_stage_stats){.name = "deliver", .items = l->delivered, .wait_in_ns = l->deliver_wait_ns};
    out->requests = reads->requests;
    out->request_bytes = reads->request_bytes;
    out->needed_bytes = reads->needed_bytes;
    out->cache_hits = l->planner.shown.cache_hits;
    out->cache_misses = l->planner.shown.cache_misses;
    out->bad_samples = l->bad_samples;
    out->positions_evaluated = l->planner.shown.positions;
    pthread_mutex_unlock(&ring->lock);
}
