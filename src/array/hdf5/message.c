/* SPDX-License-Identifier: Apache-2.0 */
/* What messages of datasets say: dataspace, layout, fill value [HDF5 format IV.A.2]. */
#include "array/hdf5/object.h"

#define UNLIMITED        UINT64_MAX
#define LEAST_HUGE_CHUNK (UINT64_C(1) << 32) /* bytes that layouts before 5 do not hold */

/* ---- Dataspace ---- */

enum { HAS_MOST = 1, PERMUTED = 2, SPACE_NULL = 2 };

stk_status stk__hdf5_space_read(const stk__hdf5 *f, const stk__hdf5_message *m,
                                stk__hdf5_space *out)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);

    *out = (stk__hdf5_space){0};
    const uint64_t version = stk__hdf5_field(&at, 1), rank = stk__hdf5_field(&at, 1);
    const uint64_t flags = stk__hdf5_field(&at, 1);
    uint64_t kind = 1;
    if (version == 1)
        stk__hdf5_skip(&at, 5);
    else
        kind = stk__hdf5_field(&at, 1);
    if (version < 1 || version > 2 || kind > SPACE_NULL)
        return stk__hdf5_damaged(f, m->address, "a dataspace is of no known version");
    if (version == 1 && flags & PERMUTED)
        return stk__hdf5_refuse(f, m->address, "permuted dimensions are not read");
    if (rank > STK_ARRAY_MAX_RANK)
        return stk__hdf5_damaged(f, m->address, "a dataspace has more than 32 dimensions");
    out->null = kind == SPACE_NULL;
    out->rank = (uint32_t)rank;
    for (uint32_t d = 0; d < out->rank; d++) {
        const uint64_t size = stk__hdf5_length(f, &at);
        if (size > INT64_MAX)
            return stk__hdf5_damaged(f, m->address, "a dimension is negative or too large");
        out->shape[d] = (int64_t)size;
        out->most[d] = size;
    }
    const uint64_t undefined = UINT64_MAX >> (64 - 8 * f->of_length);
    for (uint32_t d = 0; flags & HAS_MOST && d < out->rank; d++) {
        const uint64_t most = stk__hdf5_length(f, &at);
        out->most[d] = most == undefined ? UNLIMITED : most;
        if (out->most[d] < (uint64_t)out->shape[d])
            return stk__hdf5_damaged(f, m->address, "a dimension is larger than its maximum");
    }
    return at.failed ? stk__hdf5_damaged(f, m->address, "a dataspace is cut off") : STK_OK;
}

bool stk__hdf5_space_count(const stk__hdf5_space *space, uint64_t *out)
{
    *out = 0;
    return space->null || stk__shape_bytes(space->shape, space->rank, 1, out);
}

/* ---- Layout ---- */

enum { EDGES_UNFILTERED = 1, SINGLE_FILTERED = 2, VIRTUAL = 3 };

static stk_status layout_cut(const stk__hdf5 *f, const stk__hdf5_message *m)
{
    return stk__hdf5_damaged(f, m->address, "a data layout is cut off");
}

/* The dimensions of a chunk, the last of which is the size of an element. */
static stk_status take_chunk(const stk__hdf5 *f, const stk__hdf5_message *m, stk__hdf5_fields *at,
                             uint64_t n, unsigned width, const stk__hdf5_space *space,
                             stk__hdf5_layout *out)
{
    uint64_t bytes;

    if (n != (uint64_t)space->rank + 1 || space->rank == 0)
        return stk__hdf5_damaged(f, m->address,
                                 "chunks have another number of dimensions than the dataset");
    out->rank = space->rank;
    for (uint32_t d = 0; d < out->rank; d++) {
        const uint64_t size = stk__hdf5_field(at, width);
        if (size < 1 || size > INT64_MAX)
            return at->failed ? layout_cut(f, m)
                              : stk__hdf5_damaged(f, m->address, "chunks have no elements");
        out->chunk[d] = (int64_t)size;
    }
    const uint64_t itemsize = stk__hdf5_field(at, width);
    if (at->failed)
        return layout_cut(f, m);
    if (itemsize < 1 || itemsize > UINT32_MAX ||
        !stk__shape_bytes(out->chunk, out->rank, itemsize, &bytes) ||
        (bytes >= LEAST_HUGE_CHUNK && !out->wide))
        return stk__hdf5_damaged(f, m->address, "chunks are larger than any are");
    out->itemsize = (uint32_t)itemsize;
    return STK_OK;
}

