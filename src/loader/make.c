/* SPDX-License-Identifier: Apache-2.0 */
/* Making a loader: what its batches are, and its parts. */
#include <inttypes.h>
#include <stdio.h>

#include "loader/bucket.h"
#include "loader/loader.h"
#include "loader/parts.h"

#define LEAST_AUTO       8u    /* workers that auto may come to, where the budget has room; */
#define MOST_AUTO        256u  /* at most */
#define MOST_AUTO_DEPTH  1024u /* reads at a time, likewise */
#define MOST_BUDGET      (UINT64_C(4) << 30)  /* of the default */
#define MOST_SAMPLE      (UINT64_C(1) << 36)  /* bytes */
#define MOST_STAGING     (UINT64_C(4) << 20)  /* of a worker, where it holds more than a sample */
#define LEAST_BUDGET_NOW (UINT64_C(16) << 20) /* with which tasks read */
#define FIRST_GUESS_NS   10e3                 /* of preparing a sample of which nothing is known */

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
    stk_transform_header header = {.dtype = column->field.dtype,
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
    if (column->field.layout != STK_FIXED && !header.encoded)
        return stk__fail(err, STK_EINVAL, STK_STAGE_TRANSFORM,
                         "transforms: they would be of '%s', the first field, whose values are %s: "
                         "take the option out, or have another field first, as by columns=",
                         column->field.name,
                         column->field.layout == STK_BYTES
                             ? "bytes and no pictures that can be read"
                             : "of any length");
    STK_TRY(stk__pipeline_create(loader->ctx, loader->options.transforms, &header,
                                 &column->pipeline, err));
    if (stk__pipeline_empty(column->pipeline)) {
        stk__pipeline_destroy(&column->pipeline);
        return STK_OK;
    }
    stk__pipeline_header(column->pipeline, &column->header);
    column->decodes = stk__pipeline_decodes(column->pipeline);
    STK_TRY(check_fixed(loader, column, err));
    loader->workers.decodes |= column->decodes;
    column->field.layout = STK_FIXED;
    column->field.codec[0] = '\0';
    column->field.dtype = column->header.dtype;
    column->field.rank = column->header.rank;
    memcpy(column->field.shape, column->header.shape, sizeof column->field.shape);
    column->staged_bytes =
        column->decodes ? 0 : stk__round_up(column->source_bytes, STK_CACHE_LINE);
    loader->workers.staging_row += column->staged_bytes;
    loader->workers.scratch_bytes =
        STK_MAX(loader->workers.scratch_bytes, stk__pipeline_scratch(column->pipeline));
    return STK_OK;
}

/* Nothing that is counted over a batch of such samples overflows; transforms may have made one
 * larger. */
static stk_status add_size(const stk__column *column, uint64_t *sample, stk_error *err)
{
    const uint64_t bytes = STK_MAX(column->source_bytes, column->row_bytes);

    if (bytes > MOST_SAMPLE - *sample)
        return stk__fail(err, STK_ELIMIT, STK_STAGE_LOADER,
                         "with '%s' a sample has more than the %d GiB that a loader takes: cut "
                         "smaller ones",
                         column->field.name, (int)(MOST_SAMPLE >> 30));
    *sample += bytes;
    return STK_OK;
}

static stk__column own_column(const char *name, stk_dtype dtype, int32_t source)
{
    stk__column column = {.source = source, .row_bytes = stk_dtype_size(dtype)};

    column.field = (stk_field){
        .struct_size = sizeof column.field, .name = name, .dtype = dtype, .layout = STK_FIXED};
    column.header = (stk_transform_header){.dtype = dtype};
    return column;
}

