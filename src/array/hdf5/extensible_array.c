/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks in an extensible array [HDF5 format VII.D]: first some elements in the index block, then
 * data blocks that double in number and in size from super block to super block.
 */
#include "array/hdf5/chunks.h"

#define MOST_BITS 63u

typedef struct extensible {
    stk__hdf5_chunks *c;
    const stk__hdf5_layout *l;
    uint64_t index; /* the index block */
    uint64_t head;  /* bytes in front of a block's contents */
} extensible;

static stk_status damaged(const extensible *a, uint64_t address)
{
    return stk__hdf5_damaged(a->c->f, address, "an extensible array does not fit its dataset");
}

static bool is_sound(const stk__hdf5_layout *l)
{
    return l->max_bits <= MOST_BITS && l->max_bits > 0 && stk__hdf5_is_power(l->min_elements) &&
           stk__hdf5_is_power(l->min_pointers) && l->min_pointers > 1 &&
           l->page_bits <= STK__HDF5_MOST_PAGE_BITS &&
           stk__hdf5_log2(l->min_elements) + 2 * stk__hdf5_log2(l->min_pointers) <= l->max_bits;
}

/* The header says again what the layout does. */
static stk_status read_header(extensible *a)
{
    stk__hdf5_chunks *c = a->c;
    stk__hdf5 *f = c->f;
    const stk__hdf5_layout *l = c->layout;
    const uint64_t length = 16 + 6 * (uint64_t)f->of_length + f->of_address;
    const uint8_t again[] = {c->num_filters > 0, (uint8_t)c->element, l->max_bits,
                             l->index_elements,  l->min_elements,     l->min_pointers,
                             l->page_bits};
    uint8_t data[80];

    STK_TRY(stk__hdf5_read(f, l->address, length, data));
    STK_TRY(stk__hdf5_whole(f, l->address, data, length, "EAHD", 0));
    stk__hdf5_fields at = stk__hdf5_fields_of(data + 5, length - 5);
    const uint8_t *told = stk__hdf5_skip(&at, sizeof again);
    stk__hdf5_skip(&at, 4u * f->of_length);
    c->end = stk__hdf5_length(f, &at); /* one more than the last that was set */
    stk__hdf5_length(f, &at);
    a->index = stk__hdf5_address(f, &at);
    return memcmp(told, again, sizeof again) == 0 && is_sound(l) ? STK_OK : damaged(a, l->address);
}

/* Which pages of a data block were written: bits of its super block, from `bit` on. */
typedef struct page_set {
    const uint8_t *bitmap;
    uint64_t bit;
} page_set;

static stk_status take_block(const extensible *a, uint64_t address, uint64_t first, uint64_t count,
                             page_set set)
{
    stk__hdf5 *f = a->c->f;
    const uint64_t page = UINT64_C(1) << a->l->page_bits, offset = (a->l->max_bits + 7) / 8;
    const bool paged = count > page;
    const uint64_t head = a->head + offset;
    uint64_t length = 0;
    uint8_t *data = NULL;

    if (address == STK__HDF5_NONE || first >= a->c->end)
        return STK_OK;
    if (!stk__mul_size(count, a->c->element, &length) || length > f->end)
        return damaged(a, address);
    length = head + (paged ? 0 : length) + 4;
    STK_TRY(stk__hdf5_chunks_block(a->c, address, length, "EADB", &data));
    stk_status status = paged ? STK_OK : stk__hdf5_chunks_elements(a->c, data + head, first, count);
    stk__hdf5_give(f, data, length);
    for (uint64_t p = 0; paged && status == STK_OK && p < count / page; p++) {
        const uint64_t bit = set.bit + p;
        if (set.bitmap && set.bitmap[bit / 8] >> (7 - bit % 8) & 1)
            status = stk__hdf5_chunks_page(a->c, address + length + p * (page * a->c->element + 4),
                                           first + p * page, page);
    }
    return status;
}

/* Of super block u: data blocks, elements in each, and the first element. */
static uint64_t blocks_of(uint32_t u)
{
    return UINT64_C(1) << u / 2;
}