/* Versions 1 and 2. */
static stk_status layout_old(const stk__hdf5 *f, const stk__hdf5_message *m, stk__hdf5_fields *at,
                             const stk__hdf5_space *space, stk__hdf5_layout *out)
{
    const uint64_t n = stk__hdf5_field(at, 1);

    out->storage = (stk__hdf5_storage)stk__hdf5_field(at, 1);
    stk__hdf5_skip(at, 5);
    if (out->storage != STK__HDF5_COMPACT)
        out->address = stk__hdf5_address(f, at);
    if (out->storage == STK__HDF5_CHUNKED) {
        out->indexing = STK__HDF5_BTREE1;
        return take_chunk(f, m, at, n, 4, space, out);
    }
    stk__hdf5_skip(at, 4 * n);
    if (out->storage == STK__HDF5_COMPACT) {
        out->bytes = stk__hdf5_field(at, 4);
        out->address = m->address + (uint64_t)(at->at - m->data);
        stk__hdf5_skip(at, out->bytes);
    } else {
        out->bytes = UINT64_MAX; /* it is not said */
    }
    return at->failed ? layout_cut(f, m) : STK_OK;
}

/* The parameters of an index of layouts 4 and 5. */
static stk_status take_indexing(const stk__hdf5 *f, const stk__hdf5_message *m,
                                stk__hdf5_fields *at, uint64_t flags, stk__hdf5_layout *out)
{
    out->indexing = (stk__hdf5_indexing)stk__hdf5_field(at, 1);
    switch (out->indexing) {
    case STK__HDF5_SINGLE:
        if (flags & SINGLE_FILTERED) {
            out->single_bytes = stk__hdf5_length(f, at);
            out->single_mask = (uint32_t)stk__hdf5_field(at, 4);
        }
        break;
    case STK__HDF5_IMPLICIT:
        break;
    case STK__HDF5_FIXED:
        out->page_bits = (uint8_t)stk__hdf5_field(at, 1);
        break;
    case STK__HDF5_EXTENSIBLE:
        out->max_bits = (uint8_t)stk__hdf5_field(at, 1);
        out->index_elements = (uint8_t)stk__hdf5_field(at, 1);
        out->min_pointers = (uint8_t)stk__hdf5_field(at, 1);
        out->min_elements = (uint8_t)stk__hdf5_field(at, 1);
        out->page_bits = (uint8_t)stk__hdf5_field(at, 1);
        break;
    case STK__HDF5_BTREE2:
        out->node_bytes = (uint32_t)stk__hdf5_field(at, 4);
        stk__hdf5_skip(at, 2);
        break;
    default:
        return stk__hdf5_refuse(f, m->address, "an index of chunks of this kind is not read");
    }
    out->address = stk__hdf5_address(f, at);
    return at->failed ? layout_cut(f, m) : STK_OK;
}