/* Hold the batch transforms against the fields of one size. */
static stk_status prepare_batch_transforms(stk_loader *loader, stk_error *err)
{
    stk__batch_field *fields = stk__calloc(loader->ctx, loader->num_columns, sizeof *fields);
    uint32_t n = 0;

    if (!fields)
        return STK_ENOMEM;
    for (uint32_t c = 0; c < loader->num_columns; c++)
        if (loader->columns[c].field.layout == STK_FIXED)
            fields[n++] = stk__batch_field_of(&loader->columns[c], NULL);
    const stk_status status = stk__batch_pipeline_prepare(loader->finisher.pipeline, fields, n,
                                                          stk__order_rows(&loader->order),
                                                          &loader->finisher.scratch_bytes, err);
    stk__free(loader->ctx, fields);
    return status;
}

/* The columns of a batch: the dataset's fields behind their transforms, the index, what batch
 * transforms add. */
static stk_status make_columns(stk_loader *loader, stk_error *err)
{
    const stk_dataset *dataset = loader->dataset;
    uint32_t *num = &loader->num_columns, n = 0, ragged = 0;
    uint64_t sample = 0;

    stk__column *columns =
        stk__calloc(loader->ctx, dataset->num_fields + UINT64_C(3), sizeof *columns);
    if (!columns)
        return STK_ENOMEM;
    loader->columns = columns;
    for (uint32_t f = 0; f < dataset->num_fields; f++) {
        stk__column *column = &columns[n++];
        *column = (stk__column){.field = dataset->fields[f], .source = (int32_t)f};
        *num = n;
        if (column->field.layout == STK_FIXED)
            column->source_bytes = stk_field_bytes(&column->field);
        STK_TRY(transform_column(loader, column, err));
        if (column->field.layout != STK_FIXED) {
            column->ragged = ragged++;
            if (dataset->pads)
                column->pad = dataset->pads[f];
            continue;
        }
        column->row_bytes = stk_field_bytes(&column->field);
        STK_TRY(add_size(column, &sample, err));
    }
    columns[n++] = own_column("index", STK_UINT64, STK__COLUMN_INDEX);
    *num = n;
    if (!loader->options.batch_transforms || !*loader->options.batch_transforms)
        return STK_OK;
    STK_TRY(stk__batch_pipeline_create(loader->ctx, loader->options.batch_transforms,
                                       &loader->finisher.pipeline, err));
    if (stk__batch_pipeline_empty(loader->finisher.pipeline)) {
        stk__batch_pipeline_destroy(&loader->finisher.pipeline);
        return STK_OK;
    }
    STK_TRY(prepare_batch_transforms(loader, err));
    columns[n++] = own_column("label_mixed", STK_INT64, STK__COLUMN_LABEL_MIXED);
    columns[n++] = own_column("mix", STK_FLOAT32, STK__COLUMN_MIX);
    *num = n;
    return STK_OK;
}

/* ---- Making ---- */

/* Batches that are ahead of the consumer, where so many workers are at work and memory has room. */
static uint32_t ahead_of(const stk_loader_options *o, uint32_t workers)
{
    return workers ? (uint32_t)STK_MIN(o->prefetch_factor * workers, STK__AHEAD_MOST) : 1;
}

