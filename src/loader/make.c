/* SPDX-License-Identifier: Apache-2.0 */
/* Making a loader: what its batches are, and how its budget is divided. */
#include "loader/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_BUDGET    (UINT64_C(4) << 30)   /* of the default */
#define FIRST_GUESS_NS 10e3                  /* of preparing a sample of which nothing is known */
#define LEAST_POOL     (UINT64_C(256) << 10) /* for reads, where there are any */
#define MOST_STEPS     4096u                 /* planned ahead */
#define PROBES         16u                   /* samples that are asked what they need */
#define LEAST_DECODING (UINT64_C(256) << 10) /* of one thread */
#define MOST_DECODING  (UINT64_C(4) << 20)

/* ---- What a batch is ---- */

static bool has_pictures(const stk_dataset *dataset)
{
    for (uint32_t f = 0; f < dataset->num_fields; f++)
        if (dataset->fields[f].picture)
            return true;
    return false;
}

/* Whether the values of a field are pictures that a pipeline can decode. */
static bool is_encoded(const stk_field *field)
{
    return field->layout == STK_BYTES && field->picture && strcmp(field->codec, "image") == 0;
}

/* A batch holds pictures of one size. */
static stk_status check_fixed(const stk__column *column, stk_error *err)
{
    for (uint32_t i = 0; i < column->header.rank; i++)
        if (column->header.shape[i] == -1)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                             "transforms: the pictures of '%s' have many sizes, and still have "
                             "after the transforms: add one that gives them a single size, such as "
                             "random_resized_crop(224), or resize(256), center_crop(224)",
                             column->field.name);
    return STK_OK;
}

/* Put the transforms behind a field: pictures, or the first field of a dataset without any. */
static stk_status transform_column(stk_loader *loader, stk__column *column, stk_error *err)
{
    stk_header header = {.dtype = column->field.dtype,
                         .rank = column->field.rank,
                         .picture = column->field.picture && column->field.rank == 3,
                         .encoded = is_encoded(&column->field),
                         .mask = column->field.mask};

    memcpy(header.shape, column->field.shape, sizeof header.shape);
    column->header = header;
    bool wanted = loader->options.transforms && *loader->options.transforms &&
                  (has_pictures(loader->dataset) ? column->field.picture : column->source == 0);
    if (!wanted)
        return STK_OK;
    STK_TRY(stk__pipeline_create(loader->ctx, loader->options.transforms, &header,
                                 &column->pipeline, err));
    if (stk__pipeline_empty(column->pipeline)) {
        stk__pipeline_destroy(&column->pipeline);
        return STK_OK;
    }
    stk__pipeline_header(column->pipeline, &column->header);
    column->decodes = stk__pipeline_decodes(column->pipeline);
    STK_TRY(check_fixed(column, err));
    loader->decodes |= column->decodes;
    column->field.layout = STK_FIXED;
    column->field.codec[0] = '\0';
    column->field.dtype = column->header.dtype;
    column->field.rank = column->header.rank;
    memcpy(column->field.shape, column->header.shape, sizeof column->field.shape);
    column->staged_bytes =
        column->decodes ? 0 : stk__round_up(column->source_bytes, STK_CACHE_LINE);
    loader->staging_row += column->staged_bytes;
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

/* The columns of a batch: the dataset's fields behind their transforms, the index, what batch
 * transforms add. */
static stk_status make_columns(stk_loader *loader, stk__column *columns, uint32_t *num,
                               stk_error *err)
{
    const stk_dataset *dataset = loader->dataset;
    uint32_t n = 0, ragged = 0;

    if (dataset->num_fields + 3 > STK__MAX_FIELDS)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_LOADER,
                         "the dataset has %u fields; a loader takes %d at most",
                         dataset->num_fields, STK__MAX_FIELDS - 3);
    for (uint32_t f = 0; f < dataset->num_fields; f++) {
        stk__column *column = &columns[n++];
        *column = (stk__column){.field = dataset->fields[f], .source = (int32_t)f};
        *num = n;
        if (column->field.layout == STK_FIXED)
            column->source_bytes = stk_field_bytes(&column->field);
        if (column->field.layout == STK_FIXED || is_encoded(&column->field))
            STK_TRY(transform_column(loader, column, err));
        if (column->field.layout == STK_FIXED)
            column->row_bytes = stk_field_bytes(&column->field);
        else
            column->ragged = ragged++;
    }
    columns[n++] = own_column("index", STK_UINT64, STK__COLUMN_INDEX);
    *num = n;
    if (!loader->options.batch_transforms || !*loader->options.batch_transforms)
        return STK_OK;
    STK_TRY(stk__batch_pipeline_create(loader->ctx, loader->options.batch_transforms,
                                       &loader->batch_pipeline, err));
    if (stk__batch_pipeline_empty(loader->batch_pipeline)) {
        stk__batch_pipeline_destroy(&loader->batch_pipeline);
        return STK_OK;
    }
    stk__batch_field fields[STK__MAX_FIELDS];
    uint32_t fixed = 0;
    for (uint32_t c = 0; c < n; c++)
        if (columns[c].field.layout == STK_FIXED)
            fields[fixed++] = stk__batch_field_of(&columns[c], NULL);
    STK_TRY(stk__batch_pipeline_prepare(loader->batch_pipeline, fields, fixed,
                                        stk__order_rows(&loader->order),
                                        &loader->batch_scratch_bytes, err));
    columns[n++] = own_column("label_mixed", STK_INT64, STK__COLUMN_LABEL_MIXED);
    columns[n++] = own_column("mix", STK_FLOAT32, STK__COLUMN_MIX);
    *num = n;
    return STK_OK;
}

