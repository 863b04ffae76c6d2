/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks are encoded here, by all threads, and put into the file as they are: libhdf5 works for one
 * thread alone, with a slower deflate. Shuffle and zlib of Zarr of version 2 are the bytes of
 * HDF5's filters 2 and 1.
 */
#include "convert/netcdf4.h"

struct stk__netcdf4_coders {
    stk_context *ctx;
    stk_array_writer **writers; /* by variable; NULL: libhdf5 encodes it */
    size_t num_variables;
    struct {
        stk__encoder *encoder;
        size_t variable; /* whose it is */
    } * members;
    uint32_t num_members;
};

void stk__netcdf4_coders_destroy(stk__netcdf4_coders **coders)
{
    stk__netcdf4_coders *c = *coders;

    *coders = NULL;
    if (!c)
        return;
    for (uint32_t i = 0; c->members && i < c->num_members; i++)
        stk__encoder_destroy(&c->members[i].encoder);
    for (size_t i = 0; c->writers && i < c->num_variables; i++)
        stk_array_writer_abandon(&c->writers[i]);
    stk__free(c->ctx, c->members);
    stk__free(c->ctx, c->writers);
    stk__free(c->ctx, c);
}

stk_status stk__netcdf4_coders_create(stk_context *ctx, size_t num_variables, uint32_t num_members,
                                      stk__netcdf4_coders **out, stk_error *err)
{
    stk__netcdf4_coders *c = *out = stk__calloc(ctx, 1, sizeof *c);

    if (c) {
        c->ctx = ctx;
        c->num_variables = num_variables;
        c->num_members = num_members;
        c->writers = stk__calloc(ctx, STK_MAX(num_variables, 1), sizeof(stk_array_writer *));
        c->members = stk__calloc(ctx, STK_MAX(num_members, 1), sizeof *c->members);
        if (c->writers && c->members)
            return STK_OK;
    }
    stk__netcdf4_coders_destroy(out);
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to encode NetCDF-4");
}

/* Whether the filters are those that are encoded here: numbers in chunks, without a checksum. */
static bool is_plain(const stk__target_node *n, const stk__libhdf5_variable *v)
{
    return v->is_chunked && !v->fletcher32 && n->dtype != STK_DTYPE_NONE && v->rank == n->rank;
}

stk_status stk__netcdf4_coders_add(stk__netcdf4_coders *c, const stk__target_node *n,
                                   const stk__libhdf5_variable *v, const int64_t *chunk_shape,
                                   stk_error *err)
{
    stk_array_writer_options o;

    if (!is_plain(n, v))
        return STK_OK;
    stk_array_writer_options_init(&o);
    o.dtype = n->dtype;
    o.rank = n->rank;
    o.shape = n->shape;
    o.chunk_shape = chunk_shape;
    o.codec = v->level ? "zlib" : "none";
    o.level = v->level ? (int64_t)v->level : STK_AUTO;
    o.shuffle = v->shuffle ? "byte" : "none";
    o.zarr_format = 2;
    o.fill_value = n->missing_value ? n->missing_value : n->fill_value;
    return stk__array_writer_plan(c->ctx, &o, &c->writers[v->number], err);
}

bool stk__netcdf4_coders_has(const stk__netcdf4_coders *c, size_t variable)
{
    return c->writers[variable] != NULL;
}

uint64_t stk__netcdf4_coders_memory(const stk__netcdf4_coders *c, size_t variable)
{
    return stk__encoder_memory(c->writers[variable]);
}

stk_status stk__netcdf4_encode(stk__netcdf4_coders *c, uint32_t member, size_t variable,
                               const stk__target_box *box, bool verify, const void **bytes,
                               uint64_t *length, stk_error *err)
{
    stk__encoder **encoder = &c->members[member].encoder;

    if (*encoder && c->members[member].variable != variable)
        stk__encoder_destroy(encoder);
    if (!*encoder)
        STK_TRY(stk__encoder_create(c->writers[variable], encoder, err));
    c->members[member].variable = variable;
    STK_TRY(stk__encoder_run(*encoder, box->start, box->shape, box->data, box->strides, bytes,
                             length, err));
    return verify && *length
               ? stk__encoder_check(*encoder, box->start, box->shape, box->data, box->strides, err)
               : STK_OK;
}