/* Turn the options that depend on the machine or the dataset into numbers. */
static stk_status settle_options(stk_loader *loader, stk_error *err)
{
    stk_loader_options *o = &loader->options;
    stk__budget *budget = &loader->budget;
    stk_cores cores = {.struct_size = sizeof cores};

    stk_context_cores(loader->ctx, &cores);
    budget->workers = o->num_workers == STK_AUTO ? cores.preparation : (uint32_t)o->num_workers;
    /* As many as there are cores, twice, help where they sleep or other programs take turns. */
    const uint32_t part = cores.usable / STK_MAX(cores.ranks, 1u),
                   most = STK_MIN(STK_MAX(2 * part, LEAST_AUTO), MOST_AUTO);
    if (o->num_workers == STK_AUTO && most > cores.preparation)
        budget->spare = most - cores.preparation;
    budget->depth = ahead_of(o, budget->workers);
    budget->spare_depth = ahead_of(o, budget->workers + budget->spare) - budget->depth;
    if (o->memory_budget == 0)
        o->memory_budget = STK_MIN(stk__context_memory_share(loader->ctx) / 4, MOST_BUDGET);
    budget->io_depth = 64;
    if (loader->dataset->ops->locate && loader->dataset->ops->object && o->io_depth == STK_AUTO) {
        stk_store *store = NULL;
        stk_store_limits limits;
        char key[1];
        loader->dataset->ops->object(loader->dataset, 0, &store, key, sizeof key);
        if (store) {
            stk__store_limits(store, &limits);
            budget->io_depth = STK_MAX(limits.io_depth, 1);
        }
    } else if (o->io_depth != STK_AUTO) {
        budget->io_depth = (uint32_t)o->io_depth;
    }
    STK_TRY(stk__order_init(&loader->order, loader->dataset, o, err));
    budget->row_room = STK_MAX(stk__order_rows(&loader->order), 1);
    loader->workers.mean_row_ns =
        loader->dataset->cost_ns > 0 ? loader->dataset->cost_ns : FIRST_GUESS_NS;
    return STK_OK;
}

