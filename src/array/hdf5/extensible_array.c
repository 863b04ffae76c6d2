/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks in an extensible array [HDF5 format VII.D]: first some elements in the index block, then
 * data blocks that double in number and in size from super block to super block.
 */
#include "array/hdf5/chunks.h"

#define MOST_BITS      63u
#define MOST_PAGE_BITS 30u
#define WORK_SHARE     256u /* elements that count as one step of work */

typedef struct extensible {
    stk__hdf5_chunks *c;
    uint32_t element, max_bits, index_elements, min_elements, min_pointers, page_bits;
    uint32_t first;      /* the unlimited dimension, which an element's number has in front */
    uint64_t index, end; /* the index block; elements that may have been set */
    uint64_t head;       /* bytes in front of a block's contents */
} extensible;

static stk_status damaged(const extensible *a, uint64_t address)
{
    return stk__hdf5_damaged(a->c->f, address, "an extensible array does not fit its dataset");
}

static bool is_power(uint64_t x)
{
    return x && !(x & (x - 1));
}

static bool is_sound(const extensible *a, bool filtered)
{
    const stk__hdf5_layout *l = a->c->layout;

    return filtered == (a->c->num_filters > 0) && a->max_bits <= MOST_BITS && a->max_bits > 0 &&
           a->max_bits == l->max_bits && a->index_elements == l->index_elements &&
           a->min_elements == l->min_elements && a->min_pointers == l->min_pointers &&
           a->page_bits == l->page_bits && is_power(a->min_elements) && is_power(a->min_pointers) &&
           a->min_pointers > 1 && a->page_bits <= MOST_PAGE_BITS &&
           stk__hdf5_log2(a->min_elements) + 2 * stk__hdf5_log2(a->min_pointers) <= a->max_bits &&
           a->element == a->c->f->of_address + (filtered ? a->c->of_size + 4 : 0);
}

static stk_status read_header(extensible *a)
{
    stk__hdf5 *f = a->c->f;
    const uint64_t address = a->c->layout->address;
    const uint64_t length = 16 + 6 * (uint64_t)f->of_length + f->of_address;
    uint8_t data[80];

    STK_TRY(stk__hdf5_read(f, address, length, data));
    STK_TRY(stk__hdf5_whole(f, address, data, length, "EAHD", 0));
    stk__hdf5_fields at = stk__hdf5_fields_of(data, length);
    stk__hdf5_skip(&at, 5);
    const bool filtered = stk__hdf5_field(&at, 1) == 1;
    a->element = (uint32_t)stk__hdf5_field(&at, 1);
    a->max_bits = (uint32_t)stk__hdf5_field(&at, 1);
    a->index_elements = (uint32_t)stk__hdf5_field(&at, 1);
    a->min_elements = (uint32_t)stk__hdf5_field(&at, 1);
    a->min_pointers = (uint32_t)stk__hdf5_field(&at, 1);
    a->page_bits = (uint32_t)stk__hdf5_field(&at, 1);
    stk__hdf5_skip(&at, 4u * f->of_length);
    a->end = stk__hdf5_length(f, &at); /* one more than the last that was set */
    stk__hdf5_length(f, &at);
    a->index = stk__hdf5_address(f, &at);
    return is_sound(a, filtered) ? STK_OK : damaged(a, address);
}

static stk_status take_elements(const extensible *a, const uint8_t *data, uint64_t first,
                                uint64_t count)
{
    for (uint64_t i = 0; i < count && first + i < a->end; i++) {
        if (i % WORK_SHARE == 0)
            STK_TRY(stk__hdf5_step(a->c->f));
        STK_TRY(
            stk__hdf5_chunks_element(a->c, first + i, a->first, data + i * a->element, a->element));
    }
    return STK_OK;
}

/* A page of a data block: elements and their checksum. */
static stk_status take_page(const extensible *a, uint64_t address, uint64_t first, uint64_t count)
{
    stk__hdf5 *f = a->c->f;
    const uint64_t bytes = count * a->element;
    uint8_t *data = NULL;

    STK_TRY(stk__hdf5_load(f, address, bytes + 4, &data));
    const stk_status status =
        stk__hdf5_checksum(data, bytes) == stk__little_endian(data + bytes, 4)
            ? take_elements(a, data, first, count)
            : stk__hdf5_damaged(f, address,
                                "the checksum of a page of an extensible array does "
                                "not match");
    stk__hdf5_give(f, data, bytes + 4);
    return status;
}

