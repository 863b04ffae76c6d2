/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5 and NetCDF-4 as a format of arrays: a dataset -> a layout; chunks -> their places. */
#include <stdio.h>

#include "array/hdf5/index_file.h"

#define PIECE_BYTES 65536u /* of an array that was never written */

typedef struct hdf5_options {
    uint32_t struct_size;
    int32_t chunk_index; /* 0 auto, 1 none */
} hdf5_options;

static const stk_option option_list[] = {
    {"chunk_index", STK_OPTION_ENUM, offsetof(hdf5_options, chunk_index), "auto", 0, 0, "auto|none",
     NULL,
     "Keep where the chunks of large datasets lie in a file beside the data, .NAME.stoker-index, "
     "so "
     "that they open at once the next time; none: neither read nor write it."},
};

static const stk_option_table hdf5_table = {
    .name = "hdf5",
    .doc = "How HDF5 and NetCDF-4 files are opened.",
    .struct_size = sizeof(hdf5_options),
    .options = option_list,
    .count = STK_COUNT(option_list),
};

/* What places chunks. */
typedef struct state {
    stk_context *ctx;
    stk__hdf5_index index;
    uint32_t num_filters;
    uint8_t entry[STK__HDF5_MAX_FILTERS]; /* of each filter in the list of codecs */
} state;

static void close_state(void *user)
{
    state *s = user;

    if (!s)
        return;
    stk__free(s->ctx, s->index.chunks);
    stk__free(s->ctx, s);
}

static stk_status locate(void *user, uint64_t number, stk_array_place *out, stk_error *err)
{
    const state *s = user;
    const stk__hdf5_chunk *chunk = stk__hdf5_index_find(&s->index, number);

    (void)err;
    if (!chunk)
        return STK_ENOENT;
    out->offset = chunk->offset;
    out->length = chunk->bytes;
    for (uint32_t i = 0; chunk->mask && i < s->num_filters; i++)
        if (chunk->mask >> i & 1 && s->entry[i] != STK__HDF5_NO_ENTRY)
            out->skipped |= UINT32_C(1) << s->entry[i];
    return STK_OK;
}

/* ---- Layouts ---- */

/* Whole trailing dimensions while they are small. */
static void choose_pieces(const stk__hdf5_dataset *d, int64_t *chunk)
{
    uint64_t bytes = d->type.size;

    for (uint32_t i = d->space.rank; i-- > 0;) {
        const uint64_t room = STK_MAX(PIECE_BYTES / bytes, 1);
        chunk[i] = (int64_t)STK_MAX(STK_MIN(room, (uint64_t)d->shape[i]), 1);
        bytes *= (uint64_t)chunk[i];
    }
}

static stk_status lay_out(stk_array *a, const stk__hdf5 *f, const stk__hdf5_dataset *d, state *s,
                          const char *codecs, stk_error *err)
{
    stk_array_layout layout = {.struct_size = sizeof layout,
                               .format = d->netcdf ? "netcdf 4" : "hdf5",
                               .type_name = d->type.code,
                               .rank = d->space.rank,
                               .shape = d->shape,
                               .dimension_names =
                                   d->names.any ? (const char *const *)d->names.name : NULL,
                               .attributes = d->attributes.bytes,
                               .state = s};
    int64_t pieces[STK_ARRAY_MAX_RANK];

    if (d->fill_defined)
        layout.fill_value = d->fill_text ? d->fill_text : d->fill;
    if (d->layout.storage == STK__HDF5_CHUNKED) {
        layout.chunk_shape = d->layout.chunk;
        layout.codecs = codecs;
    } else if (d->layout.address == STK__HDF5_NONE) {
        choose_pieces(d, pieces);
        layout.chunk_shape = pieces;
    } else {
        layout.offset = f->base + d->layout.address;
    }
    return stk_array_lay_out(a, &layout, err);
}

