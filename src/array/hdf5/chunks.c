/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a dataset's chunks: what each kind of index in the file says, checked and sorted. */
#include "array/hdf5/chunks.h"

#include <stdlib.h>

/* A chunk that the dataset's shape cuts. */
static bool is_cut(const stk__hdf5_chunks *c, const uint64_t *at)
{
    for (uint32_t d = 0; d < c->space->rank; d++)
        if ((at[d] + 1) * (uint64_t)c->layout->chunk[d] > (uint64_t)c->space->shape[d])
            return true;
    return false;
}

static stk_status append(stk__hdf5_chunks *c, const stk__hdf5_chunk *chunk)
{
    stk__hdf5_index *index = c->index;
    stk__hdf5 *f = c->f;

    if (index->count == index->room) {
        /* What stk__grow() will have: the old and the new list are there at the same time. */
        if (3 * (index->count + 16) > f->memory / sizeof *chunk)
            return stk__fail_at(f->err, STK_ELIMIT, STK_STAGE_ARRAY, f->key, STK_NO_OFFSET,
                                "%.300s: the index of a dataset's chunks takes more than a quarter "
                                "of memory_limit; raise it, or write larger chunks",
                                f->key);
        stk__hdf5_chunk *grown =
            stk__grow(f->ctx, index->chunks, &index->room, index->count + 1, sizeof *grown);
        if (!grown)
            return stk__hdf5_no_memory(f);
        index->chunks = grown;
    }
    index->chunks[index->count++] = *chunk;
    return STK_OK;
}

stk_status stk__hdf5_chunks_add(stk__hdf5_chunks *c, const uint64_t *at, uint64_t address,
                                uint64_t bytes, uint32_t mask)
{
    stk__hdf5 *f = c->f;
    uint64_t number = 0;
    bool beyond = false;

    for (uint32_t d = 0; d < c->space->rank; d++) {
        if (at[d] >= c->most[d])
            return stk__hdf5_damaged(f, address,
                                     "a chunk lies outside the largest shape of its "
                                     "dataset");
        beyond = beyond || at[d] >= c->count[d];
        number = number * c->count[d] + at[d];
    }
    if (bytes == 0 || bytes > STK__HDF5_MOST_STORED || !stk__hdf5_inside(f, address, bytes))
        return stk__hdf5_damaged(f, address, "a chunk does not lie in the file");
    if (!c->num_filters && bytes != c->bytes)
        return stk__hdf5_damaged(f, address, "a chunk has other bytes than its shape asks for");
    if (beyond) /* the dataset was made smaller */
        return STK_OK;
    if (c->layout->edges_unfiltered && is_cut(c, at))
        mask = UINT32_MAX;
    const stk__hdf5_chunk chunk = {
        .number = number, .offset = f->base + address, .bytes = (uint32_t)bytes, .mask = mask};
    return append(c, &chunk);
}

uint64_t stk__hdf5_chunks_stored(const stk__hdf5_chunks *c, stk__hdf5_fields *at, uint64_t *bytes,
                                 uint32_t *mask)
{
    const uint64_t address = stk__hdf5_address(c->f, at);

    *bytes = c->num_filters ? stk__hdf5_field(at, c->of_size) : c->bytes;
    *mask = c->num_filters ? (uint32_t)stk__hdf5_field(at, 4) : 0;
    return address;
}

/* ---- The simple kinds ---- */

static stk_status single(stk__hdf5_chunks *c)
{
    const uint64_t at[STK_ARRAY_MAX_RANK] = {0};
    const stk__hdf5_layout *l = c->layout;

    return stk__hdf5_chunks_add(c, at, l->address, l->single_bytes ? l->single_bytes : c->bytes,
                                l->single_mask);
}