/* ---- What samples need ---- */

typedef struct counter {
    stk_locator seam;
    uint64_t needs, decoded;
} counter;

static stk_status count_need(stk_locator *seam, size_t i, const stk_need *need)
{
    (void)i;
    ((counter *)seam)->needs++;
    ((counter *)seam)->decoded = need->decoded;
    return STK_OK;
}

/* Needs of a row to reckon with. Those of a dataset that decodes are counted at some samples; the
 * arrays of needs double as they grow. */
static uint64_t needs_of_a_row(stk_dataset *dataset)
{
    counter c = {.seam = stk__locator_of_needs(count_need)};
    uint64_t most = 1;

    for (uint64_t i = 0; i < PROBES && dataset->ops->decode; i++) {
        uint64_t index = (dataset->size - 1) / (PROBES - 1) * i;
        c.needs = 0;
        if (dataset->ops->locate(dataset, &index, 1, &c.seam, NULL) == STK_OK)
            most = STK_MAX(most, c.needs);
    }
    return 2 * most;
}

/* ---- The budget ---- */

static uint64_t step_bytes(const stk_loader *loader, uint32_t ragged)
{
    uint64_t row =
        sizeof(stk__row) + 2 * sizeof(uint64_t) + sizeof(uint32_t) + 3 * ragged * sizeof(uint64_t);

    if (loader->dataset->ops->locate)
        row += needs_of_a_row(loader->dataset) * (sizeof(stk__need_entry) + sizeof(stk_slice));
    return sizeof(stk__step) + loader->row_room * row;
}

/* How far ahead steps are planned: enough to keep all reads going, and a shuffle buffer of blocks
 * at a time. */
static uint64_t horizon_steps(const stk_loader *loader)
{
    const stk__order *order = &loader->order;
    uint64_t ahead = 0;

    if (!loader->dataset->ops->locate || loader->num_workers == 0)
        return 0;
    ahead = 4 * (uint64_t)loader->reads.depth / loader->row_room + 1;
    if (order->shuffle == STK_SHUFFLE_BLOCK)
        ahead = STK_MAX(
            ahead,
            order->block_size * order->buffer_blocks * order->streams / order->global_batch + 1);
    return ahead;
}

/*
 * What decoding may hold: each thread its own share, and one at a time more, for large pictures.
 * Decoders of photographs take a few hundred kilobytes.
 */
static void divide_decoding(const stk_loader *loader, uint64_t *each, uint64_t *most, uint64_t *all)
{
    const uint64_t budget = loader->options.memory_budget;

    *each = STK_MIN(STK_MAX(budget / 32, LEAST_DECODING), MOST_DECODING);
    *most = STK_MAX(budget / 8, *each);
    *all = loader->decodes ? (loader->num_workers + UINT64_C(1)) * *each + *most : 0;
}

/*
 * Divide the budget: slabs, records of steps, workers' scratch and decoding are fixed; of the rest
 * the cache takes three quarters, and reads in flight what is left. Slabs beyond two, then the
 * horizon, shrink until it fits.
 */
static stk_status divide_budget(stk_loader *loader, const stk__column *columns, uint32_t n,
                                uint32_t ragged, uint64_t *slabs, uint64_t *pool, uint64_t *cache,
                                stk_error *err)
{
    const uint64_t budget = loader->options.memory_budget;
    const uint64_t slab = stk__slab_bytes(columns, n, loader->row_room) + 4 * STK_CACHE_LINE;
    const bool reads = loader->dataset->ops->locate || ragged;
    const uint64_t workers = (loader->num_workers + UINT64_C(1)) * stk__worker_bytes(loader);
    uint64_t each, most, decoding;

    divide_decoding(loader, &each, &most, &decoding);
    const uint64_t base =
        sizeof *loader + sizeof(stk__ring) + workers + loader->batch_scratch_bytes + decoding;
    const uint64_t floor = base + (reads ? LEAST_POOL : 0);
    const uint64_t step = step_bytes(loader, ragged);

    *slabs = loader->depth + 1;
    while (*slabs > 2 && floor + *slabs * (slab + step) > budget / 4 * 3)
        --*slabs;
    if (floor + *slabs * (slab + step) > budget)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_LOADER,
                         "memory_budget is %" PRIu64 " bytes; two batches of %" PRIu64
                         " bytes and %u workers need %" PRIu64
                         ": raise memory_budget, or lower batch_size or num_workers",
                         budget, slab, loader->num_workers, floor + 2 * (slab + step));
    if (*slabs < loader->depth + 1)
        stk__log(loader->ctx, STK_LOG_INFO,
                 "memory_budget %" PRIu64 " holds %" PRIu64
                 " batches ahead instead of the %u of prefetch_factor",
                 budget, *slabs - 1, loader->depth);
    loader->depth = (uint32_t)*slabs - 1;
    loader->horizon = horizon_steps(loader);
    uint64_t steps = STK_MIN(loader->depth + 1 + loader->horizon, MOST_STEPS);
    /* Planning far ahead is worth little without room for what is planned. */
    const uint64_t records = loader->dataset->ops->decode ? budget / 4 : budget / 8 * 7;
    while (steps > *slabs && floor + *slabs * slab + steps * step > records)
        steps = STK_MAX(*slabs, steps / 2);
    loader->num_steps = (uint32_t)steps;
    loader->fixed_bytes = base + *slabs * slab + steps * step;
    uint64_t rest = budget - loader->fixed_bytes;
    *cache = loader->options.cache == STK_CACHE_NONE ? 0 : reads ? rest / 4 * 3 : rest;
    *pool = reads ? rest - *cache : 0;
    return STK_OK;
}

