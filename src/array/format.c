/* SPDX-License-Identifier: Apache-2.0 */
/* Formats: the check of their tables, and what a layout says -> an array. */
#include <stdio.h>

#include "array/room.h"
#include "array/skipping.h"
#include "array/watch.h"
#include "array/zarr.h"

#include "base/options.h"
#include "base/sized.h"
#include "base/table.h"

#define MOST_OBJECTS (UINT64_C(1) << 32)

static const stk__member members[] = {
    STK__MEMBER(stk_array_format_ops, recognise),
    STK__MEMBER(stk_array_format_ops, open),
};
static const stk__given_table table = {.type = "stk_array_format_ops",
                                       .least =
                                           offsetof(stk_array_format_ops, list), /* as it began */
                                       .members = members,
                                       .num_members = STK_COUNT(members),
                                       .stage = STK_STAGE_ARRAY};

stk_status stk__array_kind_check(const void *ops, stk_error *err)
{
    const stk_array_format_ops *format = ops;

    STK_TRY(stk__table_check(&table, ops, err));
    return format->options ? stk__options_check(format->options, err) : STK_OK;
}

void stk__array_set_format(stk_array *a, const char *format)
{
    snprintf(a->format, sizeof a->format, "%s", format);
}

stk_store *stk__array_home(const stk_array *a)
{
    return a->home ? a->home->store : a->shared->store;
}

/* info.struct_size says that the array has been finished. */
stk_status stk__array_open_with(stk_array *a, const stk_array_format_ops *ops,
                                const stk_array_opening *opening, stk_error *err)
{
    stk_object_info opened;

    a->ops = ops;
    a->metadata_key = stk__strdup(a->context, opening->key);
    if (*opening->rest)
        a->rest = stk__strdup(a->context, opening->rest);
    if (!a->metadata_key || (*opening->rest && !a->rest))
        return stk__array_no_memory(a, err);
    stk__watch_before(opening->store, ops == &stk__array_zarr ? "" : opening->key, &opened);
    stk_status status = ops->open(a, opening, err);
    STK_TRY(stk__table_made(&table, ops->name, "open", status, a, err));
    if (!a->info.struct_size)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "open() of the stk_array_format_ops of '%.64s' gave STK_OK and no layout: "
                         "it has to call stk_array_lay_out()",
                         ops->name);
    return stk__watch_begin(a, &opened, err);
}

stk_status stk__array_locate(const stk_array *a, uint64_t chunk, stk_array_place *out,
                             stk_error *err)
{
    stk_error own;

    stk_error_init(&own);
    const stk_status status = a->ops->locate(a->state, chunk, out, &own);
    if (status == STK_OK || status == STK_ENOENT)
        return status;
    return stk__fail_at(
        err, status > 0 ? STK_EINVAL : status, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
        "%s: where chunk %llu lies the format '%.64s' does not say: %s", a->metadata_key,
        (unsigned long long)chunk, a->ops->name, *own.text ? own.text : stk_status_text(status));
}

/* ---- A layout ---- */

static stk_status lacks(const stk_array *a, const char *what, stk_error *err)
{
    return stk__fail_at(err, STK_EINVAL, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                        "the layout that the format '%.64s' gave of '%.200s' %s", a->ops->name,
                        a->metadata_key, what);
}

static stk_status check(const stk_array *a, const stk_array_layout *l, stk_error *err)
{
    if (!l->type_name || (l->rank && !l->shape))
        return lacks(a, "lacks type_name or shape", err);
    if (l->rank > STK_ARRAY_MAX_RANK)
        return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                            "%s: 'shape' has %u dimensions, and at most %d are read",
                            a->metadata_key, l->rank, STK_ARRAY_MAX_RANK);
    for (uint32_t d = 0; d < l->rank; d++)
        if (l->shape[d] < 0)
            return stk__fail_at(err, STK_EFORMAT, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                                "%s: dimension %u has %lld elements", a->metadata_key, d,
                                (long long)l->shape[d]);
    if (l->reads_chunks && (!a->ops->read || !l->chunk_shape))
        return lacks(a, "says reads_chunks without read() or chunk_shape", err);
    if (!l->reads_chunks && l->chunk_shape && !a->ops->locate)
        return lacks(a, "has chunks, and the format neither locate() nor reads_chunks", err);
    if (l->codecs && (l->reads_chunks || !l->chunk_shape || l->fortran))
        return lacks(a, "has codecs, which are of located chunks that are not fortran", err);
    if (l->reads_chunks && l->fortran)
        return lacks(a, "is fortran, and read() gives C order", err);
    if (l->objects ? !l->num_objects || l->num_objects > MOST_OBJECTS : !*a->metadata_key)
        return lacks(a, "names no object, and a folder was opened", err);
    for (uint64_t i = 0; l->objects && i < l->num_objects; i++)
        if (!l->objects[i])
            return lacks(a, "has an object without a key", err);
    return STK_OK;
}

static stk_status take_objects(stk_array *a, const stk_array_layout *l, stk_error *err)
{
    a->num_objects = l->objects ? l->num_objects : 1;
    a->object_key = stk__strdup(a->context, l->objects ? l->objects[0] : a->metadata_key);
    if (!a->object_key)
        return stk__array_no_memory(a, err);
    if (!l->objects || l->num_objects == 1)
        return STK_OK;
    a->objects = stk__calloc(a->context, l->num_objects, sizeof *a->objects);
    for (uint64_t i = 0; a->objects && i < l->num_objects; i++)
        if (!(a->objects[i] = stk__strdup(a->context, l->objects[i])))
            return stk__array_no_memory(a, err);
    return a->objects ? STK_OK : stk__array_no_memory(a, err);
}

