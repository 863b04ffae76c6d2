/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks in a fixed array [HDF5 format VII.C]: one element for each of the largest shape. */
#include "array/hdf5/chunks.h"

typedef struct fixed {
    stk__hdf5_chunks *c;
    uint32_t page_bits;
    uint64_t count, block;
} fixed;

static stk_status read_header(fixed *a)
{
    stk__hdf5 *f = a->c->f;
    const uint64_t address = a->c->layout->address;
    const uint64_t length = 12 + (uint64_t)f->of_length + f->of_address;
    uint64_t wanted = 1, bytes;
    uint8_t data[32];

    STK_TRY(stk__hdf5_read(f, address, length, data));
    STK_TRY(stk__hdf5_whole(f, address, data, length, "FAHD", 0));
    stk__hdf5_fields at = stk__hdf5_fields_of(data, length);
    stk__hdf5_skip(&at, 5);
    const bool filtered = stk__hdf5_field(&at, 1) == 1;
    const uint64_t element = stk__hdf5_field(&at, 1);
    a->page_bits = (uint32_t)stk__hdf5_field(&at, 1);
    a->count = stk__hdf5_length(f, &at);
    a->block = stk__hdf5_address(f, &at);
    bool sound = filtered == (a->c->num_filters > 0) && a->page_bits == a->c->layout->page_bits &&
                 a->page_bits <= STK__HDF5_MOST_PAGE_BITS && element == a->c->element;
    for (uint32_t d = 0; sound && d < a->c->space->rank; d++)
        sound = stk__mul_size(wanted, a->c->most[d], &wanted);
    if (!sound || wanted != a->count || !stk__mul_size(a->count, element, &bytes) || bytes > f->end)
        return stk__hdf5_damaged(f, address, "a fixed array does not fit its dataset");
    return STK_OK;
}

static stk_status take_pages(const fixed *a, const uint8_t *bitmap, uint64_t address)
{
    const uint64_t page = UINT64_C(1) << a->page_bits, pages = (a->count - 1) / page + 1;
    const uint64_t bytes = page * a->c->element + 4;

    for (uint64_t p = 0; p < pages; p++)
        if (bitmap[p / 8] >> (7 - p % 8) & 1)
            STK_TRY(stk__hdf5_chunks_page(a->c, address + p * bytes, p * page,
                                          STK_MIN(page, a->count - p * page)));
    return STK_OK;
}

stk_status stk__hdf5_chunks_fixed(stk__hdf5_chunks *c)
{
    stk__hdf5 *f = c->f;
    fixed a = {.c = c};
    uint8_t *data = NULL;

    STK_TRY(read_header(&a));
    if (a.block == STK__HDF5_NONE || a.count == 0)
        return STK_OK;
    const uint64_t page = UINT64_C(1) << a.page_bits, head = 6 + (uint64_t)f->of_address;
    const bool paged = a.count > page;
    const uint64_t rest = paged ? ((a.count - 1) / page + 8) / 8 : a.count * c->element;
    const uint64_t length = head + rest + 4;
    STK_TRY(stk__hdf5_chunks_block(c, a.block, length, "FADB", &data));
    const stk_status status = paged ? take_pages(&a, data + head, a.block + length)
                                    : stk__hdf5_chunks_elements(c, data + head, 0, a.count);
    stk__hdf5_give(f, data, length);
    return status;
}