stk_status stk__loader_options_check(const stk_loader_options *o, stk_error *err)
{
    const stk_option_table *table = &stk__loader_option_table;
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

/* ---- The parts ---- */

/* Whether a worker is to have memory for what its tasks read: a small budget is for what all
 * samples need. */
static bool reads_now(const stk_loader *loader)
{
    const stk_dataset_ops *ops = loader->dataset->ops;

    return ops->locate && !ops->decode && loader->options.memory_budget >= LEAST_BUDGET_NOW;
}

/*
 * What `auto` comes to. In random order samples come back to a chunk again and again, and each time
 * it would be decoded anew; in any other order it is decoded about once an epoch, and so it is
 * where samples are few. Half of the cache is left for what is lost at the ends of its arenas.
 */
static void settle_cache(stk_loader *loader)
{
    stk_loader_options *o = &loader->options;
    stk__budget trial = loader->budget;
    const uint64_t bytes = loader->dataset->decoded_bytes;

    if (o->cache != STK_CACHE_AUTO)
        return;
    trial.silent = trial.caches = trial.caches_decoded = true;
    trial.worker = stk__worker_bytes(&loader->workers);
    const bool keeps = loader->dataset->ops->decode && o->shuffle == STK_SHUFFLE_FULL && bytes &&
                       stk__budget_divide(&trial, NULL) == STK_OK && bytes <= trial.now.cache / 2 &&
                       bytes / STK_MAX(trial.row, 1) <= loader->dataset->size / 2;
    o->cache = keeps ? STK_CACHE_DECODED : STK_CACHE_NONE;
}

/* What there is to divide, and what has to be paid of it; then each part's share. */
static stk_status make_budget(stk_loader *loader, stk_error *err)
{
    const stk__column *columns = loader->columns;
    stk__workers *w = &loader->workers;
    const uint32_t n = loader->num_columns;
    stk__budget *b = &loader->budget;
    const stk_loader_options *o = &loader->options;

    b->ctx = loader->ctx;
    b->dataset = loader->dataset;
    b->order = &loader->order;
    b->bytes = o->memory_budget;
    b->slab = stk__slab_bytes(columns, n, b->row_room) + 4 * STK_CACHE_LINE;
    b->fixed = sizeof *loader + sizeof(stk__ring) + stk__fetcher_bytes() +
               loader->finisher.scratch_bytes + loader->dataset->held_bytes +
               stk__bucket_bytes(&loader->order) +
               n * (2 * sizeof *columns + sizeof(stk_field) + sizeof(stk__batch_field) +
                    2 * sizeof(uint64_t));
    for (uint32_t c = 0; c < n; c++)
        b->ragged += columns[c].field.layout != STK_FIXED;
    b->decodes = loader->workers.decodes;
    settle_cache(loader);
    b->caches = o->cache != STK_CACHE_NONE;
    b->caches_decoded = o->cache == STK_CACHE_DECODED;
    if (reads_now(loader)) {
        w->now_bytes = STK__NOW_BYTES;
        b->worker = stk__worker_bytes(w);
        if (stk__budget_divide(b, NULL) == STK_OK)
            return STK_OK;
        w->now_bytes = 0;
    }
    b->worker = stk__worker_bytes(w);
    return stk__budget_divide(b, err);
}

/* A batch was given back: the next step may have its slab. */
static void batch_returned_locked(void *steps)
{
    stk__steps_attach_locked(steps);
}

/* Reads are due earlier: whoever does the work sleeps until then at most. */
static void reads_sooner_locked(void *user)
{
    stk__ring *ring = user;

    pthread_cond_broadcast(&ring->work);
    if (ring->alone)
        stk__ring_wake_locked(ring);
}

/* The slabs, the records of steps, and what knows of both. */
static stk_status make_ring(stk_loader *loader, stk_error *err)
{
    const stk__budget *b = &loader->budget;

    STK_TRY(stk__ring_create(loader->ctx, loader->columns, loader->num_columns, b->row_room,
                             b->now.slabs, b->now.spare_slabs, loader->options.device,
                             loader->options.pin_memory, &loader->ring, err));
    stk__ring *ring = loader->ring;
    ring->pool.limit = b->now.pool;
    ring->alone = b->now.workers == 0;
    stk__state_of(loader->dataset, &loader->order, &loader->options, &ring->state);
    loader->own = stk__calls_are_own(ring, loader->dataset);
    loader->stalls.alone = ring->alone;
    loader->stalls.cold = STK_WAIT_STARTUP;
    loader->reads =
        (stk__reads){.lock = &ring->lock, .sooner_locked = reads_sooner_locked, .user = ring};
    STK_TRY(stk__reads_init(&loader->reads, loader->ctx,
                            loader->options.io_depth == STK_AUTO ? 0 : b->io_depth,
                            (uint32_t)loader->options.retries, loader->options.seed));
    /* In order a position is an index. The cache moves indices. */
    loader->steps.plain = loader->workers.many_rows == STK__RUN_ROWS && !loader->order.mixture &&
                          !loader->order.bucket && loader->options.cache == STK_CACHE_NONE;
    STK_TRY(stk__steps_init(&loader->steps, ring, b->now.steps, b->row_room));
    loader->steps.horizon = stk__budget_horizon(b);
    ring->returned_locked = batch_returned_locked;
    ring->user = &loader->steps;
    return STK_OK;
}

/* The ranges of the first sample, and whether the second needs one of them. */
typedef struct sharing {
    stk_locator seam;
    stk_need first[8];
    uint32_t num;
    bool found;
} sharing;

static stk_status find_shared(stk_locator *seam, size_t i, const stk_need *need)
{
    sharing *s = (sharing *)seam;

    if (i == 0 && s->num < STK_COUNT(s->first))
        s->first[s->num++] = *need;
    for (uint32_t k = 0; i && k < s->num; k++)
        s->found |= s->first[k].object == need->object && s->first[k].offset == need->offset;
    return STK_OK;
}

/* Whether neighbouring samples need the same range: the cache then keeps it once. */
static bool samples_share(stk_dataset *dataset)
{
    sharing s = {.seam = stk__locator_of_needs(find_shared)};

    return dataset->ops->locate && dataset->size > 1 &&
           dataset->ops->locate(dataset, (uint64_t[]){0, 1}, 2, &s.seam, NULL) == STK_OK && s.found;
}

uint64_t stk__loader_block(const stk_loader *loader)
{
    const stk__order *order = &loader->order;
    const bool other =
        order->shuffle == STK_SHUFFLE_BLOCK && order->block_size != loader->dataset->block_size;

    return order->shuffle == STK_SHUFFLE_FULL || order->mixture || order->bucket || other
               ? 0
               : loader->dataset->block_bytes;
}

/*
 * Whether samples are to read what their blocks need as a whole: where they come in blocks, and the
 * pool has room for all that is mixed at a time, twice.
 */
static bool reads_blocks(const stk_loader *loader)
{
    const uint64_t block = stk__loader_block(loader),
                   blocks = stk__budget_blocks(&loader->budget) + loader->budget.now.workers + 2;

    return block && stk__shares_hold_blocks(loader->budget.now.pool, blocks, block);
}

static stk_status make_planner(stk_loader *loader)
{
    const stk_loader_options *o = &loader->options;
    const bool decodes = loader->dataset->ops->decode != NULL;

    loader->keeping.encoded = o->cache == STK_CACHE_ENCODED;
    loader->keeping.ranges = decodes || (loader->keeping.encoded && samples_share(loader->dataset));
    if (loader->budget.now.cache)
        STK_TRY(stk__cache_create(loader->ctx, loader->budget.now.cache,
                                  stk__budget_blobs(&loader->budget), &loader->keeping.cache));
    stk__units *u = &loader->units;
    u->ctx = loader->ctx;
    u->dataset = loader->dataset;
    u->ring = loader->ring;
    u->steps = &loader->steps;
    u->reads = &loader->reads;
    u->keeping = &loader->keeping;
    u->whole =
        o->shuffle != STK_SHUFFLE_FULL || (loader->keeping.cache && o->cache == STK_CACHE_DECODED);
    loader->planner =
        (stk__planner){.ctx = loader->ctx,
                       .dataset = loader->dataset,
                       .order = &loader->order,
                       .budget = &loader->budget,
                       .keeping = &loader->keeping,
                       .ring = loader->ring,
                       .steps = &loader->steps,
                       .units = u,
                       .reads = &loader->reads,
                       .stalls = &loader->stalls,
                       .replaces = o->on_error == STK_ON_ERROR_REPLACE,
                       .blocks = reads_blocks(loader),
                       .decodes = loader->workers.decodes,
                       .near.may = loader->workers.now_bytes && !loader->keeping.cache};
    return stk__planner_init(&loader->planner);
}

static stk_status make_workers(stk_loader *loader)
{
    stk__workers *w = &loader->workers;
    const stk__budget *b = &loader->budget;

    loader->finisher.order = &loader->order;
    loader->finisher.ctx = loader->ctx;
    STK_TRY(stk__finisher_init(&loader->finisher, loader->num_columns));
    w->ctx = loader->ctx;
    w->order = &loader->order;
    w->keeping = &loader->keeping;
    w->ring = loader->ring;
    w->steps = &loader->steps;
    w->units = &loader->units;
    w->planner = &loader->planner;
    w->finisher = &loader->finisher;
    w->stalls = &loader->stalls;
    w->replaces = loader->planner.replaces;
    if (stk__keeps_samples(w->keeping))
        w->many_rows = 0;
    loader->planner.runs = w->many_rows == STK__RUN_ROWS;
    loader->watch = (stk__watch){.ring = loader->ring,
                                 .steps = &loader->steps,
                                 .planner = &loader->planner,
                                 .doing = &w->self.doing,
                                 .every_ns = (uint64_t)(loader->options.watchdog * 1e9)};
    return stk__workers_init(w, b->now.workers + b->now.spare, b->now.workers, b->decode_each,
                             b->decode_most);
}

static stk_status make_bad(stk_loader *loader, stk_error *err)
{
    const stk_loader_options *o = &loader->options;

    loader->bad = (stk__bad){.ctx = loader->ctx,
                             .dataset = loader->dataset,
                             .ring = loader->ring,
                             .order = &loader->order,
                             .budget = o->memory_budget,
                             .on_error = o->on_error};
    return stk__bad_init(&loader->bad, o->max_errors, o->quarantine, loader->budget.row_room, err);
}

/* What moves while the loader runs: threads that there are records for, and reads as far as steps
 * are planned ahead for them. */
static void begin_pace(stk_loader *loader)
{
    const stk__budget *b = &loader->budget;
    const stk_loader_options *o = &loader->options;
    const bool reads = loader->dataset->ops->locate && o->io_depth == STK_AUTO;
    stk__pace_limits limits = {.workers_least = b->now.workers,
                               .workers_most = b->now.workers + b->now.spare,
                               .depth_least = b->io_depth,
                               .depth_most = b->io_depth};

    loader->depth = b->io_depth;
    if (b->now.workers == 0)
        return;
    if (o->num_workers == STK_AUTO)
        limits.workers_least = 1;
    if (reads) {
        limits.depth_least = 1;
        limits.depth_most = STK_MAX(STK_MIN(4 * b->io_depth, MOST_AUTO_DEPTH), b->io_depth);
    }
    stk__pace_begin(&loader->pace, &limits, b->now.workers, b->io_depth);
}

void stk__loader_move(stk_loader *loader, uint32_t workers)
{
    const uint32_t moved = stk__workers_move(&loader->workers, workers),
                   slabs = ahead_of(&loader->options, moved) + 1;

    loader->pace.want.workers = moved;
    stk__ring_grow(loader->ring, STK_MIN(slabs, stk__shares_slabs(&loader->budget.now)));
    pthread_mutex_lock(&loader->ring->lock);
    stk__steps_attach_locked(&loader->steps);
    pthread_cond_signal(&loader->ring->work);
    pthread_mutex_unlock(&loader->ring->lock);
}

stk_status stk__loader_outline(stk_loader *loader, stk_error *err)
{
    stk__workers *w = &loader->workers;

    w->dataset = loader->dataset;
    w->prepare_rows = STK__PREPARE_ROWS;
    STK_TRY(settle_options(loader, err));
    STK_TRY(make_columns(loader, err));
    w->many_rows = stk__many_rows(w->dataset, loader->columns, loader->num_columns,
                                  loader->order.shuffle == STK_SHUFFLE_NONE);
    while (w->prepare_rows > 1 && w->prepare_rows * w->staging_row > MOST_STAGING)
        w->prepare_rows /= 2;
    return STK_OK;
}

uint64_t stk__loader_need(stk_loader *loader)
{
    loader->budget.silent = true;
    (void)make_budget(loader, NULL);
    return stk__budget_bytes(&loader->budget);
}

stk_status stk__loader_build(stk_loader *loader, stk_error *err)
{
    STK_TRY(stk__loader_outline(loader, err));
    STK_TRY(make_budget(loader, err));
    STK_TRY(make_ring(loader, err));
    STK_TRY(make_planner(loader));
    STK_TRY(make_workers(loader));
    begin_pace(loader);
    return make_bad(loader, err);
}

void stk__loader_free(stk_loader *loader)
{
    stk_context *ctx = loader->ctx;

    for (uint32_t c = 0; c < loader->num_columns; c++)
        stk__pipeline_destroy(&loader->columns[c].pipeline);
    stk__free(ctx, loader->columns);
    stk__finisher_release(&loader->finisher);
    stk__workers_release(&loader->workers);
    stk__planner_destroy(&loader->planner);
    stk__steps_release(&loader->steps);
    stk__units_destroy(&loader->units);
    stk__reads_destroy(&loader->reads);
    stk__cache_destroy(&loader->keeping.cache);
    stk__bad_release(&loader->bad);
    if (loader->ring) {
        loader->ring->returned_locked = NULL;
        stk__ring_unref(loader->ring);
    }
    stk__free(ctx, loader);
    stk__context_unref(ctx);
}