/* All chunks of the largest shape one after the other. */
static stk_status implicit(stk__hdf5_chunks *c)
{
    uint64_t at[STK_ARRAY_MAX_RANK] = {0}, total = 1, wanted = 1, all;
    const uint32_t rank = c->space->rank;

    for (uint32_t d = 0; d < rank; d++) {
        if (!stk__mul_size(total, c->most[d], &total))
            return stk__hdf5_damaged(c->f, c->layout->address, "a dataset has too many chunks");
        wanted *= STK_MIN(c->count[d], c->most[d]);
    }
    if (!stk__mul_size(total, c->bytes, &all) || !stk__hdf5_inside(c->f, c->layout->address, all))
        return stk__hdf5_damaged(c->f, c->layout->address, "chunks do not lie in the file");
    for (uint64_t i = 0; i < wanted; i++) {
        uint64_t number = 0;
        for (uint32_t d = 0; d < rank; d++)
            number = number * c->most[d] + at[d];
        STK_TRY(stk__hdf5_chunks_add(c, at, c->layout->address + number * c->bytes, c->bytes, 0));
        for (uint32_t d = rank; d-- > 0;) {
            if (++at[d] < STK_MIN(c->count[d], c->most[d]))
                break;
            at[d] = 0;
        }
    }
    return STK_OK;
}

/* ---- All of them ---- */

static int by_number(const void *a, const void *b)
{
    const stk__hdf5_chunk *x = a, *y = b;

    return (x->number > y->number) - (x->number < y->number);
}

static stk_status sort(stk__hdf5_chunks *c)
{
    stk__hdf5_index *index = c->index;
    bool sorted = true;

    for (size_t i = 1; i < index->count && sorted; i++)
        sorted = index->chunks[i - 1].number < index->chunks[i].number;
    if (sorted)
        return STK_OK;
    qsort(index->chunks, index->count, sizeof *index->chunks, by_number);
    for (size_t i = 1; i < index->count; i++)
        if (index->chunks[i - 1].number == index->chunks[i].number)
            return stk__hdf5_damaged(c->f, index->chunks[i].offset - c->f->base,
                                     "a chunk is in the index twice");
    return STK_OK;
}

static stk_status find_by_kind(stk__hdf5_chunks *c)
{
    switch (c->layout->indexing) {
    case STK__HDF5_SINGLE:
        return single(c);
    case STK__HDF5_IMPLICIT:
        return implicit(c);
    case STK__HDF5_FIXED:
        return stk__hdf5_chunks_fixed(c);
    case STK__HDF5_EXTENSIBLE:
        return stk__hdf5_chunks_extensible(c);
    case STK__HDF5_BTREE2:
        return stk__hdf5_chunks_btree2(c);
    default:
        return stk__hdf5_chunks_btree1(c);
    }
}

stk_status stk__hdf5_chunks_find(stk__hdf5 *f, const stk__hdf5_layout *layout,
                                 const stk__hdf5_space *space, const int64_t *shape,
                                 uint32_t num_filters, stk__hdf5_index *out)
{
    stk__hdf5_chunks c = {.f = f,
                          .layout = layout,
                          .space = space,
                          .num_filters = num_filters,
                          .first = UINT32_MAX,
                          .end = UINT64_MAX,
                          .index = out};
    uint64_t total = 1;

    *out = (stk__hdf5_index){0};
    if (layout->address == STK__HDF5_NONE)
        return STK_OK;
    (void)stk__shape_bytes(layout->chunk, layout->rank, layout->itemsize, &c.bytes);
    c.of_size = layout->wide ? f->of_length : STK_MIN(8, 1 + (stk__hdf5_log2(c.bytes) + 8) / 8);
    c.element = f->of_address + (num_filters ? c.of_size + 4 : 0);
    for (uint32_t d = 0; d < space->rank; d++) {
        const uint64_t chunk = (uint64_t)layout->chunk[d];
        c.count[d] = stk__divide_up((uint64_t)shape[d], chunk);
        c.most[d] =
            space->most[d] == UINT64_MAX ? UINT64_MAX : stk__divide_up(space->most[d], chunk);
        if (c.most[d] == 0)
            return STK_OK;
        if (!stk__mul_size(total, STK_MAX(c.count[d], 1), &total))
            return stk__hdf5_damaged(f, layout->address, "a dataset has too many chunks");
    }
    STK_TRY(find_by_kind(&c));
    return sort(&c);
}

const stk__hdf5_chunk *stk__hdf5_index_find(const stk__hdf5_index *index, uint64_t number)
{
    size_t low = 0, high = index->count;

    /* Where all chunks are there each is at its number. */
    if (number < index->count && index->chunks[number].number == number)
        return &index->chunks[number];
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (index->chunks[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < index->count && index->chunks[low].number == number ? &index->chunks[low] : NULL;
}
