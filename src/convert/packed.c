/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures that need no decoding: decoded and resized once, and written as arrays of Zarr, with
 * labels and names. Shards are filled by all threads and written through the target that arrays
 * have (array_target.h): what is complete stays, and the same run again goes on. Labels, names and
 * what was left out follow the shards of a group of rows, in one object.
 */
#include "convert/packed.h"

#include <inttypes.h>
#include <stdio.h>

#include "array/array.h"
#include "base/options.h"

#define OF_ROW 256 /* bytes that are held of a row of a group: label, name, whether it is sound */

/* ---- Options --------------------------------------------------------------------------------- */

#define AT(member) offsetof(stk_convert_packed_options, member)

static const stk_option own_list[] = {
    {"size", STK_OPTION_STRING, AT(size), NULL, 0, 0, NULL, "HxW",
     "Size of all pictures: the shorter side is resized to the larger of both, and the middle cut "
     "out, as resize(256), center_crop(256x256) do; without it they are of one size already."},
    {"short_side", STK_OPTION_UINT, AT(short_side), "0", 0, 16384, NULL, "N",
     "Pixels of the shorter side of each picture, whose shape stays, as resize(256) does; 0: all "
     "are of one size."},
    {"shard_size", STK_OPTION_SIZE, AT(shard_size), "64MiB", 4096, 1e12, NULL, "SIZE",
     "Bytes of pictures in one object, roughly."},
    {"checksum", STK_OPTION_BOOL, AT(checksum), "true", 0, 0, NULL, NULL,
     "A CRC-32C behind every chunk, of pictures of one size; compared when it is read."},
};

const stk_option_table stk__convert_packed_option_table = {
    .name = "packed",
    .doc = "Pictures that need no decoding.",
    .struct_size = sizeof(stk_convert_packed_options),
    .options = own_list,
    .count = STK_COUNT(own_list),
};

/* ---- What runs beside ------------------------------------------------------------------------ */

static bool is_canceled(const stk_conversion_job *seam)
{
    const stk_conversion_job *of = ((const stk__packed_job *)seam)->of;

    return of->canceled(of);
}