static uint64_t elements_of(const extensible *a, uint32_t u)
{
    return ((uint64_t)a->l->min_elements) << (u + 1) / 2;
}

static uint64_t first_of(const extensible *a, uint32_t u)
{
    return a->l->index_elements + ((UINT64_C(1) << u) - 1) * a->l->min_elements;
}

static stk_status take_super(const extensible *a, uint64_t address, uint32_t u)
{
    stk__hdf5 *f = a->c->f;
    const uint64_t blocks = blocks_of(u), count = elements_of(a, u);
    const uint64_t page = UINT64_C(1) << a->l->page_bits,
                   of_block = count > page ? count / page : 0;
    const uint64_t head = a->head + (a->l->max_bits + 7) / 8;
    uint64_t bitmap, length;
    uint8_t *data = NULL;

    if (address == STK__HDF5_NONE || first_of(a, u) >= a->c->end)
        return STK_OK;
    if (!stk__mul_size(blocks, (of_block + 7) / 8, &bitmap) ||
        !stk__mul_size(blocks, f->of_address, &length) || !stk__add_size(length, bitmap, &length) ||
        length > f->end)
        return damaged(a, address);
    length += head + 4;
    STK_TRY(stk__hdf5_chunks_block(a->c, address, length, "EASB", &data));
    stk__hdf5_fields at = stk__hdf5_fields_of(data + head + bitmap, blocks * f->of_address);
    stk_status status = STK_OK;
    for (uint64_t b = 0; status == STK_OK && b < blocks; b++)
        status = take_block(a, stk__hdf5_address(f, &at), first_of(a, u) + b * count, count,
                            (page_set){data + head, b * of_block});
    stk__hdf5_give(f, data, length);
    return status;
}

static stk_status take_index(const extensible *a)
{
    stk__hdf5 *f = a->c->f;
    const uint32_t supers = 1 + a->l->max_bits - stk__hdf5_log2(a->l->min_elements);
    const uint32_t direct = 2 * stk__hdf5_log2(a->l->min_pointers);
    const uint64_t blocks = 2 * ((uint64_t)a->l->min_pointers - 1);
    const uint64_t elements = (uint64_t)a->l->index_elements * a->c->element;
    const uint64_t length = a->head + elements + (blocks + supers - direct) * f->of_address + 4;
    uint8_t *data = NULL;

    STK_TRY(stk__hdf5_chunks_block(a->c, a->index, length, "EAIB", &data));
    stk_status status = stk__hdf5_chunks_elements(a->c, data + a->head, 0, a->l->index_elements);
    stk__hdf5_fields at =
        stk__hdf5_fields_of(data + a->head + elements, length - 4 - a->head - elements);
    for (uint32_t u = 0; status == STK_OK && u < supers && first_of(a, u) < a->c->end; u++) {
        for (uint64_t b = 0; u < direct && status == STK_OK && b < blocks_of(u); b++)
            status =
                take_block(a, stk__hdf5_address(f, &at), first_of(a, u) + b * elements_of(a, u),
                           elements_of(a, u), (page_set){NULL, 0});
        if (u >= direct)
            status = take_super(a, stk__hdf5_address(f, &at), u);
    }
    stk__hdf5_give(f, data, length);
    return status;
}

stk_status stk__hdf5_chunks_extensible(stk__hdf5_chunks *c)
{
    extensible a = {.c = c, .l = c->layout, .head = 6 + (uint64_t)c->f->of_address};

    for (uint32_t d = 0; d < c->space->rank; d++) {
        if (c->most[d] != UINT64_MAX)
            continue;
        if (c->first != UINT32_MAX)
            return damaged(&a, c->layout->address);
        c->first = d;
    }
    if (c->first == UINT32_MAX)
        return damaged(&a, c->layout->address);
    STK_TRY(read_header(&a));
    return a.index == STK__HDF5_NONE || c->end == 0 ? STK_OK : take_index(&a);
}