/* Read a block of `length` bytes that begins with signature, client, and the header's address. */
static stk_status load_block(const extensible *a, uint64_t address, uint64_t length,
                             const char *signature, uint8_t **data)
{
    stk__hdf5 *f = a->c->f;

    STK_TRY(stk__hdf5_step(f));
    STK_TRY(stk__hdf5_load(f, address, length, data));
    stk_status status = stk__hdf5_whole(f, address, *data, length, signature, 0);
    stk__hdf5_fields at = stk__hdf5_fields_of(*data + 6, f->of_address);
    if (status == STK_OK && stk__hdf5_address(f, &at) != a->c->layout->address)
        status = damaged(a, address);
    if (status != STK_OK) {
        stk__hdf5_give(f, *data, length);
        *data = NULL;
    }
    return status;
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
    const uint64_t page = UINT64_C(1) << a->page_bits, offset = (a->max_bits + 7) / 8;
    const bool paged = count > page;
    const uint64_t head = a->head + offset;
    uint64_t length = 0;
    uint8_t *data = NULL;

    if (address == STK__HDF5_NONE || first >= a->end)
        return STK_OK;
    if (!stk__mul_size(count, a->element, &length) || length > f->end)
        return damaged(a, address);
    length = head + (paged ? 0 : length) + 4;
    STK_TRY(load_block(a, address, length, "EADB", &data));
    stk_status status = paged ? STK_OK : take_elements(a, data + head, first, count);
    stk__hdf5_give(f, data, length);
    for (uint64_t p = 0; paged && status == STK_OK && p < count / page; p++) {
        const uint64_t bit = set.bit + p;
        if (set.bitmap && set.bitmap[bit / 8] >> (7 - bit % 8) & 1)
            status = take_page(a, address + length + p * (page * a->element + 4), first + p * page,
                               page);
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
    return ((uint64_t)a->min_elements) << (u + 1) / 2;
}

static uint64_t first_of(const extensible *a, uint32_t u)
{
    return a->index_elements + ((UINT64_C(1) << u) - 1) * a->min_elements;
}

static stk_status take_super(const extensible *a, uint64_t address, uint32_t u)
{
    stk__hdf5 *f = a->c->f;
    const uint64_t blocks = blocks_of(u), count = elements_of(a, u);
    const uint64_t page = UINT64_C(1) << a->page_bits, of_block = count > page ? count / page : 0;
    const uint64_t head = a->head + (a->max_bits + 7) / 8;
    uint64_t bitmap, length;
    uint8_t *data = NULL;

    if (address == STK__HDF5_NONE || first_of(a, u) >= a->end)
        return STK_OK;
    if (!stk__mul_size(blocks, (of_block + 7) / 8, &bitmap) ||
        !stk__mul_size(blocks, f->of_address, &length) || !stk__add_size(length, bitmap, &length) ||
        length > f->end)
        return damaged(a, address);
    length += head + 4;
    STK_TRY(load_block(a, address, length, "EASB", &data));
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
    const uint32_t supers = 1 + a->max_bits - stk__hdf5_log2(a->min_elements);
    const uint32_t direct = 2 * stk__hdf5_log2(a->min_pointers);
    const uint64_t blocks = 2 * ((uint64_t)a->min_pointers - 1);
    const uint64_t elements = (uint64_t)a->index_elements * a->element;
    const uint64_t length = a->head + elements + (blocks + supers - direct) * f->of_address + 4;
    uint8_t *data = NULL;

    STK_TRY(load_block(a, a->index, length, "EAIB", &data));
    stk_status status = take_elements(a, data + a->head, 0, a->index_elements);
    stk__hdf5_fields at =
        stk__hdf5_fields_of(data + a->head + elements, length - 4 - a->head - elements);
    for (uint32_t u = 0; status == STK_OK && u < supers && first_of(a, u) < a->end; u++) {
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
    extensible a = {.c = c, .head = 6 + (uint64_t)c->f->of_address, .first = UINT32_MAX};

    for (uint32_t d = 0; d < c->space->rank; d++) {
        if (c->most[d] != UINT64_MAX)
            continue;
        if (a.first != UINT32_MAX)
            return damaged(&a, c->layout->address);
        a.first = d;
    }
    if (a.first == UINT32_MAX)
        return damaged(&a, c->layout->address);
    STK_TRY(read_header(&a));
    return a.index == STK__HDF5_NONE || a.end == 0 ? STK_OK : take_index(&a);
}
