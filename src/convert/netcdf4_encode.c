/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks are encoded here, by all threads, and put into the file as they are: libhdf5 works for one
 * thread alone, with a slower deflate. Shuffle and zlib of Zarr of version 2 are the bytes of
 * HDF5's filters 2 and 1.
 */
#include "convert/netcdf4.h"

/* Whether the filters are those that are encoded here: numbers in chunks, without a checksum. */
static bool is_plain(const stk__target_node *n, const stk__libhdf5_variable *v)
{
    return v->is_chunked && !v->fletcher32 && n->dtype != STK_DTYPE_NONE && v->rank == n->rank;
}

stk_status stk__netcdf4_writer(stk_context *ctx, const stk__target_node *n,
                               const stk__libhdf5_variable *v, const int64_t *chunk_shape,
                               stk_array_writer **out, stk_error *err)
{
    stk_array_writer_options o;

    *out = NULL;
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
    return stk__array_writer_plan(ctx, &o, out, err);
}