/* Versions 3 to 5. */
static stk_status layout_new(const stk__hdf5 *f, const stk__hdf5_message *m, stk__hdf5_fields *at,
                             uint64_t version, const stk__hdf5_space *space, stk__hdf5_layout *out)
{
    const uint64_t storage = stk__hdf5_field(at, 1);

    if (storage == VIRTUAL)
        return stk__hdf5_refuse(f, m->address,
                                "a virtual dataset, which reads other datasets, is "
                                "not read");
    out->storage = (stk__hdf5_storage)storage;
    out->wide = version == 5;
    if (storage == STK__HDF5_COMPACT) {
        out->bytes = stk__hdf5_field(at, 2);
        out->address = m->address + (uint64_t)(at->at - m->data);
        stk__hdf5_skip(at, out->bytes);
    } else if (storage == STK__HDF5_CONTIGUOUS) {
        out->address = stk__hdf5_address(f, at);
        out->bytes = stk__hdf5_length(f, at);
    } else if (version == 3) {
        const uint64_t n = stk__hdf5_field(at, 1);
        out->address = stk__hdf5_address(f, at);
        out->indexing = STK__HDF5_BTREE1;
        return take_chunk(f, m, at, n, 4, space, out);
    } else {
        const uint64_t flags = stk__hdf5_field(at, 1), n = stk__hdf5_field(at, 1);
        const uint64_t width = stk__hdf5_field(at, 1);
        if (width < 1 || width > 8)
            return stk__hdf5_damaged(f, m->address, "sizes of chunks are not of 1 to 8 bytes");
        STK_TRY(take_chunk(f, m, at, n, (unsigned)width, space, out));
        out->edges_unfiltered = (flags & EDGES_UNFILTERED) != 0;
        return take_indexing(f, m, at, flags, out);
    }
    return at->failed ? layout_cut(f, m) : STK_OK;
}

stk_status stk__hdf5_layout_read(const stk__hdf5 *f, const stk__hdf5_message *m,
                                 const stk__hdf5_space *space, stk__hdf5_layout *out)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);
    const uint64_t version = stk__hdf5_field(&at, 1);

    *out = (stk__hdf5_layout){0};
    if (version < 1 || version > 5)
        return stk__hdf5_refuse(f, m->address, "a data layout of this version is not read");
    if (version < 3)
        STK_TRY(layout_old(f, m, &at, space, out));
    else
        STK_TRY(layout_new(f, m, &at, version, space, out));
    return out->storage <= STK__HDF5_CHUNKED
               ? STK_OK
               : stk__hdf5_refuse(f, m->address, "a data layout of this class is not read");
}

/* ---- Fill value ---- */

enum { FILL_FOLLOWS = 0x20 }; /* flags of version 3 */

static stk_status fill_bytes(const stk__hdf5 *f, const stk__hdf5_message *m, stk__hdf5_fields *at,
                             uint32_t size, uint8_t *out, bool *defined)
{
    const uint64_t bytes = stk__hdf5_field(at, 4);
    const uint8_t *value = stk__hdf5_skip(at, bytes == UINT32_MAX ? 0 : bytes);

    *defined = false;
    if (at->failed)
        return stk__hdf5_damaged(f, m->address, "a fill value is cut off");
    if (bytes == 0 || bytes == UINT32_MAX) /* -1: none is defined */
        return STK_OK;
    if (bytes != size)
        return stk__hdf5_damaged(f, m->address, "a fill value is of another size than elements");
    memcpy(out, value, size);
    *defined = true;
    return STK_OK;
}

stk_status stk__hdf5_fill_read(stk__hdf5 *f, stk__hdf5_object *o, uint32_t size, uint8_t *out,
                               bool *defined)
{
    const stk__hdf5_message *m;

    *defined = false;
    STK_TRY(stk__hdf5_message_find(f, o, STK__HDF5_FILL, &m));
    if (m) {
        stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);
        const uint64_t version = stk__hdf5_field(&at, 1);
        if (version < 1 || version > 3)
            return stk__hdf5_damaged(f, m->address, "a fill value is of no known version");
        if (version == 3) {
            const uint64_t flags = stk__hdf5_field(&at, 1);
            return flags & FILL_FOLLOWS ? fill_bytes(f, m, &at, size, out, defined) : STK_OK;
        }
        stk__hdf5_skip(&at, 2);
        const bool follows = stk__hdf5_field(&at, 1) != 0;
        return follows || version == 1 ? fill_bytes(f, m, &at, size, out, defined) : STK_OK;
    }
    STK_TRY(stk__hdf5_message_find(f, o, STK__HDF5_OLD_FILL, &m));
    if (!m)
        return STK_OK;
    stk__hdf5_fields at = stk__hdf5_fields_of(m->data, m->size);
    return fill_bytes(f, m, &at, size, out, defined);
}
