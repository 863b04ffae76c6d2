/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5 and NetCDF-4 as a format of arrays: a dataset -> a layout; chunks -> their places. */
#include "array/hdf5/chunks.h"
#include "array/hdf5/dataset.h"

#define PIECE_BYTES 65536u /* of an array that was never written */
#define NO_ENTRY    UINT8_MAX

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
        if (chunk->mask >> i & 1 && s->entry[i] != NO_ENTRY)
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

static stk_status open_dataset(stk_array *a, stk__hdf5 *f, const stk__hdf5_dataset *d,
                               stk_error *err)
{
    stk__text codecs = {.ctx = f->ctx};
    state *s = stk__calloc(f->ctx, 1, sizeof *s);

    if (!s)
        return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                            "no memory to open the array %.200s", f->key);
    s->ctx = f->ctx;
    s->num_filters = d->filters->count;
    stk_status status = STK_OK;
    if (d->layout.storage == STK__HDF5_CHUNKED && s->num_filters)
        status = stk__hdf5_codecs(f, d->filters, &d->type, &codecs, s->entry);
    if (status == STK_OK && d->layout.storage == STK__HDF5_CHUNKED)
        status = stk__hdf5_chunks_find(f, &d->layout, &d->space, d->shape, s->num_filters,
                                       &s->index);
    if (status == STK_OK)
        status = lay_out(a, f, d, s, codecs.bytes, err);
    stk__text_release(&codecs);
    if (status != STK_OK)
        close_state(s);
    return status;
}

static stk_status open(stk_array *a, const stk_array_opening *opening, stk_error *err)
{
    stk__hdf5_dataset d = {0};
    stk__hdf5 f;

    stk_status status = stk__hdf5_open(&f, opening->store, opening->key, err);
    if (status == STK_OK)
        status = stk__hdf5_dataset_read(&f, opening->rest, &d);
    if (status == STK_OK)
        status = open_dataset(a, &f, &d, err);
    stk__hdf5_dataset_end(&f, &d);
    stk__hdf5_close(&f);
    return status;
}

const stk_array_format_ops stk__array_hdf5 = {
    .struct_size = sizeof(stk_array_format_ops),
    .name = "hdf5",
    .doc = "HDF5 and NetCDF-4 files, one dataset of them",
    .takes_rest = true,
    .recognise = stk__hdf5_recognise,
    .open = open,
    .locate = locate,
    .close = close_state,
};