/* ---- Making ---- */

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
    uint64_t each, most, all;

    divide_decoding(loader, &each, &most, &all);
    if (loader->decodes)
        STK_TRY(stk__decode_room_init(&loader->decode_room, each, most));
    STK_TRY(stk__worker_init(&loader->self, loader, UINT32_MAX));
    if (loader->num_workers == 0)
        return STK_OK;
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
    loader->depth =
        loader->num_workers ? (uint32_t)STK_MIN(o->prefetch_factor * loader->num_workers, 4096) : 1;
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
    STK_TRY(stk__bad_limit(loader, err));
    loader->mean_row_ns = loader->dataset->cost_ns > 0 ? loader->dataset->cost_ns : FIRST_GUESS_NS;
    return STK_OK;
}

stk_status stk__loader_options_check(const stk_loader_options *o, stk_error *err)
{
    const stk_option_table *table = stk_loader_option_table();
    stk_loader_options scratch;
    char text[64];

    if (o->struct_size != sizeof *o)
        return stk__fail(err, STK_EINVAL, STK_STAGE_LOADER,
                         "loader options of %u bytes: call stk_loader_options_init() first",
                         o->struct_size);
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
                            "quarantine log %s: could not be opened: %s", path,
                            strerrordesc_np(errno));
    loader->quarantine_path = stk__strdup(loader->ctx, path);
    return loader->quarantine_path ? STK_OK : STK_ENOMEM;
}

/* Free all that is not the ring. No thread is left. */
void stk__loader_free(stk_loader *loader, stk__column *columns, uint32_t num_columns)
{
    stk_context *ctx = loader->ctx;

    for (uint32_t c = 0; c < num_columns; c++)
        stk__pipeline_destroy(&columns[c].pipeline);
    stk__batch_pipeline_destroy(&loader->batch_pipeline);
    for (uint32_t i = 0; loader->workers && i < loader->num_workers; i++)
        stk__worker_release(&loader->workers[i]);
    stk__worker_release(&loader->self);
    stk__free(ctx, loader->workers);
    stk__decode_room_release(&loader->decode_room);
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
    stk__planner_destroy(loader);
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

/* Blobs that a cache of `bytes` may hold, judged by the first sample: by the ranges that it needs,
 * and by the size of those that are kept decoded. */
static uint64_t blobs_of(const stk_loader *loader, uint64_t bytes)
{
    counter c = {.seam = stk__locator_of_needs(count_need)};
    stk_dataset *dataset = loader->dataset;

    if (!dataset->ops->locate ||
        dataset->ops->locate(dataset, &(uint64_t){0}, 1, &c.seam, NULL) != STK_OK)
        return dataset->size;
    uint64_t most = dataset->size * STK_MAX(c.needs, 1);
    if (loader->options.cache == STK_CACHE_DECODED && c.decoded)
        most = STK_MIN(most, 2 * (bytes / c.decoded) + 16);
    return most;
}

/* All that may fail before threads start. */
stk_status stk__loader_build(stk_loader *loader, stk__column *columns, uint32_t *num,
                             stk_error *err)
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
    loader->most_row = pool;
    loader->ring->loader = loader;
    stk__state_of(loader, &loader->ring->state);
    STK_TRY(make_steps(loader, ragged));
    STK_TRY(make_workers(loader));
    STK_TRY(stk__order_epoch_init(&loader->planner.order, loader->ctx, &loader->order));
    if (cache && stk__cache_create(loader->ctx, cache, blobs_of(loader, cache), &loader->cache) ==
                     STK_ENOMEM)
        return STK_ENOMEM;
    if (cache && !loader->cache)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_LOADER,
                         "cache: memory_budget leaves %" PRIu64
                         " bytes for it, too few: raise memory_budget or set "
                         "cache: none",
                         cache);
    return open_quarantine(loader, err);
}