static stk_status open_dataset(stk_array *a, stk__hdf5 *f, const stk__hdf5_dataset *d, bool kept,
                               stk_error *err)
{
    stk__text codecs = {.ctx = f->ctx};
    state *s = stk__calloc(f->ctx, 1, sizeof *s);

    if (!s)
        return stk__hdf5_no_memory(f);
    s->ctx = f->ctx;
    s->num_filters = d->filters->count;
    stk_status status = STK_OK;
    if (d->layout.storage == STK__HDF5_CHUNKED && s->num_filters)
        status = stk__hdf5_codecs(f, d->filters, &d->type, &codecs, s->entry);
    if (status == STK_OK && d->layout.storage == STK__HDF5_CHUNKED)
        status = stk__hdf5_index_of(f, d, kept, &s->index);
    if (status == STK_OK)
        status = lay_out(a, f, d, s, codecs.bytes, err);
    stk__text_release(&codecs);
    if (status != STK_OK)
        close_state(s);
    return status;
}

/* What is of a kind that this parser does not read, libhdf5 may. */
static stk_status offer_libhdf5(stk_status status, stk_error *err)
{
    const size_t length = err ? strlen(err->text) : 0;

    if (err && status == STK_EKIND)
        snprintf(err->text + length, sizeof err->text - length,
                 "; format=%s may read it, for info, cat and convert", stk__array_libhdf5.name);
    return status;
}

static stk_status open(stk_array *a, const stk_array_opening *opening, stk_error *err)
{
    const hdf5_options *options = opening->options;
    stk__hdf5_dataset d = {0};
    stk__hdf5 f;

    stk_status status = stk__hdf5_open(&f, opening->store, opening->key, err);
    if (status == STK_OK)
        status = stk__hdf5_dataset_read(&f, opening->rest, &d);
    if (status == STK_OK)
        status = open_dataset(a, &f, &d, options->chunk_index == 0, err);
    stk__hdf5_dataset_end(&f, &d);
    stk__hdf5_close(&f);
    return offer_libhdf5(status, err);
}

/* ---- Listing ---- */

static stk_status tell(stk__hdf5 *f, const stk__hdf5_node *node, void *user)
{
    const char *slash = strrchr(node->path, '/'), *name = slash ? slash + 1 : node->path;
    stk__netcdf_marks marks = {0};

    if (node->is_array) {
        const stk_status marked = stk__netcdf_marks_read(f, node->object, &marks);
        if (marked != STK_OK && marked != STK_EKIND) /* that is told when the array is opened */
            return marked;
    }
    if (marks.bare)
        return STK_OK;
    char *path =
        stk__format(f->ctx, "%.*s%s", (int)(name - node->path), node->path, stk__netcdf_name(name));
    if (!path)
        return stk__hdf5_no_memory(f);
    const stk_status status = stk_array_listing_add(user, path, node->is_array, f->err);
    stk__free(f->ctx, path);
    return status;
}

static stk_status list_group(stk__hdf5 *f, const char *path, stk_array_listing *listing,
                             stk__text *attributes)
{
    stk__hdf5_way way;
    stk__hdf5_object o;

    STK_TRY(stk__hdf5_find(f, path, &way));
    stk_status status = stk__hdf5_object_begin(f, way.address, &o);
    if (status == STK_OK && !stk__hdf5_is_group(&o))
        status = stk__fail_at(f->err, STK_EMISMATCH, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                              "'%.200s' of %.200s is no group: open it with stk_array_open()", path,
                              f->key);
    if (status == STK_OK)
        status = stk__hdf5_attributes_json(f, &o, attributes);
    if (status == STK_OK)
        status = stk_array_listing_attributes(listing, attributes->bytes, f->err);
    stk__hdf5_object_end(f, &o);
    return status == STK_OK ? stk__hdf5_walk(f, way.address, tell, listing) : status;
}

static stk_status list(const stk_array_opening *opening, stk_array_listing *listing, stk_error *err)
{
    stk__hdf5 f;

    stk_status status = stk__hdf5_open(&f, opening->store, opening->key, err);
    stk__text attributes = {.ctx = f.ctx};
    if (status == STK_OK)
        status = list_group(&f, opening->rest, listing, &attributes);
    stk__text_release(&attributes);
    stk__hdf5_close(&f);
    return status;
}

const stk_array_format_ops stk__array_hdf5 = {
    .struct_size = sizeof(stk_array_format_ops),
    .name = "hdf5",
    .doc = "HDF5 and NetCDF-4 files, one dataset of them",
    .options = &hdf5_table,
    .takes_rest = true,
    .recognise = stk__hdf5_recognise,
    .open = open,
    .locate = locate,
    .close = close_state,
    .list = list,
};