static stk_status take_texts(stk_array *a, const stk_array_layout *l, stk_error *err)
{
    stk__json attributes = {0};

    for (uint32_t d = 0; l->dimension_names && d < a->rank; d++)
        if (l->dimension_names[d])
            STK_TRY(stk__array_name(a, d, l->dimension_names[d], err));
    if (!l->attributes)
        return STK_OK;
    STK_TRY(stk__json_parse(a->context, l->attributes, strlen(l->attributes), a->metadata_key,
                            &attributes, err));
    const stk_status status = stk__zarr_attributes(a, attributes.value, a->metadata_key, err);
    stk__json_drop(a->context, &attributes);
    return status;
}

stk_status stk__array_plain_chain(stk_array *a, bool fortran, stk_error *err)
{
    uint32_t axes[STK_ARRAY_MAX_RANK];
    stk__chain_spec spec;

    for (uint32_t i = 0; i < a->rank; i++)
        axes[i] = fortran ? a->rank - 1 - i : i;
    stk__chain_spec_init(&spec);
    spec.big_endian = a->type.big_endian;
    return stk__zarr_chain(a, axes, spec, a->metadata_key, err);
}

static stk_status coded_chain(stk_array *a, const char *codecs, stk_error *err)
{
    stk__json list = {0};

    a->type.big_endian = false; /* the codecs say the order of bytes */
    STK_TRY(stk__json_parse(a->context, codecs, strlen(codecs), a->metadata_key, &list, err));
    stk_status status = stk__zarr_codecs(a, list.value, a->metadata_key, err);
    stk__json_drop(a->context, &list);
    if (status == STK_OK && a->num_levels > 1)
        status = stk__fail_at(err, STK_EKIND, STK_STAGE_ARRAY, a->metadata_key, STK_NO_OFFSET,
                              "%s: the codec 'sharding_indexed' is not read among chunks that a "
                              "format locates",
                              a->metadata_key);
    return status == STK_OK ? stk__skipping_create(a, codecs, &a->skipping, err) : status;
}

static stk_status lay_chunks(stk_array *a, const stk_array_layout *l, stk_error *err)
{
    if (a->rank)
        memcpy(a->levels[0].shape, l->chunk_shape, a->rank * sizeof *l->chunk_shape);
    a->num_levels = 1;
    STK_TRY(stk__level_init(a, &a->levels[0], a->metadata_key, err));
    STK_TRY(l->codecs ? coded_chain(a, l->codecs, err)
                      : stk__array_plain_chain(a, l->fortran, err));
    a->manifest = STK__MANIFEST_PLACES;
    a->as_is = !l->codecs && !l->reads_chunks;
    return l->reads_chunks ? stk__array_read_by_format(a, err) : STK_OK;
}

/* The elements of one run lie within its object. */
static stk_status lay_run(stk_array *a, const stk_array_layout *l, stk_error *err)
{
    stk_object_info info = {.struct_size = sizeof info};
    uint64_t end;

    STK_TRY(stk_store_stat(a->shared->store, a->object_key, NULL, &info, err));
    a->object_size = info.size;
    if (!stk__shape_bytes(a->shape, a->rank, a->type.itemsize, &end) ||
        !stk__add_size(end, l->offset, &end) || end > info.size)
        return stk__fail_at(err, STK_ETRUNCATED, STK_STAGE_ARRAY, a->object_key, l->offset,
                            "%s has %llu bytes, less than the elements from byte %llu on",
                            a->object_key, (unsigned long long)info.size,
                            (unsigned long long)l->offset);
    return stk__array_one_object(a, l->offset, l->fortran, err);
}

stk_status stk_array_lay_out(stk_array *array, const stk_array_layout *layout, stk_error *err)
{
    stk_array_layout l = {.struct_size = sizeof l};
    stk_array *a = array;

    if (!a || !layout)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_lay_out: an argument is NULL");
    STK_TRY(stk__context_check(a->context, err));
    if (a->info.struct_size || !a->metadata_key)
        return stk__fail(err, STK_EINVAL, STK_STAGE_ARRAY,
                         "stk_array_lay_out: it is called once, by open() of a format");
    STK_TRY(stk__sized_read(&l, sizeof l, layout, "stk_array_layout", STK_STAGE_ARRAY, err));
    STK_TRY(check(a, &l, err));
    stk__array_set_format(a, l.format ? l.format : a->ops->name);
    a->rank = l.rank;
    if (l.rank)
        memcpy(a->shape, l.shape, l.rank * sizeof *l.shape);
    a->state = l.state; /* for read(); taken back below */
    stk_status status = stk__type_numpy(l.type_name, a->metadata_key, &a->type, err);
    if (status == STK_OK)
        status = take_objects(a, &l, err);
    if (status == STK_OK)
        status = stk__zarr_fill(a, NULL, 3, a->metadata_key, err);
    if (status == STK_OK && l.fill_value) {
        memcpy(a->fill, l.fill_value, a->type.itemsize);
        a->fill_defined = true;
    }
    if (status == STK_OK)
        status = take_texts(a, &l, err);
    if (status == STK_OK)
        status = l.chunk_shape || l.reads_chunks ? lay_chunks(a, &l, err) : lay_run(a, &l, err);
    if (status == STK_OK)
        status = stk__array_finish(a, err);
    if (status != STK_OK)
        a->state = NULL; /* stays the format's */
    a->owns_state = status == STK_OK;
    return status;
}