stk_status stk__packed_watch(void *packed, stk_error *err)
{
    stk__packed *p = packed;

    stk__progress(p->context, p->job->target, atomic_load(&p->passed), p->rows);
    if (p->job->canceled(p->job))
        return stk__fail(err, STK_ECANCELED, STK_STAGE_CONVERT,
                         "the conversion to %.200s was stopped; run the same again to go on",
                         p->job->target);
    return p->target ? p->target->ops->checkpoint(p->target, err) : STK_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Rows [first, first + count) of a column, of which `data` has those of the group. */
static stk_status write_column(stk__packed *p, size_t node, const void *data, stk_error *err)
{
    const stk__target_node *n = &p->nodes[node];
    const int64_t start[] = {(int64_t)p->group_first, 0};
    const int64_t shape[] = {(int64_t)p->group_rows, n->rank > 1 ? n->shape[1] : 0};
    const uint64_t number = p->group_first / p->group_most;
    int64_t strides[2];

    if (!node || p->target->ops->has_object(p->target, node, number))
        return STK_OK;
    stk__array_strides(n->rank, shape, n->itemsize, strides);
    const stk__target_box box = {
        .start = start, .shape = shape, .data = data, .strides = strides, .number = number};
    return p->target->ops->write(p->target, 0, node, &box, err);
}

static stk_status write_names(stk__packed *p, stk_error *err)
{
    if (!p->names)
        return STK_OK;
    stk_array_string *texts = stk__calloc(p->context, p->group_rows, sizeof *texts);
    if (!texts)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for names of pictures");
    for (uint64_t i = 0; i < p->group_rows; i++)
        if (p->names[i])
            texts[i] = (stk_array_string){p->names[i], strlen(p->names[i])};
    const stk_status status = write_column(p, p->at.name, texts, err);
    stk__free(p->context, texts);
    return status;
}

static stk_status write_places(stk__packed *p, stk_error *err)
{
    int64_t *values = stk__calloc(p->context, 4 * p->group_rows, sizeof *values);

    if (!values)
        return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory for sizes of pictures");
    for (uint64_t i = 0; i < p->group_rows; i++) {
        const stk__packed_side side = p->sides[p->group_first + i];
        int64_t *shape = values + p->group_rows + 3 * i;
        values[i] = (int64_t)p->offsets[p->group_first + i];
        shape[0] = side.height;
        shape[1] = side.width;
        shape[2] = p->channels;
    }
    stk_status status = write_column(p, p->at.offset, values, err);
    if (status == STK_OK)
        status = write_column(p, p->at.shape, values + p->group_rows, err);
    stk__free(p->context, values);
    return status;
}

/* A group whose last column is there is done. */
static stk_status write_columns(void *packed, uint32_t member, uint64_t task, stk_error *err)
{
    stk__packed *p = packed;

    (void)member;
    (void)task;
    STK_TRY(write_column(p, p->at.label, p->labels, err));
    STK_TRY(write_names(p, err));
    if (p->ragged)
        STK_TRY(write_places(p, err));
    return write_column(p, p->at.kept, p->kept, err);
}

static stk_status write_shard(void *packed, uint32_t member, uint64_t task, stk_error *err)
{
    stk__packed *p = packed;
    const uint64_t shard = p->first_shard + task;
    const stk__target_node *n = &p->nodes[p->at.pixels];
    int64_t start[4] = {0}, shape[4], strides[4];

    if (p->target->ops->has_object(p->target, p->at.pixels, shard))
        return STK_OK;
    memcpy(shape, n->shape, n->rank * sizeof *shape);
    start[0] = (int64_t)shard * n->object_shape[0];
    shape[0] = STK_MIN(n->object_shape[0], n->shape[0] - start[0]);
    stk__array_strides(n->rank, shape, 1, strides);
    const stk__target_box box = {.start = start,
                                 .shape = shape,
                                 .data = p->slabs[task],
                                 .strides = strides,
                                 .number = shard};
    return p->target->ops->write(p->target, member, p->at.pixels, &box, err);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static bool is_done(const stk__packed *p, uint64_t group)
{
    const size_t nodes[] = {p->at.label, p->at.name, p->at.kept, p->at.offset, p->at.shape};

    for (size_t i = 0; i < STK_COUNT(nodes); i++)
        if (nodes[i] && !p->target->ops->has_object(p->target, nodes[i], group))
            return false;
    const uint64_t end = stk__packed_shard_of(p, p->group_first + p->group_rows - 1);
    for (uint64_t shard = stk__packed_shard_of(p, p->group_first); shard <= end; shard++)
        if (!p->target->ops->has_object(p->target, p->at.pixels, shard))
            return false;
    return true;
}

static void drop_names(stk__packed *p)
{
    for (uint64_t i = 0; p->names && i < p->group_most; i++) {
        stk__free(p->context, p->names[i]);
        p->names[i] = NULL;
    }
}

/* Some shards at a time: filled by all threads, then written by one each. */
static stk_status write_shards(stk__packed *p, uint64_t first, uint64_t end, stk_error *err)
{
    for (p->first_shard = first; p->first_shard < end; p->first_shard += p->num_shards) {
        p->num_shards = STK_MIN(p->slots, end - p->first_shard);
        if (p->ragged) /* what lies between the shards' ends and their pictures */
            for (uint64_t i = 0; i < p->num_shards; i++)
                memset(p->slabs[i], 0, p->shard_bytes);
        STK_TRY(stk__packed_fill(p, err));
        STK_TRY(stk__crew_run(p->crew, 0, p->num_shards, write_shard, stk__packed_watch, p, err));
        STK_TRY(stk__packed_watch(p, err));
    }
    return STK_OK;
}

/* What a group that is done has left out counts as if it were done now. */
static stk_status count_kept(stk__packed *p, stk_error *err)
{
    const int64_t start[] = {(int64_t)p->group_first}, shape[] = {(int64_t)p->group_rows};
    const stk_array_box box = {.start = start, .shape = shape};
    uint64_t count = 0;

    if (!p->at.kept)
        return STK_OK;
    STK_TRY(p->target->ops->read(p->target, p->at.kept, &box, p->kept, p->group_rows, err));
    for (uint64_t i = 0; i < p->group_rows; i++)
        count += !p->kept[i];
    return stk__packed_left_out(p, count, NULL, err);
}

static stk_status write_group(stk__packed *p, uint64_t group, stk_error *err)
{
    p->group_first = group * p->group_most;
    p->group_rows = STK_MIN(p->group_most, p->rows - p->group_first);
    if (is_done(p, group)) {
        atomic_fetch_add(&p->passed, p->group_rows);
        p->report->resumed += p->group_rows;
        return count_kept(p, err);
    }
    memset(p->kept, 1, p->group_rows);
    STK_TRY(write_shards(p, stk__packed_shard_of(p, p->group_first),
                         stk__packed_shard_of(p, p->group_first + p->group_rows - 1) + 1, err));
    STK_TRY(stk__crew_run(p->crew, 1, 1, write_columns, stk__packed_watch, p, err));
    drop_names(p);
    p->report->verified += p->options->verify == STK_VERIFY_FULL ? p->group_rows : 0;
    return STK_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static stk_status no_memory(stk_error *err)
{
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to pack pictures");
}

/* What is held whatever is in work, and of it for each row. */
static uint64_t held(const stk__packed *p)
{
    const uint64_t group = STK_MIN(p->group_most, p->rows) * OF_ROW;

    return group + (p->ragged ? p->rows * (sizeof *p->sides + 2 * sizeof *p->offsets) : 0);
}

static stk_status take_memory(stk__packed *p, stk_error *err)
{
    const uint64_t rows = STK_MIN(p->group_most, p->rows);
    const uint64_t slot =
        p->shard_bytes + (p->target ? p->target->ops->memory(p->target, p->at.pixels) : 0);
    const uint64_t left = p->budget / 2 > held(p) ? p->budget / 2 - held(p) : 0;
    bool good = true;

    p->slots = STK_MIN(STK_MIN(left / slot, stk__crew_size(p->crew)), p->shards);
    if (!p->slots)
        return stk__fail(err, STK_EBUDGET, STK_STAGE_OPTIONS,
                         "packing shards of %" PRIu64 " bytes takes %" PRIu64
                         " bytes of memory and "
                         "convert.memory_budget is %" PRIu64 "; raise it, or set a smaller "
                         "packed.shard_size",
                         p->shard_bytes, 2 * (slot + held(p)), p->budget);
    p->report->memory = p->budget / 2 + p->slots * slot + held(p);
    p->slabs = stk__calloc(p->context, p->slots, sizeof(uint8_t *));
    p->labels = stk__calloc(p->context, rows, sizeof *p->labels);
    p->kept = stk__alloc(p->context, rows);
    if (p->at.name)
        p->names = stk__calloc(p->context, p->group_most, sizeof(char *));
    for (uint64_t i = 0; p->slabs && i < p->slots; i++)
        good = (p->slabs[i] = stk__alloc_buffer(p->context, p->shard_bytes)) && good;
    return good && p->slabs && p->labels && p->kept && (p->names || !p->at.name) ? STK_OK
                                                                                 : no_memory(err);
}

static void give_memory(stk__packed *p)
{
    stk_context *ctx = p->context;

    drop_names(p);
    for (uint64_t i = 0; p->slabs && i < p->slots; i++)
        stk__free(ctx, p->slabs[i]);
    stk__free(ctx, p->slabs);
    stk__free(ctx, p->labels);
    stk__free(ctx, p->kept);
    stk__free(ctx, p->names);
    stk__free(ctx, p->sides);
    stk__free(ctx, p->offsets);
    stk__free(ctx, p->first_rows);
    stk__free(ctx, p->attributes);
}

/* ---- The run --------------------------------------------------------------------------------- */

/* The target writes arrays that are neither compressed nor changed. */
static void set_arrays(stk__packed *p)
{
    stk_options_init(&stk__convert_arrays_option_table, &p->arrays, sizeof p->arrays);
    p->arrays.codec = STK__ARRAYS_CODEC_NONE;
    p->arrays.checksum = p->own->checksum && !p->ragged;
    p->arrays.shards = p->ragged ? NULL : "packed";
    p->writing = (stk__packed_job){.seam = *p->job, .of = p->job};
    p->writing.seam.own = &p->arrays;
    p->writing.seam.canceled = is_canceled;
}

static stk_status settle(stk__packed *p, stk_error *err)
{
    const uint32_t workers = stk__convert_workers(p->context, p->options);

    p->num_members = STK_MAX(workers, 1);
    p->budget = stk__convert_budget(p->context, p->options);
    p->files.most = p->budget / 4;
    p->room.most = p->budget / 8;
    p->room.each = p->room.most / p->num_members;
    STK_TRY(stk__option_bound(p->options->max_errors, p->skips ? NULL : "skip", p->rows,
                              p->options->checkpoint, &p->max_errors, err));
    return stk__crew_create(p->context, workers, &p->crew, err);
}

static stk_status write_all(stk__packed *p, stk_error *err)
{
    const stk__target_part part = {0};

    STK_TRY(stk__array_target_zarr.open(&p->writing.seam, p->nodes, p->num_nodes, &part,
                                        stk__crew_size(p->crew), &p->target, err));
    STK_TRY(take_memory(p, err));
    for (uint64_t group = 0; group < stk__packed_groups(p); group++)
        STK_TRY(write_group(p, group, err));
    stk__progress(p->context, p->job->target, p->rows, p->rows);
    STK_TRY(p->target->ops->finish(p->target, err));
    p->report->total = p->rows;
    p->report->encoded = p->rows;
    p->report->skipped = atomic_load(&p->left_out);
    p->report->bytes_after = p->target->ops->bytes(p->target);
    return STK_OK;
}

static stk_status convert(stk__packed *p, stk_error *err)
{
    STK_TRY(settle(p, err));
    STK_TRY(stk__packed_choose(p, err));
    STK_TRY(stk__packed_members_open(p, err));
    if (p->job->options->dry_run)
        return stk__packed_tell(p, err);
    if (p->ragged) {
        STK_TRY(stk__packed_measure(p, err));
        atomic_store(&p->passed, 0);
    }
    STK_TRY(stk__packed_lay_out(p, err));
    set_arrays(p);
    return write_all(p, err);
}

static stk_status packed_run(const stk_conversion_job *job, stk_conversion_report *report,
                             stk_error *err)
{
    const stk_field *image = stk__convert_field(job->dataset, "image");
    const stk_field *label = stk__convert_field(job->dataset, "label");
    stk__packed p = {.job = job,
                     .context = job->context,
                     .dataset = job->dataset,
                     .options = job->options,
                     .own = job->own,
                     .report = report,
                     .image = (uint32_t)(image - job->dataset->fields),
                     .label = (uint32_t)(label - job->dataset->fields),
                     .encoded = image->layout == STK_BYTES,
                     .skips = job->options->on_error == 1,
                     .rows = job->dataset->size};

    stk__share_init(&p.files, 0, "reading it", "a part", "");
    stk_status status = stk__decode_room_init(&p.room, 0, 0);
    if (status == STK_OK) {
        status = convert(&p, err);
        stk__crew_destroy(&p.crew);
        stk__packed_members_close(&p);
        if (p.target)
            p.target->ops->close(p.target);
        stk__pipeline_destroy(&p.pipeline);
        give_memory(&p);
        stk__decode_room_release(&p.room);
    }
    stk__share_release(&p.files);
    return status;
}

/* ---- The converter --------------------------------------------------------------------------- */

static bool packed_accepts(const stk_dataset *dataset, const char **why)
{
    const stk_field *image = stk__convert_field(dataset, "image");
    const stk_field *label = stk__convert_field(dataset, "label");

    *why = NULL;
    if (!image || !image->picture || image->dtype != STK_UINT8 || image->shape[2] < 1 ||
        (image->layout != STK_FIXED && strcmp(image->codec, "image") != 0))
        *why = "has no field 'image' of pictures of uint8";
    else if (stk__convert_has_masks(dataset))
        *why = "has masks, for which packed pictures have no array: an archive or an image of the "
               "folders (stoker convert DIR x.sqfs) holds both";
    else if (!label || label->dtype != STK_INT64 || label->layout != STK_FIXED || label->rank != 0)
        *why = "has no field 'label' with one int64 for each picture";
    else if (!dataset->size)
        *why = "has no samples";
    return !*why;
}

static const char *const ignores[] = {NULL};

const stk_converter_ops stk__convert_packed = {
    .struct_size = sizeof(stk_converter_ops),
    .name = "packed",
    .from = "pictures",
    .doc = "packed pictures",
    .options = &stk__convert_packed_option_table,
    .endings = "|.zarr|",
    .ignores = ignores,
    .accepts = packed_accepts,
    .run = packed_run,
    .plans = true,
};
