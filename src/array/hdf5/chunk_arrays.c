/* SPDX-License-Identifier: Apache-2.0 */
/* Elements, pages and blocks, as fixed and extensible arrays of chunks have them. */
#include "array/hdf5/chunks.h"

#define WORK_SHARE 256u /* elements that count as one step of work */

static stk_status take_element(stk__hdf5_chunks *c, uint64_t number, const uint8_t *element)
{
    stk__hdf5_fields at = stk__hdf5_fields_of(element, c->element);
    uint64_t place[STK_ARRAY_MAX_RANK], bytes;
    uint32_t mask;

    const uint64_t address = stk__hdf5_chunks_stored(c, &at, &bytes, &mask);
    if (address == STK__HDF5_NONE)
        return STK_OK;
    for (uint32_t d = c->space->rank; d-- > 0;) {
        if (d == c->first)
            continue;
        place[d] = number % c->most[d];
        number /= c->most[d];
    }
    if (c->first < c->space->rank)
        place[c->first] = number;
    return stk__hdf5_chunks_add(c, place, address, bytes, mask);
}

stk_status stk__hdf5_chunks_elements(stk__hdf5_chunks *c, const uint8_t *data, uint64_t first,
                                     uint64_t count)
{
    for (uint64_t i = 0; i < count && first + i < c->end; i++) {
        if (i % WORK_SHARE == 0)
            STK_TRY(stk__hdf5_step(c->f));
        STK_TRY(take_element(c, first + i, data + i * c->element));
    }
    return STK_OK;
}

stk_status stk__hdf5_chunks_page(stk__hdf5_chunks *c, uint64_t address, uint64_t first,
                                 uint64_t count)
{
    stk__hdf5 *f = c->f;
    const uint64_t bytes = count * c->element;
    uint8_t *data = NULL;

    STK_TRY(stk__hdf5_load(f, address, bytes + 4, &data));
    const stk_status status =
        stk__hdf5_checksum(data, bytes) == stk__little_endian(data + bytes, 4)
            ? stk__hdf5_chunks_elements(c, data, first, count)
            : stk__hdf5_damaged(f, address,
                                "the checksum of a page of an array of chunks does not match");
    stk__hdf5_give(f, data, bytes + 4);
    return status;
}

stk_status stk__hdf5_chunks_block(const stk__hdf5_chunks *c, uint64_t address, uint64_t length,
                                  const char *signature, uint8_t **data)
{
    stk__hdf5 *f = c->f;

    STK_TRY(stk__hdf5_step(f));
    STK_TRY(stk__hdf5_load(f, address, length, data));
    stk_status status = stk__hdf5_whole(f, address, *data, length, signature, 0);
    stk__hdf5_fields at = stk__hdf5_fields_of(*data + 6, f->of_address);
    if (status == STK_OK && stk__hdf5_address(f, &at) != c->layout->address)
        status = stk__hdf5_damaged(f, address, "a block of an array of chunks is of another");
    if (status != STK_OK) {
        stk__hdf5_give(f, *data, length);
        *data = NULL;
    }
    return status;
}
