/* SPDX-License-Identifier: Apache-2.0 */
/* Making a loader: what its batches are, and its parts. */
#include "loader/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_BUDGET    (UINT64_C(4) << 30) /* of the default */
#define MOST_STAGING   (UINT64_C(4) << 20) /* of a worker, where it holds more than a sample */
#define FIRST_GUESS_NS 10e3                /* of preparing a sample of which nothing is known */

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

/* What would give pictures one size, by what the transforms already do and what they are for. */
static const char *size_remedy(const stk_loader *loader, const stk__column *column)
{
    if (column->pipeline && stk__pipeline_has(column->pipeline, "resize"))
        return "resize with one number keeps their shape: add center_crop(224) behind it";
    if (loader->options.shuffle != STK_SHUFFLE_NONE)
        return "to train, add random_resized_crop(224)";
    return "to evaluate, add resize(256), center_crop(224)";
}

/* A batch holds pictures of one size. */
static stk_status check_fixed(const stk_loader *loader, const stk__column *column, stk_error *err)
{
    for (uint32_t i = 0; i < column->header.rank; i++)
        if (column->header.shape[i] == -1)
            return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                             "transforms: the pictures of '%s' have many sizes, and still have "
                             "after the transforms: %s",
                             column->field.name, size_remedy(loader, column));
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
    STK_TRY(check_fixed(loader, column, err));
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
    if (loader->decodes)
        STK_TRY(
            stk__decode_room_init(&loader->decode_room, loader->decode_each, loader->decode_most));
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
    stk_cores cores = {.struct_size = sizeof cores};

    stk_context_cores(loader->ctx, &cores);
    loader->num_workers = o->num_workers == STK_AUTO ? cores.preparation : (uint32_t)o->num_workers;
    loader->depth =
        loader->num_workers ? (uint32_t)STK_MIN(o->prefetch_factor * loader->num_workers, 4096) : 1;
    if (o->memory_budget == 0)
        o->memory_budget = STK_MIN(stk_context_memory_limit(loader->ctx) / 4, MOST_BUDGET);
    loader->io_depth = 64;
    if (loader->dataset->ops->locate && loader->dataset->ops->object && o->io_depth == STK_AUTO) {
        stk_store *store = NULL;
        stk_store_limits limits;
        char key[1];
        loader->dataset->ops->object(loader->dataset, 0, &store, key, sizeof key);
        if (store) {
            stk__store_limits(store, &limits);
            loader->io_depth = STK_MAX(limits.io_depth, 1);
        }
    } else if (o->io_depth != STK_AUTO) {
        loader->io_depth = (uint32_t)o->io_depth;
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

void stk__steps_release(stk_loader *loader, uint32_t from, uint32_t to)
{
    stk_context *ctx = loader->ctx;

    for (uint32_t i = from; loader->steps && i < to; i++) {
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
    stk__steps_release(loader, 0, loader->num_steps);
    stk__free(ctx, loader->steps);
    stk__planner_destroy(loader);
    stk__units_destroy(loader);
    stk__reads_destroy(&loader->reads);
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
stk_status stk__loader_build(stk_loader *loader, stk__column *columns, uint32_t *num,
                             stk_error *err)
{
    stk__shares shares = {0};
    uint32_t ragged = 0;

    STK_TRY(settle_options(loader, err));
    STK_TRY(make_columns(loader, columns, num, err));
    for (uint32_t c = 0; c < *num; c++)
        ragged += columns[c].field.layout != STK_FIXED;
    loader->prepare_rows = STK__PREPARE_ROWS;
    while (loader->prepare_rows > 1 && loader->prepare_rows * loader->staging_row > MOST_STAGING)
        loader->prepare_rows /= 2;
    STK_TRY(stk__budget_divide(loader, columns, *num, ragged, &shares, err));
    stk__shares_apply(loader, &shares);
    STK_TRY(stk__ring_create(loader->ctx, columns, *num, loader->row_room, shares.slabs,
                             loader->options.pin_memory, &loader->ring, err));
    loader->ring->pool.limit = shares.pool;
    stk__reads_init(&loader->reads, loader->ctx, &loader->ring->lock, loader->io_depth,
                    (uint32_t)loader->options.retries);
    loader->ring->loader = loader;
    loader->own = stk__loader_is_own(loader);
    stk__state_of(loader, &loader->ring->state);
    STK_TRY(make_steps(loader, ragged));
    STK_TRY(make_workers(loader));
    STK_TRY(stk__order_epoch_init(&loader->planner.order, loader->ctx, &loader->order));
    if (shares.cache)
        STK_TRY(stk__cache_create(loader->ctx, shares.cache,
                                  stk__budget_blobs(loader, shares.cache), &loader->cache));
    return open_quarantine(loader, err);
}
